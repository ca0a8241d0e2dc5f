"""Input checks: matrices and arrays are checked and converted, and the caller's data are not changed."""

import os
import pathlib
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from zoo import random_spd

import meshsolve as ms
from meshsolve import _core, options
from meshsolve.sparse import matrix
from meshsolve.sparse.columns import lengths, max_abs

pytestmark = pytest.mark.native
FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
def test_every_format_gives_the_same(form, make):
    A = make(random_spd(30, 0.1, 0)).asformat(form)
    M = matrix.as_csr(A)
    assert np.array_equal(sp.csr_array((M.data, M.indices, M.indptr), shape=(30, 30)).toarray(), A.toarray())
    assert (M.indptr.dtype, M.indices.dtype, M.data.dtype) == (np.int64, np.int32, np.float64)


def test_dense_integer_and_int64_index_input():
    D = np.array([[2, 1], [1, 3]])
    assert matrix.as_csr(D).data.tolist() == [2, 1, 1, 3]
    A = sp.csr_array(D)
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    assert matrix.as_csr(A).indices.dtype == np.int32
    A.indices[1] = 2**32
    with pytest.raises(ms.InvalidInputError):
        matrix.as_csr(A)


@given(n=st.integers(1, 40), seed=st.integers(0, 500), twice=st.booleans())
def test_entries_are_sorted_and_summed(n, seed, twice):
    rng = np.random.default_rng(seed)
    T = sp.random_array((n, n), density=0.2, rng=rng).tocoo()
    order = rng.permutation(T.nnz)
    r, c, v = T.row[order], T.col[order], T.data[order]
    if twice:
        r, c, v = np.tile(r, 2), np.tile(c, 2), np.tile(v, 2)
    rows = np.argsort(r, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(r, minlength=n))])
    A = sp.csr_array((n, n))
    A.indptr, A.indices, A.data = indptr, c[rows].astype(np.int32), v[rows]
    kept = A.indices.copy(), A.data.copy()
    M = matrix.as_csr(A)
    assert np.allclose(sp.csr_array((M.data, M.indices, M.indptr), shape=(n, n)).toarray(), T.toarray() * (2 if twice else 1))
    assert _core.check_csr(M.indptr, M.indices, n)[0] == "valid"
    assert np.array_equal(A.indices, kept[0]) and np.array_equal(A.data, kept[1])


@pytest.mark.parametrize("n, at", [(10_000, at) for at in (0, 1, 2, 4094, 4095, 4096, 4097, 8191, 8192, 9998)]
                         + [(600_000, at) for at in (0, 262_142, 262_143, 262_144, 262_145, 524_287, 524_288, 599_998)])
def test_errors_are_found_anywhere(n, at):
    """On any number of threads, in any row."""
    def check(indptr, indices):
        found = _core.check_csr(indptr, indices, n, 1)
        assert _core.check_csr(indptr, indices, n, 3) == found
        return found

    row = 9 * n // 10
    indptr = np.repeat([0, n], [row + 1, n - row])                     # one long row between empty ones
    indices = np.arange(n, dtype=np.int32)
    assert check(indptr, indices) == ("valid", -1)
    for value, state in ((at + 1, "unsorted"), (n, "invalid"), (-1, "invalid")):
        wrong = indices.copy()
        wrong[at] = value
        assert check(indptr, wrong) == (state, row)
    starts = np.concatenate([np.zeros(1, np.int64), np.full(n, at + 1)])
    starts[-1] = n                                                     # the end of a row and the start of the next
    assert check(starts, np.concatenate([indices[n - at - 1:], indices[:n - at - 1]])) == ("valid", -1)
    starts[-2] = n + 1
    assert check(starts, indices)[0] == "invalid"


