"""The matrices of Newton's method: products with the linear part, solves with the whole Jacobian.

A factor is kept while the conductances of the devices stay near those in the factor. This changes the rate of convergence, not
the limit. Small matrices are factored by LAPACK with the scaling of the first sparse factorization. Below about a hundred
unknowns this is several times faster than a sparse refactorization called from Python. Sources: Nagel 1975, "SPICE2", section 4.2
(bypass); Anderson et al. 1999, "LAPACK Users' Guide".
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

SMALL = 96                  # most unknowns of a matrix that LAPACK factors: every BLAS uses one thread up to here
NEAR = 0.15                 # largest accepted change of a conductance since the factorization, relative
PIVOT_TOL = 4 * np.finfo(float).eps     # times n: smallest accepted pivot relative to the largest one, at the level of rounding


class Jacobian:
    """J = G + a C + devices, with its latest factor.

    Parameters
    ----------
    solver : Solver
        Computes the sparse factors and raises the errors of singular matrices.

    Attributes
    ----------
    conductance : (k,) float64 or None
        Conductances of the devices in the factor. None: there is no factor.
    """

    def __init__(self, solver):
        self.solver, self.matrix = solver, solver.matrix
        nnz, n = len(self.matrix.indices), self.matrix.n
        self.all, self._small = self.matrix.filled(np.zeros(nnz)), n <= SMALL
        self.linear = np.zeros((n, n)) if self._small else self.matrix.filled(np.zeros(nnz))
        self._positions = self.matrix.rows() * n + self.matrix.indices if self._small else None
        self._data = None                                   # (nnz,) entries of the linear part
        self.part, self.conductance = None, None
        self.sparse, self.dense = None, None                # the factor: at most one of the two

    def set_linear_part(self, a, to_ground):
        """Use G + a C with a conductance from each node to ground."""
        if self.part == (a, to_ground):
            return
        self.part, self.conductance = (a, to_ground), None
        self._data = self.matrix.base(a, to_ground)
        if self._small:
            self.linear.reshape(-1)[self._positions] = self._data
        else:
            self.linear.data[:] = self._data

    def factor(self, conductance):
        """Factor the linear part with these conductances."""
        solver, self.conductance = self.solver, None        # an error leaves no factor
        if solver.dense is not None and self._dense_factor(conductance):
            solver.count("refactorizations")
            self.sparse, self.dense = None, solver.dense
        else:
            self.all.data[:] = self._data + self.matrix.of_devices(conductance)
            self.sparse, self.dense = solver.factored(self.all, *self.part), None
        self.conductance = conductance

    def is_near(self, conductance):
        """True if the factor is accurate enough for a matrix with these conductances. A dense factor always counts as too far: it
        costs less than another Newton step."""
        if self.conductance is None or self.dense is not None:
            return False
        return not np.count_nonzero(np.abs(conductance - self.conductance) > NEAR * self.solver.system.devices.sizes(conductance))

    def solve(self, r):
        """Solve with the factor."""
        if self.dense is None:
            return self.solver.by_factor(self.sparse, r)
        with self.solver.report.phase("solve"):
            self.solver.in_doubt = False
            return self.dense.solve(r)

    def _dense_factor(self, conductance):
        """Factor with LAPACK. False if a pivot is too small."""
        with self.solver.report.phase("refactor"):
            return self.solver.dense.factor(self.part, self._data, conductance)


class Dense:
    """LU factorization of a small matrix by LAPACK, with partial pivoting.

    Parameters
    ----------
    matrix : Matrix
    row_scale, col_scale : (n,) float64
        Scaling that brings the entries near 1.
    """

    def __init__(self, matrix, row_scale, col_scale):
        self.n, self.row_scale, self.col_scale = matrix.n, row_scale, col_scale
        rows, columns = matrix.rows(), matrix.indices
        self._positions = columns * matrix.n + rows         # column-major, as in LAPACK
        self._weights = row_scale[rows] * col_scale[columns]
        touched, self._which = np.unique(matrix.slots, return_inverse=True)
        self._touched = self._positions[touched]
        self._entry, self._sign = matrix.which, matrix.sign * self._weights[matrix.slots]
        self._entries, self._linear, self._part = np.zeros(matrix.n ** 2), np.zeros(matrix.n ** 2), None
        self._square, self._pivots = self._entries.reshape(matrix.n, matrix.n).T, self._entries[::matrix.n + 1]

    def factor(self, part, data, conductance):
        """Factor. False if a pivot may consist of rounding errors; there is no factor then. ``part`` identifies the linear part
        ``data``."""
        if self._part != part:
            self._part, self._linear[self._positions] = part, data * self._weights
            self._base = self._linear[self._touched]        # entries to which the devices add
        self._entries[:] = self._linear
        added = np.bincount(self._which, self._sign * conductance[self._entry], len(self._touched))
        self._entries[self._touched] = self._base + added
        _, self._rows, info = lapack.dgetrf(self._square, overwrite_a=1)
        pivots = np.abs(self._pivots)
        return info == 0 and bool(np.minimum.reduce(pivots) > PIVOT_TOL * self.n * np.maximum.reduce(pivots))

    def solve(self, r):
        """Solve. Values that are not finite are not checked."""
        return lapack.dgetrs(self._square, self._rows, r * self.row_scale, overwrite_b=1)[0] * self.col_scale
