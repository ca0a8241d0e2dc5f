"""The analysis of a Cholesky factor on the GPU: assembly tree, memory, and reuse."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from cuda_cases import ZOO, close
from on_device import Sparse, to_numpy
from zoo import grid, spd

import meshsolve as ms
from meshsolve import _core, device
from meshsolve.factor.fronts import cuda as fronts
from meshsolve.factor.fronts import tree_cuda
from meshsolve.factor.symbolic.tours import Forest


@pytest.mark.parametrize("name", [*ZOO, "mesh"])
def test_the_tree_is_that_of_the_host(gpu, name):
    from meshsolve.factor.fronts import assembly_tree

    A = spd(grid(40, 37)) if name == "mesh" else ZOO[name]
    sym = ms.analyze(A, ordering="nd", device="cpu")
    tree, host = fronts.DeviceTree.build(sym), assembly_tree(sym, 1)
    for part in ("entry_ptr", "entry_source", "entry_row"):
        found, expected = to_numpy(getattr(tree, part)), np.asarray(getattr(host, part))
        assert np.array_equal(found, expected), part
    inside = np.repeat(sym.native.snode_parent >= 0, np.diff(sym.native.row_ptr))
    assert np.array_equal(to_numpy(tree.relative)[inside], np.asarray(host.relative)[inside])
    edges = int(host.child_ptr[-1])
    table = dict(zip(tree_cuda.COLUMNS, to_numpy(tree.table).T))
    assert np.array_equal(to_numpy(tree.child)[:edges], host.child) and np.array_equal(table["child_end"], host.child_ptr[1:])
    pivots = np.diff(sym.supernodes)
    panels = np.cumsum([w * _core.leading_dimension(int(w + u)) for w, u in zip(pivots, np.diff(sym.native.row_ptr))])
    assert np.array_equal(table["panel"], [0, *panels[:-1]]) and tree.panel_scalars == panels[-1]


def test_two_depths_never_share_memory(gpu):
    native = ms.analyze(spd(grid(40, 37)), ordering="nd", device="cpu").native
    parent = native.snode_parent
    forest = Forest.of(device.to_device(np.array(parent)))
    depth, child, ptr = map(to_numpy, (forest.depth, forest.child, forest.child_ptr))
    assert all(depth[s] == (0 if p < 0 else depth[p] + 1) for s, p in enumerate(parent)) and forest.levels == depth.max() + 1
    assert all(np.array_equal(child[ptr[p]:ptr[p + 1]], np.flatnonzero(parent == p)) for p in range(len(parent)))
    assert forest.most_children == np.diff(ptr).max()
    rows = np.diff(native.row_ptr)
    offset, most = map(to_numpy, tree_cuda.offsets(device.to_device(np.stack([rows * rows, rows])), forest))
    for size, begin, total in zip((rows * rows, rows), offset, most.sum(1)):
        for d in range(depth.max() + 1):
            near = np.flatnonzero((depth == d) | (depth == d + 1))
            near = near[np.argsort(begin[near], kind="stable")]
            near = near[size[near] > 0]
            assert (begin[near][1:] >= begin[near][:-1] + size[near][:-1]).all()
        assert (begin + size).max() <= total


def test_an_analysis_on_the_device_is_used_again_anywhere(gpu):
    A = spd(grid(13, 12))
    sym = ms.analyze(Sparse(A), device="cuda")
    host = ms.analyze(A, ordering=to_numpy(sym.ordering.perm), device="cpu")
    assert (sym.nnz, sym.flops, sym.nbytes) == (host.nnz, host.flops, host.nbytes) and np.array_equal(sym.perm, host.perm)
    again = pickle.loads(pickle.dumps(ms.analyze(A, device="cuda")))
    for symbolic in (sym, again):
        for place in ("cpu", "cuda"):
            close(symbolic.factor(A, device=place).solve(np.ones(156)), host.factor(A).solve(np.ones(156)), 1e-12)
    upper = sp.triu(A, format="csr")
    natural = [ms.analyze(given, "natural", device=place).nnz for given, place in ((Sparse(upper), "cuda"), (upper, "cuda"), (upper, "cpu"))]
    assert len(set(natural)) == 1


def test_the_analysis_of_the_host_is_uploaded_once(gpu):
    """Factors of one analysis share the uploaded pattern and analysis."""
    A = spd(grid(12, 11))
    sym = ms.analyze(A, device="cpu")
    first, second = sym.factor(A, device="cuda"), sym.factor(2 * A, device="cuda")
    assert first._factor._pattern is second._factor._pattern is first._values.pattern is sym.pattern_on_device
    again = pickle.loads(pickle.dumps(sym))
    assert np.array_equal(again.perm, sym.perm) and "pattern_on_device" not in vars(again._analysis)
    close(again.factor(A, device="cuda").solve(np.ones(132)), first.solve(np.ones(132)), 1e-14)
