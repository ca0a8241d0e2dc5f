"""The CUDA path of the LU factorization compared with the C++ core: on the kernel harness, and on a GPU with -m gpu.

Bounds: L and U to 1e-11 (float64) and 1e-3 (float32) of the largest entry of U, for matrices whose pivots leave some growth.
"""

import warnings

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from kernel_harness import Harness
from lu_matrices import ENGINES, ZOO, backward_error, chain_of_blocks, mesh, random_matrix
from on_device import Sparse, nothing_copied_to_host, to_cuda, to_numpy

import meshsolve as ms
from meshsolve import device
from meshsolve.factor.fronts import cuda as fronts
from meshsolve.factor.lu.columns import cuda as columns

WAYS = {                                                    # limits of tiny, small and dense fronts: fronts.LIMITS
    "shared memory": fronts.Limits(512, 6016, 384),
    "blocks only": fronts.Limits(0, 6016, 384),
    "tiles": fronts.Limits(0, 0, 384),
    "all four": fronts.Limits(64, 300, 20),
    "libraries": fronts.Limits(40, 100, 0),
}
SHAPES = {                                                  # NARROW, LONG, HEAVY, BLOCKS of columns_cuda
    "runs of levels by one block": (1 << 20, 1 << 20, 0, 1),
    "a launch for each level": (0, 1 << 20, 0, 1),
    "a block for each column": (0, 0, 0, 1),
    "several blocks for each column": (0, 0, 0, 1 << 20),
}


def pair(A, **options):
    """The same factorization on the device and on the host."""
    return ms.lu(A, device="cuda", **options), ms.lu(A, device="cpu", **options)


def assert_same_factor(F, H, bound=1e-11):
    assert (F.engine, F.nnz, F.report.facts["blocks"]) == (H.engine, H.nnz, H.report.facts["blocks"])
    assert np.array_equal(F.row_perm, H.row_perm) and np.array_equal(F.col_perm, H.col_perm)
    size = max(1, abs(H.U).max())
    assert abs(F.L - H.L).max() <= bound * size and abs(F.U - H.U).max() <= bound * size


def assert_solves(A, F, tolerance=1e-12, widths=(1, 3, 8, 21)):
    rng, repivoted = np.random.default_rng(3), F.report.facts["repivoted"]
    for k in widths:
        b = rng.standard_normal((A.shape[0], k))
        for trans, M in (("N", A), ("T", A.T), ("H", A.T)):
            x = F.solve(b, trans=trans)
            assert isinstance(x, np.ndarray) and backward_error(M, x, b) < tolerance, (k, trans)
        assert np.array_equal(F.solve(np.asfortranarray(b)), F.solve(b))
    assert F.report.facts["repivoted"] == repivoted, "the solves were so inaccurate that pivots were chosen again"


# ---- both engines -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ZOO)
def test_the_factor_and_the_solves_of_every_shape(gpu, name, engine):
    A = ZOO[name]
    F, H = pair(A, engine=engine)
    assert F.report.facts["device"] == "cuda" and H.report.facts["device"] == "cpu"
    assert_same_factor(F, H)
    assert np.array_equal(F.levels, H.levels)
    assert F.report.facts["pivot_growth"] == pytest.approx(H.report.facts["pivot_growth"], rel=1e-10)
    assert_solves(A, F)


