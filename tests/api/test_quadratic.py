"""Quadratic programs: every answer is checked against its optimality conditions."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each

import meshsolve as ms

A = ms.datasets.grid2d(20, 15, boundary="dirichlet")
B = np.sin(np.arange(300.0))


def check(A, b, x, info, lower=-np.inf, upper=np.inf, E=None, e=0.0, fixed=()):
    """Gradient 0 on free rows, signs at bounds, bounds and equalities met exactly or to rounding."""
    E = np.zeros((0, len(b))) if E is None else E
    g = A @ x - b - E.T @ info.multipliers
    free = np.ones(len(b), bool)
    free[list(fixed)] = False
    assert (x[free] >= np.broadcast_to(lower, len(b))[free]).all() and (x[free] <= np.broadcast_to(upper, len(b))[free]).all()
    scale = max(abs(b).max(), abs(A @ x).max())
    assert abs(g[free & (info.active == 0)]).max(initial=0) < 1e-8 * scale
    free &= np.broadcast_to(lower, len(b)) < np.broadcast_to(upper, len(b)) # equal bounds: any sign of the gradient
    assert (g[free & (info.active < 0)] > -1e-8 * scale).all() and (g[free & (info.active > 0)] < 1e-8 * scale).all()
    assert np.allclose(E @ x, e, atol=1e-8) and info.converged and info.kkt_residual <= 1e-9


@pytest.mark.parametrize("bounds", [{}, {"lower": -0.05}, {"upper": 0.02}, {"lower": -0.05, "upper": 0.1}, {"lower": 0.0, "upper": 0.0},
                                    {"lower": -1e3, "upper": 1e3}, {"lower": np.where(np.arange(300) % 3, -np.inf, -0.01)}], ids=str)
@pytest.mark.parametrize("with_equalities", [False, True])
def test_optimality(bounds, with_equalities):
    E = np.stack([np.ones(300), np.arange(300) < 5.0]) if with_equalities else None
    e = [0.0, 0.0]
    x, info = ms.Quadratic(A, Aeq=E).minimize(B, beq=e if with_equalities else None, **bounds)
    check(A, B, x, info, bounds.get("lower", -np.inf), bounds.get("upper", np.inf), E)
    if not bounds and not with_equalities:
        assert np.allclose(A @ x, B) and info.iterations == 1


def test_against_an_exhaustive_search():
    """All 3^5 active sets of a small problem."""
    rng = np.random.default_rng(0)
    G = rng.standard_normal((5, 5))
    H, b, best = G @ G.T + 0.1 * np.eye(5), 3 * rng.standard_normal(5), (np.inf, None)
    for code in range(3**5):
        side = np.array([code // 3**k % 3 - 1 for k in range(5)])
        x = side * 0.4
        inside = side == 0
        x[inside] = np.linalg.solve(H[np.ix_(inside, inside)], (b - H @ x)[inside])
        if (abs(x) <= 0.4 + 1e-12).all():
            best = min(best, (0.5 * x @ H @ x - b @ x, tuple(x)))
    x, info = ms.Quadratic(H).minimize(b, lower=-0.4, upper=0.4)
    assert np.allclose(x, best[1], atol=1e-9) and info.converged


def test_fixed_rows_have_their_values():
    x, info = ms.Quadratic(A, fixed=[0, 7]).minimize(B, fixed_values=[3, -4], lower=-0.05)
    assert x[0] == 3 and x[7] == -4
    check(A, B, x, info, lower=-0.05, fixed=(0, 7))


def test_a_semidefinite_matrix_with_an_equality():
    L = ms.datasets.grid2d(20, 15)
    x, info = ms.Quadratic(L, Aeq=np.ones((1, 300))).minimize(B, lower=-0.1)
    check(L, B, x, info, lower=-0.1, E=np.ones((1, 300)))


def test_a_bilaplacian_in_any_unit():
    mesh = ms.datasets.icosphere(2)
    for unit in (1e-3, 1.0, 1e3):
        m = ms.Mesh(mesh.vertices * unit, mesh.faces)
        L = ms.cotan_laplacian(m)
        Q = sp.csr_array(L @ sp.diags_array(1 / ms.mass_matrix(m).diagonal()) @ L)
        x, info = ms.Quadratic(Q, fixed=[0, 9]).minimize(np.zeros(162), fixed_values=[1, 0], lower=0, upper=1)
        check(Q, np.zeros(162), x, info, 0, 1, fixed=(0, 9))


def test_many_problems_share_one_analysis():
    Q = ms.Quadratic(A)
    first = Q.minimize(B, lower=-0.05)[0]
    Q.minimize(-B, upper=0.3)
    assert np.array_equal(Q.minimize(B, lower=-0.05)[0], first)


@pytest.mark.parametrize(("make", "ask", "error"), [
    ({}, {"lower": 1, "upper": 0}, "row 0"), ({}, {"lower": np.nan}, "lower"), ({}, {"lower": np.zeros(3)}, "lower"), ({}, {"b": np.full(300, np.nan)}, "b "),
    ({}, {"b": np.zeros(4)}, "b "), ({}, {"b": np.zeros((4, 2))}, "b "), ({"fixed": [1, 2]}, {"fixed_values": np.zeros((2, 2))}, "fixed_values "), ({"fixed": np.ones(300, bool)}, {}, "row free"), ({"fixed": [300]}, {}, "fixed"), ({"Aeq": np.ones((1, 4))}, {}, "Aeq"),
    ({"Aeq": np.ones((1, 300))}, {"beq": [1, 2]}, "beq"), ({}, {"tol": 0}, "tol"), ({"device": "gpu"}, {}, "device"),
    ({"C": np.ones((1, 4))}, {}, "C must"), ({"C": np.ones((1, 300))}, {"row_upper": [1, 2]}, "row_upper"), ({}, {"row_lower": 1.0}, "row_lower"),
    ({"C": np.ones((1, 300))}, {"row_lower": 1, "row_upper": 0}, "row_lower must not be above row_upper"), ({"C": [[np.inf] * 300]}, {}, "C must be a finite"),
    ({}, {"b": np.full(300, 1j)}, "b must have real"), ({}, {"b": "text"}, "b must"), ({}, {"upper": "text"}, "upper must"), ({}, {"lower": 1j}, "lower must"),
    ({"C": [["text"] * 300]}, {}, "C must be a matrix of real numbers"), ({"Aeq": np.full((1, 300), 1j)}, {}, "Aeq must be real"),
    ({}, {"lower": np.where(np.arange(300) == 4, np.inf, 0)}, "row 4"), ({}, {"upper": -np.inf}, "row 0")])
def test_bad_input(make, ask, error):
    with pytest.raises(ms.MeshsolveError, match=error):
        ms.Quadratic(A, **make).minimize(**{"b": B} | ask)


@pytest.mark.parametrize("bounds", [{}, {"lower": -1.0}], ids=str)
@each("Aeq, row", [(np.ones((2, 300)), 1), (np.eye(3, 300)[[0, 2, 0]], 2), (np.zeros((1, 300)), 0), (np.eye(2, 300), 1),
                   (np.vstack([np.eye(3, 300)[[0, 2]], [[3, 0, -2] + 297 * [0]]]), 2)])
def test_dependent_equalities(Aeq, row, bounds):
    """Row 1 of x is fixed, so the second equality of the identity has no free row. Consistent values are satisfied, others refuted."""
    Q, e = ms.Quadratic(A, fixed=[1], Aeq=Aeq), Aeq @ np.full(300, 0.01)
    x, info = Q.minimize(B, fixed_values=0.01, beq=e, **bounds)
    check(A, B, x, info, bounds.get("lower", -np.inf), E=Aeq, e=e, fixed=[1])
    e[row] += 0.5
    with pytest.warns(ms.ConvergenceWarning, match="no point"):
        _, info = Q.minimize(B, fixed_values=0.01, beq=e, **bounds)
    proof = info.certificate
    assert np.allclose(proof.equalities @ Aeq + proof.bounds, 0, atol=1e-12) and proof.equalities[row] != 0 and proof.support < 0


def test_errors_have_the_numbering_of_the_caller():
    H = np.diag([1.0, 2, -3, 4, 5])
    with pytest.raises(ms.NotPositiveDefiniteError, match="row 2") as caught:
        ms.Quadratic(H, fixed=[0]).minimize(np.ones(5))
    assert caught.value.column == 2
    with pytest.raises(ms.NotPositiveDefiniteError, match="null space of Aeq"):
        ms.Quadratic(H, Aeq=[[1, 0, 0, 0, 0]]).minimize(np.ones(5))


def test_a_minimum_that_is_not_unique():
    """No bound is active, so the constants are undetermined: the call returns one of the minima."""
    L = ms.datasets.grid2d(20, 15)
    b = B - B.mean()
    x, info = ms.Quadratic(L).minimize(b, lower=-100.0, upper=100.0)
    assert abs(L @ x - b).max() < 1e-8 and abs(x).max() <= 100 and info.kkt_residual < 1e-8


@pytest.mark.parametrize("k", [0, 1, 3])
def test_columns_are_problems(k):
    Q, b, e, values = ms.Quadratic(A, fixed=[7, 0], Aeq=np.ones((1, 300))), B[:, None] * np.arange(1, k + 1), np.arange(k)[None], np.ones((2, k))
    values[0] = 2
    x, info = Q.minimize(b, fixed_values=values, beq=e, lower=-0.1)
    assert x.shape == (300, k) and info.active.shape == (300, k) and info.multipliers.shape == (1, k) and info.converged
    for c in range(k):
        alone, other = Q.minimize(b[:, c], fixed_values=[2, 1], beq=[c], lower=-0.1)
        assert np.array_equal(x[:, c], alone) and info.kkt_residual[c] == other.kkt_residual and alone[7] == 2 and alone[0] == 1
    assert info.iterations >= k


@pytest.mark.slow
def test_on_a_gpu_as_on_the_host(gpu):
    H, b = ms.datasets.grid2d(6, 5, boundary="dirichlet"), 0.3 * B[:30]
    for options in ({"fixed": [3, 7]}, {"Aeq": np.ones((1, 30))}):
        (x, info), (y, other) = (ms.Quadratic(H, device=device, **options).minimize(b, lower=-0.05, upper=0.1) for device in ("cpu", "cuda"))
        assert abs(x - y).max() < 1e-10 and np.array_equal(info.active, other.active) and other.converged


def test_unbounded_and_infeasible_problems():
    with pytest.raises(ms.NotPositiveDefiniteError):
        ms.Quadratic(-A).minimize(B)
    with pytest.warns(ms.ConvergenceWarning, match="no point"):
        _, info = ms.Quadratic(A, Aeq=np.ones((1, 300))).minimize(B, beq=[5.0], lower=0, upper=0.01)
    assert not info.converged and "no point" in info.reason


def test_bounds_alone_move_the_minimum():
    """b = 0 and A x = 0 at the start: residuals have no scale."""
    A = sp.csr_array(ms.datasets.grid2d(6, 5, boundary="dirichlet"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, info = ms.Quadratic(A).minimize(np.zeros(30), lower=np.where(np.arange(30) == 12, 1.0, -np.inf))
    assert info.converged and x[12] == 1 and info.kkt_residual < 1e-8


def test_rows_that_step_apart_save_steps():
    """Bi-Laplacian on an uneven sphere: active bounds have multipliers of all sizes. One step length for all rows takes 97 steps."""
    mesh, rng = ms.datasets.icosphere(3), np.random.default_rng(0)
    mesh = mesh.with_vertices(mesh.vertices + 0.5 * mesh.edge_lengths.mean() * rng.standard_normal((642, 3)))
    L, handles = ms.cotan_laplacian(mesh), np.sort(rng.choice(642, 20, replace=False))
    Q = sp.csr_array(L @ sp.diags_array(1 / ms.mass_matrix(mesh).diagonal()) @ L)
    W, info = ms.Quadratic(Q, fixed=handles).minimize(np.zeros((642, 4)), fixed_values=np.eye(20)[:, :4], lower=0.0, upper=1.0)
    assert info.converged and info.iterations < 90 and W.min() >= 0 and W.max() <= 1


def test_dense_problems_go_back_to_one_step_length():
    """Every row couples with all others, so steps of each row apart would take 35 steps."""
    rng = np.random.default_rng(4)
    G = rng.standard_normal((60, 60))
    H = (G * 10.0 ** rng.uniform(-4, 4, 60)) @ G.T + 1e-3 * np.eye(60)
    H = (H + H.T) / 2
    b = 10 * H @ rng.standard_normal(60)
    x, info = ms.Quadratic(H).minimize(b, lower=0.0)
    check(H, b, x, info, lower=0.0)
    assert info.iterations < 25


def test_equalities_that_force_x_to_zero():
    """The sum of x is 0 and b is constant: x = 0 up to rounding, which is no violation of the equality."""
    A = ms.datasets.grid2d(5, 5, boundary="dirichlet")
    x, info = ms.Quadratic(A, Aeq=np.ones((1, 25))).minimize(np.ones(25))
    assert info.converged and info.kkt_residual < 1e-12 and abs(x).max() < 1e-12 and info.multipliers == pytest.approx([-1])
