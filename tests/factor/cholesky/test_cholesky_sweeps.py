"""Solves with the Cholesky factor on the GPU: tasks, inverses of diagonal blocks, workspaces, bits."""

import functools
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from cuda_cases import BOUND, ZOO, close
from kernel_harness import Harness
from kernel_harness.strict import Strict
from on_device import Sparse, to_cuda, to_numpy
from zoo import backward_error, grid, random_spd, spd

import meshsolve as ms
from meshsolve import device
from meshsolve.factor.cholesky import sweeps_cuda
from meshsolve.factor.fronts import plan

SIZES = {                                                   # limits of small and medium fronts, rows of partial sums
    "default": sweeps_cuda.SIZES,
    "all kinds": sweeps_cuda.Sizes(20, 300, 32),
    "thread blocks": sweeps_cuda.Sizes(0, 10**9, 512),
    "tiles": sweeps_cuda.Sizes(0, 0, 40),
}
FEW, TILES, SUMS = range(3)                                 # enum Kind in tasks.cuh


@pytest.fixture(params=["default", "all kinds", *(pytest.param(name, marks=pytest.mark.slow) for name in ("thread blocks", "tiles"))])
def sizes(request, monkeypatch):
    monkeypatch.setattr(sweeps_cuda, "SIZES", SIZES[request.param])
    return request.param


@functools.cache
def wide():
    """Return a matrix of two fronts, of 70 pivots with 130 rows below them, and of 230 pivots."""
    A = np.random.default_rng(5).standard_normal((300, 300))
    A[:70, 70:170] = A[70:170, :70] = 0
    return sp.csr_array(A + A.T + 90 * np.eye(300))


@functools.cache
def branches():
    """Return a matrix of a front with 70 pivots and its three children, whose rows overlap in it. The first has two children."""
    A = np.zeros((102, 102))
    A[32:, 32:] = np.random.default_rng(6).standard_normal((70, 70))
    for begin, size, above, count in ((0, 4, 8, 8), (4, 4, 8, 8), (8, 8, 32, 40), (16, 8, 42, 40), (24, 8, 52, 40)):
        own = slice(begin, begin + size)
        A[own, own], A[own, above:above + count] = 0.5, 0.25
    return sp.csr_array(A + A.T + 60 * np.eye(102))


def tasks_of(tasks):
    return device.to_host(tasks.tasks).reshape(tasks.count, -1), device.to_host(tasks.fronts)


def fronts_of(task, order):
    """Return the fronts of a task."""
    kind, front, _, count = task[:4]
    return order[front:front + count] if kind == FEW else [front]


# ---- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_any_number_of_right_hand_sides(gpu, sizes, precision):
    for A, ordering in ((spd(grid(17, 14)), "nd"), (wide(), "natural")):
        F = ms.cholesky(A, precision=precision, ordering=ordering, device="cuda")
        host = ms.cholesky(A, precision=precision, ordering=F.symbolic.ordering.perm, device="cpu")
        B, bound = np.random.default_rng(1).standard_normal((A.shape[0], 64)), BOUND["double" if precision == "double" else "single"]
        for k in (1, 3, 9) if precision != "mixed" else (3,):
            for system in ("L", "Lt"):
                close(F.solve(B[:, :k], system=system), host.solve(B[:, :k], system=system), 10 * bound)
            close(F.solve(B[:, :k]), host.solve(B[:, :k]), 10 * BOUND[precision])
        if precision == "double" and sizes == "all kinds":
            close(F.solve(B), host.solve(B), 10 * bound)


def test_every_shape(gpu, sizes):
    for A in ZOO.values():
        F = ms.cholesky(A, device="cuda")
        b = np.random.default_rng(0).standard_normal((A.shape[0], 3))
        close(F.solve(b), ms.cholesky(A, ordering=F.symbolic.ordering.perm, device="cpu").solve(b), 1e-12)


