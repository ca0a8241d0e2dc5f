"""The native layer seen from Python: processes and threads around it, interrupts and progress inside it."""

import contextlib
import os
import pickle
import platform
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve import datasets
from meshsolve.sparse.matrix import as_csr
from meshsolve.sparse.product import measured_residual

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SLOW = 42              # side of a grid whose numeric phase takes more than the 50 ms between progress reports


def problem(n=60):
    """A system large enough for several tasks, and right-hand sides."""
    A = datasets.grid2d(n, n, boundary="dirichlet")
    return A, np.random.default_rng(n).standard_normal((A.shape[0], 3))


def everything(A, b, threads):
    """Ordering, factor and solution of a system."""
    F = ms.cholesky(A, threads=threads)
    return F.perm.copy(), F.L.data, F.solve(b)


def python(code, **environment):
    """Run code in a new process; its standard output."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1200,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- processes ----------------------------------------------------------------------------------------------------------


@needs_fork
def test_a_forked_child_has_a_pool_of_its_own():
    A, b = problem(90)
    parent = everything(A, b, 2)                    # starts the thread pool of this process
    F = ms.cholesky(A, threads=2)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:                                  # without pytest: answer and exit
        try:
            answer = (*everything(A, b, 2), F.refactor(2 * A).solve(b))
            with os.fdopen(write, "wb") as f:
                pickle.dump(answer, f)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as f:
        answer = pickle.load(f)
    os.waitpid(child, 0)
    assert all(np.array_equal(x, y) for x, y in zip(parent, answer[:3]))
    assert np.array_equal(F.solve(b), parent[2]) and np.array_equal(answer[3], F.refactor(2 * A).solve(b))


@pytest.mark.slow
@needs_fork
def test_progress_in_a_child_forked_during_a_restore():
    """A restoring thread shows no progress, but the forked child, in the place of another thread, does."""
    A = datasets.grid3d(SLOW, boundary="dirichlet")
    F, S = ms.cholesky(A, threads=1), ms.analyze(A, "nd")
    start = time.perf_counter()
    F.refactor(A)
    took = time.perf_counter() - start

    def fails():                                    # -A fails at its first pivot: nearly all the time is spent restoring
        with pytest.raises(ms.NotPositiveDefiniteError):
            F.refactor(-A)

    def progress(phase, done, total):
        if total:
            os._exit(0)

    restoring = threading.Thread(target=fails)
    restoring.start()
    time.sleep(took / 2)
    child = os.fork()
    if child == 0:
        try:
            with ms.showing_progress(progress):
                for _ in range(10):
                    S.factor(A, threads=2)
        finally:
            os._exit(1)
    restoring.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


SMALL_STACKS = """
import ctypes
attributes = (ctypes.c_size_t * 16)()
libc = ctypes.CDLL(None)
libc.pthread_attr_init(attributes)
libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(512 << 10))
assert libc.pthread_setattr_default_np(attributes) == 0
import numpy as np
import scipy.sparse as sp
import meshsolve as ms

M = np.random.default_rng(0).standard_normal((2, 900, 900))
A = sp.csr_array(M[0] + 1j * M[1] + 1800 * np.eye(900))
print(abs(A @ ms.lu(A, engine="fronts", threads=2).solve(np.ones(900)) - 1).max() < 1e-10)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="sets the size with a call of glibc")
def test_dense_kernels_fit_the_stack_of_a_worker():
    """Threads on macOS have 512 KiB."""
    assert python(SMALL_STACKS).split() == ["True"]


@pytest.mark.slow
def test_the_setting_of_the_environment_changes_no_bit():
    code = ("import meshsolve as ms, numpy as np, hashlib; A = ms.datasets.grid2d(80, 80, boundary='dirichlet');"
            "F = ms.cholesky(A); print(F.report.as_dict()['threads'], hashlib.sha1(F.solve(np.arange(6400.0)).tobytes() + F.perm.tobytes()).hexdigest())")
    answers = [python(code, MESHSOLVE_NUM_THREADS=str(n)).split() for n in (1, 2, 3)]
    assert [count for count, _ in answers] == ["1", "2", "3"] and len({digest for _, digest in answers}) == 1


