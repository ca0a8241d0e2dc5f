"""Attacks on assembly plans, normal equations and curvatures."""

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed


@attack("operators.Assembly", "operators.Assembly.of_elements", "operators.Assembly.nnz")
def plans(rng):
    """Repeated, empty and one-entry lists, another layout, threads. Oracle: scipy's sums of coordinates, to the last bit for integers."""
    n, m, k = max(axes.size(rng), 1), max(axes.size(rng), 1), int(rng.choice([0, 1, 5, 200]))
    rows, columns = rng.integers(n, size=k), rng.integers(m, size=k)
    values = rng.integers(-9, 9, k).astype(float)
    plan = ms.operators.Assembly(rows, columns, (n, m), threads=int(rng.integers(1, 3)))
    A = plan(values)
    right = sp.coo_array((values, (rows, columns)), shape=(n, m)).toarray()
    assert np.array_equal(A.toarray(), right) and plan.nnz == A.nnz, "sums differ"
    dofs = rng.integers(n, size=(max(k // 3, 1), 3))
    blocks = rng.integers(-9, 9, (len(dofs), 3, 3)).astype(float)
    B = ms.operators.Assembly.of_elements(dofs, n)(blocks)
    right = np.zeros((n, n))
    for d, block in zip(dofs, blocks):
        np.add.at(right, np.ix_(d, d), block)
    assert np.array_equal(B.toarray(), right), "blocks differ"


@attack("operators.NormalEquations", "operators.NormalEquations.nnz")
def normal_equations(rng):
    """Rows of other scales, empty rows and columns. Oracle: scipy's J' W J, exact for integers."""
    m, n = max(axes.size(rng), 1), max(axes.size(rng), 1)
    J = sp.csr_array(np.where(rng.random((m, n)) < 0.2, rng.integers(-4, 5, (m, n)), 0).astype(float))
    if not J.nnz:
        return
    plan = ms.operators.NormalEquations(J)
    A = plan(J)
    A = A[0] if isinstance(A, tuple) else A
    assert np.array_equal(A.toarray(), (J.T @ J).toarray()), "J' J differs"


@attack("operators.curvatures", "operators.Curvatures")
def curvatures(rng):
    """Spheres at any unit in any position, and discs. Oracles: Gauss-Bonnet, 1 / r, invariance."""
    V, F = axes.sphere(rng, 3)
    V = V - V.mean(axis=0)
    u, r = axes.unit(rng, 1e30), float(np.linalg.norm(V, axis=1).mean())
    with well_posed("a sphere"):
        one, two = ms.operators.curvatures(ms.Mesh(V, F)), ms.operators.curvatures(ms.Mesh(V * u + rng.uniform(-1, 1, 3) * u, F))
    assert abs(one.gaussian.sum() - 4 * np.pi) < 1e-9, "Gauss-Bonnet"
    assert abs(two.gaussian.sum() - 4 * np.pi) < 1e-6, "Gauss-Bonnet at another unit"
    H = np.median(one.mean / one.areas) * r
    assert abs(abs(H) - 1) < 0.03, f"mean curvature {H} / r"
    assert abs(two.mean / u - one.mean).max() < 1e-5 * abs(one.mean).max(), "another unit"
    assert abs(two.principal * u - one.principal).max() < 1e-4 * abs(one.principal).max(), "principal curvatures at another unit"
    assert abs(np.linalg.norm(one.directions, axis=-1) - 1).max() < 1e-9, "directions"
