"""Attacks on the generators of test problems: what each promises about its result."""

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import meshsolve as ms
from campaigns.table import attack

GRAPHS = {"delaunay": {}, "preferential": {"d": 4}, "road_like": {}}


@attack("datasets.grid2d", "datasets.grid3d", "datasets.delaunay", "datasets.preferential", "datasets.road_like", "datasets.rmat", "datasets.icosphere", "datasets.cube",
        "datasets.scan_like", "datasets.helmholtz", "datasets.kkt", "datasets.ladder", "datasets.power_grid", "datasets.rlc_mesh", "datasets.stokes",
        "datasets.conformal_map", "datasets.constrained_smoothing", quick=4)
def promises(rng):
    """Tiny sizes and any seed. Oracle: symmetry, row sums, Euler's formula, and the same result at the same seed."""
    n, seed = int(rng.integers(3, 40)), int(rng.integers(1000))
    for name, more in GRAPHS.items():
        A = getattr(ms.datasets, name)(n + 8, seed=seed, **more)
        assert abs(A - A.T).sum() == 0 and abs(A.sum(axis=1)).max() < 1e-12 * abs(A).max(), f"{name} is not the Laplacian of a graph"
        assert abs(A - getattr(ms.datasets, name)(n + 8, seed=seed, **more)).sum() == 0, f"{name} differs at the same seed"
    rmat = ms.datasets.rmat(5, seed=seed)
    assert abs(rmat - rmat.T).sum() == 0
    for A in (ms.datasets.grid2d(n, 3), ms.datasets.grid3d(3)):
        assert abs(A - A.T).sum() == 0 and abs(A.sum(axis=1)).max() < 1e-12
    assert np.linalg.eigvalsh(ms.datasets.grid2d(n, 4, boundary="dirichlet").toarray()).min() > 0
    ball, box = ms.datasets.icosphere(2), ms.datasets.cube(3)
    for mesh in (ball, box):
        assert len(mesh.vertices) - len(mesh.edges) + len(mesh.faces) == 2 and mesh.is_manifold
    scan = ms.datasets.scan_like(1000 + n, seed=seed)
    assert np.isfinite(scan.vertices).all() and scan.is_manifold
    for A in (ms.datasets.helmholtz(8), ms.datasets.kkt(n, 2, seed=seed), ms.datasets.stokes(4), ms.datasets.conformal_map(ball, seed=seed), ms.datasets.constrained_smoothing(ball, seed=seed)):
        assert abs(sp.csr_array(A) - sp.csr_array(A).T).max() <= 1e-12 * abs(A).max()
    for A in (ms.datasets.ladder(n, seed=seed), ms.datasets.power_grid(16, seed=seed), ms.datasets.rlc_mesh(8, seed=seed)):
        b = np.ones(A.shape[0])
        x = spla.splu(sp.csc_array(A)).solve(b)
        assert np.isfinite(x).all() and abs(A @ x - b).max() <= 1e-8 * (abs(A) @ abs(x) + 1).max(), "a circuit without a solution"