@pytest.mark.parametrize("size", [0, 1, 1024, 600_000])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_threads_find_the_same_first_nan(size, value):
    x = np.random.default_rng(size).standard_normal(size)
    for at in sorted({0, size // 3, size // 2, size - 1} & set(range(size)), reverse=True):
        x[at] = value
        assert [_core.first_not_finite(x, threads) for threads in (1, 2, 5)] == [at] * 3
    assert _core.first_not_finite(np.ones(size), 3) == -1


@pytest.mark.parametrize("threads", [1, 3])
def test_the_diagonal_is_that_of_scipy(threads):
    for n in (1, 30, 40_000):
        A = sp.random_array((n, n), density=min(1, 4 / n), rng=np.random.default_rng(n), format="csr") + sp.eye_array(n, format="csr").multiply(
            np.arange(n) % 3 == 0)
        assert np.array_equal(matrix.as_csr(A).diagonal_values(threads), A.diagonal())


@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
def test_pointers_beyond_the_entries_are_refused(form):
    """scipy converts without a check and would read beyond its arrays."""
    for at, value in ((-1, 4), (-1, 100), (0, 1), (1, 3), (1, -1)):
        A = sp.eye_array(3).asformat(form)
        A.indptr[at] = value
        with pytest.raises(ms.InvalidInputError):
            matrix.as_csr(A)


@given(n=st.integers(1, 30), density=st.floats(0, 0.6), seed=st.integers(0, 500))
def test_symmetry_is_measured_right(n, density, seed):
    A = sp.random_array((n, n), density=density, rng=np.random.default_rng(seed)).tocsr()
    M = matrix.as_csr(A)
    state, doubt, row, column, gap, allowed = _core.symmetry(M.indptr, M.indices, M.data, 1)
    D = A.toarray()
    truth, most = np.abs(D - D.T), np.abs(D).max(axis=1)
    limit = 1e-10 * np.maximum(abs(D), abs(D.T)) + 1e-13 * np.minimum.outer(most, most) + 5e-324
    if gap:
        assert doubt and truth[row, column] == gap and abs(limit[row, column] - allowed) <= 1e-15 * allowed
        assert abs(np.max(truth / limit) * allowed - gap) <= 1e-15 * gap
    else:
        assert not truth.any()
    assert (state == "symmetric") == np.array_equal(D != 0, (D != 0).T)
    both = matrix.symmetric_pattern(A)
    S = ((D != 0) | (D != 0).T) & ~np.eye(n, dtype=bool)
    assert np.array_equal(sp.csr_array((np.ones(both.nnz), both.indices, both.indptr), shape=(n, n)).toarray() != 0, S)
    if np.triu(D, 1).any() and not np.tril(D, -1).any():               # the other triangle
        with pytest.raises(ms.InvalidInputError, match="above its diagonal only"):
            matrix.as_symmetric(A, lower=True)
        return
    low = matrix.as_symmetric(A, lower=True)
    assert np.array_equal(sp.csr_array((low.data, low.indices, low.indptr), shape=(n, n)).toarray(), np.tril(D) + np.tril(D, -1).T)


def test_equal_values_at_other_positions_are_not_symmetric():
    A = sp.csr_array(np.array([[4.0, 1, 2, 0], [2, 4, 0, 1], [1, 0, 4, 0], [0, 2, 0, 4]]))
    with pytest.raises(ms.NotSymmetricError):
        matrix.as_symmetric(A)
    with pytest.raises(ms.NotSymmetricError):
        matrix.as_symmetric(sp.csr_array(np.array([[1.0, 0.5, 0], [0, 1, 0.5], [0.5, 0, 1]])))


@pytest.mark.parametrize("penalty", [1e10, 1e30])
def test_large_entries_do_not_hide_an_unsymmetric_pair(penalty):
    """A convection-diffusion chain with Dirichlet penalties: only the first and the last row are large."""
    T = sp.lil_array(sp.diags_array([-1.3, 2.0, -0.7], offsets=[-1, 0, 1], shape=(40, 40)))
    T[0, 0] = T[39, 39] = penalty
    b = np.zeros(40)
    b[0] = penalty
    with pytest.raises(ms.NotSymmetricError):
        matrix.as_symmetric(T)
    for x in (ms.solve(T, b)[0], ms.factorized(T)(b)):
        assert np.linalg.norm((T @ x - b)[1:-1]) < 1e-12 and abs(x[1] - 1) < 1e-3
    S = sp.lil_array(sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(40, 40)))
    S[0, 0] = penalty
    S[0, 1] *= 1 + 1e-12                                              # rounding error relative to its row and column
    assert matrix.as_symmetric(S).nnz == S.nnz


def test_values_of_zero_hash_are_compared():
    """The bits of -4.1e85 equal a former factor of the hash, for which its entries did not count."""
    value = np.uint64(0xD1B54A32D192ED03).view(np.float64)
    with pytest.raises(ms.NotSymmetricError):
        matrix.as_symmetric(sp.csr_array(np.diag(np.ones(60)) + np.triu(np.full((60, 60), value), 1)))


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "bsr"])
def test_duplicates_of_small_integers_do_not_overflow(form):
    twice = sp.coo_array((np.full(4, 100, np.int8), ([0, 0, 1, 1], [0, 0, 1, 1])), shape=(2, 2))
    if form != "coo":                                                  # scipy sums duplicates in these conversions
        indices = np.array([0, 0, 1, 1])
        twice = sp.csr_array((np.full(4, 100, np.int8), indices, [0, 2, 4])) if form != "bsr" else sp.bsr_array(
            (np.full((4, 1, 1), 100, np.int8), indices, [0, 2, 4]))
        twice = twice.T if form == "csc" else twice
    assert matrix.as_csr(twice).data.tolist() == [200, 200]


