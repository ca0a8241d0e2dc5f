"""Sparse solves and determinants that PyTorch differentiates: gradients with respect to b and to the values of A.

    x = ms.torch.solve(A, b)                    # A a sparse COO or CSR tensor, or (indices, values)
    x.square().sum().backward()

With x = A^-1 b and the gradient g of a loss with respect to x: that of b is y = A^-H g, that of the entry A[i, j] is
-y_i conj(x_j), so one more solve with the factor that is there. That of log det A is the entry [j, i] of A^-1, which selected
inversion finds. Source: Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation", sections 2.2.4 and 2.3.1. PyTorch is imported when a function is called.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from meshsolve.api import cholesky, factorized, ildl, lu
from meshsolve.autograd import Held, entries_of, functions, pytorch, refuse_nested_forward, require_known
from meshsolve.errors import InvalidInputError, MeshsolveError
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
    A : (n, n) sparse tensor, or (indices, values)
        COO, CSR or CSC; BSR and BSC where they require no gradients. ``indices`` is a (2, nnz) integer tensor of rows and columns,
        ``values`` an (nnz,) tensor, real or complex; duplicates are summed. The gradient goes to the values, stored zeros included,
        each as a variable of its own: for a symmetric A make both triangles from the same variables. Pass ``(indices, values)`` where
        the values are computed: that is cheapest.
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
    A factorization; the backward pass is one solve and O(nnz k). It can be differentiated again, also through a sparse tensor that was
    made of values: PyTorch's own derivative of ``sparse_coo_tensor`` is replaced where a graph of the gradient is asked for, as it is a
    constant there. What else makes a sparse tensor may lose second derivatives, and is refused then.

    Works inside ``torch.func`` (``grad``, ``vmap``, ``jacrev``, ``jvp``, ``hessian``), for ``(indices, values)``. A batch of right-hand
    sides is one block; a batch of values is factored one by one. ``torch.compile`` leaves the solve out of its graph. For many steps with
    one pattern: :class:`Solver`.

    Examples
    --------
    >>> import torch                                        # doctest: +SKIP
    >>> i, v = torch.tensor([[0, 1], [0, 1]]), torch.tensor([2.0, 4.0], requires_grad=True)     # doctest: +SKIP
    >>> meshsolve.torch.solve((i, v), torch.ones(2)).sum().backward()     # doctest: +SKIP
    >>> v.grad                                              # doctest: +SKIP
    tensor([-0.2500, -0.0625])
    """
    return _eager(_solve)(Solver(method, threads), A, b)


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
    return _eager(_logdet)(Solver("cholesky", threads), A)


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
        self._held: Any = None                                              # the Matrix that ``factor`` belongs to

    def __repr__(self):
        return f"Solver(method={self.method!r}, analyses={self.analyses}, factorizations={self.factorizations})"

    def __call__(self, A: Any, b: Any) -> Any:
        """x with A x = b, see :func:`solve`."""
        return _eager(_solve)(self, A, b)

    def logdet(self, A: Any) -> Any:
        """log det A, see :func:`logdet`; right after a solve with the same values nothing is factored again."""
        return _eager(_logdet)(self, A)

    def _factor_of(self, matrix):
        """The factor of a :class:`~meshsolve.autograd.Matrix`, made if the last one belongs to another."""
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


def _solve(solver, A, b):
    torch = pytorch()
    refuse_nested_forward()
    if not isinstance(b, torch.Tensor) or b.layout != torch.strided:
        raise InvalidInputError(f"b has to be a dense tensor, not {type(b).__name__}")
    if b.ndim not in (1, 2):
        raise InvalidInputError(f"b has to be (n,) or (n, k), not {tuple(b.shape)}")
    rows, columns, values, n, loses = entries_of(A, len(b))
    if values.dtype != b.dtype:
        raise InvalidInputError(f"A and b have to have one dtype, not {values.dtype} and {b.dtype}")
    require_known(values.dtype)
    return functions()[0].apply(values, b, rows, columns, Held(solver, n, loses), False)


def _logdet(solver, A):
    refuse_nested_forward()
    rows, columns, values, n, loses = entries_of(A, None)
    require_known(values.dtype)
    return functions()[1].apply(values, rows, columns, Held(solver, n, loses))


_EAGER: dict[Any, Any] = {}                 # a cache that torch.compile traces without a warning, as it does not functools.cache


def _eager(function):
    """A function that ``torch.compile`` calls as it is: a factorization cannot be a part of its graph."""
    if function not in _EAGER:
        _EAGER[function] = pytorch().compiler.disable(function)
    return _EAGER[function]
