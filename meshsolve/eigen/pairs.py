"""The smallest eigenpairs of A x = lambda M x, or all in an interval, by shift-invert block Lanczos on our factors.

With a shift sigma below the spectrum A - sigma M is positive definite and Cholesky serves: a singular Laplacian needs no trick. Inside the
spectrum the complete L D L^T factor does, and its inertia is the number of eigenvalues below the shift (Sylvester's law).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse.linalg as spla

from meshsolve import device
from meshsolve.api.factors import parac
from meshsolve.eigen.pencil import Pencil
from meshsolve.eigen.search import NEAR_ZERO, Search, in_interval, smallest
from meshsolve.errors import ConvergenceWarning, InvalidInputError, NotPositiveDefiniteError, OutOfMemoryError
from meshsolve.memory import ensure_memory
from meshsolve.options import as_flag, as_integer, as_number, as_seed, counted, is_auto, one_of, thread_count
from meshsolve.report import Report, warn
from meshsolve.sparse.constraints import checked
from meshsolve.sparse.matrix import as_csr
from meshsolve.sparse.places import place_of_factor
from meshsolve.sparse.rows import components
from meshsolve.types import ArrayLike, Auto, Device, Matrix

SMALL = 300             # rows up to which a dense method takes no longer
SHARE = 3               # from n / SHARE pairs on, too
BLOCKS = 300            # blocks that the iteration may take, and for each eight pairs another BLOCKS_A_BLOCK
BLOCKS_A_BLOCK = 20
ZERO = 1e-10            # largest eigenvalue of a constant, relative to the order of magnitude of all
ROW_SUM = 1e-13         # sum of a row relative to that of its absolute values, up to which LOBPCG takes it for 0
METHODS = ("auto", "lanczos", "lobpcg", "dense")

@dataclass
class EigenInfo:
    """How eigenpairs were found.

    Attributes
    ----------
    method : str
        ``"lanczos"``; ``"dense"`` for small matrices and for more than a third of all pairs; ``"lobpcg"`` where there is no memory for
        a complete factor.
    converged : bool
        Every residual is at most ``tol``, and where the number of eigenvalues was counted none is missing.
    count : int or None
        Number of eigenvalues in the interval, or below the gap nearest to the last value; from the inertia. None without ``count``.
    residuals : (k,) float64
        ||A x - w M x|| / ((||A||_1 + |w| ||M||_1) ||x||) of each pair, recomputed.
    iterations : int
        Blocks that the operator was applied to, 8 columns each.
    shifts : list of float
        Where A - sigma M was factored, those for counts included.
    reason : str
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
        Positive semidefinite, singular or not; indefinite with ``interval``, or with ``sigma`` below its eigenvalues.
    k : int
        Number of pairs, less than n. Without effect if ``interval`` is given.
    M : (n, n) symmetric positive definite matrix, optional
        Default: the identity. A diagonal M may have zeros. Rows that are zero in A and M are left out: their rows of X are 0.
    interval : (lo, hi), optional
        All eigenvalues in [lo, hi), proved by the inertia at both ends. An end on an eigenvalue is moved up: ``info.shifts``.
    sigma : "auto" or float
        Shift below all eigenvalues, at which the search begins.
    tol : float
        Largest residual ||A x - w M x|| / ((||A||_1 + |w| ||M||_1) ||x||) of a pair.
    maxiter : int, optional
        Largest number of blocks of 8 solves.
    count : bool
        Whether to compare the number of pairs with the inertia. Without, copies of a multiple eigenvalue may be missing.
    fixed : (f,) integers, one integer, or (n,) bool, optional
        Rows where x is 0 (Dirichlet).
    pin : bool
        Leave out the constants of a matrix whose rows sum to 0: one eigenvalue 0 per connected component.
    method : {"auto", "lanczos", "lobpcg", "dense"}
        ``"lobpcg"``: for a Laplacian whose factor does not fit into memory, with :func:`parac`.
    seed, device, threads
        As in :func:`cholesky`; the seed is that of the first block.

    Returns
    -------
    Eigenpairs
        ``(w, X, info)``; X lies where A does. A :class:`ConvergenceWarning` is given if ``info.converged`` is False.

    Raises
    ------
    InvalidInputError
        k is not in 1 .. n - 1; lo >= hi; A or M is not symmetric or holds NaN; the inertia at an end is not decided.
    NotPositiveDefiniteError, NotLaplacianError, OutOfMemoryError, DeviceUnavailableError
        A has a negative eigenvalue and no interval is given, or M is not positive definite; ``pin`` and a row that does not sum to 0.

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
    pencil = Pencil(A, M, fixed, checked(fixed, pin), place_of_factor(device, A), thread_count(threads))
    bounds, wanted = _checked_interval(interval), _checked_count(k, pencil) if interval is None else 0
    search = Search(pencil, as_number(tol, "tol", above=True), _most_blocks(maxiter, wanted), as_seed(seed))
    return _delivered(search, *_run(search, one_of(method, "method", METHODS), wanted, bounds, sigma, as_flag(count, "count")))


