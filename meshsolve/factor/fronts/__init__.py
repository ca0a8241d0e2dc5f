"""The multifrontal engine: an assembly tree of dense fronts that the factorizations share.

Sources: Duff and Reid 1983; Liu 1992, "The multifrontal method for sparse matrix solution".
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from meshsolve import _core
from meshsolve.sparse.matrix import Csr


class TreePattern:
    """An analyzed pattern without its indices: the assembly tree has half of them, the others are mirror entries.

    It replaces the :class:`Csr` of the pattern. So the index array, which is usually the caller's, is neither kept nor copied.

    Parameters
    ----------
    pattern : Csr
        Symmetric, both triangles stored.
    tree : _core.AssemblyTree
        Assembly tree of the pattern.
    threads : int
        Of the comparison with another pattern.
    """

    def __init__(self, pattern, tree, threads):
        self.n, self.nnz, self.indptr, self.tree = pattern.n, pattern.nnz, pattern.indptr, tree
        self._threads, self._fingerprint = threads, _core.fingerprint(pattern.indices, threads)

    @cached_property
    def indices(self):
        """(nnz,) int32 column indices, computed in O(nnz) at the first access and kept; may be set if they are known."""
        return self.tree.indices(self.indptr)

    def same_as(self, M):
        """True if the :class:`Csr` M stores the same entries, judging from row pointers and a fingerprint of 128 bits."""
        return np.array_equal(M.indptr, self.indptr) and _core.fingerprint(M.indices, self._threads) == self._fingerprint

    def __reduce__(self):
        return Csr, (self.n, self.indptr, self.indices)


def assembly_tree(symbolic, threads):
    """Return the assembly tree of an analysis, made once and shared by all its factors. The analysis then drops its own indices.

    Parameters
    ----------
    symbolic : Symbolic
    threads : int
        Affects the speed only.

    Returns
    -------
    _core.AssemblyTree

    Notes
    -----
    O(nnz(A) + rows of the supernodes) time and memory.
    """
    pattern = symbolic.matrix_pattern
    if not isinstance(pattern, TreePattern):
        tree = _core.AssemblyTree(symbolic.native, pattern.indptr, pattern.indices, threads)
        pattern = symbolic.matrix_pattern = TreePattern(pattern, tree, threads)
    return pattern.tree
