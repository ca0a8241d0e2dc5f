"""Restarted GMRES for general systems, real or complex, with any preconditioner from the right, on the host.

A cycle builds an orthonormal basis of a Krylov space by modified Gram-Schmidt and minimizes the residual in it. With the
preconditioner on the right this is the residual of A x = b itself. b - A x is recomputed after each cycle. Columns run one after the
other. Cost of step j of a cycle: a product with A, one with M, and 4 j n operations. Source: Saad, Schultz 1986, "GMRES"; Saad 2003,
"Iterative methods for sparse linear systems", algorithm 9.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshsolve.errors import ConvergenceWarning, InvalidInputError
from meshsolve.foreign import is_sparse
from meshsolve.krylov.blocks import (
    as_operator,
    blocks_of,
    checked_options,
    in_same_unit,
    in_usual_unit,
    out_of_range,
    preconditioner,
    unshifted,
)
from meshsolve.krylov.constrained import solve_constrained
from meshsolve.krylov.info import CONVERGED, EXHAUSTED, OUT_OF_RANGE, Info, info_of, worst
from meshsolve.krylov.operator import Operator, is_operator, residual
from meshsolve.krylov.sqmr_rules import SLOW, STAGNATED
from meshsolve.options import as_integer, thread_count
from meshsolve.report import Report, count, warn
from meshsolve.sparse.columns import lengths
from meshsolve.sparse.constraints import checked, without_constraint
from meshsolve.sparse.matrix import Csr, as_csr, is_complex
from meshsolve.sparse.places import HOST, on_device
from meshsolve.sparse.sparse_rhs import solve_sparse_once
from meshsolve.types import Array, ArrayLike, Callback, Matrix

RESTART = 50            # default number of steps of a cycle, whose basis takes 50 vectors
ENOUGH = 0.999          # largest ratio of the residuals after and before a cycle with which another one begins
TINY = 1e-14            # length of a new vector, relative to its length before orthogonalization, that counts as 0
BROKE_DOWN = "broke down: a product with A or M is not finite"


def gmres(A: Matrix, b: ArrayLike, M: Any = None, x0: ArrayLike | None = None, rtol: float = 1e-8, atol: float = 0.0,
          maxiter: int | None = None, callback: Callback | None = None, threads: int | None = None, *, restart: int = RESTART,
          fixed: ArrayLike | None = None, pin: bool = False, fixed_values: ArrayLike | None = None) -> tuple[Array, Info]:
    """Solve A x = b for any square A, by right-preconditioned GMRES with restarts.

    Parameters
    ----------
    A : (n, n) matrix of any kind, real or complex, or real LinearOperator
        For operators see :func:`cg`.
    b : (n,) or (n, k)
    M : (n, n) LinearOperator, factor or array, optional
        Approximate inverse of A, such as the factor of :func:`meshsolve.ilu`. It must be the same linear map in all iterations.
    x0 : array of b's shape, optional
    rtol, atol : float
        A column has converged if ||b - A x|| <= max(rtol ||b||, atol) in the 2-norm.
    maxiter : int, default 10,000 iterations (not cycles)
    callback : callable, optional
        Called with the current x after each iteration, which then takes one more product with M.
    threads : int, optional
        For products with a real A.
    restart : int
        Iterations of a cycle. A cycle stores that many vectors, and more of them converge better.
    fixed, pin, fixed_values
        As in :func:`cg`.

    Returns
    -------
    x : array of b's shape; float64, or complex128 if A or b is complex
        A column that did not converge holds the iterate with the smallest residual, with a :class:`ConvergenceWarning`.
    info : Info
        ``.residuals`` are relative to ||b||: estimates inside a cycle, recomputed after it. For a block ``.iterations``,
        ``.relative_residual`` (recomputed) and ``.reason`` (the cause) are (k,) arrays, and ``.converged`` is true if all columns have.

    Raises
    ------
    InvalidInputError, NotLaplacianError (``.row``, with ``pin=True``)
        A is not square; b, M, x0 or ``fixed_values`` do not fit; NaN or infinity; a bad option; A, b or M lies on the GPU.

    Notes
    -----
    Memory: ``restart`` + 4 vectors. Source: Saad, Schultz 1986, "GMRES: a generalized minimal residual algorithm".

    Examples
    --------
    >>> import meshsolve as ms, numpy as np, scipy.sparse as sp
    >>> A = ms.datasets.grid3d(8, boundary="dirichlet") + sp.diags_array(np.full(511, 0.4), offsets=1)
    >>> x, info = ms.gmres(A, A @ np.ones(512), M=ms.ilu(A))
    >>> info.converged and info.iterations < 20
    True
    """
    if is_sparse(b):
        return solve_sparse_once(A, b, lambda B: gmres(A, B, M, x0, rtol, atol, maxiter, callback, threads, restart=restart,
                                                       fixed=fixed, pin=pin, fixed_values=fixed_values))
    options = *checked_options(rtol, atol, maxiter, callback), as_integer(restart, "restart", 1)
    _on_host(A, b, M)
    x, info = _with_constraint(A, b, M, x0, options, callback, threads, fixed, pin, fixed_values)
    if not info.converged:
        warn(f"gmres: {worst(info)}", ConvergenceWarning)
    return x, info


def iterate(A, b, M, x0, rtol, atol, maxiter, restart=RESTART, callback=None, threads=None, patience=None):
    """:func:`gmres` with checked options, without the warning. A may be a checked :class:`Csr`. A column ends as slow if its
    residual does not fall 10 times in ``patience`` iterations."""
    threads = thread_count(threads)
    matrix = Products(A, threads)
    system = blocks_of(b, x0, matrix.n, HOST, matrix.exponent, matrix.dtype)
    report, precondition = Report(threads=threads, nnz_A=matrix.nnz), _inverse(M, matrix)
    runs, B, X = [], system.B, system.X
    with report.phase("solve"):
        for c in range(B.shape[1]):
            def put(x, c=c):
                X[:, c] = x
                return system.form.deliver(unshifted(X, system.powers))

            seen = None if callback is None else lambda x, put=put: callback(put(x))
            run = Column(matrix, precondition, B[:, c].copy(), X[:, c].copy())
            run.iterate(rtol, atol * system.shift[c], maxiter, restart, seen, patience)
            X[:, c] = run.x
            runs.append(run)
    answers = unshifted(X, system.powers)
    infinite, lost, rounded = out_of_range(X, system.powers)
    for c in np.flatnonzero(infinite | lost):
        runs[c].judge_range(None if infinite[c] else rounded[:, c].copy())
    return system.form.deliver(answers), info_of("gmres", runs, report, scalar=system.form.is_vector and len(runs) == 1)


class Column:
    """GMRES on one right-hand side; ``norm`` is the true residual of ``x``, ``residuals`` its history relative to b."""

    def __init__(self, matrix, precondition, b, x):
        self._matrix, self._precondition, self._b, self.x = matrix, precondition, b, x
        self.reason, self.iterations = EXHAUSTED, 0

    def iterate(self, rtol, atol, maxiter, restart, callback, patience):
        """Run cycles until the true residual is small enough, or does not fall."""
        size = length(self._b)
        self.scale, target = size or 1.0, max(rtol * size, atol)
        self._target = target
        if size == 0:
            self.x[:] = 0
        r, self.norm = self._matrix.residual(self.x, self._b)
        self.residuals = [self.norm / self.scale]
        while self.norm > target and self.iterations < maxiter:
            steps, looked_back = min(restart, maxiter - self.iterations, patience or restart), self.norm
            step = self._cycle(r, target, steps, callback)
            x = None if step is None else self.x + step
            r, norm = (r, np.inf) if x is None else self._matrix.residual(x, self._b)
            if norm < self.norm:
                self.x, self.norm = x, norm
            self.residuals[-1] = self.norm / self.scale
            if self.norm > target and not norm < ENOUGH * looked_back:
                self.reason = STAGNATED if norm < np.inf else BROKE_DOWN
                return
            if patience and self.norm > target and self.iterations >= patience and self.residuals[-1] > 0.1 * self.residuals[-1 - patience]:
                self.reason = SLOW.format(patience)
                return
        if self.norm <= target:
            self.reason = CONVERGED

    def judge_range(self, x):
        """A solution that leaves the range of float64 in the scale of the caller's b has not converged: x is it after rounding, or None if
        it is infinite."""
        self.norm = np.inf if x is None else self._matrix.residual(x, self._b)[1]
        if self.norm > self._target:
            self.reason = OUT_OF_RANGE

    def _cycle(self, r, target, steps, callback):
        """Minimize the residual over at most ``steps`` vectors; return the change of x, or None if a product is not finite."""
        matrix, V, R, Q = self._matrix, [r / self.norm], np.zeros((steps + 1, steps), r.dtype), np.eye(steps + 1, dtype=r.dtype)
        for j in range(steps):                              # A M^-1 V = V H and Q H = R, where Q is made of rotations
            w = matrix.multiply(self._precondition(V[j]))
            h, before = np.zeros(j + 1, r.dtype), length(w)
            if not np.isfinite(before):
                return self._step(V, R, Q, j) if j else None
            for i, v in enumerate(V):
                h[i] = np.einsum("i,i", v.conj(), w)
                w -= h[i] * v
            after = length(w)
            R[:j + 1, j] = Q[:j + 1, :j + 1] @ h
            a, pivot = R[j, j], np.hypot(abs(R[j, j]), after)
            Q[j:j + 2] = np.array([[a.conjugate(), after], [-after, a]]) / (pivot or 1.0) @ Q[j:j + 2]
            R[j, j] = pivot
            self.iterations += 1
            self.residuals.append(self.norm * abs(Q[j + 1, 0]) / self.scale)
            count(self.iterations, 0)
            if callback is not None:
                callback(self.x + self._step(V, R, Q, j + 1))
            if after <= TINY * before or self.residuals[-1] * self.scale <= target:
                break                                       # the space is invariant, or the residual is small enough
            V.append(w / after)
        return self._step(V, R, Q, j + 1)

    def _step(self, V, R, Q, k):
        """The change of x by k vectors of the basis. R is singular if A is: then the shortest solution."""
        y = np.linalg.lstsq(R[:k, :k], self.norm * Q[:k, 0], rcond=None)[0]
        return self._precondition(sum(y[i] * V[i] for i in range(k)))


class Products:
    """Products with a :class:`Csr`, real or complex, in a usual unit (``exponent``), or an :class:`Operator`. Real ones have the same
    bits on any number of threads."""

    def __init__(self, A, threads):
        if not isinstance(A, Csr):
            A = Operator(A) if is_operator(A) else as_csr(A, dtype=np.complex128 if is_complex(A) else np.float64, threads=threads)
        A, self.exponent = in_usual_unit(A) if isinstance(A, Csr) else (A, 0)
        self.n, self.nnz, self.dtype, self._A, self._threads = A.n, A.nnz, np.dtype(np.float64), A, threads
        if isinstance(A, Csr) and A.data.dtype.kind == "c":
            self.dtype, self._A = A.data.dtype, A.to_scipy()

    def multiply(self, x):
        """A x."""
        return -self.residual(x, np.zeros_like(x))[0]

    def residual(self, x, b):
        """b - A x and its length, without a product if x is zero."""
        if not x.any():
            r = b.copy()
        elif self.dtype.kind == "c":
            r = b - self._A @ x
        else:
            r = np.empty_like(b)
            residual(self._A, b, x, r, self._threads)
        return r, length(r)


def length(v):
    """The 2-norm of a vector, infinite or NaN if an entry is."""
    with np.errstate(invalid="ignore"):
        return float(lengths(v.view(np.float64)[:, None])[0])


def _with_constraint(A, b, M, x0, options, callback, threads, fixed, pin, fixed_values):
    """:func:`gmres` of checked arguments for all rows or for the free ones."""
    pin = checked(fixed, pin)
    if fixed is None and not pin:
        without_constraint(fixed_values)
        return iterate(A, b, M, x0, *options, callback, threads)
    return solve_constrained(lambda A, b, M, x0, callback: iterate(A, b, M, x0, *options, callback, threads),
                             A, b, M, x0, callback, threads, fixed, pin, fixed_values, symmetric=False)


def _on_host(A, b, M):
    for name, given in (("A", A), ("b", b), ("M", M)):
        if on_device(given) or getattr(given, "on_device", False):
            raise InvalidInputError(f"{name} lies on the GPU, but gmres runs on the host: pass {name}.get(), or a factor made with "
                                    'device="cpu"')


def _inverse(M, matrix):
    """M as a function of a vector."""
    if matrix.dtype.kind != "c" or M is None:
        apply = in_same_unit(preconditioner(M, matrix.n), M, matrix.exponent)
        return lambda v: apply(v[:, None])[:, 0]
    operator = as_operator(M, matrix.n)
    return in_same_unit(lambda v: np.asarray(operator.matvec(v), matrix.dtype), M, matrix.exponent)
