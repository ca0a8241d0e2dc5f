"""Attacks on what meshes know about themselves: connectivity, measures, copies."""

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed


def closed(rng):
    """(vertices, faces, number of components) of one or two spheres of other scales, at any unit."""
    parts = int(rng.integers(1, 3))
    V, F, count = [], [], 0
    for _ in range(parts):
        v, f = axes.sphere(rng, int(rng.integers(0, 3)))
        V.append((v - v.mean(axis=0)) * 10.0 ** rng.uniform(-4, 4) + rng.uniform(-3, 3, 3))
        F.append(f + count)
        count += len(v)
    return np.concatenate(V), np.concatenate(F), parts


@attack("Mesh", "Mesh.vertices", "Mesh.faces", "Mesh.edges", "Mesh.side_edges", "Mesh.boundary_edges", "Mesh.boundary_loops", "Mesh.boundary_vertices", "Mesh.components",
        "Mesh.is_manifold", "Mesh.edge_lengths")
def connectivity(rng):
    """Closed, open, disconnected, with unused vertices and repeated faces. Oracle: sets of Python, Euler's formula, scipy's components."""
    V, F = axes.grid(rng, int(rng.integers(1, 7))) if rng.random() < 0.5 else closed(rng)[:2]
    F = F[rng.random(len(F)) < rng.choice([1.0, 0.8])]
    if not len(F):
        return
    V = np.concatenate([V, rng.uniform(-1, 1, (int(rng.integers(3)), 3))])
    with well_posed("any triangles"):
        mesh = ms.Mesh(V * axes.unit(rng, 1e60), F if rng.random() < 0.5 else F.astype(np.uint32))
    sides = [(int(f[c]), int(f[(c + 1) % 3])) for f in F for c in range(3)]
    count = {}
    for a, b in sides:
        count[min(a, b), max(a, b)] = count.get((min(a, b), max(a, b)), 0) + 1
    assert [tuple(e) for e in mesh.edges.tolist()] == sorted(count), "edges"
    assert [tuple(e) for e in mesh.edges[mesh.side_edges.ravel()].tolist()] == [(min(s), max(s)) for s in sides], "side_edges"
    border = [s for s in sides if count[min(s), max(s)] == 1]
    assert sorted(map(tuple, mesh.boundary_edges.tolist())) == sorted(border), "boundary_edges"
    assert mesh.boundary_vertices.tolist() == sorted({v for s in border for v in s})
    graph = sp.coo_array((np.ones(len(sides)), np.array(sides).T), shape=(len(V), len(V)))
    parts, label = sp.csgraph.connected_components(graph, directed=False)
    assert parts == mesh.components.max() + 1 and len({*zip(label.tolist(), mesh.components.tolist())}) == parts, "components"
    lengths = np.linalg.norm((mesh.vertices[mesh.edges[:, 0]] - mesh.vertices[mesh.edges[:, 1]]) / abs(mesh.vertices).max(), axis=1) * abs(mesh.vertices).max()
    assert np.allclose(mesh.edge_lengths, lengths, rtol=1e-13, atol=0), "edge_lengths"
    if mesh.is_manifold and border:
        assert sorted(v for loop in mesh.boundary_loops() for v in loop.tolist()) == sorted(s[0] for s in border), "loops"
    fans = {}
    for f in F.tolist():
        for c in range(3):
            fans.setdefault(f[c], []).append((f[(c + 1) % 3], f[(c + 2) % 3]))
    manifold = max(count.values()) <= 2 and all(one_fan(links) for links in fans.values())
    assert mesh.is_manifold == manifold, f"is_manifold {mesh.is_manifold}"


def one_fan(links):
    """True if the edges opposite a vertex form one path or one cycle."""
    ends = {}
    for k, link in enumerate(links):
        for v in link:
            ends.setdefault(v, []).append(k)
    reached, stack = {0}, [0]
    while stack:
        for v in links[stack.pop()]:
            for k in ends[v]:
                if k not in reached:
                    reached.add(k)
                    stack.append(k)
    return len(reached) == len(links) and all(len(k) <= 2 for k in ends.values())


