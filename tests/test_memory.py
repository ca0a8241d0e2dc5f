"""Available memory: that of the system, and the limits of control groups of both versions, including ancestors."""

import inspect
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve import memory

GIB = 2**30


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Write the files of a machine with 64 GiB available: (groups line, {folder: {file: content}})."""
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {64 * GIB // 1024} kB\n")

    def make(line, folders):
        (tmp_path / "cgroup").write_text(line + "\n")
        for folder, files in folders.items():
            (tmp_path / "groups" / folder).mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                (tmp_path / "groups" / folder / name).write_text(f"{content}\n")

    return make


def second(most, used, idle=0):
    return {"memory.max": most, "memory.current": used, "memory.stat": f"anon {used}\n\ninactive_file {idle}"}


def first(most, used, idle=0):
    return {"memory.limit_in_bytes": most, "memory.usage_in_bytes": used, "memory.stat": f"cache 1\ntotal_inactive_file {idle}"}


@pytest.mark.parametrize("line, folders, left", [
    ("0::/a/b", {"a": second("max", GIB), "a/b": second(4 * GIB, 3 * GIB)}, GIB),
    ("0::/a/b", {"a": second(2 * GIB, GIB // 2), "a/b": second("max", GIB)}, 3 * GIB // 2),      # the parent group has less
    ("0::/a", {"a": second(4 * GIB, 4 * GIB, idle=3 * GIB)}, 3 * GIB),                           # inactive file pages
    ("0::/", {".": second(4 * GIB, 5 * GIB)}, 0),
    ("0::/gone", {".": second(4 * GIB, GIB)}, 3 * GIB),                                          # a container has its own group as the root
    ("0::/../a", {"x": second(1, 1)}, 64 * GIB),
    ("4:cpu,memory:/a", {"memory/a": first(8 * GIB, GIB, idle=GIB // 4)}, 29 * GIB // 4),
    ("4:memory:/a", {"memory/a": first(2**63 - 4096, GIB)}, 64 * GIB),
    ("3:cpu:/a", {"memory/a": first(GIB, 0)}, 64 * GIB),                                         # not a memory group
    ("0::/a", {}, 64 * GIB),
])
def test_least_of_all(machine, line, folders, left):
    machine(line, folders)
    assert memory.available_memory() == left


def test_unknown_memory(machine, tmp_path):
    (tmp_path / "meminfo").unlink()
    assert memory.available_memory() is None
    memory.ensure_memory(2**60, "a factor")


@pytest.mark.parametrize("call", [
    ms.analyze, ms.cholesky, ms.lu, ms.ilu, ms.ildl, ms.parac, ms.order.amd, lambda A: ms.solve(A, np.ones(3)),
    lambda A: ms.solve(A, np.ones(3), method="parac"), lambda A: ms.solve(A, np.ones(3), method="ildl"),
    lambda A: ms.solve(A, np.ones(3), method="ilu"), lambda A: ms.gmres(A, np.ones(3))])
def test_empty_rows_are_counted_before_allocation(machine, call):
    """Two billion rows and one entry: the arrays of an analysis would exhaust the memory of the machine."""
    machine("0::/a", {"a": second(4 * GIB, GIB)})
    with pytest.raises(ms.OutOfMemoryError, match="2,000,000,000 rows takes .* 3.00 GiB are available"):
        call(sp.coo_array(([1.0], ([0], [0])), shape=(2 * 10**9, 2 * 10**9)))


def test_a_file_of_many_empty_rows_is_refused(machine, tmp_path):
    machine("0::/a", {"a": second(4 * GIB, GIB)})
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2000000000 2000000000 1\n1 1 1.0\n")
    with pytest.raises(ms.OutOfMemoryError, match="a.mtx with its 2,000,000,000 rows"):
        ms.datasets.load_matrix(tmp_path / "a.mtx")


def test_a_refactorization_needs_no_memory_for_rows(machine, monkeypatch):
    """Without memory for an analysis it iterates."""
    A = ms.datasets.grid2d(30, 30) + sp.eye_array(900)
    factors = [ms.cholesky(A), ms.lu(A), ms.ildl(A, fill_level=None)]
    machine("0::/a", {"a": second(GIB, GIB)})
    monkeypatch.setattr(memory, "NEGLIGIBLE", 0)
    with pytest.raises(ms.OutOfMemoryError):
        ms.cholesky(A, device="cpu")
    for F in factors:
        F.refactor(2 * A)
        assert np.allclose(A @ F.solve(np.ones(900)), 0.5)


def test_a_factor_that_a_container_does_not_allow(machine):
    machine("0::/a", {"a": second(GIB, GIB - 2**20)})
    with pytest.raises(ms.OutOfMemoryError, match="0.00 GiB are available"):
        ms.cholesky(ms.datasets.grid2d(400, 400, boundary="dirichlet"), device="cpu")


def test_this_machine():
    left = memory.available_memory()
    assert left is None or left > 0


NO_ROOM = """
import ctypes, mmap, resource, sys
import meshsolve as ms
from meshsolve import _core

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LOW, FIXED_NOREPLACE = 1 << 20, 0x100000
there = libc.mmap(LOW, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | FIXED_NOREPLACE, -1, 0)
if there != LOW:
    sys.exit(77)
