"""Update of a nested dissection for a changed graph: only parts with edges across their separators are dissected again."""

from __future__ import annotations

import numpy as np

from meshsolve.device import to_host
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import MeshLike, pattern_of
from meshsolve.options import as_seed, counted, thread_count
from meshsolve.order.nested import nested_dissection
from meshsolve.order.ordering import Ordering, SeparatorTree
from meshsolve.report import Report
from meshsolve.sparse.columns import as_perm
from meshsolve.sparse.matrix import Csr
from meshsolve.types import Effort, Matrix


def update(ordering: Ordering, A_or_mesh: MeshLike | Matrix, effort: Effort = "default", seed: int = 0,
           threads: int | None = None) -> Ordering:
    """Update the ordering of a graph whose edges have changed.

    An edge may join a node of the separator tree with itself or with an ancestor. If a new edge does not, the subtree of the
    lowest common ancestor of its ends is dissected again and replaced; the rest of the ordering is kept. Removed edges have no
    effect.

    Parameters
    ----------
    ordering : Ordering
        With a tree: from :func:`nested_dissection` or from this function. It is not changed.
    A_or_mesh : mesh, matrix or Csr pattern
        The changed graph, with as many rows as before.
    effort, seed, threads
        As in :func:`nested_dissection`, for the parts that are dissected again.

    Returns
    -------
    Ordering
        ``ordering`` itself if no part must be dissected again; else a new one, whose ``report.facts["redone"]`` is the number of
        rows that were ordered again.

    Raises
    ------
    InvalidInputError
        Not an Ordering with a tree; an invalid tree (names the node); another number of rows; the errors of
        :func:`nested_dissection`.

    Notes
    -----
    O(nnz) for the check, and the dissections. Source: Parth (Zarebavani et al. 2025).

    Examples
    --------
    >>> import meshsolve as ms
    >>> A = ms.datasets.grid2d(80, 80).tolil()
    >>> before = ms.order.nested_dissection(A)
    >>> A[0, 1] = A[1, 0] = 0                                   # a removed edge has no effect
    >>> ms.order.update(before, A) is before
    True
    """
    if not isinstance(ordering, Ordering) or ordering.tree is None:
        raise InvalidInputError("ordering must be an Ordering with a tree, from nested_dissection or update")
    pattern, seed, threads = pattern_of(A_or_mesh), as_seed(seed), thread_count(threads)
    if pattern.n != len(ordering):
        raise InvalidInputError(f"the ordering has {counted(len(ordering), 'row')}, the graph has {pattern.n}")
    perm = as_perm(to_host(ordering.perm), pattern.n, "ordering")
    report = Report(ordering="nd", nnz_A=pattern.nnz + pattern.n, threads=threads, effort=effort)
    with report.phase("order"):
        tree = _Tree(ordering.tree, pattern.n)
        node = np.empty(pattern.n, np.int64)
        node[perm] = tree.node_of_position
        stale = tree.crossed(*_ends(pattern, node))
    if len(stale) == 0:
        return ordering
    if stale[0] < 0:                                            # an edge joins the trees of two roots
        return nested_dissection(pattern, effort, seed=seed, threads=threads)
    return _redone(ordering, perm, pattern, tree, stale, report, {"effort": effort, "seed": seed, "threads": threads})


def _redone(ordering, before, pattern, tree, stale, report, options):
    """Dissect the subtrees of the nodes ``stale`` again. ``before``: ``perm`` of the ordering, on the host."""
    perm, pieces, rows = before.copy(), [], 0
    for top in stale:
        first, last = tree.begin[top], ordering.tree.last[top]
        part = nested_dissection(_induced(pattern, before[first:last]), **options)
        perm[first:last] = before[first:last][part.perm]
        pieces.append((top, part.tree))
        rows += int(last - first)
        report.merge(part.report)
    report.facts |= {"redone": rows, "nnz_A": pattern.nnz + pattern.n}
    return Ordering(perm, "nd", tree.spliced(pieces), ordering.num_patches, report)


