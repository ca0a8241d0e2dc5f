"""Factors in a file: the bits of factors in memory, bounded memory, no file left, and an exception for each failure of the disk."""

import copy
import os
import pickle
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve import _core
from meshsolve.factor.fronts import assembly_tree

VOLUME = ms.datasets.grid3d(14, boundary="dirichlet")               # its update matrices have several tiles
MATRICES = {
    "volume": VOLUME, "surface": ms.datasets.grid2d(60, 50, boundary="dirichlet"), "one row": sp.csr_array([[2.0]]),
    "components": sp.block_diag([ms.datasets.grid3d(8, boundary="dirichlet"), sp.eye_array(3), ms.datasets.grid2d(9, 9, boundary="dirichlet")]),
}
RNG = np.random.default_rng(0)


@pytest.fixture(name="F")
def factor_on_disk(tmp_path):
    return ms.cholesky(VOLUME, memory="disk", folder=tmp_path, threads=2)


def limited(size, call):
    """Return call() while files of this process have at most ``size`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        return call()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def in_child(work):
    """Run work(report) in a forked process; return what it reported, nothing if it raised."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:                                                  # pytest must not go on in the child
        try:
            work(lambda text: os.write(writing, text))
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as pipe:
        return pipe.read()


# ---- the same bits ------------------------------------------------------------------------------------------------------


@pytest.mark.native
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
@pytest.mark.parametrize("name", sorted(MATRICES))
def test_bits_of_the_factor_in_memory(name, precision, threads, tmp_path):
    A = sp.csr_array(MATRICES[name])
    n = A.shape[0]
    B, options = RNG.standard_normal((n, 11)), {"precision": precision, "threads": threads, "device": "cpu"}
    _core.poison(True)
    try:
        F, G = ms.cholesky(A, **options), ms.cholesky(A, **options, memory="disk", folder=tmp_path)
        for b in (B, B[:, 0], 1j * B[:, 1]):
            assert np.array_equal(F.solve(b), G.solve(b))
        for system in ("L", "Lt"):
            assert np.array_equal(F.solve(B, system), G.solve(B, system))
        assert F.logdet() == G.logdet() and F.rcond() == G.rcond() and (F.L != G.L).nnz == 0
        if precision == "double":
            assert np.array_equal(F.solve(B, wanted=[n - 1]), G.solve(B, wanted=[n - 1]))
            assert np.array_equal(F.solve(sp.csc_array(B)).toarray(), G.solve(sp.csc_array(B)).toarray())
        assert np.array_equal(F.refactor(3 * A).solve(B), G.refactor(3 * A).solve(B))
    finally:
        _core.poison(False)


@pytest.mark.native
def test_constraints(tmp_path):
    L, b = ms.graph_laplacian(ms.datasets.grid3d(9)), RNG.standard_normal(729)
    for keywords, values in ({"fixed": [0, 7]}, [1.0, -2.0]), ({"pin": True}, None):
        F, G = (ms.cholesky(L, device="cpu", **keywords, **disk) for disk in ({}, {"memory": "disk", "folder": tmp_path}))
        right = b - b.mean() if values is None else b
        assert np.array_equal(F.solve(right, fixed_values=values), G.solve(right, fixed_values=values))
        before = G.report.facts["read_bytes"]
        assert before == G._factor.traffic["read_bytes"] > 0


def test_one_solve(tmp_path):
    b, flat = np.arange(VOLUME.shape[0], dtype=float), ms.datasets.grid3d(6)
    x, info = ms.solve(VOLUME, b, memory="disk", folder=tmp_path)
    assert np.array_equal(x, ms.solve(VOLUME, b, "cholesky")[0]) and info.converged and info.report.facts["file_bytes"] > 0
    for A, options in ((VOLUME, {"fixed": [1, 5], "fixed_values": 2.0}), (flat, {}), (flat, {"pin": True})):
        b = np.arange(A.shape[0]) - (A.shape[0] - 1) / 2
        assert np.array_equal(ms.solve(A, b, memory="disk", folder=tmp_path, **options)[0], ms.solve(A, b, "cholesky", **options)[0])
    assert os.listdir(tmp_path) == []


