"""The tasks of ``benchmarks.geometry``, each by several libraries; a task is measured once in a process of its own.

``SOLVERS[task][solver](case, watch)`` runs a task of a :class:`Case` with its phases on a stopwatch, and returns facts about the result:
``error`` and what else the table or the bars need. Imports of peers raise :class:`~benchmarks.peers.base.Unavailable`.
``python -m benchmarks.geometry_tasks`` is the child, with the task as JSON on standard input.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
import warnings

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import meshsolve as ms
from benchmarks.measure import Stopwatch, child
from benchmarks.peers.base import Unavailable
from benchmarks.peers.cholmod import Cholmod
from meshsolve.apps.maps.distortion import distortion

TOL = 1e-9              # of eigenpairs
AT_ONCE = 100           # columns of distances in memory
SAMPLED = 20            # sources that a library without blocks is measured on; its seconds are scaled to all of them
ARAP_STEPS = 10
NOISE = 0.2             # standard deviation of the noise on each coordinate, in mean edge lengths


@dataclasses.dataclass
class Case:
    """A mesh, and the size of the task: eigenpairs, sources, handles, or rows of a grid."""

    mesh: ms.Mesh
    size: int
    threads: int

    @property
    def arrays(self):
        """Vertices and faces as libigl and potpourri3d take them."""
        return np.asarray(self.mesh.vertices), self.mesh.faces.astype(np.int64)

    def spread(self, count):
        """``count`` vertices, the same in each run."""
        return np.sort(np.random.default_rng(0).choice(len(self.mesh.vertices), count, replace=False))


def measure(task, solver, mesh, size, threads, limit):
    """Seconds by phase and facts of a task on a mesh file in a new process, or ``{"failed": reason}``."""
    given = {"task": task, "solver": solver, "mesh": None if mesh is None else str(mesh), "size": size, "threads": threads}
    return child("benchmarks.geometry_tasks", given, threads, limit)


def run(task, solver, mesh, size, threads):
    """The result of :func:`measure`, in this process, after a run on a small mesh that loads the libraries."""
    warnings.simplefilter("ignore")
    solve = SOLVERS[task][solver]
    small, sizes = warm_up_case(task)
    solve(Case(small, sizes, threads), Stopwatch())
    given = None if mesh is None else ms.load_mesh(mesh)
    watch = Stopwatch()
    facts = solve(Case(given, size, threads), watch)
    seconds = watch.as_dict()
    for spent in seconds.values():
        spent["total"] = sum(spent.values())
    return {"seconds": seconds, **facts}


def warm_up_case(task):
    """A small mesh of the kind that the task needs, and its size."""
    ball = ms.datasets.icosphere(2)
    return {"eigsh": ball, "quadratic": None}.get(task, half(ball)), {"quadratic": 8}.get(task, 3)


def half(ball):
    """The half of a sphere above a plane: a disc."""
    used, faces = np.unique(ball.faces[(ball.vertices[ball.faces, 1] > -0.01).all(axis=1)], return_inverse=True)
    return ms.Mesh(ball.vertices[used], faces.reshape(-1, 3))


def torus(k, radius=0.4):
    """A torus of 2 k x k vertices around the z axis, its circle of radius 1; the outer equator is vertex 0, k, 2 k, ..."""
    u, v = (a.ravel() for a in np.meshgrid(np.arange(2 * k), np.arange(k), indexing="ij"))
    a, b = np.pi * u / k, 2 * np.pi * v / k
    around = 1 + radius * np.cos(b)
    i, right, up = u * k + v, (u + 1) % (2 * k) * k + v, u * k + (v + 1) % k
    across = (u + 1) % (2 * k) * k + (v + 1) % k
    return ms.Mesh(np.stack([around * np.cos(a), around * np.sin(a), radius * np.sin(b)], axis=1),
                   np.concatenate([np.stack([i, right, up], axis=1), np.stack([up, right, across], axis=1)]))


def peer(name):
    """Import a library, or raise Unavailable."""
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise Unavailable(f"{e} (pip install {name.replace('igl', 'libigl')})") from e


# ---- eigenpairs ---------------------------------------------------------------------------------------------------------


def pencil(case):
    """(L, M, shift below all eigenvalues in the unit of the mesh)."""
    L, M = ms.cotan_laplacian(case.mesh), ms.mass_matrix(case.mesh)
    return L, M, -0.04 * np.pi / M.diagonal().sum()


def eigsh_ours(case, watch):
    """ms.eigsh, which also counts the eigenvalues by inertia."""
    L, M, _ = pencil(case)
    with watch.phase("solve"):
        w, X, info = ms.eigsh(L, case.size, M=M, tol=TOL, threads=case.threads)
    return {"error": residual(L, M, w, X), "iterations": info.iterations, "count": info.count, "last": float(w[-1])}


def eigsh_scipy(factored):
    """scipy's eigsh at the shift, with the solves of a factor: ``factored(A, threads)`` returns the solve, or None for SuperLU."""
    def solve(case, watch):
        L, M, shift = pencil(case)
        with watch.phase("factor"):
            inner = factored(sp.csr_array(L - shift * M), case.threads)
        inverse = None if inner is None else spla.LinearOperator(L.shape, matvec=inner, dtype=np.float64)
        with watch.phase("solve"):
            w, X = spla.eigsh(sp.csc_matrix(L), case.size, M=sp.csc_matrix(M), sigma=shift, OPinv=inverse, tol=TOL, which="LM")
        return {"error": residual(L, M, w, X), "last": float(w.max())}
    return solve


