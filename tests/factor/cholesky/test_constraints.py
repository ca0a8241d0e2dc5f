"""Fixed rows and pinned components against dense answers."""

import contextlib
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from zoo import grid, spd, truss

import meshsolve as ms
from meshsolve.sparse import rows as row_tools


def laplacian(pattern):
    W = sp.csr_array(pattern + pattern.T)
    return sp.csr_array(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)


def test_fixed_rows_have_their_values():
    A = spd(grid(9, 8))
    fixed = np.array([70, 3, 15])
    values = np.array([[1.0, 2], [3, 4], [5, 6]])
    b = np.random.default_rng(0).standard_normal((72, 2))
    F = ms.cholesky(A, fixed=fixed)
    x = F.solve(b, fixed_values=values)
    free = np.setdiff1d(np.arange(72), fixed)
    assert np.array_equal(x[fixed], values) and np.abs((A @ x - b)[free]).max() < 1e-12
    assert np.array_equal(F.solve(b)[fixed], np.zeros((3, 2)))
    assert np.array_equal(F.solve(b[:, 0], fixed_values=values[:, 0]), F.solve(b, fixed_values=values)[:, 0])
    B = A[F.perm][:, F.perm]
    assert abs(F.L @ F.L.T - B).max() < 1e-13 and not np.isin(fixed, F.perm).any()


def test_complex_right_hand_sides_with_real_fixed_values():
    A = spd(grid(9, 8))
    b = np.arange(72) + 2j * np.arange(72)[::-1]
    F = ms.cholesky(A, fixed=[3, 15])
    x = F.solve(b, fixed_values=[1.0, 2.0])
    free = np.setdiff1d(np.arange(72), [3, 15])
    assert np.array_equal(x[[3, 15]], [1, 2]) and np.abs((A @ x - b)[free]).max() < 1e-11


@pytest.mark.parametrize("kind", [float, np.float32, int, complex])
def test_complex_fixed_values(kind):
    A, b = spd(grid(9, 8)), np.arange(144).reshape(72, 2).astype(kind)
    values = np.array([[1 + 2j, 3], [4j, 5 - 1j]])
    F = ms.cholesky(A, fixed=[15, 3])
    x = F.solve(b, fixed_values=values)
    assert x.dtype == np.complex128 and np.array_equal(x[[15, 3]], values)
    assert np.array_equal(x.real, F.solve(b.real.astype(float), fixed_values=values.real))
    assert np.array_equal(x.imag, F.solve(b.imag.astype(float), fixed_values=values.imag))
    assert np.array_equal(F.solve(b[:, 0], fixed_values=values[:, :1]), x[:, 0]) and F.solve(b, fixed_values=1j)[3, 1] == 1j
    with pytest.raises(ms.InvalidInputError, match="row 1 is not finite"):
        F.solve(b, fixed_values=[1, complex(0, np.nan)])


def test_fixed_mask_and_refactor():
    A, C = spd(grid(9, 8), 1), spd(grid(9, 8), 2)
    mask = np.zeros(72, bool)
    mask[[4, 9]] = True
    F = ms.cholesky(A, fixed=mask)
    F.refactor(C)
    x = F.solve(np.ones(72), fixed_values=[7.0, 8.0])
    assert np.array_equal(x[[4, 9]], [7, 8]) and np.abs((C @ x - 1)[~mask]).max() < 1e-12
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(-C)
    assert np.array_equal(F.solve(np.ones(72), fixed_values=[7.0, 8.0]), x), "a failed refactor changed the coupling"


@pytest.mark.parametrize("constraint, row, column", [({"fixed": [0, 9, 70]}, 20, 66), ({"pin": True}, 20, 66)], ids=["fixed", "pin"])
def test_pattern_errors_use_the_row_numbers_of_the_caller(constraint, row, column):
    L = laplacian(grid(9, 8))
    F, far = ms.cholesky(L, **constraint), sp.coo_array(([1.0, 1.0, -1.0, -1.0], ([row, column] * 2, [row, column, column, row])), (72, 72))
    with pytest.raises(ms.PatternMismatchError) as e:
        F.refactor(L + far)
    assert {e.value.row, e.value.column} == {row, column}


