"""The levels of the columns engine: right-looking elimination by levels is correct, and there are few levels."""

import numpy as np
import pytest
import scipy.sparse as sp
from lu_matrices import random_matrix

import meshsolve as ms
from meshsolve.factor.lu import levels_by


def by_levels(A, F, level):
    """True if right-looking elimination by levels is correct: divide all columns of a level, then update."""
    B = (sp.diags_array(F.row_scale) @ A @ sp.diags_array(F.col_scale)).toarray()[F.row_perm][:, F.col_perm]
    for v in range(level.max() + 1):
        columns = np.flatnonzero(level == v)
        for k in columns:
            B[k + 1:, k] /= B[k, k]
        for k in columns[::-1]:
            B[k + 1:, k + 1:] -= np.outer(B[k + 1:, k], B[k, k + 1:])
    return np.allclose(B, F.L.toarray() - np.eye(len(B)) + F.U.toarray(), atol=1e-8)


@pytest.mark.native
def test_levels_that_the_upper_rule_misses():
    A = sp.csr_array(np.array([[4.0, 0, 0, 2, 0], [1, 5, 0, 3, 0], [0, 0, 6, 1, 0], [0, 1, 0, 7, 0], [0, 0, 1, 1, 8]]))
    F = ms.lu(A, "natural", "columns")
    if F.report.facts["blocks"] == 1:
        assert F.levels.tolist() == [0, 1, 0, 2, 0]
    L, U = sp.csc_array(np.tril(A.toarray() != 0) * 1.0), sp.csr_array(np.triu(A.toarray() != 0) * 1.0)
    arrays = [a.astype(t) for a, t in ((L.indptr, np.int64), (L.indices, np.int32), (U.indptr, np.int64), (U.indices, np.int32))]
    got = {rule: ms._core.lu_levels(*arrays, rule).tolist() for rule in ("upper", "relaxed", "exact")}
    assert got == {"upper": [0, 0, 0, 1, 0], "relaxed": [0, 1, 0, 2, 3], "exact": [0, 1, 0, 2, 0]}


def test_right_looking_elimination_by_levels():
    wrong, total = 0, dict.fromkeys(("upper", "exact", "relaxed"), 0)
    for seed in range(150):
        A = random_matrix(4 + seed % 12, 0.25, seed, diagonal=3.0)
        F = ms.lu(A, "natural", "columns")
        levels = {rule: levels_by(F, rule) for rule in total}
        assert by_levels(A, F, levels["exact"]) and by_levels(A, F, levels["relaxed"])
        assert (levels["exact"] <= levels["relaxed"]).all() and np.array_equal(levels["exact"], F.levels)
        wrong += not by_levels(A, F, levels["upper"])
        for rule, level in levels.items():
            total[rule] += level.max() + 1
    assert wrong > 10 and total["upper"] <= total["exact"] < total["relaxed"]