def test_fixed_rows_pins_and_meshes(gpu, sizes):
    L = sp.csr_array(ms.cotan_laplacian(ms.datasets.icosphere(2)))
    b = L @ np.random.default_rng(2).standard_normal((L.shape[0], 5))
    for options, A in (({"pin": True}, L), ({"fixed": [3, 70]}, L), ({}, sp.csr_array(L + 0.1 * sp.eye_array(L.shape[0])))):
        x = ms.cholesky(A, device="cpu", **options).solve(b)
        close(ms.cholesky(A, device="cuda", **options).solve(b), x, 1e-11)


def test_the_bits_do_not_depend_on_thread_blocks(sizes):
    """Sizes and numbers of thread blocks, and schedules. The factor is made with the sizes of the launches: its tiles need them."""
    A, B, found = wide(), np.random.default_rng(0).standard_normal((300, 12)), []
    for options, block in (({"resident": 1}, None), ({"seed": 1}, 32), ({"seed": 2, "resident": 4}, 96)):
        with device.use(Harness(**options)) as harness:
            F = ms.cholesky(A, ordering="natural", precision="single" if sizes == "tiles" else "double", device="cuda")
            harness.block = block
            found.append([F.solve(B[:, :k]) for k in (1, 4, 12)])
    for other in found[1:]:
        assert all(np.array_equal(x, y) for x, y in zip(found[0], other))


def test_schedules_of_the_harness(varied, monkeypatch):
    """Other sizes of thread blocks for all kernels. No front goes by tiles in the numeric phase."""
    monkeypatch.setattr(sweeps_cuda, "SIZES", SIZES["all kinds"])
    A = spd(grid(15, 13))
    F, b = ms.cholesky(A, device="cuda"), np.arange(195.0 * 3).reshape(195, 3)
    close(F.solve(b), ms.cholesky(A, ordering=F.symbolic.ordering.perm, device="cpu").solve(b), 1e-10)


def test_inverses_of_the_diagonal_blocks(gpu, sizes):
    """Above the diagonal of the panels, transposed; the lower triangle is that of L, in later factors as well."""
    A = wide()
    F = ms.cholesky(A, ordering="natural", device="cuda").refactor(2 * A)
    engine, L = F._factor, F.L.toarray()
    table, panels = device.to_host(engine.tree.table), device.to_host(engine._panels)
    blocks = device.to_host(sweeps_cuda.plan_of(engine.tree).blocks).reshape(-1, 2)
    assert len(blocks) == 2 + 4
    for front, block in blocks:
        panel, leading, first, pivots = table[front][[0, 1, 5, 6]]
        square = panels[panel:panel + leading * pivots].reshape(pivots, leading).T[:pivots]
        part = slice(64 * block, min(64 * block + 64, pivots))
        W = np.tril(square[part, part].T, -1) + np.diag(1 / np.diag(square[part, part]))
        own = slice(first + part.start, first + part.stop)
        close(W @ L[own, own], np.eye(part.stop - part.start), 1e-13)


