"""Convex quadratic programs: min 1/2 x^T A x - b^T x with rows, equalities, bounds and prescribed values.

Without rows and equalities each step of the interior point method is a Cholesky refactorization, otherwise one of L D L^T. The pattern
never changes, so the analysis is made once. ``meshsolve.api.convex`` has the methods and their sources.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from meshsolve import foreign
from meshsolve.api.convex.bounds_alone import BoundsAlone, Shifted
from meshsolve.api.convex.certificates import Certificate
from meshsolve.api.convex.curvature import indefinite_row, is_convex_on_equalities
from meshsolve.api.convex.model import Model
from meshsolve.api.convex.program import Point, Program
from meshsolve.api.convex.solve import Answer, farthest, solve
from meshsolve.device import choose
from meshsolve.errors import ConvergenceWarning, InvalidInputError, NotPositiveDefiniteError
from meshsolve.options import as_number, counted, thread_count
from meshsolve.report import Report, collected_warnings, warn
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import as_array, as_indices
from meshsolve.sparse.matrix import as_symmetric, is_complex
from meshsolve.sparse.structure import rectangular
from meshsolve.types import Array, ArrayLike, Device, Matrix


@dataclass
class QuadraticInfo:
    """How a minimum was found.

    With C and Aeq, A x - b = C^T w + Aeq^T y + z. Each multiplier is not negative at a lower bound and not positive at an upper one.

    Attributes
    ----------
    converged : bool
        ``kkt_residual`` is at most ``tol``.
    kkt_residual : float or (k,) float64
        Largest violation of the optimality conditions. Each row is relative to its own summands: a bound or row to its bound and to
        |C| |x|, the gradient to |b|, |A| |x| and |C^T| |w|. Products of multiplier and slack, and the gap, are included.
    iterations : int
        Factorizations.
    active : (n,) int8
        -1 at the lower bound, 1 at the upper bound, 0 between them.
    multipliers : (m,) float64
        y of the equalities.
    row_multipliers : (p,) float64
        w of the rows of C.
    bound_multipliers : (n,) float64
        z of the bounds, also of fixed rows.
    gap : float or (k,) float64
        Sum of all products of multiplier and slack, relative to the objective.
    ignored_bounds : int
        Bounds beyond 1e20 times the size of x, which count as none.
    certificate : Certificate, optional
        Proof that no point satisfies bounds, rows and equalities. For (n, k) columns a tuple with an entry for each.
    reason : str
    report : Report
    """

    converged: bool
    kkt_residual: float | Array
    iterations: int
    active: Array
    multipliers: Array
    row_multipliers: Array
    bound_multipliers: Array
    gap: float | Array
    ignored_bounds: int = 0
    certificate: Certificate | None | tuple[Certificate | None, ...] = None
    reason: str = "converged"
    report: Report = field(default_factory=Report)


class Quadratic(Sealed):
    """A convex quadratic function, to be minimized for many b, bounds and prescribed values on one analysis.

    Calls from several threads run one after the other. It can be pickled.

    Parameters
    ----------
    A : (n, n) symmetric matrix of any kind
        Positive semidefinite on the free rows, or on the null space of the equalities in them. It may be 0 (a linear program).
    fixed : (f,) integers, one integer, or (n,) bool, optional
        Rows whose values are prescribed.
    Aeq : (m, n) matrix, optional
        Rows of equalities. They may depend on each other.
    C : (p, n) matrix, optional
        Rows with lower and upper bounds.
    device : {"auto", "cpu", "cuda"}
        Where the factor lies and solves. The steps of the method run on the host.
    threads : int, optional

    Raises
    ------
    InvalidInputError
        A is not square or holds NaN, ``Aeq`` or ``C`` has another number of columns, every row is fixed.
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

    Shares of two assets: they sum to 1, and at most 0.7 is in each:

    >>> risk = np.array([[4.0, 1.0], [1.0, 2.0]])
    >>> x, info = ms.Quadratic(risk, Aeq=[[1, 1]], C=np.eye(2)).minimize([1, 1], beq=[1], row_lower=0, row_upper=0.7)
    >>> x.round(6).tolist(), info.row_multipliers.round(6).tolist()
    ([0.3, 0.7], [0.0, -0.2])
    """

    def __init__(self, A: Matrix, fixed: ArrayLike | None = None, Aeq: Matrix | None = None, C: Matrix | None = None, *,
                 device: Device = "auto", threads: int | None = None) -> None:
        self._threads = thread_count(threads)
        M = as_symmetric(A, threads=self._threads)
        self._A, self.n, self._device = M.to_scipy(), M.n, choose(device, M.n)
        self._fixed = as_indices([] if fixed is None else fixed, M.n)
        self._free = np.delete(np.arange(M.n), self._fixed)
        if len(self._free) == 0:
            raise InvalidInputError("fixed must leave a row free, got all of them")
        E, rows = _rows(Aeq, M.n, "Aeq"), _rows(C, M.n, "C")
        self._has_rows, self._m, self._G = C is not None, E.shape[0], sp.csr_array(sp.vstack([E, rows]))
        self._block = sp.csr_array(self._A[self._free][:, self._free])
        self._lock, self._is_singular, self.is_known_convex = threading.Lock(), False, False

    def minimize(self, b: ArrayLike, fixed_values: ArrayLike | None = None, beq: ArrayLike | None = None, lower: ArrayLike | None = None,
                 upper: ArrayLike | None = None, row_lower: ArrayLike | None = None, row_upper: ArrayLike | None = None, *,
                 tol: float = 1e-9) -> tuple[Array, QuadraticInfo]:
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
            Bounds of x; -inf and inf do not bound a row. Equal bounds fix a value.
        row_lower, row_upper : (p,) array_like or number, optional
            Bounds of C x, as for x. Equal bounds make an equality.
        tol : float
            Largest ``kkt_residual``.

        Returns
        -------
        x : array of b's shape
            One of the minima if there are several. It satisfies ``lower`` and ``upper`` exactly.
        info : QuadraticInfo
            For (n, k) columns ``kkt_residual`` and ``gap`` are (k,), ``active`` and ``bound_multipliers`` (n, k), ``multipliers`` (m, k),
            ``row_multipliers`` (p, k); ``iterations`` and ``ignored_bounds`` are sums.

        Raises
        ------
        InvalidInputError
            A shape does not fit; NaN; a lower bound above the upper one, a lower bound of inf or an upper one of -inf (names the row).
        NotPositiveDefiniteError
            A is not positive semidefinite on the free rows, or on the null space of the equalities in them: ``.column``. Or there is no
            minimum: ``.direction`` (n,) is a direction of descent without curvature that no bound stops.

        Warns
        -----
        ConvergenceWarning
            No point satisfies bounds, rows and equalities: ``info.certificate``. Or ``tol`` was not reached.

        Notes
        -----
        10 to 40 factorizations, two solves or more for each. A that is not diagonally dominant takes one more, once, to check that it is
        convex. Bounds beyond 1e20 times the size of x count as none. Dependent rows and unknowns without curvature are allowed.
        """
        given = as_array(b, "b")
        if given.ndim not in (1, 2):
            raise InvalidInputError(f"b must be {counted(self.n, 'number')} or ({self.n}, k), got shape {given.shape}")
        k = given.shape[1] if given.ndim == 2 else 1
        right, values = _columns(given, self.n, k, "b"), _columns(fixed_values, len(self._fixed), k, "fixed_values")
        equal = _columns(beq, self._m, k, "beq")
        bounds = _bounds(lower, upper, self.n, "lower", "upper")
        of_rows = _bounds(row_lower, row_upper, self._G.shape[0] - self._m, "row_lower", "row_upper")
        if not self._has_rows and not (row_lower is None and row_upper is None):
            raise InvalidInputError("row_lower and row_upper are bounds of C x, and this quadratic has no rows: give C to ms.Quadratic")
        tol = as_number(tol, "tol", above=True)
        with self._lock:
            solved = [self._minimized(*column, bounds, of_rows, tol) for column in zip(right, values, equal, strict=True)]
        return solved[0] if given.ndim < 2 else _together(solved, self.n, self._G.shape[0], self._m)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state):
        vars(self).update(state)
        self._lock = threading.Lock()

    @functools.cached_property
    def _model(self):
        return Model(self._block, sp.csr_array(self._G[:, self._free]), self._threads, self._device)

    @functools.cached_property
    def _shifted(self):
        return Shifted(self._block, self._device, self._threads)

    @functools.cached_property
    def _indefinite_row(self):
        """A row of A with a negative pivot, -1 if A is positive semidefinite on the free rows."""
        row = indefinite_row(self._shifted)
        return -1 if row < 0 else int(self._free[row])

    def _minimized(self, b, fixed_values, e, bounds, of_rows, tol):
        """(x, info) of one problem."""
        x, fixed, free = np.zeros(self.n), self._fixed, self._free
        x[fixed] = fixed_values
        moved, at = self._G @ x, np.r_[free, self.n + np.arange(self._G.shape[0])]
        lower, upper = (np.r_[own, e, rows] - np.r_[np.zeros(self.n), moved] for own, rows in zip(bounds, of_rows, strict=True))
        sizes = np.r_[abs(self._A) @ abs(x), abs(self._G) @ abs(x)] if len(fixed) else np.zeros(len(lower))
        program = Program(self._model, (b - self._A @ x)[free], lower[at], upper[at], sizes[at])
        report = Report(threads=self._threads)
        before = self._factorizations()
        point, certificate, direction = self._answer(program, tol, report)
        if certificate is None and direction is not None:
            self._refuse(program, direction)
        model = self._model
        x[free] = np.clip(point.x * model.columns * program.unit, lower[free], upper[free])
        y = point.y * model.rows * (program.unit / model.cost)
        active = np.zeros(self.n, np.int8)
        active[free] = point.active[:len(free)]
        z = self._A @ x - b - self._G.T @ y
        z[free[~np.isfinite(np.where(z > 0, lower[:self.n], upper[:self.n]))[free]]] = 0
        worst = point.residual.worst
        info = QuadraticInfo(certificate is None and worst <= tol, worst, self._factorizations() - before, active, y[:self._m],
                             y[self._m:], z, point.residual.gap, program.ignored, report=report)
        if certificate is not None:
            info.certificate = self._certificate(certificate, lower, upper, x)
        self._explain(info, tol)
        return x, info

    def _factorizations(self):
        found = vars(self)                                  # without making either
        return sum(found[name].factorizations for name in ("_model", "_shifted") if name in found)

    def _answer(self, program, tol, report):
        """The :class:`Answer` for a program; without rows, by Cholesky factors if they suffice."""
        if len(program.lower) > self._model.n or not (self._model.P.diagonal() > 0).all():
            self._require_convex(program)
            return solve(program, tol, report)
        bounded = np.isfinite(program.lower) | np.isfinite(program.upper)
        point = self._between_bounds(program, tol, report) if bounded.any() else self._without_bounds(program, report)
        if point is not None and point.residual.worst <= tol and (not bounded.any() or program.reach(point.x) <= farthest(tol)):
            return Answer(point)
        self._require_convex(program)
        return solve(program, tol, report)

    def _require_convex(self, program):
        if self.is_known_convex or self._indefinite_row < 0:
            return
        if program.equal.any():
            if is_convex_on_equalities(program):
                return
            raise NotPositiveDefiniteError("A must be positive semidefinite on the null space of Aeq in the free rows, where "
                                           "the function is not convex: it has a negative eigenvalue", self._indefinite_row)
        raise NotPositiveDefiniteError(f"A must be positive semidefinite on the free rows, the pivot of row {self._indefinite_row} is not "
                                       "positive: the function is not convex", self._indefinite_row)

    def _between_bounds(self, program, tol, report):
        """The :class:`Point` of the method for bounds alone, or None."""
        self._require_convex(program)
        unit = self._model.columns * program.unit
        bounds = BoundsAlone(self._shifted, program.b / self._model.columns * (program.unit / self._model.cost), program.lower * unit,
                             program.upper * unit, lambda x: program.residual(x / unit, np.zeros(0)).worst)
        if not bounds.solve(tol, report):
            return None
        x = program.clipped(bounds.x / unit)
        return Point(x, np.zeros(0), bounds.active, program.residual(x, np.zeros(0)))

    def _without_bounds(self, program, report):
        """The :class:`Point` where the gradient is 0, or None: A is singular."""
        scale = self._model.columns
        try:
            with report.phase("active set"), collected_warnings() as found:
                x = self._shifted.solver(0.0)(program.b / scale * (program.unit / self._model.cost)) / scale / program.unit
        except NotPositiveDefiniteError:
            return None
        self._is_singular |= bool(found)
        return None if self._is_singular else Point(x, np.zeros(0), np.zeros(len(x), np.int8), program.residual(x, np.zeros(0)))

    def _refuse(self, program, direction):
        """Raise the error for a function that falls without end along a direction."""
        d = np.zeros(self.n)
        d[self._free] = direction * self._model.columns
        d /= abs(d).max()
        row = int(abs(d).argmax())
        far = f" ({counted(program.ignored, 'bound')} beyond 1e20 times the size of x count as none)" if program.ignored else ""
        raise NotPositiveDefiniteError(f"there is no minimum: the function falls without end along error.direction, in which row {row} "
                                       f"moves most. It has no curvature, and no bound stops it{far}: bound x on both sides, or fix rows",
                                       row, d)

    def _certificate(self, found, lower, upper, x):
        """The :class:`Certificate` in the caller's units from one of the free rows."""
        rows, free = found[0] * self._model.rows, self._free
        bounds = np.zeros(self.n)
        bounds[free] = found[1] / self._model.columns
        bounds[self._fixed] = -(self._G[:, self._fixed].T @ rows)
        largest = max(abs(rows).max(), abs(bounds).max())
        rows, bounds = rows / largest, bounds / largest
        weights = np.r_[bounds, rows]
        weights[self._fixed] = 0                            # their values are part of the bounds of the rows
        at = np.where(weights > 0, upper, lower)
        return Certificate(rows[self._m:], rows[:self._m], bounds, float(weights[weights != 0] @ at[weights != 0]))

    def _explain(self, info, tol):
        """Give the reason, and warn, if there is no minimum within ``tol``."""
        if info.converged:
            return
        info.reason = ("no point satisfies bounds, rows and equalities: info.certificate is a proof" if info.certificate else
                       "the conditions of a minimum are met less exactly than tol: rounding errors may be larger")
        warn(f"Quadratic.minimize: {info.reason} (residual {info.kkt_residual:.1e}, tol {tol:.1e})", ConvergenceWarning)


