"""Small graphs for the ordering tests, as scipy arrays, and slow references."""

import numpy as np
import scipy.sparse as sp


def from_edges(n, i, j):
    A = sp.coo_array((np.ones(len(i)), (i, j)), shape=(n, n))
    return sp.csr_array(A + A.T + sp.eye_array(n))


def path(n):
    return from_edges(n, np.arange(n - 1), np.arange(1, n))


def star(n):
    return from_edges(n, np.zeros(n - 1, int), np.arange(1, n))


def clique(n):
    return sp.csr_array(np.ones((n, n)))


def grid(*shape):
    """Grid graph of any dimension with edges along the axes."""
    number = np.arange(np.prod(shape)).reshape(shape)
    ends = [(np.delete(number, -1, axis).ravel(), np.delete(number, 0, axis).ravel()) for axis in range(len(shape))]
    return from_edges(number.size, *(np.concatenate(side) for side in zip(*ends)))


def triangulated(nx, ny):
    """Grid with one diagonal in each cell: six neighbors at inner vertices, as in a mesh."""
    number = np.arange(nx * ny).reshape(nx, ny)
    diagonal = from_edges(nx * ny, number[:-1, :-1].ravel(), number[1:, 1:].ravel())
    return sp.csr_array(grid(nx, ny) + diagonal)


def sphere(levels):
    """Vertex graph of an icosahedron, each triangle cut into four `levels` times: 10 * 4^levels + 2 vertices."""
    import trimesh

    edges = trimesh.creation.icosphere(subdivisions=levels).edges_unique
    return from_edges(edges.max() + 1, edges[:, 0], edges[:, 1])


def random_graph(n, degree, seed):
    ends = np.random.default_rng(seed).integers(0, n, (2, n * degree // 2))
    return from_edges(n, *ends)


def preferential(n, degree, seed):
    """Power-law degrees: every new vertex is joined to ends of earlier edges."""
    rng = np.random.default_rng(seed)
    ends = np.empty((2, degree * n), np.int64)
    for k in range(degree):
        ends[0, k::degree] = np.arange(n)
    pick = (rng.random(degree * n) * 2 * np.maximum(np.arange(degree * n), 1)).astype(np.int64)
    ends[1] = 0
    for e in range(degree, degree * n):
        ends[1, e] = ends[pick[e] & 1, pick[e] >> 1]
    return from_edges(n, ends[0], ends[1])


def kkt(n, m, seed):
    B = sp.random_array((m, n), density=3 / n, rng=np.random.default_rng(seed))
    return sp.csr_array(sp.block_array([[sp.eye_array(n), B.T], [B, None]]) + sp.eye_array(n + m))


def shuffled(A, seed):
    p = np.random.default_rng(seed).permutation(A.shape[0])
    return sp.csr_array(A[p][:, p])


def fill(A, perm):
    """Column counts of L by walking up the elimination tree: (nnz(L), sum of their squares)."""
    B = sp.csr_array(A)[perm][:, perm].tocsr()
    n = B.shape[0]
    indptr, indices = B.indptr.tolist(), B.indices.tolist()
    parent, mark, count = [-1] * n, [-1] * n, [1] * n
    for i in range(n):
        mark[i] = i
        for j in indices[indptr[i]:indptr[i + 1]]:
            while j < i and mark[j] != i:
                if parent[j] == -1:
                    parent[j] = i
                count[j] += 1
                mark[j] = i
                j = parent[j]
    count = np.array(count, float)
    return int(count.sum()), float((count ** 2).sum())


def minimum_degree(A, own=None):
    """Exact minimum degree by the definition, with all fill edges; vertices from `own` on are the halo."""
    dense = sp.csr_array(A).toarray() != 0
    np.fill_diagonal(dense, False)
    left, perm = set(range(len(dense) if own is None else own)), []
    while left:
        v = min(left, key=lambda u: (dense[u].sum(), u))
        neighbors = np.flatnonzero(dense[v])
        dense[np.ix_(neighbors, neighbors)] = True
        dense[neighbors, neighbors] = False
        dense[v] = dense[:, v] = False
        left.remove(v)
        perm.append(v)
    return np.array(perm)


def check_perm(o, n):
    assert o.perm.dtype == np.int32 and np.array_equal(np.sort(o.perm), np.arange(n))
    assert o.iperm.dtype == np.int32 and np.array_equal(o.perm[o.iperm], np.arange(n))


def check_tree(o, A):
    """Check that the nodes partition 0..n in postorder, and that edges join a node only with itself or an ancestor."""
    parent, first, last = (np.asarray(x, np.int64) for x in (o.tree.parent, o.tree.first, o.tree.last))
    nodes, n = len(parent), A.shape[0]
    assert np.array_equal(first[1:], last[:-1]) and first[0] == 0 and last[-1] == n and (last > first).all()
    assert ((parent == -1) | (parent > np.arange(nodes))).all() and (parent < nodes).all()
    node = np.repeat(np.arange(nodes), last - first)
    G = sp.coo_array(A)
    a, b = node[o.iperm[G.row]], node[o.iperm[G.col]]
    low, high = np.minimum(a, b), np.maximum(a, b)
    while (climb := (low >= 0) & (low < high)).any():
        low = np.where(climb, parent[low], low)
    assert (low == high).all(), "an edge crosses a separator"
