"""The multifrontal engine: an assembly tree of dense fronts that the factorizations share.

Sources: Duff and Reid 1983; Liu 1992, "The multifrontal method for sparse matrix solution".
"""

from __future__ import annotations

import weakref
from typing import Any

from meshsolve import _core

_trees: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def assembly_tree(symbolic, threads):
    """The assembly tree of an analysis: made once, shared by every factor of that analysis.

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
    tree = _trees.get(symbolic)
    if tree is None:
        pattern = symbolic.matrix_pattern
        tree = _trees[symbolic] = _core.AssemblyTree(symbolic.native, pattern.indptr, pattern.indices, threads)
    return tree
