"""Laplacians of graphs, resistances, embeddings, labels, ranks."""

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from hostile.material import N, adjacency, spd, sphere
from hostile.row import Unsymmetric, bad, fine

NAN, NEGATIVE, ONE_WAY = adjacency((6, 7, np.nan)), adjacency((6, 7, -1.0), (7, 6, -1.0)), adjacency((6, 7, 3.0))
TAKES_GRAPH = {"apps.spectral_embedding": ms.apps.spectral_embedding, "apps.pagerank": ms.apps.pagerank, "normalized_laplacian": ms.normalized_laplacian,
               "apps.label_propagation": lambda G: ms.apps.label_propagation(G, [0], [1])}
APART = sp.block_diag([adjacency(), adjacency(), sp.csr_array((1, 1))])


def labels(fixed, values, graph=None):
    return lambda tmp: (ms.apps.label_propagation, (adjacency() if graph is None else graph, fixed, values), {})


def resistances(*pairs, L=None, **options):
    return lambda tmp: (ms.apps.effective_resistances, (ms.graph_laplacian(spd()) if L is None else L, *pairs), options)


ROWS = [
    *[bad(name, given, says, lambda tmp, f=function, G=graph: (f, (G,), {}), error, **where) for name, function in TAKES_GRAPH.items() for given, says, graph, error, where in [
        ("NaN or infinity", "row 6, column 7 holds nan", NAN, ms.InvalidInputError, {}),
        ("a negative weight", "W[6, 7] is -1: weights must be at least 0", NEGATIVE, ms.InvalidInputError, {}),
        ("weights that are not symmetric: a directed graph", "W[7, 6] is 1, but W[6, 7] is 3", ONE_WAY, Unsymmetric, {"row": 7, "column": 6}),
        ("a list of edges with names", "must be a list of edges (i, j) or (i, j, weight) of numbers", [("a", "b"), ("b", "c")], ms.InvalidInputError, {}),
    ]],
    bad("graph_laplacian", "a list with an edge in both directions", "the first between 0 and 1: their weights are added", lambda tmp: (ms.graph_laplacian, ([(0, 1), (1, 2), (1, 0)],), {}), ms.MeshsolveWarning),
    bad("apps.spectral_embedding", "`k` too large for the vertices with edges", "k must be at most 10, the number of vertices with edges minus 2, got 11", lambda tmp: (ms.apps.spectral_embedding, (adjacency(), 11), {})),
    bad("apps.spectral_embedding", "a graph without edges", "the graph has no edge of positive weight", lambda tmp: (ms.apps.spectral_embedding, (np.zeros((5, 5)),), {})),
    bad("graph_laplacian", "a list of edges with and without weights", "edge 1 has 3 numbers, edge 0 has 2", lambda tmp: (ms.graph_laplacian, ([(0, 1), (1, 2, 3.0)],), {})),
    bad("apps.spectral_embedding", "several components", "the graph has 3 components", lambda tmp: (ms.apps.spectral_embedding, (APART,), {}), ms.MeshsolveWarning),
    bad("apps.label_propagation", "a vertex out of range", "fixed has row numbers outside 0..11: 12", labels([N], [1])),
    bad("apps.label_propagation", "no labeled vertex, or all", "fixed must name some of the 12 vertices and leave some to label, got 0", labels([], [])),
    bad("apps.label_propagation", "labels of another length, or no integers", "labels must be 2 integers, one for each vertex of fixed", labels([0, 5], [1.0, 2.0])),
    bad("apps.label_propagation", "a negative label", "labels must be at least 0, got -1 for vertex 5", labels([0, 5], [1, -1])),
    bad("apps.label_propagation", "components without a labeled vertex", "13 vertices, the first 12, cannot be reached from a labeled vertex: label -1", labels([3], [1], APART), ms.MeshsolveWarning),
    bad("apps.pagerank", "a negative weight of a loop", "W[3, 3] is -2: weights must be at least 0", lambda tmp: (ms.apps.pagerank, (adjacency((3, 3, -2.0)),), {})),
    bad("apps.pagerank", "`damping` outside 0 to 1", "damping must be above 0 and below 1, got 1", lambda tmp: (ms.apps.pagerank, (adjacency(),), {"damping": 1.0})),
    bad("apps.pagerank", "a negative entry of `personalization`", "personalization must be at least 0, row 2 holds -1", lambda tmp: (ms.apps.pagerank, (adjacency(), np.where(np.arange(N) == 2, -1.0, 1.0)), {})),
    bad("apps.pagerank", "`personalization` of zeros", "a positive entry in each column, column 0 has none", lambda tmp: (ms.apps.pagerank, (adjacency(), np.zeros(N)), {})),
    bad("apps.pagerank", "`personalization` of another length", "personalization must be (12,) or (12, k), got (5,)", lambda tmp: (ms.apps.pagerank, (adjacency(), np.ones(5)), {})),
    fine("apps.pagerank", "vertices without edges", "have the rank of their jumps", lambda tmp: (ms.apps.pagerank, (APART,), {})),
    bad("apps.effective_resistances", "weights, or another matrix, instead of a Laplacian", "row 0 of L does not sum to 0: a Laplacian is needed", resistances(L=adjacency()), ms.NotLaplacianError, row=0),
    bad("apps.effective_resistances", "a Laplacian that is not symmetric", "L is not symmetric", resistances(L=[[1.0, -1, 0], [0, 1, -1], [-1, 0, 1]]), Unsymmetric, row=None, column=None),
    bad("apps.effective_resistances", "a pair out of range", "pair 1 is (3, 12): vertices are 0 to 11", resistances([(0, 1), (3, N)])),
    bad("apps.effective_resistances", "pairs of another shape or type", "pairs must be (k, 2) integers, got shape (3,)", resistances([0, 1, 2])),
    bad("apps.effective_resistances", "an estimate with negative weights", "has the negative weight -0.5, which estimates do not take", resistances([(0, 2)], L=[[1.5, -2, 0.5], [-2, 4, -2], [0.5, -2, 1.5]], method="estimate"), ms.NotLaplacianError, row=0),
    bad("apps.effective_resistances", "`error` above 1", "at most 1, got 2", resistances(method="estimate", error=2)),
    bad("apps.effective_resistances", "an unknown method", "method must be one of 'auto', 'exact', 'estimate'", resistances(method="fast")),
    fine("apps.effective_resistances", "pairs in different components, or of one vertex", "are infinite, or 0", resistances([(0, 13), (4, 4)], L=ms.graph_laplacian(APART))),
    fine("apps.effective_resistances", "a mesh", "each edge is a resistor of 1", resistances(L=sphere())),
]
