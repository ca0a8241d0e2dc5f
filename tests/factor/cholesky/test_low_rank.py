"""Updates and downdates of a factor: against a factorization of the changed matrix, with constraints, and where they are refused."""

import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import starved
from hypothesis import given, settings
from hypothesis import strategies as st

import meshsolve as ms
from tests.zoo import columns_within, random_spd, zoo

pytestmark = pytest.mark.native
ZOO = zoo()


def same(F, A, tolerance=1e-11):
    """Check solves, determinant and inverse of F as a factor of A."""
    expected, b = ms.cholesky(A, ordering=F.perm), np.random.default_rng(1).standard_normal((A.shape[0], 3))
    scale = abs(A).max()
    assert abs(F.L @ F.L.T - A[F.perm][:, F.perm]).max() <= tolerance * scale
    np.testing.assert_allclose(F.solve(b), expected.solve(b), rtol=1e-8, atol=1e-9)
    assert F.logdet() == pytest.approx(expected.logdet(), rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(F.inverse_diagonal(), expected.inverse_diagonal(), rtol=1e-7)
    assert F.rcond() == pytest.approx(expected.rcond(), rel=1e-6)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(F)).solve(b), expected.solve(b), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("k", [1, 3, 11])
def test_an_update_is_the_factor_of_the_sum(name, k):
    A = ZOO[name]
    C = columns_within(A, k, seed=k, size=3.0)
    F = ms.cholesky(A)
    assert F.update(C) is F
    same(F, sp.csr_array(A + C @ C.T))
    F.downdate(C.toarray())
    same(F, A)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.floats(0.0, 0.4), st.integers(0, 10**6), st.integers(0, 6), st.sampled_from(["nd", "amd", "natural", "random"]))
def test_any_pattern_and_ordering(n, density, seed, k, ordering):
    A = random_spd(n, density, seed)
    F = ms.cholesky(A, ordering=ordering)
    C = columns_within(A, k, seed)
    same(F.update(C), sp.csr_array(A + C @ C.T))


def test_wide_fronts_and_dense_columns():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((600, 600))
    A = sp.csr_array(M @ M.T + 600 * np.eye(600))               # one front of several steps
    C = rng.standard_normal((600, 5))
    F = ms.cholesky(A)
    same(F.update(C), sp.csr_array(A + C @ C.T))
    same(F.update(C[:, 0]).downdate(C), sp.csr_array(A + np.outer(C[:, 0], C[:, 0])))


@pytest.mark.parametrize("precision, weight, tolerance", [("double", 1e4, 1e-12), ("double", 1e8, 1e-12), ("double", 1e14, 1e-12),
                                                          ("single", 1e5, 2e-5)])
def test_an_edge_of_any_weight_ties_its_ends(precision, weight, tolerance):
    """Nearly all digits of x are right, although A + C C^T has lost those of A. Only one form of rotations does not cancel."""
    A = sp.csr_array(ms.datasets.grid2d(20, 20) + 0.1 * sp.eye_array(400))
    C, b = np.zeros((400, 2)), np.random.default_rng(0).standard_normal(400)
    C[[190, 191], 0] = weight, -weight
    C[7, 1] = weight
    F = ms.cholesky(A)
    Z, x = F.solve(C), F.solve(b)
    expected = x - Z @ np.linalg.solve(np.eye(2) + C.T @ Z, C.T @ x)                   # Woodbury's formula
    got = ms.cholesky(A, precision=precision).update(C).solve(b)
    assert abs(got - expected).max() <= tolerance * abs(expected).max()


def test_pivots_whose_squares_vanish():
    A = sp.diags_array([1.0, 1.0, 1e-44]).tocsr()               # subnormal in float32; its square root has all bits
    C = np.array([0.0, 0.0, 1e-30])                             # changes nothing
    F = ms.cholesky(A, precision="single", ordering="natural")
    before = F.L.toarray()
    assert np.array_equal(F.update(C).L.toarray(), before) and np.array_equal(F.downdate(C).L.toarray(), before)
    C[2] = 0.3 * before.diagonal().min()
    assert F.update(C).L.diagonal().min() / before.diagonal().min() == pytest.approx(np.sqrt(1.09), rel=1e-5)


