"""The CUDA path of the symbolic factorization gives the integers of the C++ core."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import Harness
from zoo import grid, spd, zoo

import meshsolve as ms
from meshsolve import _core, device
from meshsolve.factor import symbolic
from meshsolve.factor.symbolic import cuda
from meshsolve.sparse.matrix import as_symmetric, symmetric_pattern

ZOO = zoo()


def same(found, expected):
    found = np.asarray(device.to_host(found))
    assert found.dtype == expected.dtype and np.array_equal(found, expected)


def check(A, perm):
    """Compare all arrays and sizes with those of the host."""
    P, perm = symmetric_pattern(A), np.ascontiguousarray(perm, np.int32)
    expected = _core.analyze(P.indptr, P.indices, perm)
    found, sizes = cuda.analyze(*map(device.to_device, (P.indptr, P.indices, perm)))
    for name in cuda.DeviceAnalysis._fields:
        same(getattr(found, name), getattr(expected, name))
    assert sizes == (expected.nnz, expected.flops, expected.nbytes)


@pytest.mark.parametrize("name", ZOO)
@each("ordering", ["natural", "nd", "amd", "random"])
def test_every_shape(gpu, name, ordering):
    check(ZOO[name], ms.analyze(ZOO[name], ordering=ordering).ordering.perm)


def test_a_mesh_in_a_nested_dissection(gpu):
    A = spd(grid(47, 43))
    check(A, ms.analyze(A, ordering="nd").ordering.perm)


@settings(max_examples=25)
@given(n=st.integers(1, 90), density=st.floats(0, 0.2), seed=st.integers(0, 10**6))
def test_random_patterns(n, density, seed):
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, n), density=density, rng=rng)
    with device.use(Harness()):
        check(A + A.T, rng.permutation(n))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_order_of_threads(seed):
    A = spd(grid(13, 17))
    with device.use(Harness(resident=4, seed=seed, block=64)):
        check(A, np.random.default_rng(seed).permutation(221))


@pytest.mark.sanitize
def test_every_kernel_on_something_small():
    """A small matrix, because ThreadSanitizer is slow for each thread of each block."""
    A = spd(grid(9, 8))
    with device.use(Harness(seed=1, block=32)) as harness:
        check(A, np.random.default_rng(0).permutation(72))
    assert {"k_begin", "k_etree", "k_tour", "k_walk", "k_walks", "k_spread", "k_postorder", "k_maxima", "k_leaves", "k_counts",
            "k_supernodes", "k_join", "k_renumber", "k_blocks", "k_paths", "k_rows"} == harness.launches.keys()


def test_the_analysis_of_the_device_is_that_of_the_host(gpu):
    M = as_symmetric(spd(grid(20, 15)))
    perm = ms.analyze(M.to_scipy(), ordering="nd").ordering.perm
    on_host, on_gpu = symbolic.Symbolic.build(M, perm), symbolic.Symbolic.build(M, perm, place="cuda")
    assert on_host.nnz == on_gpu.nnz and on_host.flops == on_gpu.flops and np.array_equal(on_host.supernodes, on_gpu.supernodes)
    assert all(np.array_equal(a, b) for a, b in zip(on_host.pattern(), on_gpu.pattern()))
