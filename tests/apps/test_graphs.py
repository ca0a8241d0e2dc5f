"""Tasks on graphs against dense references, networkx and scikit-learn."""

import networkx as nx
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

import meshsolve as ms
from meshsolve.apps import graphs
from meshsolve.apps.graphs import resistances


def weighted(n=60, edges=110, seed=0):
    """A random graph with weights between 0.5 and 2, as a networkx graph and a dense matrix."""
    G = nx.gnm_random_graph(n, edges, seed=seed)
    G.add_edges_from((k, k + 1) for k in range(n - 1))
    rng = np.random.default_rng(seed)
    nx.set_edge_attributes(G, {e: rng.uniform(0.5, 2) for e in G.edges}, "weight")
    return G, nx.to_numpy_array(G)


def laplacian(W):
    return np.diag(W.sum(axis=1)) - W


def two_parts():
    """Two weighted components of 30 vertices, and an isolated vertex."""
    W = weighted(30, 50)[1]
    return sp.csr_array(sp.block_diag([W, 2 * W, sp.csr_array((1, 1))]))


# ---- normalized Laplacian -----------------------------------------------------------------------------------------------


def test_normalized_laplacian_against_networkx_and_scipy():
    G, W = weighted()
    N = ms.normalized_laplacian(G)
    assert abs(N - nx.normalized_laplacian_matrix(G)).max() < 1e-14 and (N != N.T).nnz == 0
    assert abs(ms.normalized_laplacian(sp.csr_array(W)) - N).max() == 0
    W[3, 3] = 5.0                                                       # loops do not count
    for weights in (W, two_parts().toarray()):
        assert np.allclose(ms.normalized_laplacian(weights).toarray(), sp.csgraph.laplacian(weights, normed=True), atol=1e-14)
    mesh = ms.datasets.icosphere(1)
    assert np.array_equal(ms.normalized_laplacian(mesh).toarray(), ms.normalized_laplacian(mesh.edges).toarray())


def test_normalized_laplacian_of_any_scale():
    W = weighted()[1]
    N = ms.normalized_laplacian(W).toarray()
    for scale in (1e-300, 1e300):
        assert np.allclose(ms.normalized_laplacian(W * scale).toarray(), N, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-310, 1e-150, 1e150, 1e300])
def test_results_do_not_depend_on_the_unit_of_weights(scale):
    W = weighted()[1]
    tolerance = 1e-9 if scale > 1e-300 else 1e-6                        # such weights have few digits, and resistances are infinite
    tasks = (lambda W: ms.apps.pagerank(W)[0], lambda W: ms.apps.label_propagation(W, [3, 30], [0, 1])[1],
             lambda W: abs(ms.apps.spectral_embedding(W, 2)[1] * np.sqrt(W.sum())),
             lambda W: ms.apps.effective_resistances(ms.graph_laplacian(W, "values"))[0] * W.max())
    for task in tasks if scale > 1e-300 else tasks[:2]:
        np.testing.assert_allclose(task(W * scale), task(W), rtol=tolerance, atol=tolerance)


# ---- spectral embedding -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("n", [60, 320])                                # dense, and by Lanczos
def test_spectral_embedding_against_a_dense_reference(n, normalized):
    G, W = weighted(n, 2 * n)
    L, D = laplacian(W), np.diag(W.sum(axis=1)) if normalized else np.eye(n)
    values, vectors = scipy.linalg.eigh(L, D, subset_by_index=[1, 3])
    w, X, info = ms.apps.spectral_embedding(G, 3, normalized=normalized)
    assert info.converged and len(info.residuals) == 3 and np.allclose(w, values, rtol=1e-8)
    assert np.allclose(abs((X * (D @ vectors)).sum(axis=0)), 1, atol=1e-7)
    assert np.array_equal(X, ms.apps.spectral_embedding(W, 3, normalized=normalized, threads=1)[1])


@pytest.mark.slow
def test_spectral_embedding_against_scikit_learn():
    manifold = pytest.importorskip("sklearn.manifold")
    W = sp.csr_array(weighted(200, 600)[1])
    for normalized in (True, False):
        theirs = manifold.spectral_embedding(W, n_components=4, norm_laplacian=normalized, random_state=0)
        assert np.allclose(abs(ms.apps.spectral_embedding(W, 4, normalized=normalized)[1]), abs(theirs), atol=1e-7)


@pytest.mark.parametrize("W", [sp.csr_array(nx.to_scipy_sparse_array(nx.random_regular_graph(6, 1500, seed=1), dtype=float)),
                               sp.csr_array(abs(sp.triu(L := ms.datasets.preferential(1500, 6), 1) + sp.tril(L, -1)))],
                         ids=["regular", "hubs"])
