"""Partition of a graph into parts of nearly equal weight: Python wrapper of partition.cpp."""

from __future__ import annotations

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import MeshLike, pattern_of
from meshsolve.options import as_integer, as_seed
from meshsolve.order.nested import nested_dissection
from meshsolve.order.prepass_cuda import held, on_host
from meshsolve.report import announce
from meshsolve.sparse.columns import as_rhs, first_true
from meshsolve.types import ArrayLike, Matrix


def partition(A_or_mesh: MeshLike | Matrix, parts: int, weights: ArrayLike | None = None, seed: int = 0) -> np.ndarray:
    """Divide the rows of a matrix, or the vertices of a mesh, into parts of nearly equal size with few edges between them.

    The separator tree of a nested dissection is divided in proportion to its weights, two halves at a time. Layers of vertices
    then move across each cut until both halves have their share, and the cut is shortened.

    Parameters
    ----------
    A_or_mesh : mesh, or (n, n) matrix, as for :func:`nested_dissection`
        For a matrix, the graph is the pattern of A + A^T without its diagonal.
    parts : int, 1 <= parts <= n
    weights : (n,) array, optional
        Weight of each row, positive; 1 by default. Parts have nearly equal sums of weights.
    seed : int >= 0
        Other seeds give other partitions of about the same quality.

    Returns
    -------
    part : (n,) int32
        Part of each row, from 0 to ``parts - 1``. No part is empty. On meshes the parts are connected, except for small pieces.

    Raises
    ------
    InvalidInputError
        Not a square matrix or a mesh; fewer rows than parts; weights that are not n positive numbers; seed out of range.

    Notes
    -----
    The largest part has at most about 1.2 times the mean weight, unless single rows are heavier than that. The result is the same
    on any number of threads and on any machine. Cost: the nested dissection and O(nnz log parts), about 1 us per vertex of a mesh
    with 64 parts. Source: Pothen, Sun 1993 (proportional mapping); Fiduccia, Mattheyses 1982 (refinement). Code:
    order/partition.cpp.

    Examples
    --------
    >>> import numpy as np
    >>> from meshsolve import datasets, order
    >>> part = order.partition(datasets.grid2d(30, 20), 4)
    >>> bool(np.bincount(part).max() <= 1.2 * len(part) / 4)
    True
    """
    seed, parts = as_seed(seed), as_integer(parts, "parts")
    graph = (on_host(A_or_mesh) if held(A_or_mesh) else pattern_of(A_or_mesh)).graph()
    if parts > graph.n:
        raise InvalidInputError(f"parts must be at most the number of rows, {graph.n}, got {parts}: no part may be empty")
    weight = np.ones(graph.n) if weights is None else _as_weights(weights, graph.n)
    return divide(graph, parts, weight, seed)


def divide(graph, parts, weight, seed):
    """:func:`partition` of checked arguments: a pattern without diagonal, and (n,) float64 weights."""
    ordering = nested_dissection(graph, "fast", seed=seed)
    announce("partition")
    tree = ordering.tree
    return _core.partition(graph.indptr, graph.indices, ordering.perm, tree.parent, tree.first, tree.last, weight, parts, seed)


def _as_weights(weights, n):
    """Return checked weights as a contiguous (n,) float64 array."""
    columns, shape = as_rhs(weights, n, "weights")
    if shape != (n,):
        raise InvalidInputError(f"weights must have shape ({n},), got {shape}")
    weight = np.ascontiguousarray(columns[:, 0])
    if (row := first_true(weight <= 0)) >= 0:
        raise InvalidInputError(f"weights must be positive, but row {row} holds {weight[row]:g}")
    return weight
