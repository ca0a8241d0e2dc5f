"""The result of an ordering: a permutation, the separator tree of a nested dissection, and a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from meshsolve import device
from meshsolve.mesh import pattern_of
from meshsolve.options import as_integer, counted
from meshsolve.report import Report
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import read_only
from meshsolve.sparse.places import where
from meshsolve.types import Matrix


@dataclass(frozen=True, eq=False)
class SeparatorTree:
    """The tree of a nested dissection, nodes in postorder.

    Attributes
    ----------
    parent : (k,) int32
        ``parent[i] > i``, or -1 for a root.
    first, last : (k,) int32
        ``[first[i], last[i])`` are the new positions of the vertices of node i, a separator or a leaf. The subtree of i lies right
        before them. The nodes partition 0..n, and every edge of the graph joins a node with itself or with an ancestor.
    """

    parent: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def __len__(self):
        return len(self.parent)

    def partition(self, levels: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the first levels as a complete binary tree, in the order of a heap from its last node to its root.

        Parameters
        ----------
        levels : int >= 1
            A node of the last level contains the whole subtrees below it.

        Returns
        -------
        size : (2**levels - 1,) int32
            Entry i is the number of vertices of heap node ``2**levels - 2 - i``, whose children are the heap nodes 2 k + 1 and 2 k + 2.
            Missing nodes have size 0. Several subtrees without a separator are divided between the children of such a node.
        position : (n,) int64
            ``position[k]`` is the position in the ordering of the k-th vertex in this order.

        Raises
        ------
        InvalidInputError
            ``levels`` is not a positive integer.

        Notes
        -----
        Cost O(n + 2**levels). cuDSS takes such a tree, see :mod:`meshsolve.factor.cholesky.cudss`.

        Examples
        --------
        >>> tree = SeparatorTree(*(np.array(x, np.int32) for x in ([2, 2, -1], [0, 3, 5], [3, 5, 6])))
        >>> size, position = tree.partition(2)
        >>> size.tolist(), position.tolist()
        ([2, 3, 1], [3, 4, 0, 1, 2, 5])
        """
        levels, begin = as_integer(levels, "levels", 1), self._subtree_begin()
        children: list[list[int]] = [[] for _ in range(len(self) + 1)]          # the last entry has the roots
        for node, above in enumerate(self.parent.tolist()):
            children[above].append(node)
        spans = [(0, 0)] * (2**levels - 1)
        parts = [(0, children[-1])]
        for heap, nodes in parts:                                               # grows in the loop
            if not nodes:
                continue
            below = nodes
            if heap >= 2 ** (levels - 1) - 1:
                spans[heap] = int(begin[nodes[0]]), int(self.last[nodes[-1]])
                continue
            if len(nodes) == 1:
                spans[heap], below = (int(self.first[nodes[0]]), int(self.last[nodes[0]])), children[nodes[0]]
            cut = self._half(below, begin)
            parts += [(2 * heap + 1, below[:cut]), (2 * heap + 2, below[cut:])]
        spans.reverse()
        size = np.array([last - first for first, last in spans], np.int32)
        return size, np.concatenate([np.arange(first, last) for first, last in spans])

    def __repr__(self):
        return f"SeparatorTree({counted(len(self), 'node')}, {int(np.count_nonzero(self.parent < 0))} of them roots)"

    def _subtree_begin(self):
        """Return the first position of each subtree."""
        begin = self.first.copy()
        for node, above in enumerate(self.parent.tolist()):
            if above >= 0:
                begin[above] = min(begin[above], begin[node])
        return begin

    def _half(self, nodes, begin):
        """Return the number of the first ones of successive subtrees that have about half of the vertices, at least one subtree."""
        ends = np.cumsum(self.last[nodes] - begin[nodes]) if nodes else np.zeros(1)
        return max(1, int(np.argmin(np.abs(ends - ends[-1] / 2))) + 1)


class Elimination(NamedTuple):
    """Elimination tree and column counts of the Cholesky factor of the ordered pattern, (n,) int32 each, in new numbers."""

    parent: np.ndarray
    colcount: np.ndarray

    def moved(self, rows):
        """Return it for the order in which ``rows[k]`` becomes row k. Every row must still come before its ancestors."""
        position = np.empty(len(rows) + 1, np.int32)
        position[rows], position[-1] = np.arange(len(rows), dtype=np.int32), -1
        return Elimination(position[self.parent[rows]], self.colcount[rows])


@dataclass(frozen=True, eq=False)
class Ordering(Sealed):
    """A permutation, with its method and report.

    Attributes
    ----------
    perm : (n,) int32
        ``perm[k]`` is the old index of the k-th new row. A CuPy array if a CuPy matrix was ordered on the GPU.
    method : str
        A name of :mod:`meshsolve.order.methods`, or ``"given"``.
    tree : SeparatorTree or None
        For nested dissection.
    num_patches : int
        Number of sub-patches of nested dissection; 0 for other methods, and below 5000 vertices, where minimum degree is used.
    report : Report
        Phases ``"patches"`` and ``"order"``.
    elimination : Elimination or None
        For the analysis of the same pattern, if the method computes it: minimum degree usually does.
    """

    perm: np.ndarray
    method: str
    tree: SeparatorTree | None = None
    num_patches: int = 0
    report: Report = field(default_factory=Report, repr=False)
    elimination: Elimination | None = field(default=None, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "perm", read_only(self.perm))

    @cached_property
    def iperm(self) -> np.ndarray:
        """(n,) int32: ``iperm[perm[k]] == k``, the new position of each old row."""
        xp = where(self.perm).xp
        iperm = xp.empty_like(self.perm)
        iperm[self.perm] = xp.arange(len(self.perm), dtype=np.int32)
        return read_only(iperm)

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__post_init__()

    def __len__(self):
        return len(self.perm)

    def __array__(self, dtype=None, copy=None):
        """Return ``perm`` on the host, so that an ordering can be used as an index: ``A[o][:, o]``."""
        perm = device.to_host(self.perm)
        if copy or not (dtype is None or np.dtype(dtype) == perm.dtype):
            if copy is False:
                raise ValueError(f"the permutation has dtype {perm.dtype}: conversion to {np.dtype(dtype)} needs a copy")
            return np.array(perm, dtype)
        return perm

    def __repr__(self):
        tree = f", tree of {counted(len(self.tree), 'node')}" if self.tree is not None else ""
        return f"Ordering({self.method!r}, n={len(self)}{tree})"


# A name of order.methods, an Ordering, an array ``perm``, or a function of a pattern that returns an Ordering or a ``perm``.
OrderingLike: TypeAlias = str | Ordering | Sequence[int] | np.ndarray | Callable[[Matrix], Any]


def timed(method, A, make):
    """Return the :class:`Ordering` of the graph of A whose ``perm`` is ``make(graph)``, with its time in the report."""
    graph = pattern_of(A).graph()
    report = Report(ordering=method, nnz_A=graph.nnz + graph.n)
    with report.phase("order"):
        perm = np.ascontiguousarray(make(graph), np.int32)
    return Ordering(perm, method, report=report)