@pytest.mark.parametrize("pattern", [grid(9, 8), sp.block_diag([grid(5, 4), grid(3, 7), sp.csr_array((4, 4))]), sp.csr_array((5, 5))],
                         ids=["one component", "several and isolated rows", "isolated rows alone"])
def test_pinned_laplacian(pattern):
    L = laplacian(sp.csr_array(pattern, dtype=float))
    n = L.shape[0]
    b = L @ np.random.default_rng(0).standard_normal((n, 3))
    F = ms.cholesky(L, pin=True)
    x = F.solve(b)
    assert np.abs(L @ x - b).max() < 1e-12
    assert np.allclose(x, np.linalg.pinv(L.toarray(), rtol=1e-10) @ b)
    F.refactor(2 * L)
    assert np.allclose(F.solve(b), x / 2)


def bridged(weight, ends=(3, 20)):
    """Two grids of 20 vertices, an isolated vertex, and an edge of this weight, also stored if the weight is 0."""
    L = laplacian(sp.block_diag([grid(5, 4), grid(4, 5), sp.csr_array((1, 1))]).astype(float))
    i, j = ends
    entries = np.array([weight, weight, -weight, -weight], float)
    return sp.coo_array((np.r_[L.tocoo().data, entries], (np.r_[L.tocoo().row, i, j, i, j], np.r_[L.tocoo().col, i, j, j, i])), L.shape).tocsr()


@pytest.mark.parametrize("ends", [(3, 25), (0, 20), (7, 20), (0, 40), (19, 40)], ids=["rows", "pins", "a pin", "an isolated row", "and a row"])
@pytest.mark.parametrize("is_stored", [True, False])
def test_refactor_refuses_to_join_pinned_components(ends, is_stored):
    apart, joined = bridged(0.0, ends), bridged(0.5, ends)
    apart = apart if is_stored else laplacian(sp.block_diag([grid(5, 4), grid(4, 5), sp.csr_array((1, 1))]).astype(float))
    b = np.random.default_rng(0).standard_normal(41)
    for part in (slice(0, 20), slice(20, 40), slice(40, 41)):
        b[part] -= b[part].mean()
    F = ms.cholesky(apart, pin=True)
    x = F.solve(b)
    with pytest.raises(ms.PatternMismatchError) as caught:
        F.refactor(joined)
    if is_stored:
        assert {caught.value.row, caught.value.column} == set(ends) and "joins two components" in str(caught.value)
    assert np.array_equal(F.solve(b), x)
    y = ms.cholesky(joined, pin=True).solve(b)
    assert np.abs(joined @ y - b).max() < 1e-12
    with pytest.raises(ms.NotPositiveDefiniteError, match="more components|an isolated or"):
        ms.cholesky(joined, pin=True).refactor(apart)
    with pytest.raises(ms.PatternMismatchError):
        ms.cholesky(sp.csr_array((41, 41)), pin=True).refactor(joined)


def test_pin_warns_where_b_is_not_in_the_range():
    L = laplacian(grid(6, 5))
    b = np.arange(30.0)
    with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
        x = ms.cholesky(L, pin=True).solve(b)
    assert np.abs(L @ x - (b - b.mean())).max() < 1e-11


@pytest.mark.parametrize("mean, warns", [(1e-8, True), (1e-14, False)])
def test_b_outside_the_range_beyond_rounding_gives_a_warning(mean, warns):
    L, size = laplacian(sp.block_diag([grid(6, 5), grid(20, 20)])), np.repeat([30, 400], [30, 400])
    F, b = ms.cholesky(L, pin=True), L @ np.random.default_rng(0).standard_normal(430)
    b *= np.linalg.norm(b) ** -1 if warns else 1
    with pytest.warns(ms.MeshsolveWarning, match="not in the range") if warns else contextlib.nullcontext():
        F.solve(b + mean * np.where(size == 400, 0.05, 0))


def test_subtract_means_returns_the_means():
    component = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [1, 9, 90])).astype(np.int32)
    size, X = np.bincount(component).astype(float), np.random.default_rng(1).standard_normal((100, 3))
    left = X.copy()
    outside = row_tools.subtract_means(left, component, size)
    means = np.array([np.bincount(component, x) / size for x in X.T]).T[component]
    assert np.allclose(left, X - means) and np.allclose(outside, np.linalg.norm(means, axis=0))


