"""Attacks on degenerate triangles and cells: collapsed edges, faces without area, flat cells, in all operators and what is solved with them."""

import numpy as np
import scipy.sparse as sp
from scipy.spatial import Delaunay

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed

GAPS = [0.0, 0.0, 1e-300, 1e-100, 1e-30, 1e-17, 1e-14, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-5]


def split(V, F, p, gap, rng):
    """Half of the faces at an inner vertex p get a copy of it, joined to it by an edge of length ``gap`` and two faces."""
    ring = {int(f[(k + 1) % 3]): (int(f[(k + 2) % 3]), t) for t, f in enumerate(F) for k in range(3) if f[k] == p}
    walk = [next(iter(ring))]
    while ring[walk[-1]][0] in ring and ring[walk[-1]][0] != walk[0]:
        walk.append(ring[walk[-1]][0])
    if len(walk) < len(ring) or ring[walk[-1]][0] != walk[0] or len(walk) < 4:
        return V, F, None                                        # on the boundary
    if gap > 0 and np.linalg.norm(V[walk] - V[p], axis=1).min() < 0.01 * np.linalg.norm(V[walk] - V[p], axis=1).max():
        return V, F, None                                        # faces would overlap
    half = int(rng.integers(2, len(walk) - 1))
    step, (first, last) = V[walk[half // 2]] - V[p], V[[walk[0], walk[half]]] - V[p]
    normal = np.cross(V[walk] - V[p], V[np.roll(walk, -1)] - V[p]).sum(axis=0)
    if gap > 0 and min(np.cross(first, step) @ normal, np.cross(step, last) @ normal) < 0:
        return V, F, None                                        # a fold
    F, new = F.copy(), len(V)
    for v in walk[:half]:
        F[ring[v][1]] = np.where(F[ring[v][1]] == p, new, F[ring[v][1]])
    return np.vstack([V, V[p] + gap * step]), np.vstack([F, [[p, walk[0], new], [new, walk[half], p]]]), new


def cap(V, F, t, gap, rng):
    """A vertex on side 0 of face t, with a face of no area between both sides of the side; ``gap`` moves it into the face."""
    a, b, c = F[t]
    share, new = float(rng.choice([0.5, 0.3, 1e-3, 1e-7])), len(V)
    at = (1 - share) * V[a] + share * V[b] + gap * (V[c] - V[a])
    return np.vstack([V, at]), np.vstack([np.delete(F, t, 0), [[a, new, c], [new, b, c], [a, b, new]]])


def surface(rng, level=2):
    """(V, F, copies (k, 2)) of a sphere or a square with defects; each new vertex and the one that it copies, the others themselves."""
    closed = rng.random() < 0.5
    V, F = axes.sphere(rng, level) if closed else axes.grid(rng, 8)
    original, n = np.arange(len(V)), len(V)
    for _ in range(int(rng.integers(1, 6))):
        V, F, new = split(V, F, int(rng.integers(n)), float(rng.choice(GAPS)), rng)
        if new is not None:
            original = np.append(original, original[np.abs(V[:new] - V[new]).sum(axis=1).argmin()])
    return V, F, original, closed


def euler(mesh):
    return len(np.unique(mesh.faces)) - len(mesh.edges) + len(mesh.faces)


@attack("operators.curvatures", "cotan_laplacian", "mass_matrix", "operators.connection_laplacian", quick=6)
def identities(rng):
    """Collapsed edges, faces without area, rounded vertices, units. Oracles: Gauss-Bonnet, symmetry, constants, LAPACK, areas, units."""
    V, F, _, closed = surface(rng)
    for _ in range(int(rng.integers(0, 4))):
        V, F = cap(V, F, int(rng.integers(len(F))), float(rng.choice(GAPS)) * float(rng.choice([-1, 1])), rng)
    if rng.random() < 0.3:
        V = np.round(V * 4) / 4
    unit = 2.0 ** int(rng.integers(-900, 200))
    plain, mesh = ms.Mesh(V, F), ms.Mesh(unit * V, F)
    with well_posed("a manifold mesh"):
        gaussian = ms.operators.curvatures(mesh).gaussian
        L, M, H = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh), ms.operators.connection_laplacian(mesh)
        Li, Mi = ms.operators.intrinsic_delaunay(mesh).laplacian(), ms.operators.intrinsic_delaunay(mesh).mass()
    assert abs(gaussian.sum() / (2 * np.pi) - euler(mesh)) < 1e-9, f"Gauss-Bonnet: {gaussian.sum() / (2 * np.pi)} for {euler(mesh)}"
    assert abs(M.sum() / unit / unit - plain.face_areas.sum()) <= 1e-9 * plain.face_areas.sum() or unit < 1e-140, "areas"
    assert abs(Mi.sum() - M.sum()) <= 1e-5 * M.sum() or unit < 1e-140, f"intrinsic areas {Mi.sum()}, {M.sum()}"
    for A in (L, Li, H):
        assert (A != A.conj().T).nnz == 0, "not symmetric"
        w = np.linalg.eigvalsh(A.toarray())
        assert A is H or w[0] >= -1e-12 * w[-1], f"negative eigenvalue {w[0]} of {w[-1]}"
        assert (A.diagonal().real > 0).all(), "a vertex has no weight"
    for A in (L, Li):
        assert abs(A @ np.ones(len(V))).max() <= 1e-12 * abs(A).max(), "constants"
    assert abs(L - ms.cotan_laplacian(plain)).max() <= 1e-12 * abs(L).max(), "units change the Laplacian"
    G, D = ms.operators.gradient(mesh), ms.operators.divergence(mesh)
    assert abs(D @ G + L).max() <= (1e-10 if unit > 1e-60 else 1e-8) * abs(L).max(), f"D G is not -L: {abs(D @ G + L).max()}"


@attack("cotan_laplacian", "operators.gradient", "cholesky", quick=20)
def linear_functions(rng):
    """Vertices on sides of a square, with faces without area. Oracle: linear boundary values have a linear solution, with its gradient."""
    V, F = axes.grid(rng, 6)
    turn, shift = np.linalg.qr(rng.standard_normal((3, 3)))[0], rng.uniform(-3, 3, 3) * rng.choice([0, 1, 100])
    for _ in range(int(rng.integers(1, 8))):
        V, F = cap(V, F, int(rng.integers(len(F))), float(rng.choice(GAPS)), rng)
        V, F, _ = split(V, F, int(rng.integers(len(V))), float(rng.choice(GAPS)), rng)
    border = np.flatnonzero((V[:, :2] <= 0).any(axis=1) | (V[:, :2] >= 1).any(axis=1))
    u = V @ [1.0, -2, 0]
    mesh = ms.Mesh(V @ turn.T + shift, F)
    for L in (ms.cotan_laplacian(mesh), ms.cotan_laplacian(mesh, intrinsic_delaunay=True)):
        with well_posed("a plane mesh with fixed values"):
            found = ms.cholesky(L, fixed=border).solve(np.zeros(len(V)), fixed_values=u)
        assert abs(found - u).max() <= 1e-4, f"a linear function is off by {abs(found - u).max()}"
    slopes = (ms.operators.gradient(mesh) @ u).reshape(3, -1).T @ turn
    good = mesh.face_areas > 1e-8 * mesh.edge_lengths[mesh.side_edges].max(axis=1)             # heights above rounding errors
    assert abs(slopes[good] - [1, -2, 0]).max() <= 1e-5, f"gradient off by {abs(slopes[good] - [1, -2, 0]).max()}"


@attack("apps.Geodesics", "apps.Geodesics.log_map", "apps.Geodesics.transport", "apps.skinning_weights", "apps.Deformation", quick=6)
def copies_of_vertices(rng):
    """Collapsed edges. Oracle: the same mesh without copies; constant vectors of a plane stay."""
    V, F, original, closed = surface(rng)
    n = int(original.max()) + 1
    merged = original[F]
    keep = (merged[:, 0] != merged[:, 1]) & (merged[:, 1] != merged[:, 2]) & (merged[:, 2] != merged[:, 0])
    mesh, plain = ms.Mesh(V, F), ms.Mesh(V[:n], merged[keep])
    size = np.ptp(V, axis=0).max()
    far = np.abs(V - V[original]).max() / size
    with well_posed("copies of vertices"):
        G, expected = ms.apps.Geodesics(mesh), ms.apps.Geodesics(plain)
        source = int(rng.integers(n))
        checks = {"distance": (G.distance(source), expected.distance(source), size)}
        if not closed:
            checks |= {m: (*(g.log_map(source, m) @ g.frames[source] for g in (G, expected)), size) for m in ("vector", "affine")}
            checks["transport"] = G.transport(source, [1, 2, 0]), np.tile([1.0, 2, 0], (n, 1)), 1
        handles = np.setdiff1d(np.arange(n), original[n:])[[0, n // 2, -1]]                   # bounds at a handle with a copy are other bounds
        checks["skinning"] = ms.apps.skinning_weights(mesh, handles), ms.apps.skinning_weights(plain, handles), 1
        for method in ("bilaplacian", "poisson", "arap"):
            to = V[handles] + [[0.1, 0, 0], [0, 0, 0], [0, 0, 0.1]]
            checks[method] = (*(ms.apps.Deformation(m, handles, method).move(to).vertices for m in (mesh, plain)), size)
    for name, (found, right, scale) in checks.items():
        error = abs(found - right[original]).max() / scale
        own = abs(right - (V - V[source])[:n]).max() if name in ("vector", "affine") else 0       # of the method, without copies
        assert error <= 0.03 + 2 * own + 10 * far, f"{name} is off by {error}"


def cube(rng, k):
    """(V, cells, boundary) of a Delaunay triangulation of a grid: a third of its cells are flat."""
    V = np.stack(np.meshgrid(*3 * [np.linspace(0, 1, k + 1)], indexing="ij"), axis=-1).reshape(-1, 3)
    border = np.flatnonzero(((V < 1e-9) | (V > 1 - 1e-9)).any(axis=1))
    return V, Delaunay(V).simplices, border


@attack("TetMesh", "cotan_laplacian", "operators.gradient", "operators.divergence", "mass_matrix", "cholesky", quick=8)
def flat_cells(rng):
    """Slivers moved a little, units, turns, an order of vertices. Oracles: the mesh without them, LAPACK, symmetry, constants, D G = -L."""
    k = int(rng.integers(3, 6))
    V, T, border = cube(rng, k)
    V = V + float(rng.choice([0, 1e-16, 1e-12, 1e-8, 1e-7])) * rng.standard_normal(V.shape)
    clean = ms.TetMesh(V, T, orient=True)
    clean = ms.TetMesh(V, clean.cells[6 * clean.volumes > 1e-4 * clean.edge_lengths[clean.cell_edges].max(axis=1) ** 3])
    p, unit = rng.permutation(len(V)), 2.0 ** int(rng.integers(-300, 200))
    turn, shift = np.linalg.qr(rng.standard_normal((3, 3)))[0], rng.uniform(-3, 3, 3) * rng.choice([0, 1])
    place = np.empty(len(V), int)
    place[p] = np.arange(len(V))
    solid = ms.TetMesh(unit * (V[p] @ turn.T + shift), place[T], orient=True)
    L, M = ms.cotan_laplacian(solid), ms.mass_matrix(solid)
    assert (L != L.T).nnz == 0 and abs(L @ np.ones(len(V))).max() <= 1e-12 * abs(L).max()
    w = np.linalg.eigvalsh(L.toarray() / unit)
    assert w[0] >= -1e-12 * w[-1]
    assert abs(ms.operators.divergence(solid) @ ms.operators.gradient(solid) + L).max() <= 1e-12 * abs(L).max()
    assert np.isclose(M.sum() / unit / unit / unit, 1, rtol=1e-5)
    with well_posed("a cube with flat cells"):
        u = ms.cholesky(L / unit, fixed=place[border]).solve(M @ np.ones(len(V)) / unit / unit / unit)[place]
        right = ms.cholesky(ms.cotan_laplacian(clean), fixed=border).solve(ms.mass_matrix(clean) @ np.ones(len(V)))
    assert abs(u - right).max() <= 0.05 * right.max(), f"off by {abs(u - right).max() / right.max()}"


@attack("TetMesh", "cotan_laplacian", "apps.Geodesics", "apps.skinning_weights", quick=6)
def copies_in_solids(rng):
    """A corner of half of the cells around a vertex gets a copy; flat cells join both. Oracle: the solid without the copy."""
    k = 3
    V, T, border = cube(rng, k)
    V = V + 0.02 * rng.standard_normal(V.shape)
    plain = ms.TetMesh(V, Delaunay(V).simplices, orient=True)
    plain = ms.TetMesh(V, plain.cells[6 * plain.volumes > 1e-4])
    p, new = int(rng.integers(len(V))), len(V)
    side = (V[plain.cells].mean(axis=1) - V[p]) @ rng.standard_normal(3) > 0
    cells = np.where((plain.cells == p) & side[:, None], new, plain.cells)
    one = {tuple(sorted(set(c) - {p})) for c in cells[(cells == p).any(axis=1)].tolist()}
    two = {tuple(sorted(set(c) - {new})) for c in cells[(cells == new).any(axis=1)].tolist()}
    faces = lambda threes: {e for t in threes for e in ((t[0], t[1]), (t[0], t[2]), (t[1], t[2]))}
    flat = [[p, new, *e] for e in faces(one) & faces(two)]
    if not flat:
        return
    gap = float(rng.choice([0, 1e-300, 1e-30, 1e-16, 1e-12, 1e-9]))
    solid = ms.TetMesh(np.vstack([V, V[p] + gap]), np.vstack([cells, flat]), orient=True)
    P = sp.csr_array((np.ones(new + 1), (np.arange(new + 1), np.append(np.arange(new), p))), shape=(new + 1, new))
    L = ms.cotan_laplacian(plain)
    assert abs(P.T @ ms.cotan_laplacian(solid) @ P - L).max() <= 1e-5 * abs(L).max(), "the merged Laplacian differs"
    with well_posed("a copied vertex"):
        handles = [v for v in (0, 20, 50) if v != p]
        pairs = [(m.distance(handles[0]) for m in (ms.apps.Geodesics(solid), ms.apps.Geodesics(plain))),
                 (ms.apps.skinning_weights(m, handles) for m in (solid, plain))]
    for found, right in pairs:
        assert abs(found[:new] - right).max() <= 0.06, f"off by {abs(found[:new] - right).max()}"
