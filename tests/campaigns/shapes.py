"""Attacks on polygons, components of different sizes, indices of direction fields, and clouds with copies."""

from fractions import Fraction

import numpy as np

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed


def simple_polygon(rng):
    """(k, 2) integer corners of a simple polygon, counterclockwise, without three collinear corners in a row at most times."""
    k = int(rng.integers(3, 14))
    P = np.unique(rng.integers(0, int(rng.choice([4, 9, 60])), (k, 2)), axis=0)
    P = P[rng.permutation(len(P))]
    for _ in range(500):                                     # undo crossings
        crossing = next(((i, j) for i in range(len(P)) for j in range(i + 1, len(P)) if crosses(P, i, j)), None)
        if crossing is None:
            break
        i, j = crossing
        P[i + 1:j + 1] = P[i + 1:j + 1][::-1].copy()
    else:
        return None
    if len(P) < 3 or area_of(P) == 0:
        return None
    return P if area_of(P) > 0 else P[::-1]


def turn(a, b, c):
    return int((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def inside(a, b, c):
    """True if c, on the line through a and b, lies between them."""
    return min(a[0], b[0]) <= c[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= c[1] <= max(a[1], b[1])


def crosses(P, i, j):
    """True if side i meets side j, apart from a common corner."""
    n = len(P)
    a, b, c, d = P[i], P[(i + 1) % n], P[j], P[(j + 1) % n]
    if (i + 1) % n == j:
        return turn(a, b, d) == 0 and (d - b) @ (a - b) > 0
    if (j + 1) % n == i:
        return turn(c, d, b) == 0 and (b - d) @ (c - d) > 0
    s = [np.sign(t) for t in (turn(a, b, c), turn(a, b, d), turn(c, d, a), turn(c, d, b))]
    if s[0] * s[1] < 0 and s[2] * s[3] < 0:
        return True
    return any(t == 0 and inside(*part) for t, part in zip(s, ((a, b, c), (a, b, d), (c, d, a), (c, d, b))))


def area_of(P):
    return Fraction(int(sum(P[k - 1][0] * P[k][1] - P[k][0] * P[k - 1][1] for k in range(len(P)))), 2)


@attack("PolygonMesh", "mass_matrix", "cotan_laplacian", "operators.gradient", "operators.divergence", "PolygonMesh.fan", quick=40)
def polygons(rng):
    """Simple polygons of integers, star-shaped or not, reversed, in a plane of any unit and direction. Oracle: exact shoelace areas."""
    P = simple_polygon(rng)
    if P is None:
        return
    area, k = float(area_of(P)), len(P)
    thin = np.ptp(P, axis=0).max() ** 2 / area
    unit = axes.unit(rng, 1e30)
    frame = np.linalg.qr(rng.standard_normal((3, 3)))[0][:2] if rng.random() < 0.5 else np.eye(3)[:2]
    V = P @ frame * unit + 0.0
    corners = list(range(k))[::rng.choice([1, -1])]
    with well_posed("a simple polygon of integers"):
        mesh = ms.PolygonMesh(V, [corners])
        masses = [ms.mass_matrix(mesh, kind) for kind in ("lumped", "consistent")]
        L, G, D = ms.cotan_laplacian(mesh), ms.operators.gradient(mesh), ms.operators.divergence(mesh)
    for M in masses:
        assert abs(M.sum() / unit / unit - area) <= 1e-11 * thin * area, f"mass {M.sum() / unit / unit} for {area} of {P.tolist()}"
    assert masses[0].diagonal().min() >= 0
    assert len(mesh.fan.faces) == k and abs(L - L.T).max() == 0
    ears = mesh.fan.face_areas / unit / unit
    if ears.min() > 1e-9 * area:                             # with flat triangles weights are bounded, and energies are not exact
        energy = P[:, 0] @ (L @ P[:, 0].astype(float))
        assert abs(energy - area) <= 1e-7 * thin * area, f"energy {energy} for {area} of {P.tolist()}"
        slopes = (G @ P[:, 0].astype(float)).reshape(3, -1) * unit
        assert abs(slopes - frame[0][:, None]).max() <= 1e-6 * thin, f"slope {slopes} of {P.tolist()}"
        assert abs(D @ G + L).max() <= 1e-9 * abs(L).max()


SMOOTHED = {
    "smooth": lambda mesh: ms.apps.smooth(mesh)[0], "smooth of order 1": lambda mesh: ms.apps.smooth(mesh, 0.5, order=1)[0],
    "smooth to the volume": lambda mesh: ms.apps.smooth(mesh, keep="volume")[0],
    "mcf": lambda mesh: ms.apps.mcf(mesh, steps=2)[0], "conformal": lambda mesh: ms.apps.mcf(mesh, steps=2, conformal=True)[0],
    "denoise": lambda mesh: ms.apps.denoise(mesh, iterations=2, vertex_iterations=2)[0],
    "denoise guided": lambda mesh: ms.apps.denoise(mesh, iterations=1, method="guided")[0],
    "flow": lambda mesh: flowed(mesh),
}


def flowed(mesh):
    flow = ms.apps.Flow(mesh, "bi-Laplacian")
    flow.step(flow.automatic_step() / 2)
    return flow.mesh()


@attack("apps.smooth", "apps.mcf", "apps.Flow", "apps.Flow.automatic_step", "apps.denoise", quick=20)
def components(rng):
    """Noisy spheres of sizes 1e-9 to 1e9 and other numbers of vertices in one mesh. Oracle: each of them alone."""
    parts = []
    for _ in range(int(rng.integers(2, 4))):
        V, F = axes.sphere(rng, int(rng.integers(1, 3)))
        V = (V - V.mean(axis=0)) * (1 + 0.03 * rng.standard_normal(len(V)))[:, None]
        size = 10.0 ** rng.uniform(-9, 9)
        parts.append((V * size + size * rng.uniform(-3, 3, 3), F, size))
    name = list(SMOOTHED)[rng.integers(len(SMOOTHED))]
    offsets = np.cumsum([0, *(len(V) for V, _, _ in parts)])
    whole = ms.Mesh(np.vstack([V for V, _, _ in parts]), np.vstack([F + k for (_, F, _), k in zip(parts, offsets)]))
    with well_posed("noisy spheres"):
        together = SMOOTHED[name](whole).vertices
        alone = [SMOOTHED[name](ms.Mesh(V, F)).vertices for V, F, _ in parts]
    for (_, _, size), found, right in zip(parts, np.split(together, offsets[1:-1]), alone):
        error = abs(found - right).max() / size
        assert error < 1e-9, f"{name}: a component differs by {error:.2g} of its size from the same alone"


@attack("apps.Deformation", "apps.Deformation.move", "apps.Geodesics.distance", "apps.Geodesics.transport", "apps.direction_field", quick=8)
def parts(rng):
    """Spheres of sizes 1e-8 to 1e8, and a face on a line or at a point. Oracle: each sphere alone."""
    meshes, sizes = [], 10.0 ** rng.uniform(-8, 8, int(rng.integers(1, 4)))
    for size in sizes:
        V, F = axes.sphere(rng, int(rng.integers(1, 3)))
        V = (V - V.mean(axis=0)) * (1 + 0.03 * rng.standard_normal(len(V)))[:, None]
        meshes.append(ms.Mesh(V * size + size * rng.uniform(-2, 2, 3), F))
    offsets = np.cumsum([0, *(len(m.vertices) for m in meshes)])
    V, F = np.vstack([m.vertices for m in meshes]), np.vstack([m.faces + k for m, k in zip(meshes, offsets)])
    handles = [rng.choice(len(m.vertices), int(rng.integers(2, 5)), replace=False) for m in meshes]
    to = [m.vertices[h] + 0.3 * size * rng.standard_normal((len(h), 3)) for m, h, size in zip(meshes, handles, sizes)]
    method, iterations = str(rng.choice(["arap", "arap", "poisson", "bilaplacian"])), int(rng.integers(1, 40))
    with well_posed("spheres with handles"):
        whole = ms.apps.Deformation(ms.Mesh(V, F), np.concatenate([h + k for h, k in zip(handles, offsets)]), method)
        found = np.split(whole.move(np.vstack(to), iterations=iterations).vertices, offsets[1:-1])
        right = [ms.apps.Deformation(m, h, method).move(at, iterations=iterations).vertices for m, h, at in zip(meshes, handles, to)]
    for a, b, size in zip(found, right, sizes):
        assert abs(a - b).max() <= 1e-6 * size, f"{method}: a component is off by {abs(a - b).max() / size:.2g} of its size"
    n, k = len(V), int(rng.integers(len(meshes)))
    flat = np.array([[0, 0, 0], [1, 0, 0], [float(rng.choice([0, 0.3, 1])), float(rng.choice([0, 1e-14, 1e-9, 1e-7])), 0]]) * float(rng.choice([0, 1]))
    mesh = ms.Mesh(np.vstack([V, axes.unit(rng, 1e8) * flat]), np.vstack([F, [[n, n + 1, n + 2]]]))
    rows, source, power = slice(offsets[k], offsets[k + 1]), int(rng.integers(len(meshes[k].vertices))), int(rng.integers(1, 5))
    with well_posed("spheres beside a face without area"):
        G, alone = ms.apps.Geodesics(mesh), ms.apps.Geodesics(meshes[k])
        distance, vectors = G.distance(source + offsets[k]), G.transport(source + offsets[k], [1, 2, 3])
        energy = sum(ms.apps.direction_field(m, power).energy for m in meshes)
        together = ms.apps.direction_field(mesh, power).energy
    assert abs(distance[rows] - alone.distance(source)).max() <= 1e-8 * sizes[k] and np.isinf(distance[n:]).all()
    assert abs(vectors[rows] - alone.transport(source, [1, 2, 3])).max() <= 1e-6
    assert abs(together - energy) <= 1e-6 * energy, f"energy {together}, not {energy}"


def closed(rng):
    """(vertices, faces, Euler characteristic) of a closed surface with much curvature in its faces."""
    how = int(rng.integers(3))
    if how == 0:
        ball = ms.datasets.icosphere(int(rng.integers(0, 3)))
        return ball.vertices * rng.uniform(0.1, 1.9, (len(ball.vertices), 1)), ball.faces, 2
    if how == 1:
        V = rng.standard_normal((4, 3))
        F = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]])
        return V, F, 2
    a, b = (int(v) for v in rng.integers(3, 9, 2))
    u, v = (g.ravel() for g in np.meshgrid(np.arange(a), np.arange(b), indexing="ij"))
    s, t = 2 * np.pi * u / a, 2 * np.pi * v / b
    V = np.stack([(2 + np.cos(t)) * np.cos(s), (2 + np.cos(t)) * np.sin(s), np.sin(t)], 1) + rng.uniform(-0.3, 0.3, (a * b, 3))
    at = lambda i, j: i % a * b + j % b
    F = np.concatenate([np.stack([at(u, v), at(u + 1, v), at(u + 1, v + 1)], 1), np.stack([at(u, v), at(u + 1, v + 1), at(u, v + 1)], 1)])
    return V, F, 0