@pytest.mark.parametrize("excess", [1e-3, -1e-3])
def test_pin_needs_row_sums_of_zero(excess):
    L = laplacian(grid(6, 5))
    regular = L + sp.diags_array(np.where(np.arange(30) == 7, excess, 0.0))
    with pytest.raises(ms.NotLaplacianError, match=f"row 7 of A sums to {excess:g}, not to 0: pin=True") as caught:
        ms.cholesky(regular, pin=True)
    assert caught.value.row == 7
    F, b = ms.cholesky(L, pin=True), L @ np.arange(30.0)
    x = F.solve(b)
    with pytest.raises(ms.NotLaplacianError):
        F.refactor(regular)
    assert np.array_equal(F.solve(b), x), "a refused matrix changed the factor"
    single = L.astype(np.float32) * np.float32(0.1)         # sums to 0 except for the rounding of float32
    assert abs(single @ F.refactor(single).solve(b) - b).max() < 1e-4


def test_pin_accepts_bilaplacians_of_bad_meshes():
    rng = np.random.default_rng(0)
    sphere = ms.datasets.icosphere(3)
    mesh = ms.Mesh(sphere.vertices * (1 + 0.2 * rng.standard_normal((len(sphere.vertices), 1))), sphere.faces)
    L, M = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh)
    ms.cholesky(L @ sp.diags_array(1 / M.diagonal()) @ L, pin=True)


def test_a_stored_zero_does_not_join_components():
    L = laplacian(sp.block_diag([grid(3, 3), grid(3, 3)]).tocsr())
    bridge = sp.coo_array(([0.0, 0.0], ([0, 17], [17, 0])), shape=(18, 18))
    M = L.tocoo()
    A = sp.coo_array((np.concatenate([M.data, bridge.data]), (np.concatenate([M.row, bridge.row]), np.concatenate([M.col, bridge.col]))))
    b = L @ np.arange(18.0)
    assert np.abs(L @ ms.cholesky(A, pin=True).solve(b) - b).max() < 1e-12


def test_orderings_with_constraints():
    A = spd(grid(9, 8))
    perm = np.random.default_rng(0).permutation(72)
    for ordering in (perm, ms.order.amd(A), "amd"):
        x = ms.cholesky(A, fixed=[5], ordering=ordering).solve(np.ones(72))
        assert x[5] == 0 and np.abs(np.delete(A @ x - 1, 5)).max() < 1e-12


@pytest.mark.parametrize("fixed", [[], [72], [-1], [1, 1], [0.5], np.arange(72), np.zeros(71, bool), [[1, 2]], "x"], ids=str)
def test_bad_fixed(fixed):
    with pytest.raises(ms.InvalidInputError):
        ms.cholesky(spd(grid(9, 8)), fixed=fixed)


@pytest.mark.parametrize("values", [[1.0], [1.0, 2, 3], [[1.0, 2], [3, 4]], [np.nan, 1], ["a", "b"]], ids=str)
def test_bad_fixed_values(values):
    F = ms.cholesky(spd(grid(9, 8)), fixed=[3, 4])
    with pytest.raises(ms.InvalidInputError):
        F.solve(np.ones(72), fixed_values=values)
    with pytest.raises(ms.InvalidInputError, match="fixed_values: row 1 is not finite"):
        F.solve(np.ones((72, 2)), fixed_values=[[1.0, 2.0], [3.0, np.inf]])