def _rows(rows, n, name):
    """(m, n) csr_array of finite float64 rows; None has no row."""
    if rows is None:
        return sp.csr_array((0, n))
    if is_complex(rows):
        raise InvalidInputError(f"{name} must be real, got complex numbers")
    given = foreign.as_known(rows, name)
    given = given if sp.issparse(given) else np.atleast_2d(as_array(given, name))
    if given.ndim != 2 or given.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} must be a matrix of real numbers, got shape {given.shape} of {given.dtype}")
    E = rectangular(given, name).astype(np.float64) if sp.issparse(given) else sp.csr_array(given.astype(np.float64))
    if E.shape[1] != n or not np.isfinite(E.data).all():
        raise InvalidInputError(f"{name} must be a finite matrix with {n} columns, as A has, got shape {E.shape}")
    return E


def _columns(x, n, k, name):
    """k rows of n finite float64 values from a number, a vector or an (n, k) array; None is 0."""
    x = np.asarray(0.0 if x is None else as_array(x, name))
    if x.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must have real numbers, got {x.dtype}")
    x = x.astype(np.float64)
    if x.shape not in ((), (n,), (n, k)):
        raise InvalidInputError(f"{name} must be a number, {n} numbers, or {counted(n, 'row')} of {k}, got shape {x.shape}")
    if not np.isfinite(x).all():
        raise InvalidInputError(f"{name} must be finite")
    return list(np.broadcast_to(x.T if x.ndim == 2 else x, (k, n)).copy())


