"""Singular Laplacians are detected for either sign that rounding gives the last pivot."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from zoo import truss

import meshsolve as ms

LAPLACIANS = {
    "grids": [ms.datasets.grid2d(m, n) for m in (2, 3, 10, 31) for n in (2, 7, 30)],
    "spheres": [ms.cotan_laplacian(ms.datasets.icosphere(k)) for k in range(5)],
    "roads": [ms.datasets.road_like(n, seed=n) for n in (50, 500, 3000)],
    "scaled": [ms.datasets.grid2d(12, 12) * 10.0 ** k for k in (-200, -30, 30, 200)],
}


@pytest.mark.parametrize("kind", LAPLACIANS)
@pytest.mark.parametrize("ordering", ["auto", "nd", "rcm", "natural"])
def test_laplacian(kind, ordering):
    for L in LAPLACIANS[kind]:
        with pytest.raises(ms.NotPositiveDefiniteError, match="pin=True") as caught:
            ms.cholesky(L, ordering, device="cpu")
        assert 0 <= caught.value.column < L.shape[0]


def test_a_negated_laplacian_is_detected_by_its_sign():
    """libigl's cotmatrix: only -L has a factor, with or without pins and fixed rows."""
    for L in (ms.cotan_laplacian(ms.datasets.icosphere(2)), ms.datasets.grid2d(9, 9)):
        for given in ({}, {"pin": True}, {"fixed": [0, 7]}):
            with pytest.raises(ms.NotPositiveDefiniteError, match="diagonal entry is negative.*factor -A") as caught:
                ms.cholesky(-L, device="cpu", **given)
            assert "pin=True" not in str(caught.value) and 0 <= caught.value.column < L.shape[0]
        with pytest.raises(ms.NotLaplacianError, match="use -L"):
            ms.parac(-L)


@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_one_component_of_two(precision):
    """The named column is in the singular component, also after fixed rows."""
    L = ms.datasets.grid2d(9, 9)
    both = sp.block_diag([L, L]).tocsr()
    for half in (0, 1):
        regular = both + sp.diags_array(np.repeat([half, 1 - half], 81) * 0.1)
        with pytest.raises(ms.NotPositiveDefiniteError) as caught:
            ms.cholesky(regular, precision=precision, device="cpu")
        assert caught.value.column // 81 == half
        with pytest.raises(ms.NotPositiveDefiniteError) as caught:
            ms.cholesky(both, fixed=[5 + 81 * (1 - half)], precision=precision, device="cpu")
        assert caught.value.column // 81 == half
    assert ms.cholesky(both, fixed=[5, 90], precision=precision, device="cpu").solve(np.ones(162)).min() >= 0


def test_a_refactorization_keeps_the_earlier_factor():
    L = ms.datasets.grid2d(20, 20)
    F = ms.cholesky(L + 0.1 * sp.eye_array(400), device="cpu")
    x = F.solve(np.ones(400))
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(L)
    assert np.array_equal(F.solve(np.ones(400)), x)


def test_a_small_mass_is_enough():
    """Regular matrices are accepted: a shift of 1e-12, one fixed row, one row with a nonzero sum."""
    L = ms.datasets.grid2d(20, 20).tocsr()
    b = L @ np.arange(400.0)
    for A in (L + 1e-12 * sp.eye_array(400), L + sp.csr_array(([1e-8], ([7], [7])), shape=(400, 400))):
        x = ms.cholesky(A, device="cpu").solve(b)
        assert np.abs(A @ x - b).max() < 1e-3 * np.abs(b).max()
    assert np.isfinite(ms.cholesky(L, fixed=[3], device="cpu").solve(b)).all()


def test_the_message_of_empty_rows():
    A = sp.csr_array((3, 3))
    with pytest.raises(ms.NotPositiveDefiniteError, match="zero or missing"):
        ms.cholesky(A, device="cpu")


