"""The analysis of a complete L D L^T on the GPU: ordering and symbolic phase of rows and of pairs are those of the host."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from kernel_harness import Harness
from on_device import Sparse
from saddles import regular

import meshsolve as ms
from meshsolve import device
from meshsolve.factor.ldlt import planning
from meshsolve.factor.ldlt.planning import complete_plan
from meshsolve.factor.matching import symmetric_pairs
from meshsolve.factor.symbolic import location
from meshsolve.report import Report
from meshsolve.sparse.matrix import as_symmetric
from meshsolve.sparse.places import CUDA, HOST

ZOO = regular() | {"kkt": ms.datasets.kkt(350, 150, seed=2)}


def helmholtz(nx, ny):
    """From 5000 rows on there is a nested dissection."""
    return sp.csr_array(ms.datasets.grid2d(nx, ny) - 0.713 * sp.eye_array(nx * ny))


def same_analysis(a, b):
    for part in ("perm", "parent", "colcount", "supernodes"):
        assert np.array_equal(getattr(a, part), getattr(b, part)), part
    assert all(np.array_equal(np.asarray(getattr(a.native, part)), np.asarray(getattr(b.native, part))) for part in ("row_ptr", "rows"))


@pytest.mark.parametrize("name", ZOO)
@each("ordering", ["nd", "amd", "rcm"])
def test_the_analysis_is_that_of_the_host(gpu, name, ordering):
    M = as_symmetric(ZOO[name])
    pairs = symmetric_pairs(M)
    here, there = (complete_plan(M, pairs, ordering, Report(), 1, place=place) for place in (HOST, CUDA))
    same_analysis(here.symbolic, there.symbolic)
    assert there.is_of_rows == here.is_of_rows and there.likely_flops == here.likely_flops
    assert isinstance(there.symbolic.ordering.perm, np.ndarray)


def test_both_rows_and_pairs_were_analyzed():
    kinds = set()
    for A in ZOO.values():
        M = as_symmetric(A)
        kinds.add(complete_plan(M, symmetric_pairs(M), "nd", Report(), 1).is_of_rows)
    assert kinds == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("given", [sp.csr_array, Sparse], ids=["host", "gpu"])
def test_a_large_matrix_is_dissected_and_analyzed_on_the_gpu(gpu, given):
    A = helmholtz(74, 70)
    G = ms.ildl(given(A), fill_level=None, device="cuda")
    facts, b = G.report.facts, np.ones((A.shape[0], 2))
    assert (facts["analysis_device"], facts["analysis_reason"], facts["ordering"]) == ("cuda", "at least 0 rows", "nd")
    ordering = G._core.plan.ordering
    assert ordering.num_patches > 0
    K = ms.ildl(A, fill_level=None, ordering=ordering, device="cpu")
    assert K.report.facts["analysis_device"] == "cpu" and "analysis_reason" not in K.report.facts
    same_analysis(K._core.plan.symbolic, G._core.plan.symbolic)
    assert G.inertia == K.inertia and np.allclose(G.solve(b), K.solve(b), rtol=1e-8, atol=1e-8)
    copy = pickle.loads(pickle.dumps(G))
    assert np.array_equal(copy.solve(b), G.solve(b))


@pytest.mark.parametrize("A", [ZOO["kkt"], ms.datasets.stokes(12)], ids=["kkt", "stokes"])
def test_rows_are_analyzed_on_the_gpu_during_the_matching(gpu, monkeypatch, A):
    serial = ms.ildl(A, fill_level=None, threads=1, device="cuda")
    monkeypatch.setattr(planning, "LARGE", 0)
    parallel = ms.ildl(A, fill_level=None, threads=3, device="cuda")
    assert np.array_equal(serial.perm, parallel.perm) and np.array_equal(serial.L.data, parallel.L.data)


def test_no_kernel_orders_or_analyzes_a_matrix_below_the_limit(gpu, monkeypatch):
    A = helmholtz(74, 70)
    monkeypatch.setattr(location, "ON_HOST_BELOW", A.shape[0] + 1)
    G = ms.ildl(A, fill_level=None, device="cuda")
    assert G.report.facts["analysis_device"] == "cpu" and G.report.facts["analysis_reason"] == "fewer than 5,181 rows"
    if isinstance(device.backend(), Harness):
        assert not {"k_dissect", "k_etree", "k_paths"} & device.backend().launches.keys()