ctypes.memset(LOW, 7, 4096)
A = ms.datasets.grid2d(200, 200, boundary="dirichlet")
symbolic = ms.analyze(A, threads=1)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), resource.RLIM_INFINITY))
try:
    symbolic.factor(A, threads=1)
except MemoryError as e:
    assert ctypes.string_at(LOW, 1) == b"\\x07"
    print(type(e).__name__)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and fixed places of Linux")
def test_an_unallocated_buffer_frees_nothing():
    """Unmapping address 0 could unmap the interpreter itself, if it is not relocatable."""
    done = subprocess.run([sys.executable, "-c", NO_ROOM], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("low addresses cannot be mapped here")
    assert done.returncode == 0 and done.stdout.strip(), done.stderr


ROOM_FOR_PHASES = """
import resource
from meshsolve import _core

def pages():
    return [int(count) for count in open("/proc/self/statm").read().split()[:2]]

def grown(entries, times):
    mapped, resident = pages()
    for _ in range(times):
        _core.keep_free_memory(entries, 2)
    return *(after - before for after, before in zip(pages(), (mapped, resident))),

_core.keep_free_memory(0, 1)
print(*grown(200_000, 200), *grown(400_000, 200), *grown(10**7, 200))
resource.setrlimit(resource.RLIMIT_AS, (pages()[0] * 4096, resource.RLIM_INFINITY))
_core.keep_free_memory(10**7, 2)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc and limits of Linux")
def test_phases_share_one_workspace():
    """32 bytes per entry, from 8 MB to 32 MB in total, in huge pages at the end of the heap. Failure to reserve them is no error."""
    done = subprocess.run([sys.executable, "-c", ROOM_FOR_PHASES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    mapped, resident = np.array([int(pages) * 4096 for pages in done.stdout.split()]).reshape(3, 2).T
    assert mapped.sum() < 2**27                      # half of it is address space of the second thread's heap
    assert resident[0] < 2**20 and resident[1] <= 32 * 400_000 + 2**21 and resident.sum() <= 2**25 + 2**20


SHORT = """
import os, resource, sys, tempfile, warnings
import numpy as np
import scipy.sparse as sp
import meshsolve as ms

warnings.simplefilter("ignore")
A = ms.datasets.grid3d(12, boundary="dirichlet")
U = sp.csr_array(A + sp.diags_array([np.full(A.shape[0] - 1, 0.3)], offsets=[1]))
B, mesh, folder = np.ones((A.shape[0], 100)), ms.datasets.icosphere(4), tempfile.mkdtemp()
F, G, K = ms.cholesky(A, threads=1), ms.lu(U, threads=1), ms.ildl(A, threads=1)
mesh.save(folder + "/a.ply"), mesh.save(folder + "/a.glb"), sp.save_npz(folder + "/a.npz", A)
calls = {"cholesky": lambda: F.solve(B), "lu": lambda: G.solve(B), "ildl": lambda: K.solve(B), "cg": lambda: ms.cg(A, B, threads=1),
         "gmres": lambda: ms.gmres(A, B[:, 0], threads=1), "sqmr": lambda: ms.sqmr(A, B[:, :9], threads=1), "matmul": lambda: F @ B,
         "eigsh": lambda: ms.eigsh(A, 6, threads=1), "ilu": lambda: ms.ilu(U, threads=1), "save": lambda: mesh.save(folder + "/b.obj"),
         "load_mesh": lambda: ms.load_mesh(folder + "/a.ply"), "load_glb": lambda: ms.load_mesh(folder + "/a.glb"),
         "load_matrix": lambda: ms.datasets.load_matrix(folder + "/a.npz"), "mcf": lambda: ms.apps.mcf(mesh, 2, threads=1)}
for call in calls.values():
    call()
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)            # SuperLU prints
wrong, short = [], 0
for name, call in calls.items():
    for kib in (128, 1500, 6000):
        with open("/proc/self/statm") as f:
            now = int(f.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + (kib << 10), resource.RLIM_INFINITY))
        try:
            call()
        except ms.OutOfMemoryError:
            short += 1
        except Exception as e:
            wrong.append(f"{name}, {kib} KiB: {type(e).__name__}: {e}")
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(short, *wrong, sep="\\n")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_short_memory_in_python_code_is_an_out_of_memory_error():
    """Not a bare MemoryError, and not an error that blames the matrix or the file."""
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", SHORT], capture_output=True, text=True, env=env, timeout=300)
    short, *wrong = done.stdout.splitlines()
    assert not wrong and int(short) > 10, (wrong, done.stdout)


def test_wrapped_functions_keep_their_names():
    """They are pickled by name, and show their signature."""
    for function in (ms.cholesky, ms.apps.smooth, ms.cg, ms.load_mesh):
        assert pickle.loads(pickle.dumps(function)) is function and "threads" in inspect.signature(function).parameters or function is ms.load_mesh
    assert isinstance(vars(ms.Mesh)["volume"], property) and ms.Mesh.volume.__doc__
