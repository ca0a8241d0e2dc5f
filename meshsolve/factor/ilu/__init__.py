"""Incomplete LU factors of a matched, scaled and ordered matrix: preconditioners for GMRES where complete factors are too large.

    K = ilu(A);  x, info = gmres(A, b, M=K)

A maximum product matching with its scaling puts entries of absolute value 1 on the diagonal and bounds the others by 1 (Duff and
Koster 2001). Then SuperLU, as part of scipy, drops small entries column by column, with threshold pivoting. Source: Li, Shao 2011,
"A supernodal approach to incomplete LU factorization with partial pivoting"; Benzi, Haws, Tuma 2000, "Preconditioning highly
indefinite and nonsymmetric matrices". Cost: a matching, an ordering, and O(max_fill nnz(A)) memory.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from meshsolve import _core, order
from meshsolve.errors import OutOfMemoryError, SingularMatrixError
from meshsolve.factor.base import Factor, solve_complex
from meshsolve.factor.matching import maximum_product, require_finite_scales, require_full_rank
from meshsolve.factor.sharing import reads
from meshsolve.memory import ensure_memory
from meshsolve.options import one_of
from meshsolve.report import Report
from meshsolve.sparse.columns import read_only
from meshsolve.sparse.matrix import Csr
from meshsolve.types import Array, ArrayLike, Trans

BYTES_PER_ENTRY = 12                # of an incomplete factor, without those of the values: a row index and a supernodal pointer


class IluFactor(Factor):
    """An incomplete LU factor; ``K @ r`` applies the inverse of the product L U.

    Made by :func:`meshsolve.ilu`. The preconditioner ``M=`` of :func:`meshsolve.gmres` and of scipy's ``gmres`` and ``bicgstab``. It
    lies on the host. It can be pickled and copied; the copy repeats the numeric phase.

    Attributes
    ----------
    row_perm, col_perm : (n,) int32
        The matrix that is factored is ``(diag(row_scale) @ A @ diag(col_scale))[row_perm][:, col_perm]``.
    row_scale, col_scale : (n,) float64
        Scalings, in the numbering of A.
    nnz : int
        Nonzeros of L and U.
    report : Report
        Phases ``symbolic``, ``order``, ``numeric``, ``solve``. Facts ``droptol``, ``max_fill``, ``ordering``, ``nnz_L``.
    """

    def __init__(self, M, droptol, max_fill, ordering, threads):
        """``M`` is a :class:`Csr` of the host; the options are checked."""
        super().__init__(M.n, M.data.dtype)
        self.report = Report(threads=threads, nnz_A=M.nnz, droptol=droptol, max_fill=max_fill)
        with self.report.phase("symbolic"):
            matching = maximum_product(M, threads)
            require_full_rank(M, matching)
            require_finite_scales(matching)
        self.row_scale, self.col_scale = read_only(matching.row_scale), read_only(matching.col_scale)
        self.col_perm = read_only(self._ordered(M, matching.row_of, ordering, threads))
        self.row_perm = read_only(matching.row_of[self.col_perm])
        self._matrix = self._permuted(M)
        self._factorize()

    @reads
    def solve(self, b: ArrayLike, trans: Trans = "N", out: Array | None = None) -> Array:
        """Apply the inverse of the incomplete factors, or of their transpose, once: an approximate solution of A x = b.

        Parameters
        ----------
        b : (n,) or (n, k), real or complex
        trans : {"N", "T", "H"}
        out : array like the result, optional

        Returns
        -------
        x : array of b's shape

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text, unknown ``trans``.
        """
        one_of(trans, "trans", ("N", "T", "H"))

        def solve_columns(columns):
            return self._solve_columns(columns, trans)

        if self.dtype.kind == "c":
            return solve_complex(b, self.shape[0], solve_columns, out)
        return self._solve_like(b, out, solve_columns, self.shape[0])

    @reads
    def __getstate__(self):
        """Leave out the factor of SuperLU, which is made again from the permuted matrix with the same bits."""
        return {name: value for name, value in super().__getstate__().items() if name != "_native"}

    def __setstate__(self, state):
        super().__setstate__(state)
        self._factorize()

    def _ordered(self, M, row_of, ordering, threads):
        """Columns in the order of elimination: that of the symmetrized pattern of the matched matrix."""
        graph = Csr(M.n, *_core.diagonal_blocks(M.indptr, M.indices, row_of, np.zeros(M.n, np.int32)))

        def columns():
            A = Csr(M.n, M.indptr, M.indices).to_scipy()[row_of]
            return Csr(M.n, A.indptr.astype(np.int64), A.indices.astype(np.int32))

        found = order.resolve(ordering, graph, threads=threads, bounded=True, factor="lu", columns=columns)
        self.report.merge(found.report)
        self.report.facts.update(ordering=found.method, nnz_A=M.nnz)
        return found.perm

    def _permuted(self, M):
        """The matrix that is factored, as a csc_array."""
        scaled = M.data * np.repeat(self.row_scale, np.diff(M.indptr)) * self.col_scale[M.indices]
        return sp.csc_array(sp.csr_array((scaled, M.indices, M.indptr), shape=(M.n, M.n))[self.row_perm][:, self.col_perm])

    def _factorize(self):
        facts, A = self.report.facts, self._matrix
        entries = facts["max_fill"] * A.nnz
        ensure_memory(entries * (BYTES_PER_ENTRY + A.data.itemsize), f"an incomplete LU factor of up to {entries:.3g} entries")
        with self.report.phase("numeric"):
            try:
                self._native = spla.spilu(A, drop_tol=facts["droptol"], fill_factor=facts["max_fill"], permc_spec="NATURAL")
            except (RuntimeError, MemoryError) as e:        # SuperLU's allocations fail with either
                if "singular" not in str(e):
                    raise OutOfMemoryError(f"an incomplete LU factor of up to {entries:.3g} entries does not fit into memory: pass a "
                                           "smaller max_fill or a larger droptol") from e
                raise SingularMatrixError(f"the incomplete LU factor has a zero pivot with droptol={facts['droptol']:g}. Pass a smaller "
                                          "droptol. A is singular if lu(A) fails as well") from e
        self.nnz = facts["nnz_L"] = int(self._native.nnz)
        facts["bytes"] = self.nnz * (BYTES_PER_ENTRY + A.data.itemsize)

    def _solve_columns(self, B, trans):
        sides = (self.row_perm, self.row_scale), (self.col_perm, self.col_scale)
        (before, scale), (after, unscale) = sides if trans == "N" else sides[::-1]
        with self.report.phase("solve"):
            Z = self._native.solve(np.asfortranarray((scale[:, None] * B)[before]), trans)
            X = np.empty_like(B, order="C")
            X[after] = Z
            X *= unscale[:, None]
        return X

    def _rmatvec(self, x):
        return self.solve(np.asarray(x).reshape(-1), trans="H")

    def _rmatmat(self, X):
        return self.solve(X, trans="H")