@pytest.mark.parametrize("engine", ENGINES)
def test_results_do_not_depend_on_the_schedule(varied, engine):
    A, b = chain_of_blocks(4, 9, 1), np.arange(72.0).reshape(36, 2)
    F = ms.lu(A, engine=engine, device="cuda")
    with device.use(Harness()):
        G = ms.lu(A, engine=engine, device="cuda")
        expected = G.solve(b), G.solve(b, "T")
    assert np.array_equal(F.L.data, G.L.data) and np.array_equal(F.U.data, G.U.data)
    for x, y in zip((F.solve(b), F.solve(b, "T")), expected):
        assert np.abs(x - y).max() <= 1e-14 * np.abs(y).max()       # sums of a solve by rows depend on the lanes alone


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_threads_changes_no_bit(engine, seed):
    A, b, results = mesh(12, 11), np.arange(264.0).reshape(132, 2), []
    for harness in (Harness(), Harness(resident=3, seed=seed)):
        with device.use(harness):
            F = ms.lu(A, engine=engine, device="cuda")
            results.append((F.L.data, F.U.data, F.solve(b), F.solve(b, "T")))
    assert all(np.array_equal(a, b) for a, b in zip(*results))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_circuits(gpu, data_dir, engine):
    for name in ("adder_dcop_05", "bp_1200", "cage8", "e05r0500", "nnc1374", "qh1484"):
        path = next((data_dir / "circuit").glob(f"{name}.mtx*"))
        A = sp.csr_array(scipy.io.mmread(path))
        F, H, b = *pair(A, engine=engine), np.ones(A.shape[0])
        assert backward_error(A, F.solve(b), b) < 1e-13 and backward_error(A.T, F.solve(b, "T"), b) < 1e-13, name
        H.solve(b)
        assert F.report.facts["repivoted"] == H.report.facts["repivoted"] and F.engine == H.engine, name


def test_a_mesh_that_uses_every_kernel_path():
    """7,200 rows with the default limits use warps, thread blocks and tiles."""
    A, b = mesh(90, 80), np.ones((7200, 2))
    with device.use(Harness()) as harness:
        F = ms.lu(A, device="cuda")
        assert backward_error(A, F.solve(b), b) < 1e-13 and backward_error(A.T, F.solve(b, "T"), b) < 1e-13
        assert F.engine == "fronts" and {"k_factor", "k_panel", "k_subtract"} <= harness.launches.keys()


# ---- fronts -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_every_way_of_a_front(gpu, monkeypatch, way, precision):
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
    A = mesh(17, 15)
    F, H = pair(A, engine="fronts", ordering="nd", precision=precision)
    assert_same_factor(F, H, 1e-11 if precision == "double" else 1e-3)
    assert_solves(A, F, 1e-5 if precision == "single" else 1e-14, (1, 5))
    if precision == "mixed":
        assert F.report.facts["refinement_steps"] > 0


@pytest.mark.parametrize("way", ["tiles", "libraries"])
@pytest.mark.parametrize("shared", [48 << 10, 24 << 10])
def test_wide_fronts_with_exchanges(monkeypatch, way, shared):
    """One front of all rows: several steps and tiles, panels that fit into shared memory and panels that do not."""
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
    A = random_matrix(230, 0.3, 3)
    with device.use(Harness(shared_limit=shared)):
        F, H = pair(A, engine="fronts")
        assert (H.row_perm != H._numeric.pivots.analysis.rows).sum() > 20, "no rows were exchanged"
        assert_same_factor(F, H)
        assert abs(F.L).max() <= 10 and F.report.facts["perturbed_pivots"] == 0
        assert_solves(A, F, widths=(1, 4))


@pytest.mark.races
@pytest.mark.parametrize("way", ["shared memory", "blocks only", "tiles"])
def test_ties_of_pivots_go_to_the_first_row(monkeypatch, way):
    """Sums of a few integers, equal in many rows. On a GPU fused products break ties."""
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
    A = sp.csr_array(np.random.default_rng(2).choice([-1.0, 0.0, 1.0], (64, 64)))
    with device.use(Harness()):
        F, H = pair(A, engine="fronts", ordering="natural")
        assert (H.row_perm != H._numeric.pivots.analysis.rows).sum() > 10, "no rows were exchanged"
        assert_same_factor(F, H)


