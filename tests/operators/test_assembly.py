"""Plans of repeated assembly, finite elements and normal equations, compared with scipy's sums and products."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from on_device import to_cuda, to_numpy

import meshsolve as ms
from meshsolve.operators import Assembly, NormalEquations

pytestmark = pytest.mark.native


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 200), st.integers(0, 10**6), st.booleans())
def test_assembly_equals_sums_of_scipy(m, n, k, seed, is_complex):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, m, k), rng.integers(0, n, k).astype(np.int32)
    plans = [Assembly(rows, columns, (m, n), threads) for threads in (1, 2)]
    for _ in range(2):
        values = rng.integers(-4, 5, k) * (1 + 1j if is_complex else 1.0)
        A, B = (plan(values) for plan in plans)
        assert np.array_equal(A.toarray(), sp.coo_array((values, (rows, columns)), shape=(m, n)).toarray())
        assert np.array_equal(A.data, B.data) and A.nnz == plans[0].nnz == len(set(zip(rows.tolist(), columns.tolist())))
        assert A.has_canonical_format and (A.nnz == 0 or np.shares_memory(A.indices, plans[0](values).indices))


def elements(n=12):
    """(dofs, number of unknowns) of the edges of a grid with three unknowns per vertex."""
    L = sp.triu(ms.datasets.grid2d(n, n), 1).tocoo()
    ends = np.stack([L.row, L.col], axis=1)
    return (3 * ends[:, :, None] + np.arange(3)).reshape(len(ends), 6), 3 * n * n


def test_assembled_matrices_are_factored_and_refactored():
    dofs, n = elements()
    plan, rng = Assembly.of_elements(dofs, n), np.random.default_rng(0)
    F = None
    for _ in range(3):
        B = rng.standard_normal((len(dofs), 6, 6)) * (rng.random((len(dofs), 1, 1)) < 0.9)      # some elements are all zero
        K = B @ B.transpose(0, 2, 1)
        A = plan(K) + sp.eye_array(n)
        dense = np.eye(n)
        for dof, block in zip(dofs, K):
            dense[np.ix_(dof, dof)] += block
        assert np.allclose(A.toarray(), dense, atol=1e-13)
        F = ms.cholesky(plan(K + np.eye(6))) if F is None else F.refactor(plan(K + np.eye(6)))
        b = rng.standard_normal(n)
        assert np.abs(plan(K + np.eye(6)) @ F.solve(b) - b).max() < 1e-11


def test_results_share_only_the_pattern():
    plan = Assembly([0, 1], [1, 0], 2)
    A, B = plan([1.0, 2.0]), plan([3.0, 4.0])
    A.data[:] = 7
    assert B.toarray().tolist() == [[0, 3], [4, 0]] and (2 * A @ B).nnz == 2
    with pytest.raises(ValueError):
        A.indices[0] = 0


def test_values_are_overwritten_in_place():
    plan = Assembly([0, 0, 1], [1, 1, 0], 2)
    A = plan([1.0, 2.0, 3.0])
    assert plan([1, 1, 1], out=A) is A and A.toarray().tolist() == [[0, 2], [1, 0]]
    other = Assembly([0, 0, 1], [1, 1, 0], 2)([0.0, 0.0, 0.0])
    for out in (other, A.toarray(), sp.csr_array(np.eye(2)), plan([1j, 0, 0]), 3):
        with pytest.raises(ms.InvalidInputError, match="that this plan has returned"):
            plan([1, 1, 1], out=out)
    A.data = A.data[:1]
    with pytest.raises(ms.InvalidInputError, match="that this plan has returned"):
        plan([1, 1, 1], out=A)


@pytest.mark.parametrize("is_complex", [False, True])
def test_assembly_on_the_gpu(cuda, is_complex):
    dofs, n = elements()
    values = np.random.default_rng(0).standard_normal((len(dofs), 6, 6)) * (1 + 2j if is_complex else 1)
    plan, expected = Assembly.of_elements(dofs, n, device="cuda"), Assembly.of_elements(dofs, n)(values)
    A = plan(to_cuda(values))
    assert np.array_equal(to_numpy(A.data), expected.data)              # the same order of additions
    assert plan(2 * values, out=A) is A and np.array_equal(to_numpy(A.data), 2 * expected.data)
    assert np.array_equal(to_numpy(A.indices), expected.indices) and np.array_equal(to_numpy(A.indptr), expected.indptr)
    with pytest.raises(ms.InvalidInputError, match="that this plan has returned"):
        plan(values, out=expected)
    assert Assembly([], [], 3, device="cuda")([]).shape == (3, 3)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: Assembly([0, 5], [0, 1], 3), r"rows\[1\] is 5; it must be from 0 to 2"), (lambda: Assembly([0, 1], [0, -1], 3), r"columns\[1\] is -1"),
    (lambda: Assembly([0], [0, 1], 3), "must have the same length"), (lambda: Assembly([0.0], [0], 3), "integers"),
    (lambda: Assembly([0], [0], 0), "shape"), (lambda: Assembly.of_elements([0, 1], 3), "unknowns per element"),
    (lambda: Assembly([0], [0], 3)([1.0, 2.0]), r"numbers of shape \(1,\)"), (lambda: Assembly([0], [0], 3)(["a"]), "numbers"),
    (lambda: NormalEquations(np.zeros((2, 2), complex)), "real"), (lambda: NormalEquations(np.eye(2))(np.eye(3)), "2 x 2 as planned, got 3 x 3"),
    (lambda: NormalEquations(np.eye(2))(np.ones((2, 2))), "row 0, column 1"),
    (lambda: NormalEquations(np.eye(2))(np.eye(2), [1.0]), "weights"), (lambda: NormalEquations(np.zeros((2, 2)))(np.eye(2)), "row 0, column 0")])
def test_bad_input(call, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        call()


@given(st.integers(1, 40), st.integers(1, 30), st.floats(0, 0.5), st.integers(0, 10**6), st.sampled_from(["csr", "csc", "coo", "dense"]))
def test_normal_equations_are_the_product(m, n, density, seed, form):
    rng = np.random.default_rng(seed)
    J = sp.random_array((m, n), density=density, rng=rng, data_sampler=lambda size: rng.integers(-3, 4, size).astype(float)).tocsr()
    given = J.toarray() if form == "dense" else J.asformat(form)
    plan = NormalEquations(given, threads=2)
    weights = rng.integers(-2, 3, m)
    A = plan(given, weights)
    assert np.array_equal(A.toarray(), J.toarray().T @ np.diag(weights) @ J.toarray()) and A.has_canonical_format
    assert np.array_equal(plan(given).toarray(), J.toarray().T @ J.toarray()) and A.nnz == plan.nnz
    fewer = J.copy()
    fewer.data *= rng.random(J.nnz) < 0.5
    fewer.eliminate_zeros()
    B = plan(fewer, weights)
    assert B.nnz == A.nnz and np.array_equal(B.toarray(), fewer.toarray().T @ np.diag(weights) @ fewer.toarray())


def test_products_are_exactly_symmetric_on_any_threads():
    J = sp.random_array((3000, 700), density=0.01, rng=np.random.default_rng(1)).tocsr()
    w = np.random.default_rng(2).random(3000)
    A, B = (NormalEquations(J, threads=threads)(J, w) for threads in (1, 3))
    assert np.array_equal(pickle.loads(pickle.dumps(NormalEquations(J)))(J, w).data, A.data)
    assert np.array_equal(A.data, B.data) and abs(A - A.T).max() == 0 and abs(A - J.T @ sp.diags_array(w) @ J).max() < 1e-14
