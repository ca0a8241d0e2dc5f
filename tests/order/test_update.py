"""Updated orderings: still nested dissections of the changed graph, unchanged where it did not change."""

import numpy as np
import pytest
import scipy.sparse as sp
from graphs import check_perm, check_tree, fill, from_edges, grid, path, shuffled, triangulated
from hypothesis import given, settings
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve import device, order

pytestmark = pytest.mark.native


def with_edges(A, i, j):
    return sp.csr_array(A + from_edges(A.shape[0], np.asarray(i), np.asarray(j)))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(0, 2**20), st.booleans())
def test_any_new_edges(count, seed, near):
    rng = np.random.default_rng(seed)
    A = shuffled(triangulated(90, 70), 1)
    before = order.nested_dissection(A)
    i = rng.integers(0, 6300, count)
    j = A.indices[A.indptr[i]] if near else rng.integers(0, 6300, count)
    B = with_edges(A, i, j)
    after = order.update(before, B)
    check_perm(after, 6300)
    check_tree(after, B)
    assert after.report.as_dict()["ordering"] == "nd"


def test_unchanged_parts_keep_their_order():
    A = triangulated(100, 100)
    before = order.nested_dissection(A)
    assert order.update(before, A) is before
    tree = before.tree
    top = len(tree) - 1
    left = np.flatnonzero(tree.parent == top)[0]                       # a child of the root: its two sides get an edge
    a, b = np.flatnonzero(tree.parent == left)
    B = with_edges(A, [before.perm[tree.first[a]]], [before.perm[tree.first[b]]])
    kept = before.perm.copy()
    after = order.update(before, B)
    check_tree(after, B)
    changed = np.flatnonzero(after.perm != kept)
    assert len(changed) > 0 and changed.max() < tree.last[left] and np.array_equal(before.perm, kept)
    assert 0 < after.report.facts["redone"] <= tree.last[left]
    again = order.update(after, B)
    assert again is after


def test_fill_stays_near_that_of_a_new_ordering():
    rng = np.random.default_rng(0)
    A = triangulated(110, 100)
    B, o = A, order.nested_dissection(A)
    number = np.arange(11_000).reshape(110, 100)
    for _ in range(6):
        r, c = rng.integers(0, 106), rng.integers(0, 96)
        B = with_edges(B, number[r, c:c + 3], number[r + 3, c:c + 3])
        o = order.update(o, B)
    assert fill(B, o.perm)[0] <= 1.1 * fill(B, order.nested_dissection(B).perm)[0]


def test_joined_components_are_ordered_again():
    A = sp.block_diag([triangulated(80, 80), triangulated(80, 80)], format="csr")
    B = with_edges(A, [3], [9000])
    o = order.update(order.nested_dissection(A), B)
    check_tree(o, B)
    assert np.array_equal(o.perm, order.nested_dissection(B).perm)


def test_same_for_any_number_of_threads():
    A = triangulated(120, 110)
    o = order.nested_dissection(A)
    B = with_edges(A, [0, 77, 5000], [130, 13_000, 5300])
    assert np.array_equal(order.update(o, B, threads=1).perm, order.update(o, B, threads=2).perm)


def test_the_seed_applies_to_parts_ordered_again():
    A = triangulated(120, 110)
    o, B = order.nested_dissection(A), with_edges(A, [0], [13_000])
    one, other = (order.update(o, B, seed=seed) for seed in (0, 1))
    assert one.report.facts["redone"] > 5000 and not np.array_equal(one.perm, other.perm)


def test_all_that_was_redone_is_counted():
    A = sp.block_diag([triangulated(80, 80), triangulated(80, 80)], format="csr")
    o = order.nested_dissection(A)
    first, second, both = (order.update(o, with_edges(A, i, j)).report.facts["redone"]
                           for i, j in (([0], [6399]), ([6400], [12_799]), ([0, 6400], [6399, 12_799])))
    assert first > 0 and second > 0 and both == first + second


@pytest.mark.parametrize(("ordering", "graph"), [
    (order.amd(path(9)), path(9)), (np.arange(9), path(9)), (order.nested_dissection(path(9)), path(8)), (None, path(9))])
def test_refused(ordering, graph):
    with pytest.raises(ms.InvalidInputError):
        order.update(ordering, graph)


@pytest.mark.parametrize(("damage", "says"), [
    ({"parent": (0, 0)}, "the parent of node 0 must be a later node"), ({"parent": (1, 10**6)}, "the parent of node 1 must be"),
    ({"parent": (-1, -2)}, "must be a later node, or -1"), ({"first": (2, 1)}, "first of node 2 must be last of the node before"),
    ({"last": (-1, 6299)}, "must be 6300"), ({"last": (0, -1), "first": (1, -1)}, "last of node 0 is smaller than first"),
    ({"parent": (1, -1)}, "not in postorder"), ({"parent": None}, "of equal length"), ({"last": np.zeros(3)}, "integer arrays")])
def test_a_damaged_tree_is_refused(damage, says):
    A = triangulated(90, 70)
    ordering = order.nested_dissection(A)
    arrays = {name: getattr(ordering.tree, name).copy() for name in ("parent", "first", "last")}
    for name, change in damage.items():
        if isinstance(change, tuple):
            arrays[name][change[0]] = change[1]
        else:
            arrays[name] = arrays[name][:-1] if change is None else change
    broken = order.Ordering(ordering.perm, "nd", order.SeparatorTree(**arrays))
    with pytest.raises(ms.InvalidInputError, match=says):
        order.update(broken, A)


def test_an_ordering_on_the_gpu(cuda):
    A = triangulated(90, 70)
    on_host = order.nested_dissection(A)
    on_gpu = order.Ordering(device.to_device(on_host.perm), "nd", on_host.tree)
    B = with_edges(A, [0, 77], [130, 6000])
    assert order.update(on_gpu, A) is on_gpu
    assert np.array_equal(order.update(on_gpu, B).perm, order.update(on_host, B).perm)


def test_refactored_after_an_update():
    A = grid(90, 90)
    B = with_edges(A, [4], [7000])
    o = order.update(order.nested_dissection(A), B)
    M = sp.csr_array(sp.diags_array(B.sum(axis=1) + 1.0) - B)
    x = ms.cholesky(M, o).solve(M @ np.ones(8100))
    assert np.abs(x - 1).max() < 1e-10