def three_blocks():
    """Blocks of 45 rows, each of which reads the next."""
    rng, A = np.random.default_rng(1), np.zeros((135, 135))
    for b in range(0, 135, 45):
        A[b:b + 45, b:b + 45] = rng.choice([-1.0, 0.0, 1.0], (45, 45)) + 0.1 * rng.standard_normal((45, 45))
        A[b:b + 45, b + 45:b + 90] = sp.random_array((45, 45), density=0.03, rng=rng).toarray()[:, :135 - b - 45]
    return sp.csr_array(A)


def signs_on_a_grid():
    """Pivots that elimination makes small, in many fronts."""
    A, rng = mesh(14, 13), np.random.default_rng(4)
    A.data = rng.choice([-1.0, 1.0], A.nnz) + 0.1 * rng.standard_normal(A.nnz)
    return A


@pytest.mark.parametrize("make, least", [(three_blocks, 30), (signs_on_a_grid, 8)])
def test_solves_with_exchanged_rows(short_grids, make, least):
    A = make()
    F, H = pair(A, engine="fronts")
    assert (H.row_perm != H._numeric.pivots.analysis.rows).sum() >= least and F.report.facts["perturbed_pivots"] == 0
    assert_same_factor(F, H)
    assert_solves(A, F, 1e-13, (1, 3))
    assert F.report.facts["refinement_steps"] == 0