@pytest.mark.parametrize("k", [0, 1, 3])
def test_fixed_values_given_for_all_rows(k):
    """Values of free rows are NaN, so that any use shows. A mask names the rows in ascending order."""
    A, rng = spd(grid(9, 8)), np.random.default_rng(5)
    rows = np.array([40, 3, 71, 12])
    x, b = rng.standard_normal((72, k)), rng.standard_normal((72, k))
    mask = np.isin(np.arange(72), rows)
    known = np.where(mask[:, None], x, np.nan)
    F = ms.cholesky(A, fixed=rows)
    given = F.solve(b, fixed_values=x[rows])
    assert np.array_equal(F.solve(b, fixed_values=known), given) and np.array_equal(given[rows], x[rows])
    assert np.array_equal(F.solve(b, fixed_values=known + 1j * known), F.solve(b, fixed_values=x[rows] * (1 + 1j)))
    masked = ms.cholesky(A, fixed=mask)
    assert np.array_equal(masked.solve(b, fixed_values=known), masked.solve(b, fixed_values=x[np.sort(rows)]))
    if k:
        one = np.broadcast_to(known[:, :1], (72, k))
        assert np.array_equal(F.solve(b, fixed_values=known[:, 0]), F.solve(b, fixed_values=one))
        assert np.array_equal(F.solve(b[:, 0], fixed_values=known[:, 0]), F.solve(b[:, 0], fixed_values=x[rows, 0]))
        assert np.array_equal(F.solve(b, fixed_values=2), F.solve(b, fixed_values=np.full(4, 2.0)))
        assert np.array_equal(known[rows], x[rows])
        known[71] = np.inf
        with pytest.raises(ms.InvalidInputError, match="fixed_values: row 71 is not finite"):
            F.solve(b, fixed_values=known)
    for wrong in (np.ones((72, k + 2)), np.ones((72, k, 1)), np.ones(71), np.ones((1, 72)), np.ones((4, k + 2)), np.ones((1, 1))):
        with pytest.raises(ms.InvalidInputError, match=r"fixed_values must be \(4,\) or .*, or \(72,\) or .*, got \("):
            F.solve(b, fixed_values=wrong)


def test_constraints_exclude_each_other():
    A = spd(grid(9, 8))
    with pytest.raises(ms.InvalidInputError, match="exclude"):
        ms.cholesky(A, fixed=[1], pin=True)
    with pytest.raises(ms.InvalidInputError, match="without fixed"):
        ms.cholesky(A).solve(np.ones(72), fixed_values=[1.0])
    with pytest.raises(ms.InvalidInputError, match="not with pin=True"):
        ms.cholesky(laplacian(grid(9, 8)), pin=True).solve(np.zeros(72), fixed_values=[1.0])


# ---- few passes over the data -------------------------------------------------------------------------------------------


def shuffled(A):
    p = np.random.default_rng(3).permutation(A.shape[0])
    return sp.csr_array(A)[p][:, p]


PARTS = sp.block_diag([ms.datasets.grid2d(30, 30), sp.csr_array((1, 1)), ms.datasets.grid2d(50, 31)], "csr")
CONSTRAINED = {
    "one component": (ms.datasets.grid2d(50, 41), {"pin": True}), "ranges": (PARTS, {"pin": True}), "mixed up": (shuffled(PARTS), {"pin": True}),
    "many": (sp.block_diag([ms.datasets.grid2d(5, 7)] * 40, "csr"), {"pin": True}),
    "first and last": (ms.datasets.grid2d(50, 41), {"fixed": [2049, 0]}), "anywhere": (ms.datasets.grid2d(50, 41), {"fixed": [1900, 3, 77]}),
}


def values_of(options, k=None):
    fixed = len(options.get("fixed", ()))
    return {"fixed_values": np.arange(1.0, fixed + 1) if k is None else np.tile(np.arange(1.0, fixed + 1)[:, None], k)} if fixed else {}


@pytest.mark.parametrize("name", CONSTRAINED)
@pytest.mark.parametrize("k", [0, 1, 2, 3, 9, 70])
def test_a_column_of_b_has_the_same_bits_in_any_block(name, k):
    L, options = CONSTRAINED[name]
    F, B = ms.cholesky(L, device="cpu", **options), L @ np.random.default_rng(k).standard_normal((L.shape[0], k))
    given, columns = B.copy(), np.asfortranarray(B)
    X, Y = F.solve(B, **values_of(options, k)), F.solve(columns, **values_of(options, k))
    assert np.array_equal(X, Y) and np.array_equal(B, given) and np.array_equal(columns, given)
    if name not in ("mixed up", "many"):
        assert X.flags.c_contiguous and Y.flags.f_contiguous
    for j in range(k):
        assert np.array_equal(F.solve(B[:, j], **values_of(options)), X[:, j])
    free = np.setdiff1d(np.arange(L.shape[0]), options.get("fixed", []))
    assert abs((L @ X - B)[free]).max(initial=0) < 1e-11
    if "pin" in options:
        count, label = sp.csgraph.connected_components(L)
        assert all(abs(np.bincount(label, x, count) / np.bincount(label)).max() < 1e-14 for x in X.T)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("name, blocks", [("one component", 2.6), ("ranges", 3.6), ("mixed up", 3.6), ("first and last", 2.1)])
