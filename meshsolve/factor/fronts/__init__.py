"""The multifrontal engine: an assembly tree of dense fronts that the factorizations share.

Sources: Duff and Reid 1983; Liu 1992, "The multifrontal method for sparse matrix solution".
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from meshsolve import _core
from meshsolve.sparse.matrix import Csr


class TreePattern:
    """An analysed pattern without its indices: the assembly tree has half of them, and the other half are their mirror images.

    Stands for the :class:`Csr` that it was made of, whose index array, most often the caller's, need not be kept nor copied.

    Parameters
    ----------
    pattern : Csr
        Symmetric, both triangles stored.
    tree : _core.AssemblyTree
        Made of it.
    """

    def __init__(self, pattern, tree):
        self.n, self.nnz, self.indptr, self.tree = pattern.n, pattern.nnz, pattern.indptr, tree
        self._fingerprint = _core.fingerprint(pattern.indices)

    @cached_property
    def indices(self):
        """(nnz,) int32 column indices, computed at the first access in O(nnz) and kept; a caller that has a copy may set it."""
        return self.tree.indices(self.indptr)

    def same_as(self, M):
        """True if the :class:`Csr` M stores the same entries, judging from row pointers and a fingerprint of 128 bits."""
        return np.array_equal(M.indptr, self.indptr) and _core.fingerprint(M.indices) == self._fingerprint

    def __reduce__(self):
        return Csr, (self.n, self.indptr, self.indices)


def assembly_tree(symbolic, threads):
    """The assembly tree of an analysis: made once, shared by every factor of that analysis, which from then on keeps no other
    array of the indices.

    Parameters
    ----------
    symbolic : Symbolic
    threads : int
        Only the speed depends on it.

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
        pattern = symbolic.matrix_pattern = TreePattern(pattern, tree)
    return pattern.tree
