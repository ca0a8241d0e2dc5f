"""Attacks on distances, maps, deformation and pictures of ordinary and badly scaled meshes."""

import pathlib
import tempfile

import numpy as np

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed


def motion(rng):
    """A random rotation (3, 3) and a shift (3,)."""
    Q, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    return Q * np.sign(np.linalg.det(Q)), rng.uniform(-2, 2, 3)


def near(x, y, tol, what, size=None):
    """x equals y to a share ``tol`` of the largest |y|."""
    size = abs(np.asarray(y)).max(initial=1e-300) if size is None else size
    error = abs(np.asarray(x) - y).max(initial=0) / size
    assert error <= tol, f"{what}: relative difference {error:.2g}"


@attack("apps.Geodesics.distance", "apps.Geodesics.each", "apps.Geodesics.extend", "apps.Geodesics.level", "apps.Geodesics")
def distances(rng):
    """Units, motions, a far component, repeated sources. Oracles: invariance, spheres' great circles, minimum over sources."""
    V, F = axes.sphere(rng, 3)
    V = V - V.mean(axis=0)
    u, (Q, shift) = axes.unit(rng, 1e30), motion(rng)
    sources = rng.choice(len(V), 2, replace=False)
    G, H = ms.apps.Geodesics(ms.Mesh(V, F)), ms.apps.Geodesics(ms.Mesh((V @ Q.T + shift) * u, F))
    with well_posed("a sphere"):
        d, e = G.distance(sources), H.distance(sources)
        each = G.each(list(sources))
        near(e / u, d, 1e-6, "another unit and motion")
        near(each.min(axis=1), d, 0.12, "the nearest source")
        assert each[sources, [0, 1]].max() == 0 and (d >= 0).all(), "distance at sources"
        radius = np.linalg.norm(V, axis=1)
        right = radius * np.arccos(np.clip(V @ V[sources[0]] / radius / radius[sources[0]], -1, 1))
        near(each[:, 0], right, 0.05, "great circles")
        extended = G.extend(sources, [2.0, 5.0])
        assert extended.min() > 2 - 1e-9 and extended.max() < 5 + 1e-9, "values beyond those of the sources"
        both = ms.apps.Geodesics(ms.Mesh(np.concatenate([V, 1e3 * V + 1e4]), np.concatenate([F, F + len(V)])))
        far = both.distance(sources)
        near(far[:len(V)], d, 0.02, "a far component of another scale")
        assert np.isinf(far[len(V):]).all() and H.level >= 0, "another component has a distance"


@attack("apps.Geodesics.log_map", "apps.Geodesics.transport", "apps.Geodesics.frames", "apps.Geodesics.signed_distance", quick=15)
def planes(rng):
    """Flat meshes of any unit in any position. Oracles: straight lines, constant vectors, signs of a side."""
    V, F = axes.grid(rng, 12)
    u, (Q, shift) = axes.unit(rng, 1e30), motion(rng)
    P = (V @ Q.T + shift) * u
    middle = int(np.argmin(np.linalg.norm(V - [0.5, 0.5, 0], axis=1)))
    with well_posed("a flat mesh"):
        G = ms.apps.Geodesics(ms.Mesh(P, F))
        T = G.frames
        near(np.einsum("nik,njk->nij", T, T), np.broadcast_to(np.eye(2), (len(V), 2, 2)), 1e-9, "frames")
        near(np.linalg.norm(G.log_map(middle), axis=1) / u, np.linalg.norm(V - V[middle], axis=1), 0.06, "log_map")
        vector = T[middle, 0]
        near(G.transport([middle], [vector]), np.broadcast_to(vector, P.shape), 1e-6, "transport on a plane")
        row = np.flatnonzero(V[:, 1] == 0)
        line = row[np.argsort(V[row, 0])]
        d = G.signed_distance(line)
        near(abs(d) / u, V[:, 1], 0.08, "distance to a side")


@attack("apps.parameterize")
def maps(rng):
    """Flat discs of any unit in any position, all methods. Oracles: similarity for conformal maps, isometry for the others, no flips."""
    V, F = axes.grid(rng, int(rng.integers(2, 9)))
    u, (Q, shift) = axes.unit(rng, 1e30), motion(rng)
    method = str(rng.choice(["harmonic", "lscm", "conformal", "arap", "slim"]))
    with well_posed("a flat disc"):
        uv, report = ms.apps.parameterize(ms.Mesh((V @ Q.T + shift) * u, F), method, iterations=400, tol=1e-13)
    area = lambda X: np.cross(X[F[:, 1]] - X[F[:, 0]], X[F[:, 2]] - X[F[:, 0]])
    a, flat = area(np.c_[uv, np.zeros(len(V))])[:, 2], area(V)[:, 2]
    assert (a > 0).all() or (a < 0).all(), f"{method}: flipped triangles"
    if method != "harmonic":                                 # similar to the plane: all triangles are scaled alike
        near(a / flat, np.full(len(F), np.median(a / flat)), 1e-5, f"{method}: scale")
    if method in ("arap", "slim"):
        near(abs(a) / u / u, abs(flat), 1e-4, f"{method}: areas")


