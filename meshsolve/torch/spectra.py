"""Eigenvalues that PyTorch differentiates.

For A x = w M x with x^T M x = 1, dw = x^T (dA - w dM) x. Source: Lancaster 1964, "On eigenvalues of matrices dependent on a parameter".
A multiple eigenvalue has no derivative of its own, but equal weights on all its copies have one.
"""

from __future__ import annotations

from typing import Any

from meshsolve.errors import InvalidInputError
from meshsolve.torch.entries import entries_of
from meshsolve.torch.solving import is_traceable
from meshsolve.torch.tensors import eager, pytorch, require_known


def eigsh(A: Any, k: int, M: Any = None, threads: int | None = None, *, n: int | None = None) -> tuple[Any, Any]:
    """The k smallest eigenvalues of a symmetric matrix, with gradients, and their eigenvectors, without.

    Parameters
    ----------
    A : (n, n) sparse tensor, or (indices, values), real
        As in :func:`solve`. Gradients are those of independent entries: compute both triangles from the same variables.
    k : int
    M : as A, optional
        Symmetric positive definite, as a mass matrix; gradients reach it too.
    threads : int, optional
    n : int, optional
        Number of rows of a matrix (indices, values); by default one more than the largest index.

    Returns
    -------
    w : (k,) tensor
        Ascending eigenvalues, of A's dtype and device.
    X : (n, k) tensor
        Eigenvectors with X^T M X = 1, constants for the gradient.

    Raises
    ------
    InvalidInputError
        Not such matrices; complex; or, in the backward pass, different weights on eigenvalues that are equal in rounding, which have no
        derivatives of their own; a second derivative is requested. Other errors are those of :func:`meshsolve.eigsh`.
    MeshsolveError
        Eigenvalues did not converge.

    Notes
    -----
    In a function of ``torch.compile`` ``n`` must be given. Computed on the host.
    Cost: :func:`meshsolve.eigsh` of k + 1 pairs, so that a multiple eigenvalue is not cut unnoticed; the backward pass takes O(nnz k).

    Examples
    --------
    >>> import torch                                        # doctest: +SKIP
    >>> i, v = torch.tensor([[0, 1, 2], [0, 1, 2]]), torch.tensor([3.0, 1.0, 2.0], requires_grad=True)     # doctest: +SKIP
    >>> w, X = meshsolve.torch.eigsh((i, v), 1)             # doctest: +SKIP
    >>> w.sum().backward(); v.grad                          # doctest: +SKIP
    tensor([0., 1., 0.])
    """
    if is_traceable(A) and (M is None or is_traceable(M)):
        return _eigsh(A, k, M, threads, n)
    return eager(_eigsh)(A, k, M, threads, n)


def _eigsh(A, k, M, threads, n):
    """See :func:`eigsh`."""
    from meshsolve.torch.functions import eigenvalues

    rows, columns, values, n = _sized(A, n)
    parts = [rows, columns, values]
    if M is not None:
        i, j, masses, size = _sized(M, n if is_traceable(M) else None)
        if size != n:
            raise InvalidInputError(f"M must be ({n}, {n}), as A, got ({size}, {size})")
        parts += [i, j, masses]
    for part in parts[2::3]:
        require_known(part.dtype)
        if part.is_complex() or part.dtype != values.dtype:
            raise InvalidInputError(f"A and M must hold real numbers of one dtype, got {values.dtype} and {part.dtype}")
    i, j, masses = parts[3:] or (None, None, None)
    w, X, _ = eigenvalues(values, masses, rows, columns, i, j, n, k, threads)
    return w, X.detach()


def _sized(A, n):
    """Return (rows, columns, values, number of rows) of a matrix."""
    rows, columns, values, n, _ = entries_of(A, n)
    if n is None and pytorch().compiler.is_compiling():
        raise InvalidInputError("eigsh in a compiled function needs n=, the number of rows of A, which is the length of eigenvectors")
    return rows, columns, values, n if n is not None else 1 + max((int(part.max()) for part in (rows, columns) if len(part)), default=-1)
