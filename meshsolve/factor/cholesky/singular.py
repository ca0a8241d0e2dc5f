"""Laplacians that are singular though their pivots look positive: rounding decides the sign of the last one.

A symmetric matrix whose rows sum to 0 on a connected component takes the constants there to 0. Elimination finds a pivot of
about 1e-16 in place of the 0, as often positive as negative; a factor made of it would give solutions of size 1e16.
"""

from __future__ import annotations

import numpy as np

ROUNDING = 16 * np.finfo(np.float64).eps        # beside the sum of moduli: what assembling a row leaves of a sum that is 0


class ConstantNullSpace:
    """Looks for components, the trees of the elimination forest, on which all rows sum to 0.

    Parameters
    ----------
    symbolic : Symbolic
        Of the matrices that will be looked at.
    """

    def __init__(self, symbolic):
        self.pattern, self.perm = symbolic.matrix_pattern, symbolic.perm
        self.roots = np.flatnonzero(symbolic.parent < 0)
        begin, end = self.pattern.indptr[self.perm[self.roots]], self.pattern.indptr[self.perm[self.roots] + 1]
        self.ends = np.cumsum(end - begin)
        self.entries = np.repeat(end - self.ends, end - begin) + np.arange(self.ends[-1])       # of the roots' rows

    def find(self, data):
        """New number of the root of the first such component, or -1. O(rows of the roots) where none of these sums to 0."""
        starts = np.concatenate([[0], self.ends[:-1]])
        suspect = _sum_to_zero(data[self.entries], starts, self.ends)
        if not suspect.any():
            return -1
        indptr = self.pattern.indptr
        zero = _sum_to_zero(data, indptr[:-1], indptr[1:])[self.perm]
        first = np.concatenate([[0], self.roots[:-1] + 1])             # a tree is a range that ends in its root
        whole = np.logical_and.reduceat(zero, first)
        return int(self.roots[np.argmax(whole)]) if whole.any() else -1


def _sum_to_zero(data, starts, ends):
    """Which rows, data[starts] to data[ends - 1], hold something and sum to 0."""
    closed = np.append(data, 0.0)                                       # reduceat needs every start to lie within
    moduli = np.add.reduceat(np.abs(closed), starts)
    sums = np.add.reduceat(closed, starts)
    return (starts < ends) & (moduli > 0) & (np.abs(sums) <= ROUNDING * moduli)
