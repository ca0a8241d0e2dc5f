"""Laplacians that are singular although their pivots look positive: rounding decides the sign of the last pivot.

A symmetric matrix takes constants on a connected component to 0 if the rows of the component sum to 0. Elimination then finds a
pivot of about 1e-16 instead of 0, with either sign. A factor with such a pivot would give solutions of size 1e16.

Before each factorization the components of the pattern are checked. The values may have more components, if entries between them are
zeros. Those are checked if a pivot is so small, relative to its diagonal entry, that it may be rounding of a zero. Code: singular.cpp.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core, device
from meshsolve.sparse.columns import first_true
from meshsolve.sparse.constraints import EPS
from meshsolve.sparse.places import HOST
from meshsolve.sparse.product import row_sums
from meshsolve.sparse.rows_cuda import segment_sums

NEARLY = 1e-6                                   # largest row sum, relative to absolute values, of a Laplacian read as float32 or text
ROUNDING = 16 * EPS                             # largest row sum, relative to absolute values, that assembly leaves of 0
LEAST_EXPONENT = {np.dtype(np.float64): -30, np.dtype(np.float32): -13}          # as in singular.hpp


class ConstantNullSpace:
    """Finds components, trees of the elimination forest, on which all rows sum to 0.

    A tree with a boundary is not checked: its eliminated rows alone do not sum to 0, even for a Laplacian.

    In each tree one row is watched that did not sum to 0 in the last matrix, at first the root. All rows are read only if a watched
    row sums to 0.

    Parameters
    ----------
    symbolic : Symbolic
        Analysis of the matrices that will be checked.
    place : HOST or CUDA
        Where the matrices lie.
    """

    def __init__(self, symbolic, place):
        self._place, self._pattern, analysis = place, symbolic.pattern_in(place), symbolic.analysis_in(place)
        self._perm, self._iperm, self._eliminated = analysis.perm, analysis.iperm, symbolic.n - symbolic.boundary
        self._roots = place.xp.flatnonzero(analysis.parent[:self._eliminated] < 0)
        self._watch(self._roots)

    def find(self, data):
        """Return the new number of the root of the first such tree, or -1. O(entries of the watched rows) if none of them sums to 0."""
        if len(self._roots) == 0:                           # each component has rows of the boundary
            return -1
        sums, magnitudes = self._watched_sums(data)
        if len(sums) == 1 and self._place is HOST:          # the usual case: operations on arrays of one number take microseconds
            sums, magnitudes = sums[0], magnitudes[0]
            return self._search(data) if magnitudes > 0 and abs(sums) <= ROUNDING * magnitudes else -1
        return self._search(data) if first_true(_vanish(sums, magnitudes)) >= 0 else -1

    @property
    def watched(self):
        """(begin, entries) of the watched rows on the GPU: positions of their entries in the pattern, one row after the other."""
        return self._begin, self._entries

    def component(self, data):
        """Return :func:`constant_component` of the matrix with these values, for messages."""
        return constant_component(self._pattern, self._iperm, data, self._eliminated)

    def nearly(self, node, data):
        """Return True if the rows of the tree of ``node`` sum to 0, up to rounding in the matrix itself. O(nnz), for messages."""
        roots, perm, sums, magnitudes = map(device.to_host, (self._roots, self._perm, *self._row_sums(data)))
        tree = int(np.searchsorted(roots, node))
        if tree == len(roots):                      # the tree with a boundary
            return False
        rows = perm[roots[tree - 1] + 1 if tree else 0:roots[tree] + 1]
        return bool((abs(sums[rows]) <= NEARLY * magnitudes[rows]).all())

    def _watch(self, nodes):
        """Watch the rows of these nodes, one per tree."""
        self._rows = self._perm[nodes]
        if self._place is not HOST:
            self._find_entries()

    def _find_entries(self):
        """Find the positions of the entries of the watched rows, one row after the other."""
        xp, indptr, rows = self._place.xp, self._pattern.indptr, self._rows
        if len(rows) == 0:
            self._begin, self._entries = xp.zeros(1, np.int64), xp.zeros(0, np.int64)
            return
        size = indptr[rows + 1] - indptr[rows]
        ends = xp.cumsum(size)
        entry = xp.arange(device.scalar(ends[-1:]))
        self._entries = (indptr[rows] - (ends - size))[xp.searchsorted(ends, entry, side="right")] + entry
        self._begin = xp.append(xp.zeros(1, ends.dtype), ends).astype(np.int64)

    def _watched_sums(self, data):
        """Return the sums of the watched rows, and of their absolute values."""
        if self._place is HOST:
            return _core.row_sums(self._pattern.indptr, data, self._rows)
        values = data[self._entries][:, None]               # summed by segments: a bincount has no fixed order, and waits
        return tuple(segment_sums(self._begin, part)[:, 0] for part in (values, abs(values)))

    def _search(self, data):
        xp, roots = self._place.xp, self._roots
        sums, magnitudes = self._row_sums(data)
        begin = xp.append(xp.zeros(1, roots.dtype), roots[:-1] + 1)                           # a tree is a range that ends in its root

        def last_of(rows):
            """Return for each tree its last node with one of these rows; the node before the tree if it has no such node."""
            nodes = xp.append(xp.full(1, -1), xp.flatnonzero(rows[self._perm]))
            return xp.maximum(nodes[xp.searchsorted(nodes, roots, side="right") - 1], begin - 1)

        regular = last_of(~_vanish(sums, magnitudes))
        singular = xp.flatnonzero((regular < begin) & (last_of(~(sums > EPS * magnitudes)) >= begin))      # see Components in singular.cpp
        if len(singular):
            return device.scalar(roots[singular[:1]])
        self._watch(xp.where(regular < begin, roots, regular))
        return -1

    def _row_sums(self, data):
        """Return the sums of all rows, and of their absolute values."""
        P = self._pattern
        if self._place is HOST:                             # P.indices may be gone: a TreePattern computes them again
            return _core.row_sums(P.indptr, data)
        return row_sums(P.indptr, P.indices, data)


def constant_component(pattern, iperm, data, n):
    """Return the new number of the last row of the first component of the values on which all rows sum to 0, or -1.

    The matrix is the block of the first n rows in new numbers. O(nnz), on the host.
    """
    indptr, indices, iperm, data = map(device.to_host, (pattern.indptr, pattern.indices, iperm, data))
    return _core.constant_component(indptr.astype(np.int64, copy=False), indices, data, iperm, n)


def _vanish(sums, magnitudes):
    return (magnitudes > 0) & (abs(sums) <= ROUNDING * magnitudes)
