"""Updates and downdates of factors on the GPU: against those of the host, constraints, refusals, captured steps, counts, races."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from cuda_cases import BOUND, WAYS, close, use_way
from kernel_harness import Harness
from kernel_harness.strict import Strict
from on_device import Sparse, to_cuda, to_numpy
from zoo import columns_within, grid, random_spd, spd, zoo

import meshsolve as ms
from meshsolve import device

ZOO = zoo()


def pair(A, precision="double", ordering="auto"):
    """The factors of the GPU and of the host in one ordering."""
    F = ms.cholesky(Sparse(A), ordering, precision=precision, device="cuda")
    return F, ms.cholesky(A, to_numpy(F.symbolic.ordering.perm), precision=precision, device="cpu")


def same(F, G, bound=1e-12):
    """Compare the factor, a solve and the inverse of F on the GPU with those of G on the host."""
    close(F.L.data, G.L.data, bound)
    b = np.random.default_rng(1).standard_normal((F.shape[0], 3))
    x = G.solve(b)
    assert abs(F.solve(b) - x).max() <= 100 * bound * max(abs(x).max(), 1)
    assert abs(to_numpy(F.inverse_diagonal()) - G.inverse_diagonal()).max() <= 100 * bound * max(abs(G.inverse_diagonal()).max(), 1)


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("k", [1, 3, 11, 37])
def test_updates_are_those_of_the_host(gpu, name, k):
    A = ZOO[name]
    C = columns_within(A, k, seed=k, size=3.0)
    F, G = pair(A)
    assert F.update(C) is F
    same(F, G.update(C))
    if k == 3:
        close(pickle.loads(pickle.dumps(F)).L.data, ms.cholesky(sp.csr_array(A + C @ C.T), ordering=G.symbolic.ordering.perm).L.data, 1e-12)
        assert F.rcond() == pytest.approx(G.rcond(), rel=1e-9)
    F.downdate(C.toarray())
    same(F, G.downdate(C), 1e-10)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_a_front(gpu, monkeypatch, way):
    use_way(monkeypatch, way)
    A = spd(grid(26, 25))
    C = columns_within(A, 5, 0)
    F, G = pair(A, ordering="nd")
    same(F.update(C), G.update(C))
    same(F.downdate(C[:, [1, 3]]), G.downdate(C[:, [1, 3]]))


@pytest.mark.parametrize("seed", range(4))
def test_random_patterns(gpu, seed):
    A = random_spd(100, 0.02 + 0.03 * seed, seed)
    C = columns_within(A, 20, seed)
    F, G = pair(A)
    same(F.update(C), G.update(C), 1e-11)


def test_wide_fronts_and_dense_columns(gpu):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((150, 150))
    A = sp.csr_array(M @ M.T + 150 * np.eye(150))               # one front of several steps, with one column of C to several groups
    C = rng.standard_normal((150, 18))
    F, G = pair(A)
    same(F.update(C), G.update(C))
    same(F.downdate(C[:, 3:]), G.downdate(C[:, 3:]), 1e-11)
    F, G = pair(A, ordering="natural")
    same(F.update(C[:, 0]), G.update(C[:, 0]))
    same(F.downdate(C[:, 0]), G.downdate(C[:, 0]))


@pytest.mark.parametrize("weight", [1e4, 1e8, 1e14])
def test_an_edge_of_any_weight_ties_its_ends(gpu, weight):
    """Nearly all digits of x are right, although A + C C^T has lost those of A. Only one form of rotations does not cancel."""
    A = sp.csr_array(ms.datasets.grid2d(20, 20) + 0.1 * sp.eye_array(400))
    C, b = np.zeros((400, 2)), np.random.default_rng(0).standard_normal(400)
    C[[190, 191], 0] = weight, -weight
    C[7, 1] = weight
    F = ms.cholesky(A, device="cuda")
    Z, x = F.solve(C), F.solve(b)
    expected = x - Z @ np.linalg.solve(np.eye(2) + C.T @ Z, C.T @ x)                   # Woodbury's formula
    assert abs(F.update(C).solve(b) - expected).max() <= 1e-12 * abs(expected).max()


@pytest.mark.parametrize("precision", ["single", "mixed"])
def test_other_precisions(gpu, precision):
    A = ZOO["grid"]
    C, b = columns_within(A, 4, 0), np.ones(A.shape[0])
    F, G = pair(A, precision)
    close(F.update(C).L.data, G.update(C).L.data, BOUND["single"])
    expected = ms.cholesky(sp.csr_array(A + C @ C.T)).solve(b)
    np.testing.assert_allclose(F.solve(b), expected, rtol=1e-3 if precision == "single" else 1e-9)
    np.testing.assert_allclose(F.downdate(C).solve(b), ms.cholesky(A).solve(b), rtol=1e-3 if precision == "single" else 1e-9)


class OnGpu:
    """The attributes of a cupyx.scipy.sparse matrix that are read."""

    def __init__(self, C):
        self.shape, self.nnz, self._host = C.shape, C.nnz, C

    def get(self):
        return self._host


def test_columns_on_the_gpu(gpu):
    A = ZOO["grid"]
    C = columns_within(A, 3, 0)
    F, G = pair(A)
    same(F.update(to_cuda(C.toarray())), G.update(C))
    same(F.downdate(OnGpu(C)), G.downdate(C))


def test_refactorizations_and_updates_alternate(gpu):
    A, C = spd(grid(12, 9)), columns_within(spd(grid(12, 9)), 3, 0)
    F = ms.cholesky(Sparse(A), device="cuda")
    first = F.L.data
    for _ in range(2):
        updated = F.update(C).L.data
        assert np.array_equal(F.refactor(Sparse(A)).L.data, first)
        assert np.array_equal(F.update(C).L.data, updated) and np.array_equal(F.refactor(A).L.data, first)
    bad = A.copy()
    bad[7, 7] = -1.0
    F.update(C)
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(Sparse(bad))
    close(F.L.data, updated, 1e-13)                             # restored from the values
    close(F.downdate(C).L.data, first, 1e-12)


# ---- constraints ----------------------------------------------------------------------------------------------------------

def test_fixed_rows_contribute_through_their_values(gpu):
    A = ZOO["grid"]
    fixed, n = [0, 1, 60], A.shape[0]
    w, v, far = np.zeros(n), np.zeros(n), np.zeros(n)
    w[[1, 2]] = 2.0, -1.5                                       # a fixed row and a free one
    v[0], v[9] = 3.0, 0.5                                       # only the free one is in the factored block
    far[60], far[30] = 1.0, 2.0                                 # the coupling had no such entry
    C = np.stack([w, v, far], 1)
    values, b = np.array([1.0, -2.0, 4.0]), np.random.default_rng(0).standard_normal(n)
    F = ms.cholesky(Sparse(A), fixed=fixed, device="cuda")
    before = F.solve(b, fixed_values=values)
    expected = ms.cholesky(sp.csr_array(A + C @ C.T), fixed=fixed).solve(b, fixed_values=values)
    for _ in range(2):
        np.testing.assert_allclose(F.update(C).solve(b, fixed_values=values), expected, rtol=1e-11)
        assert np.array_equal(F.refactor(Sparse(A)).solve(b, fixed_values=values), before)
    np.testing.assert_allclose(F.update(C).downdate(C).solve(b, fixed_values=values), before, rtol=1e-9)
    much = np.zeros(n)
    much[[1, 2]] = 1e4
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.downdate(much)
    np.testing.assert_allclose(F.solve(b, fixed_values=values), before, rtol=1e-9)


def test_pinned_laplacians_gain_and_lose_edges(gpu):
    L = ms.graph_laplacian(ms.datasets.grid2d(6, 7))
    n, b = L.shape[0], np.random.default_rng(0).standard_normal(L.shape[0])
    b -= b.mean()
    C = np.zeros((n, 2))
    C[[0, 1], 0], C[[22, 23], 1] = (2, -2), (0.5, -0.5)         # the first edge is at the pin
    F = ms.cholesky(Sparse(L), pin=True, device="cuda").update(C)
    expected = np.linalg.pinv(L.toarray() + C @ C.T, hermitian=True)
    np.testing.assert_allclose(F.solve(b), expected @ b, atol=1e-11)
    np.testing.assert_allclose(to_numpy(F.inverse_diagonal()), np.diag(expected), atol=1e-11)
    with pytest.raises(ms.NotLaplacianError, match="column 1 of C sums to 1"):
        F.update(np.stack([C[:, 0], np.eye(n)[3]], 1))
    np.testing.assert_allclose(F.solve(b), expected @ b, atol=1e-11)
    alone = ms.cholesky(Sparse(sp.csr_array((np.zeros(3), (np.arange(3), np.arange(3))))), pin=True, device="cuda")
    assert not alone.update(np.zeros(3)).solve(np.zeros(3)).any()
    with pytest.raises(ms.NotLaplacianError, match="with pin=True"):
        alone.update(np.array([1.0, -1.0, 0.0]))


# ---- refusals ---------------------------------------------------------------------------------------------------------------

def test_refused_input_keeps_the_factor(gpu):
    A = ZOO["grid"]
    n, F = A.shape[0], ms.cholesky(Sparse(A), device="cuda")
    b = np.random.default_rng(0).standard_normal(n)
    before, far, one = F.solve(b), np.zeros(n), np.zeros(n)
    far[[0, n - 1]] = 1
    one[3] = 1e3
    late = np.zeros((n, 20))
    late[5, :19], late[3, 19] = 0.1, 1e3                           # the last column fails, of the second launch
    for call, C, error in ((F.update, far, ms.PatternMismatchError), (F.downdate, far, ms.PatternMismatchError),
                           (F.downdate, one, ms.NotPositiveDefiniteError), (F.downdate, late, ms.NotPositiveDefiniteError),
                           (F.update, one * np.nan, ms.InvalidInputError), (F.update, to_cuda(one * np.nan), ms.InvalidInputError),
                           (F.update, one[1:], ms.InvalidInputError), (F.update, one * 1j, ms.InvalidInputError),
                           (F.update, one * 1e200, ms.InvalidInputError)):
        with pytest.raises(error):
            call(C)
        assert np.array_equal(F.solve(b), before)
    assert np.array_equal(F.update(np.zeros((n, 0))).update(np.zeros(n)).downdate(sp.csc_array((n, 2))).solve(b), before)


@pytest.mark.parametrize("others", [1, 50])
@pytest.mark.parametrize("ordering", ["natural", "random"])
def test_the_first_pair_outside_the_pattern_is_named(gpu, others, ordering):
    n = 80
    A = np.ones((n, n)) + n * np.eye(n)
    A[5, 70] = A[70, 5] = A[6, 71] = A[71, 6] = 0               # all pairs of rows except two
    F, C = ms.cholesky(sp.csr_array(A), ordering=ordering, device="cuda"), np.zeros((n, 3))
    G, b = ms.cholesky(sp.csr_array(A), to_numpy(F.symbolic.ordering.perm), device="cpu"), F.solve(np.ones(n))
    C[[*range(5, 5 + others), 70, 71], 1] = C[[6, 71], 2] = 1
    for call, reference in ((F.update, G.update), (F.downdate, G.downdate)):
        named = []
        for each in (call, reference):
            with pytest.raises(ms.PatternMismatchError, match="C C.T has an entry at row") as refused:
                each(C)
            named.append((refused.value.row, refused.value.column, str(refused.value)))
        assert named[0] == named[1] and np.array_equal(F.solve(np.ones(n)), b)
    F = ms.cholesky(sp.csr_array(A), fixed=[0, 1], device="cuda")
    with pytest.raises(ms.PatternMismatchError) as refused:
        F.update(C[:, 1] * (np.arange(n) != 71))
    assert {refused.value.row, refused.value.column} == {5, 70}


def test_a_factor_that_cannot_be_restored_is_lost(gpu):
    A, n = sp.csr_array(ms.datasets.grid2d(6, 6) + 0.5 * sp.eye_array(36)), 36
    tie, much = np.zeros(n), np.zeros(n)
    tie[[8, 9]] = 1e9, -1e9                                     # A + tie tie^T is numerically singular, this factor is not
    much[20] = 1e3
    F = ms.cholesky(Sparse(A), device="cuda").update(tie)
    x = F.solve(np.ones(n))
    assert x[8] == pytest.approx(x[9], rel=1e-12)
    b = to_cuda(np.ones(n))
    out = to_cuda(np.ones(n))
    with F.capture() as step:
        F.solve(b, out=out)
    with pytest.raises(ms.NotPositiveDefiniteError, match="is lost"):
        F.downdate(much)
    for use in (lambda: F.solve(np.ones(n)), F.logdet, F.inverse_diagonal, F.selected_inverse, lambda: F.update(much), lambda: pickle.dumps(F),
                lambda: F.L, F.rcond, step.launch):
        with pytest.raises(ms.NotPositiveDefiniteError, match="is lost"):
            use()
    with pytest.raises(ms.NotPositiveDefiniteError, match="is not positive"):
        F.refactor(-A)
    with pytest.raises(ms.NotPositiveDefiniteError, match="is lost"):
        F.solve(np.ones(n))
    same(F.refactor(A).update(much), ms.cholesky(A, to_numpy(F.symbolic.ordering.perm)).update(much))


@pytest.mark.parametrize("fixed", [None, [0, 1, 60]])
def test_ctrl_c_leaves_a_consistent_factor(gpu, monkeypatch, fixed):
    """After the launches, and when the result has been read."""
    A, w = ZOO["grid"], np.zeros(ZOO["grid"].shape[0])
    w[[1, 2]] = 2.0, -1.5                                       # row 1 is fixed
    b, values = np.arange(A.shape[0], dtype=float), None if fixed is None else [1.0, -2.0, 4.0]
    F = ms.cholesky(Sparse(A), fixed=fixed, device="cuda")
    before = F.solve(b, fixed_values=values)
    after = ms.cholesky(sp.csr_array(A + np.outer(w, w)), fixed=fixed).solve(b, fixed_values=values)
    engine = F._factor

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine.sweeps, "invert", lambda changed=None, invert=engine.sweeps.invert: (invert(changed), interrupted())[0]
                      if changed is not None else invert())
        with pytest.raises(KeyboardInterrupt):
            F.update(w)
    assert np.array_equal(F.solve(b, fixed_values=values), before)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "accept", lambda accept=engine.accept, **options: (accept(**options), interrupted())[0])
        with pytest.raises(KeyboardInterrupt):
            F.update(w)
    np.testing.assert_allclose(F.solve(b, fixed_values=values), after, rtol=1e-9)


# ---- captured steps, counts, schedules --------------------------------------------------------------------------------------

def test_captured_steps_and_updates(gpu):
    A = spd(grid(12, 9))
    C, B = columns_within(A, 2, 0), np.random.default_rng(0).standard_normal((108, 3))
    M, b, x, y = Sparse(A), to_cuda(B), to_cuda(np.zeros((108, 3))), to_cuda(np.zeros((108, 3)))
    F = ms.cholesky(M, device="cuda")
    with F.capture() as whole:
        F.refactor(M)
        F.solve(b, out=x)
    with F.capture() as solve:
        F.solve(b, out=y)
    plain, updated = F.solve(B), F.update(C).solve(B)
    solve.launch()
    assert np.array_equal(to_numpy(y), updated)
    whole.launch()                                              # the matrix without C C^T
    assert np.array_equal(to_numpy(x), plain) and np.array_equal(F.check().solve(B), plain)
    whole.launch()
    assert np.array_equal(F.update(C).solve(B), updated)        # which checks first
    M.data[:] = to_cuda(-A.data)
    whole.launch()
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.downdate(C)
    np.testing.assert_allclose(F.solve(B), updated, rtol=1e-11)         # restored from the values
    np.testing.assert_allclose(F.downdate(C).solve(B), plain, rtol=1e-9)
    for call in (F.update, F.downdate):
        with pytest.raises(ms.InvalidInputError, match="outside of its with block"), F.capture():
            call(C)


@pytest.mark.parametrize("k, launches", [(1, 4), (16, 4), (17, 5)])
def test_launches_and_reads(k, launches):
    for n in (20, 30):
        A = spd(grid(n, n))
        C = columns_within(A, k, 0)
        with device.use(Strict()) as harness:
            F = ms.cholesky(Sparse(A), device="cuda").update(C)
            with harness.counted() as found:
                F.downdate(C)
            assert (found["launches"], found["reads"], found["uploads"], found["library"]) == (launches, 1, 2, 0)
            assert found["allocations"] <= 2 and found["expressions"] <= 1
            assert harness.comes_back[-1] == 2


def test_schedules_and_block_sizes_change_no_bit():
    A = spd(grid(23, 21))
    C, found = columns_within(A, 6, 0), []
    for harness in (Harness(), Harness(resident=1), Harness(resident=5, seed=1, block=64), Harness(resident=3, seed=2, block=32)):
        with device.use(harness):
            F = ms.cholesky(A, ordering="nd", device="cuda").update(C)
            found.append((F.L.data, F.solve(np.ones(483)), F.downdate(C[:, [1]]).L.data, to_numpy(F._factor.matrix())))
    assert all(np.array_equal(a, b) for other in found[1:] for a, b in zip(found[0], other))


def test_values_of_the_matrix_stay_symmetric(gpu):
    A = random_spd(60, 0.2, 1)
    C = columns_within(A, 40, 1)
    F = ms.cholesky(Sparse(A), device="cuda").update(C)
    P = F._factor.pattern
    M = sp.csr_array(tuple(map(to_numpy, (F._factor.matrix(), P.indices, P.indptr))), shape=A.shape)
    assert abs(M - M.T).max() == 0 and abs(M - (A + C @ C.T)).max() <= 1e-14 * abs(M).max()


@pytest.mark.sanitize
@pytest.mark.parametrize("block", [32, 96])
def test_the_kernels_have_no_races(block):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((40, 40))
    wide, dense = sp.csr_array(M @ M.T + 40 * np.eye(40)), rng.standard_normal((40, 5))         # a front of two steps
    dense[0, 1] = 0.0                                           # other lanes have the rows of this column
    with device.use(Harness(seed=1, block=block, resident=3)) as harness:
        for A, C in ((wide, dense), (spd(grid(7, 6)), columns_within(spd(grid(7, 6)), 3, 0))):
            F, G = (ms.cholesky(A, ordering="natural", device=place) for place in ("cuda", "cpu"))
            close(F.update(C).L.data, G.update(C).L.data, 1e-12)
            close(F.downdate(C).L.data, G.downdate(C).L.data, 1e-11)
            assert abs(F.solve(np.ones(A.shape[0])) - G.solve(np.ones(A.shape[0]))).max() < 1e-11
    assert {"k_rotate", "k_products", "k_invert"} <= harness.launches.keys()
