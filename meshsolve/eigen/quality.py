"""How good eigenpairs are: attainable accuracies, residuals relative to them, Rayleigh quotients, and a step that repairs single pairs.

No scale comes from the largest entry of A. For each vector x, rounding errors in the entries of A change its eigenvalue by up to
floor(x) = 2 eps |x|^T |A| |x| / (x^T M x). A penalized row, where x is 0, adds nothing to it. Residuals are compared row by row.
Row i of A x - w M x is divided by the root of the sum of row i of |A|. So the units of the rows do not matter.

Source: Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 7.2 (componentwise backward error).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve import device
from meshsolve.eigen.pencil import ROUNDING

FLOOR = 2               # units of rounding of |x|^T |A| |x| that an eigenvalue may change by
BACKWARD = 128          # units of rounding of the rows of |A| |x| + |w| |M| |x| that a residual may have: errors of the solves
SHIFTED = 8             # units of rounding of an eigenvalue of the operator
REPAIRED = 2            # times that a pair is repaired
DEPENDENT = 1e-10       # eigenvalue of a Gram matrix, relative to the largest one, up to which a direction is left out
LIMITED = 1e-6          # floor of an eigenvalue relative to it, above which its digits are said to be lost
ZERO = 64               # floors of an eigenvalue up to which it is 0 to rounding


@dataclass
class Quality:
    """Facts of eigenpairs, by pair.

    Attributes
    ----------
    residuals : (k,) float64
        Residuals relative to the largest ones that are accepted, times the tolerance: at most the tolerance where a pair is accepted.
    floors : (k,) float64
        Changes of the eigenvalues that rounding errors in the entries of A may cause.
    quotients, norms : (k,) float64
        Rayleigh quotients; x^T M x.
    most, least : (k,) float64
        The largest and the least entry of each vector.
    """

    residuals: np.ndarray
    floors: np.ndarray
    quotients: np.ndarray
    norms: np.ndarray
    most: np.ndarray
    least: np.ndarray

    def of(self, numbers):
        """The same for some of the pairs."""
        return Quality(*(getattr(self, name)[numbers] for name in self.__dataclass_fields__))

    def replace(self, numbers, other):
        """Overwrite the facts of these pairs."""
        for name in self.__dataclass_fields__:
            getattr(self, name)[numbers] = getattr(other, name)


def joined(parts):
    """The facts of several lists of pairs, one after the other."""
    return Quality(*(np.concatenate([getattr(part, name) for part in parts]) for name in Quality.__dataclass_fields__))


def judged(pencil, tol, w, X):
    """The :class:`Quality` of pairs: values w (k,), vectors X (n, k) where the pencil lies."""
    rows = pencil.sizes + abs(w).max(initial=0.0) * pencil.M.diagonal()
    weights = np.divide(1.0, rows, out=np.zeros(pencil.n), where=rows > 0)
    left, masses, sizes, energy, quotient, norms, most, least = pencil.measured(weights, w, X)
    with np.errstate(divide="ignore", invalid="ignore"):
        floors = np.where(norms > 0, FLOOR * ROUNDING * energy / norms, np.inf)
        quotients = np.where(norms > 0, quotient / norms, np.nan)
        accepted = tol * abs(w) * np.sqrt(masses)
        if tol >= ROUNDING:                                 # a smaller tolerance is below rounding errors
            accepted = np.maximum(np.maximum(accepted, floors * np.sqrt(masses)), BACKWARD * ROUNDING * np.sqrt(sizes))
        residuals = np.where(left > 0, tol * np.sqrt(left) / accepted, 0.0)
    return Quality(np.where(np.isnan(residuals), np.inf, residuals), floors, quotients, norms, most, least)


def improved(pencil, tol, w, X, quality, shifts):
    """Repair pairs with large residuals by inverse iteration; returns the values.

    ``w`` (k,), ``X`` (n, k) and ``quality`` are changed in place. ``shifts`` holds pairs (sigma, factor). A pair takes the factor whose
    shift is nearest to it. Vectors change only within their own errors, so that all stay orthonormal.
    """
    for _ in range(REPAIRED):
        hidden = quality.floors > LIMITED * abs(w).max(initial=0.0)             # perhaps by errors of the vector
        bad = np.flatnonzero(((quality.residuals > tol) | hidden) & np.isfinite(w))
        if len(bad) == 0:
            break
        distances = abs(np.subtract.outer(w, [sigma for sigma, _ in shifts]))
        nearest = distances[bad].argmin(axis=1)
        for number, (_, F) in enumerate(shifts):
            some = bad[nearest == number]
            if len(some):
                others = np.setdiff1d(np.flatnonzero(distances[:, number] < distances[some, number].max()), some)
                _repair(pencil, tol, w, X, quality, F, some, others)
    return w


def rayleigh_ritz(pencil, X):
    """(values ascending, M-orthonormal vectors) of the pencil on the span of X, without directions that are dependent to rounding."""
    AX, MX = pencil.product(pencil.A)(X), pencil.weighed(X)
    a, m = (device.to_host(X.T @ product) for product in (AX, MX))
    scale = 1 / np.sqrt(np.maximum(np.diag(m), np.finfo(float).tiny))
    a, m = (scale[:, None] * (matrix + matrix.T) / 2 * scale for matrix in (a, m))
    if not (np.isfinite(a).all() and np.isfinite(m).all()):
        return np.zeros(0), X[:, :0]
    sizes, U = np.linalg.eigh(m)
    kept = sizes > DEPENDENT * sizes[-1]
    U = U[:, kept] / np.sqrt(sizes[kept])
    values, V = np.linalg.eigh(U.T @ a @ U)
    return values, X @ pencil.place.bring(np.ascontiguousarray(scale[:, None] * (U @ V)))


def values_of(w, sigma, theta, errors, quality):
    """Eigenvalues by the more accurate of two ways: sigma + 1 / theta, or the Rayleigh quotient, which has the error ``floors``.

    The error of the first grows with the distance from the shift and with the relative errors (k,) of theta.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        error = SHIFTED * ROUNDING * (w - sigma)**2 * abs(theta).max(initial=0.0) + errors * abs(w - sigma)
    return np.where((quality.floors < error) & np.isfinite(quality.quotients), quality.quotients, w)


def _repair(pencil, tol, w, X, quality, F, some, others):
    """One step of inverse iteration for the pairs ``some``, orthogonal to ``others``, which it would amplify; kept if it helps."""
    place = pencil.place
    Y = pencil.solved(F, pencil.weighed(X[:, place.bring(some)].copy(order="C")))
    if len(others):
        Z = X[:, place.bring(others)].copy(order="C")
        Y = Y - Z @ (Z.T @ pencil.weighed(Y))
    values, Y = rayleigh_ritz(pencil, Y)
    if len(values) < len(some):
        return
    trial = judged(pencil, tol, values, Y)
    old = quality.of(some)
    is_better = (trial.residuals.max() < old.residuals.max() if old.residuals.max() > tol else
                 trial.residuals.max() <= tol and trial.floors.max() < old.floors.max() / 2)
    if is_better and np.isfinite(trial.quotients).all():
        X[:, place.bring(some)], w[some] = Y, values
        quality.replace(some, trial)
