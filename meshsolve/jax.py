"""Sparse solves, determinants and mesh operators that JAX differentiates, also inside ``jit``, ``vmap`` and ``grad``.

    x = ms.jax.solve((indices, values), b)
    g = jax.grad(lambda v: ms.jax.solve((indices, v), b).sum())(values)

A solve is ``jax.lax.custom_linear_solve`` around a callback to the host, so derivatives of all orders, forward and reverse, are solves with
the same factor. JAX is imported when a function is called. Use 64-bit numbers (``jax.config.update("jax_enable_x64", True)``): with 32 bits
solutions are rounded.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.gradients import positions
from meshsolve.gradients.factors import METHODS, Entries, Factors, Method
from meshsolve.options import as_flag, as_integer, as_number, one_of

__all__ = ["cotan_laplacian", "logdet", "mass_matrix", "mcf", "solve"]


def __dir__() -> list[str]:
    return __all__


def solve(A: Any, b: Any, method: Method = "auto", threads: int | None = None, *, pin: bool = False) -> Any:
    """x with A x = b.

    Parameters
    ----------
    A : (indices, values), or jax.experimental.sparse.BCOO
        ``indices`` is a (2, nnz) integer array of rows and columns, ``values`` an (nnz,) array, real or complex. Duplicates are summed.
    b : (n,) or (n, k) array of A's dtype
    method, threads, pin
        As in :func:`meshsolve.torch.solve`.

    Returns
    -------
    x : array of b's shape and dtype

    Raises
    ------
    InvalidInputError
        A is not such a matrix or does not fit b; JAX is missing. Errors of the factorization arrive inside JAX's error for callbacks.

    Notes
    -----
    Cost: a factorization, which derivatives use again; each derivative takes a solve. Under ``vmap`` a batch of right-hand sides is
    solved as one block, the matrices of a batch of values are factored one by one. Works on the host: arrays of other devices are
    copied by JAX.

    Examples
    --------
    >>> import jax.numpy as jnp                             # doctest: +SKIP
    >>> i, v = jnp.array([[0, 1], [0, 1]]), jnp.array([2.0, 4.0])     # doctest: +SKIP
    >>> meshsolve.jax.solve((i, v), jnp.ones(2))            # doctest: +SKIP
    Array([0.5 , 0.25], dtype=float32)
    """
    jax = _jax()
    xp = jax.numpy
    indices, values = _entries(A)
    b = xp.asarray(b)
    if b.ndim not in (1, 2) or b.dtype != values.dtype:
        raise InvalidInputError(f"b must be (n,) or (n, k) of A's dtype {values.dtype}, got {b.shape} of {b.dtype}")
    n, key = len(b), (one_of(method, "method", METHODS), threads, as_flag(pin, "pin"))
    rows, columns = indices

    def product(x):
        return xp.zeros_like(x).at[rows].add((values if x.ndim == 1 else values[:, None]) * x[columns])

    def solved(trans, _, right):
        shape = jax.ShapeDtypeStruct(right.shape, right.dtype)
        return jax.pure_callback(functools.partial(_solved, key, n, trans), shape, rows, columns, values, right, vmap_method="expand_dims")

    return jax.lax.custom_linear_solve(product, b, functools.partial(solved, "N"), functools.partial(solved, "T"))


def logdet(A: Any, n: int, threads: int | None = None) -> Any:
    """Natural logarithm of the determinant of a symmetric positive definite matrix.

    Parameters
    ----------
    A : (indices, values), or BCOO
        As in :func:`solve`, real.
    n : int
        Number of rows.
    threads : int, optional

    Returns
    -------
    number of A's dtype

    Raises
    ------
    InvalidInputError
        As :func:`solve`; a second derivative, which JAX reports.

    Notes
    -----
    Cost: a Cholesky factorization; the derivative is a selected inversion, and cannot be differentiated again.

    Examples
    --------
    >>> import jax.numpy as jnp                             # doctest: +SKIP
    >>> meshsolve.jax.logdet((jnp.array([[0, 1], [0, 1]]), jnp.array([2.0, 4.0])), 2)     # doctest: +SKIP
    Array(2.0794415, dtype=float32)
    """
    indices, values = _entries(A)
    return _determinant()(values, indices[0], indices[1], as_integer(n, "n"), threads)


def cotan_laplacian(V: Any, F: Any) -> tuple[Any, Any]:
    """Entries of the cotangent Laplacian as functions of the positions, as :func:`meshsolve.torch.cotan_laplacian`.

    Parameters
    ----------
    V : (n, 3) array
    F : (m, 3) integer array

    Returns
    -------
    indices : (2, 12 m) array
    values : (12 m,) array

    Raises
    ------
    InvalidInputError
        Not such arrays.

    Examples
    --------
    >>> import jax.numpy as jnp                             # doctest: +SKIP
    >>> i, v = meshsolve.jax.cotan_laplacian(jnp.eye(3), jnp.array([[0, 1, 2]]))     # doctest: +SKIP
    """
    xp, V, F = _checked(V, F)
    return positions.laplacian_indices(xp, F), positions.laplacian_values(xp, V, F)


def mass_matrix(V: Any, F: Any) -> tuple[Any, Any]:
    """Entries of the lumped mass matrix as functions of the positions, as :func:`meshsolve.torch.mass_matrix`.

    Parameters
    ----------
    V : (n, 3) array
    F : (m, 3) integer array

    Returns
    -------
    indices : (2, 3 m) array
    values : (3 m,) array

    Raises
    ------
    InvalidInputError
        Not such arrays.

    Examples
    --------
    >>> import jax.numpy as jnp                             # doctest: +SKIP
    >>> i, v = meshsolve.jax.mass_matrix(jnp.eye(3), jnp.array([[0, 1, 2]]))     # doctest: +SKIP
    """
    xp, V, F = _checked(V, F)
    return positions.mass_indices(xp, F), positions.masses(xp, V, F)


def mcf(V: Any, F: Any, dt: float, steps: int = 1, threads: int | None = None) -> Any:
    """Positions after steps of mean curvature flow, as :func:`meshsolve.torch.mcf`.

    Parameters
    ----------
    V : (n, 3) array
    F : (m, 3) integer array
    dt : float
        Time step in squared units of length.
    steps : int
    threads : int, optional

    Returns
    -------
    (n, 3) array

    Raises
    ------
    InvalidInputError
        Not such arrays; ``dt`` not positive; ``steps`` below 1.

    Examples
    --------
    >>> import jax, jax.numpy as jnp                        # doctest: +SKIP
    >>> ball = meshsolve.datasets.icosphere(2)              # doctest: +SKIP
    >>> g = jax.grad(lambda V: meshsolve.jax.mcf(V, ball.faces, 0.01).sum())(jnp.asarray(ball.vertices))     # doctest: +SKIP
    """
    xp, x, F = _checked(V, F)
    dt = as_number(dt, "dt", above=True)
    for _ in range(as_integer(steps, "steps")):
        (i, masses), (j, weights) = mass_matrix(x, F), cotan_laplacian(x, F)
        mass = xp.zeros_like(x[:, 0]).at[i[0]].add(masses)
        A = xp.concatenate([i, j], axis=1), xp.concatenate([masses, dt * weights])
        x = solve(A, mass[:, None] * x, "cholesky", threads)
    return x


# ---- on the host ------------------------------------------------------------------------------------------------------------


_lock = threading.Lock()                                    # JAX may run callbacks from several threads


def _solved(key, n, trans, rows, columns, values, b):
    """Solve on the host; leading dimensions of length 1 or of a common length are those of vmap."""
    rows, columns, values, b = map(np.asarray, (rows, columns, values, b))
    depth = values.ndim - 1                                 # of nested vmaps
    batch = np.broadcast_shapes(*(array.shape[:depth] for array in (rows, columns, values, b)))
    if all(np.prod(array.shape[:depth], dtype=int) == 1 for array in (rows, columns, values)):
        block = np.moveaxis(b.reshape(-1, n, *b.shape[depth + 1:]), 0, -1)
        x = _one(key, n, trans, rows.reshape(-1), columns.reshape(-1), values.reshape(-1), block.reshape(n, -1)).reshape(block.shape)
        return np.moveaxis(x, -1, 0).reshape(b.shape)
    x = np.empty((*batch, *b.shape[depth:]), b.dtype)
    for k in np.ndindex(*batch):
        x[k] = _one(key, n, trans, *(_sample(array, k) for array in (rows, columns, values, b)))
    return x


def _sample(array, k):
    return array[tuple(min(i, size - 1) for i, size in zip(k, array.shape, strict=False))]


def _one(key, n, trans, rows, columns, values, b):
    with _lock:
        return _factors(key).solve(Entries(rows.copy(), columns.copy(), values.copy(), n), b, trans).astype(b.dtype, copy=False)


@functools.cache
def _factors(key):
    """The factors of all solves with the options ``key``: one analysis serves all later matrices of its pattern."""
    method, threads, pin = key
    return Factors(method, threads, pin=pin)


# ---- helpers ------------------------------------------------------------------------------------------------------------------


def _jax():
    try:
        import jax
    except ImportError as e:
        raise InvalidInputError("meshsolve.jax needs JAX: pip install jax") from e
    return jax


def _entries(A):
    """(indices (2, nnz), values) of A."""
    xp = _jax().numpy
    if hasattr(A, "indices") and hasattr(A, "data"):        # BCOO
        if A.n_batch or A.n_dense or A.ndim != 2:
            raise InvalidInputError(f"A must be a matrix, got a BCOO of shape {A.shape} with {A.n_batch} batch dimensions")
        return A.indices.T, A.data
    if not isinstance(A, (tuple, list)) or len(A) != 2:
        raise InvalidInputError(f"A must be (indices, values) or a BCOO matrix, got {type(A).__name__}")
    indices, values = xp.asarray(A[0]), xp.asarray(A[1])
    if values.ndim != 1 or indices.shape != (2, len(values)) or indices.dtype.kind not in "iu" or values.dtype.kind not in "fc":
        raise InvalidInputError(f"(indices, values) must be (2, nnz) integers and (nnz,) numbers, got {indices.shape} of {indices.dtype} "
                                f"and {values.shape} of {values.dtype}")
    return indices, values


def _checked(V, F):
    xp = _jax().numpy
    V, F = xp.asarray(V), xp.asarray(F)
    for name, array, kind in (("V", V, "f"), ("F", F, "iu")):
        if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in kind:
            raise InvalidInputError(f"{name} must be {'positions' if name == 'V' else 'triangles'} of shape (k, 3), got {array.shape} of "
                                    f"{array.dtype}")
    return xp, V, F


@functools.cache
def _determinant():
    jax = _jax()

    @functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3, 4))
    def determinant(values, rows, columns, n, threads):
        return jax.pure_callback(functools.partial(_on_host, "logdet", n, threads), jax.ShapeDtypeStruct((), values.dtype), rows, columns,
                                 values, vmap_method="sequential")

    @determinant.defjvp
    def _(rows, columns, n, threads, primals, tangents):
        values, = primals
        inverse = jax.pure_callback(functools.partial(_on_host, "inverse", n, threads), jax.ShapeDtypeStruct(values.shape, values.dtype),
                                    rows, columns, values, vmap_method="sequential")
        return determinant(values, rows, columns, n, threads), (inverse * tangents[0]).sum()

    return determinant


def _on_host(what, n, threads, rows, columns, values):
    rows, columns, values = (np.array(part) for part in (rows, columns, values))
    entries = Entries(rows, columns, values, n)
    with _lock:
        factors = _factors(("cholesky", threads, False))
        found = factors.cholesky(entries).logdet() if what == "logdet" else factors.inverse_entries(entries)
    return np.asarray(found, values.dtype)
