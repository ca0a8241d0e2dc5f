"""Sparse solves and determinants that PyTorch differentiates: gradients with respect to b and to the values of A.

    x = ms.torch.solve(A, b)                    # A a sparse COO or CSR tensor, or (indices, values)
    x.square().sum().backward()

With x = A^-1 b and the gradient g of a loss with respect to x: that of b is y = A^-H g, that of the entry A[i, j] is
-y_i conj(x_j), so one more solve with the factor that is there. That of log det A is the entry [j, i] of A^-1, which selected
inversion finds. Source: Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation", sections 2.2.4 and 2.3.1. PyTorch is imported when a function is called.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp

from meshsolve.api import cholesky, factorized, ildl, lu
from meshsolve.errors import InvalidInputError, MeshsolveError
from meshsolve.factor.cholesky import CholeskyFactor
from meshsolve.factor.glu import LUFactor
from meshsolve.options import one_of

__all__ = ["Solver", "logdet", "solve"]


def __dir__() -> list[str]:
    return __all__

Method: TypeAlias = Literal["auto", "cholesky", "ldl", "lu"]
METHODS = ("auto", "cholesky", "ldl", "lu")


def solve(A: Any, b: Any, method: Method = "auto", threads: int | None = None) -> Any:
    """x with A x = b; the factor is kept for the backward pass.

    Parameters
    ----------
    A : (n, n) sparse COO or CSR tensor, or (indices, values)
        ``indices`` is a (2, nnz) integer tensor of rows and columns, ``values`` an (nnz,) tensor, real or complex; duplicates are
        summed. The gradient goes to the values, stored zeros included, each as a variable of its own: for a symmetric A make
        both triangles from the same variables. Pass ``(indices, values)`` where the values are computed: that is cheapest.
    b : (n,) or (n, k) tensor
        Of the dtype of A.
    method : {"auto", "cholesky", "ldl", "lu"}
        ``"auto"``: as :func:`meshsolve.factorized` chooses.
    threads : int, optional

    Returns
    -------
    x : tensor of b's shape, dtype and device
        Tensors of other devices are copied to the CPU, where the work is done, and the result back.

    Raises
    ------
    InvalidInputError
        A is no such tensor or does not fit b; PyTorch is missing; and as :func:`meshsolve.factorized`, as are the other errors.

    Notes
    -----
    A factorization; the backward pass is one solve and O(nnz k). It can be differentiated again. For many steps with one
    pattern: :class:`Solver`.

    Examples
    --------
    >>> import torch                                        # doctest: +SKIP
    >>> i, v = torch.tensor([[0, 1], [0, 1]]), torch.tensor([2.0, 4.0], requires_grad=True)     # doctest: +SKIP
    >>> meshsolve.torch.solve((i, v), torch.ones(2)).sum().backward()     # doctest: +SKIP
    >>> v.grad                                              # doctest: +SKIP
    tensor([-0.2500, -0.0625])
    """
    return Solver(method, threads)(A, b)


def logdet(A: Any, threads: int | None = None) -> Any:
    """Natural logarithm of the determinant of a symmetric positive definite A, as in the likelihood of a Gaussian field.

    Parameters
    ----------
    A : (n, n) sparse COO or CSR tensor, or (indices, values)
        As in :func:`solve`, real; n is one more than the largest of ``indices``, as a definite matrix has a whole diagonal.
    threads : int, optional

    Returns
    -------
    tensor, a number of A's dtype and device

    Raises
    ------
    NotPositiveDefiniteError
    InvalidInputError
        A is no such tensor, complex, or not symmetric; PyTorch is missing; the gradient is differentiated again.

    Notes
    -----
    A Cholesky factorization; the backward pass is a selected inversion, two to three times as much, and cannot be differentiated
    again. For many steps with one pattern, and where solves go with it: ``Solver.logdet``.

    Examples
    --------
    >>> import torch                                        # doctest: +SKIP
    >>> i, v = torch.tensor([[0, 1], [0, 1]]), torch.tensor([2.0, 4.0], requires_grad=True)     # doctest: +SKIP
    >>> meshsolve.torch.logdet((i, v)).backward()           # doctest: +SKIP
    >>> v.grad                                              # doctest: +SKIP
    tensor([0.5000, 0.2500])
    """
    return Solver("cholesky", threads).logdet(A)


class Solver:
    """Solves systems of one pattern after another, as in the steps of an optimization: analysed once, then refactored.

    Parameters
    ----------
    method, threads
        As in :func:`solve`.

    Attributes
    ----------
    factor : CholeskyFactor, IldlFactor, LUFactor or None
        Of the last matrix.
    factorizations : int
        Numeric phases so far.
    analyses : int
        Of these, how many began with an analysis: the first, and those whose pattern or kind did not fit the factor.

    Notes
    -----
    A backward pass may come after later solves with other values: the matrix of that pass is then factored again. Not to
    be shared by threads.
    """

    def __init__(self, method: Method = "auto", threads: int | None = None) -> None:
        self.method, self.threads = one_of(method, "method", METHODS), threads
        self.factor: Any = None
        self.factorizations = self.analyses = 0
        self._held: _Matrix | None = None                                   # the _Matrix whose factor is at hand

    def __repr__(self):
        return f"Solver(method={self.method!r}, analyses={self.analyses}, factorizations={self.factorizations})"

    def __call__(self, A: Any, b: Any) -> Any:
        """x with A x = b, see :func:`solve`."""
        torch = _torch()
        if not isinstance(b, torch.Tensor) or b.layout != torch.strided:
            raise InvalidInputError(f"b has to be a dense tensor, not {type(b).__name__}")
        if b.ndim not in (1, 2):
            raise InvalidInputError(f"b has to be (n,) or (n, k), not {tuple(b.shape)}")
        rows, columns, values, n = _entries(A, len(b))
        if values.dtype != b.dtype:
            raise InvalidInputError(f"A and b have to have one dtype, not {values.dtype} and {b.dtype}")
        _require_known(values.dtype)
        return _functions()[0].apply(values, b, _Matrix(self, rows, columns, values, n), False)

    def logdet(self, A: Any) -> Any:
        """log det A, see :func:`logdet`; right after a solve with the same values nothing is factored again."""
        rows, columns, values, n = _entries(A, None)
        _require_known(values.dtype)
        return _functions()[1].apply(values, _Matrix(self, rows, columns, values, n))

    def _factor_of(self, matrix):
        """The factor of this matrix, made where it is not the one at hand."""
        if self._held is not matrix and not (self._held is not None and self._held.same_as(matrix)):
            self._held, M = None, matrix.to_scipy()
            self.factor = self._refactored(M) or self._made(M)
            self.factorizations += 1
            self._held = matrix
        return self.factor

    def _refactored(self, M):
        """The factor with new values, or None where it does not take them or there is none."""
        if self.factor is None or self.factor.shape != M.shape:
            return None
        try:
            F = self.factor.refactor(M)
        except MeshsolveError:                              # another pattern, or no longer symmetric, definite, real
            return None
        singular = self.method == "auto" and getattr(F, "inertia", (0, 0, 0))[2]
        return None if singular else F

    def _made(self, M):
        self.analyses += 1
        if self.method == "auto":
            return factorized(M, device="cpu", threads=self.threads)
        if self.method == "cholesky":
            return cholesky(M, device="cpu", threads=self.threads)
        if self.method == "ldl":
            return ildl(M, fill_level=None, device="cpu", threads=self.threads)
        return lu(M, device="cpu", threads=self.threads)


class _Matrix:
    """A matrix that was solved with: what a backward pass needs to factor it again."""

    def __init__(self, solver, rows, columns, values, n):
        self.solver, self.rows, self.columns, self.n = solver, rows, columns, n
        self._parts = _numpy(values), _numpy(rows), _numpy(columns)

    def to_scipy(self):
        values, rows, columns = self._parts
        return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=(self.n, self.n)))

    def same_as(self, other):
        return self.n == other.n and all(map(np.array_equal, self._parts, other._parts))

    def solve(self, b, adjoint):
        F, right = self.solver._factor_of(self), _numpy(b)
        x = F.solve(right, trans="H") if adjoint and isinstance(F, LUFactor) else F.solve(right)      # the others are symmetric
        return _torch().from_numpy(np.ascontiguousarray(x)).to(device=b.device, dtype=b.dtype)

    def cholesky(self):
        F = self.solver._factor_of(self)
        if not isinstance(F, CholeskyFactor):
            raise InvalidInputError("logdet is of symmetric positive definite matrices, and this one was factored by "
                                    f'{type(F).__name__}: Solver("cholesky") tells what it lacks')
        return F

    def inverse_entries(self):
        """(nnz,) entries [j, i] of the inverse for the entries [i, j] of the matrix, which is symmetric."""
        _, rows, columns = self._parts
        return np.asarray(self.cholesky().selected_inverse()[rows, columns])


def _torch():
    try:
        import torch
    except ImportError as e:
        raise InvalidInputError("meshsolve.torch needs PyTorch: pip install torch") from e
    return torch


def _require_known(dtype):
    torch = _torch()
    if dtype not in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        raise InvalidInputError(f"tensors have to hold float32, float64, complex64 or complex128, not {dtype}")


def _numpy(tensor):
    """A copy on the CPU: the caller may write to the tensor before the backward pass."""
    return np.array(tensor.detach().cpu().resolve_conj().resolve_neg().numpy())


def _entries(A, n):
    """(rows, columns, values, n) of A; ``values`` is a tensor that leads gradients to A. Without n: the rows up to the last that is
    named."""
    torch = _torch()
    if isinstance(A, torch.Tensor):
        if A.ndim != 2 or A.shape[0] != A.shape[1]:
            raise InvalidInputError(f"A has to be square, not {tuple(A.shape)}")
        if A.layout == torch.sparse_coo:
            A = A if A.is_coalesced() else A.coalesce()
            return *A.indices(), A.values(), A.shape[0]
        if A.layout == torch.sparse_csr:
            n, starts = A.shape[0], A.crow_indices()
            rows = torch.repeat_interleave(torch.arange(n, device=starts.device), starts.diff())
            return rows, A.col_indices(), A.values(), n
        raise InvalidInputError(f"A has to be a sparse COO or CSR tensor, or (indices, values), not of the layout {A.layout}")
    parts = tuple(A) if isinstance(A, (tuple, list)) else ()
    if len(parts) != 2 or not all(isinstance(part, torch.Tensor) for part in parts):
        raise InvalidInputError(f"A has to be a sparse COO or CSR tensor, or (indices, values), not {type(A).__name__}")
    indices, values = parts
    if indices.ndim != 2 or values.ndim != 1 or indices.shape != (2, len(values)) or indices.is_floating_point():
        raise InvalidInputError(f"(indices, values) have to be (2, nnz) integers and (nnz,) numbers, not {tuple(indices.shape)} of "
                                f"{indices.dtype} and {tuple(values.shape)}")
    least, most = (int(indices.min()), int(indices.max())) if indices.numel() else (0, -1)
    if n is None:
        n = most + 1
    if not 0 <= least <= most + 1 <= n:
        raise InvalidInputError(f"indices has values outside 0..{n - 1}, the rows of " + ("A" if n == most + 1 else "b"))
    return indices[0], indices[1], values, n


@functools.cache
def _functions():
    """The autograd functions of solves and of determinants; PyTorch has to be there to derive classes from its own."""
    torch = _torch()

    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, values, b, matrix, adjoint):
            x = matrix.solve(b, adjoint)
            ctx.save_for_backward(values, x)
            ctx.matrix, ctx.adjoint = matrix, adjoint
            return x

        @staticmethod
        def backward(ctx, g):
            values, x = ctx.saved_tensors
            y = Solve.apply(values, g, ctx.matrix, not ctx.adjoint)
            if not ctx.needs_input_grad[0]:
                return None, y, None, None
            # d(A^-1 b) = -A^-1 dA x; for A^-H b, whose matrix is the adjoint one, rows and columns change places.
            rows, columns = ctx.matrix.rows, ctx.matrix.columns
            product = x[rows] * y[columns].conj() if ctx.adjoint else y[rows] * x[columns].conj()
            return -(product if product.ndim == 1 else product.sum(dim=1)), y, None, None

    class LogDeterminant(torch.autograd.Function):
        @staticmethod
        def forward(ctx, values, matrix):
            ctx.save_for_backward(values)
            ctx.matrix = matrix
            return values.new_tensor(matrix.cholesky().logdet())

        @staticmethod
        def backward(ctx, g):
            return g * InverseEntries.apply(*ctx.saved_tensors, ctx.matrix), None

    class InverseEntries(torch.autograd.Function):
        """What a second derivative has to go through: once_differentiable would take the entries for constants where g is one."""

        @staticmethod
        def forward(ctx, values, matrix):
            return torch.from_numpy(matrix.inverse_entries()).to(device=values.device, dtype=values.dtype)

        @staticmethod
        def backward(ctx, g):
            raise InvalidInputError("the gradient of logdet cannot be differentiated again: that takes entries of the inverse where A "
                                    "has none")

    return Solve, LogDeterminant
