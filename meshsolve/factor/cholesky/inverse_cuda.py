"""Entries of the inverse on the GPU: launches of inverse.cu, level by level from the roots down. Sources are those of inverse.cpp.

Memory: twice the panels of L and its update matrices, both triangles. The host reads nothing, except
the sizes of launches at the first inversion with an analysis.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np

from meshsolve import device
from meshsolve.factor.fronts import cuda as fronts
from meshsolve.factor.fronts.tree_cuda import COLUMNS, table_of
from meshsolve.sparse.lists_cuda import MASK, compressed, find, keys_of, rows_of, transposed

K, EXTRACT = (device.kernels(f"factor/cholesky/{name}.cu") for name in ("inverse", "extract"))
TAKEN = 8                               # columns of a thread block of k_take, one for each of its warps


def inverse_diagonal(engine, constraint):
    """As :func:`meshsolve.factor.cholesky.inverse.inverse_diagonal`, on the GPU."""
    if constraint is None:
        return engine.inverse_diagonal()
    xp = device.xp()
    d, rows = xp.zeros(constraint.n), xp.arange(constraint.n)
    if not constraint.alone:
        d[device.to_device(constraint.free)] = engine.inverse_diagonal()
    return d + _mean_correction(engine, constraint)(rows, rows)


def selected_inverse(engine, constraint):
    """As :func:`meshsolve.factor.cholesky.inverse.selected_inverse`: a csr_matrix of CuPy."""
    xp = device.xp()
    if constraint is not None and constraint.alone:
        n = constraint.n
        return device.csr(xp.zeros(0), xp.zeros(0, np.int32), xp.zeros(n + 1, np.int32), (n, n))
    pattern, values = engine.pattern, engine.inverse_on_matrix()
    if constraint is None:
        return device.csr(values, pattern.indices.copy(), pattern.indptr, (pattern.n, pattern.n))
    n, keys = constraint.n, keys_of(pattern.indptr, pattern.indices)
    free, fixed = (device.to_device(rows).astype(np.int64) for rows in (constraint.free, constraint.rows))
    rows, columns = free[keys >> 32], free[keys & MASK]
    if constraint.centers:                          # the pseudoinverse has entries in the rows of pins
        indptr, indices, _ = constraint.coupling
        i, j = free[rows_of(indptr, len(indices))], fixed[indices]
        rows, columns = xp.concatenate([rows, i, j, fixed]), xp.concatenate([columns, j, i, fixed])
        values = xp.concatenate([values, xp.zeros(len(rows) - len(values))]) + _mean_correction(engine, constraint)(rows, columns)
        values = xp.where(constraint.component[rows] == constraint.component[columns], values, 0.0)
    keys = rows << 32 | columns
    order = xp.argsort(keys, kind="stable")
    indptr, indices = compressed(n, keys[order])
    return device.csr(values[order], indices, indptr, (n, n))


def inverse_panels(symbolic, tree, L):
    """Return the entries of A^-1 on the panels of L, in their layout.

    Parameters
    ----------
    symbolic : Symbolic
    tree : DeviceTree
    L : (tree.panel_scalars,) float64 or float32
        Panels of the factor.

    Returns
    -------
    (tree.panel_scalars,) array of L's dtype
        Upper triangles of the pivots are not written.
    """
    xp, top_down = device.xp(), _top_down(symbolic)
    Y, Z, squares = xp.empty_like(L), xp.empty_like(L), xp.empty(top_down.square_scalars, L.dtype)
    arrays = tree.parent, tree.relative, L, Y, Z, squares
    for level in reversed(top_down.levels):
        for batch in level.batches:
            groups = batch.threads // 32 if batch.per_warp else 1
            _launch("k_invert_front", L, -(-batch.count // groups), batch.threads,
                    (np.int32(batch.per_warp), batch.fronts, np.int32(batch.count), top_down.table, *arrays))
        for large in (*level.large, *level.libraries):
            _by_tiles(top_down.table, large, arrays)
    return Z


def diagonal_of(tree, Z):
    """Return the diagonal of A^-1 in the order of the pattern, (n,) float64."""
    xp = device.xp()
    permuted, out = (xp.empty(tree.n, np.float64) for _ in range(2))
    device.launch(EXTRACT.of(Z.dtype).k_diagonal, tree.count, 128, 0, (tree.table, Z, permuted))
    out[tree.perm] = permuted
    return out


def entries_of(pattern, tree, Z):
    """Return the entries of A^-1 on the pattern of the analyzed matrix, (nnz,) float64."""
    xp = device.xp()
    x = xp.zeros(pattern.nnz, np.float64)
    device.launch(K.of(Z.dtype).k_inverse_entries, tree.count, 128, 0,
                  (tree.table, Z, tree.entry_ptr, tree.entry_source, tree.entry_row, x))
    keys = keys_of(pattern.indptr, pattern.indices)
    mirror = find(keys, transposed(keys))
    return x + xp.where(mirror == xp.arange(len(keys)), 0.0, x[mirror])        # the kernel writes one entry of each pair


# ---- helpers ------------------------------------------------------------------------------------------------------------


def _mean_correction(engine, constraint):
    """As :func:`meshsolve.factor.cholesky.inverse.mean_correction`, for rows on the GPU."""
    if not constraint.centers or constraint.alone:
        return lambda i, j: 0.0
    xp, free = device.xp(), device.to_device(constraint.free)
    sums = xp.zeros((constraint.n, 1))              # row sums of the inverse
    sums[free] = engine.solve("A", xp.ones((len(free), 1)))
    component, size = constraint.component, constraint.size
    total, means = constraint.components.means(sums)[:, 0] / size, sums[:, 0] / size[component]
    return lambda i, j: total[component[i]] - means[i] - means[j]


def _top_down(symbolic):
    """Return the :class:`_TopDown` of an analysis, made at the first inversion. The host reads the sizes of launches."""
    if symbolic not in _known:
        forest = symbolic.forest_on_device
        table, (_, scalars, _) = table_of(symbolic.analysis_on_device, forest)
        pivots, height = (table[:, COLUMNS.index(name)] for name in ("pivots", "height"))
        _known[symbolic] = _TopDown(table, scalars, fronts.levels(table, pivots * height, forest, fronts.LIMITS))
    return _known[symbolic]


class _TopDown(NamedTuple):
    """What the inversion of every factor with one analysis uses."""

    table: object               # of fronts, with the squares in two halves of a buffer, by parity of the depth
    square_scalars: int
    levels: tuple               # of Level, the deepest first


_known: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _by_tiles(table, large, arrays):
    *_, L, Y, Z, squares = arrays
    first = large.steps[0]
    widest, height = (size + fronts.PIVOT_BLOCK for size in (first.columns, first.rows))
    _launch("k_take", L, (-(-max(widest, large.updates) // TAKEN), large.count), 256, (large.fronts, table, *arrays))
    for step in reversed(large.steps):
        _launch("k_divide", L, (-(-height // fronts.TILE), step.count), 256, (large.fronts, table, L, Y, np.int32(step.begin)))
    columns = -(-widest // fronts.TILE)
    for name, rows in (("k_below", -(-large.updates // fronts.TILE)), ("k_pivots", columns)):
        _launch(name, L, (rows, columns, large.count), 256, (large.fronts, table, Y, Z, squares))


def _launch(name, L, grid, block, args):
    device.launch(getattr(K.of(L.dtype), name), grid, block, 0, args)
