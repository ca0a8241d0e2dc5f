"""When a column of conjugate gradients ends, with which reason, and the results of a run. The iteration is in cg.py."""

from __future__ import annotations

import numpy as np

from meshsolve.krylov.blocks import columns_out_of_range, unshifted
from meshsolve.krylov.info import CONVERGED, TOO_LARGE, Info
from meshsolve.options import counted

FORESEE = 20                            # iterations from look to look, from which those that are left are foreseen
LOST_AT = 1e4                           # a residual that has grown by this is rounding's
SAVE_AT = 0.1                           # an iterate is kept whenever the residual has fallen by this

RUNNING = "running"
STAGNATED = "stagnated: the true residual no longer falls, b is solved as well as rounding allows"
DIVERGED = "diverged: rounding errors have taken over"
INDEFINITE = "broke down: A is not positive definite, or M is not"
OUTSIDE = "b is not in the range of A: its means were taken out, and the rest is solved"
TINY = np.finfo(np.float64).tiny        # what is smaller has lost its digits
NEGATIVE = 1e-4, 1e-13                  # r . M r beside the lengths of both, p . A p beside |p| . |A| |p|: more negative is no rounding
SUMS = 1e-10                            # beside the moduli: row sums that M, which is singular, may have taken for 0


class Solve:
    """What a run tells of its columns, from ``X``, ``shift`` (see :class:`~meshsolve.krylov.blocks.Blocks`), ``norm``, ``scale``,
    ``outside``, ``reason``, ``iterations``, ``residuals``, ``report``, ``null_space`` (None for a regular matrix)."""

    def info(self, scalar):
        """The :class:`Info`; plain numbers for a single right-hand side."""
        relative, converged = self.relative(self.norm), bool((self.reason == CONVERGED).all())
        residuals, singular = [self.relative(norm) for norm in self.residuals], self.null_space is not None
        if not scalar:
            return Info("cg", converged, self.iterations, relative, residuals, self.reason.astype(str), self.report, singular)
        residuals = [float(r[0]) for r in residuals]
        return Info("cg", converged, int(self.iterations[0]), float(relative[0]), residuals, str(self.reason[0]), self.report, singular)

    def relative(self, norm):
        """||b - A x|| / ||b|| of the caller's b, from the norms of the residuals that are left in the range of A."""
        return np.hypot(norm, self.outside) / self.scale

    def worst(self):
        """What to say of the column that is farthest from its tolerance."""
        failed = np.flatnonzero(self.reason != CONVERGED)
        relative = self.relative(self.norm)
        c = failed[np.argmax(np.nan_to_num(relative[failed], nan=np.inf))]
        which = f"column {c}: " if len(self.norm) > 1 else ""
        return f"{which}{self.reason[c]} (relative residual {relative[c]:.3g} after {counted(self.iterations[c], 'iteration')})"

    def _is_hopeless(self, done, gives_up):
        """Whether the caller gives up on a column, who may ask how many iterations are left if its residual goes on to fall as in the
        last ones that were ``seen``."""
        if done == 0 or done % FORESEE:
            return False

        def left(seen=FORESEE):
            with np.errstate(divide="ignore", invalid="ignore"):
                gone, still = np.log(self.residuals[done - seen] / self.norm), np.log(self.norm / self.target)
                return float(np.where(gone > 0, seen * still / gone, np.inf)[self.active].max(initial=0.0))

        return gives_up(done, left)

    def _judge_range(self):
        """Columns that are solved, but for what was taken out of b, have not converged where that is too much."""
        self.reason[(self.reason == CONVERGED) & (self.outside > self.allowed)] = OUTSIDE

    def _judge_size(self):
        """Columns whose solution is out of range in the scale of the caller's b."""
        if (self.shift < 1).any():
            beyond = columns_out_of_range(unshifted(self.X, self.shift))
            self.reason[beyond], self.norm[beyond] = TOO_LARGE, np.inf