def test_sizes_beyond_memory_are_refused_first():
    huge = sp.coo_array(([2.0], ([0], [0])), shape=(3_000_000_000, 3_000_000_000))
    with pytest.raises(ms.InvalidInputError, match="3,000,000,000 rows; at most"):
        ms.solve(huge, np.ones(1))


def test_nearly_symmetric_matrices_are_averaged():
    A = random_spd(30, 0.1, 0)
    top = abs(A).max()
    B = sp.lil_array(A)
    i, j = next(zip(*np.nonzero(A.toarray() == 0)))
    B[i, j] = 1e-14 * top
    M = matrix.as_symmetric(B)
    assert _core.symmetry(M.indptr, M.indices, M.data, 1)[0] == "symmetric"
    B[i, j] = 1e-9 * top
    with pytest.raises(ms.NotSymmetricError) as e:
        matrix.as_symmetric(B)
    assert {e.value.row, e.value.column} == {i, j}


@pytest.mark.parametrize("size", [1e-150, 1e-12, 1.0, 1e12, 1e150])
def test_symmetry_has_no_unit(size):
    A = sp.csr_array(size * random_spd(30, 0.1, 0))
    dust = sp.lil_array(sp.triu(A) * (1 + 1e-12) + sp.tril(A, -1))
    dust[0, np.flatnonzero(A[[0]].toarray() == 0)[0]] = 5e-14 * size
    assert np.allclose(matrix.as_symmetric(dust).to_scipy().toarray(), A.toarray(), rtol=1e-11, atol=1e-11 * size)
    k, column = next((k, j) for k, j in enumerate(A.indices) if j != 0)
    A.data[k] *= 1 + 1e-6
    with pytest.raises(ms.NotSymmetricError):
        matrix.as_symmetric(A)


@pytest.mark.parametrize("threads", ["2", b"2", 2.0, True, 0, [2], np.ones(2, int)])
def test_invalid_numbers_of_threads(threads):
    with pytest.raises(ms.InvalidInputError, match="threads must be a positive integer"):
        options.thread_count(threads)


def test_threads_of_the_environment(monkeypatch):
    assert options.thread_count(np.int64(3)) == options.thread_count(np.array(3)) == 3 and options.thread_count(10**30) == 1024
    monkeypatch.setenv("MESHSOLVE_NUM_THREADS", " 5 ")
    assert options.thread_count() == 5 and options.thread_count(2) == 2
    for wrong in ("two", "2.0", "0"):
        monkeypatch.setenv("MESHSOLVE_NUM_THREADS", wrong)
        with pytest.raises(ms.InvalidInputError, match="MESHSOLVE_NUM_THREADS must be a positive integer"):
            options.thread_count()


