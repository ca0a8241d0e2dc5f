"""Fronts of every small shape and some large ones: the ends of tiles, vectors and packed blocks of the dense kernels."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve import _core

pytestmark = pytest.mark.native


def tree(leaf, middle, top, seed=0, meeting=0.7):
    """A definite matrix: two leaves coupled to some rows of a middle block and of the top, and one leaf coupled to the top only.

    The middle front adds the update matrices of its leaves to its pivot columns and to its own update matrix. Row lists have
    gaps, and the top adds both kinds.
    """
    rng = np.random.default_rng([seed, leaf, middle, top])
    first = [0, leaf, 2 * leaf, 3 * leaf, 3 * leaf + middle]
    n = first[-1] + top
    L = np.zeros((n, n))
    for k, (begin, end) in enumerate(zip(first, [*first[1:], n], strict=True)):
        L[begin:end, begin:end] = np.tril(rng.uniform(-1, 1, (end - begin, end - begin)))
        below = np.flatnonzero(rng.random(n - first[3]) < meeting) + first[3] if k < 3 else np.arange(end, n)
        if k == 2:
            below = below[below >= first[4]]
        L[np.ix_(below, np.arange(begin, end))] = rng.uniform(-1, 1, (len(below), end - begin))
    L[np.arange(n), np.arange(n)] = rng.uniform(1, 2, n) * np.sqrt(n)
    return L @ L.T


def residual(F, A):
    x = np.random.default_rng(1).standard_normal(len(A))
    return np.abs(F.solve(A @ x) - x).max() / np.abs(x).max()


def check(leaf, middle, top):
    A = tree(leaf, middle, top)
    S = sp.csr_array(A)
    for precision, bound in (("double", 1e-10), ("single", 2e-2)):
        F = ms.cholesky(S, "natural", precision=precision, threads=1)
        assert residual(F, A) < bound, (leaf, middle, top, precision)
    F = ms.cholesky(S, "natural", threads=1)
    L = np.linalg.cholesky(A[np.ix_(F.perm, F.perm)])
    np.testing.assert_allclose(F.L.toarray(), L, atol=1e-11 * np.abs(L).max())
    assert residual(ms.ildl(S, None, ordering="natural", threads=1), A) < 1e-9


def check_lu(leaf, middle, top):
    """The same tree for an unsymmetric matrix, real and complex, with 1 to 9 right-hand sides."""
    rng = np.random.default_rng(top)
    A = tree(leaf, middle, top)
    for values in (rng.uniform(-1, 1, A.shape), rng.uniform(-1, 1, A.shape) + 1j * rng.uniform(-1, 1, A.shape)):
        M = np.where(A != 0, values, 0) + 3 * np.sqrt(len(A)) * np.eye(len(A))
        F = ms.lu(sp.csr_array(M), ordering="natural", engine="fronts", threads=1)
        for k in (1, 2, 3, 4, 9):
            B = rng.uniform(-1, 1, (len(A), k)) + 1j * rng.uniform(-1, 1, (len(A), k))
            for trans, N in (("N", M), ("T", M.T), ("H", M.conj().T)):
                assert np.abs(N @ F.solve(B, trans=trans) - B).max() < 1e-13 * np.sqrt(len(A)), (leaf, middle, top, k, trans, M.dtype)


@pytest.fixture
def poisoned():
    _core.poison(True)
    yield
    _core.poison(False)


def test_small(poisoned):
    for leaf in (1, 2, 3, 4, 5, 7, 8, 9, 12, 17):
        for middle in (1, 2, 5, 8, 13):
            for top in (1, 2, 3, 4, 5, 7, 11, 18):
                check(leaf, middle, top)


@pytest.mark.slow
@pytest.mark.parametrize("leaf, middle, top", [(30, 60, 120), (20, 130, 61), (130, 9, 301), (140, 257, 195), (40, 20, 560)])
def test_large(poisoned, leaf, middle, top):
    assert len(ms.analyze(sp.csr_array(tree(leaf, middle, top)), "natural").supernodes) > 3
    check(leaf, middle, top)


def test_small_unsymmetric(poisoned):
    for leaf in (1, 2, 3, 5, 8, 13):
        for middle in (1, 5, 8):
            for top in (1, 2, 3, 4, 6, 7, 9, 12, 18):
                check_lu(leaf, middle, top)


@pytest.mark.parametrize("leaf, middle, top", [(30, 60, 120), (20, 130, 61), (130, 9, 301), (40, 20, 560)])
def test_large_unsymmetric(poisoned, leaf, middle, top):
    check_lu(leaf, middle, top)


@pytest.mark.parametrize("scale", [1e-306, 1e-290, 1e303])
def test_pivots_far_from_one(scale):
    """The square root of a pivot is inverted, because the reciprocal of the pivot could lose digits or overflow."""
    A = tree(5, 8, 11)
    F = ms.cholesky(sp.csr_array(A * scale), "natural", threads=1)
    np.testing.assert_allclose(F.L.toarray() / np.sqrt(scale), np.linalg.cholesky(A[np.ix_(F.perm, F.perm)]), atol=1e-12)


@pytest.mark.parametrize("column", [0, 3, 8, 15, 24])
def test_a_failing_pivot_is_named(column):
    """A failing pivot is found in the first and the last column of a block, and the earlier factor is kept."""
    A = tree(5, 8, 11)
    F = ms.cholesky(sp.csr_array(A), "natural", threads=1)
    before, row = F.L.toarray(), F.perm[column]
    B = A.copy()
    B[row, row] -= before[column, column] ** 2 * (1 + 1e-6)
    with pytest.raises(ms.NotPositiveDefiniteError) as e:
        F.refactor(sp.csr_array(B))
    assert e.value.column == row
    np.testing.assert_array_equal(F.L.toarray(), before)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["v2", "v3"])
def test_other_instruction_sets(isa):
    if _core.isa() < isa:
        pytest.skip(f"this processor has no {isa}")
    if _core.is_one_isa and _core.isa() != isa:
        pytest.skip("built for another instruction set alone (MESHSOLVE_ISA)")
    here = os.path.dirname(__file__)
    code = ("from meshsolve import _core; import test_front_shapes as t\n"
            f"assert _core.isa() == '{isa}'; _core.poison(True)\n"
            "for leaf in (1, 2, 5, 9):\n for top in (1, 3, 4, 9, 18): t.check(leaf, 5, top), t.check_lu(leaf, 5, top)\n"
            "for check in (t.check, t.check_lu): check(20, 130, 61), check(130, 9, 301)")
    env = os.environ | {"MESHSOLVE_ISA": isa, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
