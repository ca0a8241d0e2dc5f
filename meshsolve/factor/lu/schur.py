"""Schur complements of matrices that are complex or not symmetric, from an LU factor of the rows that are eliminated.

    S = A_KK - A_KI A_II^-1 A_IK

A column of the result is one solve, so that the cost is that of the factor and of k solves. Source: Golub, Van Loan 2013, "Matrix
computations", section 3.2.11.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.errors import InvalidInputError, SingularMatrixError
from meshsolve.factor.base import Factored, as_narrow, values_in
from meshsolve.factor.lu import LUFactor
from meshsolve.factor.sharing import changes, reads
from meshsolve.foreign import is_sparse
from meshsolve.memory import ensure_memory
from meshsolve.options import counted, thread_count
from meshsolve.report import Report
from meshsolve.sparse.columns import as_array, as_rhs
from meshsolve.sparse.matrix import Csr, as_csr, is_complex
from meshsolve.sparse.sparse_rhs import solve_sparse
from meshsolve.types import Array, ArrayLike, Matrix

BLOCK_BYTES = 2**26             # of the dense columns that are solved for together


class GeneralSchurComplement(Factored):
    """What is left of a matrix A on some of its rows and columns K when the others, I, are eliminated.

    Made by :func:`meshsolve.schur_complement` of a matrix that is complex or not symmetric. As a :class:`SchurComplement` otherwise:
    solving ``S.matrix @ x_K = S.reduce(b)`` and then ``x = S.expand(b, x_K)`` solves A x = b. It can be pickled and copied. The threads,
    rows and ordering of that call stay those of all later ones.

    Attributes
    ----------
    n : int
        Rows of A.
    rows : (k,) int32
        The rows K that are kept, in the order of :attr:`matrix`.
    factor : LUFactor
        Of A_II, whose rows are those of A without K in ascending order.
    nnz : int
        Nonzeros of that factor, of A_IK and A_KI, and of the Schur complement.
    report : Report
    """

    def __init__(self, M, rows, *, ordering="auto", threads=None):
        """``M`` is a :class:`Csr`; ``rows`` are (k,) int32, ``ordering`` is of the other rows."""
        super().__init__(M.n, M.data.dtype)
        self.threads, self.rows = thread_count(threads), rows
        self._pattern = Csr(M.n, M.indptr.copy(), M.indices.copy())
        self._free = np.setdiff1d(np.arange(M.n, dtype=np.int32), rows)
        self._take = self._positions()
        self.report = Report(threads=self.threads, nnz_A=M.nnz, rows=len(rows), device="cpu")
        parts = self._parts(M.data)
        try:
            self.factor = LUFactor(as_csr(parts["II"], dtype=self.dtype), ordering=ordering, threads=self.threads)
        except SingularMatrixError as e:
            raise self._singular(e) from e
        self.report.merge(self.factor.report)
        self.report.facts.update(threads=self.threads, rows=len(rows), nnz_A=M.nnz)
        self._parts_now, self._matrix = parts, self._complement(parts)
        self.report.facts["nnz_L"] = self.nnz

    def _positions(self):
        """For each block its pattern as a csr_array, whose values are 1 + the positions of its entries in A."""
        P = self._pattern
        whole = sp.csr_array((np.arange(1, P.nnz + 1), P.indices, P.indptr), shape=(P.n, P.n))
        index = {"I": self._free, "K": self.rows}
        return {a + b: whole[index[a]][:, index[b]] for a in "IK" for b in "IK"}

    def _parts(self, data):
        """The four blocks of A with these values."""
        return {name: sp.csr_array((data[take.data - 1], take.indices, take.indptr), shape=take.shape) for name, take in self._take.items()}

    def _complement(self, parts):
        k, m = len(self.rows), len(self._free)
        ensure_memory(2 * self.dtype.itemsize * k * k, f"the dense Schur complement of {counted(k, 'row')}")
        with self.report.phase("numeric"):
            S, right = parts["KK"].toarray(), parts["IK"].tocsc()
            width = max(1, BLOCK_BYTES // (self.dtype.itemsize * m))
            for first in range(0, k, width):
                S[:, first:first + width] -= parts["KI"] @ self.factor.solve(right[:, first:first + width].toarray())
        return S

    @changes
    def refactor(self, A: Matrix) -> GeneralSchurComplement:
        """Make this the Schur complement of another matrix inside the analysed pattern.

        Parameters
        ----------
        A : (n, n) matrix of any kind
            Entries of the analysed pattern that it lacks are zeros.

        Returns
        -------
        GeneralSchurComplement
            This one.

        Raises
        ------
        PatternMismatchError, SingularMatrixError, InvalidInputError
            An entry outside the pattern; A_II is singular; another size, complex values where the first were real. The earlier result
            is still there.
        """
        if self.dtype.kind != "c" and is_complex(A):
            raise InvalidInputError("A is complex, the Schur complement of a real matrix: schur_complement(A, rows) makes one that takes "
                                    "both")
        M = as_csr(A, dtype=self.dtype)
        if M.n != self.n:
            raise InvalidInputError(f"A has {counted(M.n, 'row')}, the analysis {self.n}")
        parts = self._parts(values_in(self._pattern, M))
        try:
            self.factor.refactor(parts["II"])
        except SingularMatrixError as e:
            raise self._singular(e) from e
        try:
            S = self._complement(parts)
        except BaseException:
            self.factor.refactor(self._parts_now["II"])
            raise
        self._parts_now, self._matrix = parts, S
        return self

    def _singular(self, e):
        index = int(self._free[e.index]) if e.index >= 0 else -1
        where = f", which shows at row or column {index} of A: name it in rows" if index >= 0 else ""
        return SingularMatrixError(f"the block of A without rows is singular{where}", index)

    @property
    @reads
    def matrix(self) -> np.ndarray:
        """The Schur complement A_KK - A_KI A_II^-1 A_IK as a dense (k, k) array of float64 or complex128. A new array at each call."""
        return self._matrix.copy()

    @reads
    def reduce(self, b: ArrayLike) -> Array:
        """The right-hand side for the rows that are kept: b_K - A_KI A_II^-1 b_I.

        Parameters
        ----------
        b : (n,) or (n, m), real or complex

        Returns
        -------
        (k,) or (k, m) array, in the order of :attr:`rows`
            float32 or complex64 where b is and A is not wider, else float64 or complex128.

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text.
        FactorInUseError
            Another call is refactoring this.
        """
        if is_sparse(b):
            return solve_sparse(b, self.n, self.reduce)
        given = as_array(b, "b")
        columns, shape = self._checked(given, self.n, "b")
        with self.report.phase("solve"):
            x = columns[self.rows] - self._parts_now["KI"] @ self.factor.solve(columns[self._free])
        return self._delivered(x, given.dtype, shape)

    @reads
    def expand(self, b: ArrayLike, x_K: ArrayLike) -> Array:
        """The whole solution from its values at the rows that are kept: A_II x_I = b_I - A_IK x_K.

        Parameters
        ----------
        b : (n,) or (n, m), real or complex
        x_K : (k,) or (k, m), real or complex
            In the order of :attr:`rows`; as many columns as b.

        Returns
        -------
        (n,) or (n, m) array
            x, with ``x[rows] == x_K``.

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text.
        FactorInUseError
            Another call is refactoring this.
        """
        if is_sparse(b):
            return solve_sparse(b, self.n, lambda B: self.expand(B, x_K), at_once=True)
        given, kept = as_array(b, "b"), as_array(x_K, "x_K")
        columns, shape = self._checked(given, self.n, "b")
        inner, inner_shape = self._checked(kept, len(self.rows), "x_K")
        if inner.shape[1] != columns.shape[1]:
            raise InvalidInputError(f"x_K has to be ({len(self.rows)}, {columns.shape[1]}), with a column for each of b, not {inner_shape}")
        x = np.empty(columns.shape, np.result_type(columns, inner, self.dtype))
        with self.report.phase("solve"):
            x[self._free] = self.factor.solve(columns[self._free] - self._parts_now["IK"] @ inner)
        x[self.rows] = inner
        return self._delivered(x, given.dtype, shape)

    def _checked(self, given, n, name):
        return as_rhs(given, n, name, np.complex128 if given.dtype.kind == "c" else np.float64)

    def _delivered(self, x, dtype, shape):
        x = as_narrow(x, dtype, None) if dtype.kind == x.dtype.kind else x
        return x if len(shape) == 2 else x[:, 0]

    @property
    def n(self) -> int:
        return self.shape[0]

    @property
    def nnz(self) -> int:
        return self.factor.nnz + self._take["IK"].nnz + self._take["KI"].nnz + len(self.rows) ** 2

    def __repr__(self):
        return f"GeneralSchurComplement(n={self.n}, rows={len(self.rows)}, nnz={self.nnz}, dtype={self.dtype})"

