"""Threads on one factor: any number may read it, or one may change it. A conflicting call is refused, and results are right."""

import contextlib
import copy
import os
import pickle
import signal
import threading
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness.harness import Harness
from zoo import backward_error

import meshsolve as ms
from meshsolve import device
from meshsolve.errors import FactorInUseError
from meshsolve.factor.lu import levels_by

SIZE = 24
n = SIZE**2
A = ms.datasets.grid2d(SIZE, SIZE, boundary="dirichlet")
L = ms.datasets.grid2d(SIZE, SIZE)
U = sp.csr_array(A + sp.diags_array([np.full(n - 1, 0.3)], offsets=[1]))
K = sp.csr_array(A - 2.5 * sp.eye_array(n))
b = np.random.default_rng(0).standard_normal(n)
b -= b.mean()
CASES = {
    "cholesky": (A, lambda M: ms.cholesky(M, device="cpu", threads=2)),
    "mixed": (A, lambda M: ms.cholesky(M, precision="mixed", device="cpu", threads=2)),
    "pinned": (L, lambda M: ms.cholesky(M, pin=True, device="cpu", threads=2)),
    "fronts": (U, lambda M: ms.lu(M, engine="fronts", device="cpu", threads=2)),
    "columns": (U, lambda M: ms.lu(M, engine="columns", device="cpu", threads=2)),
    "single": (U, lambda M: ms.lu(M, precision="single", device="cpu", threads=2)),
    "complex": (U * (1 + 1j), lambda M: ms.lu(M, threads=2)),
    "ldl": (K, lambda M: ms.ildl(M, fill_level=None, device="cpu", threads=2)),
    "incomplete": (K, lambda M: ms.ildl(M, fill_level=1, device="cpu", threads=2)),
}
USES = {
    "solve": lambda F: F.solve(b), "solve a block": lambda F: F.solve(np.stack([b, -b], axis=1)), "@": lambda F: F @ b, "call": lambda F: F(b),
    "matvec": lambda F: F.matvec(b), "rmatvec": lambda F: F.rmatvec(b), "transpose": lambda F: F.T @ b, "adjoint": lambda F: F.H @ b,
    "out": lambda F: F.solve(b, out=np.empty(n, F.dtype if F.dtype.kind == "c" else float)), "complex": lambda F: F.solve(b * 1j), "refactor": lambda F: F.refactor(sp.eye_array(n)),
    "L": lambda F: F.L, "pickle": pickle.dumps, "copy": copy.copy, "deepcopy": copy.deepcopy,
}
OTHERS = {
    "CholeskyFactor": {"triangular": lambda F: F.solve(np.ones(F.symbolic.n), "L"), "logdet": lambda F: F.logdet(), "rcond": lambda F: F.rcond(),
                       "diagonal": lambda F: F.inverse_diagonal(), "inverse": lambda F: F.selected_inverse()},
    "LUFactor": {"T": lambda F: F.solve(b, "T"), "H": lambda F: F.solve(b, "H"), "U": lambda F: F.U, "slogdet": lambda F: F.slogdet(), "rcond": lambda F: F.rcond(),
                 "row_perm": lambda F: F.row_perm, "levels": lambda F: F.levels, "levels_by": lambda F: levels_by(F, "upper")},
    "IldlFactor": {"D": lambda F: F.D, "perm": lambda F: F.perm, "inertia": lambda F: F.inertia, "slogdet": lambda F: F.slogdet(),
                   "iterate": lambda F: iterate(F), "apply_columns": lambda F: F.apply_columns(b[:, None])},
}


def iterate(F):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ms.ConvergenceWarning)
        ms.sqmr(K, b, M=F, maxiter=2)


class Slow:
    """An argument whose conversion to an array waits for the test, then succeeds or raises: it keeps a call running."""

    def __init__(self, array, ends=None):
        self.array, self.ends, self.entered, self.may = array, ends, threading.Event(), threading.Event()
        self.shape = array.shape

    def __array__(self, dtype=None, copy=None):
        self.entered.set()
        assert self.may.wait(600)
        if self.ends is not None:
            raise self.ends
        return np.asarray(self.array, dtype)


