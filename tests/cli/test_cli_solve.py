"""The command solve: matrices and vectors in every format, methods, missed tolerances, devices."""

import gzip
import json
import re

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from cli_files import PHASES, mmread

import meshsolve as ms
from meshsolve.cli import files


@pytest.mark.slow
@pytest.mark.parametrize("matrix", ["A.mtx", "A.npz", "A.npy", "A.mtx.gz"])
@pytest.mark.parametrize("rhs", ["b.mtx", "b.npy", "b.npz", "sparse.npz", "b.txt", "b.mtx.gz"])
@pytest.mark.parametrize("out", ["x.mtx", "x.npy", "x.npz", "x.txt", "x.mtx.gz"])
def test_solve(run, folder, matrix, rhs, out):
    b = np.arange(60.0)
    np.save(folder / "b.npy", b)
    np.savez(folder / "b.npz", b=b)
    sp.save_npz(folder / "sparse.npz", sp.csr_array(b[:, None]))
    np.save(folder / "A.npy", sp.load_npz(folder / "A.npz").toarray())
    np.savetxt(folder / "b.txt", b)
    for name in ("A.mtx", "b.mtx"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    code, text, err = run("solve", folder / matrix, folder / rhs, "-o", folder / out, "--report", folder / "r.json")
    assert (code, err) == (0, "") and re.search(r"relative_residual +[\d.]+e-1[4-9]", text)
    x = files.read_vector(folder / out)
    assert np.allclose(mmread(folder / "A.mtx") @ x, b, atol=1e-12)
    report = json.loads((folder / "r.json").read_text())
    assert set(report["seconds"]) >= PHASES and {"nnz_A", "nnz_L", "flops", "bytes", "threads", "device", "ordering"} <= set(report)


def test_solve_takes_many_columns_and_says_what_it_cannot_solve(run, folder):
    b = np.random.default_rng(0).standard_normal((60, 3))
    scipy.io.mmwrite(folder / "b.mtx", b)
    assert run("solve", folder / "A.mtx", folder / "b.mtx", "-o", folder / "x.mtx", "--quiet", "--threads", 1) == (0, "", "")
    assert np.allclose(mmread(folder / "A.mtx") @ mmread(folder / "x.mtx"), b)
    scipy.io.mmwrite(folder / "N.mtx", -mmread(folder / "A.mtx"))
    for matrix, words in {"N.mtx": "not positive definite", "U.mtx": "not symmetric"}.items():
        n = mmread(folder / matrix).shape[0]
        np.save(folder / "c.npy", np.ones(n))
        code, text, err = run("solve", folder / matrix, folder / "c.npy", "-o", folder / "y.mtx", "--method", "cholesky")
        assert (code, text) == (1, "") and words in err and not (folder / "y.mtx").exists()


def test_solve_with_a_factor_on_disk(run, folder, tmp_path):
    A, b = ms.datasets.grid2d(9, 8, boundary="dirichlet"), np.arange(72.0)
    sp.save_npz(folder / "G.npz", A)
    np.save(folder / "b.npy", b)
    solve = ["solve", folder / "G.npz", folder / "b.npy", "-o", folder / "x.npy"]
    code, text, err = run(*solve, "--memory", "disk", "--folder", tmp_path, "--report", folder / "r.json")
    assert (code, err) == (0, "") and np.array_equal(np.load(folder / "x.npy"), ms.solve(A, b, "cholesky")[0])
    assert json.loads((folder / "r.json").read_text())["file_bytes"] > 0 and list(tmp_path.glob("tmp*")) == []
    for extra, words in ((["--memory", "disk", "--method", "lu"], "--memory disk is for Cholesky factors: use --method cholesky or"),
                         (["--folder", "."], "--folder goes with --memory disk"),
                         (["--memory", "disk", "--folder", "none"], "none: no file can be created in this folder"),
                         (["--memory", "disk", "--device", "cuda"], "--memory disk is for factors on the host: use --device cpu")):
        code, text, err = run(*solve[:-1], folder / "y.npy", *extra)
        assert (code, text) == (1, "") and words in err and not (folder / "y.npy").exists()


@pytest.mark.filterwarnings("default")
def test_solve_an_indefinite_system(run, folder):
    A = ms.datasets.kkt(30, 12)
    scipy.io.mmwrite(folder / "K.mtx", A)
    np.save(folder / "c.npy", np.arange(42.0))
    for method in ("ildl", "auto"):
        code, text, err = run("solve", folder / "K.mtx", folder / "c.npy", "-o", folder / "y.npy", "--method", method)
        assert (code, err) == (0, "") and re.search(r"^method +ildl$", text, re.M)
        assert np.allclose(A @ np.load(folder / "y.npy").ravel(), np.arange(42.0))


def test_several_right_hand_sides_of_an_indefinite_matrix(run, folder):
    scipy.io.mmwrite(folder / "K.mtx", ms.datasets.kkt(20, 10))
    np.savetxt(folder / "b2.txt", np.ones((30, 2)))
    code, text, err = run("solve", folder / "K.mtx", folder / "b2.txt", "-o", folder / "x2.NPY")
    assert (code, err) == (0, "") and re.search(r"^method +ildl$", text, re.M)
    assert np.allclose(ms.datasets.kkt(20, 10) @ np.load(folder / "x2.NPY"), 1)


def test_solve_takes_lu_for_an_unsymmetric_matrix(run, folder):
    A = mmread(folder / "U.mtx")
    b = np.random.default_rng(1).standard_normal(A.shape[0])
    np.save(folder / "b.npy", b)
    for method in ("auto", "lu"):
        code, text, err = run("solve", folder / "U.mtx", folder / "b.npy", "-o", folder / "x.npy", "--method", method)
        assert (code, err) == (0, "") and re.search(r"^method +lu$", text, re.M)
        assert np.allclose(A @ np.load(folder / "x.npy").ravel(), b)


@pytest.mark.parametrize("method", ["auto", "parac"])
def test_solve_takes_laplacians(run, folder, method):
    L = mmread(folder / "L.mtx")
    np.save(folder / "c.npy", L @ np.arange(30.0))
    code, text, err = run("solve", folder / "L.mtx", folder / "c.npy", "-o", folder / "y.npy", "--method", method)
    assert (code, err) == (0, "") and "relative_residual" in text and ("iterations" in text) == (method == "parac")
    assert np.allclose(np.load(folder / "y.npy"), np.arange(30.0) - 14.5, atol=1e-7)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("method", ["auto", "ildl", "parac"])
def test_a_solution_that_misses_its_tolerance_is_written_and_is_an_error(run, folder, method):
    np.save(folder / "c.npy", np.ones(30))
    code, text, err = run("solve", folder / "L.mtx", folder / "c.npy", "-o", folder / "y.npy", "--method", method, "--report", folder / "r.json")
    assert code == 1 and err.startswith("meshsolve: error: ") and err.count("\n") == 1 and "y.npy: the solution was written" in err
    assert len(re.findall("not (be )?in the range of A", err)) == 1 and re.search(r"relative_residual +1$", text, re.M)
    report = json.loads((folder / "r.json").read_text())
    assert np.load(folder / "y.npy").shape == (30,) and report["relative_residual"] > 0.99 and report["converged"] is False


def test_text_vectors_are_read_as_they_are_written(run, folder):
    scipy.io.mmwrite(folder / "C.mtx", sp.coo_array(mmread(folder / "A.mtx") * (1 + 1j)))
    for text in ("1,2\n" * 60, "1+2j -1j\n" * 60, "# a comment\n" + "1 2\n" * 60):
        (folder / "b.txt").write_text(text)
        assert run("solve", folder / "C.mtx", folder / "b.txt", "-o", folder / "x.txt", "--quiet") == (0, "", "")
        C, b, x = mmread(folder / "C.mtx"), files.read_vector(folder / "b.txt"), files.read_vector(folder / "x.txt")
        assert b.shape == x.shape == (60, 2) and np.allclose(C @ x, b)
    (folder / "b.txt").write_text("# nothing\n\n")
    code, _, err = run("solve", folder / "A.mtx", folder / "b.txt", "-o", folder / "x.txt")
    assert code == 1 and err.count("\n") == 1 and "has no numbers" in err


def test_a_sparse_right_hand_side_with_damaged_indices_is_refused(run, folder):
    held = dict(format=np.array(b"csr"), shape=np.array([60, 1]), data=np.ones(60), indices=np.zeros(60, np.int32),
                indptr=np.arange(61, dtype=np.int32))
    held["indices"][3] = 10**8
    np.savez(folder / "b.npz", **held)
    code, _, err = run("solve", folder / "A.mtx", folder / "b.npz", "-o", folder / "x.npy")
    assert code == 1 and "b.npz: cannot be read as a vector: " in err and not (folder / "x.npy").exists()


def test_a_link_stays_and_so_do_permissions(run, folder):
    target, link = folder / "x.npy", folder / "link.npy"
    target.write_bytes(b"")
    target.chmod(0o600)
    link.symlink_to(target)
    assert run("solve", folder / "A.mtx", folder / "b.mtx", "-o", link, "--quiet")[0] == 0
    assert link.is_symlink() and np.load(target).shape == (60,) and target.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("command", ["mcf", "smooth", "solve"])
def test_a_device(run, folder, command):
    """The kernel harness writes the same files as the CPU; without a GPU one line names what is missing."""
    from kernel_harness.strict import Strict

    from meshsolve import device

    given = [folder / "A.mtx", folder / "b.mtx"] if command == "solve" else [folder / "ball.obj"]
    suffix = "txt" if command == "solve" else "obj"
    assert run(command, *given, "-o", folder / f"cpu.{suffix}", "--quiet", "--device", "cpu") == (0, "", "")
    with device.use(Strict()):
        assert run(command, *given, "-o", folder / f"cuda.{suffix}", "--quiet", "--device", "cuda") == (0, "", "")
    here, there = ([*map(float, (folder / f"{place}.{suffix}").read_text().replace("v", "").replace("f", "").split())] for place in ("cpu", "cuda"))
    assert np.allclose(here, there, rtol=1e-12, atol=1e-12)
    if not device.available():
        code, _, err = run(command, *given, "-o", folder / f"none.{suffix}", "--device", "cuda")
        assert code == 1 and err.startswith("meshsolve: error: --device cuda needs CuPy") and not (folder / f"none.{suffix}").exists()
