"""Heat of point sources on factors of M / t + L, after a time in which it has reached every vertex.

Heat decays by a factor of about e for each edge when t is the squared mean edge length, and underflows 700 edges from its source. Then
4 t, 16 t, ... are tried.

Source: Crane, Weischedel, Wardetzky 2013, algorithm 1, step I. Cost: a Cholesky factor of n rows for each time, kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve.api import cholesky
from meshsolve.errors import MeshsolveError
from meshsolve.sparse.places import PLACES

LEAST_HEAT = 1e-290     # less is near the smallest double, about 1e-308: directions would be rounding errors, then 0 / 0
LEVELS = 12             # of t, each 4 times the one before: for meshes up to a million edges across


class ScalarHeat:
    """Heat flow on one surface.

    Parameters
    ----------
    laplacian : (n, n) csr_array
    rate : (n,) float64
        Mass over time t of each vertex.
    options : dict
        ``device`` and ``threads`` of the factors.
    report : Report
        Gets the seconds of ``factor`` and ``solve``.
    symbolic : Symbolic, optional
        Analysis of the pattern of the Laplacian; default: that of the first factor.

    Attributes
    ----------
    level : int
        The power of 4 that multiplied t in the last flow.
    """

    def __init__(self, laplacian, rate, options, report, symbolic=None):
        self._laplacian, self._rate, self._options, self._report, self._symbolic = laplacian, rate, options, report, symbolic
        self.level = 0
        self._factors: list[Any] = []

    def flow(self, rows, columns, values, reached):
        """Let heat flow until it is positive wherever ``reached`` is True.

        Parameters
        ----------
        rows, columns, values : (s,) int32, int32 and float64
            Heat at the start: ``values`` are added at (rows, columns).
        reached : (n, k) bool

        Returns
        -------
        factor : CholeskyFactor
        heat : (n, k) float64
            Where the factor lies: on the host or on the GPU.

        Raises
        ------
        MeshsolveError
            Heat does not reach every vertex.
        """
        place = PLACES[self._options["device"]]
        elsewhere = None if reached.all() else place.bring(~reached)
        for self.level in range(LEVELS):
            if self.level == len(self._factors):
                with self._report.phase("factor"):
                    self._factors.append(self._factor(with_units(self._laplacian + sp.diags_array(self._rate / 4**self.level))))
            with self._report.phase("solve"):
                heat = self._factors[self.level]._solve_entries(rows, columns, values, reached.shape[1])
            if (heat if elsewhere is None else place.xp.where(elsewhere, 1.0, heat)).min() > LEAST_HEAT:
                return self._factors[self.level], heat
        raise MeshsolveError(f"heat does not reach every vertex in {4**self.level} squared mean edge lengths of time: the mesh "
                             "has more than a million edges from one end to the other; give a larger t")

    def _factor(self, A):
        if self._symbolic is not None:
            return self._symbolic.factor(A, **self._options)
        factor = cholesky(A, **self._options)
        self._symbolic = factor.symbolic
        return factor


def with_units(A, without=None):
    """Return a matrix as csr_array, with 1 on the diagonal of zero rows: vertices without faces, edges of faces without area.

    The rows of the mask ``without`` (n,), those of whole components, count as zero rows.
    """
    if without is not None and without.any():
        A = sp.csr_array(A)
        A.data = np.where(without[A.indices], 0, A.data)
    return sp.csr_array(A + sp.diags_array((A.diagonal() == 0).astype(float)))
