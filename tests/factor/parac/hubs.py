"""Graphs of about m edges in which few vertices have most of the neighbors, where simple elimination takes quadratic time."""

import numpy as np
import scipy.sparse as sp


def laplacian(i, j, w=None):
    """The Laplacian of the edges (i, j) of weight w, or 1. Copies of an edge are summed."""
    i, j = (np.concatenate([np.atleast_1d(part) for part in ends]).astype(np.int64) for ends in (i, j))
    n = int(max(i.max(), j.max())) + 1
    w = np.ones(len(i)) if w is None else w
    W = sp.coo_array((np.r_[w, w], (np.r_[i, j], np.r_[j, i])), (n, n)).tocsr()
    return sp.csr_array(sp.diags_array(W.sum(axis=1)) - W)


def decades(count):
    return 10 ** np.random.default_rng(0).uniform(-6, 6, count)


def star(m):
    return laplacian([np.zeros(m)], [np.arange(1, m + 1)])


def star_of_decades(m):
    return laplacian([np.zeros(m)], [np.arange(1, m + 1)], decades(m))


def double_star(m):
    leaves = np.arange(2, m + 1)
    return laplacian([0, leaves % 2], [1, leaves])


def bipartite(r):
    def make(m):
        leaves = np.arange(r, r + m // r)
        return laplacian([np.repeat(np.arange(r), len(leaves))], [np.tile(leaves, r)])
    return make


def two_hubs_of_decades(m):
    leaves = np.arange(2, 2 + m // 2)
    return laplacian([np.zeros(m // 2), np.ones(m // 2)], [leaves, leaves], decades(m // 2 * 2))


def twenty_hubs(m):
    first, leaves = np.random.default_rng(0).integers(0, 20, m // 2), np.arange(20, 20 + m // 2)
    return laplacian([first, (first + leaves % 19 + 1) % 20], [leaves, leaves])


def wheel(m):
    rim = np.arange(1, m // 2 + 1)
    return laplacian([np.zeros(len(rim)), rim], [rim, np.roll(rim, -1)])


def fan(m):
    path = np.arange(1, m // 2 + 1)
    return laplacian([np.zeros(len(path)), path[:-1]], [path, path[1:]])


def double_fan(m):
    path = np.arange(2, m // 3 + 2)
    return laplacian([np.zeros(len(path)), np.ones(len(path)), path[:-1]], [path, path, path[1:]])


def caterpillar(m):
    spine = np.arange(int(m**0.5))
    legs = np.repeat(spine, m // len(spine) - 1)
    return laplacian([spine[:-1], legs], [spine[1:], len(spine) + np.arange(len(legs))])


def growing_caterpillar(m):
    spine = np.arange(int((2 * m) ** 0.5))
    legs = np.repeat(spine, spine)
    return laplacian([spine[:-1], legs], [spine[1:], len(spine) + np.arange(len(legs))])


def multipartite(part):
    """A complete multipartite graph with parts of size part(k), k = 1, 2, ..."""
    def make(m):
        sizes = [part(k) for k in range(1, int((2 * m) ** 0.5) + 1)]
        label = np.repeat(np.arange(len(sizes)), sizes)[:int((2 * m) ** 0.5)]
        i, j = np.triu_indices(len(label), 1)
        between = label[i] != label[j]
        return laplacian([i[between]], [j[between]])
    return make


def book(m):
    pages = np.arange(2, m // 2 + 2)
    return laplacian([0, np.zeros(len(pages)), np.ones(len(pages))], [1, pages, pages])


def friendship(m):
    one = np.arange(1, 2 * (m // 3), 2)
    return laplacian([np.zeros(len(one)), np.zeros(len(one)), one], [one, one + 1, one + 1])


def star_of_stars(m):
    hubs = np.arange(1, int(m**0.5) + 1)
    inner = np.repeat(hubs, len(hubs))
    return laplacian([np.zeros(len(hubs)), inner], [hubs, len(hubs) + 1 + np.arange(len(inner))])


def hubs_on_hubs(m):
    """Each hub has half as many leaves as the hub that it is joined to."""
    i, j, n = [], [], 0
    while m >= 2:
        i += [[max(n - m, 0)], np.full(m // 2, n)]
        j += [[n], n + 1 + np.arange(m // 2)]
        n, m = n + 1 + m // 2, m // 2
    return laplacian(i[1:], j[1:])


def clique_with_pendants(m):
    size, pendants = int(m**0.5), np.arange(m // 2)
    i, j = np.triu_indices(size, 1)
    return laplacian([i, pendants % size], [j, size + pendants])


def lollipop(m):
    size = int(m**0.5)
    i, j = np.triu_indices(size, 1)
    path = np.arange(size - 1, size + m // 2)
    return laplacian([i, path[:-1]], [j, path[1:]])


def half_graph(m):
    i, j = np.triu_indices(int((2 * m) ** 0.5))
    return laplacian([i], [i.max() + 1 + j])


def threshold_graph(m):
    size = int((4 * m) ** 0.5)
    i, j = np.triu_indices(size, 1)
    joined = i + j >= size
    return laplacian([i[joined]], [j[joined]])


def power_law(m):
    """Most edges lead to vertices of small numbers; five planted hubs have a fifth of all vertices each."""
    n, rng = m // 4, np.random.default_rng(0)
    i, j = rng.integers(0, n, 3 * n), (n * rng.random(3 * n) ** 3).astype(int)
    hubs = np.repeat(rng.choice(n, 5, replace=False), n // 5)
    i, j = np.r_[i, hubs], np.r_[j, rng.integers(0, n, len(hubs))]
    return laplacian([i[i != j]], [j[i != j]])


def expander(m):
    i, j = np.random.default_rng(0).integers(0, m // 4, (2, m))
    return laplacian([i[i != j]], [j[i != j]])


def cone(make):
    """The graph of ``make`` and one vertex joined to all others."""
    def joined(m):
        edges = sp.triu(make(m // 2), 1).tocoo()
        n = edges.shape[0]
        return laplacian([edges.row, np.full(n, n)], [edges.col, np.arange(n)], np.r_[-edges.data, np.ones(n)])
    return joined


def grounded(make):
    """The graph of ``make`` with an edge to the ground at each vertex."""
    def with_ground(m):
        L = make(m)
        return sp.csr_array(L + sp.eye_array(L.shape[0]))
    return with_ground


GRAPHS = {
    "star": star, "star of 12 decades": star_of_decades, "double star": double_star,
    "K(2, n)": bipartite(2), "K(3, n)": bipartite(3), "K(10, n)": bipartite(10), "K(50, n)": bipartite(50),
    "K(2, n) of 12 decades": two_hubs_of_decades, "20 hubs": twenty_hubs,
    "wheel": wheel, "fan": fan, "double fan": double_fan, "caterpillar": caterpillar, "growing caterpillar": growing_caterpillar,
    "clique": multipartite(lambda k: 1), "cocktail party": multipartite(lambda k: 2), "K(9, 9, ...)": multipartite(lambda k: 9),
    "K(1, 2, 3, ...)": multipartite(lambda k: k), "book": book, "friendship": friendship, "star of stars": star_of_stars,
    "hubs on hubs": hubs_on_hubs, "clique with pendants": clique_with_pendants, "lollipop": lollipop, "half graph": half_graph,
    "threshold graph": threshold_graph, "power law": power_law, "expander": expander, "cone of a wheel": cone(wheel),
    "cone of K(2, n)": cone(bipartite(2)), "cone of a power law": cone(power_law), "cone of a clique": cone(clique_with_pendants),
    "grounded K(2, n)": grounded(bipartite(2)), "grounded star": grounded(star), "grounded power law": grounded(power_law),
}
