"""Meshes and graphs for the tests of the patches, and plain answers to every query."""

from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp


def make_mesh(n, faces):
    """What PatchMesh reads of a mesh: vertices, faces, edges; positions do not matter."""
    faces = np.asarray(faces, np.int32).reshape(-1, 3)
    sides = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    edges, side_edges = np.unique(sides, axis=0, return_inverse=True)
    return SimpleNamespace(vertices=np.zeros((n, 3)), faces=faces, edges=edges.astype(np.int32).reshape(-1, 2),
                           side_edges=side_edges.reshape(-1, 3).astype(np.int32))


def grid(nx, ny):
    """Two triangles to a square; (nx + 1) (ny + 1) vertices, with a boundary."""
    i = np.arange((nx + 1) * (ny + 1)).reshape(nx + 1, ny + 1)
    a, b, c, d = (block.ravel() for block in (i[:-1, :-1], i[:-1, 1:], i[1:, :-1], i[1:, 1:]))
    return make_mesh(i.size, np.stack([a, c, b, b, c, d], axis=1).reshape(-1, 3))


def torus(nx, ny):
    """Closed, every vertex of six faces."""
    i = np.arange(nx * ny).reshape(nx, ny)
    a, b, c = i, np.roll(i, -1, 1), np.roll(i, -1, 0)
    return make_mesh(i.size, np.stack([a, c, b, b, c, np.roll(c, -1, 1)], axis=-1).reshape(-1, 3))


def fan(faces):
    """All faces at vertex 0."""
    k = np.arange(1, faces + 1)
    return make_mesh(faces + 2, np.stack([np.zeros_like(k), k, k + 1], axis=1))


def book(pages):
    """All faces at the edge (0, 1)."""
    k = np.arange(2, pages + 2)
    return make_mesh(pages + 2, np.stack([np.zeros_like(k), np.ones_like(k), k], axis=1))


def soup(triangles):
    return make_mesh(3 * triangles, np.arange(3 * triangles))


def union(*meshes, unreferenced=0):
    shifts = np.cumsum([0] + [len(m.vertices) for m in meshes])
    return make_mesh(shifts[-1] + unreferenced, np.concatenate([m.faces + s for m, s in zip(meshes, shifts)]))


def shuffled(mesh, seed=0):
    rng = np.random.default_rng(seed)
    n = len(mesh.vertices)
    return make_mesh(n, rng.permutation(n)[mesh.faces[rng.permutation(len(mesh.faces))]])


NON_MANIFOLD = {
    "three faces on an edge": make_mesh(5, [[0, 1, 2], [1, 0, 3], [0, 1, 4]]),
    "five faces on an edge": book(5),
    "duplicated faces": make_mesh(4, [[0, 1, 2], [0, 1, 2], [2, 1, 0], [1, 3, 2]]),
    "bow tie": make_mesh(5, [[0, 1, 2], [0, 3, 4]]),
    "inconsistently oriented": make_mesh(4, [[0, 1, 2], [1, 2, 3]]),
}

MESHES = {
    **NON_MANIFOLD,
    "one triangle": make_mesh(3, [[2, 0, 1]]),
    "one vertex": make_mesh(1, []),
    "vertices only": make_mesh(700, []),
    "grid": grid(40, 30),
    "strip": grid(1, 500),
    "torus": torus(32, 40),
    "shuffled torus": shuffled(torus(60, 50)),
    "components": union(torus(8, 8), grid(20, 20), fan(5), soup(100), torus(20, 9)),
    "soup": soup(1000),
    "unreferenced": union(make_mesh(3, []), grid(9, 9), unreferenced=900),
    "everything": shuffled(union(*NON_MANIFOLD.values(), torus(20, 20), soup(30), unreferenced=9)),
}


def incidence(rows, columns, shape):
    return sp.csr_array(sp.coo_array((np.ones(len(rows), np.int64), (rows, columns)), shape))


def answer(mesh, name):
    """(indptr, indices) of a query by sparse products, or by the tables themselves."""
    n, e, m = len(mesh.vertices), len(mesh.edges), len(mesh.faces)
    tables = {"FV": mesh.faces, "FE": mesh.side_edges, "EV": mesh.edges}
    if name in tables:
        table = tables[name]
        return np.arange(len(table) + 1) * table.shape[1], table.ravel()
    EV = incidence(np.repeat(np.arange(e), 2), mesh.edges.ravel(), (e, n))
    FV = incidence(np.repeat(np.arange(m), 3), mesh.faces.ravel(), (m, n))
    FE = incidence(np.repeat(np.arange(m), 3), mesh.side_edges.ravel(), (m, e))
    products = {"VV": lambda: EV.T @ EV, "VE": lambda: EV.T, "VF": lambda: FV.T, "EF": lambda: FE.T, "FF": lambda: FE @ FE.T,
                "EE": lambda: EV @ EV.T}
    S = sp.csr_array(products[name]())
    if name[0] == name[1]:
        S = sp.coo_array(S)
        off = S.row != S.col
        S = incidence(S.row[off], S.col[off], S.shape)
    S.sort_indices()
    return S.indptr, S.indices


def check_structure(P, mesh):
    """Every law of the stored patches: owners, ribbons, local numbers, and what lies where."""
    tables = (len(mesh.vertices), len(mesh.edges), len(mesh.faces))
    owners = (P.vertex_patch, P.edge_patch, P.face_patch)
    patches = [P.patch(p) for p in range(P.num_patches)]
    stored = [[(q.ltog_vertices, q.owner_patch_vertices, q.owner_local_vertices),
               (q.ltog_edges, q.owner_patch_edges, q.owner_local_edges),
               (q.ltog_faces, q.owner_patch_faces, q.owner_local_faces)] for q in patches]
    for kind, (count, owner) in enumerate(zip(tables, owners)):
        assert owner.shape == (count,) and owner.dtype == np.int32
        assert count == 0 or (owner.min() >= 0 and owner.max() < P.num_patches)
        for p, q in enumerate(patches):
            ltog, owner_patch, owner_local = stored[p][kind]
            own = q.num_owned[kind]
            assert np.array_equal(ltog[:own], np.flatnonzero(owner == p))
            ribbon = ltog[own:]
            assert (np.diff(ribbon) > 0).all() and (owner[ribbon] != p).all()
            assert np.array_equal(owner[ribbon], owner_patch) and len(owner_local) == len(ribbon)
            for g, other, local in zip(ribbon[:20], owner_patch, owner_local):
                assert local < patches[other].num_owned[kind] and stored[other][kind][0][local] == g
    for q in patches:
        assert max(map(len, (q.ltog_vertices, q.ltog_edges, q.ltog_faces))) <= 65535
        assert q.ev.dtype == q.fe.dtype == np.uint16
        assert np.array_equal(q.ltog_vertices[q.ev], mesh.edges[q.ltog_edges])
        assert sum(q.num_owned) > 0
        if tables[2]:
            assert np.array_equal(q.ltog_edges[q.fe], mesh.side_edges[q.ltog_faces])
