"""From a mesh or a pattern to patches on the GPU: launches of build.cu. CPU counterpart: build.cpp, with the same arrays.

Keys (patch << 32 | element) represent the elements of ribbons. Only sizes are copied to the host.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from meshsolve import device
from meshsolve.patches.kmeans_cuda import halve, kmeans, members
from meshsolve.patches.query_cuda import Tables as Tables
from meshsolve.sparse.lists_cuda import MASK, bincount, distinct, exclusive_scan, find, rows_of, total

K = device.kernels("patches/build.cu")
BLOCK = 256                         # threads per block
LOCAL_LIMIT = 65535                 # as in limits.hpp, as the next two
STAR_LIMIT, FACE_LIMIT = LOCAL_LIMIT // 18, LOCAL_LIMIT // 3

Owned = namedtuple("Owned", "patch ltog ptr rank")          # ownership of one kind of elements; rank: uint16, within the patch
Topology = namedtuple("Topology", "vertex_faces edge_faces dual")


def patch_mesh(mesh, patch_size, seed, threads):
    """GPU counterpart of ``_core.mesh_edges`` and ``_core.patch_surface``: the same arrays, on the GPU."""
    with device.errors("patches"):
        n, faces = len(mesh.vertices), device.to_device(mesh.faces.reshape(-1))
        edges, face_edges = _edges_of(faces)
        T = _connect(n, len(edges) // 2, faces, face_edges)
        limit = min(patch_size, FACE_LIMIT)
        part, count = _parts_of(T.dual, limit, seed)
        while True:
            vertices, edge_owner, face_owner, patches = _own_surface(T, part, count, limit)
            ribbons = _surface_ribbons(T, faces, face_edges, vertices, edge_owner, face_owner)
            full = _too_large(patches, (vertices, edge_owner, face_owner), ribbons)
            if not full.any():
                break
            part, count = halve(T.dual, part, count, full[:count])
        heavy = [_heavy(rows[0], STAR_LIMIT) for rows in (T.vertex_faces, T.edge_faces)]
        return _number_locally(patches, (vertices, edge_owner, face_owner), ribbons, edges, face_edges, heavy)


def patch_pattern(G, patch_size, seed, threads):
    """GPU counterpart of ``_core.patch_pattern``: the same arrays, on the GPU."""
    with device.errors("patches"):
        xp = device.xp()
        graph = tuple(map(device.to_device, (G.indptr, G.indices)))
        edges = _upper_edges(graph)
        vertex_edges = _transpose(edges, G.n, 2)
        part, count = kmeans(graph, min(patch_size, LOCAL_LIMIT), seed)
        while True:
            vertices, edge_owner = _own_pattern(edges, vertex_edges, part, count)
            faces = _own(xp.empty(0, xp.int32), count)
            ribbons = _pattern_ribbons(edges, vertex_edges, vertices, edge_owner)
            full = _too_large(count, (vertices, edge_owner, faces), ribbons)
            if not full.any():
                break
            if count == len(part):
                raise ValueError("too many edges between vertices of more than 65,534 neighbors")
            part, count = halve(graph, part, count, full)
        heavy = _heavy(vertex_edges[0], LOCAL_LIMIT - 1), xp.empty(0, xp.int32)
        return _number_locally(count, (vertices, edge_owner, faces), ribbons, edges, xp.empty(0, xp.int32), heavy)


# ---- topology ---------------------------------------------------------------------------------------------------------


def _edges_of(faces):
    """Return (2 e,) the ends of the edges in lexicographic order, and (3 m,) the edge of each side; side c joins corners c and c + 1."""
    xp = device.xp()
    corner = faces.reshape(-1, 3).astype(np.int64)
    ahead = xp.stack([corner[:, 1], corner[:, 2], corner[:, 0]], axis=1)
    sides = (xp.minimum(corner, ahead) << 32 | xp.maximum(corner, ahead)).reshape(-1)
    edges = distinct(sides)
    return xp.stack([edges >> 32, edges & MASK], axis=1).reshape(-1).astype(np.int32), find(edges, sides).astype(np.int32)


def _connect(n, num_edges, faces, face_edges):
    """Return the faces of vertices and of edges, and the dual graph, each as (ptr, idx)."""
    vertex_faces, edge_faces = _transpose(faces, n, 3), _transpose(face_edges, num_edges, 3)
    count = len(faces) // 3
    args = (np.int32(count), face_edges, *edge_faces)
    xp, grid = device.xp(), device.grid_for(count, BLOCK)
    size = xp.empty(count, xp.int32)
    device.launch(K.k_dual, grid, BLOCK, 0, (*args, size, xp.empty(0, xp.int64), xp.empty(0, xp.int32)))
    ptr = exclusive_scan(size)
    idx = xp.empty(total(ptr), xp.int32)
    if len(idx):
        device.launch(K.k_dual, grid, BLOCK, 0, (*args, size, ptr, idx))
    return Topology(vertex_faces, edge_faces, (ptr, idx))


def _transpose(table, rows, k):
    """Transpose a table of k columns: row r lists, ascending, the items i with table[k * i + c] = r for some c."""
    order, ptr = members(table, rows)
    return ptr, order // np.int32(k)


def _upper_edges(graph):
    """Return (2 e,) the entries above the diagonal, in row order."""
    xp = device.xp()
    ptr, idx = graph
    row = rows_of(ptr, len(idx))
    above = idx > row
    return xp.stack([row[above].astype(xp.int32), idx[above]], axis=1).reshape(-1)


# ---- owners -----------------------------------------------------------------------------------------------------------


def _parts_of(graph, limit, seed):
    xp = device.xp()
    return kmeans(graph, limit, seed) if len(graph[0]) > 1 else (xp.empty(0, xp.int32), 0)


def _own_surface(T, part, count, block):
    """Assign vertices and edges to the lowest patch of their faces. Return the owned elements of each kind and the number of patches."""
    vertex_patch, edge_patch = (_lowest_patch(rows, part) for rows in (T.vertex_faces, T.edge_faces))
    patches = _assign_unreferenced(vertex_patch, count, block)
    return *(_own(patch, patches) for patch in (vertex_patch, edge_patch, part)), patches


def _lowest_patch(rows, item_patch):
    xp, n = device.xp(), len(rows[0]) - 1
    lowest = xp.empty(n, xp.int32)
    device.launch(K.k_lowest_patch, device.grid_for(n, BLOCK), BLOCK, 0, (np.int32(n), *rows, item_patch, lowest))
    return lowest


def _assign_unreferenced(vertex_patch, patches, block):
    """Assign vertices without a face to patches of fewer than ``block`` vertices, lowest first, then to additional patches."""
    xp = device.xp()
    left = xp.flatnonzero(vertex_patch < 0)
    if not len(left):
        return patches
    rank, capacity = xp.arange(len(left)), xp.zeros(1, xp.int64)
    if patches:
        capacity = xp.cumsum(xp.maximum(0, block - bincount(vertex_patch, patches)))
    total = int(device.scalar(capacity[-1:]))
    position = xp.where(rank < total, xp.searchsorted(capacity, rank, side="right"), patches + (rank - total) // block)
    vertex_patch[left] = position.astype(xp.int32)
    return patches + max(0, -(-(len(left) - total) // block))


def _own_pattern(edges, vertex_edges, part, count):
    """Assign each edge to the lower patch of its ends; if one end is heavy, to the patch of the other end.

    No patch could own all edges of a heavy vertex.
    """
    xp = device.xp()
    heavy = xp.diff(vertex_edges[0]) >= LOCAL_LIMIT
    a, b = edges[0::2], edges[1::2]
    p, q = part[a], part[b]
    edge_patch = xp.where(heavy[a] == heavy[b], xp.minimum(p, q), xp.where(heavy[a], q, p))
    return _own(part, count), _own(edge_patch, count)


def _own(patch, count):
    xp = device.xp()
    ltog, ptr = members(patch, count)
    rank = xp.empty(len(patch), xp.uint16)
    rank[ltog] = (xp.arange(len(patch)) - ptr[patch[ltog]]).astype(xp.uint16)
    return Owned(patch, ltog, ptr, rank)


# ---- ribbons ----------------------------------------------------------------------------------------------------------


def _surface_ribbons(T, faces, face_edges, vertices, edges, owned_faces):
    """Return the keys of the foreign vertices, edges and faces. Faces are gathered first, then their vertices and edges."""
    xp, n, m = device.xp(), len(vertices.patch), len(owned_faces.patch)
    at_vertices = _listed(K.k_star, n, (np.int32(n), *T.vertex_faces, np.int64(STAR_LIMIT), vertices.patch, owned_faces.patch))
    at_sides = _listed(K.k_sides, m, (np.int32(m), faces, face_edges, vertices.patch, owned_faces.patch, T.vertex_faces[0],
                                      *T.edge_faces))
    of_faces = xp.unique(xp.concatenate([at_vertices, at_sides]))
    return (_closure(owned_faces, of_faces, faces, 3, vertices), _closure(owned_faces, of_faces, face_edges, 3, edges), of_faces)


def _pattern_ribbons(edges, vertex_edges, vertices, owned_edges):
    """Return the keys of the foreign vertices and edges. Edges are gathered first, then their ends."""
    xp, n = device.xp(), len(vertices.patch)
    of_edges = xp.unique(_listed(K.k_star, n, (np.int32(n), *vertex_edges, np.int64(LOCAL_LIMIT - 1), vertices.patch,
                                               owned_edges.patch)))
    return _closure(owned_edges, of_edges, edges, 2, vertices), of_edges, xp.empty(0, xp.int64)


def _closure(of, ribbon, table, k, parts):
    items = len(of.patch) + len(ribbon)
    args = (np.int32(len(of.patch)), of.patch, np.int32(len(ribbon)), ribbon, table, np.int32(k), parts.patch)
    return device.xp().unique(_listed(K.k_closure, items, args))


def _listed(kernel, items, args):
    """Return the keys that a kernel lists, in the order of its items. They are counted first, then written."""
    xp, grid = device.xp(), device.grid_for(items, BLOCK)
    count = xp.zeros(items, xp.int32)
    device.launch(kernel, grid, BLOCK, 0, (*args, count, xp.empty(0, xp.int64), xp.empty(0, xp.int64)))
    offset = exclusive_scan(count)
    keys = xp.empty(total(offset), xp.int64)
    if len(keys):
        device.launch(kernel, grid, BLOCK, 0, (*args, count, offset, keys))
    return keys


def _too_large(count, owned, ribbons):
    """Mask of the patches with too many elements of one kind for 16-bit numbers."""
    xp = device.xp()
    full = xp.zeros(count, bool)
    for kind, keys in zip(owned, ribbons):
        full |= xp.diff(kind.ptr) + xp.diff(_ribbon_pointers(keys, count)) > LOCAL_LIMIT
    return full


def _heavy(ptr, limit):
    xp = device.xp()
    return xp.flatnonzero(xp.diff(ptr) > limit).astype(xp.int32)


# ---- local numbers ----------------------------------------------------------------------------------------------------


def _number_locally(count, owned, ribbons, edges, face_edges, heavy):
    """Return the arrays of ``_core.patch_surface``."""
    vertices, edge_parts, face_parts = (_number_elements(kind, keys, count) for kind, keys in zip(owned, ribbons))
    ev = _localize(edge_parts, edges, 2, vertices, owned[0].rank, count)
    fe = _localize(face_parts, face_edges, 3, edge_parts, owned[1].rank, count)
    return vertices, edge_parts, face_parts, ev, fe, *heavy


def _number_elements(kind, keys, count):
    """Return (patch, ptr, owned_ptr, ltog, owner_patch, owner_local): owned elements of each patch, then its ribbon."""
    xp = device.xp()
    foreign = (keys & MASK).astype(xp.int32)
    ribbon_ptr = _ribbon_pointers(keys, count)
    ptr = kind.ptr + ribbon_ptr
    ltog = xp.empty(len(kind.ltog) + len(foreign), xp.int32)
    ltog[xp.arange(len(kind.ltog)) + ribbon_ptr[kind.patch[kind.ltog]]] = kind.ltog
    ltog[xp.arange(len(foreign)) + kind.ptr[(keys >> 32) + 1]] = foreign
    return kind.patch, ptr, kind.ptr, ltog, kind.patch[foreign], kind.rank[foreign]


def _localize(of, table, k, to, rank, count):
    xp = device.xp()
    local = xp.empty(len(of[3]) * k, xp.uint16)
    device.launch(K.k_localize, count, BLOCK, 0, (of[1], of[3], table, np.int32(k), to[1], to[2], to[3], to[0], rank, local))
    return local


def _ribbon_pointers(keys, count):
    xp = device.xp()
    return xp.searchsorted(keys >> 32, xp.arange(count + 1), side="left").astype(xp.int64)
