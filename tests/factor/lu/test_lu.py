"""LU factors against dense solves: both engines, real and complex, structures, orders, threads, determinants, real circuits."""

import threading

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from lu_matrices import ENGINES, assert_factors, assert_solves, backward_error, mesh, random_matrix

import meshsolve as ms
from meshsolve import _core

# ---- structures -------------------------------------------------------------------------------------------------------


@given(st.integers(1, 60), st.floats(0.0, 0.2), st.integers(0, 10**6), st.sampled_from(ENGINES), st.booleans())
def test_random_matrices(n, density, seed, engine, complex_values):
    A = random_matrix(n, density, seed, complex_values)
    if np.linalg.cond(A.toarray()) > 1e8:
        return
    F = ms.lu(A, engine=engine)
    assert_factors(A, F)
    assert_solves(A, F, complex if complex_values else float)


@pytest.mark.native
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("make", [lambda: mesh(40, 31), lambda: random_matrix(400, 0.02, 4, diagonal=3.0), lambda: mesh(9, 9) * (1 + 0.5j),
                                  lambda: sp.csr_array(np.random.default_rng(5).standard_normal((300, 300))),
                                  lambda: sp.csr_array(np.random.default_rng(6).standard_normal((160, 160)) * (1 - 2j)),
                                  lambda: sp.csr_array(sp.block_array([[mesh(12, 12), random_matrix(144, 0.01, 2)], [None, mesh(16, 9)]]))],
                         ids=["mesh", "random", "complex mesh", "dense", "complex dense", "two blocks"])
def test_structures(make, engine):
    A = make()
    F = ms.lu(A, engine=engine)
    assert F.report.facts["engine"] == F.engine == engine and F.report.facts["perturbed_pivots"] == 0
    assert_factors(A, F)
    assert_solves(A, F, A.dtype.type if A.dtype.kind == "c" else float)


@pytest.mark.native
@pytest.mark.parametrize("engine", ENGINES)
def test_tiny_and_degenerate_shapes(engine):
    for A in ([[5.0]], np.eye(7), np.eye(6)[::-1] * 3, np.triu(np.ones((9, 9))), np.tril(np.ones((9, 9)))):
        A = sp.csr_array(np.asarray(A, float))
        F = ms.lu(A, engine=engine)
        assert_factors(A, F)
        assert_solves(A, F)
        assert F.solve(np.zeros((A.shape[0], 0))).shape == (A.shape[0], 0)


def test_large_fronts_are_factored_by_tiles():
    rng = np.random.default_rng(8)
    A = sp.csr_array(rng.standard_normal((700, 700)))
    one, two = (ms.lu(A, engine="fronts", threads=t) for t in (1, 2))
    b = rng.standard_normal((700, 2))
    assert backward_error(A, one.solve(b), b) < 1e-14 and np.array_equal(one.solve(b), two.solve(b))
    assert_factors(A, one)


@pytest.mark.slow
def test_a_wide_cheap_block_and_a_narrow_dear_one():
    """The schedule does not always cut the block with the most factor entries into tasks."""
    rng, blocks, size, m, pendants = np.random.default_rng(0), 14_000, 20, 2_300, 200
    n = blocks * size
    ends = np.arange(size - 1, n - 1, size)
    link = sp.csr_array((np.ones(len(ends)), (ends, ends + 1)), shape=(n, n))
    chain = sp.csr_array(sp.kron(sp.eye_array(blocks), np.ones((size, size)) + size * np.eye(size))) + link + link.T
    reach = np.arange(pendants)
    rows, columns = np.r_[reach, reach], np.repeat([0, 1], pendants)
    few = sp.csr_array((np.ones(2 * pendants), (rows, columns)), shape=(pendants, m))
    dense = sp.block_array([[10 * sp.eye_array(pendants), few], [few.T, sp.csr_array(rng.standard_normal((m, m)) + m * np.eye(m))]])
    A = sp.csr_array(sp.block_diag([sp.eye_array(1) * 3.0, chain, dense]))
    b = np.ones(A.shape[0])
    F = ms.lu(A, engine="fronts", repivot=False)
    assert abs(A @ F.solve(b) - b).max() < 1e-12


