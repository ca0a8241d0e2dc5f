"""The analysis of LU on the GPU: pattern, ordering, symbolic phase and positions of the entries are those of the host."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from kernel_harness import Harness
from kernel_harness.strict import Strict
from lu_matrices import ZOO, backward_error, chain_of_blocks, mesh
from on_device import Sparse, to_numpy

import meshsolve as ms
from meshsolve import _core, device
from meshsolve.factor.fronts.cuda import LIMITS
from meshsolve.factor.lu import analysis
from meshsolve.factor.matching import block_triangular, cuda, maximum_product
from meshsolve.factor.symbolic import location
from meshsolve.report import Report
from meshsolve.sparse.matrix import as_csr
from meshsolve.sparse.places import CUDA, HOST

TABLE = ("base", "leading_p", "update", "vector", "rows", "first", "pivots", "height", "child_begin", "child_end", "leading_q",
         "entry_begin", "entry_end")
LARGE = mesh(75, 70)                                        # from 5000 rows on there is a nested dissection


def pivots_of(A, ordering, place, engine="fronts"):
    return analysis.matched_pivots(as_csr(A), ordering, engine, Report(), 1, place)


@pytest.mark.parametrize("name", ZOO)
def test_the_pattern_is_that_of_the_host(gpu, name):
    M = as_csr(ZOO[name])
    row_of = maximum_product(M).row_of
    for block in (block_triangular(M, row_of)[0], np.zeros(M.n, np.int32)):
        found = cuda.diagonal_blocks(M.pattern.uploaded(), row_of, block)
        expected = _core.diagonal_blocks(M.indptr, M.indices, row_of, block)
        assert all(np.array_equal(to_numpy(a), b) for a, b in zip((found.indptr, found.indices), expected, strict=True))


def test_an_unsymmetric_pattern_with_its_diagonal_matched(gpu):
    M = as_csr(sp.csr_array(sp.diags_array([np.ones(40), np.full(70, 3.0)], offsets=[30, 0])))
    own, block = np.arange(70, dtype=np.int32), np.zeros(70, np.int32)
    found = cuda.diagonal_blocks(M.uploaded(), own, block)
    assert np.array_equal(to_numpy(found.indices), _core.diagonal_blocks(M.indptr, M.indices, own, block)[1])


@pytest.mark.parametrize("name", ZOO)
@each("ordering", ["nd", "natural", "rcm", "column_amd"])
def test_the_fronts_are_those_of_the_host(gpu, name, ordering):
    """Permutation, supernodes, table of fronts, positions and scales of all entries."""
    here, there = (pivots_of(ZOO[name], ordering, place).analysis for place in (HOST, CUDA))
    assert np.array_equal(here.rows, there.rows) and np.array_equal(here.columns, there.columns)
    for part in ("perm", "parent", "colcount", "supernodes"):
        assert np.array_equal(getattr(here.symbolic, part), getattr(there.symbolic, part)), part
    M = as_csr(ZOO[name])
    host, plan = (analysis.plan_of("fronts", M, here, place) for place in (HOST, CUDA))
    for found, expected in zip(map(to_numpy, plan.off_diagonal()), host.off_diagonal(), strict=True):
        assert found.dtype == expected.dtype and np.array_equal(found, expected)
    parts, fronts = host.arrays(), plan.fronts
    table, inside = dict(zip(TABLE, to_numpy(fronts.table).T, strict=True)), len(parts["source"])
    assert np.array_equal(table["base"], parts["base"][:-1]) and fronts.scalars == host.scalars
    assert np.array_equal(table["child_end"], parts["child_ptr"][1:])
    assert np.array_equal(table["entry_begin"], parts["entry_ptr"][:-1]) and np.array_equal(table["entry_end"], parts["entry_ptr"][1:])
    for part in ("leading_p", "leading_q"):
        assert np.array_equal(table[part], parts[part]), part
    sorted_ = np.lexsort((parts["target"], np.repeat(np.arange(len(table["base"])), np.diff(parts["entry_ptr"]))))
    for part in ("source", "target", "scale"):
        assert np.array_equal(to_numpy(getattr(fronts, part))[:inside], parts[part][sorted_]), part
    has_parent = np.repeat(here.symbolic.native.snode_parent >= 0, np.diff(here.symbolic.native.row_ptr))
    assert np.array_equal(to_numpy(fronts.relative)[has_parent], parts["relative"][has_parent])


@pytest.mark.slow
@pytest.mark.parametrize("given", [sp.csr_array, Sparse], ids=["host", "gpu"])
def test_a_mesh_is_dissected_and_analyzed_on_the_gpu(gpu, monkeypatch, given):
    monkeypatch.setattr(analysis, "SURELY_MESH_LIKE", 10)
    F, b = ms.lu(given(LARGE), device="cuda"), np.ones((len(LARGE.indptr) - 1, 2))
    facts = F.report.facts
    assert (facts["analysis_device"], facts["ordering"], facts["engine"]) == ("cuda", "nd", "fronts")
    assert facts["analysis_reason"] == "at least 0 rows" and F._numeric.pivots.analysis.symbolic.ordering.num_patches > 0
    H = ms.lu(LARGE, ordering=F._numeric.pivots.analysis.symbolic.ordering, engine="fronts", device="cpu")
    assert H.report.facts["analysis_device"] == "cpu" and "analysis_reason" not in H.report.facts
    assert np.array_equal(F.col_perm, H.col_perm) and F.nnz == H.nnz and facts["flops"] == H.report.facts["flops"]
    assert backward_error(LARGE, F.solve(b), b) < 1e-13 and backward_error(LARGE.T, F.solve(b, "T"), b) < 1e-13
    F.refactor(given(3 * LARGE))
    assert backward_error(3 * LARGE, F.solve(b), b) < 1e-13
    copy = pickle.loads(pickle.dumps(F))
    assert np.array_equal(copy.solve(b), F.solve(b)) and copy.report.facts["analysis_device"] == "cuda"


def test_the_block_form_is_kept_on_the_gpu(gpu):
    """Each block is ordered by itself, and blocks follow each other."""
    A = sp.csr_array(sp.block_array([[mesh(72, 70), None], [sp.eye_array(30, 5040), mesh(6, 5)]]))
    F = ms.lu(A, engine="fronts", device="cuda")
    b = np.ones((A.shape[0], 2))
    assert F.report.facts["blocks"] == 2 and F.report.facts["analysis_device"] == "cuda"
    assert backward_error(A, F.solve(b), b) < 1e-13 and backward_error(A.T, F.solve(b, "T"), b) < 1e-13


def reason(A, **options):
    F = ms.lu(A, device="cuda", **options)
    assert F.report.facts["device"] == "cuda" and F.report.facts["analysis_device"] == "cpu"
    b = np.ones(A.shape[0])
    assert backward_error(A, F.solve(b), b) < 1e-13
    return F.report.facts["analysis_reason"]


@pytest.mark.slow
def test_the_host_analyzes_for_the_columns_engine(gpu, monkeypatch):
    monkeypatch.setattr(analysis, "SURELY_MESH_LIKE", 1e9)
    assert reason(mesh(12, 9), engine="columns") == 'engine "columns"'
    assert reason(LARGE) == 'few operations per entry: the engine "columns" may be faster'
    chain = sp.csr_array(sp.diags_array([np.ones(5999), np.full(6000, 3.0), -np.ones(5999)], offsets=[-1, 0, 1]))
    for A in (mesh(12, 9), chain):
        assert reason(A, engine="fronts").startswith("small, nearly a tree")


def test_no_kernel_orders_or_analyzes_a_matrix_below_the_limit(gpu, monkeypatch):
    monkeypatch.setattr(location, "ON_HOST_BELOW", len(LARGE.indptr))
    assert reason(LARGE, engine="fronts") == f"fewer than {len(LARGE.indptr):,} rows"
    if isinstance(device.backend(), Harness):
        assert not {"k_dissect", "k_etree", "k_paths"} & device.backend().launches.keys()


def edges_of_solve(plan, transposed):
    """Return the pairs (part, part that reads it); the backward parts are numbered behind the forward ones."""
    first, parent = (to_numpy(getattr(plan._analysis.symbolic.analysis_on_device, name)) for name in ("first", "snode_parent"))
    _, row, column = (to_numpy(array) for array in plan.outside[:3])
    front, count = np.repeat(np.arange(len(parent)), np.diff(first)), len(parent)
    trees = [pair for f, p in enumerate(parent) for pair in (((f, p), (count + p, count + f)) if p >= 0 else ((f, count + f),))]
    return trees + [(count + front[a], front[b]) for a, b in (zip(row, column) if transposed else zip(column, row))]


def longest_paths(edges, count):
    level, changed = np.zeros(count, int), True
    while changed:
        changed = False
        for a, b in edges:
            if level[b] <= level[a]:
                level[b], changed = level[a] + 1, True
    return level


CASES_OF_LEVELS = {"a mesh": mesh(20, 17), "coupled": chain_of_blocks(4, 9), "diagonal": ZOO["diagonal"], "small blocks": ZOO["small blocks"],
                   "triangular": sp.csr_array(sp.tril(mesh(8, 7)))}


@pytest.mark.parametrize("name", CASES_OF_LEVELS)
def test_no_part_of_a_solve_is_launched_before_those_that_it_reads(varied, name):
    """Up by height and down by depth; by levels if blocks read each other."""
    engine = ms.lu(CASES_OF_LEVELS[name], engine="fronts", ordering="nd", device="cuda")._numeric.native
    for transposed in (False, True):
        plan, edges, step, count = engine._solve_plan(transposed), edges_of_solve(engine._plan, transposed), {}, len(engine._size)
        for number, launch in enumerate(plan.launches):
            fronts = to_numpy(launch.batch.fronts)
            assert launch.batch.count == len(fronts) and set(to_numpy(engine._size)[fronts] <= LIMITS.tiny) == {launch.batch.per_warp}
            step.update(((0 if launch.forward else count) + int(front), number) for front in fronts)
        assert len(step) == 2 * count and all(step[a] < step[b] for a, b in edges)
        if len(engine._above.row):
            level = longest_paths(edges, 2 * count)
            assert np.array_equal(to_numpy(engine._plan.levels_of_solve(transposed, plan.above)[0]), level)
            assert len(plan.launches) <= 4 * (level.max() + 1)
        else:
            forward = [launch.forward for launch in plan.launches]
            assert forward == sorted(forward, reverse=True)


@pytest.mark.parametrize("transposed", [False, True])
def test_the_launches_of_blocks_that_read_each_other_do_not_use_the_plan_of_the_host(transposed):
    with device.use(Strict()) as harness:
        engine = ms.lu(chain_of_blocks(7, 6), engine="fronts", ordering="nd", device="cuda")._numeric.native
        with harness.counted() as counts:
            launches = engine._solve_plan(transposed).launches
        assert "host" not in vars(engine._plan)
    assert launches and counts["launches"] == counts["reads"] == 1 and counts["uploads"] == 0


@pytest.mark.sanitize
def test_every_kernel_on_something_small():
    with device.use(Harness(seed=1, block=32)) as harness:
        for A in (chain_of_blocks(3, 8), mesh(6, 4)):
            F, b = ms.lu(A, engine="fronts", ordering="nd", device="cuda"), np.ones(24)
            assert backward_error(A, F.solve(b), b) < 1e-13
    assert {"k_heights", "k_front_sizes", "k_place_entries", "k_sorted_entries", "k_table", "k_relative",
            "k_solve_levels"} <= harness.launches.keys()
