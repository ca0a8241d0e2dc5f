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

EXTREME = 500                   # exponents of two of the largest entry from which scalings of rows may leave the range


@dataclass(frozen=True, eq=False)
class Matching:
    """Rows matched with columns, and scalings that make the matched entries the largest.

    Attributes
    ----------
    row_of : (n,) int32
        Row matched with each column, -1 where there is none.
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
    """The matching of a matrix whose matched entries have the largest product of magnitudes.

    Where the diagonal is at least a tenth of the matched entries after scaling, it takes their place: that keeps
    symmetric patterns symmetric.

    Parameters
    ----------
    M : Csr with real or complex values
        Stored zeros do not count.
    threads : int
        For logarithms and duals; the searches follow one another. Only the speed depends on it.

    Returns
    -------
    Matching

    Notes
    -----
    O(nnz log n) for each row that a cheap start leaves unmatched. Source: Duff and Koster 2001, section 4. Code:
    factor/matching/product.cpp.
    """
    return Matching(*_core.maximum_product(M.indptr, M.indices, _real(M.data), threads))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Rows of a symmetric matrix that may be eliminated alone, and those that belong together in 2x2 pivots.

    Attributes
    ----------
    scale : (n,) float64
        ``|scale[i] * A[i, j] * scale[j]| <= 1``.
    partner : (n,) int32
        The other row of a pair, whose entry has scaled magnitude 1 where the structural rank is full, or -1.
    rank : int
        Structural rank.
    matrix : Csr
        The matrix, of which the pattern counts.
    threads : int
        Only the speed depends on it.
    """

    scale: np.ndarray
    partner: np.ndarray
    rank: int
    matrix: Csr
    threads: int = 1

    @cached_property
    def _compressed(self):
        return _core.compress_pairs(self.matrix.indptr, self.matrix.indices, self.partner, self.threads)

    @property
    def graph(self):
        """The graph in which each pair is one vertex, without diagonal, as a Csr; made when it is first asked for."""
        indptr, indices, first = self._compressed
        return Csr(len(first), indptr, indices)

    @property
    def first(self):
        """(vertices,) int32: the smallest row of each vertex."""
        return self._compressed[2]

    @cached_property
    def share(self):
        """Of the rows that are in pairs."""
        return np.count_nonzero(self.partner >= 0) / len(self.partner)

    def expand(self, vertices):
        """The rows of the vertices in that order, both rows of a pair side by side, as (n,) int32."""
        return _core.rows_of_vertices(self.first, np.ascontiguousarray(vertices, np.int32), self.partner)

    def contract(self, perm):
        """A permutation of the rows as one of the vertices: each comes where the later of its rows does."""
        return _core.vertices_of_rows(self.first, np.ascontiguousarray(perm, np.int32), self.partner)

    def behind_neighbours(self, vertices, late):
        """The vertices in that order, but those whose first row is marked in the (n,) bool array ``late`` come just behind the
        last of their neighbours, as (vertices,) int32."""
        graph, count = self.graph, np.diff(self.graph.indptr)
        moved = late[self.first] & (count > 0)
        if not moved.any():
            return vertices
        place = np.empty(graph.n)
        place[vertices] = np.arange(graph.n)
        neighbours = graph.indices[np.repeat(moved, count)]
        last = np.maximum.reduceat(place[neighbours], np.cumsum(count[moved]) - count[moved])
        place[moved] = np.maximum(place[moved], last + 0.5)
        return np.argsort(place, kind="stable").astype(np.int32)

    def where(self, needed):
        """The same with only those pairs of which both rows are marked in ``needed``, an (n,) bool array or one bool for all."""
        joined = (self.partner >= 0) & needed
        joined &= joined[self.partner]
        partner = np.where(joined, self.partner, np.int32(-1))
        return self if np.array_equal(partner, self.partner) else replace(self, partner=partner)

    def pattern(self):
        """The pattern in which both rows of a pair have the neighbours of either, as a Csr without diagonal."""
        indptr, indices, first = self._compressed
        return Csr(len(self.partner), *_core.expand_pairs(indptr, indices, first, self.partner, self.threads))


