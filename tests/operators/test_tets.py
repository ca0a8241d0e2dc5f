"""Tetrahedra: operators against definitions, exact solutions and spectra of the cube and the ball, and bad input."""

import numpy as np
import pytest
from scipy.spatial import Delaunay

import meshsolve as ms
from meshsolve.operators import divergence, gradient


def box(k):
    """The unit cube in k^3 cubes of six tetrahedra each (Kuhn)."""
    grid = np.stack(np.meshgrid(*[np.arange(k + 1)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    number = np.arange((k + 1) ** 3).reshape(k + 1, k + 1, k + 1)
    at = lambda i, j, l: number[i:k + i, j:k + j, l:k + l].ravel()
    paths = [[(0, 0, 0), *np.cumsum(np.eye(3, dtype=int)[list(order)], axis=0)] for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))]
    cells = np.concatenate([np.stack([at(*corner) for corner in path], axis=1) for path in paths])
    return ms.TetMesh(grid / k, cells, orient=True)


def random_solid(n=60, seed=0):
    points = np.random.default_rng(seed).random((n, 3))
    return ms.TetMesh(points, Delaunay(points).simplices, orient=True)


BOX, SOLID = box(4), random_solid()


def test_the_laplacian_is_that_of_dihedral_angles():
    """-(1/6) sum of l cot a over cells, with the length and dihedral angle of the opposite edge."""
    x, L = SOLID.vertices, ms.cotan_laplacian(SOLID).toarray()
    expected = np.zeros_like(L)
    for cell in SOLID.cells:
        for i, j, k, l in ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2), (1, 2, 0, 3), (1, 3, 0, 2), (2, 3, 0, 1)):
            p, q, a, b = x[cell[[i, j, k, l]]]
            u, v = np.cross(b - a, p - a), np.cross(b - a, q - a)
            cot = u @ v / np.linalg.norm(np.cross(u, v))
            w = np.linalg.norm(b - a) * cot / 6
            expected[[cell[i], cell[j]], [cell[j], cell[i]]] -= w
            expected[[cell[i], cell[j]], [cell[i], cell[j]]] += w
    assert np.allclose(L, expected, atol=1e-9 * abs(expected).max()) and (L == L.T).all()
    assert (L - np.diag(np.diag(L)) > 0).any() and np.linalg.eigvalsh(L).min() > -1e-10 * abs(L).max()          # PSD despite negative weights


@pytest.mark.parametrize("mesh", [BOX, SOLID], ids=["box", "random"])
@pytest.mark.parametrize("scale", [1e-9, 1, 1e9])
def test_gradient_and_divergence(mesh, scale):
    mesh = ms.TetMesh(scale * mesh.vertices, mesh.cells)
    G, L = gradient(mesh), ms.cotan_laplacian(mesh)
    slopes = G @ (mesh.vertices @ [1.0, -2, 3])
    assert np.allclose(slopes.reshape(3, -1).T, [1, -2, 3], atol=1e-6) and abs(G @ np.ones(len(mesh.vertices))).max() * scale < 1e-6
    assert abs(divergence(mesh) @ G + L).max() < 1e-12 * abs(L).max() and G.has_sorted_indices
    inside = np.setdiff1d(np.arange(len(mesh.vertices)), mesh.surface().faces)
    assert abs((L @ mesh.vertices)[inside]).max(initial=0) < 1e-12 * abs(L).max() * scale


def test_masses_sum_to_the_volume():
    lumped, consistent = (ms.mass_matrix(SOLID, kind) for kind in ("lumped", "consistent"))
    f = SOLID.vertices[:, 0] + 2
    assert np.isclose(lumped.sum(), SOLID.volumes.sum()) and np.isclose(consistent.sum(), SOLID.volumes.sum())
    corners = f[SOLID.cells]                                    # the integral of a square of a linear function
    exact = (SOLID.volumes / 20 * (corners.sum(axis=1) ** 2 + (corners**2).sum(axis=1))).sum()
    assert np.isclose(f @ (consistent @ f), exact) and np.array_equal(consistent.indices, ms.cotan_laplacian(SOLID).indices)


def test_the_spectrum_of_the_cube():
    """Neumann: pi^2 (i^2 + j^2 + k^2), from above with consistent masses."""
    mesh = box(6)
    w, _, _ = ms.eigsh(ms.cotan_laplacian(mesh), 7, M=ms.mass_matrix(mesh, "consistent"))
    exact = np.pi**2 * np.array([0, 1, 1, 1, 2, 2, 2])
    assert (w > exact - 1e-9).all() and np.allclose(w, exact, rtol=0.1)


def test_the_surface_is_closed_and_looks_outwards():
    surface = BOX.surface()
    assert np.isclose(surface.volume, 1) and np.isclose(surface.face_areas.sum(), 6) and len(surface.faces) == 6 * 2 * 16
    assert len(surface.boundary_vertices) == 0 and np.isclose(SOLID.surface().volume, SOLID.volumes.sum())