@pytest.mark.parametrize("way", ["shared memory", "blocks only", "tiles"])
def test_small_pivots_are_perturbed_and_counted(gpu, monkeypatch, way):
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
    A = sp.csr_array(np.kron(np.eye(6), np.ones((2, 2))) + np.kron(np.ones((6, 6)), np.array([[0, 0], [0, 1e-20]])))
    for engine in ENGINES:
        F, H = pair(A, engine=engine, repivot=False)
        assert F.report.facts["perturbed_pivots"] == H.report.facts["perturbed_pivots"] == 6
        size = abs(F.U.diagonal())                          # signs depend on rounding
        assert (np.isclose(size, 1e-8)).sum() == 6 and np.allclose(size, abs(H.U.diagonal()), rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_nan_counts_as_growth(gpu, engine):
    """NaN from overflow, far from any pivot."""
    F = ms.lu(mesh(12, 9), engine=engine, device="cuda")
    data = to_numpy(F._numeric.data).copy()
    data[37] = np.nan
    assert F._numeric.native.factor(device.to_device(data), 0.1, 1e-13, 1e-8)[1:] == (np.inf, np.inf)


# ---- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a mesh", "dense", "a dense tail", "blocks that read each other"])
def test_every_shape_of_a_level_gives_the_same_bits(gpu, monkeypatch, name):
    results, kinds = [], []
    for limits in SHAPES.values():
        for attribute, value in zip(("NARROW", "LONG", "HEAVY", "BLOCKS"), limits):
            monkeypatch.setattr(columns, attribute, value)
        monkeypatch.setattr(columns, "WIDE_BLOCK", 32 if limits[3] > 1 else 256)    # rows of a piece, number of threads
        F = ms.lu(ZOO[name], engine="columns", device="cuda")
        results.append((F.L.data, F.U.data))
        kinds.append([(shape.end - shape.first > 1, shape.lanes > 0, shape.pieces > 1) for shape in F._numeric.native._shapes])
    for L, U in results[1:]:
        assert np.array_equal(L, results[0][0]) and np.array_equal(U, results[0][1])
    assert kinds[0] == [(True, True, False)] and not any(run or not narrow for run, narrow, _ in kinds[1])
    assert not any(narrow for _, narrow, _ in kinds[2] + kinds[3])
    if name in ("dense", "a dense tail"):
        assert any(pieces for *_, pieces in kinds[3]) and not any(pieces for *_, pieces in kinds[2])


def test_levels_that_the_rule_of_the_paper_misses(gpu, monkeypatch):
    """By the rule that uses U alone, columns 0 and 1 have the same level, and step 1 reads U(1, 3) too early."""
    A = sp.csr_array(np.array([[4.0, 0, 0, 2, 0], [1, 5, 0, 3, 0], [0, 0, 6, 1, 0], [0, 1, 0, 7, 0], [0, 0, 1, 1, 8]]))
    bordered = sp.lil_array((6, 6))                         # bordered: one diagonal block in natural order
    bordered[:5, :5], bordered[5, :], bordered[:, 5] = A.toarray(), np.ones((1, 6)), np.ones((6, 1))
    bordered[5, 5] = 9.0
    for M in (A, sp.csr_array(bordered)):
        F, H = pair(M, ordering="natural", engine="columns")
        assert_same_factor(F, H, 1e-15)


def test_random_patterns(gpu):
    for seed in range(25):
        A = random_matrix(5 + seed, 0.25, seed, diagonal=3.0)
        for engine in ENGINES:
            F, H = pair(A, ordering="natural", engine=engine)
            assert_same_factor(F, H, 1e-13)


# ---- refactorization, errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_refactor_is_the_factor_of_the_new_values(gpu, engine):
    A, rng, b = mesh(12, 9), np.random.default_rng(1), np.arange(108.0)
    F = ms.lu(A, engine=engine, device="cuda")
    for wrap in (sp.csr_array, sp.coo_array, Sparse, lambda M: to_cuda(M.toarray())):
        A2 = A.copy()
        A2.data = A.data * rng.uniform(0.5, 2, A.nnz)
        assert F.refactor(wrap(A2)) is F
        assert backward_error(A2, F.solve(b), b) < 1e-14 and backward_error(A2.T, F.solve(b, "T"), b) < 1e-14
        fresh = ms.lu(A2, ordering=F._numeric.pivots.analysis.columns, engine=engine, device="cuda")
        assert fresh.report.facts["repivoted"] == 0
    fewer = sp.csr_array(sp.diags_array(np.arange(1.0, 109)))
    for wrap in (sp.csr_array, Sparse):
        assert np.allclose(F.refactor(wrap(fewer)).solve(b), b / np.arange(1.0, 109))
    same = ms.lu(A, engine=engine, device="cuda")
    assert np.array_equal(F.refactor(A).solve(b), same.solve(b))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_earlier_factor_survives_an_error(gpu, engine):
    A = random_matrix(60, 0.05, 9, diagonal=4.0)
    F, b = ms.lu(A, engine=engine, device="cuda"), np.ones(60)
    before = F.solve(b)
    outside, deficient, spoiled = A.tolil(), A.tolil(), A.copy()
    row, column = np.argwhere(A.toarray() == 0)[7]
    outside[row, column] = 1.0
    deficient[:, 3] = 0
    spoiled.data[5] = np.nan
    for wrap in (sp.csr_array, Sparse):
        with pytest.raises(ms.PatternMismatchError) as caught:
            F.refactor(wrap(outside))
        assert (caught.value.row, caught.value.column) == (row, column)
        with pytest.raises(ms.SingularMatrixError) as caught:
            F.refactor(wrap(deficient))
        assert caught.value.index == 3
        for wrong in (spoiled, A * 1j, sp.csr_array(sp.eye_array(61))):
            with pytest.raises(ms.InvalidInputError):
                F.refactor(wrap(wrong))
        assert np.array_equal(F.solve(b), before) and F.engine == engine


def test_unsuitable_pivots_are_chosen_again(gpu):
    rng = np.random.default_rng(5)
    A = sp.csr_array(sp.random_array((90, 90), density=0.08, rng=rng) + sp.diags_array(np.full(90, 10.0)))
    broken = A.tolil()
    broken.setdiag(1e-14)
    broken, b = broken.tocsr(), rng.standard_normal(90)
    F = ms.lu(A, engine="fronts", device="cuda")
    F.refactor(broken)
    assert backward_error(broken, F.solve(b), b) < 1e-14 and F.report.facts["repivoted"] >= 1
    assert backward_error(A, F.refactor(A).solve(b), b) < 1e-13
    fixed = ms.lu(A, engine="fronts", repivot=False, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ms.ConvergenceWarning)
        fixed.refactor(broken).solve(b)
    assert fixed.engine == "fronts" and fixed.report.facts["repivoted"] == 0


def test_pivots_are_chosen_by_values_if_no_matching_fits(gpu):
    A, b = np.array([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]]), np.array([1.0, 2, 4])
    F = ms.lu(A, "natural", "columns", device="cuda")
    assert F.report.facts["repivoted"] == 1 and np.allclose(A @ F.solve(b), b, atol=1e-15)


