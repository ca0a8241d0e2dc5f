"""Eigenvalues that PyTorch differentiates.

For A x = w M x with x^T M x = 1, dw = x^T (dA - w dM) x. Source: Lancaster 1964, "On eigenvalues of matrices dependent on a parameter".
A multiple eigenvalue has no derivative of its own, but equal weights on all its copies have one.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve import eigen
from meshsolve.errors import InvalidInputError, MeshsolveError
from meshsolve.torch.functions import entries_of, on_host, pytorch, require_known

EQUAL = 1e-8                # distance of two eigenvalues relative to the largest one that counts as 0


def eigsh(A: Any, k: int, M: Any = None, threads: int | None = None) -> tuple[Any, Any]:
    """The k smallest eigenvalues of a symmetric matrix, with gradients, and their eigenvectors, without.

    Parameters
    ----------
    A : (n, n) sparse tensor, or (indices, values), real
        As in :func:`solve`. Gradients are those of independent entries: compute both triangles from the same variables.
    k : int
    M : as A, optional
        Symmetric positive definite, as a mass matrix; gradients reach it too.
    threads : int, optional

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
    Cost: :func:`meshsolve.eigsh` of k + 1 pairs, so that a multiple eigenvalue is not cut unnoticed; the backward pass takes O(nnz k).

    Examples
    --------
    >>> import torch                                        # doctest: +SKIP
    >>> i, v = torch.tensor([[0, 1, 2], [0, 1, 2]]), torch.tensor([3.0, 1.0, 2.0], requires_grad=True)     # doctest: +SKIP
    >>> w, X = meshsolve.torch.eigsh((i, v), 1)             # doctest: +SKIP
    >>> w.sum().backward(); v.grad                          # doctest: +SKIP
    tensor([0., 1., 0.])
    """
    torch = pytorch()
    rows, columns, values, n, _ = entries_of(A, None)
    parts = [rows, columns, values]
    if M is not None:
        i, j, masses, size, _ = entries_of(M, None)
        if size != n:
            raise InvalidInputError(f"M must be ({n}, {n}), as A, got ({size}, {size})")
        parts += [i, j, masses]
    for part in parts[2::3]:
        require_known(part.dtype)
        if part.is_complex() or part.dtype != values.dtype:
            raise InvalidInputError(f"A and M must hold real numbers of one dtype, got {values.dtype} and {part.dtype}")
    masses_or_none = parts[3:] or [None, None, None]
    w, X, _ = torch.compiler.disable(_function().apply)(values, masses_or_none[2], rows, columns, *masses_or_none[:2], n, k, threads)
    return w, X


@functools.cache
def _function():
    torch = pytorch()

    class Eigenvalues(torch.autograd.Function):
        """(w, X, next eigenvalue) from (values of A, values of M or None, rows and columns of both, n, k, threads)."""

        @staticmethod
        def forward(values, masses, rows, columns, i, j, n, k, threads):
            M = None if masses is None else _matrix(masses, i, j, n)
            w, X, info = eigen.eigsh(_matrix(values, rows, columns, n), k + (1 <= k < n - 1), M=M, threads=threads)
            if not info.converged:
                raise MeshsolveError(f"eigsh: {k} eigenpairs did not converge, and gradients would have their error")
            return tuple(torch.from_numpy(np.ascontiguousarray(part)).to(values) for part in (w[:k], X[:, :k], w[k:]))

        @staticmethod
        def setup_context(ctx, inputs, output):
            values, ctx.masses, *places, _, _, _ = inputs
            w, X, after = output
            ctx.mark_non_differentiable(X, after)
            ctx.save_for_backward(values, w, X, after, *places)

        @staticmethod
        def backward(ctx, g, *_):
            dA, dM = Derivatives.apply(g, ctx.masses, *ctx.saved_tensors)
            return dA, None if ctx.masses is None else dM, None, None, None, None, None, None, None

    class Derivatives(torch.autograd.Function):
        """Gradients with respect to the values of A and M; as a function of its own, so that a second derivative is no silent constant."""

        @staticmethod
        def forward(g, masses, values, w, X, after, rows, columns, i, j):
            _require_distinct(torch.cat([w, after]), torch.cat([g, torch.zeros_like(after)]))
            return (X[rows] * X[columns]) @ g, g.new_zeros(0) if masses is None else -((X[i] * X[j]) @ (g * w))

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, *g):
            raise InvalidInputError("the gradient of eigenvalues cannot be differentiated again: that needs those of "
                                    "eigenvectors")

    return Eigenvalues


def _matrix(values, rows, columns, n):
    data, row, column = map(on_host, (values, rows, columns))
    return sp.csr_array(sp.coo_array((data.astype(np.float64), (row, column)), shape=(n, n)))


def _require_distinct(w, g):
    """Raise if neighboring eigenvalues are equal in rounding but have different weights."""
    near = (w[1:] - w[:-1] <= EQUAL * w.abs().max()) & (g[1:] != g[:-1])
    if near.any():
        k = int(near.nonzero()[0, 0])
        raise InvalidInputError(f"eigenvalues {k} and {k + 1} are equal ({float(w[k]):.6g}), and the loss weighs them differently: they "
                                "have no derivatives of their own. Use a loss with equal weights, such as their sum")
