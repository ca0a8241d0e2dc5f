"""Sparse solves and determinants that PyTorch differentiates: gradients with respect to b and to the values of A.

    x = ms.torch.solve(A, b)                    # A a sparse COO or CSR tensor, or (indices, values)
    x.square().sum().backward()

Let x = A^-1 b, and let g be the gradient of a loss with respect to x. The gradient with respect to b is y = A^-H g. That with
respect to the entry A[i, j] is -y_i conj(x_j): one more solve with the same factor. The gradient of log det A with respect to
A[i, j] is the entry [j, i] of A^-1, computed by selected inversion. Source: Giles 2008, "Collected matrix derivative results for
forward and reverse mode algorithmic differentiation", sections 2.2.4 and 2.3.1. PyTorch is imported when a function is called.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.gradients.factors import METHODS, Factors, Method
from meshsolve.options import as_flag, one_of
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import as_indices
from meshsolve.sparse.constraints import checked, without_constraint
from meshsolve.torch.entries import entries_of, refuse_nested_forward, require_indices
from meshsolve.torch.tensors import eager, pytorch, require_known


def solve(A: Any, b: Any, method: Method = "auto", threads: int | None = None, *, pin: bool = False, fixed: Any = None,
          fixed_values: Any = None) -> Any:
    """x with A x = b; the factor is kept for the backward pass.

    Parameters
    ----------
    A : (n, n) sparse tensor, or (indices, values)
        COO, CSR or CSC; BSR and BSC without gradients. ``indices`` is a (2, nnz) integer tensor of rows and columns, ``values``
        an (nnz,) tensor, real or complex; duplicates are summed. Each value, stored zeros included, is a separate variable of the
        gradient: compute both triangles of a symmetric A from the same variables. ``(indices, values)`` is the fastest form.
    b : (n,) or (n, k) tensor
        It has the dtype of A.
    method : {"auto", "cholesky", "ldl", "lu", "cg"}
        ``"auto"``: as :func:`meshsolve.factorized` chooses. ``"cg"``: conjugate gradients with an approximate factor
        (:func:`meshsolve.parac`), for Laplacians of large graphs, to a relative residual of 1e-12; the derivative is implicit, so
        iterations are not recorded.
    threads : int, optional
    pin : bool
        For Laplacians and other singular matrices whose rows and columns sum to 0: x has mean 0 on each component, and means of b
        are removed with a warning. Gradients are those for changes of A that keep these sums. ``"auto"`` is then Cholesky.
    fixed : (c,) integers, optional
        Rows whose values are prescribed: x there is ``fixed_values``, and their equations are left out.
    fixed_values : (c,) or (c, k) tensor, optional
        Prescribed values, zeros by default; gradients reach them.

    Returns
    -------
    x : tensor of b's shape, dtype and device
        Real CUDA tensors are solved with on the GPU, on PyTorch's current stream; other devices are copied to the CPU, and the result back.

    Raises
    ------
    InvalidInputError
        A is not such a tensor or does not fit b; ``fixed`` is out of range, repeated or given with ``pin``; PyTorch is missing. Other
        errors are those of :func:`meshsolve.factorized`.
    MeshsolveError
        ``method="cg"`` does not converge.

    Notes
    -----
    Cost: a factorization; the backward pass takes a solve and O(nnz k). Second derivatives work, also through
    ``torch.sparse_coo_tensor``: PyTorch's derivative of that is a constant, and is replaced if a graph of the gradient is
    requested. Other operations that make sparse tensors may lose second derivatives, and are refused in this case.

    Works inside ``torch.func`` (``grad``, ``vmap``, ``jacrev``, ``jvp``, ``hessian``), for ``(indices, values)``. A batch of
    right-hand sides is solved as one block; the matrices of a batch of values are factored one by one. In a function of
    ``torch.compile`` it is one node of the graph, and the factor of the last matrix is kept for each ``method``, ``threads`` and ``pin``.
    Only sparse tensors and ``fixed`` interrupt the graph. For many steps with one pattern use :class:`Solver`.

    Examples
    --------
    >>> import torch                                        # doctest: +SKIP
    >>> i, v = torch.tensor([[0, 1], [0, 1]]), torch.tensor([2.0, 4.0], requires_grad=True)     # doctest: +SKIP
    >>> meshsolve.torch.solve((i, v), torch.ones(2)).sum().backward()     # doctest: +SKIP
    >>> v.grad                                              # doctest: +SKIP
    tensor([-0.2500, -0.0625])
    """
    if is_traceable(A, fixed):
        return _solve(_shared(method, threads, pin), A, b, fixed_values)
    return eager(_solve_once)(method, threads, pin, A, b, fixed, fixed_values)


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
    if is_traceable(A):
        return _logdet(_shared("cholesky", threads, False), A)
    return eager(_logdet_once)(threads, A)


class Solver(Sealed):
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
        pytorch()
        self.__setstate__(Factors(method, threads, pin=pin))

    def __getstate__(self):
        return self._factors

    def __setstate__(self, factors):
        from meshsolve.torch.functions import name_of

        self._factors, self._name = factors, name_of(factors)

    @property
    def factor(self) -> Any:
        return self._factors.factor

    @property
    def factorizations(self) -> int:
        return self._factors.factorizations

    @property
    def analyses(self) -> int:
        return self._factors.analyses

    def __repr__(self):
        return f"Solver(method={self._factors.method!r}, analyses={self.analyses}, factorizations={self.factorizations})"

    def __call__(self, A: Any, b: Any, *, fixed: Any = None, fixed_values: Any = None) -> Any:
        """x with A x = b, see :func:`solve`."""
        if is_traceable(A, fixed):
            return _solve(self._name, A, b, fixed_values)
        return eager(_solve_any)(self._factors, A, b, fixed, fixed_values)

    def logdet(self, A: Any) -> Any:
        """log det A, see :func:`logdet`; no factorization right after a solve with the same values."""
        if is_traceable(A):
            return _logdet(self._name, A)
        return eager(_logdet)(self._factors, A)


def solver_of(method, threads):
    """Return a :class:`Solver` for a loop; in a function that torch.compile traces, :func:`solve` with the shared factors."""
    if pytorch().compiler.is_compiling():
        return lambda A, b: solve(A, b, method, threads)
    return Solver(method, threads)


def is_traceable(A, fixed=None):
    """Return True if torch.compile is tracing a call with these arguments, and its graph can have it.

    A graph of torch.compile has no sparse tensors, and no results whose size depends on values, as the number of free rows.
    """
    return pytorch().compiler.is_compiling() and fixed is None and isinstance(A, (tuple, list))


def _shared(method, threads, pin):
    """Return the name of the factors that compiled functions share: an object made in a graph would not exist when it runs."""
    from meshsolve.torch.functions import shared_name

    return shared_name(one_of(method, "method", METHODS), threads, as_flag(pin, "pin"))


def _solve_once(method, threads, pin, A, b, fixed, fixed_values):
    return Solver(method, threads, pin=pin)(A, b, fixed=fixed, fixed_values=fixed_values)


def _logdet_once(threads, A):
    return Solver("cholesky", threads).logdet(A)


def _solve_any(factors, A, b, fixed, fixed_values):
    refuse_nested_forward()
    checked(fixed, factors.pin)
    if fixed is None:
        return _solve(factors, A, b, fixed_values)
    return _solve_free(factors, *_system(A, b), b, fixed, fixed_values)


def _solve(held, A, b, fixed_values):
    """Solve with the factors ``held``, Factors or their name."""
    from meshsolve.torch.functions import Saved, solved

    rows, columns, values, loses = _system(A, b)
    without_constraint(fixed_values)
    return solved(values, b, rows, columns, False, held if isinstance(held, str) else Saved(held, loses))


def _system(A, b):
    """Return (rows, columns, values, loses) of a matrix that fits b."""
    torch = pytorch()
    if not isinstance(b, torch.Tensor) or b.layout != torch.strided:
        raise InvalidInputError(f"b must be a dense tensor, got {type(b).__name__}")
    if b.ndim not in (1, 2):
        raise InvalidInputError(f"b must be (n,) or (n, k), got {tuple(b.shape)}")
    rows, columns, values, n, loses = entries_of(A, len(b))
    if values.dtype != b.dtype:
        raise InvalidInputError(f"A and b must have the same dtype, got {values.dtype} and {b.dtype}")
    require_known(values.dtype)
    if n != len(b):
        raise InvalidInputError(f"b must be ({n},) or ({n}, k), got {tuple(b.shape)}")
    return rows, columns, values, loses


def _solve_free(factors, rows, columns, values, loses, b, fixed, fixed_values):
    """Solve for the rows that are not fixed: A_ff x_f = b_f - A_fc x_c."""
    from meshsolve.torch.functions import Saved, solved

    torch, n = pytorch(), len(b)
    require_indices(rows, columns, n)
    fixed = torch.from_numpy(as_indices(fixed, n, "fixed").astype(np.int64)).to(b.device)
    prescribed = b.new_zeros((len(fixed), *b.shape[1:])) if fixed_values is None else fixed_values
    if not isinstance(prescribed, torch.Tensor) or prescribed.shape != (len(fixed), *b.shape[1:]) or prescribed.dtype != b.dtype:
        raise InvalidInputError(f"fixed_values must be a tensor of {b.dtype} with shape {(len(fixed), *b.shape[1:])}, got "
                                f"{getattr(prescribed, 'dtype', type(prescribed).__name__)} {tuple(getattr(prescribed, 'shape', ()))}")
    x = torch.zeros_like(b).index_copy(0, fixed, prescribed)
    is_free = torch.ones(n, dtype=torch.bool, device=b.device)
    is_free[fixed] = False
    free = torch.nonzero(is_free)[:, 0]
    if not len(free):
        return x
    number = torch.cumsum(is_free, 0) - 1
    inner, edge = (torch.nonzero(is_free[rows] & side)[:, 0] for side in (is_free[columns], ~is_free[columns]))
    known = x[columns[edge]]
    weight = values[edge] if b.ndim == 1 else values[edge][:, None]
    right = (b - torch.zeros_like(b).index_add(0, rows[edge], weight * known))[free]
    places = number[rows[inner]], number[columns[inner]]
    return x.index_copy(0, free, solved(values[inner], right, *places, False, Saved(factors, loses)))


def _logdet(held, A):
    from meshsolve.torch.functions import Saved, log_determinant

    if not isinstance(held, str):
        refuse_nested_forward()
    rows, columns, values, n, loses = entries_of(A, -1)
    require_known(values.dtype)
    return log_determinant(values, rows, columns, n, held if isinstance(held, str) else Saved(held, loses))