@attack("Mesh.face_areas", "Mesh.face_normals", "Mesh.vertex_normals", "Mesh.volume")
def measures(rng):
    """Units from 1e-30 to 1e30, far from the origin, parts of other scales, flat faces. Oracle: formulas in long double after scaling."""
    V, F, _ = closed(rng)
    if rng.random() < 0.3:
        V, F = np.concatenate([V, V[F[:1, :2]].mean(axis=1)]), np.concatenate([F, [[F[0, 0], F[0, 1], len(V)]]])
    u = axes.unit(rng, 1e60)
    with well_posed("a closed mesh"):
        mesh = ms.Mesh(V * u, F)
    W = mesh.vertices.astype(np.longdouble) / u
    a, b, c = W[F[:, 0]], W[F[:, 1]], W[F[:, 2]]
    cross = np.cross(b - a, c - a)
    twice = np.sqrt((cross * cross).sum(axis=1))
    assert np.allclose(mesh.face_areas / u / u, (twice / 2).astype(float), rtol=1e-7, atol=1e-14 * float(twice.max())), "face_areas"
    some = twice > 1e-6 * (np.linalg.norm((b - a).astype(float), axis=1) * np.linalg.norm((c - a).astype(float), axis=1) + 1e-300)
    assert np.allclose(mesh.face_normals[some], (cross / np.where(twice > 0, twice, 1)[:, None])[some].astype(float), atol=1e-8), "face_normals"
    assert np.allclose(np.linalg.norm(mesh.vertex_normals[F[:-1].ravel()], axis=1), 1, atol=1e-9), "vertex_normals"
    middle = W.mean(axis=0)
    if len(V) > F[:-1].max() + 1:
        return
    volume = float((np.cross(a - middle, b - middle) * (c - middle)).sum() / 6)
    assert abs(mesh.volume / u / u / u - volume) <= 1e-9 * abs(W - middle).max() ** 3 if u**3 not in (0.0, np.inf) else True, f"volume {mesh.volume / u**3} instead of {volume}"


def flatness(rng, corners, gap):
    """Corners (c, 3) of an element whose last corner is ``gap`` away from the plane or line of the others, in some unit and place."""
    x = np.vstack([np.zeros(3), np.eye(3)[:corners - 2], np.append(rng.uniform(-1, 2, corners - 2), np.zeros(5 - corners))])
    x[-1, corners - 2] = gap
    return x @ np.linalg.qr(rng.standard_normal((3, 3)))[0].T


@attack("Mesh.degenerate_faces", "TetMesh.degenerate_cells", quick=30)
def degenerate(rng):
    """Elements of heights from 0 to 1, in units from 1e-60 to 1e60, with others. Oracle: the definition, far from its limit; units; orders."""
    gaps = 10.0 ** rng.uniform(-20, 0, int(rng.integers(1, 12))) * (rng.random() < 0.9)
    V = np.vstack([flatness(rng, 3, gap) for gap in gaps])
    F, sizes, p = np.arange(len(V)).reshape(-1, 3), 10.0 ** rng.uniform(-50, 50, len(gaps)), rng.permutation(len(gaps))
    longest = np.linalg.norm(V[F] - V[np.roll(F, 1, axis=1)], axis=2).max(axis=1)
    ratio = gaps / longest**2
    with well_posed("triangles"):
        mesh = ms.Mesh(V * sizes.repeat(3)[:, None], F[p])
        found = np.isin(np.arange(len(gaps)), p[mesh.degenerate_faces])
    assert (np.diff(mesh.degenerate_faces) > 0).all() and mesh.degenerate_faces.dtype == np.int64
    sure = abs(np.log10(np.maximum(ratio, 1e-300)) + 8) > 0.01
    assert (found == (ratio <= 1e-8))[sure].all(), f"{found} for {ratio}"
    V = np.vstack([flatness(rng, 4, gap) for gap in gaps])
    T, unit = np.arange(len(V)).reshape(-1, 4), axes.unit(rng, 1e30)
    with well_posed("tetrahedra"):
        solid = ms.TetMesh(V * unit, T[p], orient=True)
        found = np.isin(np.arange(len(gaps)), p[solid.degenerate_cells])
    longest = np.linalg.norm(V[T][:, :, None] - V[T][:, None], axis=3).max(axis=(1, 2))
    assert found[gaps < 1e-9].all() and not found[gaps > 1e-4 * longest**3].any(), f"{found} for {gaps}"