def test_other_matrices_are_not_called_laplacians():
    """Without zero row sums neither pins nor fixed rows help: an indefinite Hessian, a body that rotates.

    Rounded weights may still be those of a Laplacian. Other components do not matter."""
    L = ms.datasets.grid2d(20, 20)
    hessian = L + sp.diags_array(np.random.default_rng(0).uniform(-3, 1, 400))
    K, joints = truss(5)
    for A, fixed in ((hessian, None), (sp.block_diag([L + sp.eye_array(400), hessian]), None), (K - 1e-3 * sp.eye_array(50), [0, 1])):
        with pytest.raises(ms.NotPositiveDefiniteError, match="identity, added to A, makes it definite") as caught:
            ms.cholesky(A, fixed=fixed, device="cpu")
        assert "Laplacian" not in str(caught.value) and "ildl" in str(caught.value)
    rounded = sp.block_diag([hessian + 4 * sp.eye_array(400), L - 1e-9 * sp.eye_array(400)])
    with pytest.raises(ms.NotPositiveDefiniteError, match="may be a Laplacian.*fixed=") as caught:
        ms.cholesky(rounded, device="cpu")
    assert caught.value.column >= 400


def test_the_checked_row_changes_with_the_values():
    """With fixed rows most row sums are 0. The checked row becomes one with another sum, and the next matrix is read again."""
    from meshsolve.factor.cholesky.singular import ConstantNullSpace
    from meshsolve.sparse.places import HOST

    L = sp.csr_array(ms.datasets.grid2d(15, 15))
    A = sp.csr_array(sp.block_diag([L, L, L]))
    sym = ms.analyze(A)
    null = ConstantNullSpace(sym, HOST)
    on = [A + sp.csr_array((np.ones(3), (rows, rows)), shape=A.shape) * 1e-3 for rows in ([0, 300, 600], [224, 225, 450])]
    for regular in (on[0], on[1], on[0]):
        assert null.find((regular + 0 * A).tocsr().data) == -1
    for missing, rows in enumerate(([300, 600], [0, 600], [0, 300])):
        less = A + sp.csr_array((np.ones(2), (rows, rows)), shape=A.shape)
        assert sym.perm[null.find(less.tocsr().data)] // 225 == missing
        assert null.find(on[missing % 2].tocsr().data) == -1


def test_a_pinned_matrix_is_not_advised_to_be_pinned():
    W = np.diag([1.0, 1e-30, 1.0], 1)                        # two pairs, joined by an edge that vanishes in rounding
    W = W + W.T
    with pytest.raises(ms.NotPositiveDefiniteError, match="vanish in rounding") as caught:
        ms.cholesky(np.diag(W.sum(axis=1)) - W, pin=True, device="cpu")
    assert caught.value.column in (2, 3)


def test_the_pin_is_no_row_of_tiny_entries():
    """The equation of a pin takes the rounding errors of the others: row 0, of 1e-30, is not chosen beside rows of 1."""
    W = np.diag([1e-30, 1.0], 1)
    L = np.diag((W + W.T).sum(axis=1)) - W - W.T
    x = ms.cholesky(L, pin=True, device="cpu").solve(np.array([1.0, -0.5, -0.5]))
    assert np.allclose(x, np.array([2.0, -1.0, -1.0]) / 3 * 1e30, rtol=1e-12)


def test_rounding_beside_a_stiff_edge_stays_there():
    """A chain with an edge of 2^31: each equation holds to the rounding errors of its own entries, that of the pin too."""
    W = np.diag([1.0, 2.0**31, 1.0, 1.0], 1)
    L = np.diag((W + W.T).sum(axis=1)) - W - W.T
    b = L @ np.array([1.0, 4.0, -2.0, 3.0, 0.0])
    x, info = ms.solve(sp.csr_array(L), b)
    assert info.converged and (abs(L @ x - b) <= 1e-14 * (abs(L) @ abs(x) + abs(b))).all()


