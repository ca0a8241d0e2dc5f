"""Permutations that come before a factorization: matching with scaling, pairs of a symmetric matrix, block triangular form.

Sources: Duff and Koster 2001, "On algorithms for permuting large entries to the diagonal of a sparse matrix"; Tarjan 1972; Duff
and Pralet 2005, "Strategies for scaling and pivoting for sparse symmetric indefinite problems".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from meshsolve import _core
from meshsolve.errors import SingularMatrixError
from meshsolve.sparse.matrix import Csr

__all__ = ["Matching", "Pairs", "block_triangular", "maximum_product", "symmetric_pairs", "weak_rows"]

EXTREME = 500                   # exponent of the largest entry, as a power of two, from which scalings of rows may overflow


@dataclass(frozen=True, eq=False)
class Matching:
    """Rows matched with columns, and scalings that make the matched entries the largest.

    Attributes
    ----------
    row_of : (n,) int32
        Row matched with each column, or -1.
    row_scale, col_scale : (n,) float64
        ``|row_scale[i] * A[i, j] * col_scale[j]| <= 1`` everywhere, and 1 on a matching of maximum product.
    rank : int
        Structural rank: the number of matched columns.
    """

    row_of: np.ndarray
    row_scale: np.ndarray
    col_scale: np.ndarray
    rank: int


def maximum_product(M, threads=1):
    """Match rows with columns so that the product of the absolute values of the matched entries is largest.

    A diagonal entry replaces the matched entry if it is at least a tenth of it after scaling, which keeps symmetric patterns symmetric.

    Parameters
    ----------
    M : Csr with real or complex values
        Stored zeros do not count.
    threads : int
        For logarithms and duals; searches run one after the other. Affects the speed only.

    Returns
    -------
    Matching

    Notes
    -----
    O(nnz log n) for each row that a cheap initial matching leaves out. Source: Duff and Koster 2001, section 4. Code:
    factor/matching/product.cpp.
    """
    return Matching(*_core.maximum_product(M.indptr, M.indices, _real(M.data), threads))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of rows of a symmetric matrix that are candidates of 2x2 pivots; the other rows are 1x1 pivots.

    Attributes
    ----------
    scale : (n,) float64
        ``|scale[i] * A[i, j] * scale[j]| <= 1``.
    partner : (n,) int32
        The other row of a pair, or -1. Its entry has scaled absolute value 1 if the structural rank is full.
    rank : int
        Structural rank.
    matrix : Csr
        The matrix; only its pattern is used.
    threads : int
        Affects the speed only.
    """

    scale: np.ndarray
    partner: np.ndarray
    rank: int
    matrix: Csr
    threads: int = 1

    @property
    def graph(self):
        """The graph in which each pair is one vertex, without diagonal, as a Csr; made on demand."""
        indptr, indices, first = self._compressed
        return Csr(len(first), indptr, indices)

    @property
    def first(self):
        """(vertices,) int32: the smallest row of each vertex."""
        return self._compressed[2]

    @cached_property
    def share(self):
        """Share of the rows that are in pairs."""
        return np.count_nonzero(self.partner >= 0) / len(self.partner)

    def expand(self, vertices):
        """The rows of the vertices in that order, both rows of a pair side by side, as (n,) int32."""
        return _core.rows_of_vertices(self.first, np.ascontiguousarray(vertices, np.int32), self.partner)

    def contract(self, perm):
        """The permutation of the vertices for one of the rows: a vertex takes the position of its later row."""
        return _core.vertices_of_rows(self.first, np.ascontiguousarray(perm, np.int32), self.partner)

    def behind_neighbors(self, vertices, late):
        """The vertices in that order, with some moved behind their last neighbors, as (vertices,) int32.

        The (n,) bool array ``late`` marks the first rows of the vertices that are moved.
        """
        graph, count = self.graph, np.diff(self.graph.indptr)
        moved = late[self.first] & (count > 0)
        if not moved.any():
            return vertices
        position = np.empty(graph.n)
        position[vertices] = np.arange(graph.n)
        neighbors = graph.indices[np.repeat(moved, count)]
        last = np.maximum.reduceat(position[neighbors], np.cumsum(count[moved]) - count[moved])
        position[moved] = np.maximum(position[moved], last + 0.5)
        return np.argsort(position, kind="stable").astype(np.int32)

    def where(self, needed):
        """The same with only the pairs whose rows are both marked in ``needed``, an (n,) bool array or one bool for all."""
        joined = (self.partner >= 0) & needed
        joined &= joined[self.partner]
        partner = np.where(joined, self.partner, np.int32(-1))
        return self if np.array_equal(partner, self.partner) else replace(self, partner=partner)

    def pattern(self):
        """The pattern in which both rows of a pair have the neighbors of either, as a Csr without diagonal."""
        indptr, indices, first = self._compressed
        return Csr(len(self.partner), *_core.expand_pairs(indptr, indices, first, self.partner, self.threads))

    @cached_property
    def _compressed(self):
        return _core.compress_pairs(self.matrix.indptr, self.matrix.indices, self.partner, self.threads)


