"""All eigenpairs of the shift-invert operator of a small pencil by LAPACK, with the methods of :class:`Lanczos`.

For M = R R^T, the operator R^T (A - sigma M)^-1 R has the eigenvalues theta = 1 / (lambda - sigma) and the eigenvectors R^T x. Those near
the shift keep their digits whatever the other entries of A are. Cost: n / 8 solves and O(n^3) operations.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from meshsolve import device
from meshsolve.eigen.basis import WIDTH
from meshsolve.eigen.lanczos import Ritz


class Exhaustive:
    """The complete decomposition, as an iteration that is finished.

    Parameters
    ----------
    pencil : Pencil
    F : factor of A - sigma M
    """

    restarts = kept = 0
    is_deflated = False
    is_complete = True                  # vectors() returns rows without mass as well

    def __init__(self, pencil, F):
        self.pencil, self.F = pencil, F
        R = pencil.root()
        half = device.to_host(F.solve(pencil.place.bring(R)))
        C = R.T @ half
        theta, Y = scipy.linalg.eigh((C + C.T) / 2) if C.size else (np.zeros(0), np.zeros((0, 0)))
        order = np.argsort(-abs(theta), kind="stable")
        self.R, self.theta, self.Y = R, theta[order], Y[:, order]
        self.solves = self.blocks = self.capacity = -(-R.shape[1] // WIDTH)
        self.dim, self.is_full = len(theta), True

    def ritz(self):
        """The :class:`Ritz` pairs: exact ones, with residuals 0."""
        zeros = np.zeros(self.dim)
        return Ritz(self.theta, self.Y, zeros, zeros)

    def vectors(self, ritz, wanted, scale):
        """(n, len(wanted)) eigenvectors with these numbers, rows multiplied by ``scale``."""
        place = self.pencil.place
        X = self.F.solve(place.bring(self.R @ ritz.Y[:, wanted] / ritz.theta[wanted]))
        return X * place.bring(scale[:, None]) if self.pencil.masses is not None and self.pencil.has_masses else X
