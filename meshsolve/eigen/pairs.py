"""The smallest eigenpairs of A x = lambda M x, or all in an interval, by shift-invert block Lanczos on our factors.

With a shift sigma below the spectrum A - sigma M is positive definite and Cholesky serves: a singular Laplacian needs no trick. Inside the
spectrum the complete L D L^T factor does, and its inertia is the number of eigenvalues below the shift (Sylvester's law).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import scipy.linalg

from meshsolve.eigen import quality
from meshsolve.eigen.lobpcg import lobpcg
from meshsolve.eigen.pencil import ROUNDING, Pencil
from meshsolve.eigen.prepare import groups, read
from meshsolve.eigen.search import NARROW, Found, Search, chosen, in_interval, joined, normalized, smallest, zeros_among
from meshsolve.errors import ConvergenceWarning, InvalidInputError, OutOfMemoryError
from meshsolve.memory import ensure_memory
from meshsolve.options import as_flag, as_integer, as_number, as_seed, counted, is_auto, one_of, thread_count
from meshsolve.report import Report, warn
from meshsolve.sparse.constraints import checked
from meshsolve.sparse.places import place_of_factor
from meshsolve.types import ArrayLike, Auto, Device, Matrix

SMALL = 300             # rows up to which a dense method takes no longer
SHARE = 3               # from n / SHARE pairs on, too
SINGULAR = 1500         # rows up to which a dense method is taken if M is singular, but not diagonal: blocks drift into its null space
MASSES = 300            # rows with mass up to which a dense method is taken if others have none
FEWEST = 40             # finite eigenvalues that block iterations need
BLOCKS = 300            # blocks that the iteration may take, and for each eight pairs another BLOCKS_A_BLOCK
BLOCKS_A_BLOCK = 20
MOTIONS = 12            # eigenvalues 0 of a component that may be true ones: rigid motions in space are 6
NOISE = 100             # units of rounding of the largest eigenvalue by which LAPACK's other values may be wrong
METHODS = ("auto", "lanczos", "lobpcg", "dense")


@dataclass(repr=False)
class EigenInfo:
    """How eigenpairs were found.

    Attributes
    ----------
    method : str
        ``"lanczos"``; ``"dense"`` for small matrices and for more than a third of all pairs; ``"lobpcg"`` where there is no memory for
        a complete factor.
    converged : bool
        Every residual is at most ``tol``, no eigenvalue is missing where they were counted, and ``floors`` hide no digit that matters.
        So each floor is at most 1e-6 of its eigenvalue, or, for an eigenvalue 0, of the first one that is not 0.
    count : int or None
        Number of returned values that the inertia proves to be all there are: in the interval, or the smallest. None without ``count``, and
        if nothing is proved: copies of the first eigenvalue, such as 12 of 50 zeros, have no gap below them.
    residuals : (k,) float64
        ||A x - w M x|| / (|w| ||M x||) of each pair, recomputed; row i of A and M is divided by the root of sum |A[i]|. Where rounding
        errors allow no residual of ``tol``, those that they allow count as ``tol``.
    iterations : int
        Blocks that the operator was applied to, 8 columns each.
    shifts : list of float
        Where A - sigma M was factored, those for counts included.
    reason : str
    floors : (k,) float64
        Accuracy that each value can have: 2 eps |x|^T |A| |x| / (x^T M x), the change by rounding errors in the entries of A. A value
        below a few times its floor is 0 to rounding.
    report : Report
        Seconds of ``factor``, ``lanczos``, ``count``, ``vectors``.
    """

    method: str
    converged: bool
    count: int | None
    residuals: np.ndarray
    iterations: int
    shifts: list[float]
    reason: str = "converged"
    report: Report = field(default_factory=Report)
    floors: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __repr__(self):
        largest, floor = self.residuals.max(initial=0.0), self.floors.max(initial=0.0)
        return (f"EigenInfo({self.method}, converged={self.converged}, count={self.count}, largest residual {largest:.1e}, largest floor "
                f"{floor:.1e}, {self.iterations} blocks, {len(self.shifts)} shifts, reason={self.reason!r})")


class Eigenpairs(NamedTuple):
    """What :func:`eigsh` returns; unpacks as ``(w, X, info)``.

    Parameters
    ----------
    values : (k,) float64
        Eigenvalues, ascending.
    vectors : (n, k) float64
        Eigenvectors X with X^T M X = I.
    info : EigenInfo
    """

    values: np.ndarray
    vectors: np.ndarray
    info: EigenInfo

    def __repr__(self):
        values = np.array2string(self.values, precision=6, threshold=10)
        return f"Eigenpairs(values={values}, vectors of shape {self.vectors.shape}, info={self.info})"


def eigsh(A: Matrix, k: int = 6, M: Matrix | None = None, interval: tuple[float, float] | None = None, *, sigma: Auto | float = "auto",
          tol: float = 1e-9, maxiter: int | None = None, count: bool = True, fixed: ArrayLike | None = None, pin: bool = False,
          method: Literal["auto", "lanczos", "lobpcg", "dense"] = "auto", seed: int = 0, device: Device = "auto",
          threads: int | None = None) -> Eigenpairs:
    """The k smallest eigenpairs of A x = w M x, or all with lo <= w < hi, with multiplicity.

    Parameters
    ----------
    A : (n, n) symmetric matrix of any kind
        It may be singular or indefinite.
    k : int: number of pairs, less than n; without effect if ``interval`` is given
    M : (n, n) symmetric positive definite matrix, optional
        Default: the identity. M may be singular where A is definite, as rows without mass are; masses like 1e-300 count as 0. Rows that are
        zero in A and M are left out: their rows of X are 0.
    interval : (lo, hi), optional
        All eigenvalues in [lo, hi), proved by the inertia at both ends. An eigenvalue that differs from an end by rounding equals it.
    sigma : "auto" or float: shift below all eigenvalues, at which the search begins
    tol : float
        Largest residual of a pair relative to its eigenvalue: ||A x - w M x|| / (|w| ||M x||), see ``EigenInfo.residuals``.
    maxiter : int, optional: largest number of blocks of 8 solves
    count : bool
        Whether to compare the number of pairs with the inertia. Without, copies of a multiple eigenvalue may be missing.
    fixed : (f,) integers, one integer, or (n,) bool, optional: rows where x is 0 (Dirichlet)
    pin : bool: leave out the constants of a matrix whose rows sum to 0, one eigenvalue 0 per connected component
    method : {"auto", "lanczos", "lobpcg", "dense"}
        ``"lobpcg"``: for a Laplacian whose factor does not fit into memory, with :func:`parac`.
    seed, device, threads : as in :func:`cholesky`; the seed is that of the first block

    Returns
    -------
    Eigenpairs
        ``(w, X, info)``; X lies where A does. A :class:`ConvergenceWarning` is given if ``info.converged`` is False.

    Raises
    ------
    InvalidInputError
        k is not in 1 .. n - 1; lo >= hi; A or M is not symmetric or holds NaN; the inertia at an end is not decided; results overflow.
    NotPositiveDefiniteError, NotLaplacianError, OutOfMemoryError, DeviceUnavailableError
        A has an eigenvalue below ``sigma``; M is not positive definite, or A where M is 0; ``pin`` and a row that does not sum to 0.

    Notes
    -----
    A Cholesky factor, about 12 + 3 k / 10 solves with 8 right-hand sides, O(n k^2) operations, 22 n k + 640 n bytes, an L D L^T factor
    to count. From about 24 pairs on the shift of most solves lies amid the wanted eigenvalues.
    Sources: :mod:`meshsolve.eigen.search`, :mod:`meshsolve.eigen.lanczos`.

    Examples
    --------
    >>> import meshsolve as ms
    >>> w, X, info = ms.eigsh(ms.datasets.grid2d(30, 20), 4)
    """
    place, threads = place_of_factor(device, A), thread_count(threads)
    matrices, bounds = read(A, M, fixed, checked(fixed, pin), threads), _checked_interval(interval)
    options = _Options(one_of(method, "method", METHODS), as_number(tol, "tol", above=True),
                       None if maxiter is None else as_integer(maxiter, "maxiter"), as_seed(seed),
                       sigma if is_auto(sigma) else as_number(sigma, "sigma", least=-np.inf), as_flag(count, "count"))
    pencils = [(Pencil(part.A, part.M, part.rows, pin, place, threads), rows) for part, rows in _parts(matrices)]
    wanted = _checked_count(k, pencils) if bounds is None else 0
    parts = [_solved(pencil, min(wanted, pencil.rank - pencil.constants), bounds, options) for pencil, _ in pencils]
    return _delivered(parts, pencils, matrices, wanted, options)


@dataclass
class _Options:
    method: str
    tol: float
    maxiter: int | None
    seed: int
    sigma: Auto | float
    counted: bool


def _parts(matrices):
    """Yield (matrices of a group of components, its rows among those that take part, or None if it has all of them)."""
    found = groups(matrices)
    if found is None:
        yield matrices, None
        return
    for rows in found:
        numbers = rows if matrices.rows is None else matrices.rows[rows]
        yield matrices._replace(A=matrices.A[rows][:, rows], M=matrices.M[rows][:, rows], rows=numbers), rows


def _checked_count(k, pencils):
    """k, which must be less than the number of rows, and at most the number of finite eigenvalues without constants."""
    wanted = as_integer(k, "k")
    rows, rank, constants = (sum(getattr(pencil, name) for pencil, _ in pencils) for name in ("n", "rank", "constants"))
    if wanted + constants >= rows or wanted + constants > rank:
        raise InvalidInputError(f"k must be less than the number of rows that take part and have mass, {rank - constants}, got {k}")
    return wanted


def _checked_interval(interval):
    """(lo, hi) as finite numbers, or None."""
    if interval is None:
        return None
    try:
        lo, hi = (float(end) for end in interval)
    except (TypeError, ValueError) as e:
        raise InvalidInputError(f"interval must be two numbers (lo, hi), got {interval!r}") from e
    if not (np.isfinite([lo, hi]).all() and lo < hi):
        raise InvalidInputError(f"interval must be two finite numbers lo < hi, got ({lo:.6g}, {hi:.6g})")
    return lo, hi


def _solved(pencil, k, bounds, options):
    """The :class:`_Part` of one pencil: k pairs, or those in an interval."""
    wanted = k + pencil.constants
    limit = BLOCKS + BLOCKS_A_BLOCK * wanted // 8 if options.maxiter is None else options.maxiter
    search = Search(pencil, options.tol, limit, options.seed)
    search.blocks_a_pair = BLOCKS_A_BLOCK // 8 if options.maxiter is None else 0
    with np.errstate(over="ignore", under="ignore"):
        own = None if bounds is None else tuple(end / pencil.unit for end in bounds)
        sigma = options.sigma if is_auto(options.sigma) else options.sigma / pencil.unit
    if own is not None and not (np.isfinite(own).all() and own[0] < own[1]):
        raise InvalidInputError(f"interval ({bounds[0]:.6g}, {bounds[1]:.6g}) cannot be represented in the unit of the eigenvalues, "
                                f"{pencil.unit:.6g}; scale A or M")
    method, found = _run(search, options, wanted, own, sigma)
    lost = _lost(pencil, found, options.tol)
    constants = pencil.constants if bounds is None or bounds[0] <= 0 < bounds[1] else 0
    if constants:
        order = np.argsort(abs(found.values), kind="stable")
        count = None if found.proved is None else max(found.proved - constants, 0)
        found = chosen(pencil, found, np.sort(order[constants:]))._replace(proved=count)
    if pencil.unit != 1 or pencil.length != 1:
        found = _in_caller_units(pencil, found)
    return _Part(method, found, search, lost * pencil.unit)


@dataclass
class _Part:
    """The pairs of one group of components, in the caller's units, without constants."""

    method: str
    found: Found
    search: Search
    lost: float                     # the largest floor that hides digits, or 0


