"""The pattern of L and U without exchanges, against elimination on sets."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from meshsolve.factor.symbolic import unsymmetric_pattern

pytestmark = pytest.mark.native


def eliminate(pattern):
    """The filled pattern, diagonal included."""
    F = pattern | np.eye(len(pattern), dtype=bool)
    for k in range(len(F)):
        F[k + 1:, k + 1:] |= np.outer(F[k + 1:, k], F[k, k + 1:])
    return F


@given(st.integers(1, 40), st.floats(0.02, 0.4), st.integers(0, 10**6))
def test_pattern_is_that_of_elimination(n, density, seed):
    A = sp.random_array((n, n), density=density, rng=np.random.default_rng(seed), format="csr")
    l_indptr, l_indices, u_indptr, u_indices = unsymmetric_pattern(A)
    columns = lambda p: np.repeat(np.arange(n), np.diff(p))
    F = np.eye(n, dtype=bool)
    F[l_indices, columns(l_indptr)] = F[u_indices, columns(u_indptr)] = True
    assert np.array_equal(F, eliminate(A.toarray() != 0))
    assert (l_indices > columns(l_indptr)).all() and (u_indices < columns(u_indptr)).all()
    for indptr, indices in ((l_indptr, l_indices), (u_indptr, u_indices)):
        assert all((np.diff(indices[a:b]) > 0).all() for a, b in zip(indptr, indptr[1:], strict=False))