def test_spectral_embedding_without_small_separators(W, monkeypatch):
    """A graph whose factor is estimated to be large is embedded by LOBPCG, to the same coordinates."""
    w, X, info = ms.apps.spectral_embedding(W, 3)
    assert info.method == "lanczos" and not graphs._fills(ms.graph_laplacian(ms.datasets.grid3d(12), "unit"), 1)
    monkeypatch.setattr(graphs, "FILLED", 1000.0)
    assert not graphs._fills(ms.datasets.grid2d(80, 80), 1)
    v, Y, found = ms.apps.spectral_embedding(W, 3)
    assert found.method == "lobpcg" and found.converged and np.allclose(v, w, rtol=1e-8)
    assert np.allclose(np.linalg.svd(X.T @ (W.sum(axis=1)[:, None] * Y))[1], 1, atol=1e-6)          # one space: eigenvalues are close
    assert np.array_equal(Y, ms.apps.spectral_embedding(W, 3)[1])


def test_spectral_embedding_of_several_components():
    with pytest.warns(ms.MeshsolveWarning, match="3 components"):
        w, X, info = ms.apps.spectral_embedding(two_parts(), 2)
    assert w[0] == pytest.approx(0, abs=1e-10) and w[1] > 1e-3 and X[-1].tolist() == [0, 0]
    assert np.ptp(X[:30, 0]) < 1e-6 and np.ptp(X[30:60, 0]) < 1e-6


# ---- resistances --------------------------------------------------------------------------------------------------------


def exact(W, i, j):
    Z = np.linalg.pinv(laplacian(W), rtol=1e-10, hermitian=True)
    return Z[i, i] + Z[j, j] - 2 * Z[i, j]


def test_resistances_of_all_edges():
    G, W = weighted()
    i, j = np.nonzero(np.triu(W))
    r, report = ms.apps.effective_resistances(G)
    np.testing.assert_allclose(r, exact(W, i, j), rtol=1e-11)
    assert (W[i, j] * r).sum() == pytest.approx(59)                     # Foster's theorem
    assert report.facts["method"] == "selected inverse" and report.facts["standard_error"] == 0
    assert np.array_equal(r, ms.apps.effective_resistances(ms.graph_laplacian(G, "values"), np.stack([j, i], axis=1), threads=1)[0])


@pytest.mark.parametrize("pairs, method", [
    (np.random.default_rng(0).integers(0, 60, (40, 2)), "solves"), (np.stack([np.zeros(60, int), np.arange(60)], axis=1), "solves"),
    ([(5, 7)], "solves"), ([], "solves"), ([(4, 4), (4, 5)], "solves")], ids=["random", "star", "one", "none", "same"])
def test_resistances_of_pairs(pairs, method):
    W = weighted()[1]
    i, j = np.asarray(pairs, int).reshape(-1, 2).T
    r, report = ms.apps.effective_resistances(ms.graph_laplacian(W, "values"), pairs)
    np.testing.assert_allclose(r, exact(W, i, j), atol=1e-12)
    assert (r[i == j] == 0).all() and report.facts["method"] == method
    estimate, report = ms.apps.effective_resistances(laplacian(W), pairs, method="estimate", seed=3)
    np.testing.assert_allclose(estimate, exact(W, i, j), atol=1e-8)
    assert report.facts["method"] == "iterations"


def test_a_side_of_few_vertices_takes_a_solve_for_each(monkeypatch):
    """With a cheap inverse: the diagonal and three columns, in two components."""
    monkeypatch.setattr(resistances, "INVERSE", 0)
    W = two_parts()
    i, j = np.repeat([4, 31, 59], 60), np.tile(np.arange(60), 3)
    i, j = np.where(j % 2, i, j), np.where(j % 2, j, i)
    i[::2], j[::2] = j[::2].copy(), i[::2].copy()
    r, _ = ms.apps.effective_resistances(ms.graph_laplacian(W, "values"), np.stack([i, j], axis=1))
    together = (i < 30) == (j < 30)
    np.testing.assert_allclose(r[together], exact(W.toarray(), i, j)[together], atol=1e-12)
    assert np.isinf(r[~together]).all() and together.any() and not together.all()


def test_estimated_resistances_have_the_stated_error():
    G, W = weighted(100, 500)
    i, j = np.nonzero(np.triu(W))
    r, report = ms.apps.effective_resistances(G, method="estimate", error=0.1)
    assert report.facts["method"] == "projections" and report.facts["standard_error"] == pytest.approx(0.1)
    assert np.std(r / exact(W, i, j) - 1) == pytest.approx(0.1, rel=0.25)
    again, _ = ms.apps.effective_resistances(G, method="estimate", error=0.1, threads=1)
    assert np.array_equal(r, again)


