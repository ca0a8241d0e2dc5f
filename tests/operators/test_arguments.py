"""Meshes as vertices and faces, directed graphs."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms

BALL = ms.datasets.icosphere(1)
V, F = BALL.vertices, BALL.faces
FUNCTIONS = {"cotan_laplacian": ms.cotan_laplacian, "mass_matrix": ms.mass_matrix, "gradient": ms.operators.gradient, "divergence": ms.operators.divergence}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vertices_and_faces_are_a_mesh(name):
    function = FUNCTIONS[name]
    expected = function(BALL).toarray()
    for result in (function(V, F), function((V, F)), function(V.tolist(), F.tolist()), function((V.tolist(), F.tolist())), function(mesh=(V, F))):
        assert np.array_equal(result.toarray(), expected)
    with pytest.raises(ms.InvalidInputError, match="face 0 refers to vertex"):
        function(V[:3], F)
    with pytest.raises(ms.InvalidInputError, match=r"make one with Mesh\(vertices, faces\)"):
        function(V)


def test_other_arguments_keep_their_positions():
    assert np.array_equal(ms.mass_matrix(V, F, "voronoi").toarray(), ms.mass_matrix(BALL, "voronoi").toarray())
    assert np.array_equal(ms.cotan_laplacian(V, F, True).toarray(), ms.cotan_laplacian(BALL, True).toarray())
    assert np.array_equal(ms.cotan_laplacian(V, F, intrinsic_delaunay=True).toarray(), ms.cotan_laplacian(BALL, True).toarray())


@pytest.mark.filterwarnings("ignore:the surface has collapsed")          # a coarse mesh
def test_a_tuple_is_a_mesh_everywhere():
    L = ms.cotan_laplacian(BALL) + ms.mass_matrix(BALL)
    for take in (ms.graph_laplacian, lambda m: ms.graph_laplacian(m, weights=np.ones(len(BALL.edges))), lambda m: ms.PatchMesh(m).query("FV")[1],
                 lambda m: ms.order.amd(m).perm, lambda m: ms.order.nested_dissection(m).perm, lambda m: ms.cholesky(L, mesh=m).perm,
                 lambda m: ms.apps.smooth(m, 1.0)[0].vertices, lambda m: ms.apps.mcf(m)[0].vertices, lambda m: ms.Mesh(m).vertices):
        ours, theirs = take((V, F)), take(BALL)
        assert np.array_equal(*(x.toarray() if sp.issparse(x) else x for x in (ours, theirs)))
    assert ms.graph_laplacian(((2, 1), (1, 2))).shape == (2, 2)          # a matrix as rows is no mesh


def test_the_error_of_arrays_as_mesh_names_mesh():
    for call in (lambda: ms.apps.smooth(V, 1.0), lambda: ms.apps.mcf(V), lambda: ms.apps.smooth(V.tolist())):
        with pytest.raises(ms.InvalidInputError, match=r"make one with Mesh\(vertices, faces\)"):
            call()


def test_directed_graphs_give_a_warning():
    A = sp.csr_array(([1.0, 1.0, 1.0, 4.0, 1.0], ([0, 1, 1, 1, 2], [1, 0, 2, 1, 0])), shape=(3, 3))
    for given in (A, A.toarray(), A.tocoo()):
        with pytest.warns(ms.MeshsolveWarning, match=r"not symmetric: 2 entries without a mirror entry, the first at row 2, column 0.*A \+ A.T"):
            L = ms.graph_laplacian(given)
        assert np.array_equal(L.toarray(), 3 * np.eye(3) - 1)
    with pytest.warns(ms.MeshsolveWarning, match="1 entry without a mirror entry, the first at row 0, column 1"):
        ms.graph_laplacian([[0, 1], [0, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in (A + A.T, BALL, sp.csr_array(np.diag([1.0, 2.0])), [[1.0, 2.0], [3.0, 1.0]]):
            ms.graph_laplacian(given)