@contextlib.contextmanager
def meanwhile(call, argument):
    """Run ``call(argument)`` on another thread during the block; the yielded list then has its result or exception."""
    done = []

    def work():
        try:
            done.append(call(argument))
        except BaseException as e:
            done.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    assert argument.entered.wait(600)
    try:
        yield done
    finally:
        argument.may.set()
        thread.join()


def together(*works):
    """Run each of these on its own thread at the same time, and raise their first exception."""
    start, raised = threading.Barrier(len(works)), []

    def run(work):
        try:
            start.wait()
            work()
        except BaseException as e:
            raised.append(e)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if raised:
        raise raised[0]


@pytest.fixture(params=CASES)
def case(request):
    M, make = CASES[request.param]
    F = make(M)
    return M, F, F.solve(b)


def test_nothing_reads_a_factor_while_it_is_refactored(case):
    M, F, x = case
    with meanwhile(F.refactor, Slow((2 * M).toarray())) as done:
        for name, use in (USES | OTHERS[type(F).__name__]).items():
            with pytest.raises(FactorInUseError, match="is being refactored by another call"):
                use(F)
                pytest.fail(name)
        assert repr(F) and str(F.report) and F.nnz and F.report.as_dict()
    assert done == [F]
    assert np.array_equal(F.solve(b), F.refactor(2 * M).solve(b))
    assert np.allclose(F.solve(b), x / 2, rtol=1e-4, atol=1e-5)


def test_a_factor_that_is_solved_with_is_not_refactored(case):
    M, F, x = case
    with meanwhile(F.solve, Slow(b)) as done:
        for _ in range(2):
            with pytest.raises(FactorInUseError, match="is using the factor"):
                F.refactor(2 * M)
        for name, use in (USES | OTHERS[type(F).__name__]).items():        # readers are accepted
            if name != "refactor" and not (name == "slogdet" and getattr(F, "is_complete", True) is False):
                use(F)
        assert np.array_equal(F.solve(b), x)
        copy.copy(F).refactor(2 * M)                                       # copies are independent
        pickle.loads(pickle.dumps(F)).refactor(2 * M)
    assert np.array_equal(done[0], x)
    F.refactor(2 * M)


@pytest.mark.parametrize("ends", [ValueError("whatever"), KeyboardInterrupt(), MemoryError()], ids=lambda e: type(e).__name__)
def test_calls_that_end_in_errors_leave_the_factor_free(case, ends):
    M, F, x = case
    with meanwhile(F.refactor, Slow(M.toarray(), ends)) as done:
        pass
    assert isinstance(done[0], (type(ends), ms.InvalidInputError)) and np.array_equal(F.solve(b), x)
    with meanwhile(F.solve, Slow(b, ends)) as done:
        pass
    assert isinstance(done[0], (type(ends), ms.InvalidInputError)) and F.refactor(M) is F
    with pytest.raises(ms.MeshsolveError):
        F.refactor(np.full((n, n), np.nan))
    with pytest.raises(ms.MeshsolveError):
        F.solve(np.full(n, np.nan))
    assert np.array_equal(F.refactor(M).solve(b), x)


def test_a_progress_callable_must_not_use_the_factor(case):
    M, F, x = case
    used = []

    def progress(phase, done, total):
        if not used:
            used.append(phase)
            F.solve(b)

    with ms.showing_progress(progress), pytest.raises(FactorInUseError):
        F.refactor(2 * M)
    assert used and np.array_equal(F.solve(b), x)


def test_the_error_is_a_runtime_and_a_meshsolve_error():
    assert issubclass(FactorInUseError, RuntimeError) and issubclass(FactorInUseError, ms.MeshsolveError)