@pytest.mark.parametrize("trans", ["N", "T"])
def test_a_probe_finds_a_bad_factor_after_zero_solves(gpu, trans):
    A, rng = mesh(12, 12), np.random.default_rng(2)
    weak = sp.csr_array(A - sp.diags_array(A.diagonal() - 1e-6))
    F, b = ms.lu(A, device="cuda").refactor(weak), rng.standard_normal(144)
    F.solve(np.zeros(144), trans)
    assert backward_error(weak if trans == "N" else weak.T, F.solve(b, trans), b) < 1e-13


def test_single_and_mixed_precision_at_any_scale_of_b(gpu):
    A, b = mesh(5, 5), np.arange(1.0, 26)
    for precision, bound in (("single", 1e-5), ("mixed", 1e-15)):
        F = ms.lu(A, precision=precision, device="cuda")
        assert all(backward_error(A, F.solve(size * b), size * b) < bound for size in (1e200, 1e-60))


@pytest.mark.parametrize("engine", ENGINES)
def test_singular_matrices_name_a_column(gpu, engine):
    for A in (np.ones((3, 3)), ms.graph_laplacian(ms.datasets.icosphere(1))):
        named = set()
        for place in ("cpu", "cuda"):
            with pytest.raises(ms.SingularMatrixError, match="no pivot is left") as caught:
                ms.lu(A, engine=engine, device=place)
            named.add(caught.value.index)
        assert len(named) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_refactorization_allocates_nothing(gpu, monkeypatch, engine):
    F = ms.lu(mesh(12, 9), engine=engine, device="cuda")
    data, first = F._numeric.data.copy(), F._numeric.native.triangles()[5]
    for name in ("empty", "zeros", "ones", "empty_like", "zeros_like"):
        monkeypatch.setattr(device.xp(), name, lambda *args, **kwargs: pytest.fail("memory is taken"))
    F._numeric.native.factor(2 * data, 0.1, 1e-13, 1e-8)
    monkeypatch.undo()
    again = F._numeric.native.triangles()[5]
    assert np.array_equal(again, 2 * first)                 # a power of two rounds nothing


# ---- device of arrays -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_results_are_on_the_device_of_the_input(gpu, monkeypatch, engine):
    A, b = mesh(12, 9), np.random.default_rng(0).standard_normal((108, 3))
    F = ms.lu(Sparse(A), engine=engine)                     # "auto": the matrix lies on the device
    assert F.report.facts["device"] == "cuda" and isinstance(F.solve(b), np.ndarray)
    expected, later = F.solve(b), Sparse(2 * A)
    F.refactor(later)
    given = [to_cuda(v) for v in (b, b, b[:, 0], b + 1j * b)]
    with nothing_copied_to_host(monkeypatch, most=9):
        results = [F.refactor(later).solve(given[0]), *map(F.solve, given[1:])]
        out = to_cuda(np.zeros((108, 3)))
        assert F.solve(given[0], out=out) is out
    for x, y in zip((*results, out), (expected, expected, expected[:, 0], expected * (1 + 1j), expected)):
        assert to_numpy(x).dtype == y.dtype and np.abs(to_numpy(x) - y / 2).max() <= 1e-13 * np.abs(y).max()
    assert F.solve(to_cuda(b.astype(np.float32))).dtype == np.float32
    assert np.array_equal(F @ b[:, 0], F.solve(b[:, 0])) and np.allclose(F.H @ b[:, 0], F.solve(b[:, 0], "H"))
    with pytest.raises(ms.InvalidInputError, match="out must be"):
        F.solve(to_cuda(b), out=np.ones((108, 3)))
    on_cpu = ms.lu(Sparse(A), engine=engine, device="cpu")
    assert on_cpu.report.facts["device"] == "cpu" and backward_error(A, on_cpu.solve(b), b) < 1e-14