def test_resistances_are_estimated_if_the_factor_does_not_fit(monkeypatch):
    def too_large(*arguments, **options):
        raise ms.OutOfMemoryError("the factor takes 99.00 GiB")

    monkeypatch.setattr(resistances, "cholesky", too_large)
    G, W = weighted()
    with pytest.warns(ms.MeshsolveWarning, match="takes 99.00 GiB; the resistances are estimated"):
        r, report = ms.apps.effective_resistances(G)
    np.testing.assert_allclose(r, exact(W, *np.nonzero(np.triu(W))), rtol=1e-7)             # fewer edges than projections
    assert report.facts["method"] == "iterations"
    with pytest.raises(ms.OutOfMemoryError):
        ms.apps.effective_resistances(G, method="exact")


# ---- labels -------------------------------------------------------------------------------------------------------------


def test_labels_are_harmonic():
    G, W = weighted()
    fixed, labels = np.array([50, 3, 17, 29]), np.array([9, 4, 4, 0])
    found, P, info = ms.apps.label_propagation(G, fixed, labels)
    one_hot = (labels[:, None] == [0, 4, 9]).astype(float)
    free = np.setdiff1d(np.arange(60), fixed)
    L = laplacian(W)
    expected = np.zeros((60, 3))
    expected[fixed] = one_hot
    expected[free] = np.linalg.solve(L[np.ix_(free, free)], -L[np.ix_(free, fixed)] @ one_hot)
    np.testing.assert_allclose(P, expected, atol=1e-7)
    assert np.array_equal(found, np.array([0, 4, 9])[expected.argmax(axis=1)]) and info.converged
    mask, of_all = np.zeros(60, bool), np.zeros(60, int)
    mask[fixed], of_all[fixed] = True, labels
    assert np.array_equal(ms.apps.label_propagation(W, mask, of_all, threads=1)[0], found)


def test_balanced_labels_have_the_mass_of_their_class():
    classes = [0, 2, 2, 2]
    with pytest.warns(ms.MeshsolveWarning, match="1 vertex, the first 60"):
        plain, P, _ = ms.apps.label_propagation(two_parts(), [3, 17, 29, 31], classes)
        labels, Q, _ = ms.apps.label_propagation(two_parts(), [3, 17, 29, 31], classes, balance=True)
    reached = plain >= 0
    scaled = P[reached] / P.sum(axis=0) * [1, 3]
    assert np.allclose(Q[reached], scaled / scaled.sum(axis=1, keepdims=True)) and not Q[~reached].any()
    assert np.array_equal(labels[reached], np.array([0, 2])[scaled.argmax(axis=1)]) and (labels[~reached] == -1).all()


def test_labels_do_not_reach_other_components():
    with pytest.warns(ms.MeshsolveWarning, match="31 vertices, the first 30, cannot be reached"):
        found, P, _ = ms.apps.label_propagation(two_parts(), [2, 20], [1, 0])
    assert (found[30:] == -1).all() and (found[:30] >= 0).all() and not P[30:].any() and np.allclose(P[:30].sum(axis=1), 1)
    found, P, info = ms.apps.label_propagation(weighted()[1], 7, [3])           # one class
    assert (found == 3).all() and P.shape == (60, 1) and info.converged


# ---- PageRank -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loops", [False, True])
def test_pagerank_against_networkx(loops):
    G = weighted()[0]
    G.add_node(60)                                                      # without edges
    if loops:
        G.add_edge(5, 5, weight=3.0)
    for jumps in (None, {4: 1.0, 60: 2.0}):
        theirs = nx.pagerank(G, 0.9, personalization=jumps, tol=1e-14, max_iter=2000, dangling=jumps)
        given = None if jumps is None else np.array([jumps.get(v, 0.0) for v in G])
        ranks, info = ms.apps.pagerank(G, given, damping=0.9)
        np.testing.assert_allclose(ranks, [theirs[v] for v in G], atol=1e-11)
        assert info.converged and ranks.sum() == pytest.approx(1)


def test_pagerank_of_several_walkers():
    W, rng = two_parts(), np.random.default_rng(0)
    jumps = rng.random((61, 3)) * [1, 1e-200, 1e200]
    ranks, _ = ms.apps.pagerank(W, jumps)
    for k in range(3):
        assert np.allclose(ranks[:, k], ms.apps.pagerank(W, jumps[:, k], threads=1)[0], atol=1e-12)
    assert ms.apps.pagerank(ms.datasets.icosphere(1))[0].sum() == pytest.approx(1)
    with pytest.raises(ms.NotSymmetricError, match="undirected graph"):
        ms.apps.pagerank(np.triu(np.ones((4, 4))))
