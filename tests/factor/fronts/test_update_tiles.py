"""Update matrices stored in several tiles of columns, whose rows are anywhere in the front of the parent."""

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms

TILE = 128
GRID = ms.datasets.grid3d(14, boundary="dirichlet")
N = GRID.shape[0]


def cliques(sizes, seed):
    """A definite matrix of cliques, each sharing some random rows with a large one."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    A = np.zeros((n, n))
    begin = np.cumsum([0, *sizes])
    for k, size in enumerate(sizes):
        rows = np.concatenate([np.arange(begin[k], begin[k + 1]), begin[-2] + rng.choice(sizes[-1], min(3 * size, sizes[-1]), replace=False)])
        A[np.ix_(rows, rows)] += rng.standard_normal((len(rows), len(rows)))
    A = A + A.T
    return sp.csr_array(A + np.diag(abs(A).sum(axis=1) + 1))


MATRICES = {"grid in space": GRID, "cliques": cliques([40, 60, 129, 130, 20, 100, 400], 1), "one row more than a tile": cliques([50, 43, 129], 2)}
FACTORS = {
    "cholesky": lambda A, threads: ms.cholesky(A, "amd", threads=threads),
    "single": lambda A, threads: ms.cholesky(A, "amd", precision="single", threads=threads),
    "ldl": lambda A, threads: ms.ildl(A, fill_level=None, ordering="amd", threads=threads),
    "indefinite": lambda A, threads: ms.ildl(A - 0.7 * sp.diags_array(A.diagonal()), fill_level=None, ordering="amd", threads=threads),
}


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("matrix", MATRICES)
def test_the_product_of_the_factor(matrix, factor):
    A, answers = MATRICES[matrix], []
    updates = np.diff(ms.analyze(A, "amd").native.row_ptr)
    assert updates.max() > TILE
    for threads in (1, 3):
        F = FACTORS[factor](A, threads)
        answers.append(F.solve(A @ np.ones(A.shape[0])))
        F.refactor(A - 0.7 * sp.diags_array(A.diagonal()) if factor == "indefinite" else A)
        answers.append(F.solve(A @ np.ones(A.shape[0])))
    assert all(np.array_equal(x, answers[0]) for x in answers)
    B = A - 0.7 * sp.diags_array(A.diagonal()) if factor == "indefinite" else A
    assert abs(B @ answers[0] - A @ np.ones(A.shape[0])).max() < (1e-2 if factor == "single" else 1e-8) * abs(A).max()