def test_condition_operator_and_sizes(gpu):
    A = random_matrix(40, 0.2, 1, diagonal=1.0)
    for engine in ENGINES:
        F, H = pair(A, engine=engine)
        assert F.rcond() == pytest.approx(H.rcond(), rel=1e-8)
        assert F.report.facts["bytes"] > 8 * F.nnz and F.solve(np.empty((40, 0))).shape == (40, 0)


def test_options_without_gpu_support(gpu):
    A = mesh(4, 3) * 1j
    with pytest.raises(ms.DeviceUnavailableError, match="complex matrices are factored on the CPU only"):
        ms.lu(A, device="cuda")
    assert ms.lu(A, device="auto").report.facts["device"] == "cpu"


# ---- sanitizers -------------------------------------------------------------------------------------------------------


@pytest.mark.sanitize
def test_every_kernel_on_something_small(monkeypatch):
    """A small matrix, because ThreadSanitizer is slow for each thread of each block."""
    monkeypatch.setattr(fronts, "LIMITS", fronts.Limits(20, 100, 384))
    tie = sp.csr_array(([0.5], ([3], [2])), shape=(38, 12))
    A, b = sp.csr_array(sp.block_array([[random_matrix(38, 0.15, 3, diagonal=4.0), tie], [None, mesh(4, 3)]])), np.ones((50, 2))
    wanted = {"factor", "assemble", "panel", "rows", "subtract", "largest", "solve", "to_columns", "from_columns", "scatter",
              "update_narrow", "update_wide", "finish", "gather"}
    with device.use(Harness(seed=1)) as harness:
        F = ms.lu(A, engine="fronts", device="cuda")
        assert backward_error(A, F.solve(b), b) < 1e-14 and backward_error(A.T, F.solve(b, "T"), b) < 1e-14
        for attribute, value in (("NARROW", 0), ("LONG", 4), ("HEAVY", 8)):
            monkeypatch.setattr(columns, attribute, value)
        G = ms.lu(A, engine="columns", device="cuda")
        assert backward_error(A, G.solve(b), b) < 1e-14 and backward_error(A.T, G.solve(b, "T"), b) < 1e-14
    assert {f"k_{name}" for name in wanted} | {"k_positions", "k_enter", "k_leave", "k_residual"} <= harness.launches.keys()


@pytest.mark.races
def test_solves_with_several_steps_and_blocks():
    """Fronts of 45 pivots in a block triangular matrix."""
    A, b = three_blocks(), np.ones((135, 2))
    with device.use(Harness(seed=1, block=96)):
        F = ms.lu(A, engine="fronts", device="cuda")
        assert backward_error(A, F.solve(b), b) < 1e-14 and backward_error(A.T, F.solve(b, "T"), b) < 1e-14


@pytest.mark.sanitize
def test_levels_of_one_thread_block_follow_each_other():
    """A hundred small matrices, whose columns are updated by several warps in each level."""
    rng = np.random.default_rng(0)
    A = sp.csr_array(sp.block_diag([rng.standard_normal((4, 4)) + 4 * np.eye(4) for _ in range(100)]))
    with device.use(Harness(seed=1, block=64)) as harness:
        F, b = ms.lu(A, engine="columns", ordering="natural", device="cuda"), np.ones(400)
        assert backward_error(A, F.solve(b), b) < 1e-14
    assert harness.launches["k_update_narrow"]
