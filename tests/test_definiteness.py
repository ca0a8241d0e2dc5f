"""How ``solve`` and ``factorized`` detect that a symmetric matrix is not positive definite, and the cost."""

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve import _core, memory
from meshsolve.api.definite import analyzed, is_surely_indefinite
from meshsolve.factor.cholesky import CholeskyFactor
from meshsolve.factor.cholesky.values import System
from meshsolve.factor.ildl import ildl
from meshsolve.sparse.matrix import as_symmetric

GRID = sp.csr_array(ms.datasets.grid2d(12, 9))
N = GRID.shape[0]


def late(n=N):
    """Positive sum and diagonal, but the last pivot is negative."""
    A = sp.lil_array(GRID + sp.eye_array(n))
    A[0, n - 1] = A[n - 1, 0] = 40.0
    return sp.csr_array(A)


SEEN = {"a zero": sp.csr_array(sp.block_array([[GRID, sp.csr_array(np.ones((N, 1)))], [sp.csr_array(np.ones((1, N))), None]])),
        "a negative entry": sp.csr_array(GRID + sp.diags_array(np.where(np.arange(N) == 5, -9.0, 1.0))),
        "the sum": sp.csr_array(GRID - 0.1 * sp.eye_array(N)),
        "negative definite": sp.csr_array(-GRID - sp.eye_array(N))}
UNSEEN = {"definite": sp.csr_array(GRID + sp.eye_array(N)), "a Laplacian": GRID, "a small Laplacian": sp.csr_array(1e-12 * GRID),
          "an empty row": sp.csr_array(sp.block_diag([GRID + sp.eye_array(N), sp.csr_array((1, 1))])), "late": late(),
          "large": sp.csr_array(1e305 * (GRID + sp.eye_array(N)))}


@pytest.mark.parametrize("name", [*SEEN, *UNSEEN])
def test_definiteness_from_diagonal_and_sum(name):
    A = (SEEN | UNSEEN)[name]
    M = as_symmetric(A)
    assert is_surely_indefinite(M, *M.row_sums()) == (name in SEEN)
    if name in SEEN:
        assert np.linalg.eigvalsh(A.toarray()).min() < 0


@pytest.mark.parametrize("name", SEEN)
def test_matrices_seen_to_be_indefinite_are_not_factored(monkeypatch, name):
    def refuse(*args, **options):
        raise AssertionError("a Cholesky factorization was tried")

    monkeypatch.setattr(CholeskyFactor, "__init__", refuse)
    A = SEEN[name]
    b = A @ np.arange(1.0, A.shape[0] + 1)
    x, info = ms.solve(A, b)
    F = ms.factorized(A)
    assert info.method == "ildl" and info.converged and F.report.facts["method"] == "ldl"
    assert np.allclose(A @ x, b) and np.allclose(A @ F(b), b)


@pytest.mark.parametrize("threads", [1, 3])
def test_ldl_reuses_the_analysis_of_cholesky(monkeypatch, threads):
    """The matrix is ordered and analyzed once, and the factor uses that ordering."""
    A = late()
    b = A @ np.arange(1.0, N + 1)
    alone = ms.ildl(A, fill_level=None, threads=threads)
    counts = {"minimum_degree": 0, "analyze": 0}

    def counting(name, real):
        def call(*args, **options):
            counts[name] += 1
            return real(*args, **options)
        return call

    monkeypatch.setattr(_core, "amd", counting("minimum_degree", _core.amd))
    monkeypatch.setattr(_core, "analyze", counting("analyze", _core.analyze))
    F = ms.factorized(A, threads=threads)
    assert F.report.facts["method"] == "ldl" and counts == {"minimum_degree": 1, "analyze": 1}
    assert F.inertia == (N - 1, 1, 0) and np.array_equal(F.perm, alone.perm) and np.array_equal(F.L.data, alone.L.data)
    assert set(F.report.seconds) >= {"matching", "order", "symbolic", "numeric"}
    x, info = ms.solve(A, b, threads=threads)
    assert info.method == "ildl" and info.converged and counts == {"minimum_degree": 2, "analyze": 2}
    assert np.allclose(A @ x, b) and np.allclose(A @ F(b), b)


def test_the_time_of_an_analysis_is_reported_once():
    """Escalation shares the analysis between the incomplete and the complete factor, whose time was counted twice."""
    M = as_symmetric(late())
    sym = analyzed(System(M), "auto", 0, 1)
    spent = sym.report.seconds["order"]
    first, skipped, last = (ildl(M, symbolic=sym, fill_level=level) for level in ("auto", 4, None))
    assert first.report.seconds["order"] == spent and "order" not in last.report.seconds and last.is_complete
    assert not skipped.report.facts["flops"] and np.array_equal(first.L.data, last.L.data)


def test_indefinite_matrices_beyond_memory_are_refused(monkeypatch):
    """Refused by the number of rows, before any computation."""
    A = sp.diags_array(np.where(np.arange(400_000) % 2, 1.0, -1.0)).tocsr()
    monkeypatch.setattr(memory, "available_memory", lambda: 100 * A.shape[0])
    for method in ("auto", "ildl"):
        with pytest.raises(ms.OutOfMemoryError):
            ms.solve(A, np.ones(A.shape[0]), method=method)
