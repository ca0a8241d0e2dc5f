"""The matrices of Newton's method: products with the linear part, solves with all of it.

A factor serves as long as the conductances of the devices stay near those it has: the method then needs no other one, and what
it converges to is not the factor's affair. Small matrices are factored by LAPACK, scaled as the sparse factorization scaled the
first of them: below about a hundred unknowns that is several times faster than a sparse refactorization called from Python.
Sources: Nagel 1975, "SPICE2", section 4.2 (bypass); Anderson et al. 1999, "LAPACK Users' Guide".
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

SMALL = 96                  # unknowns, at most, of a matrix that LAPACK factors; on one thread, whatever BLAS is there
NEAR = 0.15                 # of a conductance: by how much that of the factor may differ
PIVOT = 4 * np.finfo(float).eps         # times n: a pivot that is smaller beside the largest one may be rounding


class Jacobian:
    """J = G + a C + devices with the factor at hand.

    Parameters
    ----------
    solver : Solver
        Makes the sparse factors, and says what is singular.

    Attributes
    ----------
    conductance : (k,) float64 or None
        Those of the devices in the factor.
    """

    def __init__(self, solver):
        self.solver, self.matrix = solver, solver.matrix
        nnz, n = len(self.matrix.indices), self.matrix.n
        self.all, self._small = self.matrix.filled(np.zeros(nnz)), n <= SMALL
        # The linear part, for products with vectors, and its entries.
        self.linear = np.zeros((n, n)) if self._small else self.matrix.filled(np.zeros(nnz))
        self._places = self.matrix.rows() * n + self.matrix.indices if self._small else None
        self._data = None
        self.part, self.conductance = None, None
        self.sparse, self.dense = None, None                # factors; which one holds is the one that is not None

    def take(self, a, to_ground):
        """The linear part from here on."""
        if self.part == (a, to_ground):
            return
        self.part, self.conductance = (a, to_ground), None
        self._data = self.matrix.base(a, to_ground)
        if self._small:
            self.linear.reshape(-1)[self._places] = self._data
        else:
            self.linear.data[:] = self._data

    def factor(self, conductance):
        """Factor the linear part with these conductances."""
        solver, self.conductance = self.solver, None        # nothing holds after an error
        if solver.dense is not None and self._dense_factor(conductance):
            solver.count("refactorizations")
            self.sparse, self.dense = None, solver.dense
        else:
            self.all.data[:] = self._data + self.matrix.of_devices(conductance)
            self.sparse, self.dense = solver.factored(self.all, *self.part), None
        self.conductance = conductance

    def _dense_factor(self, conductance):
        """Whether LAPACK has found pivots."""
        with self.solver.report.phase("refactor"):
            return self.solver.dense.factor(self.part, self._data, conductance)

    def is_near(self, conductance):
        """Whether the factor is near enough to a matrix with these conductances. Where factors cost less than a Newton step more, it
        never is."""
        if self.conductance is None or self.dense is not None:
            return False
        return not np.count_nonzero(np.abs(conductance - self.conductance) > NEAR * self.solver.system.devices.sizes(conductance))

    def solve(self, r):
        """The solution with the factor."""
        with self.solver.report.phase("solve"):
            return self.dense.solve(r) if self.dense is not None else self.sparse.solve(r)


class Dense:
    """LU factorization of a small matrix by LAPACK, with partial pivoting.

    Parameters
    ----------
    matrix : Matrix
    row_scale, col_scale : (n,) float64
        With them the entries are about 1, whatever the units and magnitudes of the equations.
    """

    def __init__(self, matrix, row_scale, col_scale):
        self.n, self.row_scale, self.col_scale = matrix.n, row_scale, col_scale
        rows, columns = matrix.rows(), matrix.indices
        self._places = columns * matrix.n + rows            # in columns, as LAPACK has them
        self._weights = row_scale[rows] * col_scale[columns]
        touched, self._which = np.unique(matrix.slots, return_inverse=True)
        self._touched = self._places[touched]
        self._entry, self._sign = matrix.which, matrix.sign * self._weights[matrix.slots]
        self._entries, self._linear, self._part = np.zeros(matrix.n ** 2), np.zeros(matrix.n ** 2), None
        self._square, self._pivots = self._entries.reshape(matrix.n, matrix.n).T, self._entries[::matrix.n + 1]

    def factor(self, part, data, conductance):
        """Factor; False where a pivot may be mere rounding, and there is no factor then. ``part`` names the linear part, ``data``."""
        if self._part != part:
            self._part, self._linear[self._places] = part, data * self._weights
            self._beneath = self._linear[self._touched]
        self._entries[:] = self._linear
        self._entries[self._touched] = self._beneath + np.bincount(self._which, self._sign * conductance[self._entry], len(self._touched))
        _, self._rows, info = lapack.dgetrf(self._square, overwrite_a=1)
        pivots = np.abs(self._pivots)
        return info == 0 and bool(np.minimum.reduce(pivots) > PIVOT * self.n * np.maximum.reduce(pivots))

    def solve(self, r):
        """The solution; values that are not finite go through."""
        return lapack.dgetrs(self._square, self._rows, r * self.row_scale, overwrite_b=1)[0] * self.col_scale
