"""The plain orderings and resolve()."""

import copy
import pathlib
import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from graphs import check_perm, grid, random_graph, shuffled, star

import meshsolve as ms
from meshsolve import order
from meshsolve.order.methods import METHODS, names
from meshsolve.sparse.matrix import symmetric_pattern

pytestmark = pytest.mark.native


def test_nnz_sort_is_by_degree_with_ties_by_seed():
    A = random_graph(300, 5, 3)
    o = order.nnz_sort(A, seed=1)
    check_perm(o, 300)
    degree = np.diff(symmetric_pattern(A).indptr)
    assert (np.diff(degree[o.perm]) >= 0).all()
    assert np.array_equal(o.perm, order.nnz_sort(A, seed=1).perm) and not np.array_equal(o.perm, order.nnz_sort(A, seed=2).perm)


def test_rcm_has_small_bandwidth():
    A = shuffled(grid(20, 20), 0)
    o = order.rcm(A)
    check_perm(o, 400)
    G = sp.coo_array(A)
    assert np.abs(o.iperm[G.row] - o.iperm[G.col]).max() <= 40


def test_random_and_natural():
    A = star(100)
    assert np.array_equal(order.natural(A).perm, np.arange(100)) and order.natural(A).tree is None
    o = order.random(A, seed=4)
    check_perm(o, 100)
    assert np.array_equal(o.perm, order.random(A, seed=4).perm) and not np.array_equal(o.perm, order.random(A, seed=5).perm)


def test_the_table_of_orderings_is_in_the_docstrings():
    text = "".join(page.read_text() for page in (pathlib.Path(__file__).parents[2] / "docs").glob("*.md"))
    assert not [name for name in METHODS if f'`"{name}"`' not in text]
    for function, factor in ((ms.analyze, "cholesky"), (ms.lu, "lu"), (ms.ildl, "ildl"), (ms.parac, "parac"), (ms.schur_complement, "cholesky")):
        (line,) = re.findall(r"ordering : \{(.*)\}", function.__doc__)
        assert [name for name in re.findall(r'"(\w+)"', line) if name != "rounds"] == names(factor)
    assert "multicolor" in names("ildl") and "multicolor" not in names("cholesky") + names("lu") + names()


def test_the_error_of_a_misplaced_name_names_its_factorization():
    with pytest.raises(ms.InvalidInputError, match="'multicolor' is for ms.ildl only"):
        ms.cholesky(SPD, ordering="multicolor")


SPD = ms.datasets.grid2d(12, 11, boundary="dirichlet")


def backwards(A):
    return np.arange(A.shape[0])[::-1]


@pytest.mark.parametrize("factor", [ms.cholesky, ms.lu, ms.parac, ms.analyze, lambda A, ordering: ms.ildl(A, None, ordering=ordering),
                                    lambda A, ordering: ms.schur_complement(A, [3, 7], ordering=ordering)],
                         ids=["cholesky", "lu", "parac", "analyze", "ildl", "schur"])
def test_a_callable_gets_the_factored_matrix(factor):
    """The matrix for which its permutation is used; the callable may write to its copy."""
    seen, A = [], SPD.copy()

    def spoils(M):
        seen.append(M.copy())
        M.data[:], M.indices[:] = 0, 0
        return backwards(M)

    F = factor(A, ordering=spoils)
    (M,) = seen
    n = M.shape[0]
    assert isinstance(M, sp.csr_array) and (M.data == 1).all() and n in (132, 130)
    assert (A != SPD).nnz == 0
    expected = factor(A, ordering=np.arange(132)[::-1])
    for name in ("perm", "col_perm", "matrix"):
        if hasattr(F, name):
            assert np.array_equal(getattr(F, name), getattr(expected, name))
    assert n == 130 or ((M != 0) != (SPD != 0)).nnz == 0


