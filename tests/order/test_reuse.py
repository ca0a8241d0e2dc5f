"""Orderings that matrices of one pattern reuse: the same bits, one ordering for each pattern, method and option, bounded memory."""

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve.order import reuse
from meshsolve.order.reuse import Orderings, reusing

GRID = sp.csr_array(ms.datasets.grid2d(30, 20, boundary="dirichlet"))
FACTORS = {"cholesky": ms.cholesky, "lu": ms.lu, "ildl": lambda A, **options: ms.ildl(A, fill_level=None, **options), "parac": ms.parac}


@pytest.mark.parametrize("name", FACTORS)
def test_one_pattern_is_ordered_once(name):
    make, b = FACTORS[name], np.ones(600)
    expected = [make(s * GRID, ordering="nd").solve(b) for s in (1.0, 2.0, 3.0)]
    orderings, timed = Orderings(), []
    with reusing(orderings):
        for s, x in zip((1.0, 2.0, 3.0), expected, strict=True):
            F = make(s * GRID, ordering="nd")
            timed.append("order" in F.report.seconds)
            assert np.array_equal(F.solve(b), x)
    assert timed == [True, False, False] and len(orderings) == 1
    assert "order" in make(GRID, ordering="nd").report.seconds                  # outside the block


def test_other_patterns_methods_and_options_are_others():
    other = sp.csr_array(GRID + sp.csr_array(([1e-3, 1e-3], ([0, 599], [599, 0])), shape=(600, 600)))
    orderings = Orderings()
    with reusing(orderings):
        for k, (A, options) in enumerate([(GRID, {"ordering": "amd"}), (GRID, {"ordering": "nd"}), (other, {"ordering": "nd"}),
                                          (GRID, {"ordering": "random", "seed": 1}), (GRID, {"ordering": "random", "seed": 2})], 1):
            F = ms.cholesky(A, **options)
            assert len(orderings) == k and "order" in F.report.seconds
            assert np.array_equal(F.perm, ms.cholesky(A, threads=1, **options).perm) and len(orderings) == k
        perm = np.random.default_rng(0).permutation(600)
        assert len(ms.cholesky(GRID, ordering=perm).perm) == 600 and len(orderings) == 5            # given, not computed


def test_those_not_used_for_longest_are_forgotten(monkeypatch):
    monkeypatch.setattr(reuse, "MOST_ROWS", 1500)
    orderings, seen = Orderings(), []
    with reusing(orderings):
        for method in ("amd", "nd", "amd", "rcm", "amd", "nd"):
            seen.append("order" in ms.cholesky(GRID, ordering=method).report.seconds)
            assert len(orderings) <= 2
        monkeypatch.setattr(reuse, "MOST_ROWS", 10)                            # a large one is not kept at all
        ms.cholesky(GRID, ordering="amd")
    assert seen == [True, True, False, True, False, True] and len(orderings) == 0


def test_errors_keep_nothing():
    orderings = Orderings()
    with reusing(orderings), pytest.raises(ms.InvalidInputError):
        ms.cholesky(GRID, ordering="unknown")
    assert len(orderings) == 0
