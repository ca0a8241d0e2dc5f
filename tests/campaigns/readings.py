"""Attacks on what clouds, polygons, intrinsic triangulations and circuits let a caller read."""

import pathlib
import tempfile

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed


@attack("PointCloud.edges", "PointCloud.edge_lengths", "PointCloud.components", "PointCloud.normals", "PointCloud.stars", "PointCloud.rounds", "PointCloud.load",
        "PointCloud.distinct", "PointCloud.has_copies", quick=15)
def clouds(rng):
    """Spheres of any unit and place, with copies of points, through files. Oracles: radii as normals, scipy's components, the points."""
    V, _ = axes.sphere(rng, 2)
    middle, u = V.mean(axis=0), axes.unit(rng, 1e30)
    copies = rng.integers(len(V), size=int(rng.choice([0, 0, 5])))
    X = np.concatenate([V, V[copies]]) * u
    with well_posed("points of a sphere"):
        cloud = ms.PointCloud(X)
        edges, stars, rounds = cloud.edges, cloud.stars, cloud.rounds
        assert cloud.has_copies == bool(len(copies)), "copies"
        assert np.array_equal(np.unique(cloud.distinct.vertices, axis=0), np.unique(X, axis=0)) and len(cloud.distinct.vertices) == len(V), "distinct"
    assert (edges[:, 0] < edges[:, 1]).all() and len(np.unique(edges, axis=0)) == len(edges), "edges"
    lengths = np.linalg.norm(X[edges[:, 0]] / u - X[edges[:, 1]] / u, axis=1)
    assert np.allclose(cloud.edge_lengths / u, lengths, rtol=1e-9), "edge_lengths"
    graph = sp.coo_array((np.ones(len(edges)), edges.T), shape=(len(X), len(X)))
    used = np.unique(edges)
    parts, label = sp.csgraph.connected_components(graph, directed=False)
    pairs = {*zip(label[used].tolist(), cloud.components[used].tolist())}
    assert len(pairs) == len(np.unique(label[used])), "components"
    assert len(rounds) == len(stars.faces) and rounds.min() >= 0 and rounds.max() <= 2, "rounds"
    out = (V - middle) / np.linalg.norm(V - middle, axis=1)[:, None]
    assert (abs((cloud.normals[:len(V)] * out).sum(axis=1)) > 0.9).all(), "normals are not radii"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "points.ply"
        ms.Mesh(X, [[0, 1, 2]]).save(path)
        loaded = ms.PointCloud.load(path)
    assert np.array_equal(loaded.edges, edges), "another cloud from its file"


@attack("PolygonMesh.load", "PolygonMesh.save", "PolygonMesh.prolongation", "PolygonMesh.fan", quick=20)
def polygon_files(rng):
    """Prisms of polygons at any unit through each format. Oracle: the arrays that were saved; constants and linear functions."""
    k = int(rng.integers(3, 9))
    angle = np.sort(rng.uniform(0, 2 * np.pi, k)) if rng.random() < 0.5 else np.arange(k) * 2 * np.pi / k
    ring = np.stack([np.cos(angle), np.sin(angle)], 1) * axes.unit(rng, 1e30)
    X = np.concatenate([np.c_[ring, np.zeros(k)], np.c_[ring, np.full(k, abs(ring).max())]])
    faces = [list(range(k))[::-1], list(range(k, 2 * k)), *([i, (i + 1) % k, k + (i + 1) % k, k + i] for i in range(k))]
    mesh = ms.PolygonMesh(X, faces)
    P = mesh.prolongation
    assert np.allclose(P.sum(axis=1), 1, atol=1e-12) and np.allclose(P @ X, mesh.fan.vertices, atol=1e-12 * abs(X).max()), "prolongation"
    with tempfile.TemporaryDirectory() as folder, well_posed("a prism"):
        path = pathlib.Path(folder) / f"prism{rng.choice(['.obj', '.ply', '.off', '.obj.gz'])}"
        mesh.save(path)
        again = ms.PolygonMesh.load(path)
    assert np.array_equal(again.vertices, mesh.vertices), f"{path.suffix} changes coordinates"
    assert np.array_equal(again.indices, mesh.indices) and np.array_equal(again.offsets, mesh.offsets), f"{path.suffix} changes polygons"


