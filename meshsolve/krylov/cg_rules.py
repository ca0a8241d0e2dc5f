"""Stopping rules of conjugate gradients, and the results of a run. The iteration is in cg.py."""

from __future__ import annotations

import numpy as np

from meshsolve.krylov.blocks import out_of_range
from meshsolve.krylov.info import CONVERGED, OUT_OF_RANGE, Info
from meshsolve.options import counted

FORESEE = 20                            # iterations between two estimates of the number that is left
LOST_AT = 1e4                           # growth of the residual since the last saved iterate above which rounding has taken over
SAVE_AT = 0.1                           # decrease of the residual at which an iterate is saved

RUNNING = "running"
STAGNATED = "stagnated: the true residual no longer falls, b is solved as well as rounding allows"
DIVERGED = "diverged: rounding errors have taken over"
INDEFINITE = "broke down: A is not positive definite, or M is not"
OUTSIDE = "b is not in the range of A: its means were removed, and the rest is solved"
TINY = np.finfo(np.float64).tiny        # smallest normal number: smaller products have lost digits
NEGATIVE = 1e-4, 1e-13                  # rounding of r . M r relative to |r| |M r|, and of p . A p relative to |p| . |A| |p|
SUMS = 1e-10                            # largest |row sum| relative to the row's sum of absolute values that counts as 0


class Solve:
    """Results of a run.

    A subclass has ``X``, ``powers`` (see :class:`~meshsolve.krylov.blocks.Blocks`), ``norm``, ``scale``, ``outside``, ``reason``,
    ``iterations``, ``residuals``, ``report`` and ``null_space`` (None for a regular matrix).
    """

    def info(self, scalar):
        """The :class:`Info`; plain numbers for a single right-hand side."""
        relative, converged = self.relative(self.norm), bool((self.reason == CONVERGED).all())
        residuals, singular = [self.relative(norm) for norm in self.residuals], self.null_space is not None
        if not scalar:
            return Info("cg", converged, self.iterations, relative, residuals, self.reason.astype(str), self.report, singular)
        residuals = [float(r[0]) for r in residuals]
        return Info("cg", converged, int(self.iterations[0]), float(relative[0]), residuals, str(self.reason[0]), self.report, singular)

    def relative(self, norm):
        """||b - A x|| / ||b|| for the caller's b, from the norms of the residuals in the range of A."""
        return np.hypot(norm, self.outside) / self.scale

    def worst(self):
        """Describe the column that is farthest from its tolerance."""
        failed = np.flatnonzero(self.reason != CONVERGED)
        relative = self.relative(self.norm)
        c = failed[np.argmax(np.nan_to_num(relative[failed], nan=np.inf))]
        which = f"column {c}: " if len(self.norm) > 1 else ""
        return f"{which}{self.reason[c]} (relative residual {relative[c]:.3g} after {counted(self.iterations[c], 'iteration')})"

    def _is_hopeless(self, done, gives_up):
        """True if ``gives_up(done, left)`` is. ``left(seen)`` estimates the number of iterations left if the residuals fall as in
        the last ``seen``."""
        if done == 0 or done % FORESEE:
            return False

        def left(seen=FORESEE):
            with np.errstate(divide="ignore", invalid="ignore"):
                gone, still = np.log(self.residuals[done - seen] / self.norm), np.log(self.norm / self.target)
                return float(np.where(gone > 0, seen * still / gone, np.inf)[self.active].max(initial=0.0))

        return gives_up(done, left)

    def _judge_range(self):
        """Columns whose residual in the range of A is small have not converged if the means removed from b are too large."""
        self.reason[(self.reason == CONVERGED) & (self.outside > self.allowed)] = OUTSIDE

    def _judge_size(self):
        """Columns whose solution leaves the range of float64 in the scale of the caller's b have not converged."""
        infinite, lost, X = out_of_range(self.X, self.powers)
        self.reason[infinite], self.norm[infinite] = OUT_OF_RANGE, np.inf
        if X is not None:
            norm = self.vectors.true_norms(X, self.vectors.R)
            self.norm[lost] = norm[lost]
            self.reason[lost & (norm > 1.001 * self.target)] = OUT_OF_RANGE