@attack("Mesh.copy", "Mesh.with_vertices", "Mesh.to_trimesh", "Mesh.from_trimesh", "Mesh.vertex_data", "Mesh.face_data", "Mesh.corner_data")
def copies(rng):
    """Data of any dtype and shape; writes into copies and originals. Oracle: the arrays that were given."""
    V, F = axes.grid(rng, int(rng.integers(1, 5)))
    data = {"a": rng.standard_normal(len(V)), "b": rng.integers(0, 9, (len(V), 2)), "c": rng.standard_normal((len(V), 3)).astype(np.float32)}
    with well_posed("arrays with a row for each vertex, face or corner"):
        mesh = ms.Mesh(V, F, vertex_data=data, face_data={"f": np.arange(len(F))}, corner_data={"uv": rng.random((len(F), 3, 2))})
    before = V.copy()
    twin, moved = mesh.copy(), mesh.with_vertices(2 * V)
    twin.vertices[:] = 0
    assert np.array_equal(mesh.vertices, before) and np.array_equal(V, before) and np.array_equal(moved.vertices, 2 * before), "a copy shares positions"
    assert all(np.array_equal(moved.vertex_data[k], v) and moved.vertex_data[k].dtype == v.dtype for k, v in data.items()) and np.array_equal(moved.face_data["f"], np.arange(len(F)))
    assert moved.corner_data["uv"].shape == (len(F), 3, 2)
    again = ms.Mesh.from_trimesh(mesh.to_trimesh())
    assert np.array_equal(again.vertices, mesh.vertices) and np.array_equal(again.faces, mesh.faces), "trimesh changes the mesh"


@attack("TetMesh", "TetMesh.edges", "TetMesh.cell_edges", "TetMesh.components", "TetMesh.edge_lengths", "TetMesh.volumes", "TetMesh.surface")
def tetrahedra(rng):
    """Boxes of cells at any unit, cells left out, far parts. Oracle: volumes of boxes, sets of Python, a closed surface."""
    k = [int(v) for v in rng.integers(1, 4, 3)]
    at = np.arange((k[0] + 1) * (k[1] + 1) * (k[2] + 1)).reshape(k[0] + 1, k[1] + 1, k[2] + 1)
    V = np.stack(np.meshgrid(*(np.arange(s + 1.0) for s in k), indexing="ij"), -1).reshape(-1, 3)
    corner = lambda *o: at[o[0]:k[0] + o[0], o[1]:k[1] + o[1], o[2]:k[2] + o[2]].ravel()
    path = [((1, 0, 0), (1, 1, 0)), ((1, 0, 0), (1, 0, 1)), ((0, 1, 0), (1, 1, 0)), ((0, 1, 0), (0, 1, 1)), ((0, 0, 1), (1, 0, 1)), ((0, 0, 1), (0, 1, 1))]
    T = np.concatenate([np.stack([corner(0, 0, 0), corner(*p), corner(*q), corner(1, 1, 1)], 1) for p, q in path])
    u = axes.unit(rng, 1e80)
    with well_posed("cells of a box"):
        mesh = ms.TetMesh(V * u, T, orient=True)
    assert np.allclose(mesh.volumes / u**3, 1 / 6, rtol=1e-12), "volumes"
    pairs = sorted({(min(a, b), max(a, b)) for t in T.tolist() for i, a in enumerate(t) for b in t[i + 1:]})
    assert [tuple(e) for e in mesh.edges.tolist()] == pairs and mesh.components.max() == 0, "edges"
    assert np.array_equal(np.sort(mesh.edges[mesh.cell_edges[:, 0]], axis=1), np.sort(mesh.cells[:, :2], axis=1)), "cell_edges"
    assert np.allclose(mesh.edge_lengths / u, np.linalg.norm(V[[p[0] for p in pairs]] - V[[p[1] for p in pairs]], axis=1)), "edge_lengths"
    surface = mesh.surface()
    assert len(surface.boundary_edges) == 0 and np.isclose(surface.volume / u**3, np.prod(k)), "surface"
