"""Attacks on graph operators and on what is computed from graphs."""

import numpy as np
import scipy.linalg
import scipy.sparse as sp

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack


def graph(rng, decades=4.0):
    """Symmetric nonnegative weights (n, n): one or several components, isolated vertices, scales apart."""
    n = max(axes.size(rng, 30), 1)
    L = axes.laplacian(rng, n, int(rng.integers(1, 4)), decades)
    return np.diag(np.diag(L)) - L


@attack("graph_laplacian", "operators.graph_laplacian", "normalized_laplacian", "operators.normalized_laplacian")
def laplacians(rng):
    """Isolated vertices, several components, weights of many scales. Oracle: the definition, in dense arithmetic."""
    W = graph(rng)
    d = W.sum(axis=1)
    L = ms.graph_laplacian(axes.layout(rng, W), weights="unit").toarray()
    U = (W != 0).astype(float)
    assert np.array_equal(L, np.diag(U.sum(axis=1)) - U), "unit weights"
    N = ms.normalized_laplacian(axes.layout(rng, W)).toarray()
    s = np.where(d > 0, 1 / np.sqrt(np.where(d > 0, d, 1)), 0)
    right = np.diag((d > 0) * 1.0) - W * s[:, None] * s
    assert abs(N - right).max() < 1e-14, "normalized"


@attack("apps.pagerank")
def pagerank(rng):
    """Isolated vertices, several components, scales apart, damping near 0 and 1. Oracle: the dense linear system."""
    W = graph(rng)
    n, damping = len(W), float(rng.choice([0.1, 0.5, 0.85, 0.99]))
    d = W.sum(axis=1)
    p = None if rng.random() < 0.5 else rng.integers(0, 3, n) + (np.arange(n) == 0)
    x, info = ms.apps.pagerank(axes.layout(rng, W), personalization=p, damping=damping)
    q = np.full(n, 1 / n) if p is None else p / p.sum()
    T = W / np.where(d > 0, d, 1)[None, :] + np.outer(q, d == 0)             # a walk restarts from vertices without edges
    right = np.linalg.solve(np.eye(n) - damping * T, (1 - damping) * q)
    assert abs(x.sum() - 1) < 1e-9 and (not info.converged or abs(x - right).max() < 1e-8), f"error {abs(x - right).max():.2g}"


@attack("apps.effective_resistances")
def resistances(rng):
    """All pairs asked for, pairs of one vertex, of two components. Oracle: the pseudoinverse of each component."""
    W = graph(rng, float(rng.choice([0, 4, 10])))
    n = len(W)
    L = np.diag(W.sum(axis=1)) - W
    groups = sp.csgraph.connected_components(sp.csr_array(W))[1]
    pairs = rng.integers(n, size=(int(rng.integers(1, 9)), 2))
    r, _ = ms.apps.effective_resistances(axes.layout(rng, L), pairs, method="exact" if rng.random() < 0.5 else "auto")
    for (a, b), value in zip(pairs, r):
        if groups[a] != groups[b]:
            assert np.isinf(value), f"{value} between two components"
            continue
        rows = np.flatnonzero(groups == groups[a])
        keep = rows[rows != b]
        e = (keep == a) * 1.0
        d = np.sqrt(L.diagonal()[keep])
        scaled = L[np.ix_(keep, keep)] / d[:, None] / d
        right = 0.0 if a == b else float((np.linalg.solve(scaled, e / d) / d)[keep == a][0])
        kappa = np.linalg.cond(scaled) if len(keep) else 1
        assert abs(value - right) <= 1e-13 * max(kappa, 1e2) * right + 1e-300, f"{value} instead of {right}, condition {kappa:.2g}"


@attack("apps.label_propagation")
def labels(rng):
    """Components without labels, all vertices labeled, one class, repeated labels. Oracle: the harmonic function by LAPACK."""
    W = graph(rng, 2)
    n = len(W)
    L = np.diag(W.sum(axis=1)) - W
    fixed = rng.permutation(n)[:int(rng.integers(1, max(n, 2)))]
    given = rng.choice([3, 5, 8], len(fixed))
    found, P, info = ms.apps.label_propagation(axes.layout(rng, W), fixed, given)
    classes = np.unique(given)
    free = np.setdiff1d(np.arange(n), fixed)
    groups = sp.csgraph.connected_components(sp.csr_array(W))[1]
    reached = np.isin(groups, groups[fixed])
    right = np.zeros((n, len(classes)))
    right[fixed] = given[:, None] == classes
    inner = free[reached[free]]
    if len(inner):
        right[inner] = np.linalg.solve(L[np.ix_(inner, inner)], -L[np.ix_(inner, fixed)] @ right[fixed])
    assert info.converged and abs(P - right).max() < 1e-6, f"probabilities differ by {abs(P - right).max():.2g}"
    clear = reached & (np.sort(right, axis=1)[:, -1] - (np.sort(right, axis=1)[:, -2] if len(classes) > 1 else 0) > 1e-6)
    assert np.array_equal(found[clear], classes[right.argmax(axis=1)][clear]) and (found[~reached] == -1).all(), "labels differ"


@attack("apps.spectral_embedding", quick=10)
def embedding(rng):
    """Several components, isolated vertices, more pairs than there are. Oracle: LAPACK on the normalized Laplacian."""
    W = graph(rng, float(rng.choice([0, 2])))
    n, k, normalized = len(W), int(rng.integers(1, 5)), bool(rng.integers(2))
    d = W.sum(axis=1)
    if k > n:
        return
    values, X, info = ms.apps.spectral_embedding(axes.layout(rng, W), k, normalized=normalized)
    if not info.converged:
        return
    some = d > 0 if normalized else np.ones(n, bool)
    L = (np.diag(d) - W)[np.ix_(some, some)]
    M = np.diag(d[some]) if normalized else np.eye(int(some.sum()))
    right = np.sort(np.r_[scipy.linalg.eigh(L, M, eigvals_only=True), np.zeros(int((~some).sum()))])
    size = max(right.max(initial=0), 1e-300)
    assert any(abs(values - right[s:s + len(values)]).max(initial=0) <= 1e-7 * size for s in range(n - len(values) + 1)), f"{values} are not among {right[:8]}"