@pytest.mark.parametrize("threads", [1, 2])
@given(seed=st.integers(0, 10_000))
def test_swapped_values_are_found(threads, seed):
    """Few different values, so that sums over the halves could cancel, and enough rows for several threads."""
    rng = np.random.default_rng(seed)
    n = 40_000
    i, j = rng.integers(0, n, (2, 6))
    values = rng.choice([-1.0, 1.0, 0.5, 2.0], 6)
    below, above = (np.maximum(i, j), np.minimum(i, j)), (np.minimum(i, j), np.maximum(i, j))
    other = rng.permutation(values)
    A = sp.coo_array((np.r_[values, other], (np.r_[below[0], above[0]], np.r_[below[1], above[1]])), shape=(n, n)).tocsr()
    M = matrix.as_csr(A)
    gap = _core.symmetry(M.indptr, M.indices, M.data, threads)[4]
    assert (gap > 0) == (abs(A - A.T).max() > 0)


@given(n=st.integers(1, 20), seed=st.integers(0, 300))
def test_embed_and_unite(n, seed):
    rng = np.random.default_rng(seed)
    A, B = (matrix.as_csr(sp.random_array((n, n), density=0.3, rng=rng)) for _ in range(2))
    indptr, indices = _core.unite(A.indptr, A.indices, B.indptr, B.indices)
    missing, data = _core.embed(indptr, indices, B.indptr, B.indices, B.data)
    full = sp.csr_array((data, indices, indptr), shape=(n, n)).toarray()
    assert missing == -1 and np.array_equal(full, sp.csr_array((B.data, B.indices, B.indptr), shape=(n, n)).toarray())
    missing, _ = _core.embed(A.indptr, A.indices, B.indptr, B.indices, B.data)
    inside = np.isin(np.repeat(np.arange(n), np.diff(B.indptr)) * n + B.indices, np.repeat(np.arange(n), np.diff(A.indptr)) * n + A.indices)
    assert missing == (-1 if inside.all() else int(np.argmin(inside)))


@pytest.mark.parametrize("thing, said", [
    (ms.datasets.icosphere(1), "got Mesh: cotan_laplacian or graph_laplacian makes one of a mesh"), ({0: [1], 1: [0]}, "got dict"),
    (range(4), "got range"), (3.5, "got float"), (iter([[1.0]]), "got list_iterator")])
def test_objects_that_are_no_matrix(thing, said):
    """numpy makes object arrays, or arrays of a graph's keys, from these."""
    for verb in (ms.cholesky, ms.lu, ms.ildl, ms.analyze):
        with pytest.raises(ms.InvalidInputError, match=said):
            verb(thing)


def test_errors_name_a_remedy():
    A, ones = ms.datasets.grid2d(4, 3, boundary="dirichlet"), np.ones(12)
    for verb in (ms.cholesky, ms.ildl, ms.parac, lambda C: ms.cg(C, ones)):
        with pytest.raises(ms.InvalidInputError, match="A is complex.*lu takes complex ones|L is complex.*lu takes complex ones"):
            verb(A * 1j)
    with pytest.raises(ms.InvalidInputError, match="A is complex, but the factor is real"):
        ms.lu(A).refactor(A * 1j)
    with pytest.raises(ms.InvalidInputError, match="names row 0 more than once: a mask must be of dtype bool"):
        ms.cholesky(A, fixed=(np.arange(12) < 2).astype(np.uint8))
    with pytest.raises(ms.InvalidInputError, match="names row 1 more than once$"):
        ms.cholesky(A, fixed=[1, 0, 1])
    with pytest.raises(ms.InvalidInputError, match="fixed_values is sparse.*toarray"):
        ms.cholesky(A, fixed=[0]).solve(ones, fixed_values=sp.csr_array([[1.0]]))


def test_factors_have_indices_of_32_bits_where_they_fit():
    """SuperLU and others need 32-bit indices; scipy widens the indices if the pointers have 64 bits."""
    A, L = ms.datasets.grid2d(5, 4, boundary="dirichlet"), ms.datasets.grid2d(5, 4)
    blocks = sp.csr_array(sp.block_array([[A, sp.eye_array(20)], [None, A]]))
    made = [ms.cholesky(A).L, ms.cholesky(A).selected_inverse(), ms.cholesky(L, pin=True).L, ms.cholesky(L, pin=True).selected_inverse(),
            ms.cholesky(A, fixed=[3]).selected_inverse(), ms.parac(L).G, ms.ildl(A).L, ms.ildl(A, fill_level=0).L, ms.ildl(A).D]
    made += [getattr(ms.lu(B, engine=engine), name) for B in (A, blocks) for engine in ("fronts", "columns") for name in "LU"]
    assert [(M.indptr.dtype, M.indices.dtype) for M in made] == [(np.int32, np.int32)] * len(made)