def test_an_analysis_makes_factors_on_disk(tmp_path):
    sym, b = ms.analyze(VOLUME), np.ones(VOLUME.shape[0])
    assert np.array_equal(sym.factor(VOLUME, memory="disk", folder=tmp_path).solve(b), sym.factor(VOLUME, device="cpu").solve(b))


@pytest.mark.native
def test_threads_solve_at_once(F):
    B = RNG.standard_normal((VOLUME.shape[0], 4))
    expected, found = F.solve(B), [None] * 4

    def solve(k):
        found[k] = F.solve(B[:, k])

    workers = [threading.Thread(target=solve, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert np.array_equal(np.stack(found, axis=1), expected)


def test_copies_have_files_of_their_own(F, tmp_path):
    b = np.ones(VOLUME.shape[0])
    x = F.solve(b)
    for other in (copy.copy(F), pickle.loads(pickle.dumps(F))):
        assert np.array_equal(other.solve(b), x)
        other.refactor(2 * VOLUME)
        assert np.array_equal(F.solve(b), x)
    state = pickle.dumps(ms.cholesky(VOLUME, memory="disk", folder=(gone := tmp_path / "gone").mkdir() or gone))
    gone.rmdir()
    with pytest.raises(ms.InvalidInputError, match="no file can be created in this folder"):
        pickle.loads(state)


# ---- what is transferred, and the memory --------------------------------------------------------------------------------


@pytest.mark.native
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("name", ["volume", "surface"])
def test_each_panel_is_written_once_and_read_once_in_each_direction(name, threads, tmp_path):
    A = MATRICES[name]
    F, b = ms.cholesky(A, memory="disk", folder=tmp_path, threads=threads), np.ones((A.shape[0], 8))
    facts = F.report.facts
    size, spilled = facts["file_bytes"], facts["written_bytes"] - facts["file_bytes"]
    assert os.fstat(F._factor._file.fileno()).st_size == size       # update matrices are cut off
    assert facts["read_bytes"] >= spilled >= 0                      # a tile with pivots and other rows is read twice
    assert spilled > 0 or name == "surface"
    for system in ("L", "Lt"):
        before = facts["read_bytes"]
        F.solve(b, system)
        assert facts["read_bytes"] - before == size
    before = facts["read_bytes"]
    F.solve(b)
    assert size <= facts["read_bytes"] - before <= 2 * size         # the last panels are still in the window
    assert facts["bytes"] < size or name == "surface"


def shares(n, threads):
    """Memory of the numeric phase and its file, relative to the numeric phase in memory, from the analysis of an n^3 grid."""
    tree = assembly_tree(ms.analyze(ms.datasets.grid3d(n, boundary="dirichlet"), threads=2), 2)
    core = _core.CholeskyDouble(tree)
    for count in threads:
        in_memory = core.panel_scalars + tree.work_scalars(count) + tree.nbytes / 8
        needs = core.file_needs(count)
        yield (needs[0] + tree.nbytes / 8) / in_memory, needs[1] / core.panel_scalars


def test_memory_is_a_quarter():
    for memory, file in shares(40, (1, 2, 4)):
        assert memory < 0.25 and 1 < file < 1.5


@pytest.mark.slow
def test_memory_is_a_quarter_for_a_million_rows():
    for memory, file in shares(100, (1, 2, 4, 8, 16)):
        assert memory < 0.25 and 1 < file < 1.5


MEASURED = """
import sys, meshsolve as ms
def most():
    return 1024 * int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
A = ms.datasets.grid3d(30, boundary="dirichlet")
sym = ms.analyze(A)
sym.factor(A * 1.0, memory="disk", folder=sys.argv[1], threads=1)
open("/proc/self/clear_refs", "w").write("5")
before = most()
F = sym.factor(A, memory="disk", folder=sys.argv[1], threads=1)
F.solve(A.sum(axis=1))
print(most() - before, F.report.facts["peak_bytes"], F.report.facts["file_bytes"])
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="measured by files of Linux")
def test_the_system_agrees(tmp_path):
    """The first factor loads libraries and makes the heap; the second one takes at most the reported memory, and 8 MB of Python's."""
    result = subprocess.run([sys.executable, "-c", MEASURED, tmp_path], capture_output=True, text=True, check=True)
    grown, reported, file = map(int, result.stdout.split())
    assert grown < reported + 2**23 < file


# ---- failures -----------------------------------------------------------------------------------------------------------


@pytest.mark.native
@pytest.mark.parametrize("threads", [1, 2])
def test_a_full_disk(threads, tmp_path):
    """The limit is met by panels, by update matrices, at the beginning and near the end."""
    needed = ms.cholesky(VOLUME, memory="disk", folder=tmp_path, threads=threads).report.facts["file_bytes"]
    for size in np.linspace(0, needed, 6, endpoint=False).astype(int):
        with pytest.raises(ms.OutOfMemoryError, match=f"{tmp_path}: the file of the factor cannot be written at byte .* File too large"):
            limited(int(size), lambda: ms.cholesky(VOLUME, memory="disk", folder=tmp_path, threads=threads))
    assert os.listdir(tmp_path) == []


@pytest.mark.native
def test_a_disk_that_fills_up_costs_the_factor_alone(F):
    b = np.ones(VOLUME.shape[0])
    x = F.solve(b)
    with pytest.raises(ms.OutOfMemoryError, match="cannot be written"):
        limited(1000, lambda: F.refactor(2 * VOLUME))
    with pytest.raises(ms.OutOfMemoryError, match="is lost: refactor"):
        F.solve(b)
    assert np.array_equal(F.refactor(VOLUME).solve(b), x)


@pytest.mark.native
def test_an_indefinite_matrix_leaves_the_factor(F):
    b = np.ones(VOLUME.shape[0])
    x = F.solve(b)
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(VOLUME - 3 * sp.eye_array(VOLUME.shape[0]))
    assert np.array_equal(F.solve(b), x)


@pytest.mark.native
def test_a_file_that_was_cut(F):
    b = np.ones(VOLUME.shape[0])
    x, size = F.solve(b), F.report.facts["file_bytes"]
    os.ftruncate(F._factor._file.fileno(), size // 2)
    with pytest.raises(ms.DeviceUnavailableError, match="ends before byte .* refactor"):
        F.solve(b)
    assert np.array_equal(F.refactor(VOLUME).solve(b), x)


def test_too_little_space_is_known_before(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1000}))
    with pytest.raises(ms.OutOfMemoryError, match=r"take [\d,]+ bytes, but folder=.* has 1,000 free bytes"):
        ms.cholesky(VOLUME, memory="disk", folder=tmp_path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_killed_process_leaves_no_file(tmp_path):
    def work(report):
        F = ms.cholesky(VOLUME, memory="disk", folder=tmp_path)
        report(f"{os.fstat(F._factor._file.fileno()).st_size} bytes in {os.listdir(tmp_path)}".encode())
        os.kill(os.getpid(), signal.SIGKILL)

    assert re.fullmatch(rb"\d{7,} bytes in \[\]", in_child(work)) and os.listdir(tmp_path) == []


@pytest.mark.parametrize("name, call", [
    ("updated", lambda F: F.update(np.eye(VOLUME.shape[0], 1))), ("updated", lambda F: F.downdate(np.eye(VOLUME.shape[0], 1))),
    ("inverse", lambda F: F.inverse_diagonal()), ("inverse", lambda F: F.selected_inverse())])
def test_work_that_needs_the_factor_in_memory(F, name, call):
    x = F.solve(b := np.ones(VOLUME.shape[0]))
    with pytest.raises(ms.InvalidInputError, match=f'{name}.*memory="ram"'):
        call(F)
    assert np.array_equal(F.solve(b), x)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_needs_a_copy(F):
    x = F.solve(b := np.ones(VOLUME.shape[0]))

    def work(report):
        for call in (lambda: F.solve(b), lambda: F.refactor(VOLUME), F.logdet):
            with pytest.raises(ms.DeviceUnavailableError, match="forked: copy.copy"):
                call()
        report(b"same" if np.array_equal(copy.copy(F).solve(b), x) else b"other")

    assert in_child(work) == b"same"
    assert np.array_equal(F.solve(b), x)