def cut(seed, joint=0.0, n=12):
    """(A, B): a Laplacian with weights near 1, and one on its pattern whose two halves are joined by weights near ``joint``."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.uniform(0.2, 2, (n, n)) * (rng.random((n, n)) < 0.4), 1) + np.diag(np.ones(n - 1), 1)
    V = W * rng.uniform(0.5, 1.5, W.shape)
    V[:n // 2, n // 2:] *= joint
    W, V = W + W.T, V + V.T
    rows, columns = np.nonzero(W + np.eye(n))
    return [sp.csr_array(((np.diag(U.sum(axis=0)) - U)[rows, columns], (rows, columns)), shape=(n, n)) for U in (W, V)]


@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
@pytest.mark.parametrize("joint", [0.0, 1e-25])
def test_components_of_the_values_but_not_of_the_pattern(joint, precision):
    """The last pivot of the second half has either sign by rounding. Both are refused, and the earlier factor stays."""
    mass, b = sp.diags_array(np.repeat([1.0, 0.0], 6)), np.arange(12) - 5.5
    for seed in range(30):
        A, B = cut(seed, joint)
        factors = {
            "pin": lambda A=A: ms.cholesky(A, pin=True, precision=precision, device="cpu"),
            "fixed": lambda A=A: ms.cholesky(A, fixed=[0], precision=precision, device="cpu"),
            "mass": lambda A=A: ms.cholesky(A + sp.eye_array(12), precision=precision, device="cpu"),
        }
        for kind, make in factors.items():
            F = make()
            x = F.solve(b)
            with pytest.raises(ms.NotPositiveDefiniteError, match="more components" if kind == "pin" else "sums to 0") as caught:
                F.refactor(B + mass if kind == "mass" else B)
            assert caught.value.column >= 6 or kind == "pin"
            assert np.array_equal(F.solve(b), x)
        with pytest.raises(ms.NotPositiveDefiniteError, match="sums to 0"):
            ms.cholesky(B, fixed=[0], precision=precision, device="cpu")


def test_components_joined_by_weak_weights_are_accepted():
    """An entry that is small relative to one of its two rows only still joins them."""
    for joint in (1e-3, 1e-9):
        for seed in range(10):
            A, B = cut(seed, joint)
            b = B @ np.arange(12.0)
            x = ms.cholesky(A, fixed=[0], device="cpu").refactor(B).solve(b, fixed_values=[0.0])
            assert np.abs(B[1:] @ x - b[1:]).max() < 1e-9 * np.abs(b).max()
    d = sp.diags_array(10.0 ** np.linspace(-12, 12, 12))
    A, _ = cut(0)
    scaled = sp.csr_array(d @ (A + sp.eye_array(12)) @ d)
    x = ms.cholesky(scaled, device="cpu").solve(scaled.sum(axis=1))
    assert np.abs(scaled @ x - scaled.sum(axis=1)).max() < 1e-12 * scaled.max()


@pytest.mark.filterwarnings("ignore::meshsolve.ConvergenceWarning")
@pytest.mark.parametrize("m", [5, 12, 20, 31])
def test_an_elastic_body_without_supports(m):
    """Its rows sum to 0, but rotations are in the null space as well. One pin is not enough, which rounding may hide."""
    K, joints = truss(m)
    sheared = np.stack([0 * joints[:, 0], (joints[:, 0] == m - 1) * 1.0], 1).ravel()
    x, info = ms.solve(K, sheared)
    assert not info.converged and np.linalg.norm(sheared - K @ x) <= 1.001 * np.linalg.norm(sheared) and "means" not in info.reason
    pulled = np.stack([(joints[:, 0] == m - 1) * 1.0 - (joints[:, 0] == 0), 0 * joints[:, 0]], 1).ravel()
    x, info = ms.solve(K, pulled)
    assert info.converged and np.linalg.norm(pulled - K @ x) <= 1e-10 * np.linalg.norm(pulled)
    how = message_of(lambda: ms.cholesky(K, pin=True))
    assert "positive by rounding" in how or ("rotations" in how and "use pin" not in how)


def message_of(make):
    """The text of the error or of the warning for a singular matrix; rounding decides which."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            assert make().trial > 0.02
        except ms.NotPositiveDefiniteError as e:
            return str(e)
    return str(caught[0].message)


def test_a_numerically_singular_matrix_is_detected():
    """For any null vector: a Laplacian scaled from both sides."""
    ways = set()
    for seed in range(20):
        S = sp.diags_array(np.exp(np.random.default_rng(seed).standard_normal(400)))
        A = sp.csr_array(S @ ms.datasets.grid2d(20, 20) @ S)
        ways.add("positive by rounding" in message_of(lambda A=A: ms.cholesky(A, device="cpu")))
        assert ms.cholesky(A + 1e-9 * sp.diags_array(A.diagonal()), device="cpu").trial < 1e-3
    assert ways == {False, True}