def test_edges_components_and_flat_cells():
    two = ms.TetMesh(np.vstack([SOLID.vertices, SOLID.vertices + 2]), np.vstack([SOLID.cells, SOLID.cells + 60]))
    assert two.components.max() == 1 and (two.components[60:] == 1).all() and (two.edges[:, 0] < two.edges[:, 1]).all()
    assert np.array_equal(two.edges[two.cell_edges[5, 4]], np.sort(two.cells[5, [1, 3]])) and repr(two).startswith("TetMesh(120 vertices")
    flat = ms.TetMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]], [[0, 1, 2, 3], [0, 4, 5, 1]], orient=True)
    for A in (ms.cotan_laplacian(flat), gradient(flat), divergence(flat)):
        assert np.isfinite(A.data).all()
    assert abs(divergence(flat) @ gradient(flat) + ms.cotan_laplacian(flat)).max() < 1e-9 * abs(ms.cotan_laplacian(flat)).max()


def test_skinning_weights_of_a_solid():
    W = ms.apps.skinning_weights(BOX, [0, 124])
    assert W.min() >= 0 and np.allclose(W.sum(axis=1), 1) and np.array_equal(W[[0, 124]], np.eye(2)) and W[62] == pytest.approx([0.5, 0.5], abs=0.02)


def test_tetrahedra_of_meshio():
    meshio = pytest.importorskip("meshio")
    mesh = meshio.Mesh(BOX.vertices, [("triangle", BOX.surface().faces), ("tetra", BOX.cells)])
    assert np.array_equal(ms.TetMesh.from_meshio(mesh).cells, BOX.cells)
    with pytest.raises(ms.InvalidInputError, match="no cells of type tetra"):
        ms.TetMesh.from_meshio(meshio.Mesh(BOX.vertices, [("triangle", BOX.surface().faces)]))


CORNER = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(("vertices", "cells", "message"), [
    (CORNER, [[0, 1, 3, 2]], "cell 0 is inverted, its volume is -0.166667"), (CORNER, [[0, 1, 2, 4]], r"cell 0 has corners \[0, 1, 2, 4\]; the mesh has vertices 0..3"),
    (CORNER, [[0, 1, 2, 3], [0, 1, 1, 2]], "cell 1 has a repeated corner"), (CORNER, [[0, 1, 2]], r"cells must be \(m, 4\) integers"),
    (CORNER, np.zeros((0, 4), int), "cells must be"), (CORNER, [[0, 1, 2, 3.5]], "cells must be"), (np.eye(4), [[0, 1, 2, 3]], "vertices must be"),
    ([[0, 0, np.nan], *CORNER[1:]], [[0, 1, 2, 3]], "vertex 0 is at")])
def test_bad_tetrahedra(vertices, cells, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        ms.TetMesh(vertices, cells)


def test_what_needs_a_surface():
    with pytest.raises(ms.InvalidInputError, match="needs triangles, got a TetMesh"):
        ms.cotan_laplacian(BOX, intrinsic_delaunay=True)
    with pytest.raises(ms.InvalidInputError, match='kind="voronoi" needs triangles'):
        ms.mass_matrix(BOX, "voronoi")
    with pytest.raises(ms.InvalidInputError, match="must be a meshsolve.Mesh, got TetMesh"):
        ms.apps.denoise(BOX)
    with pytest.raises(ValueError, match="read-only"):
        BOX.vertices[0] = 1


def test_tetrahedra_of_higher_order_by_their_corners():
    meshio = pytest.importorskip("meshio")
    middle = np.zeros((len(BOX.cells), 6), int) + np.arange(6) + len(BOX.vertices)
    mesh = meshio.Mesh(np.concatenate([BOX.vertices, np.zeros((6, 3))]), [("tetra10", np.concatenate([BOX.cells, middle], axis=1))])
    with pytest.warns(ms.MeshsolveWarning, match="cells of higher order: read by their corners"):
        assert np.array_equal(ms.TetMesh.from_meshio(mesh).cells, BOX.cells)


def test_two_cells_with_the_same_corners_are_refused():
    """Their volume would count twice, and their common sides would be no surface."""
    for order in ([0, 1, 2, 3, 4, 0], [5, 4, 3, 2, 1, 0, 2]):
        cells = BOX.cells[np.array(order) % len(BOX.cells)].copy()
        cells[-1] = cells[-1][[1, 2, 0, 3]]
        first = int(np.flatnonzero((np.sort(cells[:-1], axis=1) == np.sort(cells[-1])).all(axis=1))[0])
        with pytest.raises(ms.InvalidInputError, match=f"cells {first} and {len(cells) - 1} have the same corners"):
            ms.TetMesh(BOX.vertices, cells)
