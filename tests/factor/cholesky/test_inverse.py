"""Selected inversion: against dense inverses and pseudoinverses, with constraints, in every precision, on any number of threads."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import meshsolve as ms
from tests.zoo import random_spd, zoo

pytestmark = pytest.mark.native
ZOO = zoo()


def check(F, A, expected, tolerance=1e-12, pattern=None):
    """Compare the diagonal, and the entries on the pattern of A, with a dense array."""
    scale = abs(expected).max()
    assert abs(F.inverse_diagonal() - np.diag(expected)).max() <= tolerance * scale
    Z = F.selected_inverse()
    assert isinstance(Z, sp.csr_array) and Z.shape == A.shape and abs(Z - Z.T).max() == 0
    on = (A.toarray() != 0) if pattern is None else pattern
    stored = sp.csr_array((np.ones(Z.nnz), Z.indices, Z.indptr), shape=Z.shape).toarray()
    assert stored.max(initial=0) <= 1 and np.array_equal(stored > 0, on)
    assert abs(Z.toarray() - np.where(on, expected, 0)).max() <= tolerance * scale


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("threads", [1, 2])
def test_entries_of_the_dense_inverse(name, threads):
    A = ZOO[name]
    check(ms.cholesky(A, threads=threads), A, np.linalg.inv(A.toarray()))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 90), st.floats(0.0, 0.3), st.integers(0, 10**6), st.sampled_from(["nd", "amd", "natural", "random"]))
def test_any_pattern_and_ordering(n, density, seed, ordering):
    A = random_spd(n, density, seed)
    check(ms.cholesky(A, ordering=ordering), A, np.linalg.inv(A.toarray()))


def test_wide_fronts_are_inverted_step_by_step():
    n = 700                                                     # one front of six steps, and one below dense rows
    rng = np.random.default_rng(0)
    M = rng.standard_normal((n, n))
    A = sp.csr_array(M @ M.T + n * np.eye(n))
    for threads in (1, 2):
        check(ms.cholesky(A, threads=threads), A, np.linalg.inv(A.toarray()))


def test_bits_do_not_depend_on_threads():
    A = sp.csr_array(ms.datasets.grid3d(24) + sp.eye_array(24**3))
    F = ms.cholesky(A, threads=1)
    diagonal, Z = F.inverse_diagonal(), F.selected_inverse()
    assert np.array_equal(Z.diagonal(), diagonal)
    for threads in (2, 3, 5):
        G = ms.cholesky(A, threads=threads)
        assert np.array_equal(G.inverse_diagonal(), diagonal) and np.array_equal(G.selected_inverse().data, Z.data)


def test_a_large_factor_against_single_solves():
    mesh = ms.datasets.icosphere(6)
    A = sp.csr_array(ms.cotan_laplacian(mesh) + 0.1 * ms.mass_matrix(mesh))
    F = ms.cholesky(A)
    picked = np.array([0, 17, 5000, A.shape[0] - 1])
    E = np.zeros((A.shape[0], len(picked)))
    E[picked, np.arange(len(picked))] = 1
    X, Z = F.solve(E), F.selected_inverse()
    for k, j in enumerate(picked):
        rows = Z.indices[Z.indptr[j]:Z.indptr[j + 1]]
        assert len(rows) == A.indptr[j + 1] - A.indptr[j]
        np.testing.assert_allclose(Z.data[Z.indptr[j]:Z.indptr[j + 1]], X[rows, k], rtol=1e-11)


def test_refactor_and_pickle_are_followed():
    import pickle

    A = ZOO["grid"]
    F = ms.cholesky(A)
    before = F.inverse_diagonal()
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(-A)
    assert np.array_equal(F.inverse_diagonal(), before)
    assert np.array_equal(pickle.loads(pickle.dumps(F)).inverse_diagonal(), before)
    assert np.array_equal(F.refactor(4 * A).inverse_diagonal(), before / 4)


def test_the_lower_triangle_is_enough():
    A = ZOO["random"]
    F = ms.cholesky(sp.csr_array(sp.tril(A)), lower=True)
    check(F, A, np.linalg.inv(A.toarray()))


@pytest.mark.parametrize("precision", ["single", "mixed"])
def test_float32_factors(precision):
    A = ZOO["grid"]
    check(ms.cholesky(A, precision=precision), A, np.linalg.inv(A.toarray()), tolerance=1e-6)


# ---- constraints ----------------------------------------------------------------------------------------------------------

def test_fixed_rows_and_columns_are_zero():
    A = ZOO["dense row"]
    fixed = np.array([7, 0, 100])
    free = np.setdiff1d(np.arange(A.shape[0]), fixed)
    expected, on = np.zeros(A.shape), A.toarray() != 0
    expected[np.ix_(free, free)] = np.linalg.inv(A.toarray()[np.ix_(free, free)])
    on[fixed], on[:, fixed] = False, False
    F = ms.cholesky(A, fixed=fixed)
    check(F, A, expected, pattern=on)
    b = np.random.default_rng(0).standard_normal(A.shape[0])
    assert np.allclose(expected @ b, F.solve(b))                # the inverse of the operator


def laplacians():
    grid = ms.graph_laplacian(ms.datasets.grid2d(7, 6))
    path = ms.graph_laplacian(sp.diags_array([np.ones(8), np.ones(8)], offsets=[1, -1], shape=(9, 9)))
    alone = sp.csr_array((1, 1))
    scrambled = sp.csr_array(sp.block_diag([grid, alone, path, alone]))
    perm = np.random.default_rng(3).permutation(scrambled.shape[0])
    return {"grid": grid, "path": path, "components": sp.csr_array(scrambled[perm][:, perm]), "mesh": ms.cotan_laplacian(ms.datasets.icosphere(2))}


@pytest.mark.parametrize("name", laplacians())
def test_pinned_laplacians_have_their_pseudoinverse(name):
    L = sp.csr_array(laplacians()[name])
    dense = np.linalg.pinv(L.toarray(), hermitian=True)
    F = ms.cholesky(L, pin=True)
    np.testing.assert_allclose(F.inverse_diagonal(), np.diag(dense), atol=1e-12)
    Z = F.selected_inverse()
    i, j = L.nonzero()
    np.testing.assert_allclose(Z[i, j], dense[i, j], atol=1e-12)
    extra = Z.toarray() * (L.toarray() == 0)
    assert abs(extra).max() <= 1e-12                            # isolated vertices have no entry in L


def test_stored_zeros_between_components():
    L = sp.coo_array(sp.block_diag([ms.graph_laplacian(ms.datasets.grid2d(3, 3)), ms.graph_laplacian(ms.datasets.grid2d(2, 2))]))
    data = np.concatenate([L.data, [0.0, 0.0]])
    L = sp.csr_array(sp.coo_array((data, (np.append(L.row, [3, 11]), np.append(L.col, [11, 3]))), shape=L.shape))
    assert ms.cholesky(L, pin=True).selected_inverse()[3, 11] == 0


def test_effective_resistances_follow_fosters_theorem():
    L = ms.datasets.road_like(3000)
    Z, upper = ms.cholesky(L, pin=True).selected_inverse(), sp.triu(L, 1).tocoo()
    d, i, j = Z.diagonal(), upper.row, upper.col
    share = -upper.data * (d[i] + d[j] - 2 * Z[i, j])           # weight x resistance
    assert share.sum() == pytest.approx(L.shape[0] - 1, rel=1e-10)
    assert share.min() > 0 and share.max() <= 1 + 1e-10


def test_isolated_vertices_alone():
    F = ms.cholesky(sp.csr_array((4, 4)), pin=True)
    assert not F.inverse_diagonal().any() and F.selected_inverse().nnz == 0 and F.selected_inverse().shape == (4, 4)


def test_memory_is_checked_first(monkeypatch):
    A = sp.csr_array(ms.datasets.grid3d(40) + sp.eye_array(64_000))
    F = ms.cholesky(A)
    monkeypatch.setattr("meshsolve.memory.available_memory", lambda: 2**20)
    for call in (F.inverse_diagonal, F.selected_inverse):
        with pytest.raises(ms.OutOfMemoryError, match="selected inversion"):
            call()


@pytest.mark.slow
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer keeps what is freed")
@pytest.mark.skipif(not pathlib.Path("/proc/self/clear_refs").exists(), reason="reads the peak from Linux")
@pytest.mark.parametrize("threads", [1, 2])
def test_the_memory_estimate_is_an_upper_bound(threads):
    code = f"""
import scipy.sparse as sp, meshsolve as ms
from meshsolve.factor.cholesky import host
def peak(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))
F, asked = ms.cholesky(sp.csr_array(ms.datasets.grid3d(34) + sp.eye_array(34**3)), threads={threads}), []
host.ensure_memory = lambda needed, what: asked.append(needed)
open("/proc/self/clear_refs", "w").write("5")
before = peak("VmRSS")
F.inverse_diagonal()
print(peak("VmHWM") - before, asked[0])
"""
    took, asked = map(int, subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    assert took <= asked < 2 * took + 2**25