def _in_caller_units(pencil, found):
    with np.errstate(over="ignore"):
        values, vectors = found.values * pencil.unit, found.vectors * pencil.length
        found.quality.floors *= pencil.unit
        found = found._replace(size=found.size * pencil.unit)
    if not (np.isfinite(values).all() and pencil.place.xp.isfinite(vectors).all()):
        raise InvalidInputError("eigenvalues or eigenvectors are beyond the range of float64; scale A or M")
    return found._replace(values=values, vectors=vectors)


def _run(search, options, k, bounds, sigma):
    """(method, :class:`Found`) by the method that fits."""
    pencil, method = search.pencil, options.method
    if not pencil.A.data.any():
        return "dense", _of_zero(search, k, bounds)
    few = k > pencil.rank // SHARE or pencil.rank < FEWEST or pencil.rank < pencil.n and (
        pencil.n <= SINGULAR if pencil.masses is None else pencil.rank <= MASSES)
    if method == "dense" or method == "auto" and pencil.n <= SMALL or method != "lobpcg" and few:
        return "dense", _dense(search, options, k, bounds, sigma)
    if method == "lobpcg":
        return "lobpcg", lobpcg(search, k)
    try:
        found = in_interval(search, *bounds, SHARE) if bounds else smallest(search, k, sigma, options.counted)
        return ("dense", _dense(search, options, k, bounds, sigma)) if found is None else ("lanczos", found)
    except OutOfMemoryError:
        if method == "lanczos" or bounds:
            raise
        return "lobpcg", lobpcg(search, k)