def test_a_callable_gets_the_free_rows():
    sizes = []
    F = ms.cholesky(SPD, ordering=lambda A: sizes.append(A.shape[0]) or order.amd(A), fixed=[0, 5])
    assert sizes == [130] and F.report.facts["ordering"] == "amd"
    assert np.array_equal(F.perm, ms.cholesky(SPD, ordering="amd", fixed=[0, 5]).perm)


def test_lu_calls_a_callable_once_with_matched_rows():
    """The matched matrix has a full diagonal, and no entry between the two blocks."""
    n, seen = 40, []
    A = sp.csr_array(sp.block_array([[grid(4, 5) + 3 * sp.eye_array(20), sp.eye_array(20)], [None, grid(4, 5) + 3 * sp.eye_array(20)]]))
    A = sp.csr_array(A[np.roll(np.arange(n), 7)])

    F = ms.lu(A, ordering=lambda M: seen.append(M) or backwards(M))
    (M,) = seen
    assert (M.diagonal() == 1).all() and M.nnz == A.nnz - 20
    A.data *= 1 + np.arange(A.nnz) % 3
    b = A @ np.ones(n)
    for G in (F.refactor(A), pickle.loads(pickle.dumps(F))):
        assert abs(G.solve(b) - 1).max() < 1e-10
    assert len(seen) == 1


@pytest.mark.parametrize("made", [None, np.zeros(132, int), np.arange(131), "nd", ms.order.natural(sp.eye_array(3)).perm])
def test_results_of_a_callable_are_checked(made):
    def mine(A):
        return made

    with pytest.raises(ms.InvalidInputError, match="what ordering=mine returned"):
        ms.cholesky(SPD, ordering=mine)


@pytest.mark.parametrize("name", ["nd", "amd", "nnz_sort", "rcm", "random", "natural"])
def test_resolve_names(name):
    o = order.resolve(name, symmetric_pattern(grid(12, 12)), seed=1, threads=1)
    check_perm(o, 144)
    assert o.method == name and o.report.as_dict()["ordering"] == name


def test_resolve_refuses_an_unknown_effort():
    for name in ("auto", "nd"):
        with pytest.raises(ms.InvalidInputError, match="effort must be one of"):
            order.resolve(name, symmetric_pattern(grid(5, 5)), effort="most")


def test_resolve_an_ordering_or_a_permutation():
    pattern = symmetric_pattern(grid(5, 5))
    o = order.amd(pattern)
    assert np.shares_memory(order.resolve(o, pattern).perm, o.perm)
    given = order.resolve(o.perm[::-1].astype(np.int64), pattern)
    assert given.method == "given" and np.array_equal(given.perm, o.perm[::-1]) and given.perm.dtype == np.int32


def test_an_ordering_is_a_read_only_array():
    A = grid(5, 5)
    o = order.amd(A)
    assert np.array_equal(np.asarray(o), o.perm) and np.asarray(o, np.int64).dtype == np.int64
    assert np.array_equal(np.argsort(o), o.iperm) and (A[o][:, o] != A[o.perm][:, o.perm]).nnz == 0
    assert o.__array__(np.dtype(float)).dtype == float
    with pytest.raises(ValueError, match="needs a copy"):
        o.__array__(np.dtype(float), copy=False)
    for array in (o.perm, o.iperm, np.asarray(o), pickle.loads(pickle.dumps(o)).perm, copy.copy(o).iperm):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    copied = np.array(o)
    copied[:] = 0


@pytest.mark.parametrize("bad", ["metis", np.zeros(25, int), np.arange(24), np.arange(25.0), order.natural(grid(3, 3)), None])
def test_resolve_refuses(bad):
    with pytest.raises(ms.InvalidInputError):
        order.resolve(bad, symmetric_pattern(grid(5, 5)))


@pytest.mark.parametrize("function", [order.nnz_sort, order.random])
@pytest.mark.parametrize("seed", [-1, 1.5, "a", None])
def test_bad_seed(function, seed):
    with pytest.raises(ms.InvalidInputError):
        function(star(5), seed=seed)
