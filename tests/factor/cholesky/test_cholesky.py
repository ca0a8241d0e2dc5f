"""Cholesky factorization and solves against dense linear algebra."""

import copy
import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import starved
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from zoo import backward_error, grid, random_spd, spd, zoo

import meshsolve as ms
from meshsolve import _core

ZOO = zoo()


@pytest.mark.parametrize("name", ZOO)
@each("ordering", ["nd", "amd", "natural", "random"])
def test_factor_reproduces_the_matrix(name, ordering):
    A = ZOO[name]
    F = ms.cholesky(A, ordering=ordering)
    B = A[F.perm][:, F.perm]
    assert abs(F.L @ F.L.T - B).max() <= 1e-13 * abs(B).max()
    assert sp.triu(F.L, 1).nnz == 0 and F.nnz == F.L.nnz
    dense = np.linalg.cholesky(B.toarray())
    assert np.allclose(F.L.toarray(), dense, rtol=1e-11, atol=1e-12)
    assert F.logdet() == pytest.approx(np.linalg.slogdet(A.toarray())[1], rel=1e-10)


@given(n=st.integers(1, 60), density=st.floats(0, 0.5), seed=st.integers(0, 1000), k=st.integers(1, 12))
def test_solves_random_systems(n, density, seed, k):
    A = random_spd(n, density, seed)
    b = np.random.default_rng(seed).standard_normal((n, k))
    x = ms.cholesky(A).solve(b)
    assert np.allclose(x, np.linalg.solve(A.toarray(), b), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("shape", [(7, 9), (60, 50), (170, 160)])
def test_same_bits_on_any_number_of_threads(shape):
    A = spd(grid(*shape))
    b = np.random.default_rng(0).standard_normal((A.shape[0], 3))
    factors = [ms.cholesky(A, threads=t) for t in (1, 2, 3, 7)]
    for F in factors[1:]:
        assert np.array_equal(F.L.data, factors[0].L.data)
        assert np.array_equal(F.solve(b), factors[0].solve(b))


def test_wide_fronts_agree_with_dense_and_with_threads():
    A = random_spd(700, 0.2, 3)                    # one front of nearly all rows, factored by tiles
    one = ms.cholesky(A, threads=1)
    for threads in (4, 16):                        # cut into pieces of other sizes
        assert np.array_equal(one.L.data, ms.cholesky(A, threads=threads).L.data)
    B = A[one.perm][:, one.perm].toarray()
    assert np.allclose(one.L.toarray(), np.linalg.cholesky(B), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("hub", [1, 40, 600], ids=["one", "a block", "a large front"])
def test_stars_and_isolated_rows(hub):
    """Fronts with a 1 x 1 update matrix, and fronts that are 1 x 1."""
    leaves, alone, rng = 3 * hub + 5, 50, np.random.default_rng(hub)
    n = hub + leaves + alone
    A = np.diag(rng.uniform(1, 2, n))
    A[:hub, :hub] += 0.3 * np.eye(hub) + 4
    at, to = hub + np.arange(leaves), rng.integers(0, hub, leaves)
    A[at, to] = A[to, at] = rng.uniform(-0.3, 0.3, leaves)
    A[to, to] += 1
    order = rng.permutation(n)
    A = sp.csr_array(A[order][:, order])
    one, many = ms.cholesky(A, threads=1), ms.cholesky(A, threads=3)
    dense = np.linalg.cholesky(A[one.perm][:, one.perm].toarray())
    assert np.allclose(one.L.toarray(), dense, rtol=1e-11, atol=1e-12) and np.array_equal(one.L.data, many.L.data)
    for wrong in (-1.0, 0.0, np.nextafter(0, -1)):
        row = int(np.flatnonzero(order == n - 1)[0])                  # an isolated row
        A[row, row] = wrong
        with pytest.raises(ms.NotPositiveDefiniteError) as e:
            one.refactor(A)
        assert e.value.column == row and np.array_equal(one.L.data, many.L.data)


def test_refactor_is_a_fresh_factorization():
    A, C = spd(grid(40, 30), seed=1), spd(grid(40, 30), seed=2)
    F = ms.cholesky(A)
    fresh = ms.cholesky(C)
    assert F.refactor(C) is F
    assert np.array_equal(F.L.data, fresh.L.data)
    F.refactor(A)
    assert np.array_equal(F.L.data, ms.cholesky(A).L.data)


def test_a_failed_refactor_leaves_the_factor_bit_for_bit():
    A = spd(grid(60, 50))
    F = ms.cholesky(A, threads=2)
    before = F.L.data.copy()
    bad = sp.lil_array(A)
    bad[1234, 1234] = -1.0
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(bad)
    assert np.array_equal(F.L.data, before)


REFUSED = """
import numpy as np, scipy.sparse as sp, meshsolve as ms

no_threads()                                                 # one thread takes the tasks of two, always in the same order
n = 14**3
A = ms.datasets.grid3d(14, boundary="dirichlet")
F, b = ms.cholesky(A, "nd", threads=2), np.ones(n)
x = F.refactor(A).solve(b)
for column in (0, n // 8, n // 4):                           # of a bad pivot: blocks of later fronts are unfinished
    bad = sp.csr_array(A - 100 * sp.diags_array((np.arange(n) == F.perm[column]).astype(float)))
    data = F._values.of(bad)
    starve_aligned(2**12, 2**40, 0)
    failed = F._factor.factor(data)
    feed()
    assert failed == column and np.array_equal(F.solve(b), x) and not refused()
k, denied, lost = 0, True, 0
while denied:
    starve(0, 2**40, k)
    try:
        F.refactor(bad)
    except (ms.OutOfMemoryError, ms.NotPositiveDefiniteError):
        feed()
    denied = refused()
    k += 1
    try:
        assert np.array_equal(F.solve(b), x)
    except ms.OutOfMemoryError as e:
        assert "lost" in str(e)
        lost += 1
        for use in (F.rcond, F.logdet, lambda: F.L, lambda: F.solve(np.ones((n, 2))), F.__getstate__):
            try:
                use()
                raise AssertionError(k)
            except ms.OutOfMemoryError:
                pass
        assert np.array_equal(F.refactor(A).solve(b), x)
print(k, lost)
"""


@pytest.mark.slow
@starved.available
def test_a_factor_is_restored_or_lost_without_memory():
    refused, lost = map(int, starved.python(REFUSED).split())
    assert 0 < lost < refused


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("row", [0, 77, 1499, 2999])
def test_the_failing_column_does_not_depend_on_threads(threads, row):
    A = sp.lil_array(spd(grid(60, 50)))
    A[row, row] = -3.0
    with pytest.raises(ms.NotPositiveDefiniteError) as e:
        ms.cholesky(sp.csr_array(A), threads=threads)
    assert e.value.column == row and f"column {row}" in str(e.value)


@pytest.mark.parametrize("row", [0, 127, 128, 300, 699])
def test_the_failing_column_of_a_wide_front_is_named(row):
    A = np.eye(700) + 1e-3
    A[row, row] = -3.0
    for ordering in ("natural", "random"):
        with pytest.raises(ms.NotPositiveDefiniteError) as e:
            ms.cholesky(A, ordering)
        assert e.value.column == row


def test_threads_name_the_same_of_several_bad_pivots():
    A = sp.lil_array(spd(grid(60, 50)))
    for row in range(5, 3000, 211):
        A[row, row] = -3.0
    named = set()
    for threads in (1, 2, 3, 7):
        with pytest.raises(ms.NotPositiveDefiniteError) as e:
            ms.cholesky(sp.csr_array(A), threads=threads)
        named.add(e.value.column)
    assert len(named) == 1


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 19])
def test_any_number_of_right_hand_sides_in_either_order(k):
    A = spd(grid(20, 15))
    F = ms.cholesky(A)
    b = np.random.default_rng(k).standard_normal((300, k))
    x = F.solve(b)
    assert x.shape == b.shape and np.allclose(A @ x, b, atol=1e-11)
    assert np.array_equal(F.solve(np.asfortranarray(b)), x)
    for c in range(k):
        assert np.allclose(F.solve(b[:, c]), x[:, c], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("k", [*range(10), 17])
def test_triangular_systems(k):
    A = spd(grid(9, 8))
    F = ms.cholesky(A)
    b = np.random.default_rng(0).standard_normal((72, k))
    z = F.solve(b[F.perm], system="L")
    assert np.allclose(F.L @ z, b[F.perm])
    y = F.solve(z, system="Lt")
    assert np.allclose(F.L.T @ y, z)
    assert np.allclose(y[np.argsort(F.perm)], F.solve(b))


@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_the_callers_matrix_may_change_later(precision):
    A, b = sp.csr_array(ms.datasets.grid2d(20, 20, boundary="dirichlet")), np.arange(400.0)
    F = ms.cholesky(A, precision=precision)
    x = F.solve(b)
    A.indices[:], A.data[:], A.indptr[1:] = 0, 7.0, 3
    assert np.array_equal(F.solve(b), x)


@pytest.mark.parametrize("columns", [None, 2])
def test_an_out_that_cannot_be_written_to_is_refused(columns):
    b = np.ones(72 if columns is None else (72, columns))
    out = np.empty_like(b)
    out.flags.writeable = False
    with pytest.raises(ms.InvalidInputError, match="writable"):
        ms.cholesky(spd(grid(9, 8))).solve(b, out=out)


def test_kinds_of_right_hand_sides():
    A = spd(grid(9, 8))
    F = ms.cholesky(A)
    b = np.arange(72)
    x = F.solve(b)
    assert x.dtype == np.float64 and np.allclose(A @ x, b)
    assert F.solve(b.astype(np.float32)).dtype == np.float32
    assert np.allclose(F.solve(list(b)), x) and np.allclose(F @ b, x) and np.allclose(F(b), x)
    z = F.solve(b + 2j * b)
    assert z.dtype == np.complex128 and np.allclose(z, x + 2j * x)
    assert np.allclose(F.solve(b[::-1][::-1]), x)
    out = np.empty(72)
    assert F.solve(b, out=out) is out and np.array_equal(out, x)
    for dtype in (np.float32, np.float64):                  # either dtype suits a float32 right-hand side
        out = np.empty(72, dtype)
        assert F.solve(b.astype(np.float32), out=out) is out and np.allclose(out, x, rtol=1e-5)
    for wrong in (np.empty(71), np.empty(72, np.float32), np.empty(72, complex), [0.0] * 72):
        with pytest.raises(ms.InvalidInputError, match="out"):
            F.solve(b, out=wrong)
    assert np.allclose((F.T @ b), x) and F.shape == (72, 72)


@pytest.mark.parametrize("precision, bound", [("single", 1e-6), ("mixed", 1e-15), ("double", 1e-15)])
def test_precisions(precision, bound):
    A = spd(grid(50, 40))
    b = np.random.default_rng(0).standard_normal((2000, 3))
    F = ms.cholesky(A, precision=precision)
    assert backward_error(A, F.solve(b), b) < bound
    assert F.dtype == (np.float32 if precision == "single" else np.float64)


@pytest.mark.parametrize("precision, bound", [("single", 1e-6), ("mixed", 1e-15)])
def test_single_and_mixed_precision_at_any_scale_of_b(precision, bound):
    A, b = spd(grid(9, 9)), np.random.default_rng(0).standard_normal((81, 3)) * [1e200, 1e-60, 1e-290]
    assert backward_error(A, ms.cholesky(A, precision=precision).solve(b), b) < bound


def test_mixed_precision_refines_badly_scaled_rows():
    """Refinement must reach all rows of D A D, not only those of the largest entries."""
    d = 10 ** np.random.default_rng(0).uniform(-8, 8, 400)
    A, b = spd(grid(20, 20)), np.random.default_rng(1).standard_normal(400)
    x = ms.cholesky(sp.csr_array(sp.diags_array(d) @ A @ sp.diags_array(d)), precision="mixed").solve(d * b)
    exact = np.linalg.solve(A.toarray(), b)
    assert abs(d * x - exact).max() < 1e-13 * abs(exact).max()


def test_mixed_precision_warns_if_refinement_fails():
    n, outcomes = 40, []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        A = (Q * np.logspace(0, -8.2, n)) @ Q.T
        A, b = (A + A.T) / 2, rng.standard_normal(n)
        try:
            F = ms.cholesky(A, precision="mixed")
        except ms.NotPositiveDefiniteError:
            continue                                # rounded to float32 it is not positive definite
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x = F.solve(b)
        outcomes.append(bool(caught))
        assert bool(caught) == (backward_error(sp.csr_array(A), x, b) >= 1e-12)
    assert any(outcomes)


@pytest.mark.parametrize("make", [ms.cholesky, ms.lu])
def test_rcond_is_deterministic_and_sees_cancelling_columns(make):
    """The two large columns of the inverse cancel for half of all sign vectors: random signs would miss them half the time."""
    A = np.eye(8)
    A[3, 6] = A[6, 3] = 1 - 1e-9
    F = make(A)
    found = [F.rcond() for _ in range(8)]
    assert len(set(found)) == 1 and found[0] == pytest.approx(1 / np.linalg.cond(A, 1), rel=1e-6)


def test_complex_overflow_affects_one_part_alone():
    with pytest.warns(ms.ConvergenceWarning, match="leaves the range of float64, first in row 0"):
        x = ms.cholesky([[1e-300]]).solve(np.array([1 + 1e300j]))
    assert x[0].real == pytest.approx(1e300) and x[0].imag == np.inf


@pytest.mark.parametrize("make", [ms.cholesky, ms.lu, lambda A: ms.ildl(A, fill_level=None)])
@pytest.mark.parametrize("shape", [(4,), (4, 2)])
def test_solutions_that_overflow_are_warned_of(make, shape):
    """Also where the rounding of intermediate results makes them NaN."""
    b = np.full(shape, 1.0)
    b[..., -1] *= 1e200
    F = make(ms.datasets.grid2d(2, 2, boundary="dirichlet") * 1e-200)
    with pytest.warns(ms.ConvergenceWarning, match="the solution leaves the range of float64"):
        x = F.solve(b)
    assert not np.isfinite(x).all()
    assert np.isfinite(F.solve(np.ones(shape))).all()       # without a warning


def test_rcond_is_near_the_truth():
    for name in ("grid", "random", "diagonal", "one"):
        A = ZOO[name].toarray()
        truth = 1 / np.linalg.cond(A, 1)
        assert truth * 0.99 <= ms.cholesky(A).rcond() <= min(1.0, truth * 10)


def test_lower_triangle_is_enough():
    A = spd(grid(9, 8))
    b = np.arange(72.0)
    assert np.array_equal(ms.cholesky(sp.tril(A), lower=True).solve(b), ms.cholesky(A).solve(b))


@pytest.mark.parametrize("options", [{}, {"fixed": [3, 70]}, {"precision": "mixed"}])
def test_refactor_reads_the_lower_triangle_alone(options):
    A, B = spd(grid(9, 8), seed=1), spd(grid(9, 8), seed=2)
    b, expected = np.arange(72.0), ms.cholesky(A, **options).refactor(B).solve(np.arange(72.0))
    F = ms.cholesky(sp.tril(A), lower=True, **options)
    copies = [pickle.loads(pickle.dumps(F)), copy.deepcopy(F)]
    for G in (F, *copies):
        assert np.array_equal(G.refactor(sp.tril(B)).solve(b), expected)
        assert np.array_equal(G.refactor(B + sp.triu(B, 1)).solve(b), expected)         # the upper triangle has other values
    for sym in (ms.analyze(sp.tril(A), lower=True), pickle.loads(pickle.dumps(ms.cholesky(sp.tril(A), lower=True).symbolic))):
        assert np.array_equal(sym.factor(sp.tril(B)).refactor(sp.tril(B)).solve(b), ms.cholesky(A).refactor(B).solve(b))
    with pytest.raises(ms.NotSymmetricError):
        ms.cholesky(A, **options).refactor(sp.tril(B))


def test_given_orderings():
    A = spd(grid(9, 8))
    perm = np.random.default_rng(0).permutation(72)
    b = np.arange(72.0)
    for ordering in (perm, list(perm), ms.order.amd(A), "rcm", "nnz_sort"):
        assert np.allclose(A @ ms.cholesky(A, ordering=ordering).solve(b), b)
    for wrong in (perm[:-1], perm * 0, perm + 0.5, "metis", 3.0, None):
        with pytest.raises(ms.InvalidInputError):
            ms.cholesky(A, ordering=wrong)


def test_symbolic_is_reused():
    A, C = spd(grid(20, 30), seed=1), spd(grid(20, 30), seed=2)
    sym = ms.analyze(A)
    b = np.arange(600.0)
    assert np.allclose(C @ sym.factor(C).solve(b), b)
    assert np.allclose(A @ sym.factor(A, precision="single").solve(b), b, atol=1e-2)
    with pytest.raises(ms.PatternMismatchError) as e:
        sym.factor(spd(grid(30, 20)))
    assert A[e.value.row, e.value.column] == 0
    again = pickle.loads(pickle.dumps(sym))
    assert np.array_equal(again.factor(A).L.data, sym.factor(A).L.data)


def test_the_pattern_error_mentions_zeros_that_scipy_dropped():
    P = spd(grid(5, 6))
    slack = sp.csr_array(0.0 * P + sp.eye_array(30))
    assert slack.nnz == 30
    with pytest.raises(ms.PatternMismatchError, match="scipy drops zeros"):
        ms.cholesky(slack).refactor(slack + P)
    with pytest.raises(ms.PatternMismatchError, match="scipy drops zeros"):
        ms.lu(slack).refactor(slack + P)
    assert np.allclose((slack + P) @ ms.analyze(P).factor(slack).refactor(slack + P).solve(np.ones(30)), 1)


def test_report_has_phases_and_sizes():
    A = spd(grid(30, 30))
    F = ms.cholesky(A)
    F.solve(np.ones(900))
    d = F.report.as_dict()
    assert {"order", "symbolic", "numeric", "solve"} <= set(d["seconds"])
    assert d["nnz_A"] == A.nnz and d["nnz_L"] == F.nnz and d["flops"] == F.flops and d["bytes"] > 8 * F.nnz
    assert d["ordering"] == "amd" and d["device"] == "cpu" and "numeric" in str(F.report)


def test_the_memory_of_a_factor_is_counted_once():
    F = ms.cholesky(spd(grid(300, 300)), threads=1)
    stored = F.symbolic.nbytes
    assert stored < F.report.facts["bytes"] < 1.75 * stored


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["v2", "v3", "v4"])
def test_every_instruction_set_solves(isa):
    if _core.is_one_isa and _core.isa() != isa:
        pytest.skip("built for another instruction set alone (MESHSOLVE_ISA)")
    code = (
        "import numpy as np, scipy.sparse as sp, meshsolve as ms\n"
        "from meshsolve import _core\n"
        "rng = np.random.default_rng(0); B = rng.standard_normal((430, 430)); A = B @ B.T + 430 * np.eye(430)\n"
        "for precision, bound in (('double', 1e-13), ('single', 1e-4)):\n"
        "    for k in range(1, 10):\n"
        "        b = rng.standard_normal((430, k)); x = ms.cholesky(A, precision=precision).solve(b)\n"
        "        assert np.abs(A @ x - b).max() < bound * 430, (precision, k)\n"
        "G = ms.datasets.grid2d(31, 37, boundary='dirichlet'); b = rng.standard_normal(31 * 37)\n"
        "assert np.abs(G @ ms.cholesky(G).solve(b) - b).max() < 1e-11\n"
        "G = ms.datasets.grid3d(12, boundary='dirichlet'); B = rng.standard_normal((12**3, 5))\n"
        "for solve in (ms.cholesky(G).solve, ms.cholesky(G, precision='single').solve, ms.ildl(G, fill_level=None).solve):\n"
        "    assert np.array_equal(solve(B), np.stack([solve(b) for b in B.T], axis=1))\n"
        "C, b = np.zeros((430, 7)), np.ones(430); C[np.arange(7) * 60, np.arange(7)] = 9; C[3, :] = 1\n"
        "for precision, bound in (('double', 1e-11), ('single', 1e-3)):\n"
        "    x = ms.cholesky(A, precision=precision).update(C).solve(b)\n"
        "    assert np.abs(A @ x + C @ (C.T @ x) - b).max() < bound, precision\n"
        "print(_core.isa())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "MESHSOLVE_ISA": isa})
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() in ("v2", "v3", "v4") and run.stdout.strip() <= isa


@pytest.mark.parametrize("precision", ["single", "mixed"])
def test_refused_float32_underflow_keeps_the_factor(precision):
    """They have a factor in float32, but their solutions overflow in float32."""
    A, b = ms.datasets.grid2d(20, 20, boundary="dirichlet"), np.ones(400)
    F = ms.cholesky(A, precision=precision)
    x = F.solve(b)
    for scale in (1e-40, 1e-36):
        with pytest.raises(ms.InvalidInputError, match='outside the range of float32: use precision="double"'):
            ms.cholesky(scale * A, precision=precision)
        with pytest.raises(ms.InvalidInputError, match="outside the range of float32"):
            F.refactor(scale * A)
        assert np.array_equal(F.solve(b), x)