def _of_zero(search, k, bounds):
    """The pairs of A = 0: unit vectors at rows with mass, made orthonormal."""
    pencil = search.pencil
    rows = np.arange(pencil.n) if pencil.masses is None else np.flatnonzero(pencil.masses)
    rows = rows[:k] if bounds is None else rows if bounds[0] <= 0 < bounds[1] else rows[:0]
    ensure_memory(8 * pencil.n * len(rows), counted(len(rows), "eigenvector"))
    X = np.zeros((pencil.n, len(rows)))
    X[rows, np.arange(len(rows))] = 1
    X, w = normalized(pencil, pencil.place.bring(X)), np.zeros(len(rows))
    return Found(w, X, quality.judged(pencil, search.tol, w, X), len(rows), True)


def _dense(search, options, k, bounds, sigma):
    """Some of all pairs by LAPACK; by shifts where rounding errors of the largest eigenvalues hide the others."""
    if search.pencil.rank == search.pencil.n:
        ensure_memory(24 * search.pencil.n**2, f"a dense matrix with {counted(search.pencil.n, 'row')} for more than a third of all pairs")
        with search.report.phase("dense"):
            found = _plain(search, k, bounds)
        if found is not None:
            return found
    search.is_dense, place = True, search.pencil.place
    search.pencil = search.pencil.on_host()                 # the same vectors of a multiple eigenvalue on all devices
    found = in_interval(search, *bounds, SHARE) if bounds else smallest(search, k, sigma, options.counted)
    return found._replace(vectors=place.bring(found.vectors))


