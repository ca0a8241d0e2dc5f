"""Laplacians that are singular though their pivots look positive: rounding decides the sign of the last one.

A symmetric matrix whose rows sum to 0 on a connected component takes the constants there to 0. Elimination finds a pivot of
about 1e-16 in place of the 0, as often positive as negative; a factor made of it would give solutions of size 1e16.

Components of the pattern are looked at before a factorization. Those of the values may be more, where entries between them are
zeros: they are looked at where a pivot is so small beside its diagonal entry that it may be what rounding left of a zero. Code:
singular.cpp.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core, device
from meshsolve.device.reductions import is_any
from meshsolve.sparse.product import row_sums

S = device.kernels("factor/cholesky/solve.cu")

NEARLY = 1e-6                                   # beside the same, of values that were float32 or text once
ROUNDING = 16 * np.finfo(np.float64).eps        # beside the sum of moduli: what assembling a row leaves of a sum that is 0
LEAST_EXPONENT = {np.dtype(np.float64): -30, np.dtype(np.float32): -13}          # as in singular.hpp


class ConstantNullSpace:
    """Looks for components, the trees of the elimination forest, on which all rows sum to 0. A tree with a boundary is none: there the
    rows of a Laplacian sum to 0, those of what is eliminated do not.

    In each tree one row is watched that did not sum to 0 in the last matrix, the root's at first. All rows are read only where
    a watched one sums to 0.

    Parameters
    ----------
    symbolic : Symbolic
        Of the matrices that will be looked at.
    engine : HostFactor, DeviceFactor or CudssFactor
        The class that factors them; they are looked at where it works.
    """

    def __init__(self, symbolic, engine):
        self._pattern, names = engine.analysis_of(symbolic)
        self._xp = xp = np if isinstance(names.perm, np.ndarray) else device.xp()
        self._perm, self._iperm, self._eliminated = names.perm, names.iperm, symbolic.n - symbolic.boundary
        self._roots = xp.flatnonzero(names.parent[:self._eliminated] < 0)
        self._watch(self._roots)

    def _watch(self, nodes):
        """Take the rows of these nodes, one a tree, as those that are looked at first."""
        self._rows = self._perm[nodes]
        if self._xp is not np:
            self._gather()

    def _gather(self):
        """Where the entries of these rows lie, one row after the other."""
        xp, indptr, rows = self._xp, self._pattern.indptr, self._rows
        size = indptr[rows + 1] - indptr[rows]
        ends = xp.cumsum(size)
        entry = xp.arange(device.scalar(ends[-1:]))
        self._entries = (indptr[rows] - (ends - size))[xp.searchsorted(ends, entry, side="right")] + entry
        self._begin = xp.append(xp.zeros(1, ends.dtype), ends).astype(np.int64)

    def find(self, data):
        """New number of the root of the first such tree, or -1. O(entries of the watched rows) where none of these sums to 0."""
        if self._xp is np:
            sums, moduli = _core.row_sums(self._pattern.indptr, data, self._rows)
            if len(sums) == 1:                              # most often, and arrays of one number take as long as a small matrix
                sums, moduli = sums[0], moduli[0]
                return self._search(data) if moduli > 0 and abs(sums) <= ROUNDING * moduli else -1
            return self._search(data) if _vanish(sums, moduli).any() else -1
        values = data[self._entries]
        return self._search(data) if is_any(_vanish(self._sums(values), self._sums(abs(values)))) else -1

    def component(self, data):
        """:func:`constant_component` of the matrix with these values, for messages."""
        return constant_component(self._pattern, self._iperm, data, self._eliminated)

    def nearly(self, node, data):
        """Whether the rows of the tree of ``node`` sum to 0 but for rounding in what A was made of. O(nnz), for messages."""
        roots, perm, sums, moduli = map(device.to_host, (self._roots, self._perm, *self._row_sums(data)))
        tree = int(np.searchsorted(roots, node))
        if tree == len(roots):                      # the tree with a boundary
            return False
        rows = perm[roots[tree - 1] + 1 if tree else 0:roots[tree] + 1]
        return bool((abs(sums[rows]) <= NEARLY * moduli[rows]).all())

    def _sums(self, values):
        """Of the values in each watched row, on the device. Not by bincount, which adds in any order and waits for it."""
        sums = self._xp.empty(len(self._roots), np.float64)
        device.launch(S.k_sum_segments, (len(sums), 1), 256, 0, (self._begin, self._xp.empty(0, np.int32), np.int32(1), values, sums))
        return sums

    def _search(self, data):
        xp, roots = self._xp, self._roots
        told = xp.flatnonzero(~_vanish(*self._row_sums(data))[self._perm])                   # nodes whose rows do not sum to 0
        if len(told) == 0:
            return device.scalar(roots[:1])
        last = told[xp.maximum(xp.searchsorted(told, roots, side="right") - 1, 0)]           # of these up to each root
        begin = xp.append(xp.zeros(1, roots.dtype), roots[:-1] + 1)                          # a tree is a range that ends in its root
        whole = xp.flatnonzero((last < begin) | (last > roots))
        if len(whole):
            return device.scalar(roots[whole[:1]])
        self._watch(last)
        return -1

    def _row_sums(self, data):
        """Of the values and of their moduli."""
        P = self._pattern
        if self._xp is np:
            return _core.row_sums(P.indptr, data)
        return tuple(row_sums(P.indptr, P.indices, data, magnitudes) for magnitudes in (False, True))


def constant_component(pattern, iperm, data, n):
    """New number of the last row of the first component, of the values, on which all rows sum to 0, or -1; of the block of the first n rows
    in new numbers. O(nnz) on the host."""
    indptr, indices, iperm, data = map(device.to_host, (pattern.indptr, pattern.indices, iperm, data))
    return _core.constant_component(indptr.astype(np.int64, copy=False), indices, data, iperm, n)


def _vanish(sums, moduli):
    return (moduli > 0) & (abs(sums) <= ROUNDING * moduli)