def test_solves_hold_few_copies_of_a_block(name, blocks, order):
    """Copies: the result, the block returned by the core, and its argument if the free rows are no range."""
    L, options = CONSTRAINED[name]
    F = ms.cholesky(L, device="cpu", **options)
    B = np.asarray(L @ np.random.default_rng(0).standard_normal((L.shape[0], 64)), order=order)
    F.solve(B)
    tracemalloc.start()
    F.solve(B)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < blocks * B.nbytes


@pytest.mark.parametrize("n", [1, 2, 511, 1024, 1025, 5000])
@pytest.mark.parametrize("k", [0, 1, 3, 70])
def test_sums_of_columns(n, k):
    X = np.random.default_rng(n).standard_normal((n, k)) * 10.0 ** np.arange(k)
    sums = row_tools.sums_of_columns(X)
    assert np.allclose(sums, [np.sum(x.astype(np.longdouble)) for x in X.T], rtol=0, atol=1e-14 * abs(X).sum(axis=0).max(initial=0))
    assert np.array_equal(row_tools.sums_of_columns(np.asfortranarray(X)), sums)
    for order, other in ("CC", "CF", "FC", "FF"):
        source, out = np.array(X, order=order), np.empty_like(X, order=other)
        row_tools.subtract_row(source, sums, out)
        row_tools.subtract_row(source, sums, source)
        assert np.array_equal(out, X - sums) and np.array_equal(source, out)


def test_the_range_check_does_not_depend_on_sampled_rows():
    """The sampled rows are zero or tiny; the warning depends on all of b."""
    L = ms.datasets.grid2d(60, 50)
    F, b = ms.cholesky(L, pin=True, device="cpu"), np.zeros(3000)
    b[[1001, 2002]] = 1e8, -1e8
    F.solve(b + 1e-4)                                       # 4e-11 of its length
    with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
        F.solve(b + 1e-3)
    with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
        F.solve(np.stack([L @ b, np.full(3000, 1e-200)], axis=1))


def test_fixed_values_use_the_coupling_of_the_current_matrix():
    A, C, fixed, values = spd(grid(9, 8), 1), spd(grid(9, 8), 2), [40, 3, 12], np.array([1.0, -2, 3])
    F = ms.cholesky(A, fixed=fixed, device="cpu")
    x = F.solve(np.ones(72), fixed_values=values)
    assert np.array_equal(F.solve(np.ones(72), fixed_values=0), F.solve(np.ones(72)))
    assert np.array_equal(F.solve(np.ones(72), fixed_values=-0.5), F.solve(np.ones(72), fixed_values=np.full(3, -0.5)))
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(-C)
    assert np.array_equal(F.solve(np.ones(72), fixed_values=values), x)
    F.refactor(C)
    assert np.array_equal(F.solve(np.ones(72), fixed_values=values), ms.cholesky(C, fixed=fixed, device="cpu").solve(np.ones(72), fixed_values=values))
    edge = np.zeros(72)
    near = C.indices[C.indptr[3]:C.indptr[4]]
    edge[3], edge[np.setdiff1d(near, fixed)[0]] = 1, -1     # from a fixed row to a free one
    F.update(edge)
    y = F.solve(np.ones(72), fixed_values=values)
    free = np.setdiff1d(np.arange(72), fixed)
    assert abs((C @ y + edge * (edge @ y) - 1)[free]).max() < 1e-12
    for wrong in (np.inf, -np.inf, np.nan, 1e400):
        with pytest.raises(ms.InvalidInputError, match="fixed_values: row 0 is not finite"):
            F.solve(np.ones(72), fixed_values=wrong)


