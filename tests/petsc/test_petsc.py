"""Systems on several ranks by PETSc: solutions, iterations, errors on all ranks. Each test starts its own ranks."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import meshsolve as ms
from meshsolve.petsc import environment

CASES = pathlib.Path(__file__).with_name("cases.py")
needs_petsc = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="no mpiexec")


@pytest.fixture
def run():
    pytest.importorskip("mpi4py")
    pytest.importorskip("petsc4py")

    def start(ranks, case, timeout=120):
        """(exit code, standard output, standard error) of a program of cases.py on some ranks."""
        env = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
                            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMP_NUM_THREADS": "1", "MESHSOLVE_NUM_THREADS": "1"}
        command = ["mpiexec", "-n", str(ranks)] if ranks > 1 else []
        done = subprocess.run([*command, sys.executable, "-P", CASES, case], capture_output=True, text=True, env=env, timeout=timeout)
        return done.returncode, done.stdout, done.stderr

    return start


def check(done):
    code, out, err = done
    assert (code, out.strip()) == (0, "ok"), err


@needs_petsc
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_solutions(run, ranks):
    check(run(ranks, "solutions"))


@needs_petsc
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_distributed_matrices(run, ranks):
    check(run(ranks, "distributed"))


@needs_petsc
@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_factors_by_name(run, ranks):
    check(run(ranks, "by_name"))


@needs_petsc
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_errors_are_the_same_on_all_ranks(run, ranks):
    check(run(ranks, "errors"))


@needs_petsc
@pytest.mark.slow
def test_an_error_ends_the_program(run):
    code, _, err = run(2, "uncaught")
    assert code == 1 and "NotPositiveDefiniteError" in err


@needs_petsc
@pytest.mark.slow
def test_iterations_depend_on_subdomains_alone_and_hardly_on_their_number(run):
    counts = {}
    for ranks in (1, 2, 4, 8):
        code, out, err = run(ranks, "iterations")
        assert code == 0, err
        counts[ranks] = [int(word) for word in out.split()]
    own, eight, one_level = zip(*counts.values())
    assert own[0] == 1 and own[3] <= 1.3 * own[1]                       # one rank is a direct solve
    assert max(eight) - min(eight) <= 1 and max(one_level) - min(one_level) <= 2
    assert max(eight) < 0.8 * min(one_level)


# ---- without PETSc ----------------------------------------------------------------------------------------------------


def test_a_missing_petsc_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "petsc4py", None)
    environment.load.cache_clear()
    try:
        for call in (lambda: ms.petsc.solve([[1.0]], [1.0]), lambda: ms.petsc.matrix([[1.0]]), lambda: ms.petsc.Schwarz(None)):
            with pytest.raises(ms.InvalidInputError, match=r'cannot be imported \(.*pip install "meshsolve\[petsc\]"'):
                call()
    finally:
        environment.load.cache_clear()


def test_two_mpi_libraries_are_refused():
    line = "7f00-7f01 r-xp 00000000 08:01 42   "
    debian = [line + f"/usr/lib/x86_64-linux-gnu/{name}" for name in ("libmpi.so.40.30.4", "libmpi_cxx.so.40.30.1", "libmpi_mpifh.so.40.30.0")]
    environment.require_one_library("\n".join([*debian, *debian]))
    for other in ("/venv/lib/libmpi.so.12.3.0", "/venv/lib/libmpich.so.12", "/venv/mpich.libs/libmpi-3f2a.so.12.1.8"):
        with pytest.raises(ms.InvalidInputError, match=f"several MPI libraries, .*{other}"):
            environment.require_one_library("\n".join([*debian, line + other]))


def test_the_names_that_users_see():
    assert dir(ms.petsc) == ["Cholesky", "Ildl", "Parac", "Schwarz", "SchwarzInfo", "matrix", "solve"]