def symmetric_pairs(M, paired=True, threads=1):
    """Scaling and pairs of a symmetric matrix by a maximum product matching, symmetrized.

    Parameters
    ----------
    M : Csr, both triangles
        Stored zeros do not count in the matching.
    paired : bool
        False: the scaling alone, every row stays alone.
    threads : int
        As in :func:`maximum_product`, and for what follows; only the speed depends on it.

    Returns
    -------
    Pairs

    Notes
    -----
    The cost of the matching, and O(nnz). Source: Duff and Pralet 2005, section 3; Hagemann and Schenk 2006, section 3. Code:
    factor/matching/symmetric.cpp.
    """
    values, power = _within_reach(_real(M.data))
    scale, partner, rank = _core.symmetric_matching(M.indptr, M.indices, values, threads)
    scale = np.ldexp(scale, power) if power else scale
    if not paired:
        partner = np.full(M.n, -1, np.int32)
    return Pairs(scale, partner, rank, M, threads)


def _real(values):
    """Real numbers of the same moduli, which are what counts."""
    return values if values.dtype.kind == "f" else np.abs(values)


def _within_reach(values):
    """Numbers times a power of four, and half its exponent of two: where the largest is next to the ends of the range, so are the
    scalings of rows, while those of columns are about 1."""
    exponent = int(np.frexp(max(values.max(initial=0.0), -values.min(initial=0.0)))[1])
    power = 0 if abs(exponent) <= EXTREME else -exponent // 2
    return (np.ldexp(values, 2 * power) if power else values), power


def weak_rows(M, scale, perm):
    """Rows of a symmetric matrix without a pivot of their own in an order, as (n,) bool.

    Their scaled diagonal entry is small, and no earlier neighbour with a pivot of its own fills it.

    Parameters
    ----------
    M : Csr, both triangles
    scale : (n,) float64
    perm : (n,) int32
        ``perm[k]`` is the row eliminated k-th.
    """
    return _core.weak_rows(M.indptr, M.indices, M.data, scale, np.ascontiguousarray(perm)).view(bool)


def block_triangular(M, row_of):
    """Blocks of the block upper triangular form of the matrix whose row ``row_of[j]`` stands at position j.

    Parameters
    ----------
    M : Csr
    row_of : (n,) int32
        A complete matching.

    Returns
    -------
    block : (n,) int32
        Number of the block of each column; the entry in row ``row_of[i]`` and column j is zero where ``block[i] > block[j]``.
    count : int

    Notes
    -----
    O(n + nnz). Source: Tarjan 1972, Pothen and Fan 1990. Code: factor/matching/triangular.cpp.
    """
    return _core.block_triangular(M.indptr, M.indices, row_of)


def require_full_rank(M, matching):
    """Raise SingularMatrixError, naming an empty row or column or else an unmatched row, where the rank is not full."""
    if matching.rank == M.n:
        return
    stored = M.data != 0
    rows = np.repeat(np.arange(M.n), np.diff(M.indptr))[stored]
    for kind, used in (("row", rows), ("column", M.indices[stored])):
        empty = np.flatnonzero(np.bincount(used, minlength=M.n) == 0)
        if len(empty):
            raise SingularMatrixError(f"A is singular: {kind} {empty[0]} has no nonzero (structural rank {matching.rank} of "
                                      f"{M.n}); a floating node, or an unknown without an equation?", int(empty[0]))
    row = int(np.setdiff1d(np.arange(M.n), matching.row_of)[0])
    raise SingularMatrixError(f"A is structurally singular: its rank is at most {matching.rank} of {M.n}; no nonzero is left for "
                              f"row {row} when the other rows have theirs", row)