def test_many_columns_and_long_ones():
    n = 500
    rng = np.random.default_rng(0)
    block = np.ones((60, 60))
    A = sp.csr_array(sp.block_diag([ms.datasets.grid2d(20, 22) + sp.eye_array(440), block + 60 * np.eye(60)]))
    C = sp.csc_array((rng.uniform(0, 1, 3000), (rng.integers(0, n, 3000), np.arange(3000))), shape=(n, 3000))
    D = np.zeros((n, 3))
    D[440:, 0], D[445:490, 2] = rng.standard_normal(60), 1.0
    F = ms.cholesky(A).update(sp.hstack([C, sp.csc_array(D)]))
    same(F, sp.csr_array(A + C @ C.T + D @ D.T))
    same(F.downdate(D), sp.csr_array(A + C @ C.T))


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/clear_refs").exists(), reason="reads the peak from Linux")
def test_long_columns_take_no_memory_for_their_squares():
    code = """
import numpy as np, meshsolve as ms
def peak(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))
n = 1500
F, C = ms.cholesky(np.ones((n, n)) + n * np.eye(n)), np.random.default_rng(0).standard_normal((n, 40))
open("/proc/self/clear_refs", "w").write("5")
before = peak("VmRSS")
F.update(C)
print(peak("VmHWM") - before)
"""
    assert int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) < 100e6      # 700 MB of entries


def test_a_mesh_gains_and_loses_soft_constraints():
    mesh = ms.datasets.icosphere(5)
    A = sp.csr_array(ms.cotan_laplacian(mesh) + 1e-3 * ms.mass_matrix(mesh))
    rows, n = np.array([5, 900, 4321]), A.shape[0]
    C = sp.csc_array((np.full(3, 30.0), (rows, np.arange(3))), shape=(n, 3))
    F, b = ms.cholesky(A), np.random.default_rng(0).standard_normal(n)
    before = F.solve(b)
    held = F.update(C).solve(b)
    np.testing.assert_allclose(held, ms.cholesky(sp.csr_array(A + C @ C.T)).solve(b), rtol=1e-9, atol=1e-12)
    for q in (1, 0, 2):
        F.downdate(C[:, [q]])
    np.testing.assert_allclose(F.solve(b), before, rtol=1e-8, atol=1e-10)
    assert F.report.seconds["update"] > 0


@pytest.mark.parametrize("precision, tolerance", [("single", 1e-3), ("mixed", 1e-9)])
def test_other_precisions(precision, tolerance):
    A = ZOO["grid"]
    C = columns_within(A, 4, 0)
    F, b = ms.cholesky(A, precision=precision).update(C), np.ones(A.shape[0])
    expected = ms.cholesky(sp.csr_array(A + C @ C.T)).solve(b)
    np.testing.assert_allclose(F.solve(b), expected, rtol=tolerance)
    np.testing.assert_allclose(F.downdate(C).solve(b), ms.cholesky(A).solve(b), rtol=tolerance)


def test_columns_of_any_index_type():
    A, C = ZOO["grid"], columns_within(ZOO["grid"], 3, 0)
    C.indices, C.indptr = C.indices.astype(np.int64), C.indptr.astype(np.int64)
    b = np.ones(A.shape[0])
    expected = ms.cholesky(sp.csr_array(A + C @ C.T)).solve(b)
    for precision in ("double", "mixed"):
        np.testing.assert_allclose(ms.cholesky(A, precision=precision).update(C).solve(b), expected, rtol=1e-9)


def test_stored_zeros_and_duplicates():
    A, n = ZOO["grid"], ZOO["grid"].shape[0]
    given = np.array([1.0, 0.5, 0.0, 2.0, -2.0]), np.array([3, 3, n - 1, 40, 40]), np.array([0, 5])
    C = sp.csc_array(tuple(part.copy() for part in given), shape=(n, 1))            # 1.5 in row 3, nothing else
    F = ms.cholesky(A).update(C)
    assert all(np.array_equal(a, b) for a, b in zip((C.data, C.indices, C.indptr), given, strict=True))        # the caller's arrays
    same(F, sp.csr_array(A + sp.coo_array(([2.25], ([3], [3])), shape=(n, n))))


