"""Leaf subtrees in shared memory, and the plan of a numeric phase on the GPU, compared with a simulation of their memory and order."""

import numpy as np
import pytest
from kernel_harness import Harness
from zoo import grid

import meshsolve as ms
from meshsolve import _core, device
from meshsolve.factor.fronts import plan


def forest(count, seed, wide=3):
    """A random postordered forest: parents, panels and update matrices (0 for roots)."""
    rng = np.random.default_rng(seed)
    parent, open_roots = np.full(count, -1), []
    for s in range(count):
        for _ in range(min(len(open_roots), int(rng.integers(0, wide + 1)))):
            parent[open_roots.pop()] = s
        open_roots.append(s)
    update = np.where(parent < 0, 0, rng.integers(0, 20, count))
    return parent.astype(np.int32), rng.integers(1, 30, count), update


def descendants(parent, s):
    begin = s
    while begin > 0 and (ancestors(parent, begin - 1) & {s}):
        begin -= 1
    return range(begin, s + 1)


def ancestors(parent, s):
    found = set()
    while s >= 0:
        found.add(s)
        s = parent[s]
    return found


def need(parent, panel, update, root, left):
    """Scalars that the fronts of a subtree that are ``left`` take, by a stack of update matrices."""
    stack, most = {}, 0
    for s in filter(left.__getitem__, descendants(parent, root)):
        stack[s] = 0 if s == root else update[s]
        most = max(most, sum(stack.values()) + panel[s])
        stack = {child: size for child, size in stack.items() if parent[child] != s}
    return most


def check_positions(parent, panel, update, found, root, capacity, chosen):
    """Follow the matrices of a subtree in shared memory: no front overwrites an update matrix that is read later."""
    owner, is_root, panel_at, update_at = found
    stored = {}
    for s in descendants(parent, root):
        if owner[s] != chosen:
            continue
        spans = [*stored.values(), (panel_at[s], panel_at[s] + panel[s])]
        if s != root:
            spans.append((update_at[s], update_at[s] + update[s]))
        spans = sorted(span for span in spans if span[0] < span[1])
        assert spans[0][0] >= 0 and spans[-1][1] <= capacity
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:])), (root, s)
        stored = {child: span for child, span in stored.items() if parent[child] != s}
        if s != root:
            stored[s] = update_at[s], update_at[s] + update[s]


@pytest.mark.parametrize("seed", range(4))
def test_positions_in_the_workspace_never_overlap(seed):
    """Each subtree fits, and its parent's does not; small ones are those of warps."""
    parent, panel, update = forest(100, seed, wide=2 + seed % 3)
    for of_warp, of_block in ((0, 0), (0, 60), (30, 150), (25, 10_000)):
        *found, begin, depth = _core.leaf_subtrees(parent, panel, update, of_warp, of_block)
        owner, is_root, _, update_at = found
        assert begin.tolist() == [descendants(parent, s)[0] for s in range(100)]
        assert depth.tolist() == [len(ancestors(parent, s)) - 1 for s in range(100)]
        left = np.ones(100, bool)
        for chosen, capacity in ((plan.WARP, of_warp), (plan.BLOCK, of_block)):
            fits = left & [left[s] and need(parent, panel, update, s, left) <= capacity for s in range(100)]
            assert np.array_equal(owner == chosen, fits)
            assert np.array_equal(is_root[fits] == 1, ((parent < 0) | ~fits[parent])[fits])
            for root in np.flatnonzero(fits & (is_root == 1)):
                check_positions(parent, panel, update, found, root, capacity, chosen)
            left &= ~fits
        assert (update_at[(is_root == 1) | left] == -1).all() and not is_root[left].any()


def tree_of(A, **options):
    """Parents, columns and rows of the fronts of an analysis on the host."""
    native = ms.analyze(A, **options).native
    pivots = np.diff(native.first).astype(np.int64)
    return np.asarray(native.snode_parent), pivots, pivots + np.diff(native.row_ptr)


def planned(parent, pivots, height, workspace):
    with device.use(Harness()):
        return plan.plan_of(parent, pivots, height, workspace)


def work(found):
    """Fronts in the order of their factorization in each thread block, and the (front, row, column) of each tile."""
    tasks, subtrees, queued = (np.asarray(part).reshape(-1, width) for part, width in
                               ((found.subtree_tasks, 4), (found.subtrees, 2), (found.queued, 4)))
    blocks = [([list(range(first, last + 1)) for first, last in subtrees[task[0]:task[1]]], list(found.fronts[task[2]:task[3]])) for task in tasks]
    tiles = [(queued[number, 0], i, j) for number, i, j in np.asarray(found.tiles).reshape(-1, 3)]
    return blocks, tiles


