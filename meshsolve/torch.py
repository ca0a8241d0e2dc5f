"""Sparse solves and determinants that PyTorch differentiates: gradients with respect to b and to the values of A.

    x = ms.torch.solve(A, b)                    # A a sparse COO or CSR tensor, or (indices, values)
    x.square().sum().backward()

Let x = A^-1 b, and let g be the gradient of a loss with respect to x. The gradient with respect to b is y = A^-H g. That with
respect to the entry A[i, j] is -y_i conj(x_j): one more solve with the same factor. The gradient of log det A with respect to
A[i, j] is the entry [j, i] of A^-1, computed by selected inversion. Source: Giles 2008, "Collected matrix derivative results for
forward and reverse mode algorithmic differentiation", sections 2.2.4 and 2.3.1. PyTorch is imported when a function is called.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from meshsolve.api import cholesky, factorized, ildl, lu
from meshsolve.autograd import Saved, entries_of, functions, pytorch, refuse_nested_forward, require_known
from meshsolve.errors import InvalidInputError, MeshsolveError
from meshsolve.options import as_flag, one_of

__all__ = ["Solver", "logdet", "solve"]


def __dir__() -> list[str]:
    return __all__

Method: TypeAlias = Literal["auto", "cholesky", "ldl", "lu"]
METHODS = ("auto", "cholesky", "ldl", "lu")


def solve(A: Any, b: Any, method: Method = "auto", threads: int | None = None, *, pin: bool = False) -> Any:
    """x with A x = b; the factor is kept for the backward pass.

    Parameters
    ----------
    A : (n, n) sparse tensor, or (indices, values)
        COO, CSR or CSC; BSR and BSC without gradients. ``indices`` is a (2, nnz) integer tensor of rows and columns, ``values``
        an (nnz,) tensor, real or complex; duplicates are summed. Each value, stored zeros included, is a separate variable of the
        gradient: compute both triangles of a symmetric A from the same variables. ``(indices, values)`` is the fastest form.
    b : (n,) or (n, k) tensor
        It has the dtype of A.
    method : {"auto", "cholesky", "ldl", "lu"}
        ``"auto"``: as :func:`meshsolve.factorized` chooses.
    threads : int, optional
    pin : bool
        For Laplacians and other singular matrices whose rows and columns sum to 0: x has mean 0 on each component, and means of b
        are removed with a warning. Gradients are those for changes of A that keep these sums. ``"auto"`` is then Cholesky.

    Returns
    -------
    x : tensor of b's shape, dtype and device
        Tensors of other devices are copied to the CPU, and the result back.

    Raises
    ------
    InvalidInputError
        A is not such a tensor or does not fit b; PyTorch is missing. Other errors are those of :func:`meshsolve.factorized`.

    Notes
    -----
    Cost: a factorization; the backward pass takes a solve and O(nnz k). Second derivatives work, also through
    ``torch.sparse_coo_tensor``: PyTorch's derivative of that is a constant, and is replaced if a graph of the gradient is
    requested. Other operations that make sparse tensors may lose second derivatives, and are refused in this case.

    Works inside ``torch.func`` (``grad``, ``vmap``, ``jacrev``, ``jvp``, ``hessian``), for ``(indices, values)``. A batch of
    right-hand sides is solved as one block; the matrices of a batch of values are factored one by one. ``torch.compile`` keeps
    the solve outside of its graph. For many steps with one pattern use :class:`Solver`.

    Examples
    --------
    >>> import torch                                        # doctest: +SKIP
    >>> i, v = torch.tensor([[0, 1], [0, 1]]), torch.tensor([2.0, 4.0], requires_grad=True)     # doctest: +SKIP
    >>> meshsolve.torch.solve((i, v), torch.ones(2)).sum().backward()     # doctest: +SKIP
    >>> v.grad                                              # doctest: +SKIP
    tensor([-0.2500, -0.0625])
    """
    return _eager(_solve)(Solver(method, threads, pin=pin), A, b)


def logdet(A: Any, threads: int | None = None) -> Any:
    """Natural logarithm of the determinant of a symmetric positive definite A, as in the likelihood of a Gaussian field.

    Parameters
    ----------
    A : (n, n) sparse tensor, or (indices, values)
        As in :func:`solve`, real; n is one more than the largest of ``indices``, as a definite matrix has a whole diagonal.
    threads : int, optional

    Returns
    -------
    tensor, a number of A's dtype and device

    Raises
    ------
    NotPositiveDefiniteError
    InvalidInputError
        A is not such a tensor, complex, or not symmetric; PyTorch is missing; a second derivative is requested.

    Notes
    -----
    Cost: a Cholesky factorization; the backward pass is a selected inversion of two to three times that cost, and cannot be
    differentiated again. For many steps with one pattern, or with solves, use ``Solver.logdet``.

    Examples
    --------
    >>> import torch                                        # doctest: +SKIP
    >>> i, v = torch.tensor([[0, 1], [0, 1]]), torch.tensor([2.0, 4.0], requires_grad=True)     # doctest: +SKIP
    >>> meshsolve.torch.logdet((i, v)).backward()           # doctest: +SKIP
    >>> v.grad                                              # doctest: +SKIP
    tensor([0.5000, 0.2500])
    """
    return _eager(_logdet)(Solver("cholesky", threads), A)


class Solver:
    """Solves a sequence of systems of one pattern, as in an optimization: one analysis, then refactorizations.

    Parameters
    ----------
    method, threads, pin
        As in :func:`solve`.

    Attributes
    ----------
    factor : CholeskyFactor, IldlFactor, LUFactor or None
        Factor of the last matrix.
    factorizations : int
        Numeric phases so far.
    analyses : int
        Number of these that began with an analysis: the first, and those whose pattern or kind did not fit the factor.

    Notes
    -----
    A backward pass may follow later solves with other values: its matrix is then factored again. Threads must not share a Solver.
    """

    def __init__(self, method: Method = "auto", threads: int | None = None, *, pin: bool = False) -> None:
        self.method, self.threads, self.pin = one_of(method, "method", METHODS), threads, as_flag(pin, "pin")
        self.factor: Any = None
        self.factorizations = self.analyses = 0
        self._held: Any = None                                              # the Matrix that ``factor`` belongs to

    def __repr__(self):
        return f"Solver(method={self.method!r}, analyses={self.analyses}, factorizations={self.factorizations})"

    def __call__(self, A: Any, b: Any) -> Any:
        """x with A x = b, see :func:`solve`."""
        return _eager(_solve)(self, A, b)

    def logdet(self, A: Any) -> Any:
        """log det A, see :func:`logdet`; no factorization right after a solve with the same values."""
        return _eager(_logdet)(self, A)

    def _factor_of(self, matrix):
        """The factor of a :class:`~meshsolve.autograd.Matrix`, new if the last one is of another matrix."""
        if self._held is not matrix and not (self._held is not None and self._held.same_as(matrix)):
            self._held, M = None, matrix.to_scipy()
            self.factor = self._refactored(M) or self._made(M)
            self.factorizations += 1
            self._held = matrix
        return self.factor

    def _refactored(self, M):
        """The factor with new values; None if it does not fit them or does not exist."""
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
        if self.method == "auto" and not self.pin:
            return factorized(M, device="cpu", threads=self.threads)
        if self.method == "ldl":
            return ildl(M, fill_level=None, pin=self.pin, device="cpu", threads=self.threads)
        make: Any = lu if self.method == "lu" else cholesky
        return make(M, pin=self.pin, device="cpu", threads=self.threads)


def _solve(solver, A, b):
    torch = pytorch()
    refuse_nested_forward()
    if not isinstance(b, torch.Tensor) or b.layout != torch.strided:
        raise InvalidInputError(f"b must be a dense tensor, got {type(b).__name__}")
    if b.ndim not in (1, 2):
        raise InvalidInputError(f"b must be (n,) or (n, k), got {tuple(b.shape)}")
    rows, columns, values, n, loses = entries_of(A, len(b))
    if values.dtype != b.dtype:
        raise InvalidInputError(f"A and b must have the same dtype, got {values.dtype} and {b.dtype}")
    require_known(values.dtype)
    return functions()[0].apply(values, b, rows, columns, Saved(solver, n, loses), False)


def _logdet(solver, A):
    refuse_nested_forward()
    rows, columns, values, n, loses = entries_of(A, None)
    require_known(values.dtype)
    return functions()[1].apply(values, rows, columns, Saved(solver, n, loses))


_EAGER: dict[Any, Any] = {}                 # torch.compile traces this cache without a warning, unlike functools.cache


def _eager(function):
    """The function excluded from ``torch.compile``: a factorization cannot be a part of its graph."""
    if function not in _EAGER:
        _EAGER[function] = pytorch().compiler.disable(function)
    return _EAGER[function]