class _Tree:
    """A separator tree with the first node and the first position of each subtree."""

    def __init__(self, tree, n):
        _check_arrays(tree, n)
        self.tree = tree
        k = len(tree)
        self.lowest, below = np.arange(k), np.zeros(k, np.int64)        # first node of each subtree, number of its descendants
        for i in np.flatnonzero(tree.parent >= 0):              # ascending: children before parents
            self.lowest[tree.parent[i]] = min(self.lowest[tree.parent[i]], self.lowest[i])
            below[tree.parent[i]] += below[i] + 1
        _require(self.lowest == np.arange(k) - below, "the nodes are not in postorder: the subtree of node {} is not right before it")
        self.begin = tree.first[self.lowest]                    # first position of the subtree
        self.node_of_position = np.repeat(np.arange(k), tree.last - tree.first)

    def crossed(self, a, b):
        """Return the lowest common ancestors of the node pairs in which neither node is an ancestor of the other.

        Only the highest ones, ascending: none is below another. [-1] if a pair has no common ancestor.
        """
        a, b = np.minimum(a, b), np.maximum(a, b)
        crossing = self.lowest[b] > a
        a, b = a[crossing], b[crossing]
        above = np.append(self.tree.parent, -1)                 # the parent of -1 is -1
        while (climb := (b >= 0) & (self.lowest[b] > a)).any():
            b[climb] = above[b[climb]]
        met = np.unique(b)
        if len(met) and met[0] < 0:
            return met[:1]
        highest = []
        for node in met[::-1]:                                  # descending: ancestors first
            if not highest or node < self.lowest[highest[-1]]:
                highest.append(node)
        return np.array(highest[::-1], np.int64)

    def spliced(self, pieces):
        """Return the tree in which the subtree of each ``top`` is replaced by a new one on the same positions."""
        old = self.tree
        parts, at, moved = [], 0, np.full(len(old) + 1, -1)
        count = 0
        for top, new in pieces:
            stop = self.lowest[top]
            parts.append(("kept", at, stop, count))
            moved[at:stop] = np.arange(count, count + stop - at)
            count += stop - at
            parts.append((new, top, self.begin[top], count))
            count += len(new)
            moved[top] = count - 1
            at = top + 1
        parts.append(("kept", at, len(old), count))
        moved[at:len(old)] = np.arange(count, count + len(old) - at)
        parent, first, last = [], [], []
        for what, a, b, offset in parts:
            if isinstance(what, str):
                parent.append(moved[old.parent[a:b]])
                first.append(old.first[a:b])
                last.append(old.last[a:b])
            else:
                above = moved[old.parent[a]]
                parent.append(np.where(what.parent < 0, above, what.parent + offset))
                first.append(what.first + b)
                last.append(what.last + b)
        return SeparatorTree(*(np.concatenate(x).astype(np.int32) for x in (parent, first, last)))


def _check_arrays(tree, n):
    """Raise an error if the arrays are not a separator tree of n rows; the user may have built or changed them."""
    arrays = tree.parent, tree.first, tree.last
    if not all(isinstance(a, np.ndarray) and a.dtype.kind == "i" and a.shape == (len(tree.parent),) for a in arrays):
        raise InvalidInputError("the separator tree of the ordering must have integer arrays parent, first and last of equal length")
    k = len(tree)
    node = np.arange(k)
    _require((tree.parent == -1) | (tree.parent > node) & (tree.parent < k), "the parent of node {} must be a later node, or -1")
    _require(tree.first == np.append(0, tree.last)[:k], "first of node {} must be last of the node before it")
    _require(tree.last >= tree.first, "last of node {} is smaller than first")
    _require(tree.last[-1:] == [n], f"last of the last node must be {n}, the number of rows")


def _require(holds, words):
    if len(holds) == 0 or not holds.all():
        words = words.format(int(np.argmin(holds)) if len(holds) else 0)
        raise InvalidInputError(f"the separator tree of the ordering is invalid: {words}")


def _ends(pattern, node):
    """Return the tree nodes of both ends of each edge."""
    return np.repeat(node, np.diff(pattern.indptr)), node[pattern.indices]


def _induced(pattern, rows):
    """Return the subgraph of ``rows``, numbered in their order."""
    part = pattern.to_scipy()[rows][:, rows]
    part.sort_indices()
    return Csr(len(rows), part.indptr.astype(np.int64), part.indices.astype(np.int32))