def test_bits_do_not_depend_on_threads():
    A = sp.csr_array(ms.datasets.grid3d(16) + sp.eye_array(16**3))
    C = columns_within(A[:200, :200], 3, 0)
    C = sp.csc_array(sp.vstack([C, sp.csc_array((A.shape[0] - 200, 3))]))
    results = [ms.cholesky(A, threads=t).update(C).downdate(C[:, [1]]).solve(np.ones(A.shape[0])) for t in (1, 2, 3)]
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


# ---- constraints ----------------------------------------------------------------------------------------------------------

def test_fixed_rows_contribute_through_their_values():
    A = ZOO["grid"]
    fixed = [0, 1, 60]
    w = np.zeros(A.shape[0])
    w[[1, 2]] = 2.0, -1.5                                       # a fixed row and a free one
    v = np.zeros(A.shape[0])
    v[0], v[9] = 3.0, 0.5                                       # only the free one is in the factored block
    B = sp.csr_array(A + np.outer(w, w) + np.outer(v, v))
    values, b = np.array([1.0, -2.0, 4.0]), np.random.default_rng(0).standard_normal(A.shape[0])
    F = ms.cholesky(A, fixed=fixed).update(np.stack([w, v], 1))
    expected = ms.cholesky(B, fixed=fixed).solve(b, fixed_values=values)
    np.testing.assert_allclose(F.solve(b, fixed_values=values), expected, rtol=1e-11)
    np.testing.assert_allclose(F.downdate(w).downdate(v).solve(b, fixed_values=values),
                               ms.cholesky(A, fixed=fixed).solve(b, fixed_values=values), rtol=1e-9)


def test_pinned_laplacians_gain_and_lose_edges():
    L = ms.graph_laplacian(ms.datasets.grid2d(6, 7))
    n, b = L.shape[0], np.random.default_rng(0).standard_normal(L.shape[0])
    b -= b.mean()
    C = np.zeros((n, 2))
    C[[0, 1], 0], C[[22, 23], 1] = (2, -2), (0.5, -0.5)         # the first edge is at the pin
    F = ms.cholesky(L, pin=True).update(C)
    expected = np.linalg.pinv(L.toarray() + C @ C.T, hermitian=True)
    np.testing.assert_allclose(F.solve(b), expected @ b, atol=1e-11)
    np.testing.assert_allclose(F.inverse_diagonal(), np.diag(expected), atol=1e-11)
    with pytest.raises(ms.NotLaplacianError, match="column 1 of C sums to 1"):
        F.update(np.stack([C[:, 0], np.eye(n)[3]], 1))
    np.testing.assert_allclose(F.solve(b), expected @ b, atol=1e-11)


def test_an_edge_cut_at_a_pin_stays_in_the_pattern():
    L = ms.graph_laplacian(ms.datasets.grid2d(4, 4))
    C = np.zeros(16)
    C[[0, 1]] = 1, -1                                           # row 0 is the pin
    F = ms.cholesky(L, pin=True)
    before = F.selected_inverse()
    after = F.downdate(C).selected_inverse()
    assert np.array_equal(after.indices, before.indices) and np.array_equal(after.indptr, before.indptr)
    expected = np.linalg.pinv(L.toarray() - np.outer(C, C), hermitian=True)
    np.testing.assert_allclose(after.toarray()[[0, 1], [1, 0]], expected[[0, 1], [1, 0]], atol=1e-12)


def test_updates_need_zero_sums_on_pinned_components():
    L = sp.csr_array(sp.block_diag([ms.datasets.grid2d(3, 3), ms.datasets.grid2d(2, 2)]))
    F, C = ms.cholesky(L, pin=True), np.zeros(13)
    C[[0, 1, 9, 10]] = 1, -1, 1, -1
    with pytest.raises(ms.PatternMismatchError):
        F.update(C)
    for rows, values, total in (([0, 9], [1, -1], "1"), ([0, 1], [1, -0.5], "0.5")):
        C = np.zeros(13)
        C[rows] = values
        with pytest.raises(ms.NotLaplacianError, match=f"column 0 of C sums to {total},"):
            F.update(C)
    alone = ms.cholesky(sp.csr_array((3, 3)), pin=True)
    assert not alone.update(np.zeros(3)).solve(np.zeros(3)).any()
    for C in ([1.0, -1.0, 0.0], [0.0, 2.0, 0.0]):
        with pytest.raises(ms.NotLaplacianError, match="with pin=True"):
            alone.update(C)