def our_solve(A, threads):
    return ms.cholesky(A, threads=threads).solve


def cholmod_solve(A, threads):
    factor = Cholmod("metis")
    S = factor.matrix(A)
    factor.analyze(S)
    factor.factor(S)
    return lambda b: factor.solve(factor.rhs(b.reshape(-1, 1)))[:, 0]


def residual(L, M, w, X):
    """Largest ||L x - w M x|| / ((||L||_1 + |w| ||M||_1) ||x||)."""
    norms = [abs(A).sum(axis=0).max() for A in (L, M)]
    left = np.linalg.norm(L @ X - M @ X * w, axis=0)
    return float((left / ((norms[0] + abs(w) * norms[1]) * np.linalg.norm(X, axis=0))).max())


# ---- distances ----------------------------------------------------------------------------------------------------------


def distances_ours(device="cpu"):
    """A column for each source, in blocks."""
    def solve(case, watch):
        with watch.phase("setup"):
            G = ms.apps.Geodesics(case.mesh, device=device, threads=case.threads)
        sources, total = fields_of(case), 0.0
        with watch.phase("solve"):
            for begin in range(0, len(sources), AT_ONCE):
                total += float(G.each(sources[begin:begin + AT_ONCE])[0].sum())
        return {"error": None, "fields": len(sources), "check": total}
    return solve


def fields_of(case):
    """The sources: ``case.size`` vertices of the largest component."""
    component = case.mesh.components
    rows = np.flatnonzero(component == np.bincount(component).argmax())
    return np.random.default_rng(0).choice(rows, case.size)


def distances_pp(case, watch):
    """potpourri3d solves for one source at a time."""
    V, F = case.arrays
    library = peer("potpourri3d")
    with watch.phase("setup"):
        solver = library.MeshHeatMethodDistanceSolver(V, F)
    return _sampled(case, watch, solver.compute_distance)


def distances_igl(case, watch):
    """libigl solves for one source at a time."""
    V, F = case.arrays
    library = peer("igl")
    data = library.HeatGeodesicsData()
    with watch.phase("setup"):
        library.heat_geodesics_precompute(V, F, data)
    return _sampled(case, watch, lambda source: library.heat_geodesics_solve(data, np.array([source], np.int32)))


def _sampled(case, watch, distance):
    """Measure some of the sources, and scale their seconds to all."""
    sources = fields_of(case)
    some = sources[:SAMPLED]
    with watch.phase("solve"):
        for source in some:
            distance(int(source))
    for seconds in (watch.wall, watch.cpu):
        seconds["solve"] *= len(sources) / len(some)
    return {"error": None, "fields": len(sources), "measured": len(some)}


