"""The schedule of fronts on several threads: each front once on any tree, and results bit for bit as on one thread."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from zoo import backward_error, grid, spd

import meshsolve as ms
from meshsolve.factor.fronts import assembly_tree


def tree_of_blocks(seed, sizes=(1, 3, 10, 40, 150), depth=3):
    """A postordered symmetric positive definite matrix of dense blocks, each joined to some rows of its parent block.

    Unlike in a mesh, siblings are light and heavy fronts of any depth."""
    rng = np.random.default_rng(seed)
    block, parent = [], []

    def grow(level):
        children = [grow(level - 1) for _ in range(rng.integers(2, 7))] if level > 0 and rng.random() < 0.8 else []
        block.append(int(rng.choice(sizes)))
        parent.append(-1)
        for child in children:
            parent[child] = len(block) - 1
        return len(block) - 1

    grow(depth)
    begin = np.append(0, np.cumsum(block))
    pattern = sp.lil_array((begin[-1], begin[-1]))
    for k, up in enumerate(parent):
        own = slice(begin[k], begin[k + 1])
        pattern[own, own] = 1
        if up >= 0:
            for row in begin[up] + rng.choice(block[up], min(block[up], int(rng.integers(1, 30))), replace=False):
                pattern[own, [row]] = 1
    return spd(sp.triu(pattern.tocsr()), seed)


def check_schedule(A, threads, use):
    """Tasks are consecutive and exclude the fronts that all threads share. A front in no subtree is a task of its own."""
    sym = ms.analyze(A, ordering="natural", device="cpu")
    tasks, top, last = assembly_tree(sym, 1).tasks(threads, use)
    fronts = [s for begin, end in tasks for s in range(begin, end)]
    assert sorted([*fronts, *last]) == list(range(len(fronts) + len(last))) and np.all(np.diff(fronts) > 0)
    assert set(last) <= set(top) and np.all(np.diff(top) > 0)
    own = {begin for begin, end in tasks if end == begin + 1}
    assert set(top) <= own | set(last) and (use == "factor" or len(last) == 0)


@pytest.mark.slow
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 8, 16]), st.sampled_from(["factor", "solve", "solve small subtrees"]))
def test_each_front_is_in_one_task(seed, threads, use):
    check_schedule(tree_of_blocks(seed), threads, use)


def between_light_ones(leaf, light):
    """A heavy leaf among light subtrees, twice."""
    return sp.csr_array(sp.block_diag([light, leaf, light, sp.block_diag([leaf, leaf[:-100, :-100]]), light]))


def test_a_heavy_leaf_between_light_subtrees():
    check_schedule(between_light_ones(spd(sp.csr_array(np.ones((300, 300)))), spd(grid(9, 9))), 2, "factor")


FACTORS = {
    "cholesky": lambda A, threads: ms.cholesky(A, ordering="natural", threads=threads),
    "ildl": lambda A, threads: ms.ildl(A, fill_level=None, ordering="natural", threads=threads),
    "lu": lambda A, threads: ms.lu(A, ordering="natural", threads=threads),
}


@pytest.mark.slow
@pytest.mark.native
@pytest.mark.parametrize("kind", FACTORS)
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), threads=st.sampled_from([2, 4, 16]))
def test_solutions_do_not_depend_on_threads(kind, seed, threads):
    """A front solved twice would subtract its rows twice."""
    A = tree_of_blocks(seed)
    b = np.random.default_rng(seed).standard_normal((A.shape[0], 4))
    one, many = FACTORS[kind](A, 1), FACTORS[kind](A, threads)
    assert np.array_equal(one.solve(b), many.solve(b)) and backward_error(A, many.solve(b), b) < 1e-13


@pytest.mark.slow
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), threads=st.sampled_from([2, 4, 16]))
def test_inverses_do_not_depend_on_threads(seed, threads):
    A = tree_of_blocks(seed)
    one, many = FACTORS["cholesky"](A, 1), FACTORS["cholesky"](A, threads)
    assert np.array_equal(one.inverse_diagonal(), many.inverse_diagonal())
    assert abs(one.selected_inverse() - many.selected_inverse()).max() == 0


@pytest.mark.slow
@pytest.mark.parametrize("ordering", ["natural", "nd"])
def test_large_dense_blocks_among_meshes(ordering):
    """A front of more than a thousand columns is outside the small subtrees of a solve."""
    dense = spd(sp.csr_array(np.ones((1700, 1700))))
    A = between_light_ones(dense[:1500, :1500], spd(grid(30, 30)))
    b = np.random.default_rng(0).standard_normal((A.shape[0], 3))
    solutions = [ms.cholesky(A, ordering=ordering, threads=threads).solve(b) for threads in (1, 2, 4)]
    assert backward_error(A, solutions[0], b) < 1e-13
    assert all(np.array_equal(solutions[0], x) for x in solutions)