def symmetric_pairs(M, paired=True, threads=1):
    """Scale a symmetric matrix and pair its rows by a symmetrized maximum product matching.

    Parameters
    ----------
    M : Csr, both triangles
        Stored zeros are not matched.
    paired : bool
        False: compute only the scaling, without pairs.
    threads : int
        Affects the speed only.

    Returns
    -------
    Pairs

    Notes
    -----
    Cost: a matching, and O(nnz). Source: Duff and Pralet 2005, section 3; Hagemann and Schenk 2006, section 3. Code:
    factor/matching/symmetric.cpp.
    """
    values, power = _within_reach(_real(M.data))
    scale, partner, rank = _core.symmetric_matching(M.indptr, M.indices, values, threads)
    scale = np.ldexp(scale, power) if power else scale
    if not paired:
        partner = np.full(M.n, -1, np.int32)
    return Pairs(scale, partner, rank, M, threads)


def weak_rows(M, scale, perm):
    """Find the rows of a symmetric matrix that are no 1x1 pivots in an order, as (n,) bool.

    Their scaled diagonal entry is small, and no earlier 1x1 pivot is a neighbor that fills it.

    Parameters
    ----------
    M : Csr, both triangles
    scale : (n,) float64
    perm : (n,) int32
        ``perm[k]`` is the row eliminated k-th.
    """
    return _core.weak_rows(M.indptr, M.indices, M.data, scale, np.ascontiguousarray(perm)).view(bool)


def block_triangular(M, row_of):
    """Find the blocks of the block upper triangular form of the matrix whose row at position j is ``row_of[j]``.

    Parameters
    ----------
    M : Csr
    row_of : (n,) int32
        A complete matching.

    Returns
    -------
    block : (n,) int32
        Number of the block of each column. The entry in row ``row_of[i]`` and column j is zero if ``block[i] > block[j]``.
    count : int

    Notes
    -----
    O(n + nnz). Source: Tarjan 1972, Pothen and Fan 1990. Code: factor/matching/triangular.cpp.
    """
    return _core.block_triangular(M.indptr, M.indices, row_of)


def require_full_rank(M, matching):
    """Raise SingularMatrixError if the rank is not full. It names an empty row or column, or else an unmatched row."""
    if matching.rank == M.n:
        return
    stored = M.data != 0
    rows = np.repeat(np.arange(M.n), np.diff(M.indptr))[stored]
    for kind, used in (("row", rows), ("column", M.indices[stored])):
        empty = np.flatnonzero(np.bincount(used, minlength=M.n) == 0)
        if len(empty):
            raise SingularMatrixError(f"A is singular: {kind} {empty[0]} has no nonzero (structural rank {matching.rank} of "
                                      f"{M.n}). Likely causes: a floating node, or an unknown without an equation", int(empty[0]))
    row = int(np.setdiff1d(np.arange(M.n), matching.row_of)[0])
    raise SingularMatrixError(f"A is structurally singular: its rank is at most {matching.rank} of {M.n}. Row {row} shares its columns "
                              "with other rows that need them", row)


def require_finite_scales(matching):
    """Raise SingularMatrixError if a scaling overflows; it names the row or column."""
    for line, scale in (("row", matching.row_scale), ("column", matching.col_scale)):
        beyond = np.flatnonzero(np.isinf(scale))
        if len(beyond):
            raise SingularMatrixError(f"A is singular to working precision: the inverses of the entries of {line} {beyond[0]} overflow. "
                                      "If these entries are meant, multiply A by a power of two", int(beyond[0]))


def _real(values):
    """Real numbers with the same absolute values, all that a matching uses."""
    return values if values.dtype.kind == "f" else np.abs(values)


def _within_reach(values):
    """(values times a power of four, half its exponent as a power of two).

    If the largest entry is near the limits of float64, the scalings of rows are, too; the scalings of columns are about 1.
    """
    exponent = int(np.frexp(max(values.max(initial=0.0), -values.min(initial=0.0)))[1])
    power = 0 if abs(exponent) <= EXTREME else -exponent // 2
    return (np.ldexp(values, 2 * power) if power else values), power
