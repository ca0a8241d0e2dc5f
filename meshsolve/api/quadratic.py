"""Convex quadratic programs with bounds and equalities: an interior point method whose every step is a refactorization.

min 1/2 x^T A x - b^T x   subject to   E x = e,   lower <= x <= upper,   some x fixed.

A step solves with A + D, where D is a nonnegative diagonal: the pattern never changes, so the analysis is made once. At the end active
bounds are made exact by a primal-dual active set method on the same factor. ``interior_point.py`` has the steps and their sources.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from meshsolve import foreign
from meshsolve.api.definite import cholesky
from meshsolve.api.factors import ildl
from meshsolve.api.interior_point import Problem
from meshsolve.device import choose
from meshsolve.errors import (
    ConvergenceWarning,
    InvalidInputError,
    MeshsolveWarning,
    NotPositiveDefiniteError,
    SingularMatrixError,
)
from meshsolve.options import as_number, counted, thread_count
from meshsolve.report import Report, warn, without_warnings
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import as_array, as_indices
from meshsolve.sparse.matrix import as_symmetric
from meshsolve.sparse.structure import rectangular
from meshsolve.types import Array, ArrayLike, Device, Matrix

DEPENDENT = 1e-10       # distance of a row of Aeq from the span of those before it, relative to its length: below is rounding error


@dataclass
class QuadraticInfo:
    """How a minimum was found.

    Attributes
    ----------
    converged : bool
        ``kkt_residual`` is at most ``tol``.
    kkt_residual : float or (k,) float64
        Largest violation of the optimality conditions, relative to the largest of b and A x: gradient on free rows, its sign at active
        bounds, bounds, equalities.
    iterations : int
        Factorizations.
    active : (n,) int8
        -1 at the lower bound, 1 at the upper bound, 0 between them.
    multipliers : (m,) float64
        y of the equalities: A x - b = E^T y + z, where z is not negative at lower bounds and not positive at upper ones.
    reason : str
    report : Report
    """

    converged: bool
    kkt_residual: float | Array
    iterations: int
    active: Array
    multipliers: Array
    reason: str = "converged"
    report: Report = field(default_factory=Report)


class Quadratic(Sealed):
    """A convex quadratic function, to be minimized for many b, bounds and prescribed values on one analysis.

    Parameters
    ----------
    A : (n, n) symmetric matrix of any kind
        Positive definite on the free rows, or on the null space of ``Aeq`` in them.
    fixed : (f,) integers, one integer, or (n,) bool, optional
        Rows whose values are prescribed.
    Aeq : (m, n) matrix, optional
        Rows of equalities, linearly independent.
    device : {"auto", "cpu", "cuda"}
        Where the factor lies and solves. The steps of the method run on the host.
    threads : int, optional

    Raises
    ------
    InvalidInputError
        A is not square or holds NaN, ``Aeq`` has another number of columns, every row is fixed.
    NotSymmetricError
        A is not symmetric: ``.row``, ``.column``.
    DeviceUnavailableError
        ``device="cuda"`` without a GPU.

    Examples
    --------
    A string that is pressed down on a table:

    >>> import numpy as np, meshsolve as ms
    >>> A = ms.datasets.grid2d(7, 1, boundary="dirichlet") - 2 * np.eye(7)
    >>> x, info = ms.Quadratic(A).minimize(-np.ones(7), lower=-3.0)
    >>> x.round(6).tolist()
    [-2.0, -3.0, -3.0, -3.0, -3.0, -3.0, -2.0]
    """

    def __init__(self, A: Matrix, fixed: ArrayLike | None = None, Aeq: Matrix | None = None, *, device: Device = "auto",
                 threads: int | None = None) -> None:
        self._threads = thread_count(threads)
        M = as_symmetric(A, threads=self._threads)
        self._A, self.n, self._device = M.to_scipy(), M.n, choose(device, M.n)
        self._fixed = as_indices([] if fixed is None else fixed, M.n)
        self._free = np.delete(np.arange(M.n), self._fixed)
        if len(self._free) == 0:
            raise InvalidInputError("fixed must leave a row free, got all of them")
        self._E = _equalities(Aeq, M.n)
        self._block = _with_diagonal(self._A[self._free][:, self._free])
        self._rows = np.repeat(np.arange(len(self._free)), np.diff(self._block.indptr))
        self._diagonal = np.flatnonzero(self._rows == self._block.indices)
        self._constraints = sp.csr_array(self._E[:, self._free])
        self._factor = None

    def minimize(self, b: ArrayLike, fixed_values: ArrayLike | None = None, beq: ArrayLike | None = None, lower: ArrayLike | None = None,
                 upper: ArrayLike | None = None, *, tol: float = 1e-9) -> tuple[Array, QuadraticInfo]:
        """Minimize 1/2 x^T A x - b^T x.

        Parameters
        ----------
        b : (n,) or (n, k) array_like
            Each column is a problem.
        fixed_values : number, (f,) or (f, k) array_like, optional
            Values of the fixed rows in the order of ``fixed``; default 0. Bounds do not apply to them.
        beq : number, (m,) or (m, k) array_like, optional
            Right-hand sides of the equalities; default 0.
        lower, upper : (n,) array_like or number, optional
            Bounds; -inf and inf do not bound a row. Equal bounds fix a value.
        tol : float
            Largest ``kkt_residual``.

        Returns
        -------
        x : array of b's shape
        info : QuadraticInfo
            For (n, k) columns ``kkt_residual`` is (k,), ``active`` (n, k), ``multipliers`` (m, k), ``iterations`` their sum.

        Raises
        ------
        InvalidInputError
            A shape does not fit; NaN; ``lower`` above ``upper``, a lower bound of inf or an upper one of -inf (names the row).
        NotPositiveDefiniteError
            A is not positive definite on the free rows, or on the null space of ``Aeq`` in them, and nothing bounds x: ``.column``.
        SingularMatrixError
            A row of ``Aeq`` depends on the rows before it, on the free rows of x: ``.index``.

        Warns
        -----
        ConvergenceWarning
            ``tol`` was not reached: no point may satisfy bounds and equalities.
        """
        given = as_array(b, "b")
        k = given.shape[1] if given.ndim == 2 else 1
        right, values = _columns(given, self.n, k, "b"), _columns(fixed_values, len(self._fixed), k, "fixed_values")
        equal = _columns(beq, self._E.shape[0], k, "beq")
        lo, hi = (_bound(x, self.n, name, default) for x, name, default in ((lower, "lower", -np.inf), (upper, "upper", np.inf)))
        if (lo > hi).any():
            k = int((lo > hi).argmax())
            raise InvalidInputError(f"lower must not be above upper, in row {k} they are {lo[k]:.6g} and {hi[k]:.6g}")
        if ((lo == np.inf) | (hi == -np.inf)).any():
            k = int(((lo == np.inf) | (hi == -np.inf)).argmax())
            raise InvalidInputError(f"the bounds of row {k} must leave a finite number, they are {lo[k]:.6g} and {hi[k]:.6g}: "
                                    "give -inf for no lower bound, inf for no upper one")
        tol = as_number(tol, "tol", above=True)
        solved = [self._minimized(*column, lo, hi, tol) for column in zip(right, values, equal, strict=True)]
        return solved[0] if given.ndim < 2 else _together(solved, self.n, self._E.shape[0])

    @functools.cached_property
    def _magnitudes(self):
        return abs(self._block)

    def _minimized(self, b, fixed_values, e, lo, hi, tol):
        """(x, info) of one problem."""
        x = np.zeros(self.n)
        x[self._fixed] = fixed_values
        problem = Problem(self, (b - self._A @ x)[self._free], e - self._E @ x, lo[self._free], hi[self._free])
        y, active = problem.solve(tol)
        problem.x = np.clip(problem.x, problem.lo, problem.hi)      # an inactive bound may be passed by a rounding error
        x[self._free] = problem.x
        at = np.zeros(self.n, np.int8)
        at[self._free] = active
        residual = problem.residual(active)
        info = QuadraticInfo(residual <= tol, residual, problem.steps, at, y, report=problem.report)
        if not info.converged:
            info.reason = "the optimality conditions are not met; no point may satisfy bounds and equalities"
            warn(f"Quadratic.minimize: {info.reason} (residual {residual:.1e}, tol {tol:.1e})", ConvergenceWarning)
        return x, info

    def _solver(self, added, active=None):
        """Callable (f,), (m,) -> (x, y): solves (A + diag(added)) x - E^T y = f, E x = e. ``active`` rows of x are f itself."""
        data = self._block.data.copy()
        data[self._diagonal] += added
        constraints = self._constraints
        if active is not None and active.any():
            data[active[self._rows] | active[self._block.indices]] = 0
            data[self._diagonal[active]] = 1
            constraints = sp.csr_array(constraints @ sp.diags_array((~active).astype(float)))
        H = sp.csr_array((data, self._block.indices, self._block.indptr), shape=self._block.shape)
        if self._E.shape[0] == 0:
            self._factor = self._definite(H)
            return lambda f, e: (self._factor.solve(f), np.zeros(0))
        return self._saddle(H, constraints, active is not None)

    def _definite(self, H):
        """The Cholesky factor of H. Errors have the numbering of A."""
        try:
            if self._factor is None:
                return cholesky(H, device=self._device, threads=self._threads)
            return self._factor._refactor_values(H.data)
        except NotPositiveDefiniteError as e:
            row = int(self._free[e.column])
            raise NotPositiveDefiniteError(f"A must be positive definite on the free rows, the pivot of row {row} is not positive: "
                                           "fix rows, or bound x on both sides", row) from e

    def _saddle(self, H, constraints, has_active):
        """The same with equalities, on the complete L D L^T factor of [H E^T; E 0]. Equalities without a free row have the multiplier 0."""
        n, m = H.shape[0], self._E.shape[0]
        without = (abs(constraints).sum(axis=1) == 0) & has_active
        corner = sp.coo_array((-without.astype(np.float64), (range(m), range(m))), shape=(m, m))      # stores zeros: one pattern
        K = sp.csr_array(sp.block_array([[H, constraints.T], [constraints, corner]]))
        with without_warnings(MeshsolveWarning):
            self._factor = (ildl(K, fill_level=None, device=self._device, threads=self._threads) if self._factor is None
                            else self._factor.refactor(K))
            inertia = self._factor.inertia
        if inertia[1] != m or inertia[2]:
            self._refuse(constraints, inertia, has_active)

        def solve(f, e):
            both = self._factor.solve(np.r_[f, e])
            return both[:n], -both[n:]
        return solve

    def _refuse(self, constraints, inertia, has_active):
        """Raise the error for a saddle point matrix with this inertia."""
        row = -1 if has_active else _dependent_row(constraints)
        if row >= 0 or has_active:
            raise SingularMatrixError("the rows of Aeq must be independent on the free rows of x: "
                                      f"row {row} depends on the rows before it; leave it out", row)
        raise NotPositiveDefiniteError("A must be positive definite on the null space of Aeq in the free rows: it has "
                                       f"{inertia[1] - constraints.shape[0]} negative and {inertia[2]} zero eigenvalues there")


def _with_diagonal(A):
    """A csr_array with its whole diagonal stored."""
    A = A.tocoo()
    n = A.shape[0]
    out = sp.csr_array((np.r_[A.data, np.zeros(n)], (np.r_[A.row, np.arange(n)], np.r_[A.col, np.arange(n)])), shape=A.shape)
    out.sum_duplicates()
    return out


def _equalities(Aeq, n):
    if Aeq is None:
        return sp.csr_array((0, n))
    given = foreign.as_known(Aeq, "Aeq")
    given = given if sp.issparse(given) else np.atleast_2d(as_array(given, "Aeq"))
    if given.ndim != 2 or given.dtype.kind not in "fiub":
        raise InvalidInputError(f"Aeq must be a matrix of real numbers, got shape {given.shape} of {given.dtype}")
    E = (rectangular(given, "Aeq") if sp.issparse(given) else sp.csr_array(given)).astype(np.float64)
    if E.shape[1] != n or not np.isfinite(E.data).all():
        raise InvalidInputError(f"Aeq must be a finite matrix with {n} columns, as A has, got shape {E.shape}")
    return E


def _dependent_row(E):
    """The first row of E that depends on the rows before it, -1 if none does. Dense: only for the message of an error."""
    size = np.sqrt(E.multiply(E).sum(axis=1))
    R = np.linalg.qr((sp.diags_array(1 / np.where(size > 0, size, 1)) @ E).T.toarray(), mode="r")
    distance = np.zeros(E.shape[0])
    distance[:len(R)] = abs(np.diagonal(R))
    return int((distance <= DEPENDENT).argmax()) if (distance <= DEPENDENT).any() else -1


def _columns(x, n, k, name):
    """k rows of n finite float64 values from a number, a vector or an (n, k) array; None is 0."""
    x = np.asarray(0.0 if x is None else as_array(x, name) if np.ndim(x) else x, dtype=np.float64)
    if x.shape not in ((), (n,), (n, k)):
        raise InvalidInputError(f"{name} must be a number, {n} numbers, or {counted(n, 'row')} of {k}, got shape {x.shape}")
    if not np.isfinite(x).all():
        raise InvalidInputError(f"{name} must be finite")
    return list(np.broadcast_to(x.T if x.ndim == 2 else x, (k, n)).copy())


def _together(solved, n, m):
    """(x (n, k), info) of the columns."""
    infos = [info for _, info in solved]
    report = Report()
    for info in infos:
        report.merge(info.report)
    failed = [info.reason for info in infos if not info.converged]
    active, multipliers = np.zeros((n, len(solved)), np.int8), np.zeros((m, len(solved)))
    x = np.zeros((n, len(solved)))
    for k, (column, info) in enumerate(solved):
        x[:, k], active[:, k], multipliers[:, k] = column, info.active, info.multipliers
    return x, QuadraticInfo(not failed, np.array([info.kkt_residual for info in infos]), sum(info.iterations for info in infos), active,
                            multipliers, failed[0] if failed else "converged", report)


def _bound(x, n, name, default):
    """(n,) float64 bounds, which may be infinite."""
    x = np.asarray(default if x is None else x, dtype=np.float64)
    if x.shape not in ((), (n,)) or np.isnan(x).any():
        raise InvalidInputError(f"{name} must be a number or {n} numbers without NaN, got shape {x.shape}")
    return np.broadcast_to(x, n).copy()