def _plain(search, k, bounds):
    """The pairs from the eigenvectors of the dense pencil, or None if rounding errors, or rows without mass, make them useless."""
    pencil = search.pencil
    try:
        w, X = scipy.linalg.eigh(pencil.A.toarray(), pencil.M.toarray())
    except np.linalg.LinAlgError:                           # M is singular
        return None
    noise = NOISE * ROUNDING * abs(w).max()
    if bounds is None:
        numbers = np.arange(k)
    else:
        slack = [max(pencil.step(end), noise) for end in bounds]
        if bounds[1] - bounds[0] <= NARROW * max(slack):
            return None
        numbers = np.flatnonzero((w >= bounds[0] - slack[0]) & (w < bounds[1] - slack[1]))
    size = abs(w[numbers]).max(initial=0.0) if bounds is None else max(abs(bounds[0]), abs(bounds[1]))
    X = pencil.place.bring(np.ascontiguousarray(X[:, numbers]))
    facts = quality.judged(pencil, search.tol, w[numbers], X)
    if noise > search.tol * size or (facts.residuals > search.tol).any():
        return None
    return Found(w[numbers], X, facts, len(numbers), True, *zeros_among(w, facts))


def _delivered(parts, pencils, matrices, wanted, options):
    """The pairs of all groups, in the caller's rows, with what is known of them."""
    place = pencils[0][0].place
    found, info = _merged(parts, pencils, len(matrices.A.indptr) - 1, wanted)
    _with_signs(place, found)
    w, X, residuals, floors = found.values, found.vectors, found.quality.residuals, found.quality.floors
    if matrices.rows is not None:
        whole = place.xp.zeros((matrices.size, X.shape[1]))
        whole[place.bring(matrices.rows)] = X
        X = whole
    lost = max(*(part.lost for part in parts), _lost_order(parts, pencils, options.tol))
    info.residuals, info.floors = residuals, floors
    info.converged = bool(found.is_complete and (residuals <= options.tol).all() and not lost)
    if not info.converged:
        undecided = any(part.search.is_undecided for part in parts)
        info.reason = (f"rounding errors in the entries of A change eigenvalues by up to {lost:.1e}" if lost else
                       "residuals above tol" if (residuals > options.tol).any() else
                       "the number of eigenvalues is not decided in double precision" if undecided else "eigenvalues are missing")
        advice = "see info.floors; improve the entries of A that are far above the others" if lost else "raise maxiter or tol"
        warn(f"eigsh: {info.reason} after {info.iterations} blocks (largest residual {residuals.max(initial=0):.1e}, tol "
             f"{options.tol:.1e}); {advice}", ConvergenceWarning)
    return Eigenpairs(w, X, info)