def test_the_largest_block_may_be_one_front():
    """Then it is no task of a solve, and the tasks of the block before it are not part of it."""
    rng = np.random.default_rng(3)
    grid, dense = ms.datasets.grid2d(170, 170, boundary="dirichlet"), sp.csr_array(rng.standard_normal((1500, 1500)))
    A = sp.csr_array(sp.block_diag([dense, grid]))
    F, b = ms.lu(A, engine="fronts", ordering="amd"), rng.standard_normal(A.shape[0])
    assert F._numeric.pivots.analysis.block_ptr.tolist() == [0, grid.shape[0], A.shape[0]]
    for trans, B in (("N", A), ("T", A.T)):
        assert abs(B @ F.solve(b, trans=trans) - b).max() < 1e-7


def test_the_engine_is_chosen_by_the_pattern():
    assert ms.lu(mesh(60, 60)).engine == "fronts"
    n = 3000
    chain = sp.csr_array(sp.diags_array([np.ones(n - 1), np.full(n, 3.0), np.full(n - 1, 0.5)], offsets=[-1, 0, 1]))
    assert ms.lu(chain).engine == "columns"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ordering", ["amd", "nd", "natural", "rcm", "array"])
def test_orderings(ordering, engine):
    A = mesh(14, 13)
    F = ms.lu(A, np.random.default_rng(0).permutation(182) if ordering == "array" else ordering, engine)
    assert_factors(A, F)
    assert sorted(F.row_perm) == sorted(F.col_perm) == list(range(182))


@pytest.mark.parametrize("engine", ENGINES)
def test_circuits(data_dir, engine):
    for path in sorted((data_dir / "circuit").glob("*.mtx*")):
        A = sp.csr_array(scipy.io.mmread(path))
        if path.name.startswith("pdn_pg1_C") or path.name.startswith("rajat01"):
            continue                                        # one is structurally singular, one has no values
        F, b = ms.lu(A, engine=engine), np.random.default_rng(0).standard_normal((A.shape[0], 2))
        assert backward_error(A, F.solve(b), b) <= 1e-13, path.name
        assert backward_error(A.T, F.solve(b, trans="T"), b) <= 1e-13, path.name


# ---- threads ----------------------------------------------------------------------------------------------------------


def test_the_result_does_not_depend_on_threads():
    A, b = mesh(150, 130, 1), np.random.default_rng(0).standard_normal((150 * 130, 9))
    for engine in ENGINES:
        results = []
        for threads in (1, 2, 5):
            F = ms.lu(A, engine=engine, threads=threads)
            results.append((F.solve(b), F.solve(b[:, 0], trans="T"), F.refactor(A * 1.5).solve(b)))
        for other in results[1:]:
            assert all(np.array_equal(x, y) for x, y in zip(results[0], other, strict=True)), engine


def in_many_blocks(rng):
    """A large block of chains between smaller blocks, with entries above the diagonal blocks; rows and columns shuffled."""
    chains = ms.datasets.ladder(16)
    before, after = (sp.diags_array(rng.uniform(1, 2, 300)) + sp.triu(sp.random_array((300, 300), density=0.02, rng=rng), 1)
                     for _ in range(2))
    above = [sp.random_array(shape, density=1e-3, rng=rng) for shape in ((300, chains.shape[0]), (chains.shape[0], 300))]
    A = sp.csr_array(sp.block_array([[before, above[0], None], [None, chains, above[1]], [None, None, after]]))
    return sp.csr_array(A[rng.permutation(A.shape[0])][:, rng.permutation(A.shape[0])])


@pytest.mark.parametrize("kind", [float, complex])
def test_parallel_solves_of_one_column_by_the_columns_engine(kind):
    rng = np.random.default_rng(12)
    A = in_many_blocks(rng).astype(kind)
    A.data *= rng.uniform(0.9, 1.1, A.nnz) * (1 if kind is float else 1 + 0.2j)
    factors = [ms.lu(A, engine="columns", threads=t) for t in (1, 2, 5)]
    assert factors[0].report.facts["blocks"] > 500
    for k in (1, 3, 9):
        b = rng.standard_normal((A.shape[0], k))
        for trans in "NTH":
            expected = factors[0].solve(b, trans=trans)
            assert backward_error({"N": A, "T": A.T, "H": A.conj().T}[trans], expected, b) < 1e-14
            for F in factors[1:]:
                before = _core.shared_calls()
                assert np.array_equal(F.solve(b, trans=trans), expected), (k, trans, F.threads)
                assert _core.shared_calls() > before or k > 1