@attack("apps.direction_field", quick=20)
def indices(rng):
    """Tetrahedra, spheres and tori with strong noise, powers 1 to 8, prescribed and preferred directions. Oracle: Poincare and Hopf."""
    V, F, characteristic = closed(rng)
    power, unit = int(rng.integers(1, 9)), axes.unit(rng, 1e30)
    options = [{}, {"fixed": ([0], [rng.standard_normal(3)])}, {"align": rng.standard_normal(V.shape)}][int(rng.integers(3))]
    with well_posed("a closed surface without flat faces"):
        field = ms.apps.direction_field(ms.Mesh(V * unit, F), power, **options)
    assert field.index.sum() == power * characteristic, f"indices sum to {field.index.sum()}, not {power} times {characteristic}"


@attack("PointCloud", "mass_matrix", "cotan_laplacian", "apps.Geodesics.distance", "apps.Geodesics.each", "apps.Geodesics.extend", quick=15)
def copies(rng):
    """Points with copies and near copies in any order, some in many copies; units, given normals. Oracle: the cloud without copies."""
    n, neighbors = int(rng.integers(40, 200)), int(rng.integers(12, 31))
    x = rng.standard_normal((n, 3))
    x /= np.linalg.norm(x, axis=1)[:, None]
    count = rng.integers(1, int(rng.choice([2, 3, 6])) + 1, n)
    count[rng.integers(n)] = int(rng.choice([1, 9, 300]))
    position = rng.permutation(np.repeat(np.arange(n), count))
    unit = axes.unit(rng, 1e30)
    points = x[position] * unit
    if rng.random() < 0.3:
        points = points * (1 + 1e-13 * rng.standard_normal(points.shape))
    normals = x if rng.random() < 0.3 else None
    with well_posed("points on a sphere"):
        cloud = ms.PointCloud(points, None if normals is None else normals[position], neighbors=neighbors)
        first = cloud.firsts
        alone = ms.PointCloud(points[first], None if normals is None else normals[position[first]], neighbors=neighbors)
        assert len(first) == n, f"{len(first)} positions, not {n}"
        M, M1, L, L1 = ms.mass_matrix(cloud), ms.mass_matrix(alone), ms.cotan_laplacian(cloud), ms.cotan_laplacian(alone)
        assert np.allclose(np.bincount(cloud.position, M.diagonal() / unit / unit), M1.diagonal() / unit / unit, rtol=1e-9, atol=1e-15)
        assert abs(L.sum(axis=1)).max() <= 1e-9 * abs(L).max() and abs(L - L.T).max() == 0
        y = rng.standard_normal(n)
        energy, right = y[cloud.position] @ (L @ y[cloud.position]), y @ (L1 @ y)
        assert abs(energy - right) <= 1e-7 * abs(right), f"energy {energy}, not {right}"
        sources = rng.integers(0, len(points), 3)
        G, G1 = ms.apps.Geodesics(cloud), ms.apps.Geodesics(alone)
        assert np.array_equal(G.distance(sources), G1.distance(cloud.position[sources])[cloud.position])
        assert np.array_equal(G.each(sources), G1.each(cloud.position[sources])[cloud.position])
