"""Incomplete LU: exact without dropping, on any rows and scales, and what it reports and refuses."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from factor.lu.lu_matrices import mesh, random_matrix

import meshsolve as ms


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_without_dropping_it_is_the_inverse(kind, trans):
    A = random_matrix(60, 0.1, seed=1, complex_values=kind is complex)        # its matching is not its diagonal
    K = ms.ilu(A, droptol=0, max_fill=60)
    b = np.random.default_rng(0).standard_normal((60, 3)).astype(kind)
    x = K.solve(b, trans)
    assert np.allclose({"N": A, "T": A.T, "H": A.conj().T}[trans] @ x, b) and x.dtype == np.dtype(kind)
    assert np.allclose(K.rmatvec(b[:, 0]), np.linalg.solve(A.conj().T.toarray(), b[:, 0]))
    assert np.allclose(K.rmatmat(b), np.linalg.solve(A.conj().T.toarray(), b)) and np.array_equal(K @ b, K.solve(b))


@pytest.mark.parametrize("ordering", ["auto", "nd", "rcm", "natural", "column_amd", "callable", "permutation"])
def test_orderings(ordering):
    A, seen = random_matrix(80, 0.05, seed=2), []
    perm = np.random.default_rng(0).permutation(80)

    def given(pattern):
        seen.append(pattern.shape)
        return perm

    K = ms.ilu(A, droptol=0, max_fill=80, ordering={"callable": given, "permutation": perm}.get(ordering, ordering))
    assert np.allclose(A @ K.solve(np.ones(80)), 1)
    assert np.array_equal(np.sort(K.row_perm), np.arange(80)) and np.array_equal(np.sort(K.col_perm), np.arange(80))
    if seen or ordering == "permutation":
        assert np.array_equal(K.col_perm, perm) and seen in ([], [(80, 80)])


def test_large_entries_come_to_the_diagonal():
    A = random_matrix(100, 0.05, seed=3)
    K = ms.ilu(A)
    B = (sp.diags_array(K.row_scale) @ A @ sp.diags_array(K.col_scale)).tocsr()[K.row_perm][:, K.col_perm]
    assert abs(B).max() <= 1 + 1e-12 and abs(B.diagonal()).min() >= 0.1 - 1e-12


def test_less_is_dropped_with_a_smaller_tolerance():
    A = mesh(25, 20)
    errors, sizes = [], []
    for droptol in (1e-1, 1e-3, 1e-6):
        K = ms.ilu(A, droptol, max_fill=30)
        errors.append(np.linalg.norm(A @ K.solve(np.ones(500)) - 1))
        sizes.append(K.nnz)
    assert errors[0] > 10 * errors[1] > 100 * errors[2] and sizes[0] < sizes[1] < sizes[2]
    assert ms.ilu(A, 1e-6, max_fill=2).nnz < sizes[2]
    facts = K.report.facts
    assert facts["nnz_L"] == K.nnz and facts["droptol"] == 1e-6 and facts["max_fill"] == 30 and facts["ordering"] and facts["nnz_A"] == A.nnz
    assert {"symbolic", "order", "numeric", "solve"} <= set(K.report.seconds)


def test_scales_do_not_matter():
    A, rng = mesh(12, 10), np.random.default_rng(4)
    D, E = (sp.diags_array(10.0 ** rng.uniform(-60, 60, 120)) for _ in range(2))
    K = ms.ilu(D @ A @ E, droptol=0, max_fill=60)
    assert np.allclose(E @ K.solve(D @ (A @ np.arange(1.0, 121))), np.arange(1.0, 121))


def test_fixed_rows_and_a_pin():
    A, fixed, b = mesh(9, 8), np.array([70, 3]), np.arange(72.0)
    K, F = ms.ilu(A, droptol=0, max_fill=72, fixed=fixed), ms.lu(A, fixed=fixed)
    for trans in "NT":
        assert np.allclose(K.solve(b, trans, fixed_values=[1.0, 2.0]), F.solve(b, trans, fixed_values=[1.0, 2.0]))
    assert np.allclose(K @ b, F @ b) and np.array_equal(np.sort(K.row_perm), F.free)
    L, b = ms.datasets.grid2d(9, 8), b - b.mean()
    x = ms.ilu(L, droptol=0, max_fill=72, pin=True) @ b
    assert np.allclose(L @ x, b) and abs(x.mean()) < 1e-12


def test_copies_have_the_same_bits():
    A = random_matrix(60, 0.1, seed=5)
    K = ms.ilu(A)
    b = np.ones(60)
    for other in (pickle.loads(pickle.dumps(K)), copy.copy(K), ms.ilu(A, threads=3)):
        assert np.array_equal(other.solve(b), K.solve(b)) and other.nnz == K.nnz
    assert repr(K).startswith(f"IluFactor(n=60, nnz={K.nnz}, dtype=float64, ordering=")


def test_singular_matrices():
    with pytest.raises(ms.SingularMatrixError, match="row 1 has no nonzero") as error:
        ms.ilu([[1.0, 2, 0], [0, 0, 0], [0, 1, 1]])
    assert error.value.index == 1
    with pytest.raises(ms.SingularMatrixError, match="zero pivot with droptol=0.001. Pass a smaller droptol") as error:
        ms.ilu(np.ones((2, 2)))
    assert error.value.index == -1
    with pytest.raises(ms.SingularMatrixError, match="column 1") as error:
        ms.ilu([[1.0, 0, 2], [2, 0, 1], [0, 3, 0]], fixed=[2])                   # in the numbering of A
    assert error.value.index == 1


def test_memory_is_checked_before(monkeypatch):
    from meshsolve import memory
    monkeypatch.setattr(memory, "NEGLIGIBLE", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 10**6)
    ms.ilu(mesh(9, 8))
    with pytest.raises(ms.OutOfMemoryError, match="an incomplete LU factor of up to 3.26e.05 entries takes"):
        ms.ilu(mesh(9, 8), max_fill=1000)


def test_a_matrix_on_the_gpu_is_refused(cuda):
    from meshsolve import device
    A = sp.csr_array(mesh(9, 8))
    on_gpu = device.csr(*map(device.to_device, (A.data, A.indices, A.indptr)), A.shape)
    with pytest.raises(ms.InvalidInputError, match=r"A lies on the GPU, but ilu runs on the host: pass A.get\(\)"):
        ms.ilu(on_gpu)