@pytest.mark.native
def test_concurrent_solves_and_refactorizations(case):
    """Concurrent solves and refactorizations of one factor: each gives one of the two right answers, or is refused."""
    M, F, x = case
    matrices = M, 2 * M
    right = [F.refactor(N).solve(b) for N in matrices]
    solved, refactored, refused = [0], [0], [0]
    given_up = time.monotonic() + 600

    def continues():
        return min(solved[0] / 100, refactored[0] / 100) < 1 and time.monotonic() < given_up

    def solve():
        while continues():
            try:
                y = F.solve(b)
                assert any(np.array_equal(y, z) for z in right)
                solved[0] += 1
            except FactorInUseError:
                refused[0] += 1
            time.sleep(1e-4)

    def refactor():
        k = 0
        while continues():
            with contextlib.suppress(FactorInUseError):
                F.refactor(matrices[k % 2])
                k += 1
                refactored[0] += 1
            time.sleep(1e-4)

    together(solve, solve, refactor, refactor)
    assert solved[0] and refactored[0]
    assert not F._sharing.readers and not F._sharing.writers
    assert np.array_equal(F.refactor(M).solve(b), right[0])


@pytest.mark.native
def test_first_solves_at_once_choose_pivots_once():
    """The first solve finds unsuitable pivots and repivots once. Concurrent solves get solutions of the new factor."""
    M = sp.csr_array(ms.datasets.grid2d(30, 30) + sp.eye_array(900) + sp.diags_array([np.full(899, 0.3)], offsets=[1]))
    weak = sp.csr_array(M - sp.diags_array(M.diagonal() - 1e-9))
    B = np.random.default_rng(1).standard_normal((8, 900))
    for _ in range(5):
        F = ms.lu(M, engine="fronts", device="cpu", threads=2).refactor(weak)
        assert F.report.facts["repivoted"] == 0
        X, facts = [None] * 8, []

        def work(k, F=F, X=X, facts=facts):
            X[k] = F.solve(B[k], "NT"[k % 2])
            facts.append(F.report.facts["repivoted"])

        together(*(lambda k=k: work(k) for k in range(8)), lambda F=F: (F.L, F.U, F.slogdet(), pickle.dumps(F)))
        assert facts[-1] == 1
        assert all(backward_error(weak.T if k % 2 else weak, x, B[k]) < 1e-12 for k, x in enumerate(X))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
def test_interrupts_at_any_moment_leave_the_factor_free():
    F, x = ms.cholesky(A, device="cpu", threads=1), None

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    caught, rng = 0, np.random.default_rng(0)
    try:
        for k in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, float(rng.uniform(2e-5, 4e-4)))
                while True:
                    F.solve(b) if k % 2 else F.refactor(A)
            except KeyboardInterrupt:
                caught += 1
            assert not F._sharing.readers and not F._sharing.writers
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert caught == 400
    x = F.refactor(A).solve(b)
    assert abs(A @ x - b).max() < 1e-12


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
def test_a_forked_child_does_not_wait_for_its_parent():
    F, G = ms.cholesky(A, device="cpu", threads=1), ms.lu(U, device="cpu", threads=1)
    x = F.solve(b)
    with meanwhile(F.solve, Slow(b)), meanwhile(G.solve, Slow(b)), G._sharing.turn():
        assert in_child(lambda: np.array_equal(F.refactor(A).solve(b), x) and abs(U @ G.solve(b) - b).max() < 1e-12)
    with meanwhile(F.refactor, Slow(A.toarray())):
        def refused():
            with pytest.raises(FactorInUseError):
                F.solve(b)
            return True
        assert in_child(refused)
    assert in_child(lambda: np.array_equal(F.solve(b), x))


def in_child(call):
    """True if ``call()`` is true in a forked child, which is killed after ten minutes."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if call() else 1)
        finally:
            os._exit(2)
    for _ in range(60_000):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


@pytest.mark.slow
def test_solves_on_a_gpu_take_turns():
    """Their launches share memory and counters, so those of two threads must not interleave."""
    harness = Harness()
    with device.use(harness):
        F = ms.ildl(K, fill_level=1, device="cuda")
        on_gpu, apply = device.to_device(b[:, None].copy()), F._core.apply_device
        x = F.solve(b)
    inside, most = [0], [0]

    def counted(block):
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.005)
        try:
            return apply(block)
        finally:
            inside[0] -= 1

    F._core.apply_device = counted

    def work(use):
        with device.use(harness):
            assert np.array_equal(device.to_host(use()).reshape(-1), x)

    uses = [lambda: F.solve(b), lambda: F.apply_on_device(on_gpu), lambda: F.apply_columns(b[:, None])]
    together(*(lambda use=use: work(use) for use in uses * 2))
    assert most == [1]
