"""Attacks on orderings and patches: permutations, separators, determinism."""

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed


def pattern(rng):
    """A symmetric pattern: random, star, path, dense rows, several components, isolated rows, no row at all."""
    n = axes.size(rng, 300)
    kind = int(rng.integers(5))
    P = sp.random_array((n, n), density=min(1, 3 / max(n, 1)), rng=rng) if n else sp.csr_array((0, 0))
    if kind == 1 and n > 1:
        P = sp.coo_array((np.ones(n - 1), (np.zeros(n - 1, int), np.arange(1, n))), shape=(n, n))
    elif kind == 2 and n > 1:
        P = sp.coo_array((np.ones(n - 1), (np.arange(n - 1), np.arange(1, n))), shape=(n, n))
    elif kind == 3 and n > 1:
        k = max(int(np.sqrt(n)), 1)
        P = sp.csr_array(ms.datasets.grid2d(k, max(n // k, 1)))
    P = sp.csr_array(P)
    P = sp.csr_array(P + P.T)
    if kind == 4:
        P = sp.csr_array(P.shape)
    return sp.csr_array(P + sp.eye_array(P.shape[0]))


@attack("order.amd", "order.auto", "order.natural", "order.nested_dissection", "order.nnz_sort", "order.random", "order.rcm", "order.update", "Ordering.iperm")
def permutations(rng):
    """Every method on stars, paths, empty and dense patterns. Oracle: a permutation, its inverse, the same one on any number of threads."""
    A = pattern(rng)
    n = A.shape[0]
    if not n:
        return
    seed = int(rng.integers(100))
    with well_posed("a symmetric pattern"):
        for name in ("amd", "auto", "natural", "nested_dissection", "nnz_sort", "random", "rcm"):
            method = getattr(ms.order, name)
            o = method(A, seed=seed) if name in ("auto", "nested_dissection", "nnz_sort", "random") else method(A)
            assert np.array_equal(np.sort(o.perm), np.arange(n)) and np.array_equal(o.iperm[o.perm], np.arange(n)), f"{name} is no permutation"
        one, two = (ms.order.nested_dissection(A, seed=seed, threads=t) for t in (1, 2))
        assert np.array_equal(one.perm, two.perm), "another ordering on two threads"
        again = ms.order.update(one, A)
        assert np.array_equal(np.sort(again.perm), np.arange(n))
        assert np.array_equal(ms.cholesky(A + n * sp.eye_array(n), ordering=one).perm, ms.cholesky(A + n * sp.eye_array(n), ordering=one.perm).perm)


@attack("order.SeparatorTree.partition", "order.nested_dissection")
def separators(rng):
    """Trees of nested dissection. Oracle: no entry of A joins two subtrees: separators separate."""
    A = pattern(rng)
    n = A.shape[0]
    if not n:
        return
    o = ms.order.nested_dissection(A, seed=int(rng.integers(100)))
    if o.tree is None:
        return
    tree, at = o.tree, o.iperm
    node = np.searchsorted(np.asarray(tree.last), at, side="right")
    parent, first = np.asarray(tree.parent), np.asarray(tree.first)
    assert ((first[node] <= at) & (at < np.asarray(tree.last)[node])).all(), "positions outside of all nodes"
    ancestors = [set()] * len(parent)
    for k in range(len(parent) - 1, -1, -1):
        ancestors[k] = {k} | (ancestors[parent[k]] if parent[k] >= 0 else set())
    C = sp.coo_array(A)
    for a, b in {(min(p, q), max(p, q)) for p, q in zip(node[C.row].tolist(), node[C.col].tolist()) if p != q}:
        assert b in ancestors[a] or a in ancestors[b], f"an entry joins the nodes {a} and {b}"
    sizes, _ = tree.partition(int(rng.integers(1, 4)))
    assert sum(sizes) <= n


@attack("order.partition")
def parts(rng):
    """More parts than rows, one part, weights of many scales. Oracle: each row has a part, and no part outweighs its share by far."""
    A = pattern(rng)
    n = A.shape[0]
    k = int(rng.choice([1, 2, 3, 7, max(n, 1), n + 5]))
    weights = None if rng.random() < 0.5 else rng.integers(1, 5, n)
    try:
        part = ms.order.partition(A, k, weights=weights, seed=int(rng.integers(100)))
    except ms.InvalidInputError:
        assert k > n or n == 0, "a possible partition was refused"
        return
    w = np.ones(n) if weights is None else weights
    assert part.shape == (n,) and part.min(initial=0) >= 0 and part.max(initial=0) < k
    heaviest = np.bincount(part, w, minlength=k).max(initial=0)
    assert heaviest <= 1.5 * w.sum() / k + 4 * w.max(initial=0) + 8, f"a part weighs {heaviest} of {w.sum()} in {k} parts"


@attack("PatchMesh.edge_patch", "PatchMesh.face_patch", "PatchMesh.vertex_patch", "PatchMesh.num_patches", "PatchMesh.patch", "PatchMesh.query", "PatchMesh.quotient_graph",
        "PatchMesh.reduce", "PatchMesh.vertex_weights", quick=60)
def patches(rng):
    """Small and large patches of closed, open and disconnected meshes. Oracle: adjacency by sets of Python."""
    V, F = axes.sphere(rng, 1) if rng.random() < 0.5 else axes.grid(rng, int(rng.integers(1, 6)))
    if rng.random() < 0.3:
        V, F = np.concatenate([V, V + 9]), np.concatenate([F, F + len(V)])
    with well_posed("a manifold mesh"):
        P = ms.PatchMesh(ms.Mesh(V, F), patch_size=int(rng.choice([4, 16, 512])), seed=int(rng.integers(9)))
        pointers, neighbors = P.query("VV")
        values = rng.integers(-9, 9, len(V)).astype(float)
        sums = P.reduce("VV", values)
    near = [set() for _ in V]
    for a, b, c in F.tolist():
        near[a] |= {b, c}
        near[b] |= {a, c}
        near[c] |= {a, b}
    rows = [neighbors[pointers[v]:pointers[v + 1]].tolist() for v in range(len(V))]
    assert all(set(r) == s and len(r) == len(s) for r, s in zip(rows, near)), "neighbors differ"
    assert np.array_equal(sums, [sum(values[u] for u in s) for s in near]), "sums differ"
    assert len(P.face_patch) == len(F) and len(P.vertex_patch) == len(V) and P.face_patch.max() < P.num_patches
    assert np.array_equal(np.bincount(P.vertex_patch, minlength=P.num_patches), P.vertex_weights)
    Q = P.quotient_graph().toarray()
    across = P.vertex_patch[np.asarray(ms.Mesh(V, F).edges)]
    assert np.array_equal(Q, Q.T) and np.triu(Q, 1).sum() == (across[:, 0] != across[:, 1]).sum(), "edges between patches differ"
