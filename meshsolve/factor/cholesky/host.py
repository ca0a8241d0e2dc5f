"""Numeric phase and solves of a CholeskyFactor on the host, by the C++ core. Counterpart on the GPU: `DeviceFactor` in cuda.py."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import PatternMismatchError
from meshsolve.factor.cholesky import inverse
from meshsolve.factor.fronts import assembly_tree
from meshsolve.memory import ensure_memory
from meshsolve.options import counted
from meshsolve.sparse.matrix import Csr, narrow_ptr
from meshsolve.sparse.places import HOST

FEW_ROWS = 1 / 32               # share of rows where b is nonzero, up to which the fronts on their paths are marked one by one

class HostFactor:
    """Panels of L in main memory. All arguments and results are numpy arrays.

    Parameters
    ----------
    symbolic : Symbolic
    precision : {"double", "single", "mixed"}
    threads : int
    """

    place = HOST
    takes_vectors = True            # an (n,) float64 array is passed to the core without conversion
    corrections_ahead = 0           # a correction takes longer than the test that it is needed
    inversion = inverse             # module that computes entries of the inverse
    traffic: dict[str, int] = {}    # of a file, for the report
    prepare = staticmethod(assembly_tree)           # prepare(symbolic, threads): makes the tree, which replaces the caller's index array
    suits = staticmethod(lambda symbolic: True)     # True for an analysis that device="auto" leaves to this engine

    def __init__(self, symbolic, precision, threads):
        tree = assembly_tree(symbolic, threads)
        self._tree = tree
        self._factor = (_core.CholeskyDouble if precision == "double" else _core.CholeskySingle)(tree)
        self._itemsize = 8 if precision == "double" else 4
        self._ensure_space(symbolic, threads)
        self._pattern, self._boundary, self._threads = symbolic.matrix_pattern, symbolic.boundary, threads
        self._keep, self._matrix = precision == "mixed", None   # refinement multiplies by A

    @staticmethod
    def graph_of(pattern, threads):
        """Return the pattern that is ordered."""
        _core.keep_free_memory(pattern.nnz, threads)
        return Csr(pattern.n, pattern.indptr, pattern.indices, diagonal=True)

    @staticmethod
    def keep_indices(symbolic, pattern):
        """Keep a copy of the index array with the analysis. It costs less time than the tree takes to restore it."""
        symbolic.matrix_pattern.indices = pattern.indices.copy()

    def factor(self, data):
        """Factor the matrix with these values in the analyzed pattern. Returns -1, or the new number of the column that failed."""
        P, before, matrix = self._pattern, self.changes, None
        if self._keep:
            matrix = sp.csr_array((data.copy(), P.indices, P.indptr), shape=(P.n, P.n))
        try:
            return self._factor.factor(data, self._threads)
        finally:                                                            # Ctrl-C may come after the factorization
            if self.changes > before:
                self._matrix = matrix

    def update(self, C, down):
        """Make this the factor of A + C C^T, or of A - C C^T with ``down``, for a csc_array C in the order of the pattern.

        Returns False if that is not definite. Then the earlier factor stays.

        Raises
        ------
        PatternMismatchError
        """
        columns = C.indptr.astype(np.int64), C.indices.astype(np.int32), C.data
        row, column = self._factor.outside(*columns)
        if row >= 0:
            raise PatternMismatchError.at(row, column)
        before, matrix = self.changes, None
        if self._keep:                                                      # before the factor changes, as memory may run out
            matrix = self._changed_by(C, down)
        try:
            return self._factor.update(*columns, down, self._threads) < 0
        finally:
            if self.changes > before:
                self._matrix = matrix

    def solve(self, system, columns, out=None):
        """Return A^-1 B in the order of the pattern, or L^-1 B or L^-T B in the permuted order; in ``out`` if that is given."""
        x = np.empty_like(columns) if out is None else out
        if columns.shape[1]:
            self._factor.solve(system, columns, x, self._threads)
        return x

    def solve_rows(self, columns, wanted):
        """Return rows ``wanted`` of A^-1 B; only fronts between the roots and these rows, or nonzero rows of B, are read."""
        x = np.empty_like(columns)
        if columns.shape[1]:
            is_nonzero = columns[:, 0] != 0
            for column in columns.T[1:]:
                is_nonzero |= column != 0
            rows = np.flatnonzero(is_nonzero).astype(np.int32)
            self._factor.solve_rows(columns, rows if len(rows) < FEW_ROWS * len(x) else np.arange(len(x), dtype=np.int32), wanted, x)
        return x[wanted]

    def solve_entries(self, rows, columns, values, count):
        """Return A^-1 B, (n, count), for the sum B of ``values`` at (rows, columns), int32 each; only in double precision."""
        x = np.empty((len(self._pattern.indptr) - 1, count))
        self._factor.solve_entries(rows, columns, values, x, self._threads)
        return x

    def solve_at(self, rows, columns, x):
        """Write A^-1 B to the rows of x at which B lies in ``columns``: the k-th row of the permuted matrix is ``rows[k]``, int32."""
        self._factor.solve_at(rows, columns, x, self._threads)

    def boundary_block(self):
        """Return the Schur complement of the eliminated rows at the boundary of the analysis, (m, m) float64."""
        m = self._boundary
        ensure_memory(8 * m * m, f"the Schur complement of {counted(m, 'row')}")
        S = np.empty((m, m))
        self._factor.boundary_block(S.reshape(-1), self._threads)
        return S

    def reduce(self, columns):
        """Return the right-hand side of the Schur complement for B, (m, k) float64."""
        x = np.empty((self._boundary, columns.shape[1]))
        if columns.shape[1]:
            self._factor.reduce(columns, x, self._threads)
        return x

    def expand(self, columns, given):
        """Return the solution in the order of the pattern whose (m, k) rows at the boundary are ``given``."""
        x = np.empty_like(columns)
        if columns.shape[1]:
            self._factor.expand(columns, given, x, self._threads)
        return x

    @property
    def changes(self):
        """How often the factor has changed."""
        return self._factor.changes

    @property
    def solve_vector(self):
        """Solve function for :meth:`Factor._solve_vector`; only in double precision."""
        return self._factor.solve_vector

    def residual(self, x, b):
        """Return b - A x in float64; only in mixed precision."""
        return b - self._matrix @ x

    def values_on(self, indptr, indices):
        """Return the values of L on its pattern by columns, the diagonal first."""
        return self._factor.values_on(indptr, indices)

    def matrix(self):
        """Return (nnz,) values in the analyzed pattern whose factor this is."""
        return self._matrix.data if self._keep else self._factor.matrix(self._pattern.nnz)

    def diagonal(self):
        """Return the diagonal of L, (n,) float64."""
        return self._factor.diagonal()

    def inverse_diagonal(self):
        """Return the diagonal of A^-1 in the order of the pattern, (n,) float64."""
        self._ensure_squares()
        return self._factor.inverse_diagonal(self._threads)

    def inverse_on_matrix(self):
        """Return the entries of A^-1 on the pattern, as a csr_array."""
        self._ensure_squares()
        P, ptr = self._pattern, narrow_ptr(self._pattern.indptr)
        values, numbers = self._factor.inverse_on_matrix(P.nnz, self._threads), np.arange(P.nnz)
        mirror = sp.csr_array((numbers, P.indices, ptr), shape=(P.n, P.n)).T.tocsr().data
        values += np.where(mirror == numbers, 0.0, values[mirror])          # the core writes one entry of each pair
        return sp.csr_array((values, P.indices.copy(), ptr), shape=(P.n, P.n))

    def may_be_singular(self):
        """Return True if a pivot of the last numeric phase may be rounding of a zero."""
        return self._factor.may_be_singular

    def norm1(self):
        """Return ||A||_1."""
        return self._factor.norm1()

    def matrix_diagonal(self):
        """Return the diagonal of A in the order of the pattern, (n,); None unless in mixed precision."""
        return None if self._matrix is None else self._matrix.diagonal()

    @property
    def nbytes(self):
        return self._factor.nbytes + self._tree.nbytes

    def _ensure_space(self, symbolic, threads):
        needed = self._itemsize * (self._factor.panel_scalars + self._tree.work_scalars(threads))
        ensure_memory(needed, f"the factor ({counted(symbolic.nnz, 'nonzero')})")

    def _changed_by(self, C, down):
        """Return A + C C^T, or A - C C^T, in the pattern."""
        product = (C @ C.T).tocsr()
        product.sort_indices()
        indptr, indices = product.indptr.astype(np.int64), product.indices.astype(np.int32)
        added = Csr(len(indptr) - 1, indptr, indices, product.data).within(self._pattern)
        P, data = self._pattern, self._matrix.data
        return sp.csr_array((data - added if down else data + added, P.indices, P.indptr), shape=(P.n, P.n))

    def _ensure_squares(self):
        ensure_memory(self._itemsize * self._factor.inverse_scalars(self._threads), "the selected inversion")