CROWDED = """
import os, resource, sys
if "again" not in sys.argv:                                   # stacks of new threads are as large as this limit says
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 30, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    os.execv(sys.executable, [*sys.orig_argv, "again"])
import numpy as np
import meshsolve as ms

A, b = ms.datasets.grid2d(100, 100, boundary="dirichlet"), np.ones(10_000)
one = ms.cholesky(A, "nd", threads=1)
with open("/proc/self/statm") as f:
    used = int(f.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (3500 << 20), resource.RLIM_INFINITY))     # room for three of them
for threads in (300, 2, 300):
    many = ms.cholesky(A, "nd", threads=threads)
    print(np.array_equal(many.perm, one.perm) and np.array_equal(many.solve(b), one.solve(b)))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_fewer_threads_than_requested_do_the_same_work():
    """If the system refuses more threads, the existing threads do all work. Waiting for a missing one would never end."""
    assert python(CROWDED).split() == ["True"] * 3


# ---- threads of Python --------------------------------------------------------------------------------------------------


def in_threads(calls):
    """Run the calls side by side; their results, or the first exception."""
    results, errors = [None] * len(calls), []

    def run(k):
        try:
            results[k] = calls[k]()
        except BaseException as e:
            errors.append(e)

    workers = [threading.Thread(target=run, args=(k,)) for k in range(len(calls))]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    if errors:
        raise errors[0]
    return results


def test_one_factor_solves_for_many_python_threads():
    A, _ = problem()
    F = ms.cholesky(A, threads=2)
    rhs = [np.random.default_rng(k).standard_normal((A.shape[0], 1 + k % 4)) for k in range(12)]
    alone = [F.solve(b) for b in rhs]
    for _ in range(3):
        assert all(np.array_equal(x, y) for x, y in zip(alone, in_threads([lambda b=b: F.solve(b) for b in rhs])))


def test_python_threads_factor_side_by_side():
    problems = [problem(n) for n in (40, 55, 60, 70)]
    alone = [everything(*p, 2) for p in problems]
    together = in_threads([lambda p=p: everything(*p, 2) for p in problems])
    assert all(np.array_equal(x, y) for one, two in zip(alone, together) for x, y in zip(one, two))


def test_an_error_in_one_thread_is_its_own():
    A, b = problem()
    bad = A.tolil()
    bad[77, 77] = -9.0
    bad = bad.tocsr()

    def fails():
        with pytest.raises(ms.NotPositiveDefiniteError):
            ms.cholesky(bad, threads=2)
        return b

    x = ms.cholesky(A).solve(b)
    for k, y in enumerate(in_threads([lambda: ms.cholesky(A, threads=2).solve(b), fails] * 3)):
        assert k % 2 or np.array_equal(x, y)


def test_other_python_threads_run_meanwhile():
    """The GIL is released: a counter runs during a factorization. Otherwise it would count once between factorizations."""
    A = datasets.grid3d(28, boundary="dirichlet")
    beats, stop = [], threading.Event()

    def beat():
        while not stop.wait(0.002):
            beats.append(True)

    F = ms.cholesky(A, threads=1)
    watcher = threading.Thread(target=beat)
    watcher.start()
    most = 0
    for _ in range(200):                            # on a busy machine the counter may be delayed
        before = len(beats)
        F.refactor(A)
        most = max(most, len(beats) - before)
        if most >= 5:
            break
    stop.set()
    watcher.join()
    assert most >= 5


@pytest.mark.slow
def test_a_callback_may_solve_again():
    """Nested use: the progress callable calls the solver itself."""
    A, b = problem(20)
    x, inside, busy = ms.cholesky(A).solve(b), [], []

    def progress(phase, done, total):
        if total and not busy and len(inside) < 3:
            busy.append(True)                       # the inner solver reports progress as well
            inside.append(ms.cholesky(A, threads=2).solve(b))
            busy.clear()

    B = datasets.grid3d(SLOW, boundary="dirichlet")
    y = ms.cholesky(B, threads=2).solve(np.ones(B.shape[0]))
    with ms.showing_progress(progress):
        z = ms.cholesky(B, threads=2).solve(np.ones(B.shape[0]))
    assert inside and all(np.array_equal(x, each) for each in inside) and np.array_equal(y, z)


# ---- interrupts ---------------------------------------------------------------------------------------------------------


def interrupted(call, after):
    """Send Ctrl-C after ``after`` seconds. Return the CPU seconds of this process until KeyboardInterrupt, or None if the call
    ended before."""
    sent = []

    def send():
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, send)
    timer.start()
    try:
        call()
    except KeyboardInterrupt:
        return time.process_time() - sent[0]
    finally:
        timer.cancel()
        timer.join()
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(0.2)                             # for a late signal
    return None


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_during_refactor_keeps_the_earlier_factor(threads):
    A = datasets.grid3d(32, boundary="dirichlet")
    b = np.arange(A.shape[0], dtype=float)
    F = ms.cholesky(A, threads=threads)
    x = F.solve(b)
    start, worked = time.perf_counter(), time.process_time()
    F.refactor(A)
    took, worked = time.perf_counter() - start, time.process_time() - worked
    delay = interrupted(lambda: [F.refactor(3 * A) for _ in range(100)], 1.5 * took)
    assert delay is not None and delay < 20 * worked          # the factor is restored before the exception is raised
    y = F.solve(b)
    assert np.array_equal(y, x) or np.array_equal(y, F.refactor(3 * A).solve(b))
    assert np.array_equal(F.refactor(A).solve(b), x)


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_during_an_ordering(threads):
    mesh = datasets.icosphere(7)
    call = lambda: ms.order.nested_dissection(mesh, effort="quality", threads=threads)
    start, worked = time.perf_counter(), time.process_time()
    call()
    took, worked = time.perf_counter() - start, time.process_time() - worked
    delays = [interrupted(call, 0.1 * took) for _ in range(6)]
    delays_seen = [delay for delay in delays if delay is not None]
    assert len(delays_seen) >= 3 and min(delays_seen) < 0.4 * worked, (delays, worked)
    assert len(ms.order.nested_dissection(mesh, threads=threads)) == len(mesh.vertices)


def expander(n, degree=4):
    """A graph without separators, on which minimum degree is slow."""
    row, column = np.repeat(np.arange(n), degree), np.random.default_rng(n).integers(0, n, n * degree)
    A = sp.coo_array((np.ones(n * degree), (row, column)), shape=(n, n)).tocsr()
    A.setdiag(0)
    return A + A.T


@pytest.mark.slow
def test_ctrl_c_while_the_caller_waits_for_a_worker():
    """The caller mostly orders the small graph, and then waits for the worker with the large one."""
    A = sp.block_diag([expander(80_000), expander(4_000)], format="csr")
    start, worked = time.perf_counter(), time.process_time()
    ms.order.nested_dissection(A, threads=2)
    took, worked = time.perf_counter() - start, time.process_time() - worked
    delays = []
    for _ in range(6):                                       # the machine may be faster than in the first run
        delays.append(interrupted(lambda: ms.order.nested_dissection(A, threads=2), 0.3 * took))
    delays_seen = [delay for delay in delays if delay is not None]
    assert len(delays_seen) >= 3 and sorted(delays_seen)[len(delays_seen) // 2] < 0.4 * worked, (delays, worked)


def long_steps():
    """Calls on one thread that spend most of their time in one step of the C++ core, by name."""
    rng = np.random.default_rng(0)
    wide = sp.random_array((1300, 1300), density=0.02, rng=rng) + sp.eye_array(1300)
    blocks = ms.lu(sp.csr_array(sp.block_array([[wide, wide], [None, sp.eye_array(1300)]])), threads=1, repivot=False)
    scattered = sp.random_array((25_000, 25_000), density=2e-3, rng=rng, format="csr")
    scattered = sp.csr_array(scattered + scattered.T + sp.eye_array(25_000))
    solid, dense = datasets.grid3d(18, boundary="dirichlet"), sp.csr_array(rng.standard_normal((1000, 1000)) + 1j)
    incomplete, sampled = ms.ildl(solid, fill_level=12, droptol=0, threads=1), ms.parac(solid, samples=300, threads=1)
    many, M = np.ones((solid.shape[0], 3000)), as_csr(solid)
    square = rng.standard_normal((1800, 1800))
    many_columns = 1000 * np.arange(801), np.tile(np.arange(1000, dtype=np.int32), 800), rng.standard_normal(800_000)
    large, larger = (ms.cholesky(square[:n] @ square[:n].T + n * np.eye(n), threads=1) for n in (1000, 1800))
    return {
        "rotations of a large front": lambda: large._factor._factor.update(*many_columns, False, 1),
        "the inverse of a large front": larger.inverse_diagonal,
        "the rows of U above its blocks": lambda: blocks.U,
        "rows of similar patterns": lambda: ms.ildl(scattered, fill_level=0, blocking="BR", ordering="natural", threads=1),
        "a left-looking factorization": lambda: ms.lu(dense, engine="columns", threads=1),
        "the backward error of many columns": lambda: measured_residual(M, False, many, many),
        "an incomplete factor applied to many columns": lambda: incomplete @ many,
        "a sampled factor applied to many columns": lambda: sampled @ many,
    }


@pytest.fixture(scope="module")
def steps():
    return long_steps()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rotations of a large front", "the inverse of a large front", "the rows of U above its blocks", "rows of similar patterns", "a left-looking factorization",
                                  "the backward error of many columns", "an incomplete factor applied to many columns",
                                  "a sampled factor applied to many columns"])
def test_ctrl_c_within_a_long_step(steps, name):
    start = time.perf_counter()
    steps[name]()
    took = time.perf_counter() - start
    delays = []
    for _ in range(5):                                       # on a busy machine an interrupt may be late
        delays.append(interrupted(steps[name], 0.1 * took))
        if delays[-1] is not None and delays[-1] < 0.15 * took + 0.12:
            return
    pytest.fail(f"{delays} s after Ctrl-C, of {took} s")


# ---- progress -----------------------------------------------------------------------------------------------------------


def test_progress_reports_phases_and_growing_counts():
    seen = []
    A = datasets.grid3d(SLOW, boundary="dirichlet")
    with ms.showing_progress(lambda *args: seen.append(args)):
        for _ in range(100):                         # a fast machine may finish before the first report
            seen.clear()
            ms.cholesky(A, threads=2).solve(np.ones(SLOW**3))
            if any(total for name, _, total in seen if name == "numeric"):
                break
    phases = list(dict.fromkeys(phase for phase, _, _ in seen))
    assert phases == ["order", "symbolic", "numeric", "solve"]
    for phase in phases:
        counts = [(done, total) for name, done, total in seen if name == phase and total]
        assert all(0 <= done <= total for done, total in counts), (phase, counts)
        assert [done for done, _ in counts] == sorted(done for done, _ in counts), (phase, counts)
    assert any(total for name, _, total in seen if name == "numeric")
    count = len(seen)
    ms.cholesky(datasets.grid2d(9, 9, boundary="dirichlet"))
    assert len(seen) == count                       # no more reports after the block


@pytest.mark.slow
def test_an_exception_of_progress_stops_the_work():
    def progress(phase, done, total):
        if total:
            raise LookupError("enough")

    A = datasets.grid3d(SLOW, boundary="dirichlet")
    with pytest.raises(LookupError, match="enough"), ms.showing_progress(progress):
        for _ in range(100):                         # one may finish before the first report
            ms.cholesky(A, threads=2)
    b = np.ones(A.shape[0])
    F = ms.cholesky(A, threads=2)
    x = F.solve(b)
    with pytest.raises(LookupError), ms.showing_progress(progress):
        for _ in range(100):
            F.refactor(A)
    assert np.array_equal(F.solve(b), x)


@pytest.mark.native
def test_progress_belongs_to_the_thread_that_shows_it():
    """Work of other threads is not reported, and continues when the callable raises."""
    A = datasets.grid3d(SLOW, boundary="dirichlet")
    S, callers, done = ms.analyze(A, "nd"), [], threading.Event()

    def progress(phase, done, total):
        callers.append(threading.get_ident())
        if len(callers) == 8:
            raise LookupError("enough")

    def shows():
        try:
            with pytest.raises(LookupError), ms.showing_progress(progress):
                for _ in range(100):
                    S.factor(A, threads=2)
        finally:
            done.set()
        return {threading.get_ident()}

    def shows_nothing():
        S.factor(A, threads=2)
        while not done.is_set():
            S.factor(A, threads=2)

    assert in_threads([shows, shows_nothing])[0] == set(callers)


@pytest.mark.slow
def test_progress_of_one_large_front_on_one_thread():
    half = np.random.default_rng(0).standard_normal((3000, 3000))
    A, reports = sp.csr_array(half + half.T + 3000 * np.eye(3000)), []
    F = ms.cholesky(A, "natural", threads=1)
    with ms.showing_progress(lambda *args: reports.append(args)):
        F.refactor(A)
    assert any(total for _, _, total in reports)


def test_a_raising_callable_does_not_stop_the_restore():
    """-A fails at its first pivot, so the callable raises while the earlier factor is restored."""
    def progress(phase, done, total):
        if total:
            raise LookupError("enough")

    A = datasets.grid3d(36, boundary="dirichlet")
    b = np.ones(A.shape[0])
    F = ms.cholesky(A, threads=2)
    x = F.solve(b)
    with pytest.raises(ms.NotPositiveDefiniteError), ms.showing_progress(progress):
        F.refactor(-A)
    assert np.array_equal(F.solve(b), x)


def test_progress_is_nested_and_restored():
    outer, inner = [], []
    with ms.showing_progress(lambda *args: outer.append(args)):
        with ms.showing_progress(lambda *args: inner.append(args)):
            ms.order.amd(datasets.grid2d(9, 9))
        count = len(inner)
        ms.cholesky(datasets.grid3d(SLOW, boundary="dirichlet"))
    assert count and len(inner) == count and any(total for _, _, total in outer)