@pytest.mark.parametrize("engine", ENGINES)
def test_several_threads_solve_at_once(engine):
    A = mesh(90, 90)
    F, b = ms.lu(A, engine=engine, threads=2), np.random.default_rng(0).standard_normal((8100, 4))
    expected, wrong = F.solve(b), []
    def work():
        wrong.extend(k for k in range(5) if not np.array_equal(F.solve(b), expected))
    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


# ---- results of a factor ----------------------------------------------------------------------------------------------


def test_complex_right_hand_sides_and_operators():
    A = random_matrix(50, 0.1, 3, diagonal=4.0)
    F, b = ms.lu(A), np.arange(50) * (1 + 2j)
    assert backward_error(A, F.solve(b), b) < 1e-14 and backward_error(A.T, F.solve(b, "H"), b) < 1e-14
    assert np.array_equal(F @ b.real, F.solve(b.real)) and np.allclose(F.H @ b.real, F.solve(b.real, "H"))
    C = random_matrix(50, 0.1, 3, True, 4.0)
    G = ms.lu(C)
    assert G.solve(b.real).dtype == np.complex128 and np.allclose(G.H @ b, np.linalg.solve(C.toarray().conj().T, b))


def test_out_receives_the_result():
    A, out = mesh(6, 6), np.empty(36)
    assert ms.lu(A).solve(np.ones(36), out=out) is out and backward_error(A, out, np.ones(36)) < 1e-14


@pytest.mark.native
@pytest.mark.parametrize("engine", ENGINES)
def test_condition(engine):
    for seed in range(4):
        A = random_matrix(40, 0.2, seed, bool(seed % 2), 1.0)
        exact = 1 / np.linalg.cond(A.toarray(), 1)
        assert exact * 0.999 <= ms.lu(A, engine=engine).rcond() <= 5 * exact


@pytest.mark.native
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("complex_values", [False, True])
def test_determinant(engine, complex_values):
    """Odd and even exchanges of rows, scalings, blocks, and determinants beyond float64."""
    signs = set()
    for seed in range(8):
        n = 12 + seed
        A = random_matrix(n, 0.4, seed, complex_values, 0.5)
        A = sp.block_array([[A * 1e-60, A], [None, A[np.random.default_rng(seed).permutation(n)] * 1e60]], format="csr")
        F = ms.lu(A, engine=engine)
        sign, logabsdet = F.slogdet()
        expected = np.linalg.slogdet(np.asarray(A.toarray()[:n, :n] * 1e60)), np.linalg.slogdet(A.toarray()[n:, n:] * 1e-60)
        assert sign == pytest.approx(expected[0].sign * expected[1].sign)
        assert logabsdet == pytest.approx(expected[0].logabsdet + expected[1].logabsdet, rel=1e-10)
        assert type(sign) is (complex if complex_values else float) and type(logabsdet) is float
        signs.add(np.sign(np.real(sign)))
        assert F.refactor(-2 * A).slogdet()[1] == pytest.approx(logabsdet + 2 * n * np.log(2))
    assert signs == {-1, 1}


def test_report_and_sizes():
    A = mesh(30, 30)
    F = ms.lu(A, threads=1)
    F.solve(np.ones(900))
    facts = F.report.as_dict()
    assert set(facts["seconds"]) >= {"order", "symbolic", "numeric", "solve"} and facts["ordering"] == "amd" and facts["blocks"] == 1
    assert 0 < facts["pivot_growth"] <= 10 and facts["backward_error"] < 1e-14 and facts["nnz_L"] == F.nnz and facts["bytes"] > 8 * F.nnz
    assert (F.L.nnz + F.U.nnz - 900) <= F.nnz * 1.3


@pytest.mark.parametrize("n, density", [(13, 1.0), (50, 1.0), (203, 1.0), (300, 0.02)])
@pytest.mark.parametrize("kind", ["double", "single", "complex"])
def test_a_column_has_the_same_bits_in_any_block(n, density, kind):
    rng = np.random.default_rng(n)
    A = sp.csr_array(sp.random_array((n, n), density=density, rng=rng) + n * sp.eye_array(n)) * (1 + 0.3j if kind == "complex" else 1)
    F = ms.lu(A, engine="fronts", precision="single" if kind == "single" else "double")
    for k in (2, 3, 4, 9):
        B = rng.standard_normal((n, k))
        for trans in "NTH":
            X = F.solve(B, trans=trans)
            assert all(np.array_equal(F.solve(B[:, c].copy(), trans=trans), X[:, c]) for c in range(k))