@attack("apps.Deformation", "apps.Deformation.move", "apps.Deformation.energy")
def deformations(rng):
    """Handles moved rigidly or not at all, any unit, one handle, all vertices. Oracle: the rigid motion; prescribed positions."""
    V, F = axes.sphere(rng, 2)
    u = axes.unit(rng, 1e30)
    Q, shift = motion(rng)
    handles = rng.choice(len(V), int(rng.integers(4, 20)), replace=False)
    method = str(rng.choice(["arap", "bilaplacian", "poisson"]))
    if method != "arap":
        Q = np.eye(3)
    with well_posed("a sphere and a few handles"):
        D = ms.apps.Deformation(ms.Mesh(V * u, F), handles, method)
        moved = D.move(((V @ Q.T + shift) * u)[handles], rotations=None if method != "poisson" else np.zeros((len(handles), 3)), iterations=400, tol=1e-9)
    near(moved.vertices[handles] / u, (V @ Q.T + shift)[handles], 1e-12, "handles")
    near(moved.vertices / u, V @ Q.T + shift, 0.05 if method == "arap" else 1e-6, f"{method}: a rigid motion")
    assert D.energy is None or D.energy >= 0


@attack("apps.skinning_weights", quick=15)
def weights(rng):
    """Handles anywhere, any unit, another component. Oracle: rows sum to 1, values in [0, 1], 1 at their handle; invariance to units."""
    V, F = axes.sphere(rng, 1)
    u, handles = axes.unit(rng, 1e30), rng.choice(len(V), 3, replace=False)
    with well_posed("a sphere and three handles"):
        W = ms.apps.skinning_weights(ms.Mesh(V, F), handles)
        X = ms.apps.skinning_weights(ms.Mesh(V * u, F), handles)
    near(W[handles], np.eye(3), 1e-8, "handles")
    near(W.sum(axis=1), np.ones(len(V)), 1e-8, "rows")
    assert W.min() > -1e-6 and W.max() < 1 + 1e-6, f"weights between {W.min()} and {W.max()}"
    near(X, W, 1e-4, "another unit")


@attack("apps.Flow", "apps.Flow.step", "apps.Flow.finish", "apps.Flow.mesh", "apps.Flow.automatic_step", "apps.Flow.seconds", quick=15)
def flows(rng):
    """Steps of any length at any unit. Oracles: invariance to units and motions, spheres stay round, the center of mass stays."""
    V, F = axes.sphere(rng, 2)
    V = V - V.mean(axis=0)
    u, (Q, shift) = axes.unit(rng, 1e30), motion(rng)
    share = float(rng.choice([1e-3, 0.05, 0.2]))
    with well_posed("a sphere"):
        one, two = ms.apps.Flow(ms.Mesh(V, F)), ms.apps.Flow(ms.Mesh((V @ Q.T + shift) * u, F))
        near(two.automatic_step() / u / u, one.automatic_step(), 1e-9, "automatic step")
        r = np.linalg.norm(V, axis=1).mean()
        alive = one.step(share * r * r), two.step(share * r * r * u * u)
    assert alive[0] == alive[1], f"one vanishes: {alive}"
    if alive[0]:
        near(two.mesh().vertices / u, one.mesh().vertices @ Q.T + shift, 1e-8, "another unit and motion")
        length = np.linalg.norm(one.mesh().vertices, axis=1)
        near(length, np.full(len(V), length.mean()), 0.05, "round")
        assert length.mean() < r and all(s >= 0 for s in one.seconds().values()) and one.finish() is not None


@attack("apps.render", "apps.view", quick=1)
def pictures(rng):
    """Meshes of any unit, flat ones, values with holes. Oracle: the picture is not of one color, and the same in any unit."""
    import matplotlib.image
    V, F = axes.sphere(rng, 2)
    u = axes.unit(rng, 1e30)
    values = rng.standard_normal(len(V)) if rng.random() < 0.5 else None
    with tempfile.TemporaryDirectory() as folder, well_posed("a sphere"):
        files = [pathlib.Path(folder) / name for name in ("a.png", "b.png")]
        for file, scale in zip(files, (1.0, u)):
            ms.apps.render(file, ms.Mesh(V * scale, F), size=300, values=values)
        a, b = (matplotlib.image.imread(f)[..., :3] for f in files)
    assert a.std() > 0.01, "an empty picture"
    assert a.shape == b.shape and abs(a - b).mean() < 0.02, f"another picture at unit {u}: {abs(a - b).mean():.3f}"