# ---- tasks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["default", "all kinds", "tiles"])
def test_tasks_are_in_topological_order(gpu, monkeypatch, name):
    """A task waits only for tasks before it, so no number of resident thread blocks makes a deadlock."""
    monkeypatch.setattr(sweeps_cuda, "SIZES", SIZES[name])
    for A, ordering in ((spd(grid(21, 17)), "nd"), (wide(), "natural"), (random_spd(90, 0.1, 3), "amd")):
        tree = ms.cholesky(A, ordering=ordering, device="cuda")._factor.tree
        cut, parent = sweeps_cuda._plan(tree), device.to_host(tree.parent)
        pivots, height = device.to_host(tree.table)[:, 6:8].T
        blocks = -(-pivots // 64)
        for tasks, is_forward in ((cut.forward, True), (cut.backward, False)):
            table, order = tasks_of(tasks)
            assert np.array_equal(np.sort(order), np.arange(tree.count))
            begin, end, parts = {}, {}, {}
            for ticket, task in enumerate(table):
                for front in fronts_of(task, order):
                    begin.setdefault(front, ticket)
                    end[front] = ticket
                    parts.setdefault(front, []).append(task)
            assert len(begin) == tree.count
            for front in np.flatnonzero(parent >= 0):
                before, after = (front, parent[front]) if is_forward else (parent[front], front)
                assert end[before] < begin[after]
            for front, own in parts.items():
                check_parts(own, blocks[front], height[front] - pivots[front], is_forward)


def check_parts(own, blocks, updates, is_forward):
    """Check that the tasks of a front have each tile once: pivots first, column blocks backward, after their partial sums."""
    if own[0][0] == FEW:
        assert len(own) == 1
        return
    if is_forward:
        expected, rows = list(range(blocks + -(-updates // own[0][4]))), [tile for task in own for tile in range(task[2], task[2] + task[3])]
        assert rows == expected
        return
    solved = [task[2] - k for task in own if task[0] == TILES for k in range(task[3])]
    summed = [(task[2], task[3]) for task in own if task[0] == SUMS]
    ranges = -(-updates // own[0][4]) if own[0][4] else 0
    assert solved == list(range(blocks))[::-1] and sorted(summed) == [(j, q) for j in range(blocks) for q in range(ranges)]
    assert all(task[0] == SUMS for task in own[:len(summed)])


def test_the_kinds_of_tasks(gpu, sizes):
    """Each set of limits makes the tasks that it is meant for."""
    expected = {"default": (9, 6), "all kinds": (9, 6 + 2 * 5), "thread blocks": (2, 2), "tiles": (9, 6 + 2 * 4)}[sizes]
    sym = ms.analyze(wide(), ordering="natural", device="cuda")
    assert np.array_equal(np.diff(sym.supernodes), [70, 230])
    cut = sweeps_cuda._plan(sym.factor(wide(), device="cuda")._factor.tree)
    assert (cut.forward.count, cut.backward.count) == expected and cut.partial_slots == max(expected[1] - 6, 0)
    small = sweeps_cuda._plan(ms.cholesky(spd(grid(20, 20)), ordering="nd", device="cuda")._factor.tree)
    assert (FEW in tasks_of(small.forward)[0][:, 0]) == (sizes in ("default", "all kinds"))


# ---- memory and streams -----------------------------------------------------------------------------------------------


def test_each_number_of_columns_and_each_stream_has_its_memory():
    A, B = spd(grid(15, 13)), np.random.default_rng(0).standard_normal((195, 9))
    with device.use(Harness()) as harness:
        F = ms.cholesky(A, device="cuda")
        sweeps, before = F._factor.sweeps, F._factor.nbytes
        x = [F.solve(B[:, :k]) for k in (3, 4, 9)]
        arrays = [id(workspace.Y) for workspace, _ in sweeps._kept.values()]
        assert set(sweeps._kept) == {(4, 1, 0), (8, 2, 0)} and F._factor.nbytes == before + sweeps.nbytes > before
        assert all(np.array_equal(F.solve(B[:, :k]), y) for k, y in zip((3, 4, 9), x))
        harness.stream = 7
        assert np.array_equal(F.solve(B), x[2]) and set(sweeps._kept) == {(4, 1, 0), (8, 2, 0), (8, 2, 7)}
        assert [id(workspace.Y) for workspace, _ in list(sweeps._kept.values())[:2]] == arrays


def test_several_threads_solve_at_once():
    A, found = spd(grid(15, 13)), {}
    B = [np.random.default_rng(seed).standard_normal((195, 3)) for seed in range(4)]
    harness = Harness()
    with device.use(harness):
        F = ms.cholesky(A, device="cuda")
        expected = [F.solve(b) for b in B]

    def solve(k):
        with device.use(harness):
            found[k] = [F.solve(B[k]) for _ in range(5)]

    threads = [threading.Thread(target=solve, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(x, expected[k]) for k, xs in found.items() for x in xs) and len(found) == 4


def test_a_stalled_solve_is_nan(monkeypatch):
    """The flag of a wait that has failed ends the sweeps. The next solve begins without it."""
    A, b = spd(grid(15, 13)), np.ones((195, 3))
    with device.use(Harness()):
        F = ms.cholesky(A, device="cuda")
        x = F.solve(b)
        (workspace, _), = F._factor.sweeps._kept.values()
        to_columns = sweeps_cuda.to_columns

        def stalled(*args):
            to_columns(*args)
            workspace.stalled[0] = 1

        monkeypatch.setattr(sweeps_cuda, "to_columns", stalled)
        assert np.isnan(F.solve(b)).all()
        monkeypatch.setattr(sweeps_cuda, "to_columns", to_columns)
        assert np.array_equal(F.solve(b), x)


def test_a_stalled_solve_of_a_captured_step_is_reported(monkeypatch):
    to_columns = sweeps_cuda.to_columns
    with device.use(Strict()):
        F, b, x = ms.cholesky(Sparse(spd(grid(15, 13))), device="cuda"), to_cuda(np.ones((195, 3))), to_cuda(np.zeros((195, 3)))
        engine = F._factor

        def stalled(*args):
            to_columns(*args)
            engine._status[plan.STALLED:plan.STALLED + 1].fill(1)           # cleared by each launch

        with F.capture() as step:
            F.solve(b, out=x)
        step.launch()
        F.check()
        monkeypatch.setattr(sweeps_cuda, "to_columns", stalled)
        with pytest.raises(ms.DeviceUnavailableError, match="no progress"), F.capture():
            F.solve(b, out=x)
        monkeypatch.setattr(sweeps_cuda, "to_columns", to_columns)
        step.launch()
        assert np.isfinite(to_numpy(F.check().solve(b))).all()


@pytest.mark.sanitize
def test_every_task_on_something_small(monkeypatch):
    """All kinds of tasks, their waits and their fences; one warp for each thread block, because threads are slow under a sanitizer."""
    monkeypatch.setattr(sweeps_cuda, "SIZES", sweeps_cuda.Sizes(16, 150, 32))
    A = random_spd(110, 0.12, 3)
    with device.use(Harness(seed=1)) as harness:
        F, b = ms.cholesky(A, ordering="amd", device="cuda"), np.ones((110, 2))
        harness.block = 32
        assert backward_error(A, F.solve(b), b) < 1e-14
        kinds = [tasks_of(tasks)[0][:, 0] for tasks in (F._factor.sweeps._plan.forward, F._factor.sweeps._plan.backward)]
    assert set(kinds[0]) == {FEW, TILES} and set(kinds[1]) == {FEW, TILES, SUMS}


@pytest.mark.sanitize
@pytest.mark.parametrize("sizes", [(0, 0, 20), (600, 600, 20)], ids=["tiles", "few"])
def test_tasks_of_two_warps(monkeypatch, sizes):
    """Each tile and column block is a task: it waits for children, for earlier blocks of its front, and for partial sums."""
    monkeypatch.setattr(sweeps_cuda, "SIZES", sweeps_cuda.Sizes(*sizes))
    A, b = branches(), np.arange(204.0).reshape(102, 2)
    with device.use(Harness(seed=1, resident=3)) as harness:
        F = ms.cholesky(A, ordering="natural", device="cuda")
        harness.block = 64
        assert backward_error(A, F.solve(b), b) < 1e-14
        kinds = [tasks_of(tasks)[0][:, 0] for tasks in (F._factor.sweeps._plan.forward, F._factor.sweeps._plan.backward)]
    assert [set(kind) for kind in kinds] == ([{FEW, TILES}, {FEW, TILES}] if sizes[0] else [{TILES}, {TILES, SUMS}])
    assert (kinds[0] == FEW).sum() == (2 if sizes[0] else 0)            # the second waits for the first
