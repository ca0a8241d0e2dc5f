"""The assembly tree of a complete factorization on the GPU, and the launches of its levels.

The table of fronts and the index maps are those of fronts/tree_cuda.py, made once for each analysis. A level is planned again if its
fronts receive delayed columns. Cost: O(nnz(A) + rows of the supernodes) for the tree, O(fronts of a level) for a plan.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from meshsolve import device
from meshsolve.device import MOST_ACROSS
from meshsolve.factor.fronts.cuda import CLASSES, LIMITS, Batch, tiles_of
from meshsolve.factor.fronts.tree_cuda import positions, shape_of, table_of


class LargeFronts(NamedTuple):
    """Fronts that are factored by tiles, those with most columns first."""

    fronts: object              # their numbers, int32 on the GPU
    columns: np.ndarray         # number of columns of each front, on the host
    height: int                 # rows of the highest front
    updates: int                # rows of the largest update matrix
    dense: int                  # number of fronts, the first ones, whose products cuBLAS computes


class Dense(NamedTuple):
    """A front of many columns: offsets in scalars, and ``vector`` in rows of right-hand sides."""

    front: int
    number: object              # its number, (1,) int32 on the GPU
    columns: int
    updates: int
    update: int
    vector: int


class Plan(NamedTuple):
    """The launches of one level."""

    fronts: object              # all its fronts, int32 on the GPU
    batches: tuple              # in shared memory; the fronts of one warp come first
    tiles: object               # (2 tiles,) int32: front and first column of each tile of k_assemble
    large: tuple                 # of LargeFronts
    dense: tuple                # of Dense: the large fronts whose products cuBLAS computes
    solved: tuple               # batches of a solve: all fronts except the dense ones


class Tree:
    """The assembly tree on the GPU, and on the host the sizes from which launches are planned.

    Parameters
    ----------
    symbolic : Symbolic
        Analysis of a pattern that contains that of the matrix.
    pattern : Csr
        The pattern of the matrix, both triangles, on the GPU.
    """

    def __init__(self, symbolic, pattern):
        analysis, forest = symbolic.analysis_on_device, symbolic.forest_on_device
        self.table, (self.panel_scalars, self.update_scalars, self.vector_rows) = table_of(analysis, forest)
        relative, *entries = positions(pattern, analysis)
        self.entries = self.table, forest.child, relative, *entries
        self.perm, self.rows, self.n = analysis.perm, analysis.rows, symbolic.n
        self.parent, self.own, self.updates = shape_of(analysis)
        self.row_ptr, self.count = np.append(0, np.cumsum(self.updates)), len(self.own)
        depth = device.to_host(forest.depth)
        by_depth = np.argsort(-depth, kind="stable")
        levels = np.split(by_depth, np.flatnonzero(np.diff(depth[by_depth])) + 1)
        self.plans = [self.plan(level, self.own[level]) for level in levels]
        self.levels = levels

    @functools.cached_property
    def host_rows(self):
        """The row lists of all fronts on the host, copied once."""
        return device.to_host(self.rows)

    @property
    def nbytes(self):
        return sum(array.nbytes for array in (*self.entries, self.perm, self.rows))

    def plan(self, fronts, columns):
        """Plan the launches of these fronts, with these numbers of columns."""
        updates = self.updates[fronts]
        height = columns + updates
        size = columns * height
        kind = np.zeros(len(size), np.int64)
        for k, scalars in enumerate([LIMITS.tiny, *(max(scalars, LIMITS.tiny) for scalars, _ in CLASSES), LIMITS.small], 1):
            kind[size > scalars] = k
        threads = (128, *(threads for _, threads in CLASSES), 256)
        parts = [np.flatnonzero(kind == k) for k in range(len(threads))]
        batches = tuple(_batch(fronts, part, size, threads[k], k == 0) for k, part in enumerate(parts) if len(part))
        large = np.flatnonzero(kind == len(threads))
        large = large[np.argsort(-columns[large], kind="stable")]
        groups = [large[a:a + MOST_ACROSS] for a in range(0, len(large), MOST_ACROSS)]
        is_dense = (kind == len(threads)) & (columns >= LIMITS.dense)
        tiny, others = parts[0], np.flatnonzero((kind > 0) & ~is_dense)
        return Plan(device_numbers(fronts), batches, tiles_of(fronts[large], height[large])[0],
                    tuple(LargeFronts(device_numbers(fronts[g]), columns[g], int(height[g].max()), int(updates[g].max()),
                                      int((columns[g] >= LIMITS.dense).sum()))
                          for g in groups),
                    self._dense(fronts[is_dense], columns[is_dense]),
                    tuple(_batch(fronts, part, size, count, part is tiny)
                          for part, count in ((tiny, 128), (others, 256)) if len(part)))

    def _dense(self, fronts, columns):
        if len(fronts) == 0:
            return ()
        update, vector = device.to_host(self.table[device_numbers(fronts)])[:, 2:4].T
        return tuple(Dense(int(s), device_numbers(fronts[k:k + 1]), int(columns[k]), int(self.updates[s]), int(update[k]),
                           int(vector[k])) for k, s in enumerate(fronts))


def device_numbers(fronts):
    """Return numbers of fronts as int32 on the GPU."""
    return device.to_device(fronts.astype(np.int32))


def _batch(fronts, part, size, threads, per_warp):
    """One launch, the largest fronts first."""
    part = part[np.argsort(-size[part], kind="stable")]
    return Batch(device_numbers(fronts[part]), len(part), int(size[part[0]]), threads, per_warp)