@pytest.mark.parametrize("workspace", [(0, 0), (400, 0), (800, 100), (3000, 375)], ids=str)
def test_every_front_once_and_in_order(workspace):
    parent, pivots, height = tree_of(grid(40, 37), ordering="nd")
    found, _ = planned(parent, pivots, height, workspace)
    blocks, tiles = work(found)
    done = [s for warps, fronts in blocks for part in (*warps, fronts) for s in part]
    position = {tile: k for k, tile in enumerate(tiles)}
    queued = {front for front, _, _ in tiles}
    assert len(position) == len(tiles) and sorted([*done, *queued]) == list(range(len(parent)))
    for warps, fronts in blocks:                            # children before parents, and within the same thread block
        of_warps = {s for part in warps for s in part}
        for part in (*warps, fronts):
            assert all(parent[s] in queued or parent[s] < 0 or parent[s] in part[k:] or parent[s] in fronts for k, s in enumerate(part))
            assert part == sorted(part)
        assert not of_warps & set(fronts)
    depth = dict(np.asarray(found.queued).reshape(-1, 4)[:, [0, 3]].tolist())
    assert (np.diff([depth[front] for front, _, _ in tiles]) <= 0).all()             # an update matrix waits for the depth below
    size = {s: (-(-pivots[s] // plan.TILE), -(-pivots[s] // plan.TILE) - (-(height[s] - pivots[s]) // plan.TILE)) for s in queued}
    for s, (of_pivots, blocks_of_front) in size.items():
        for j in range(blocks_of_front):
            for i in range(j, blocks_of_front):
                before = [(s, row, k) for k in range(min(j, of_pivots)) for row in (i, j)]
                before += [(s, j, j)] if i > j and j < of_pivots else []
                for child in np.flatnonzero(parent == s):
                    first, last = size.get(child, (0, 0))
                    before += [(child, a, b) for b in range(first, last) for a in range(b, last)]
                assert all(position[tile] < position[s, i, j] for tile in before)


def test_update_matrices_never_overlap():
    """Roots of subtrees have memory of their own; successive depths of the queue have different halves."""
    parent, pivots, height = tree_of(grid(40, 37), ordering="nd")
    found, offset = planned(parent, pivots, height, (400, 50))
    size = (height - pivots) * (height - pivots + 1) // 2
    queued = np.asarray(found.queued).reshape(-1, 4)
    depth = dict(zip(queued[:, 0], queued[:, 3]))
    roots = [s for s in np.flatnonzero(offset >= 0) if s not in depth]
    for d in range(max(depth.values()) + 1):
        together = sorted((offset[s], offset[s] + size[s]) for s in [*roots, *(s for s in depth if depth[s] in (d, d + 1))] if size[s])
        assert all(a[1] <= b[0] for a, b in zip(together, together[1:])) and together[-1][1] <= found.update_scalars
    remaining = np.asarray(found.initial)[plan.COUNTERS:][:len(queued)]
    for number, (front, _, above, _) in enumerate(queued):
        tiles = [-(-(height[child] - pivots[child]) // plan.TILE) for child in np.flatnonzero(parent == front) if child in depth]
        assert remaining[number] == sum(count * (count + 1) // 2 for count in tiles)
        assert (queued[above, 0] if above >= 0 else -1) == parent[front]


@pytest.mark.slow
def test_a_plan_of_a_million_columns():
    """Two launches whatever the number of levels; most columns and half of L in shared memory; a queue of some ten thousand tiles."""
    parent, pivots, height = tree_of(ms.datasets.grid2d(1000, 1000, boundary="dirichlet"), ordering="nd")
    rows = height - pivots
    nonzeros, updates = pivots * (pivots + 1) // 2 + pivots * rows, rows * (rows + 1) // 2
    for kilobytes, blocks, tiles, of_columns, of_factor in ((48, 3000, 40_000, 0.88, 0.4), (112, 1500, 30_000, 0.92, 0.45), (224, 700, 20_000, 0.94, 0.5)):
        scalars = kilobytes * 1024 // 8
        found, _ = planned(parent, pivots, height, (scalars, scalars // plan.WARPS))
        queued = np.asarray(found.queued).reshape(-1, 4)
        assert found.numbers[0] <= blocks and found.numbers[1] <= tiles
        covered = [1 - size[queued[:, 0]].sum() / size.sum() for size in (pivots, nonzeros)]
        assert covered[0] >= of_columns and covered[1] >= of_factor, (kilobytes, covered)
        assert found.update_scalars < updates.sum() // 2