class Late:
    """A core whose calls are interrupted after their work: Python handles a Ctrl-C after the call."""

    def __init__(self, core):
        self._core = core

    def __getattr__(self, name):
        return getattr(self._core, name)

    def factor(self, *arguments):
        self._core.factor(*arguments)
        raise KeyboardInterrupt

    def update(self, *arguments):
        self._core.update(*arguments)
        raise KeyboardInterrupt


@pytest.mark.parametrize("precision", ["double", "mixed"])
@pytest.mark.parametrize("fixed", [None, [0, 1, 60]])
def test_ctrl_c_at_the_end_leaves_a_consistent_factor(precision, fixed):
    A, w = ZOO["grid"], np.zeros(ZOO["grid"].shape[0])
    w[[1, 2]] = 2.0, -1.5                                       # row 1 is fixed
    B = sp.csr_array(A + np.outer(w, w))
    F, b = ms.cholesky(A, precision=precision, fixed=fixed), np.arange(A.shape[0], dtype=float)
    core, values = F._factor._factor, None if fixed is None else [1.0, -2.0, 4.0]
    for call, argument, M in ((F.update, w, B), (F.downdate, w, A), (F.refactor, B, B), (F.refactor, A, A)):
        F._factor._factor = Late(core)
        with pytest.raises(KeyboardInterrupt):
            call(argument)
        F._factor._factor = core
        expected = ms.cholesky(M, fixed=fixed).solve(b, fixed_values=values)
        np.testing.assert_allclose(F.solve(b, fixed_values=values), expected, rtol=1e-9)
        np.testing.assert_allclose(pickle.loads(pickle.dumps(F)).solve(b, fixed_values=values), expected, rtol=1e-9)


# ---- refusals ---------------------------------------------------------------------------------------------------------------

def test_refused_input_keeps_the_factor():
    A = ZOO["grid"]
    n, F = A.shape[0], ms.cholesky(A)
    b = np.random.default_rng(0).standard_normal(n)
    before, far = F.solve(b), np.zeros(n)
    far[[0, n - 1]] = 1
    one = np.zeros(n)
    one[3] = 1e3
    nan, inside = one * np.nan, sp.csc_array((np.array([np.inf]), (np.array([2]), np.array([0]))), shape=(n, 1))
    broken = sp.csc_array(one[:, None])
    broken.indices = np.array([n + 5], broken.indices.dtype)
    cases = [(F.update, far, ms.PatternMismatchError), (F.downdate, far, ms.PatternMismatchError), (F.downdate, one, ms.NotPositiveDefiniteError),
             (F.update, nan, ms.InvalidInputError), (F.update, inside, ms.InvalidInputError), (F.update, one[1:], ms.InvalidInputError),
             (F.update, one * 1j, ms.InvalidInputError), (F.update, sp.csc_array(one[1:, None]), ms.InvalidInputError),
             (F.update, sp.csc_array(one[:, None] * 1j), ms.InvalidInputError), (F.update, broken, ms.InvalidInputError),
             (F.update, "text", ms.InvalidInputError), (F.update, one * 1e200, ms.InvalidInputError)]
    for call, C, error in cases:
        with pytest.raises(error):
            call(C)
        assert np.array_equal(F.solve(b), before)
    with pytest.raises(ms.PatternMismatchError, match="C C.T has an entry at row") as refused:
        F.update(far)
    assert {refused.value.row, refused.value.column} == {0, n - 1}
    assert np.array_equal(F.update(np.zeros((n, 0))).update(np.zeros(n)).solve(b), before)


@pytest.mark.parametrize("others", [1, 50])
@pytest.mark.parametrize("ordering", ["natural", "random"])
def test_the_first_pair_outside_the_pattern_is_named(others, ordering):
    n = 80
    A = np.ones((n, n)) + n * np.eye(n)
    A[5, 70] = A[70, 5] = 0                                     # all pairs of rows except one
    F, C = ms.cholesky(sp.csr_array(A), ordering=ordering), np.zeros((n, 2))
    b = F.solve(np.ones(n))
    C[[*range(5, 5 + others), 70], 1] = 1
    for call in (F.update, F.downdate):
        with pytest.raises(ms.PatternMismatchError) as refused:
            call(C)
        assert {refused.value.row, refused.value.column} == {5, 70} and np.array_equal(F.solve(np.ones(n)), b)