def accuracy(distance):
    """Mean error of distances on a sphere, from a vertex, and on a torus, from its outer equator; relative to the mean distance."""
    def solve(case, watch):
        x = case.mesh.vertices
        if np.allclose(np.linalg.norm(x, axis=1), 1):
            sources, exact = [0], np.arccos(np.clip(x @ x[0], -1, 1))
        else:
            k = int(np.sqrt(len(x) // 2))
            tube = np.arctan2(x[:, 2], np.hypot(x[:, 0], x[:, 1]) - 1)
            sources, exact = list(range(0, len(x), k)), 0.4 * np.abs(tube)
        with watch.phase("solve"):
            found = distance(case, sources)
        return {"error": float(np.abs(found - exact).mean() / exact.mean())}
    return solve


def _distance_ours(case, sources):
    return ms.apps.Geodesics(case.mesh, threads=case.threads).distance(sources)


def _distance_pp(case, sources):
    return peer("potpourri3d").MeshHeatMethodDistanceSolver(*case.arrays).compute_distance_multisource(sources)


# ---- maps, deformation, weights, quadratics, denoising ----------------------------------------------------------------------


def lscm_ours(case, watch):
    with watch.phase("solve"):
        uv, _ = ms.apps.parameterize(case.mesh, "lscm", threads=case.threads)
    return {"error": distortion(case.mesh, uv)["angle_distortion"]}


def lscm_igl(case, watch):
    V, F = case.arrays
    loop = case.mesh.boundary_loops()[0]
    pair = np.array([loop[0], loop[len(loop) // 2]], np.int64)
    library = peer("igl")
    with watch.phase("solve"):
        uv, _ = library.lscm(V, F, pair, np.array([[0.0, 0.0], [1.0, 0.0]]))
    return {"error": distortion(case.mesh, uv)["angle_distortion"]}


def dragged(case):
    """(handles, their positions): the top moves by a fifth of the height of the mesh, the bottom stays."""
    height = case.mesh.vertices[:, 1]
    low, high = np.quantile(height, [0.05, 0.95])
    handles = np.flatnonzero((height <= low) | (height >= high))
    at = case.mesh.vertices[handles].copy()
    at[height[handles] >= high, 0] += 0.2 * np.ptp(height)
    return handles, at


def arap_ours(case, watch):
    handles, at = dragged(case)
    with watch.phase("setup"):
        D = ms.apps.Deformation(case.mesh, handles, threads=case.threads)
    with watch.phase("solve"):
        D.move(at, iterations=ARAP_STEPS, tol=0.0)
    return {"error": None, "energy": D.energy, "steps": D.iterations}


def arap_igl(case, watch):
    V, F = case.arrays
    handles, at = dragged(case)
    library = peer("igl")
    data = library.ARAPData()
    data.max_iter = ARAP_STEPS
    with watch.phase("setup"):
        library.arap_precomputation(V, F, 3, handles.astype(np.int32), data)
    with watch.phase("solve"):
        library.arap_solve(at, data, V)
    return {"error": None, "steps": ARAP_STEPS}


def weights_ours(case, watch):
    with watch.phase("solve"):
        W = ms.apps.skinning_weights(case.mesh, case.spread(case.size), threads=case.threads)
    return {"error": float(max(-W.min(), W.max() - 1, abs(W.sum(axis=1) - 1).max()))}


def weights_igl(case, watch):
    V, F = case.arrays
    library = peer("igl")
    handles = case.spread(case.size)
    with watch.phase("solve"):
        W = library.bbw(V, F, handles.astype(np.int32), np.eye(case.size))
    return {"error": float(max(-W.min(), W.max() - 1)), "off_one": float(abs(W.sum(axis=1) - 1).max())}


def weights_osqp(case, watch):
    """The same columns, each a program with bounds; one set-up, then other bounds."""
    osqp = peer("osqp")
    mesh, handles = case.mesh, case.spread(case.size)
    L, mass = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh).diagonal()
    Q = L @ sp.diags_array(1 / mass) @ L
    n = Q.shape[0]
    low, high, W = np.zeros(n), np.ones(n), np.empty((n, len(handles)))
    low[handles] = high[handles] = 0
    with watch.phase("solve"):
        program = osqp.OSQP()
        program.setup(sp.csc_matrix(sp.triu(Q) / Q.diagonal().mean()), np.zeros(n), sp.eye(n, format="csc"), low, high, verbose=False,
                      eps_abs=1e-6, eps_rel=1e-6, max_iter=20_000)
        found = []
        for k, handle in enumerate(handles):
            low[handle] = high[handle] = 1
            program.update(l=low, u=high)
            result = program.solve()
            W[:, k] = result.x
            found.append(result.info.status)
            low[handle] = high[handle] = 0
    return {"error": float(max(-W.min(), W.max() - 1)), "unsolved": sum(status != "solved" for status in found)}


def membrane(case):
    """(A, b, upper bound) of a membrane on a grid under a load, pressed against a plane at half of its deflection."""
    A = ms.datasets.grid2d(case.size, case.size, boundary="dirichlet")
    b = np.ones(A.shape[0])
    return A, b, 0.5 * float(ms.cholesky(A).solve(b).max())


def optimality(A, b, upper, x):
    """Length of the projected gradient in the maximum norm, relative to b."""
    return float(np.abs(np.minimum(x - (A @ x - b), upper) - x).max() / np.abs(b).max())


def quadratic_ours(case, watch):
    A, b, upper = membrane(case)
    with watch.phase("solve"):
        x, info = ms.Quadratic(A, threads=case.threads).minimize(b, upper=upper)
    return {"error": optimality(A, b, upper, x), "iterations": info.iterations}


def quadratic_osqp(case, watch):
    osqp = peer("osqp")
    A, b, upper = membrane(case)
    n = len(b)
    with watch.phase("solve"):
        program = osqp.OSQP()
        program.setup(sp.csc_matrix(sp.triu(A)), -b, sp.eye(n, format="csc"), np.full(n, -np.inf), np.full(n, upper), verbose=False,
                      eps_abs=1e-9, eps_rel=1e-9, max_iter=100_000)
        result = program.solve()
    return {"error": optimality(A, b, upper, result.x), "iterations": int(result.info.iter)}


def quadratic_scipy(case, watch):
    """L-BFGS-B, scipy's method for many variables with bounds."""
    from scipy.optimize import minimize

    A, b, upper = membrane(case)
    with watch.phase("solve"):
        result = minimize(lambda x: (0.5 * x @ (A @ x) - b @ x, A @ x - b), np.zeros(len(b)), jac=True, method="L-BFGS-B",
                          bounds=[(None, upper)] * len(b), options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-8})
    return {"error": optimality(A, b, upper, result.x), "iterations": int(result.nit)}


def denoise_ours(case, watch):
    """Mean angle to the normals of the model without noise, after over before."""
    model = case.mesh
    noise = NOISE * model.edge_lengths.mean() * np.random.default_rng(0).standard_normal(model.vertices.shape)
    noisy = model.with_vertices(model.vertices + noise)
    with watch.phase("solve"):
        clean, _ = ms.apps.denoise(noisy)

    def angle(mesh):
        return float(np.degrees(np.arccos(np.clip((mesh.face_normals * model.face_normals).sum(axis=1), -1, 1))).mean())

    return {"error": angle(clean) / angle(noisy), "degrees_before": angle(noisy), "degrees_after": angle(clean)}


SOLVERS = {
    "eigsh": {"meshsolve": eigsh_ours, "scipy, our factor": eigsh_scipy(our_solve), "scipy, CHOLMOD": eigsh_scipy(cholmod_solve),
              "scipy, SuperLU": eigsh_scipy(lambda A, threads: None)},
    "distances": {"meshsolve": distances_ours(), "meshsolve cuda": distances_ours("cuda"), "potpourri3d": distances_pp, "libigl": distances_igl},
    "accuracy": {"meshsolve": accuracy(_distance_ours), "potpourri3d": accuracy(_distance_pp)},
    "lscm": {"meshsolve": lscm_ours, "libigl": lscm_igl},
    "arap": {"meshsolve": arap_ours, "libigl": arap_igl},
    "weights": {"meshsolve": weights_ours, "libigl": weights_igl, "OSQP": weights_osqp},
    "quadratic": {"meshsolve": quadratic_ours, "OSQP": quadratic_osqp, "scipy": quadratic_scipy},
    "denoise": {"meshsolve": denoise_ours},
}


if __name__ == "__main__":
    try:
        print(json.dumps(run(**json.load(sys.stdin))))
    except Exception as e:                                  # any error of a peer on an unsuitable mesh
        print(json.dumps({"failed": f"{type(e).__name__}: {e}"}))
