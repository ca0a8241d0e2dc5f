"""Iterations on operators without entries."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import meshsolve as ms

N = 120
A, L, K = ms.datasets.grid2d(12, 10, boundary="dirichlet"), ms.datasets.grid2d(12, 10), ms.datasets.kkt(80, 40)
B = np.random.default_rng(0).standard_normal((N, 3))


class Duck:
    """An object with the interface of an operator that is not scipy's."""

    def __init__(self, A, matvec=None):
        self.A, self.shape, self.dtype = A, A.shape, A.dtype
        self.answer = matvec or (lambda x: A @ x)

    def matvec(self, x):
        assert x.shape == (N,)
        return self.answer(x)


OPERATORS = {"scipy's": aslinearoperator, "an object": Duck, "a function": lambda A: LinearOperator(A.shape, matvec=lambda x: A @ x),
             "columns": lambda A: Duck(A, lambda x: (A @ x)[:, None]), "in place": lambda A: Duck(A, lambda x: A @ x + 0 * x.__imul__(0)),
             "a sum": lambda A: aslinearoperator(A - sp.eye_array(N)) + aslinearoperator(sp.eye_array(N))}
RIGHT = {"block": B, "vector": B[:, 0], "column": B[:, :1], "none": B[:, :0], "complex": B * (1 - 2j), "single": B.astype(np.float32)}


@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("b", RIGHT.values(), ids=RIGHT)
def test_operators_are_solved_with_as_matrices_are(kind, b):
    operator = OPERATORS[kind](A)
    for M in (None, ms.cholesky(A), ms.parac(A), Duck(sp.csr_array(sp.diags_array(1 / A.diagonal())))):
        (x, info), (y, known) = ms.cg(operator, b, M), ms.cg(A, b, M)
        assert info.converged and np.allclose(x, y, rtol=1e-6, atol=1e-7)
        assert np.all(np.abs(np.asarray(info.iterations) - known.iterations) <= 1)
        x, info = ms.sqmr(operator, b, M)
        assert info.converged and np.allclose(A @ x, b, atol=1e-6) and not info.singular


def test_indefinite_operators():
    x, info = ms.sqmr(aslinearoperator(K), B, M=ms.ildl(K))
    assert info.converged and np.allclose(K @ x, B, atol=1e-6)
    with pytest.warns(ms.ConvergenceWarning, match="not positive definite"):
        assert not ms.cg(aslinearoperator(-A), B[:, 0])[1].converged


@pytest.mark.parametrize("L", [L, sp.csr_array(sp.block_diag([L[:60, :60] - sp.diags_array(L[:60, :60].sum(axis=1)), 2 * (
    L[60:, 60:] - sp.diags_array(L[60:, 60:].sum(axis=1)))]))], ids=["connected", "two components"])
def test_singular_operators(L):
    """x has mean 0, with a factor of the Laplacian on each component; the part of b outside the range is reported."""
    b = L @ B
    for M in (None, ms.parac(L)):
        x, info = ms.cg(aslinearoperator(L), b, M)
        assert info.converged and info.singular and np.allclose(L @ x, b, atol=1e-6) and abs(x.mean(axis=0)).max() < 1e-12
    with pytest.warns(ms.ConvergenceWarning, match="not in the range"):
        x, info = ms.cg(aslinearoperator(L), b + 1)
    assert not info.converged and np.allclose(L @ x, b, atol=1e-6)


def test_nearly_singular_operators_are_not_called_singular():
    M = sp.csr_array(L + sp.diags_array(np.where(np.arange(N) == 5, 1e-9, 0.0)))
    assert not ms.cg(aslinearoperator(M), M @ B[:, 0])[1].singular


def answering(f, dtype=float):
    return LinearOperator((N, N), matvec=f, dtype=dtype)


BAD = {
    "complex": (aslinearoperator(A * 1j), "complex, but a real operator"), "complex products": (answering(lambda x: x * 1j), "dtype complex128"),
    "not square": (LinearOperator((N, N - 1), matvec=lambda x: x, dtype=float), "square, got 120 x 119"),
    "short products": (answering(lambda x: x[:-1]), "another shape.*119"), "short products of an object": (Duck(A, lambda x: x[:5]), r"shape \(5,\)"),
    "NaN": (answering(lambda x: x * np.where(np.arange(N) == 7, np.nan, 1)), "finite vector holds nan in row 7"),
    "infinity": (Duck(A, lambda x: x * np.inf), "finite vector holds -?inf in row 0"), "text": (Duck(A, lambda x: "x"), r"shape \(\)"),
    "nothing": (Duck(A, lambda x: None), r"shape \(\)"),
}


@each("name", BAD)
@each("iteration", [ms.cg, ms.sqmr, ms.gmres])
def test_bad_operators_are_refused(iteration, name):
    operator, says = BAD[name]
    with pytest.raises(ms.InvalidInputError, match=f"A (is|must).*{says}"):
        iteration(operator, B[:, 0])
    if operator.shape == (N, N) and name != "complex":
        with pytest.raises(ms.InvalidInputError, match=f"M is.*{says}"):
            iteration(A, B[:, 0], M=operator)


def test_errors_of_operators_reach_the_caller():
    for iteration in (ms.cg, ms.sqmr, ms.gmres):
        with pytest.raises(ZeroDivisionError):
            iteration(answering(lambda x: 1 / 0), B[:, 0])
        with pytest.raises(ValueError, match="^my own$"):
            iteration(Duck(A, lambda x: int("x") if x is None else (_ for _ in ()).throw(ValueError("my own"))), B[:, 0])
        with pytest.raises(ms.InvalidInputError, match="got function: .*LinearOperator"):
            iteration(lambda x: x, B[:, 0])
        with pytest.raises(ms.InvalidInputError, match=r"b must be \(120,\)"):
            iteration(aslinearoperator(A), B[:5])


@pytest.mark.parametrize("take", [ms.cholesky, ms.lu, ms.ildl, ms.parac, ms.factorized, lambda A: ms.solve(A, B), ms.analyze, ms.order.amd,
                                  lambda A: ms.schur_complement(A, [0])])
def test_calls_that_need_the_entries_refuse_operators(take):
    with pytest.raises(ms.InvalidInputError, match="a matrix with its entries, got .*cg, sqmr and gmres take an operator"):
        take(aslinearoperator(A))


def test_operators_stay_on_the_host(cuda):
    with pytest.raises(ms.InvalidInputError, match="operator.* with products on the host"):
        ms.cg(aslinearoperator(A), B[:, 0], M=ms.parac(A, device="cuda"))
