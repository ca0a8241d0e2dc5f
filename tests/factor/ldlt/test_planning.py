"""The graphs that are ordered for a complete factor, and the choice between the orders of rows and of pairs."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve import _core, order
from meshsolve.factor.ldlt import complete, planning
from meshsolve.factor.ldlt.complete import CompletePlan, analysis_of_rows
from meshsolve.factor.matching import symmetric_pairs
from meshsolve.report import Report
from meshsolve.sparse.matrix import Csr, as_symmetric


def nearly_all_pairs(n=60):
    """[[0, B], [B^T, 0]]: no row has a pivot of its own before another is eliminated."""
    B = sp.eye_array(n) + 0.1 * ms.datasets.grid2d(10, n // 10)
    return sp.csr_array(sp.block_array([[None, B], [B, None]]))


def indefinite(n=120):
    """Strong diagonal entries of either sign: every row is a pivot by itself."""
    return sp.csr_array(0.01 * ms.datasets.grid2d(10, n // 10) + sp.diags_array(np.where(np.arange(n) % 3, 1.0, -1.0)))


CASES = {"no pairs": (indefinite(), lambda n: [n]),
         "few": (ms.datasets.kkt(300, 120, seed=1), lambda n: [n]),
         "pairs with a row that has a pivot": (ms.datasets.stokes(8), lambda n: [n]),
         "many": (sp.csr_array(sp.block_diag([nearly_all_pairs(), indefinite()])), lambda n: [n, "pairs"]),
         "some": (sp.csr_array(sp.block_diag([nearly_all_pairs(), indefinite(600)])), lambda n: [n, "pairs"]),
         "nearly all": (nearly_all_pairs(), lambda n: ["pairs"])}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_no_more_graphs_are_ordered_than_pairs_need(monkeypatch, case, threads):
    A, expected = CASES[case]
    ordered, n = [], A.shape[0]

    def resolve(ordering, graph, **options):
        ordered.append(graph.n if graph.n == n else "pairs")
        return resolved(ordering, graph, **options)

    resolved = order.resolve
    monkeypatch.setattr(order, "resolve", resolve)
    monkeypatch.setattr(planning, "LARGE", 0)
    K = ms.ildl(A, fill_level=None, threads=threads)
    assert ordered == expected(n)
    b = A @ np.ones(n)
    assert np.linalg.norm(A @ K.solve(b) - b) <= 1e-11 * np.linalg.norm(b)


def with_pairs(n, entries, seed):
    """A block diagonal matrix: rows with pivots only in pairs, on a random graph, and rows that are pivots by themselves."""
    rng = np.random.default_rng(seed)
    B = sp.random_array((n, n), density=entries / n, rng=rng) + sp.eye_array(n)
    return sp.csr_array(sp.block_diag([sp.block_array([[None, B], [B.T, None]]), indefinite(n)]))


@pytest.mark.parametrize("A, better", [(with_pairs(60, 2, 0), "pairs"), (with_pairs(240, 4, 0), "pairs"),
                                       (with_pairs(120, 1, 3), "rows")])
def test_the_order_of_fewer_operations_is_chosen(A, better):
    M = as_symmetric(A)
    matched = symmetric_pairs(M)
    rows = order.auto(Csr(M.n, *_core.drop_diagonal(M.indptr, M.indices)))
    weak = planning._weak(M, matched, rows.perm)
    pairs = matched.where(weak)
    flops = {"rows": CompletePlan(M, pairs, order.Ordering(pairs.contract(rows.perm), "amd"), 1).flops,
             "pairs": CompletePlan(M, pairs, order.auto(pairs.graph), 1).flops}
    assert pairs.share > planning.FEW and pairs.share > planning.MOST * weak.mean()
    assert min(flops, key=flops.get) == better
    assert ms.ildl(A, fill_level=None).report.facts["flops"] == flops[better]


def test_a_pair_has_the_position_of_its_later_row():
    """Row 0 has a pivot only with row 3. In the order of the rows the pair has the position of row 3."""
    A = np.diag([0.0, 2.0, 3.0, 0.0, 4.0])
    A[0, 3] = A[3, 0] = 5.0
    for i, j in ((1, 2), (2, 3), (3, 4)):
        A[i, j] = A[j, i] = 0.1
    K = ms.ildl(A, fill_level=None, ordering=[0, 1, 2, 3, 4])
    assert K.perm.tolist()[:2] == [1, 2] and K.perm[4] == 4 and K.report.facts["pairs"] == 1 and K.inertia == (4, 1, 0)


def weak_diagonal(n=600):
    """Pairs everywhere, although no diagonal entry is zero. Only the matching shows it."""
    A = nearly_all_pairs(n)
    return sp.csr_array(A + 1e-3 * sp.eye_array(A.shape[0]))


@pytest.mark.parametrize("A", [ms.datasets.kkt(700, 300, seed=3), ms.datasets.stokes(12), weak_diagonal(), indefinite(900)])
@pytest.mark.parametrize("fill_level", ["auto", 2])
def test_ordering_during_the_matching_changes_nothing(monkeypatch, A, fill_level):
    serial = ms.ildl(A, fill_level=fill_level, threads=1)
    monkeypatch.setattr(planning, "LARGE", 0)
    parallel = ms.ildl(A, fill_level=fill_level, threads=3)
    for name in ("L", "D"):
        assert np.array_equal(getattr(serial, name).data, getattr(parallel, name).data)
    assert np.array_equal(serial.perm, parallel.perm)


def test_rows_are_ordered_during_the_matching_where_useful(monkeypatch):
    monkeypatch.setattr(planning, "LARGE", 500)

    def ordered(A, ordering="auto", threads=2):
        M, report = as_symmetric(A), Report()
        pairs, rows = planning.matching_and_findings(M, True, ordering, report, threads)
        assert np.array_equal(pairs.partner, symmetric_pairs(M).partner) and "matching" in report.seconds
        return rows is not None

    assert ordered(ms.datasets.kkt(700, 300)) and ordered(ms.datasets.stokes(16))
    assert not ordered(ms.datasets.kkt(700, 300), threads=1)
    assert not ordered(ms.datasets.kkt(300, 120)) and not ordered(nearly_all_pairs(300))        # small; ordered by pairs alone
    assert not ordered(ms.datasets.kkt(700, 300), ordering=None)


def test_errors_and_ctrl_c_of_background_work():
    with planning._Background(lambda _: 1 / 0) as work:
        pass
    with pytest.raises(ZeroDivisionError):
        work.result()
    mesh, begun = ms.datasets.icosphere(6), threading.Event()

    def endless(_):
        while True:
            order.nested_dissection(mesh, effort="quality", threads=1)
            begun.set()

    with pytest.raises(KeyboardInterrupt), planning._Background(endless) as work:
        begun.wait()
        raise KeyboardInterrupt
    assert not work._thread.is_alive()
    with pytest.raises(KeyboardInterrupt):
        work.result()


def test_background_work_shows_no_progress_and_ends_alone():
    mesh, callers = ms.datasets.icosphere(6), []

    def dissect(times):
        for _ in range(times):
            order.nested_dissection(mesh, effort="quality", threads=1)

    with planning._Background(lambda _: dissect(10)) as bystander:
        with ms.showing_progress(lambda *args: callers.append(threading.get_ident())):
            with planning._Background(lambda _: dissect(1)) as work:
                pass
            work.result()
            assert not callers
            with pytest.raises(KeyboardInterrupt), planning._Background(lambda _: dissect(100)):
                raise KeyboardInterrupt
        bystander.result()


@pytest.mark.parametrize("A", [ms.datasets.kkt(120, 50), ms.datasets.stokes(6), indefinite()])
def test_orders_of_rows_and_of_pairs(A):
    """Each pair has the position of its later row, and its two rows are adjacent."""
    pairs, n = symmetric_pairs(as_symmetric(A)), A.shape[0]
    perm = np.random.default_rng(0).permutation(n).astype(np.int32)
    place = np.argsort(perm)
    latest = [max(place[i], place[pairs.partner[i]] if pairs.partner[i] >= 0 else 0) for i in pairs.first]
    vertices = pairs.contract(perm)
    assert vertices.tolist() == np.argsort(latest).tolist()
    rows = [[i] if pairs.partner[i] < 0 else [i, pairs.partner[i]] for i in pairs.first[vertices]]
    assert pairs.expand(vertices).tolist() == sum(rows, [])


def test_background_work_waits_for_input_until_ctrl_c():
    with planning._Background(lambda block: block.receive() + 1) as work:
        work.send(6)
    assert work.result() == 7
    with pytest.raises(KeyboardInterrupt), planning._Background(lambda block: block.receive()) as work:
        raise KeyboardInterrupt
    assert not work._thread.is_alive()


def test_background_work_without_threads_runs_afterwards(monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")
    A = ms.datasets.kkt(700, 300, seed=3)
    expected = ms.ildl(A, threads=1)
    monkeypatch.setattr(threading.Thread, "start", refused)
    with planning._Background(lambda block: block.receive() + 1) as work:
        work.send(6)
    assert work.result() == work.result() == 7
    monkeypatch.setattr(planning, "LARGE", 0)
    assert np.array_equal(ms.ildl(A, threads=2).perm, expected.perm)


def test_rows_are_analyzed_once_during_the_matching(monkeypatch):
    """Ordering and matching at the same time give the results of one after the other."""
    built = []

    def recorded(matrix, ordering, *given):
        built.append(ordering)
        return analysis_of_rows(matrix, ordering, *given)

    for module in (planning, complete):
        monkeypatch.setattr(module, "analysis_of_rows", recorded)
    monkeypatch.setattr(planning, "LARGE", 500)
    for A in (ms.datasets.kkt(700, 300, seed=3), ms.datasets.stokes(16)):
        M, report = as_symmetric(A), Report()
        built.clear()
        K = ms.ildl(A, fill_level=None, threads=2)
        assert len(built) == 1 and {"matching", "order", "symbolic", "numeric"} <= K.report.seconds.keys()
        matched, found = planning.matching_and_findings(M, True, "auto", report, 2)
        assert found.symbolic.nnz == K.report.facts["nnz_L"]
        assert np.array_equal(found.weak, planning._weak(M, matched, found.ordering.perm))


@pytest.mark.parametrize("in_time", [False, True])
def test_the_matrix_is_scaled_during_the_ordering(monkeypatch, in_time):
    M = as_symmetric(ms.datasets.stokes(16))
    block, perm = planning._Background(None), np.arange(M.n, dtype=np.int32)

    def scaled_in_time(*given):
        block.send(perm)
        return rescale(*given)

    rescale = planning.rescale
    monkeypatch.setattr(planning, "rescale", scaled_in_time)
    if not in_time:
        block.send(perm)
    matched, rescaled, weak = planning._matched(M, True, block, 2)
    assert (rescaled is not None) == in_time and np.array_equal(weak, planning._weak(M, matched, perm))
    if in_time:
        K = ms.ildl(M.to_scipy(), fill_level=None, threads=1)
        assert np.array_equal(rescaled[0], K.scale) and np.array_equal(rescaled[1], K._numeric.scaled)


def test_ctrl_c_while_a_thread_begins_ends_that_thread(monkeypatch):
    begun, start = [], threading.Thread.start

    def interrupted(thread):
        start(thread)
        begun.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    monkeypatch.setattr(planning, "LARGE", 0)
    with pytest.raises(KeyboardInterrupt):
        ms.ildl(ms.datasets.kkt(700, 300), threads=2)
    begun[0].join(600)
    assert len(begun) == 1 and not begun[0].is_alive()
