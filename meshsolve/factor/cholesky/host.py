"""The C++ core behind a CholeskyFactor: numeric phase and solves on the CPU. Its twin is `DeviceFactor` in cuda.py."""

from __future__ import annotations

import contextlib

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, device
from meshsolve.errors import PatternMismatchError
from meshsolve.factor.base import values_in
from meshsolve.factor.fronts import assembly_tree
from meshsolve.memory import ensure_memory
from meshsolve.options import counted
from meshsolve.sparse.matrix import Csr, narrow_ptr


class HostFactor:
    """Panels of L in main memory; every array that it takes or gives is numpy's.

    Parameters
    ----------
    symbolic : Symbolic
    precision : {"double", "single", "mixed"}
    threads : int
    """

    place = "cpu"
    takes_vectors = True            # a (n,) array of float64 goes to the core as it is
    errors = contextlib.nullcontext
    bring = staticmethod(device.to_host)
    suits = staticmethod(lambda symbolic: True)     # no analysis is better left to another place

    @staticmethod
    def analysis_of(symbolic):
        """(pattern, analysis) where the factor works."""
        return symbolic.matrix_pattern, symbolic.native

    def __init__(self, symbolic, precision, threads):
        tree = assembly_tree(symbolic, threads)
        self._tree = tree
        self._factor = (_core.CholeskyDouble if precision == "double" else _core.CholeskySingle)(tree)
        self._itemsize = 8 if precision == "double" else 4
        needed = self._itemsize * (self._factor.panel_scalars + tree.work_scalars(threads))
        ensure_memory(needed, f"the factor ({counted(symbolic.nnz, 'nonzero')})")
        self._pattern, self._boundary, self._threads = symbolic.matrix_pattern, symbolic.boundary, threads
        self._keep, self._matrix = precision == "mixed", None   # refinement needs A itself

    def factor(self, data):
        """Factor the matrix with these values in the analysed pattern: -1, or the new number of the column that failed."""
        P, before, matrix = self._pattern, self.changes, None
        if self._keep:
            matrix = sp.csr_array((data.copy(), P.indices, P.indptr), shape=(P.n, P.n))
        try:
            return self._factor.factor(data, self._threads)
        finally:                                                            # Ctrl-C may come when all is done
            if self.changes > before:
                self._matrix = matrix

    def update(self, C, down):
        """Make this the factor of A + C C^T, or A - C C^T where ``down``, of a csc_array C in the order of the pattern; False where that
        is not definite, and then the earlier factor stays.

        Raises
        ------
        PatternMismatchError
        """
        columns = C.indptr.astype(np.int64), C.indices.astype(np.int32), C.data
        row, column = self._factor.outside(*columns)
        if row >= 0:
            raise PatternMismatchError.at(row, column)
        before, matrix = self.changes, None
        if self._keep:                                                      # before the factor changes: memory may run out
            matrix = self._changed_by(C, down)
        try:
            return self._factor.update(*columns, down, self._threads) < 0
        finally:
            if self.changes > before:
                self._matrix = matrix

    def _changed_by(self, C, down):
        """A + C C^T, or A - C C^T, in the pattern."""
        product = (C @ C.T).tocsr()
        product.sort_indices()
        indptr, indices = product.indptr.astype(np.int64), product.indices.astype(np.int32)
        added = values_in(self._pattern, Csr(len(indptr) - 1, indptr, indices, product.data))
        P, data = self._pattern, self._matrix.data
        return sp.csr_array((data - added if down else data + added, P.indices, P.indptr), shape=(P.n, P.n))

    def solve(self, system, columns):
        """A^-1 B in the order of the pattern, L^-1 B or L^-T B in the permuted one."""
        x = np.empty_like(columns)
        if columns.shape[1]:
            self._factor.solve(system, columns, x, self._threads)
        return x

    def boundary_block(self):
        """(m, m) float64: what is left of A at the boundary of the analysis when all other rows are eliminated."""
        m = self._boundary
        ensure_memory(8 * m * m, f"the Schur complement of {counted(m, 'row')}")
        S = np.empty((m, m))
        self._factor.boundary_block(S.reshape(-1), self._threads)
        return S

    def reduce(self, columns):
        """(m, k) float64: what is left of B at the boundary."""
        x = np.empty((self._boundary, columns.shape[1]))
        if columns.shape[1]:
            self._factor.reduce(columns, x, self._threads)
        return x

    def expand(self, columns, given):
        """A^-1 B in the order of the pattern, but for the (m, k) rows of the boundary, which are ``given``."""
        x = np.empty_like(columns)
        if columns.shape[1]:
            self._factor.expand(columns, given, x, self._threads)
        return x

    @property
    def changes(self):
        """How often this has become the factor of another matrix."""
        return self._factor.changes

    @property
    def solve_vector(self):
        """What :meth:`Factor._solve_vector` asks for; double precision alone."""
        return self._factor.solve_vector

    def residual(self, x, b):
        """b - A x in float64; for mixed precision only."""
        return b - self._matrix @ x

    def values_on(self, indptr, indices):
        """Values of L on its pattern by columns, the diagonal first."""
        return self._factor.values_on(indptr, indices)

    def matrix(self):
        """(nnz,) values in the analysed pattern from which this factor comes again."""
        return self._matrix.data if self._keep else self._factor.matrix(self._pattern.nnz)

    def diagonal(self):
        return self._factor.diagonal()

    def inverse_diagonal(self):
        """(n,) float64: the diagonal of A^-1 in the order of the pattern."""
        self._ensure_squares()
        return self._factor.inverse_diagonal(self._threads)

    def inverse_on_matrix(self):
        """A^-1 where the pattern has entries, as a csr_array."""
        self._ensure_squares()
        P, ptr = self._pattern, narrow_ptr(self._pattern.indptr)
        values, numbers = self._factor.inverse_on_matrix(P.nnz, self._threads), np.arange(P.nnz)
        mirror = sp.csr_array((numbers, P.indices, ptr), shape=(P.n, P.n)).T.tocsr().data
        values += np.where(mirror == numbers, 0.0, values[mirror])          # one of each pair is written
        return sp.csr_array((values, P.indices.copy(), ptr), shape=(P.n, P.n))

    def _ensure_squares(self):
        ensure_memory(self._itemsize * self._factor.inverse_scalars(self._threads), "the selected inversion")

    def may_be_singular(self):
        """Whether a pivot of the last numeric phase may be what rounding left of a zero."""
        return self._factor.may_be_singular

    def norm1(self):
        return self._factor.norm1()

    def matrix_diagonal(self):
        """(n,) the diagonal of A in the order of the pattern; for mixed precision only."""
        return None if self._matrix is None else self._matrix.diagonal()

    @property
    def nbytes(self):
        return self._factor.nbytes + self._tree.nbytes
