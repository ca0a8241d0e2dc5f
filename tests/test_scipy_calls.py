"""``spsolve``, and scipy's own calls inside ``scipy_solver``."""

import os
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.linalg import factorized, splu, spsolve

import meshsolve as ms

RNG = np.random.default_rng(0)
SPD = ms.datasets.grid2d(12, 10, boundary="dirichlet")
U = sp.csc_array(SPD + 0.5 * sp.triu(SPD, 1) + sp.diags_array(np.linspace(1, 50, 120)))
MATRICES = {"definite": SPD, "indefinite": SPD - 3 * sp.eye_array(120), "unsymmetric": U, "complex": U * (1 + 0.3j), "float32": U.astype(np.float32)}
B = RNG.standard_normal((120, 3))


def is_restored():
    return isinstance(spla._dsolve.linsolve._superlu, types.ModuleType)


@pytest.mark.parametrize("name", MATRICES)
def test_names_imported_earlier_are_routed(name):
    A = sp.csc_array(MATRICES[name])
    tolerance = 1e-4 if A.dtype == np.float32 else 1e-10
    b = B.astype(A.dtype)
    theirs = splu(A)
    with ms.scipy_solver():
        ours, solve = splu(A), factorized(A)
        assert not isinstance(ours, spla.SuperLU) and isinstance(ours.factor, (ms.CholeskyFactor, ms.IldlFactor, ms.LUFactor))
        for x in (spsolve(A, b), ours.solve(b), solve(b), spsolve(A.tocsr(), b), spsolve(A, sp.csc_array(b)).toarray()):
            assert x.dtype == A.dtype and np.allclose(x, theirs.solve(b), rtol=tolerance, atol=tolerance)
        assert spsolve(A, b[:, :1]).shape == (120,)
        for trans in "NTH":
            assert np.allclose(ours.solve(b, trans), theirs.solve(b, trans), rtol=tolerance, atol=tolerance)
    assert is_restored() and isinstance(splu(A), spla.SuperLU)


@pytest.mark.parametrize("name", MATRICES)
def test_splu_results_have_the_factors_of_scipy(name):
    A = sp.csc_array(MATRICES[name])
    with ms.scipy_solver():
        F = splu(A)
    L, U = F.L, F.U
    assert isinstance(L, sp.csc_array) and L.dtype == U.dtype == F.dtype == A.dtype and F.shape == A.shape and F.nnz == L.nnz + U.nnz
    assert (L.diagonal() == 1).all() and sp.triu(L, 1).nnz == 0 and sp.tril(U, -1).nnz == 0
    one, k = np.ones(120), np.arange(120)
    rows, columns = sp.csc_array((one, (F.perm_r, k))), sp.csc_array((one, (k, F.perm_c)))     # as scipy's documentation has them
    assert abs((rows.T @ (L @ U) @ columns.T) - A).max() < (1e-4 if A.dtype == np.float32 else 1e-12) * abs(A).max()


def test_singular_matrices_give_the_results_of_scipy():
    A = sp.csc_array(np.diag([1.0, 0, 2]) + np.eye(3, k=2))
    with ms.scipy_solver():
        with pytest.raises(RuntimeError, match="Factor is exactly singular"):
            splu(A)
        with pytest.warns(spla.MatrixRankWarning):
            assert np.isnan(spsolve(A, np.ones(3))).all()
        with pytest.raises(ms.InvalidInputError, match="holds nan"):
            spsolve(A * np.nan, np.ones(3))
        with pytest.raises(ValueError, match="square"):
            splu(A[:2])
    assert is_restored()


def test_the_functions_of_scipy_use_it_too():
    start = np.ones(120)
    theirs = spla.eigsh(SPD, 3, sigma=0.0, v0=start)[0]
    with ms.scipy_solver(threads=1):
        assert np.allclose(spla.eigsh(SPD, 3, sigma=0.0, v0=start)[0], theirs, rtol=1e-10)
        assert isinstance(spla.spilu(sp.csc_array(SPD)), spla.SuperLU)
        assert isinstance(splu(sp.csc_array(SPD), permc_spec="NATURAL"), spla.SuperLU)
        assert np.allclose(spla.spsolve_triangular(sp.tril(SPD, format="csr"), start), np.linalg.solve(np.tril(SPD.toarray()), start))


def test_other_threads_keep_superlu_and_blocks_may_overlap():
    A, found, inside, leave = sp.csc_array(U), {}, threading.Event(), threading.Event()

    def other():
        found["before"] = splu(A)
        with ms.scipy_solver():
            found["inside"] = splu(A)
            inside.set()
            leave.wait(30)
            found["still inside"] = splu(A)
        found["after"] = splu(A)

    thread = threading.Thread(target=other)
    with ms.scipy_solver():
        with ms.scipy_solver():
            thread.start()
            assert inside.wait(30)
        assert not isinstance(splu(A), spla.SuperLU)
    assert isinstance(splu(A), spla.SuperLU) and not is_restored()      # the block of the other thread is open
    leave.set()
    thread.join()
    assert {name: isinstance(F, spla.SuperLU) for name, F in found.items()} == {
        "before": True, "inside": False, "still inside": False, "after": True}
    assert is_restored()


def test_scipy_is_restored_after_an_exception_and_bad_options():
    with pytest.raises(KeyError), ms.scipy_solver():
        raise KeyError
    for options, says in (({"device": "gpu"}, "device must be one of"), ({"threads": 0}, "threads must be")):
        with pytest.raises(ms.InvalidInputError, match=says), ms.scipy_solver(**options):
            pass
    assert is_restored()


def test_another_scipy_is_refused(monkeypatch):
    monkeypatch.setattr(spla._dsolve.linsolve, "_superlu", object())
    with pytest.raises(ms.MeshsolveError, match=r"scipy .* is not supported by scipy_solver.*meshsolve.spsolve"), ms.scipy_solver():
        pass


def test_spsolve_returns_x_alone():
    for A in (SPD, U, U * 1j):
        assert np.array_equal(ms.spsolve(A, B), ms.solve(A, B)[0])
    with pytest.warns(ms.ConvergenceWarning, match="relative residual"):
        ms.spsolve(SPD, B, rtol=1e-30)
    with pytest.raises(ms.SingularMatrixError):
        ms.spsolve([[1.0, 2.0], [2.0, 4.1 - 0.1]], [1.0, 0.0], method="lu")


OTHERS = "not refcount and not bad_inputs and not incorrectly_sized and not cast_to_complex"     # other messages; a complex b is solved
PLUGIN = """
import pytest
import meshsolve

@pytest.fixture(autouse=True)
def routed():
    with meshsolve.scipy_solver():
        yield
"""


@pytest.mark.slow
def test_the_tests_of_scipy_pass(tmp_path):
    (tmp_path / "routing.py").write_text(PLUGIN)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-P", "-m", "pytest", "-q", "-p", "routing", "-p", "no:cacheprovider", "--pyargs",
                           "scipy.sparse.linalg._dsolve.tests.test_linsolve", "-k", OTHERS], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-3000:]


def test_a_laplacian_with_a_shift_of_0_has_the_answer_of_scipy():
    """It is singular to rounding: scipy's factor has a tiny pivot, and its eigsh needs no more."""
    mesh = ms.datasets.icosphere(3)
    L, M = ms.cotan_laplacian(mesh).tocsc(), ms.mass_matrix(mesh).tocsc()
    with ms.scipy_solver():
        w = spla.eigsh(L, 4, M, sigma=0, return_eigenvectors=False)
    assert np.allclose(np.sort(w), [0, 2, 2, 2], atol=0.01)