def test_arrays_reach_the_core_at_the_first_attempt():
    """nanobind requests a DLPack capsule of a version; numpy 2.0 refused the argument, and a simultaneous Ctrl-C was lost."""
    assert "dltensor_versioned" in repr(np.zeros(3).__dlpack__(max_version=(1, 0)))


def test_errors_of_factorizations_are_numpy_errors():
    """numpy.linalg.cholesky and solve raise LinAlgError, which Newton loops catch."""
    A = ms.datasets.grid2d(4, 3)
    for factor in (ms.cholesky, ms.lu, lambda L: ms.cholesky(L - 2 * np.eye(12))):
        with pytest.raises(np.linalg.LinAlgError):
            factor(A)


@pytest.mark.parametrize("value", ["x", 0, -1, 1.5, True])
def test_bad_thread_counts(value, monkeypatch):
    with pytest.raises(ms.InvalidInputError):
        options.thread_count(value)
    monkeypatch.setenv("MESHSOLVE_NUM_THREADS", str(value))
    if value is not True:
        with pytest.raises(ms.InvalidInputError, match="MESHSOLVE_NUM_THREADS"):
            options.thread_count()


def test_thread_setting_of_the_environment(monkeypatch):
    monkeypatch.setenv("MESHSOLVE_NUM_THREADS", "3")
    assert options.thread_count() == 3 and options.thread_count(5) == 5


@pytest.mark.parametrize("value", ["1", b"1", True, np.bool_(True), 1j, None, [1.0], np.ones(1), np.nan, np.inf, np.float16("inf"), 10**400,
                                   np.longdouble("1e4000")], ids=repr)
def test_values_that_are_not_numbers(value):
    with pytest.raises(ms.InvalidInputError, match="dt must be a finite number, got"):
        options.as_number(value, "dt", -np.inf)


@pytest.mark.parametrize("value", [2, 2.0, np.int8(2), np.float16(2), np.longdouble(2), np.array(2), Fraction(4, 2)], ids=repr)
def test_numbers_of_any_real_type_become_floats(value):
    number = options.as_number(value, "dt", 2)
    assert type(number) is float and number == 2
    with pytest.raises(ms.InvalidInputError, match="above 2, got"):
        options.as_number(value, "dt", 2, above=True)


def test_the_residual_of_a_half_precision_b():
    """The square of its norm is above what half precision holds."""
    _, info = ms.solve(sp.eye_array(50), np.full(50, 1000, np.float16))
    assert info.converged and info.relative_residual == 0


@pytest.mark.parametrize("columns", [1, 3, 40])
@pytest.mark.parametrize("order", ["C", "F"])
def test_lengths_of_columns(columns, order):
    x = np.asarray(np.random.default_rng(columns).standard_normal((500, columns)), order=order)
    assert np.allclose(lengths(x), np.linalg.norm(x, axis=0), rtol=1e-14)
    for size in (1e200, 1e-200):
        assert np.allclose(lengths(x * size), np.linalg.norm(x, axis=0) * size, rtol=1e-14, atol=0)


@pytest.mark.parametrize("columns", [1, 3, 40])
def test_the_largest_absolute_value_of_negative_numbers(columns):
    x = np.random.default_rng(columns).standard_normal((9, columns))
    for block in (x, -x, -abs(x), abs(x), x + 1j * x[::-1], np.asfortranarray(x), x[:0]):
        assert np.array_equal(max_abs(block), abs(block).max(axis=0, initial=0))


@pytest.mark.slow
def test_lengths_are_not_left_to_the_threads_of_blas():
    """BLAS sums in an order that depends on the number of threads, and started a thread for each column of a pinned solve."""
    code = "import numpy as np; from meshsolve.sparse.columns import lengths; x = np.random.default_rng(0).standard_normal(200_001)" \
           "; print(lengths(x[:, None])[0].hex())"
    outputs = [subprocess.run([sys.executable, "-c", code], env={**os.environ, "OPENBLAS_NUM_THREADS": threads}, capture_output=True,
                           text=True, check=True).stdout for threads in "12"]
    assert outputs[0] == outputs[1]