def _bounds(lower, upper, n, *names):
    """(lower, upper) of (n,) float64 bounds, which may be infinite."""
    lo, hi = (_bound(x, n, name, default) for x, name, default in ((lower, names[0], -np.inf), (upper, names[1], np.inf)))
    if (lo > hi).any():
        k = int((lo > hi).argmax())
        raise InvalidInputError(f"{names[0]} must not be above {names[1]}, in row {k} they are {lo[k]:.6g} and {hi[k]:.6g}")
    if ((lo == np.inf) | (hi == -np.inf)).any():
        k = int(((lo == np.inf) | (hi == -np.inf)).argmax())
        raise InvalidInputError(f"the bounds {' and '.join(names)} of row {k} must leave a finite number, they are {lo[k]:.6g} and "
                                f"{hi[k]:.6g}: give -inf for no lower bound, inf for no upper one")
    return lo, hi


def _bound(x, n, name, default):
    """(n,) float64 bounds, which may be infinite."""
    given = np.asarray(default if x is None else as_array(x, name))
    if given.dtype.kind not in "biuf" or given.shape not in ((), (n,)) or np.isnan(given).any():
        raise InvalidInputError(f"{name} must be a number or {n} real numbers without NaN, got shape {given.shape} of {given.dtype}")
    x = given.astype(np.float64)
    return np.broadcast_to(x, n).copy()


def _together(solved, n, rows, m):
    """(x (n, k), info) of the columns."""
    infos, k = [info for _, info in solved], len(solved)
    report = Report()
    for info in infos:
        report.merge(info.report)
    failed = [info.reason for info in infos if not info.converged]

    def stacked(columns, height, dtype=np.float64):
        return np.stack(columns, axis=1) if k else np.zeros((height, 0), dtype)

    return stacked([x for x, _ in solved], n), QuadraticInfo(
        not failed, np.array([info.kkt_residual for info in infos]), sum(info.iterations for info in infos),
        stacked([info.active for info in infos], n, np.int8), stacked([info.multipliers for info in infos], m),
        stacked([info.row_multipliers for info in infos], rows - m), stacked([info.bound_multipliers for info in infos], n),
        np.array([info.gap for info in infos]), sum(info.ignored_bounds for info in infos), tuple(info.certificate for info in infos),
        failed[0] if failed else "converged", report)
