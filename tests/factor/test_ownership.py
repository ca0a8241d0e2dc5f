"""A factor does not read the caller's matrix later: for solves, pickles, copies or refactorizations. Its arrays are read-only."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms

LAPLACIAN = ms.datasets.grid2d(12, 9)
SPD = sp.csr_array(LAPLACIAN + 0.1 * sp.eye_array(108))
INDEFINITE, SADDLE = ms.datasets.kkt(90, 30, seed=1), ms.datasets.stokes(8)
FACTORS = {
    "cholesky": (SPD, ms.cholesky),
    "cholesky, mixed": (SPD, lambda A: ms.cholesky(A, precision="mixed")),
    "cholesky, pinned": (LAPLACIAN, lambda A: ms.cholesky(A, pin=True)),
    "lu, fronts": (SPD, lambda A: ms.lu(A, engine="fronts")),
    "lu, columns": (INDEFINITE, lambda A: ms.lu(A, engine="columns")),
    "ildl, complete": (INDEFINITE, lambda A: ms.ildl(A, fill_level=None)),
    "ildl, complete, delayed": (SADDLE, lambda A: ms.ildl(A, fill_level=None)),
    "ildl, incomplete": (INDEFINITE, lambda A: ms.ildl(A, fill_level=2)),
    "parac": (LAPLACIAN, ms.parac),
    "factorized": (INDEFINITE, ms.factorized),
}


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.filterwarnings("ignore:b is not in the range")
def test_the_callers_arrays_may_change_later(name, index_type):
    A, make = FACTORS[name]
    given = sp.csr_array(A, copy=True)
    given.indices, given.indptr = given.indices.astype(index_type), given.indptr.astype(index_type)
    F = make(given)
    b = np.cos(np.arange(A.shape[0]))
    before = applied(F, b)
    given.indices[:], given.indptr[:], given.data[:] = 0, 0, np.nan
    for G in (F, pickle.loads(pickle.dumps(F)), copy.deepcopy(F)):
        assert np.array_equal(applied(G, b), before)
        if hasattr(G, "refactor"):
            G.refactor(A)
            assert np.array_equal(applied(G, b), before)


@pytest.mark.parametrize("name", FACTORS)
def test_arrays_of_a_factor_are_read_only(name):
    """A changed scaling would change later solutions."""
    F, seen = FACTORS[name][1](FACTORS[name][0]), 0
    for G in (F, copy.copy(F), pickle.loads(pickle.dumps(F))):
        for attribute in ("perm", "scale", "row_perm", "col_perm", "row_scale", "col_scale", "D"):
            array = getattr(G, attribute, None)
            if isinstance(array, np.ndarray):
                seen += 1
                with pytest.raises(ValueError, match="read-only"):
                    array[:] = 0
    assert seen or name == "factorized"


def applied(F, b):
    return F.solve(b) if hasattr(F, "solve") else F(b)
