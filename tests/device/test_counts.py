"""Operations of each phase on the GPU, counted on the harness: launches, array expressions, reads, allocations, uploads, library calls.

Each costs the host 5 to 40 microseconds, and a read empties the queue of the GPU. The limits are the numbers of today: a change that
lowers one lowers its limit. The matrices lie on the host unless a case says otherwise; `solve` is a solve after the first one.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness import KernelError
from kernel_harness.strict import KINDS, Strict
from on_device import Sparse, to_cuda
from zoo import grid, spd

import meshsolve as ms
from meshsolve import device
from meshsolve.factor.fronts.cuda import device_tree
from meshsolve.factor.fronts.plan import FAILED, NONE
from meshsolve.factor.symbolic import Symbolic, location

# launches, expressions, reads, allocations, uploads, library calls
CHOLESKY = {
    "analyze": (45, 103, 15, 60, 7, 0),
    "symbolic": (33, 19, 4, 32, 3, 0),
    "first numeric": (18, 69, 11, 30, 0, 0),
    "refactor": (4, 1, 1, 0, 0, 0),
    "solve": (5, 3, 1, 2, 0, 0),
    "refactor, fixed rows": (4, 1, 1, 0, 0, 0),
    "solve, fixed rows": (7, 3, 1, 4, 0, 0),
    "refactor, pinned": (5, 1, 1, 0, 0, 0),
    "solve, pinned": (21, 9, 5, 16, 2, 0),
    "refactor, matrix on the host": (4, 1, 1, 0, 3, 0),
    "mixed: refactor": (4, 1, 1, 0, 0, 0),
    "mixed: solve": (51, 19, 5, 47, 0, 0),
}
OTHERS = {
    "lu fronts": {"first": (69, 17, 5, 36, 17, 0), "refactor": (54, 2, 1, 0, 1, 0), "solve": (44, 2, 1, 4, 0, 0)},
    "lu columns": {"first": (14, 3, 1, 8, 18, 0), "refactor": (14, 3, 1, 0, 1, 0), "solve": (4, 2, 1, 3, 0, 0)},
    "ldlt": {"first": (49, 14, 6, 27, 98, 0), "refactor": (36, 6, 1, 1, 3, 0), "solve": (56, 6, 3, 12, 0, 0)},
    "ildl": {"first": (3, 58, 11, 29, 24, 0), "refactor": (3, 58, 11, 24, 10, 0), "solve": (3, 2, 2, 2, 0, 0)},
    "parac": {"first": (74, 106, 15, 32, 14, 0), "solve": (4, 3, 2, 6, 0, 0)},
    "parac amd": {"first": (5, 90, 11, 25, 11, 0), "solve": (4, 3, 2, 6, 0, 0)},
}
ANALYZED_ON_GPU = {             # the same of "first", with the analysis of 75 x 75 grids
    "lu fronts": (107, 103, 17, 81, 17, 0),
    "ldlt": (82, 86, 16, 70, 78, 0),
}
BATCH = {"refactor": (2, 3, 1, 0, 0, 0), "solve": (1, 0, 1, 4, 0, 0)}         # of any number of systems that fill the GPU
BATCH_BY_LEVELS = {"refactor": (12, 3, 1, 0, 0, 0), "solve": (22, 0, 1, 4, 0, 0)}         # of fewer: a launch for each level
MATRIX, SMALL = spd(grid(75, 75)), spd(grid(40, 40))


@pytest.fixture
def harness():
    with device.use(Strict()) as harness:
        yield harness


def numbers(harness, call):
    """Return the numbers of operations of a call in the order of the limits, and its result."""
    with harness.counted() as found:
        result = call()
    return tuple(found[kind] for kind in KINDS), result


def within(name, found, limits):
    assert np.less_equal(found, limits).all(), f"{name}: {dict(zip(KINDS, found))}, limits {limits}"


def phase(harness, name, call):
    """Count the operations of a phase of Cholesky, compare them with its limits, and return its result."""
    found, result = numbers(harness, call)
    within(name, found, CHOLESKY[name])
    return result


def test_cholesky(harness):
    A, b = Sparse(MATRIX), to_cuda(np.ones((MATRIX.shape[0], 3)))
    S = phase(harness, "analyze", lambda: ms.analyze(A, device="cuda"))
    phase(harness, "symbolic", lambda: device_tree(Symbolic.build(S.pattern_on_device, S.ordering.perm, place="cuda")))
    F = phase(harness, "first numeric", lambda: S.factor(A, device="cuda"))
    F.refactor(A).solve(b)
    phase(harness, "refactor", lambda: F.refactor(A))
    phase(harness, "solve", lambda: F.solve(b))


def test_cholesky_in_mixed_precision(harness):
    A, b = Sparse(SMALL), to_cuda(np.ones((SMALL.shape[0], 3)))
    F = ms.cholesky(A, precision="mixed", device="cuda").refactor(A)
    F.solve(b)
    phase(harness, "mixed: refactor", lambda: F.refactor(A))
    phase(harness, "mixed: solve", lambda: F.solve(b))


def test_cholesky_with_fixed_rows(harness):
    A, b = Sparse(SMALL), to_cuda(np.ones((SMALL.shape[0], 3)))
    F = ms.cholesky(A, fixed=[3, 70], device="cuda").refactor(A)
    F.solve(b)
    phase(harness, "refactor, fixed rows", lambda: F.refactor(A))
    phase(harness, "solve, fixed rows", lambda: F.solve(b))


def test_cholesky_with_pinned_rows(harness):
    L = ms.datasets.grid2d(40, 40)
    A, b = Sparse(L), to_cuda(L @ np.random.default_rng(0).standard_normal((L.shape[0], 3)))
    F = ms.cholesky(A, pin=True, device="cuda").refactor(A)
    F.solve(b)
    phase(harness, "refactor, pinned", lambda: F.refactor(A))
    phase(harness, "solve, pinned", lambda: F.solve(b))


def test_cholesky_of_a_matrix_on_the_host(harness):
    F = ms.cholesky(SMALL, device="cuda").refactor(SMALL)
    phase(harness, "refactor, matrix on the host", lambda: F.refactor(SMALL))


def test_no_solve_launches_more_for_a_deeper_tree_or_more_columns(harness):
    for n in (12, 40):
        F = ms.cholesky(Sparse(spd(grid(n, n))), ordering="nd", device="cuda")
        for k in (1, 8, 32):
            b = to_cuda(np.ones((n * n, k)))
            F.solve(b)
            within(f"{n} x {n}, {k}", numbers(harness, lambda: F.solve(b))[0], CHOLESKY["solve"])          # noqa: B023


@pytest.mark.parametrize("options", [{}, {"fixed": [3, 70]}, {"precision": "mixed"}], ids=str)
def test_the_numeric_phase_and_both_sweeps_can_be_captured(harness, options):
    """As a CUDA graph: nothing is read, allocated or uploaded, and no library is called. The results are those of plain calls."""
    A = Sparse(SMALL)
    F = ms.cholesky(A, device="cuda", **options).refactor(A)
    x = F.solve(np.ones((SMALL.shape[0], 3)))
    engine, later = F._factor, F._values.later(Sparse(4 * SMALL))
    B, X = (device.xp().ones((engine.tree.n, 3)) for _ in range(2))
    engine.solve("A", B)
    coupling = F._values.next_coupling()
    with harness.captured():
        engine.queue(lambda values, bits: later.check(values, coupling and coupling[2], F._null_space.watched, 0.0, (0.0, np.inf), bits))
        engine.sweeps.solve("A", B, X)
    assert device.to_host(engine._status)[FAILED] == NONE
    engine.accept()
    assert np.array_equal(device.to_host(X), device.to_host(engine.solve("A", B)))
    if not options:
        assert np.array_equal(4 * device.to_host(X), x)


def test_a_captured_block_refuses_all_but_work_on_existing_memory(harness):
    x, xp, a = to_cuda(np.arange(6.0)), device.xp(), to_cuda(np.eye(2, order="F"))
    mask = x > 1
    with harness.captured():
        for call in (lambda: device.to_host(x), lambda: float(x[2]), lambda: bool(x[0]), lambda: device.to_device(np.ones(2)),
                     lambda: xp.empty(3), lambda: xp.zeros_like(x), lambda: x + 1, lambda: x > 1, lambda: x[mask], lambda: x.copy(),
                     lambda: x.__setitem__(mask, 0.0), lambda: xp.flatnonzero(x), lambda: xp.asarray([1]), lambda: x.sum(),
                     lambda: device.scalar_later(x[:1])(), lambda: device.dense("trsm", a, a)):
            with pytest.raises(KernelError, match="captured"):
                call()
        x.fill(2.0)
        x[1:] = x[:-1].reshape(5)
        x += 1.0
    assert device.to_host(x).tolist() == 6 * [3.0]


def test_a_recorded_graph_runs_when_it_is_launched(harness):
    x, y = to_cuda(np.arange(3.0)), to_cuda(np.zeros(3))

    def queue():
        nonlocal y
        y[:] = x
        y += x
        x.fill(5.0)

    launch = device.record(queue)
    assert device.to_host(y).tolist() == [0, 0, 0] and device.to_host(x).tolist() == [0, 1, 2]
    launch()
    assert device.to_host(y).tolist() == [0, 2, 4]
    launch()
    assert device.to_host(y).tolist() == [10, 10, 10]
    with pytest.raises(KernelError, match="captured"):
        device.record(lambda: device.to_host(x))


def makers(name, n=60):
    """Return a function that makes one of the other factors, and a matrix for it."""
    n = 30 if name in ("lu columns", "ildl") else n         # those are slow on the harness
    dirichlet, neumann = (sp.csr_array(ms.datasets.grid2d(n, n, boundary=boundary)) for boundary in ("dirichlet", "neumann"))
    upwind = sp.csr_array(dirichlet + sp.diags_array(np.full(n * n - 1, 0.3), offsets=1))
    helmholtz = sp.csr_array(neumann - 0.713 * sp.eye_array(n * n))            # no column is delayed
    return {
        "lu fronts": (lambda A: ms.lu(A, engine="fronts", device="cuda"), upwind),
        "lu columns": (lambda A: ms.lu(A, engine="columns", device="cuda"), upwind),
        "ldlt": (lambda A: ms.ildl(A, fill_level=None, device="cuda"), helmholtz),
        "ildl": (lambda A: ms.ildl(A, fill_level=2, device="cuda"), helmholtz),
        "parac": (lambda A: ms.parac(A, device="cuda"), dirichlet),
        "parac amd": (lambda A: ms.parac(A, ordering="amd", device="cuda"), dirichlet),
    }[name]


@pytest.mark.parametrize("name", OTHERS)
def test_other_factors(harness, monkeypatch, name):
    monkeypatch.setattr(location, "ON_HOST_BELOW", np.inf)
    make, A = makers(name)
    b, limits = to_cuda(np.ones((A.shape[0], 3))), OTHERS[name]
    found, F = numbers(harness, lambda: make(A))
    within("first", found, limits["first"])
    if "refactor" in limits:
        within("refactor", numbers(harness, lambda: F.refactor(A))[0], limits["refactor"])
    F @ b
    within("solve", numbers(harness, lambda: F @ b)[0], limits["solve"])


@pytest.mark.parametrize("name", ANALYZED_ON_GPU)
def test_other_factors_with_their_analysis_on_the_gpu(harness, name):
    make, A = makers(name, 75)
    found, F = numbers(harness, lambda: make(A))
    assert F.report.facts["analysis_device"] == "cuda"
    within(name, found, ANALYZED_ON_GPU[name])


@pytest.mark.parametrize("systems, limits", [(2, BATCH_BY_LEVELS), (5, BATCH_BY_LEVELS), (6, BATCH), (60, BATCH)])
def test_batches_of_cholesky_factors(harness, systems, limits):
    """Launches do not depend on the number of systems. The harness has 3 multiprocessors, which 6 systems fill."""
    A = spd(grid(14, 13))
    values, b = (to_cuda(np.repeat(x[None], systems, axis=0)) for x in (A.data, np.ones((A.shape[0], 3))))
    F = ms.analyze(A).factor_batch(values)
    within("refactor", numbers(harness, lambda: F.refactor(values))[0], limits["refactor"])
    within("solve", numbers(harness, lambda: F.solve(b))[0], limits["solve"])


def test_views_cost_nothing_and_everything_else_is_counted(harness):
    """The counters themselves: one operation of each kind."""
    x, xp = to_cuda(np.arange(6.0)), device.xp()
    for call, expected in ((lambda: x[1:3].reshape(2, 1).T, "views"), (lambda: x + 1, "expressions"), (lambda: x[x > 1], "2 expressions"),
                           (lambda: xp.zeros(3), "allocations"), (lambda: device.to_host(x), "reads"), (lambda: float(x[2]), "reads"),
                           (lambda: device.to_device(np.ones(2)), "uploads"), (lambda: x.fill(0.0), "expressions")):
        found, _ = numbers(harness, call)
        count, kind = (2, expected[2:]) if expected[0] == "2" else (1, expected)
        assert found == tuple(count * (kind == each) for each in KINDS), (expected, found)