def _checked_count(k, pencil):
    """k, and the constants that are left out of the result."""
    wanted = as_integer(k, "k") + pencil.constants
    rank = pencil.n if pencil.masses is None else np.count_nonzero(pencil.masses)
    if wanted >= pencil.n or wanted > rank:
        raise InvalidInputError(f"k must be less than the number of rows that take part and have mass, {rank - pencil.constants}, got {k}")
    return wanted


def _most_blocks(maxiter, wanted):
    return BLOCKS + BLOCKS_A_BLOCK * wanted // 8 if maxiter is None else as_integer(maxiter, "maxiter")


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


def _run(search, method, k, bounds, sigma, counted):
    """(method, values, vectors, count, whether all converged) by the method that fits."""
    n, sigma = search.pencil.n, sigma if is_auto(sigma) else as_number(sigma, "sigma", least=-np.inf)
    if not search.pencil.A.data.any():
        return "dense", *_of_zero(search.pencil, k, bounds)
    if method == "dense" or method == "auto" and n <= SMALL or method != "lobpcg" and (k > n // SHARE or n < 5 * 8):
        return "dense", *_dense(search, k, bounds)
    if method == "lobpcg":
        return "lobpcg", *_lobpcg(search, k)
    try:
        return "lanczos", *(in_interval(search, *bounds) if bounds else smallest(search, k, sigma, counted))
    except OutOfMemoryError:
        if method == "lanczos" or bounds:
            raise
        return "lobpcg", *_lobpcg(search, k)


def _of_zero(pencil, k, bounds):
    """The pairs of A = 0: unit vectors at rows with mass, made orthonormal later."""
    rows = np.arange(pencil.n) if pencil.masses is None else np.flatnonzero(pencil.masses)
    rows = rows[:k] if bounds is None else rows if bounds[0] <= 0 < bounds[1] else rows[:0]
    ensure_memory(8 * pencil.n * len(rows), counted(len(rows), "eigenvector"))
    X = np.zeros((pencil.n, len(rows)))
    X[rows, np.arange(len(rows))] = 1
    return np.zeros(len(rows)), pencil.place.bring(X), len(rows), True


def _dense(search, k, bounds):
    """All pairs by LAPACK, of which some are kept."""
    pencil = search.pencil
    ensure_memory(24 * pencil.n**2, f"a dense matrix with {counted(pencil.n, 'row')} for more than a third of all pairs")
    with search.report.phase("dense"):
        try:
            w, X = _all_pairs(pencil)
        except np.linalg.LinAlgError as e:
            raise NotPositiveDefiniteError("M must be positive definite, and A positive semidefinite where M has zeros: a Cholesky "
                                           "factorization fails", column=pencil.row(0)) from e
    chosen = np.flatnonzero((w >= bounds[0]) & (w < bounds[1])) if bounds else np.arange(k)
    return w[chosen], pencil.place.bring(np.ascontiguousarray(X[:, chosen])), len(chosen), True


def _all_pairs(pencil):
    """(values, vectors) of the whole pencil by LAPACK. Where M has zeros, those of M x = theta (A - sigma M) x with theta > 0."""
    if pencil.masses is None or pencil.masses.min() > 0:
        return scipy.linalg.eigh(pencil.A.toarray(), pencil.M.toarray())
    sigma = -NEAR_ZERO * pencil.scale()
    theta, X = scipy.linalg.eigh(pencil.M.toarray(), pencil.shifted(sigma).toarray())
    finite = np.arange(pencil.n)[::-1][:np.count_nonzero(pencil.masses)]            # by descending theta
    return sigma + 1 / theta[finite], X[:, finite]


def _lobpcg(search, k):
    """The k smallest pairs by scipy's LOBPCG with an approximate Cholesky factor; nothing is counted.

    The search is orthogonal to the null space of a Laplacian, which is known: with it in its basis LOBPCG stagnates above tol.
    """
    pencil = search.pencil
    known = _null_space(pencil, k)
    left = k - known.shape[1]
    if pencil.n - known.shape[1] < 5 * (left + 2):          # scipy takes a dense method, and there no constraints
        known, left = known[:, :0], k
    w, X = np.zeros(known.shape[1]), known
    if left:
        with search.report.phase("lobpcg"), np.errstate(all="ignore"):
            P = parac(pencil.shifted(-NEAR_ZERO * pencil.scale()), seed=search.seed, threads=pencil.threads)
            start = np.random.default_rng(search.seed).standard_normal((pencil.n, left + 2))
            v, Y, history = spla.lobpcg(pencil.A, start, B=pencil.M, M=P, Y=known if len(w) else None, largest=False,
                                        tol=search.tol * pencil.scale(), maxiter=search.maxiter, retResidualNormsHistory=True)
        search.iterations += len(history)
        w, X = np.r_[w, v], np.hstack([X, Y])
    return w[:k], pencil.place.bring(np.ascontiguousarray(X[:, :k])), None, True


def _null_space(pencil, most):
    """(n, c <= most): ones in connected components whose rows sum to 0 and have mass, else zeros."""
    count, component = components(as_csr(pencil.A))
    is_off = abs(pencil.A.sum(axis=1)) > ROW_SUM * abs(pencil.A).sum(axis=1)
    weights = np.bincount(component, pencil.M.sum(axis=1), count)            # 1^T M 1 in each
    numbers = np.flatnonzero((np.bincount(component, is_off, count) == 0) & (weights > 0))[:most]
    return np.equal.outer(component, numbers).astype(np.float64)


def _delivered(search, method, w, X, number, done):
    """The pairs without constants, in the caller's rows, normalized and measured."""
    pencil, report = search.pencil, search.report
    xp = pencil.place.xp
    constants = min(pencil.constants, np.count_nonzero(abs(w) <= ZERO * pencil.scale()))         # an interval may be without 0
    w, X, number = w[constants:], X[:, constants:], number if number is None else number - constants
    if not search.is_orthonormal:
        X = _normalized(pencil, X)
    residuals = _finished(pencil, w, X)
    converged = bool(done and (residuals <= search.tol).all())
    reason = ("converged" if converged else "residuals above tol" if (residuals > search.tol).any() else
              "the number of eigenvalues is not decided in double precision" if search.is_undecided else "eigenvalues are missing")
    if not converged:
        warn(f"eigsh: {reason} after {search.iterations} blocks (largest residual {residuals.max(initial=0):.1e}, tol {search.tol:.1e}); "
             "raise maxiter or tol", ConvergenceWarning)
    if pencil.rows is not None:
        whole = xp.zeros((pencil.size, X.shape[1]))
        whole[pencil.place.bring(pencil.rows)] = X
        X = whole
    return Eigenpairs(w, X, EigenInfo(method, converged, number, residuals, search.iterations, search.shifts, reason, report))


def _normalized(pencil, X):
    """X with X^T M X = I, by Cholesky QR."""
    if X.shape[1] == 0:
        return X
    xp, M = pencil.place.xp, pencil.weighed
    X = X / xp.sqrt((X * M(X)).sum(axis=0))
    G = X.T @ M(X)
    inverse = scipy.linalg.solve_triangular(np.linalg.cholesky(device.to_host((G + G.T) / 2)), np.eye(len(G)), lower=True)
    return X @ pencil.place.bring(np.ascontiguousarray(inverse.T))


def _finished(pencil, w, X):
    """(k,) relative residuals of the pairs, on the host. In place, the entry of largest absolute value of each column of X becomes
    positive: the first among equals."""
    norms = [float((abs(matrix) @ np.ones(pencil.n)).max()) for matrix in (pencil.A, pencil.M)]
    residuals, sizes, most, least = pencil.measured(w, X)
    near = (1 - 1e-8) * np.maximum(most, -least)
    negative = -least >= near
    for c in np.flatnonzero(negative & (most >= near)):                             # equal entries of both signs
        negative[c] = bool(X[int((abs(X[:, c]) >= near[c]).argmax()), c] < 0)
    if negative.any():
        X *= pencil.place.bring(np.where(negative, -1.0, 1.0))
    scale = (norms[0] + abs(w) * norms[1]) * sizes
    return residuals / np.where(scale > 0, scale, 1)                                # A = 0: both are 0
