"""Laplacian, masses and mean curvature flow of triangle meshes as functions of the vertex positions.

The entries are plain PyTorch arithmetic (meshsolve/gradients/positions.py), so all derivatives and transforms work, on any device.
"""

from __future__ import annotations

from typing import Any

from meshsolve.errors import InvalidInputError
from meshsolve.gradients import positions
from meshsolve.options import as_integer, as_number, is_auto
from meshsolve.torch.solving import solver_of
from meshsolve.torch.tensors import pytorch, require_known
from meshsolve.types import Auto


def cotan_laplacian(V: Any, F: Any) -> tuple[Any, Any]:
    """Entries of the cotangent Laplacian as functions of the positions: L[i, j] = -(cot a + cot b) / 2.

    Parameters
    ----------
    V : (n, 3) tensor
        Positions, float32 or float64.
    F : (m, 3) integer tensor
        Triangles.

    Returns
    -------
    indices : (2, 12 m) int64 tensor
    values : (12 m,) tensor
        Duplicates are summed. The matrix is that of :func:`meshsolve.cotan_laplacian`: positive semidefinite, rows sum to 0. To add
        matrices, concatenate their indices and values.

    Raises
    ------
    InvalidInputError
        Not such tensors; a corner outside the vertices.

    Notes
    -----
    O(m). Weights of flat triangles are bounded as in :func:`meshsolve.cotan_laplacian`.

    Examples
    --------
    >>> import torch                                        # doctest: +SKIP
    >>> V, F = torch.eye(3, requires_grad=True), torch.tensor([[0, 1, 2]])     # doctest: +SKIP
    >>> i, v = meshsolve.torch.cotan_laplacian(V, F)        # doctest: +SKIP
    >>> v.square().sum().backward()                         # doctest: +SKIP
    """
    F = _checked(V, F)
    xp = pytorch()
    return positions.laplacian_indices(xp, F), positions.laplacian_values(xp, V, F)


def mass_matrix(V: Any, F: Any) -> tuple[Any, Any]:
    """Entries of the lumped mass matrix as functions of the positions: a third of each triangle to each of its corners.

    Parameters
    ----------
    V : (n, 3) tensor
    F : (m, 3) integer tensor

    Returns
    -------
    indices : (2, 3 m) int64 tensor
        Diagonal entries; duplicates are summed.
    values : (3 m,) tensor

    Raises
    ------
    InvalidInputError
        As :func:`cotan_laplacian`.

    Examples
    --------
    >>> import torch                                        # doctest: +SKIP
    >>> i, v = meshsolve.torch.mass_matrix(torch.eye(3), torch.tensor([[0, 1, 2]]))     # doctest: +SKIP
    >>> float(v.sum())                                      # doctest: +SKIP
    0.866...
    """
    F = _checked(V, F)
    xp = pytorch()
    return positions.mass_indices(xp, F), positions.masses(xp, V, F)


def mcf(V: Any, F: Any, steps: int = 1, dt: float | Auto = "auto", threads: int | None = None) -> Any:
    """Positions after steps of mean curvature flow: (M + dt L) x' = M x, with the masses M and the Laplacian L of each step.

    Parameters
    ----------
    V : (n, 3) tensor
    F : (m, 3) integer tensor
        Every vertex must be in a face with an area.
    steps : int
    dt : float or "auto"
        Time step in squared units of length. ``"auto"``: the squared mean edge length of each component of the first positions, as a
        constant.
    threads : int, optional

    Returns
    -------
    (n, 3) tensor
        Gradients reach V, also through M and L.

    Raises
    ------
    InvalidInputError
        As :func:`cotan_laplacian`; ``steps`` below 1, ``dt`` not positive.
    NotPositiveDefiniteError
        Triangles collapsed, or a vertex is in no face.

    Notes
    -----
    A step costs a numeric factorization, a solve, and in the backward pass another solve. The analysis is made once.

    Examples
    --------
    >>> import torch                                        # doctest: +SKIP
    >>> ball = meshsolve.datasets.icosphere(2)              # doctest: +SKIP
    >>> V = torch.from_numpy(ball.vertices.copy()).requires_grad_()     # doctest: +SKIP
    >>> meshsolve.torch.mcf(V, torch.from_numpy(ball.faces.astype("int64"))).square().sum().backward()     # doctest: +SKIP
    """
    F, torch, steps = _checked(V, F), pytorch(), as_integer(steps, "steps")
    if is_auto(dt):
        step = _squared_mean_edges(V.detach(), F)
    else:
        step = torch.full_like(V[:, 0], as_number(dt, "dt", above=True))
    solver, x = solver_of("cholesky", threads), V
    for _ in range(steps):
        (i, masses), (j, weights) = mass_matrix(x, F), cotan_laplacian(x, F)
        mass = torch.zeros_like(x[:, 0]).index_add(0, i[0], masses)
        x = solver((torch.cat([i, j], dim=1), torch.cat([masses, step[j[0]] * weights])), mass[:, None] * x)
    return x


def require_corners(F, n):
    """Raise if a corner of the triangles F is not one of n vertices."""
    if F.numel() and not 0 <= int(F.min()) <= int(F.max()) < n:
        raise InvalidInputError(f"F has corners outside 0..{n - 1}, the vertices: {int(F.min())} to {int(F.max())}")


def _squared_mean_edges(V, F):
    """(n,) the squared mean side of the faces in each vertex' component: a tensor, as its values would interrupt a compiled function."""
    from meshsolve.torch.functions import components

    torch, corners = pytorch(), V[F]
    part = components(F, len(V))
    length, of_face = (corners - corners.roll(1, dims=1)).norm(dim=2).sum(dim=1), part[F[:, 0]]
    total = torch.zeros_like(V[:, 0]).index_add(0, of_face, length)
    count = torch.zeros_like(V[:, 0]).index_add(0, of_face, torch.full_like(length, 3.0))
    return ((total / count.clamp(min=1)) ** 2)[part]


def _checked(V, F):
    """F as int64, checked with V."""
    torch = pytorch()
    if not isinstance(V, torch.Tensor) or V.ndim != 2 or V.shape[1] != 3 or V.is_complex():
        raise InvalidInputError(f"V must be an (n, 3) tensor, got {_described(V)}")
    require_known(V.dtype)
    integers = torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64
    if not isinstance(F, torch.Tensor) or F.ndim != 2 or F.shape[1] != 3 or F.dtype not in integers:
        raise InvalidInputError(f"F must be an (m, 3) tensor of integers, got {_described(F)}")
    if torch.compiler.is_compiling():
        from meshsolve.torch.functions import checked_corners

        return checked_corners(F, len(V))
    require_corners(F, len(V))
    return F.to(torch.int64)


def _described(value):
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, pytorch().Tensor) else type(value).__name__
