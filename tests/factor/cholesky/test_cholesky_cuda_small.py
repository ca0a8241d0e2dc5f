"""Matrices of few rows that are factored on the GPU: the host orders and analyzes them, and the arrays are uploaded once."""

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness.strict import Strict
from on_device import Sparse, to_cuda, to_numpy
from zoo import grid, spd

import meshsolve as ms
from meshsolve import device
from meshsolve.factor.symbolic import location

A = spd(grid(30, 25))
b = np.random.default_rng(0).standard_normal((A.shape[0], 3))


@pytest.fixture
def harness(monkeypatch):
    monkeypatch.setattr(location, "ON_HOST_BELOW", A.shape[0] + 1)
    with device.use(Strict()) as harness:
        yield harness


@pytest.mark.parametrize("given", [sp.csr_array, Sparse], ids=["host", "gpu"])
@pytest.mark.parametrize("options", [{}, {"fixed": [3, 70]}, {"ordering": "rcm"}, {"precision": "mixed"}, {"mesh": grid(30, 25)}], ids=str)
def test_solutions_are_those_of_the_host(harness, given, options):
    F = ms.cholesky(given(A), device="cuda", **options)
    expected = ms.cholesky(A, device="cpu", **options)
    assert F.report.facts["analysis_device"] == "cpu" and F.report.facts["device"] == "cuda"
    assert F.report.facts["analysis_reason"] == "fewer than 751 rows" and "analysis_reason" not in expected.report.facts
    assert np.allclose(to_numpy(F.solve(to_cuda(b))), expected.solve(b), rtol=1e-9, atol=1e-12)
    F.refactor(given(3 * A))
    assert np.allclose(to_numpy(F.solve(to_cuda(b))), expected.refactor(3 * A).solve(b), rtol=1e-9, atol=1e-12)


def test_no_kernel_orders_or_analyzes(harness):
    S = Sparse(A)
    with harness.counted() as counts:
        sym = ms.analyze(S, device="cuda")
    assert sym.report.facts["analysis_device"] == "cpu" and sym.ordering.method == "nd"
    assert counts["uploads"] <= 20 and "k_dissect" not in harness.launches
    assert device.holds(sym.ordering.perm)                  # where the matrix lies
    with harness.counted() as counts:
        F = sym.factor(S, device="cuda")
    assert counts["uploads"] == 0
    assert np.allclose(to_numpy(F.solve(to_cuda(b))), ms.cholesky(A, device="cpu").solve(b))


def test_larger_matrices_are_analyzed_on_the_gpu(harness, monkeypatch):
    monkeypatch.setattr(location, "ON_HOST_BELOW", A.shape[0])
    assert ms.analyze(Sparse(A), device="cuda").report.facts["analysis_device"] == "cuda"
    assert ms.analyze(A, device="cpu").report.facts["analysis_device"] == "cpu"