def _merged(parts, pencils, n, wanted):
    """(:class:`Found` on the n rows that take part, :class:`EigenInfo`) of all groups; ``wanted``: how many are kept, or 0 for all."""
    first = parts[0].search
    report = first.report
    for part in parts[1:]:
        report.merge(part.search.report)
    info = EigenInfo(parts[0].method, True, None, np.zeros(0), sum(part.search.iterations for part in parts),
                     [sigma for part in parts for sigma in part.search.shifts], report=report)
    if len(parts) == 1:
        info.count = parts[0].found.proved
        return parts[0].found, info
    place, several = pencils[0][0].place, []
    for part, (_, rows) in zip(parts, pencils, strict=True):
        X = place.xp.zeros((n, len(part.found.values)))
        X[place.bring(rows)] = part.found.vectors
        several.append(part.found._replace(vectors=X))
    complete = all(part.found.is_complete for part in parts)
    # zeros of tiny components have large rounding errors, and are as small as others
    several = [f._replace(values=np.where(abs(f.values) <= quality.ZERO * f.quality.floors, 0.0, f.values)) for f in several]
    found = joined(pencils[0][0], several)._replace(is_complete=complete, size=min((f.size for f in several if f.size), default=0.0))
    if wanted:
        found = chosen(pencils[0][0], found, np.arange(min(wanted, len(found.values))))
    proved = all(part.found.proved is not None for part in parts)
    info.count = len(found.values) if proved else None
    return found, info


def _lost(pencil, found, tol):
    """The largest floor that hides digits of an eigenvalue, else 0.0. For a zero to rounding, the digits of the first other one count.

    Zeros need no other eigenvalue where they are constants of components whose rows sum to 0.
    """
    w, floors = found.values, found.quality.floors
    if len(w) == 0:
        return 0.0
    zero = abs(w) <= quality.ZERO * floors
    nonzero = abs(w[~zero]).min(initial=np.inf)
    first = min(nonzero, found.size or np.inf)
    if first == np.inf and np.count_nonzero(zero) > len(pencil.null_components(len(w))[0]):
        first = 0.0
    if nonzero == np.inf and found.zeros > MOTIONS and found.zeros > MOTIONS * (pencil.null_components(0)[1].max() + 1):
        first = 0.0                                         # most of these zeros are made by rounding errors
    hidden = floors > max(tol, quality.LIMITED) * np.where(zero, first, abs(w))
    return float(floors[hidden].max(initial=0.0))


def _lost_order(parts, pencils, tol):
    """The largest floor of a zero that may be larger than an eigenvalue of another group of components, else 0.0.

    The constants of components whose rows sum to 0 are true zeros. Of the other ones only the floor is known: the stored entries of a
    needle do not distinguish 0 from its small eigenvalues.
    """
    if len(parts) == 1:
        return 0.0
    first, lost = min((part.found.size for part in parts if part.found.size), default=np.inf), 0.0
    for part, (pencil, _) in zip(parts, pencils, strict=True):
        floors = part.found.quality.floors
        zero = abs(part.found.values) <= quality.ZERO * floors
        if np.count_nonzero(zero) > len(pencil.null_components(len(zero))[0]):
            lost = max(lost, float(floors[zero].max()))
    return lost if lost > max(tol, quality.LIMITED) * first else 0.0


def _with_signs(place, found):
    """Make the entry of largest absolute value of each column positive, in place: the first among equals."""
    X, most, least = found.vectors, found.quality.most, found.quality.least
    near = (1 - 1e-8) * np.maximum(most, -least)
    negative = -least >= near
    for c in np.flatnonzero(negative & (most >= near)):                             # equal entries of both signs
        x = X[:, c].copy()                                                          # one pass over the strided column
        size = abs(x)
        negative[c] = bool(x[int((size >= (1 - 1e-8) * size.max()).argmax())] < 0)
    if negative.any():
        X *= place.bring(np.where(negative, -1.0, 1.0))
