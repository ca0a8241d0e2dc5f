"""Schur complements of complex or unsymmetric matrices, from an LU factor of the eliminated rows.

A column of the result costs one solve. Source: Golub, Van Loan 2013, "Matrix computations", section 3.2.11.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import device
from meshsolve.errors import InvalidInputError, SingularMatrixError
from meshsolve.factor.lu import LUFactor
from meshsolve.factor.schur import Condensed
from meshsolve.factor.sharing import changes
from meshsolve.memory import ensure_memory
from meshsolve.options import counted, thread_count
from meshsolve.report import Report
from meshsolve.sparse.matrix import Csr, as_csr, is_complex
from meshsolve.sparse.places import CUDA, HOST, PLACES
from meshsolve.types import Matrix

BLOCK_BYTES = 2**26             # dense columns of A_IK that are solved for together


class GeneralSchurComplement(Condensed):
    """The Schur complement of a matrix A on rows and columns K, when the others, I, are eliminated.

    Made by :func:`meshsolve.schur_complement` of a complex or unsymmetric matrix; used like a :class:`SchurComplement`. Solving
    ``S.matrix @ x_K = S.reduce(b)`` and then ``x = S.expand(b, x_K)`` solves A x = b. It can be pickled and copied. A refactorization
    keeps threads, rows and ordering. With ``device="cuda"`` the factor and :attr:`matrix` lie on the GPU; A passes through the host.

    Attributes
    ----------
    n : int
        Rows of A.
    rows : (k,) int32
        The kept rows K, in the order of :attr:`matrix`.
    factor : LUFactor
        The factor of A_II, whose rows are those of A without K in ascending order.
    nnz : int
        Nonzeros of that factor, of A_IK and A_KI, and of the Schur complement.
    report : Report
    """

    def __init__(self, M, rows, *, ordering="auto", threads=None, place=HOST):
        """``M`` is a :class:`Csr` on the host, ``rows`` are (k,) int32, ``ordering`` orders the other rows, ``place`` is that of the
        factor."""
        super().__init__(M.n, M.data.dtype)
        self.threads, self.rows, self._place = thread_count(threads), rows, place.name
        self._pattern = Csr(M.n, M.indptr.copy(), M.indices.copy())
        self._free = np.setdiff1d(np.arange(M.n, dtype=np.int32), rows)
        self._maps = self._index_maps()
        self.report = Report(threads=self.threads, nnz_A=M.nnz, rows=len(rows), device=self._place)
        blocks = self._blocks_of(M.data)
        try:
            self.factor = LUFactor(as_csr(blocks["II"], dtype=self.dtype), ordering=ordering, threads=self.threads,
                                   place=self._place)
        except SingularMatrixError as e:
            raise self._singular(e) from e
        self.report.merge(self.factor.report)
        self.report.facts.update(threads=self.threads, rows=len(rows), nnz_A=M.nnz)
        self._blocks, self._placed = blocks, self._condensed(blocks)
        self.report.facts["nnz_L"] = self.nnz

    @changes
    def refactor(self, A: Matrix) -> GeneralSchurComplement:
        """Compute the Schur complement of another matrix inside the analyzed pattern.

        Parameters
        ----------
        A : (n, n) matrix of any kind
            Entries of the analyzed pattern that A lacks are zeros.

        Returns
        -------
        GeneralSchurComplement
            This one.

        Raises
        ------
        PatternMismatchError
            A has an entry outside the pattern.
        SingularMatrixError
            A_II is singular. After any error the earlier result is restored.
        InvalidInputError
            Another size, or complex values for a real Schur complement.
        """
        if self.dtype.kind != "c" and is_complex(A):
            raise InvalidInputError("A is complex, but the Schur complement is real. Make one of both kinds by schur_complement of the "
                                    "complex matrix")
        M = as_csr(A, dtype=self.dtype)
        if M.n != self.n:
            raise InvalidInputError(f"A has {counted(M.n, 'row')}, the analysis {self.n}")
        blocks = self._blocks_of(M.within(self._pattern))
        try:
            self.factor.refactor(blocks["II"])
        except SingularMatrixError as e:
            raise self._singular(e) from e
        try:
            placed = self._condensed(blocks)
        except BaseException:
            self.factor.refactor(self._blocks["II"])
            raise
        self._blocks, self._placed = blocks, placed
        return self

    def __getstate__(self):
        """Keep the blocks of A and the Schur complement on the host."""
        return super().__getstate__() | {"_placed": device.to_host(self._placed["S"])}

    def __setstate__(self, state):
        super().__setstate__(state)
        self._placed = self._in_place(self._blocks) | {"S": self._bring(self._placed)}

    @property
    def nnz(self) -> int:
        return self.factor.nnz + self._maps["IK"].nnz + self._maps["KI"].nnz + len(self.rows) ** 2

    def __repr__(self):
        return f"GeneralSchurComplement(n={self.n}, rows={len(self.rows)}, nnz={self.nnz}, dtype={self.dtype})"

    def _index_maps(self):
        """The pattern of each block as a csr_array whose values are 1 + the positions of its entries in A."""
        P = self._pattern
        whole = sp.csr_array((np.arange(1, P.nnz + 1), P.indices, P.indptr), shape=(P.n, P.n))
        index = {"I": self._free, "K": self.rows}
        return {a + b: whole[index[a]][:, index[b]] for a in "IK" for b in "IK"}

    def _blocks_of(self, data):
        """The four blocks of A with these values."""
        return {name: sp.csr_array((data[at.data - 1], at.indices, at.indptr), shape=at.shape) for name, at in self._maps.items()}

    def _in_place(self, blocks):
        """The blocks that couple I and K, and the row numbers, in the place of the factor."""
        coupling = {name: blocks[name] for name in ("IK", "KI")}
        if PLACES[self._place] is CUDA:
            coupling = {name: Csr(B.shape[0], B.indptr.astype(np.int64), B.indices.astype(np.int32), B.data).uploaded()
                        for name, B in coupling.items()}
        return coupling | {"K": self._bring(self.rows), "I": self._bring(self._free)}

    def _condensed(self, blocks):
        """:meth:`_in_place` with the Schur complement."""
        k, m = len(self.rows), len(self._free)
        ensure_memory(2 * self.dtype.itemsize * k * k, f"the dense Schur complement of {counted(k, 'row')}")
        with self.report.phase("numeric"):
            placed, S, right = self._in_place(blocks), self._bring(blocks["KK"].toarray()), blocks["IK"].tocsc()
            width = max(1, BLOCK_BYTES // (self.dtype.itemsize * m))
            for first in range(0, k, width):
                some = slice(first, first + width)
                S[:, some] = _minus(S[:, some], placed["KI"], self.factor.solve(self._bring(right[:, some].toarray())))
        return placed | {"S": S}

    def _singular(self, e):
        index = int(self._free[e.index]) if e.index >= 0 else -1
        where = f", found in row or column {index} of A. Add it to rows" if index >= 0 else ""
        return SingularMatrixError(f"the block of A without rows is singular{where}", index)

    def _dense(self):
        return self._placed["S"].copy()

    def _reduced(self, columns):
        placed = self._placed
        return _minus(columns[placed["K"]], placed["KI"], self.factor.solve(columns[placed["I"]]))

    def _expanded(self, columns, x_K):
        placed, x = self._placed, PLACES[self._place].xp.empty_like(columns)
        x[placed["I"]] = self.factor.solve(_minus(columns[placed["I"]], placed["IK"], x_K))
        x[placed["K"]] = x_K
        return x


def _minus(B, A, X):
    """Return B - A X in the place of A, a csr_array on the host or a Csr on the GPU."""
    return A.residual(X, B) if isinstance(A, Csr) else B - A @ X