@attack("operators.intrinsic_delaunay", "cotan_laplacian", quick=20)
def intrinsic_triangulations(rng):
    """Slivers, any unit, flat and curved. Oracles: nonnegative weights, the area, rows that sum to 0."""
    V, F = axes.grid(rng, int(rng.integers(2, 8)))
    V = V * [1, 10.0 ** rng.uniform(-3, 0), 1]
    u = axes.unit(rng, 1e30)
    with well_posed("a plane mesh"):
        flipped = ms.operators.intrinsic_delaunay(ms.Mesh(V * u, F))
        L, area = flipped.laplacian().toarray(), flipped.mass().sum() / u / u
    off = L - np.diag(np.diag(L))
    size = abs(off).max()
    assert off.max() <= 1e-8 * size, f"a weight of {-off.max() / size:.2g} of the largest"
    right = (V[:, 0].max() - V[:, 0].min()) * (V[:, 1].max() - V[:, 1].min())
    assert abs(area - right) < 1e-9 * right, "area"
    assert abs(L.sum(axis=1)).max() < 1e-12 * size * len(L), "rows do not sum to 0"


@attack("apps.circuit.Circuit.matrix", "apps.circuit.Circuit.nodes", "apps.circuit.Circuit.run", "apps.circuit.read", quick=15)
def circuits(rng):
    """Random resistor networks in any case, read from files, analyses by name. Oracle: the nodal equations in dense arithmetic."""
    n = int(rng.integers(2, 9))
    lines, G = ["random resistors"], np.zeros((n + 1, n + 1))
    name = lambda k: "0" if k == 0 else f"{'N' if rng.random() < 0.5 else 'n'}{k}"
    ends = [(k, int(rng.integers(k))) for k in range(1, n + 1)] + [tuple(rng.choice(n + 1, 2, replace=False)) for _ in range(n)]
    for i, (a, b) in enumerate(ends):
        ohms = float(2.0 ** rng.integers(-18, 20))
        lines.append(f"R{i} {name(a)} {name(b)} {ohms!r}")
        G[[a, b], [a, b]] += 1 / ohms
        G[[a, b], [b, a]] -= 1 / ohms
    amperes = float(rng.choice([-2.0, 1e-6, 3.0]))
    lines += [f"I1 0 {name(n)} {amperes!r}", ".op", ".print op v(n1)", ".end"]
    with tempfile.TemporaryDirectory() as folder, well_posed("resistors and a current"):
        path = pathlib.Path(folder) / "deck.sp"
        path.write_text("\n".join(lines) + "\n")
        circuit = ms.apps.circuit.read(path)
        result, printed = circuit.run()
    assert sorted(circuit.nodes) == sorted(f"n{k}" for k in range(1, n + 1)), f"nodes {circuit.nodes}"
    matrix = circuit.matrix().toarray()[:n, :n]
    if len(matrix) == n:
        assert np.allclose(np.sort(np.diag(matrix)), np.sort(np.diag(G)[1:]), rtol=1e-12), "matrix"
    d = np.sqrt(np.diag(G)[1:])
    right = np.linalg.solve(G[1:, 1:] / d[:, None] / d, np.eye(n)[n - 1] * amperes / d) / d
    found = np.array([result[f"n{k}"] for k in range(1, n + 1)])
    kappa = np.linalg.cond(G[1:, 1:] / d[:, None] / d)
    assert np.allclose(found, right, rtol=1e-12 * kappa, atol=1e-13 * kappa * abs(right).max()), f"voltages {found} instead of {right}"
    assert printed and [p.lower() for p in printed] in (["v(n1)"], ["n1"]), f"printed {printed}"
