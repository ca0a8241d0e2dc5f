"""Reports: printed phases in their order, facts without meaning left out, the same numbers in the dict."""

import concurrent.futures
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness.harness import Harness

import meshsolve as ms
from meshsolve import device
from meshsolve.report import Report, without_warnings

N = 64
A = ms.datasets.grid2d(8, 8, boundary="dirichlet")
L = ms.datasets.grid2d(8, 8)
U = sp.csr_array(A + sp.diags_array(np.full(N - 1, 0.3), offsets=1))
K = sp.csr_array(A - 2.5 * sp.eye_array(N))
LEAST = {"seconds", "nnz_A", "nnz_L", "flops", "bytes", "threads", "device", "ordering"}
FACTORS = {
    "cholesky": (lambda **k: ms.cholesky(A, **k), True), "lu": (lambda **k: ms.lu(U, **k), True), "ldl": (lambda **k: ms.ildl(K, None, **k), True),
    "incomplete": (lambda **k: ms.ildl(K, 1, **k), False), "parac": (lambda **k: ms.parac(L, **k), False),
    "parac in an order": (lambda **k: ms.parac(L, "amd", **k), False),
}


def lines(report):
    return {line.split()[0]: line for line in str(report).splitlines()}


@pytest.mark.parametrize("name", FACTORS)
def test_the_report_of_a_factor(name):
    make, counts_operations = FACTORS[name]
    F = make(threads=2)
    F.solve(np.zeros(N))
    printed, facts = lines(F.report), F.report.as_dict()
    assert facts.keys() >= LEAST
    assert ("flops" in printed) == counts_operations == (facts["flops"] > 0)
    assert {"nnz_A", "nnz_L", "bytes", "threads", "device", "ordering", "numeric", "solve"} <= printed.keys()
    assert printed["threads"].split()[1] == "2" and facts["threads"] == 2
    phases = [p for p in printed if p in F.report.seconds]
    assert phases == [p for p in ("matching", "order", "symbolic", "numeric", "solve") if p in F.report.seconds]
    assert not {"complete_nnz", "complete_flops"} & printed.keys()


@pytest.mark.parametrize("method, M", [("cholesky", A), ("lu", U), ("ildl", K), ("parac", L)])
def test_the_report_of_solve(method, M):
    b = np.arange(N) - (N - 1) / 2
    info = ms.solve(M, b, method=method)[1]
    printed = lines(info.report)
    assert printed["method"].split()[1] == info.method == info.report.facts["method"]
    assert ("flops" in printed) == (method != "parac") and info.report.seconds["solve"] > 0


def test_the_report_of_an_iteration_has_no_factor():
    report = ms.cg(L, np.arange(N) - (N - 1) / 2)[1].report
    assert lines(report).keys() == {"solve", "nnz_A", "threads", "device"} and "nnz_L" not in repr(report)
    assert report.as_dict().keys() >= LEAST


def test_the_time_of_an_iteration_is_that_of_all_its_work():
    """Not of the preconditioner alone."""
    M = sp.csr_array(ms.datasets.grid2d(60, 60, boundary="dirichlet") - 2.5 * sp.eye_array(3600))
    report = ms.solve(M, np.ones((3600, 4)), method="ildl")[1].report
    factor, taken = ms.ildl(M, None), []
    for _ in range(5):                                              # the shortest: other processes may delay a solve
        factor.report.seconds.pop("solve", None)
        factor.solve(np.ones((3600, 4)))
        taken.append(factor.report.seconds["solve"])
    assert report.seconds["solve"] > 1.5 * min(taken)


def test_a_factor_reports_its_own_threads_and_device():
    F = ms.analyze(A, threads=2).factor(A, threads=1)
    assert F.report.facts["threads"] == F.threads == 1
    with device.use(Harness()):
        for ordering in ("amd", "rounds"):
            assert ms.parac(L, ordering, device="cuda").report.facts["device"] == "cuda"


def test_units_suit_the_numbers():
    report = Report(bytes=2000, steps=2)
    report.add("solve", 1.23e-4)
    report.add("order", 2e-5)
    printed = lines(report)
    assert list(printed) == ["order", "solve", "bytes", "threads", "device", "steps"]
    assert "0.020 ms" in printed["order"] and "0.123 ms" in printed["solve"] and "0.062 ms a step" in printed["solve"] and "2.0 KiB" in printed["bytes"]
    report.add("numeric", 100)
    report.facts["bytes"] = 3 * 2**20
    printed = lines(report)
    assert list(printed)[:3] == ["order", "numeric", "solve"]
    assert "100.0000 s  50.0000 s a step" in printed["numeric"] and "0.0001 s" in printed["solve"] and "3.0 MiB" in printed["bytes"]


def test_warnings_are_suppressed_on_one_thread_alone():
    """ms.solve suppresses warnings of its methods without Python's filters, which belong to all threads."""
    b, before = np.arange(N) - 31.5, list(warnings.filters)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ms.solve(U, b, method="lu"), range(40)))
    assert warnings.filters == before
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with without_warnings(ms.ConvergenceWarning):
            ms.cg(A, b, maxiter=1)
            assert not caught
        ms.cg(A, b, maxiter=1)
    assert [w.category for w in caught] == [ms.ConvergenceWarning]


def test_phases_are_counted():
    A = ms.datasets.grid2d(9, 9, boundary="dirichlet")
    F = ms.cholesky(A)
    for _ in range(4):
        F.refactor(A)
    assert F.report.counts["numeric"] == 5 and F.report.counts.get("order", 1) == 1
    assert "5 times" in str(F.report) and "each" in str(F.report)
    assert pickle.loads(pickle.dumps(F.report)).counts == F.report.counts
    total = Report()
    total.merge(F.report)
    total.merge(F.report)
    assert total.counts["numeric"] == 10