def test_a_factor_that_cannot_be_restored_is_lost():
    A, n = sp.csr_array(ms.datasets.grid2d(6, 6) + 0.5 * sp.eye_array(36)), 36
    tie, much = np.zeros(n), np.zeros(n)
    tie[[8, 9]] = 1e9, -1e9                                     # A + tie tie^T is numerically singular, this factor is not
    much[20] = 1e3
    F = ms.cholesky(A).update(tie)
    x = F.solve(np.ones(n))
    assert x[8] == pytest.approx(x[9], rel=1e-12)
    with pytest.raises(ms.NotPositiveDefiniteError, match="is lost"):
        F.downdate(much)
    for use in (lambda: F.solve(np.ones(n)), F.logdet, F.inverse_diagonal, lambda: F.update(much), lambda: pickle.dumps(F)):
        with pytest.raises(ms.NotPositiveDefiniteError, match="is lost"):
            use()
    same(F.refactor(A).update(much), sp.csr_array(A + np.outer(much, much)))


STARVED = """
import numpy as np, scipy.sparse as sp, meshsolve as ms

A = sp.csr_array(ms.datasets.grid2d(12, 12) + sp.eye_array(144))
b, C = np.arange(144.0), sp.csc_array((np.full(4, 0.5), ([3, 50, 99, 143], np.arange(4))), shape=(144, 4))
F = ms.cholesky(A, "nd", precision=PRECISION)
x, lost, refusals = F.solve(b), 0, 0
for call in (F.update, F.downdate):
    y, k, denied = call(C).solve(b), 0, True
    F.refactor(A)
    while denied:
        starve(0, 2**40, k)
        try:
            call(C)
        except MemoryError:
            pass
        feed()
        denied, k = refused(), k + 1
        refusals += denied
        try:
            now = F.solve(b)
            assert np.array_equal(now, x if denied else y), k
        except ms.OutOfMemoryError as e:
            assert "lost" in str(e)
            lost += 1
        F.refactor(A)
print(refusals, lost)
"""


@starved.available
@pytest.mark.parametrize("precision", ["double", "mixed"])
def test_the_factor_survives_lack_of_memory(precision):
    refused, lost = map(int, starved.python(STARVED.replace("PRECISION", repr(precision))).split())
    assert refused > 50 and lost < refused                      # lost: no memory for a numeric phase either


def test_a_matrix_that_becomes_singular_is_refused():
    L = ms.datasets.grid2d(5, 5)
    w = np.zeros(25)
    w[7] = 1.0
    F = ms.cholesky(sp.csr_array(L + np.outer(w, w)))           # this term makes it definite
    x = F.solve(np.ones(25))
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.downdate(w)
    assert np.array_equal(F.solve(np.ones(25)), x)
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.downdate(np.stack([w, w], 1) / np.sqrt(2))            # their sum is too large
    same(F.downdate(w / 2), sp.csr_array(L + 0.75 * np.outer(w, w)))


@pytest.mark.parametrize("precision, accepted, refused", [("double", 1e-12, 1e-15), ("single", 1e-4, 1e-6)])
def test_how_little_of_the_determinant_may_be_left(precision, accepted, refused):
    one = lambda: ms.cholesky(sp.csr_array([[4.0]]), precision=precision)
    assert one().downdate([2 * np.sqrt(1 - accepted)]).L[0, 0] == pytest.approx(2 * np.sqrt(accepted), rel=1e-2)
    with pytest.raises(ms.NotPositiveDefiniteError, match="to working precision"):
        one().downdate([2 * np.sqrt(1 - refused)])
    two = sp.csr_array((np.array([1.0, 0, 0, 1.0]), [0, 1, 0, 1], [0, 2, 4]))
    part = np.sqrt(refused)                                     # remaining part of each of two pivots
    with pytest.raises(ms.NotPositiveDefiniteError, match="to working precision"):
        ms.cholesky(two, precision=precision).downdate([np.sqrt(1 - part), np.sqrt(part * (1 - part))])


def test_updates_after_a_failed_refactorization():
    A = ZOO["random"]
    C = columns_within(A, 2, 5)
    F = ms.cholesky(A).update(C)
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(-A)
    same(F, sp.csr_array(A + C @ C.T))
    same(F.downdate(C), A)
    same(F.refactor(2 * A).update(C), sp.csr_array(2 * A + C @ C.T))
