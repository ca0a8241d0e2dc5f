"""Every installed peer solves a small system correctly, and failures of peers are reported."""

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import problems, worker
from benchmarks.peers import ORDERINGS, SOLVERS, Unavailable
from benchmarks.peers.base import triangle


def spd(n=100, seed=0):
    """A random symmetric matrix, diagonally dominant, both triangles stored."""
    half = sp.random_array((n, n), density=0.05, rng=np.random.default_rng(seed), format="csr")
    A = sp.csr_array(half + half.T)
    A = sp.csr_array(A + sp.diags_array(abs(A).sum(1) + 1.0))
    A.sort_indices()
    return A


@pytest.fixture
def system(tmp_path):
    A = spd()
    A2 = A.copy()
    A2.data *= np.where(A.indices == np.repeat(np.arange(100), np.diff(A.indptr)), 3.0, 1.0)
    path = tmp_path / "system.npz"
    problems.System(A, A2, np.random.default_rng(1).standard_normal((100, 3))).save(path)
    np.save(tmp_path / "perm.npy", np.random.default_rng(2).permutation(100).astype(np.int32))
    return path


@pytest.mark.parametrize("name", SOLVERS)
def test_solver_solves_and_refactors(name, system):
    perm = system.with_name("perm.npy") if name.endswith("-given") else None
    try:
        result = worker.run(name, system, perm, again=1)
    except Unavailable as e:
        pytest.skip(str(e))
    assert result["error"] < 1e-15 and result["error_again"] < 1e-15
    assert result["first"]["wall"].keys() >= {"solve"} and result["again"][0]["cpu"].keys() == {"refactor", "solve"}
    assert result["peak"] >= 0


@pytest.mark.parametrize("name", ["pardiso-given", "cholmod-given"])
def test_given_permutation_is_used(name):
    """The fill of an arrow matrix: 2n - 1 entries with the dense row last, n(n + 1)/2 with the dense row first."""
    n = 60
    A = sp.lil_array((n, n))
    A[0, :], A[:, 0] = 1.0, 1.0
    A.setdiag(float(n))
    A, counted = sp.csr_array(A), []
    for perm in (np.arange(n)[::-1], np.arange(n)):
        try:
            peer = SOLVERS[name](perm.astype(np.int32))
        except Unavailable as e:
            pytest.skip(str(e))
        M = peer.matrix(A)
        peer.analyze(M)
        peer.factor(M)
        counted.append(peer.facts()["nnz_L"])
        peer.close()
    assert counted[0] < n * (n + 1) // 2 <= counted[1]               # PARDISO also counts padding


@pytest.mark.parametrize("name", ORDERINGS)
def test_ordering_returns_a_permutation(name):
    try:
        peer = ORDERINGS[name]()
    except Unavailable as e:
        pytest.skip(str(e))
    A = spd(300)
    xadj, adjncy = peer.graph(A)
    rows = np.repeat(np.arange(300), np.diff(xadj))
    assert (adjncy != rows).all() and len(adjncy) == A.nnz - 300
    assert sorted(peer.perm(peer.run((xadj, adjncy)))) == list(range(300))


def test_worker_reports_a_crash(system):
    system.write_bytes(b"no archive")
    name = next((name for name in SOLVERS if _installed(name)), None)
    if name is None:
        pytest.skip("no solver is installed")
    assert "failed" in worker.measure(name, system)


def _installed(name):
    try:
        SOLVERS[name]()
    except Unavailable:
        return False
    return True


def test_backward_error_sees_a_wrong_column():
    A, X = spd(), np.ones((100, 2))
    B = A @ X
    assert worker.backward_error(A, X, B) < 1e-15
    B[7, 1] += 1e-3
    assert worker.backward_error(A, X, B) > 1e-8


def test_triangle_keeps_one_half_with_sorted_rows():
    A = spd()
    for upper, reference in ((True, sp.triu(A)), (False, sp.tril(A))):
        T = triangle(A, upper)
        assert T.indices.dtype == np.int32 and T.has_sorted_indices
        assert (T.toarray() == reference.toarray()).all()