def test_dlpack_input():
    class Tensor:
        def __init__(self, x):
            self.x = x

        def __dlpack__(self, **kwargs):
            return self.x.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

    A = random_spd(20, 0.2, 0)
    b = np.arange(20.0)
    assert np.array_equal(ms.cholesky(A).solve(Tensor(b)), ms.cholesky(A).solve(b))


def test_row_sums_and_absolute_values():
    A = sp.random_array((50, 50), density=0.1, rng=np.random.default_rng(0), data_sampler=np.random.default_rng(1).standard_normal).tocsr()
    M = matrix.as_csr(A)
    sums, moduli = _core.row_sums(M.indptr, M.data)
    assert np.allclose(sums, A.sum(axis=1)) and np.allclose(moduli, abs(A).sum(axis=1)) and sums.shape == (50,)


@pytest.mark.parametrize("make", [ms.cholesky, ms.analyze, ms.lu, ms.ildl, ms.parac, ms.factorized])
@pytest.mark.parametrize("shape", [(), (2, 2)])
def test_dates_are_no_numbers(make, shape):
    """numpy cannot make a view of their memory."""
    with pytest.raises(ms.InvalidInputError):
        make(np.full(shape, "NaT", "datetime64[s]"))


def test_zeros_without_a_mirror_entry_are_kept():
    """scipy's sum of a matrix and its transpose would drop them, and overflow."""
    P = ms.datasets.grid2d(4, 4)
    A = sp.csr_array(P.copy())
    A.data[:] = 0
    A.setdiag(1e308)
    c = sp.coo_array(A)
    stays = ~((c.row == 1) & (c.col == 0))
    M = matrix.as_symmetric(sp.csr_array((c.data[stays], (c.row[stays], c.col[stays])), shape=A.shape))
    assert M.nnz == P.nnz and np.array_equal(M.to_scipy().diagonal(), np.full(16, 1e308))
    F = ms.cholesky(sp.csr_array((c.data[stays] / 1e308, (c.row[stays], c.col[stays])), shape=A.shape))
    assert np.abs(F.refactor(P + 0.1 * sp.eye_array(16)).solve(np.ones(16)) - 10).max() < 1e-11


def test_nouns_have_the_right_plural():
    assert [options.counted(k, "face") for k in (0, 1, 2, 1200)] == ["0 faces", "1 face", "2 faces", "1,200 faces"]
    assert options.counted(1, "vertex") == "1 vertex" and options.counted(3, "vertex") == "3 vertices"
    assert options.counted(2, "entry") == "2 entries" and options.counted(np.int64(1), "patch") == "1 patch" and options.counted(2, "patch") == "2 patches"
    triangle = ms.Mesh(np.eye(3), [[0, 1, 2]])
    assert repr(triangle) == "Mesh(3 vertices, 1 face)" and repr(ms.PatchMesh(triangle)) == "PatchMesh(1 patch of 3 vertices, 3 edges, 1 face)"
    with pytest.warns(ms.MeshsolveWarning, match="^dropped 1 face with a repeated corner$"):
        ms.Mesh(np.eye(3), [[0, 1, 2], [0, 0, 1]])
    with pytest.raises(ms.InvalidInputError, match="A has 1 row, the factor 3"):
        ms.lu(np.eye(3)).refactor([[1.0]])
    info = ms.solve(np.diag([1.0, -1.0]), np.ones(2))[1]
    assert "1 iteration to" in info.report.facts["steps_taken"]


def test_counts_in_messages_go_with_their_nouns():
    """Counts before a noun are formatted by options.counted, because they may be 1."""
    nouns = "components|steps|faces|vertices|edges|rows|entries|iterations|patches|nodes|nonzeros|loops|triangles|corners|pivots"
    root = pathlib.Path(ms.__file__).parent
    wrong = [f"{path.relative_to(root)}: {match[0]}" for path in root.rglob("*.py") if "circuit" not in path.parts and path.parent.name != "mesh"
             for match in re.finditer(r'f"[^"\n]*\{[^{}:!\n]+(?::,)?\} (?:' + nouns + r")\b", path.read_text()) if path.name not in ("io.py", "memory.py", "options.py")]
    assert wrong == []
