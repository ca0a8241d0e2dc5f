"""Complete L D L^T factorization of a symmetric indefinite matrix, with its inertia. Driver of complete.hpp."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import SingularMatrixError
from meshsolve.factor.base import solve_near_one
from meshsolve.factor.symbolic import Symbolic
from meshsolve.memory import ensure_memory
from meshsolve.options import counted
from meshsolve.sparse.matrix import Csr, narrow_ptr
from meshsolve.sparse.places import HOST

ZERO = 4                        # largest entry of a zero column of the scaled matrix, in units of rounding; see small_pivots.hpp
RULE = {char: (0.01, ZERO * float(np.finfo(char).eps)) for char in "df"}    # (threshold, tiny) of LdlRule in native/dense/ldl.hpp
STRICT_THRESHOLD = 0.1          # pivot threshold of matrices with pivots that may be zero: smaller entries of L, smaller rounding errors


class CompletePlan:
    """The analysis of a complete factor, from the pattern and the pairs of the matrix.

    In the analyzed pattern both rows of a pair have the neighbors of either, because a 2x2 pivot fills them.

    Attributes
    ----------
    symbolic : Symbolic
    is_strict : bool
        True: zero pivots are certain, and pivots are chosen by the strict threshold.
    is_of_rows : bool
        True: there are no pairs.
    likely_flops : float
        Estimated operations, with those of delayed pivots.
    """

    def __init__(self, matrix, pairs, ordering, threads, symbolic=None, place=HOST):
        self.matrix, self.ordering = Csr(matrix.n, matrix.indptr, matrix.indices), ordering
        self.is_strict = bool(pairs.rank < matrix.n)
        self.is_of_rows = pairs.share == 0
        self.symbolic = _analysis(matrix, pairs, ordering, threads, place) if symbolic is None else symbolic
        self.likely_flops = self.flops

    @property
    def nnz(self):
        return self.symbolic.nnz

    @property
    def flops(self):
        return self.symbolic.flops

    def pattern_on_device(self):
        """The pattern of the matrix on the GPU: the analyzed one if there are no pairs."""
        return self.symbolic.pattern_on_device if self.is_of_rows else self.matrix.uploaded()

    def tree(self, threads):
        """The assembly tree with the entries of the matrix itself."""
        return _core.AssemblyTree(self.symbolic.native, self.matrix.indptr, self.matrix.indices, threads)


def analysis_of_rows(matrix, ordering, threads, place=HOST):
    """The analysis of a matrix without pairs, made in this place."""
    pattern = Csr(matrix.n, matrix.indptr, matrix.indices, diagonal=True)
    return Symbolic.build(pattern, ordering.perm, ordering=ordering, threads=threads, place=place.name, known=ordering.elimination)


class CompleteCore:
    """The complete factor of an :class:`~meshsolve.factor.ildl.IldlFactor` on the host."""

    kind, place = "complete", "cpu"

    def __init__(self, plan, dtype, threads):
        self.plan, self.threads, self.dtype = plan, threads, np.dtype(dtype)
        self._prepare(plan.is_strict)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "native"} | {"is_strict": self.native.is_strict}

    def __setstate__(self, state):
        self.__dict__.update({name: value for name, value in state.items() if name != "is_strict"})
        self._prepare(state["is_strict"])

    def empty(self, is_strict):
        """Return a core without a factor, with the same analysis."""
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__() | {"is_strict": is_strict})
        return other

    @property
    def changes(self):
        """A number that differs after each change of the factor."""
        return self.native.changes

    def factor(self, scaled, scale):
        """Factor the matrix with these scaled values. After an error the earlier factor is restored."""
        failed = self.native.factor(scaled, self.threads)
        if failed >= 0:
            raise overflow(int(self.plan.symbolic.perm[failed]))

    def solve(self, scale, columns, out):
        """out := S (L D L^T)^-1 S columns."""
        if self.dtype == np.float64:
            self.native.solve(scale, columns, out, self.threads)
        else:
            out[...] = solve_near_one(lambda near: self._solved(scale, near), columns, scale[:, None])

    def solved(self, scale, columns):
        """S (L D L^T)^-1 S columns; a new array."""
        x = np.empty(columns.shape)
        self.solve(scale, np.ascontiguousarray(columns), x)
        return x

    def extract(self):
        """(perm, L, D) in the order of elimination."""
        order, indptr, rows, values, d, e = self.native.extract()
        n = len(order)
        L = sp.csc_array((values, rows, narrow_ptr(indptr)), shape=(n, n))
        return self.plan.symbolic.perm[order], L, block_diagonal(d, e)

    @property
    def inertia(self):
        return self.native.inertia

    @property
    def nnz(self):
        return self.native.nonzeros

    def facts(self):
        """Facts of the numeric phase for the report."""
        return {"nnz_L": self.plan.nnz, "flops": self.plan.flops, "delayed": self.native.delayed, "pairs": self.native.pairs,
                "zero_pivots": self.inertia[2], "undecided_pivots": self.native.undecided,
                "bytes": self.native.nbytes + self.tree_bytes}

    def _prepare(self, is_strict):
        tree = self.plan.tree(self.threads)
        self.tree_bytes = tree.nbytes
        self.native = (_core.LdltDouble if self.dtype == np.float64 else _core.LdltSingle)(
            tree, RULE[self.dtype.char], STRICT_THRESHOLD, is_strict)
        needed = self.dtype.itemsize * (self.native.panel_scalars + tree.work_scalars(self.threads))
        ensure_memory(needed, f"the complete factor ({counted(self.plan.nnz, 'nonzero')})")

    def _solved(self, scale, columns):
        x = np.empty(columns.shape)
        self.native.solve(scale, columns, x, self.threads)
        return x


def overflow(row):
    """The error for a row with an entry that overflowed in elimination."""
    return SingularMatrixError(
        f"the factorization overflowed in row {row}: entries of A differ by too many orders of magnitude", row)


def inertia_of(d, e):
    """(positive, negative, zero) eigenvalues of the block diagonal matrix with diagonal d and ``e[k]`` at (k + 1, k)."""
    single, first, pairs = _pivots(d, e)
    positive = int((single > 0).sum() + np.where(pairs > 0, 2 * (d[first] > 0), 1).sum())
    zero = int((single == 0).sum())
    return positive, len(d) - positive - zero, zero


def slogdet_of(d, e):
    """(sign, logarithm of the absolute value) of the determinant of the block diagonal matrix of :func:`inertia_of`."""
    single, first, pairs = _pivots(d, e)
    values = np.concatenate([single, pairs])
    if not values.all():
        return 0.0, -np.inf
    sign = -1.0 if (values < 0).sum() % 2 else 1.0
    return sign, float(np.log(np.abs(values)).sum() + 2 * np.log(np.abs(e[first])).sum())


def block_diagonal(d, e):
    """The symmetric csc_array with diagonal d and ``e[k]`` at (k + 1, k); zeros of e are not stored."""
    at = np.flatnonzero(e).astype(np.int32)
    k = np.arange(len(d), dtype=np.int32)
    row, column = np.concatenate([k, at + 1, at]), np.concatenate([k, at, at + 1])
    D = sp.csc_array(sp.coo_array((np.concatenate([d, e[at], e[at]]), (row, column)), shape=(len(d),) * 2))
    D.sort_indices()
    return D


def _analysis(matrix, pairs, ordering, threads, place):
    if pairs.share == 0:
        return analysis_of_rows(matrix, ordering, threads, place)
    return Symbolic.build(pairs.pattern(), pairs.expand(ordering.perm), ordering=ordering, threads=threads, place=place.name)


def _pivots(d, e):
    """(1x1 pivots, first rows of the 2x2 pivots, their determinants divided by ``e**2``, which may overflow)."""
    first = np.flatnonzero(e)
    alone = np.ones(len(d), bool)
    alone[first] = alone[first + 1] = False
    return d[alone], first, d[first] / e[first] * (d[first + 1] / e[first]) - 1
