"""factorized: matrices that are refused, and matrices that give a warning."""

import warnings

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.factor.lu import LUFactor


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("n", [5, 30, 100])
def test_only_the_numerically_singular_matrix_is_refused(n, kind):
    for seed in range(20):
        A = np.random.default_rng(seed).integers(-9, 9, (n, n)).astype(kind) * (1 if kind is float else 1 + 1j)
        F, x = ms.factorized(A), np.arange(n) + 1.0
        assert np.abs(F(A @ x) - x).max() < 1e-7 * n
        A[-1] = A[:-1].sum(axis=0)
        with pytest.raises(ms.SingularMatrixError):
            ms.factorized(A)


def test_a_singular_matrix_of_positive_computed_pivots():
    for seed in range(40):
        J = np.random.default_rng(seed).integers(-3, 4, (30, 30)) * (np.random.default_rng(seed + 99).random((30, 30)) < 0.3)
        J[:, 5] = J[:, 7] + J[:, 9]
        with pytest.raises(ms.SingularMatrixError):
            ms.factorized((J.T @ J).astype(float))
        d = 10.0 ** np.linspace(-9, 9, 30)                                        # rows of very different sizes do not count as singular
        A = (J.T @ J + np.eye(30)) * d * d[:, None]
        F = ms.factorized(A)
        assert F.report.facts["method"] == "cholesky" and np.abs(F(A @ (1 / d)) * d - 1).max() < 1e-9


def test_badly_conditioned_matrices_give_no_warning():
    vandermonde = np.vander(np.linspace(1.0, 2.0, 8), increasing=True)             # condition number 1e9
    scaled = np.random.default_rng(3).standard_normal((60, 60)) * 10.0 ** np.linspace(-20, 20, 60)
    for A in (vandermonde, scaled, scaled.T.copy(), 1e-300 * vandermonde):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            F = ms.factorized(A)
            b = A.sum(axis=1)
            assert np.abs(A @ F(b) - b).max() <= 1e-12 * np.abs(b).max()


def test_residuals_of_known_solutions_are_reported(monkeypatch):
    monkeypatch.setattr(LUFactor, "trial", lambda F: (0.0, 0.5))
    with pytest.warns(ms.MeshsolveWarning, match="leaves a residual of 0.5"):
        ms.factorized([[1.0, 2.0], [3.0, 4.0]])