@pytest.mark.parametrize("name", CONSTRAINED)
def test_concurrent_solves_are_independent(name):
    L, options = CONSTRAINED[name]
    F = ms.cholesky(L, device="cpu", threads=1, **options)
    blocks = [L @ np.random.default_rng(s).standard_normal((L.shape[0], 9)) for s in range(4)]
    expected = [F.solve(B, **values_of(options)) for B in blocks]
    F._constraint.coupling = F._constraint.coupling         # as after a refactorization: derived arrays are recomputed
    wrong = []

    def solve(B, X):
        wrong.extend(1 for _ in range(10) if not np.array_equal(F.solve(B, **values_of(options)), X))

    threads = [threading.Thread(target=solve, args=pair) for pair in zip(blocks, expected, strict=True)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# ---- messages for components without a fixed row --------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, np.float32(0.3)], ids=["exact", "rounded"])
def test_the_error_of_a_free_component_says_to_fix_a_row(scale):
    L = ms.datasets.grid2d(9, 9)
    both = sp.csr_array(sp.block_diag([L, L])).astype(np.asarray(scale).dtype) * scale
    with pytest.raises(ms.NotPositiveDefiniteError, match="component.*no row of that component is in fixed=. Add one.*exclude each other") as caught:
        ms.cholesky(both, fixed=[3], device="cpu")
    assert caught.value.column >= 81 and "use pin=True" not in str(caught.value)
    ms.cholesky(both, fixed=[3, caught.value.column], device="cpu")


def test_the_error_of_a_rounded_laplacian_mentions_fixed_rows():
    """Its row sums are not exactly 0, so a pivot fails."""
    L = ms.datasets.grid2d(9, 9)
    rounded = sp.block_diag([L, L - 1e-9 * sp.eye_array(81)])
    with pytest.raises(ms.NotPositiveDefiniteError, match="may be a Laplacian.*no row of that component is in fixed=") as caught:
        ms.cholesky(rounded, fixed=[3], device="cpu")
    assert caught.value.column >= 81 and "use pin=True" not in str(caught.value)
    with pytest.raises(ms.NotPositiveDefiniteError, match="may be a Laplacian.*use pin=True, fix some rows"):
        ms.cholesky(rounded + sp.block_diag([sp.eye_array(81), 0 * sp.eye_array(81)]), device="cpu")


def test_the_error_of_an_elastic_body_mentions_rotations():
    """pin=True alone is not enough. Other components and the few positive entries of a cotan Laplacian change nothing."""
    K, L = truss(5)[0], ms.datasets.grid2d(9, 9)
    for A in (K, sp.block_diag([L + sp.eye_array(81), K]), K - 1e-9 * sp.eye_array(50)):
        with pytest.raises(ms.NotPositiveDefiniteError, match="if it takes only constants to 0.*positive.*elastic.*rotations.*fix three of its unknowns"):
            ms.cholesky(A, device="cpu")
    ms.cholesky(K, fixed=[0, 1, 8], device="cpu")
    few = L.tolil()
    few[0, 10] = few[10, 0] = 0.1
    few[0, 0], few[10, 10] = few[0, 0] - 0.1, few[10, 10] - 0.1
    for A in (few, sp.block_diag([few, K + sp.eye_array(50)])):
        with pytest.raises(ms.NotPositiveDefiniteError, match="singular: use pin=True, fix some rows") as caught:
            ms.cholesky(sp.csr_array(A), device="cpu")
        assert "elastic" not in str(caught.value)


@pytest.mark.parametrize("precision", ["double", "mixed"])
def test_a_function_for_many_right_hand_sides_in_another_numbering(precision):
    A, rng = ms.datasets.grid2d(40, 30, boundary="dirichlet"), np.random.default_rng(3)
    fixed, position = rng.choice(1200, 70, replace=False), rng.permutation(1200).astype(np.int32)
    F, values = ms.cholesky(A, fixed=fixed, precision=precision), rng.standard_normal((1200, 3))
    x = np.empty_like(values)
    x[position] = values
    solve = F._solver(x, position)
    for _ in range(2):
        b, moved = rng.standard_normal((1200, 3)), np.empty((1200, 4))
        moved[position, :3] = b
        right = F.solve(b, fixed_values=values)
        assert solve(moved[:, :3]) is x and abs(x[position] - right).max() <= 1e-13 * abs(right).max()
