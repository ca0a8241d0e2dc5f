"""Cuts of surfaces to discs: every result is a disc whose faces lie where they were."""

import numpy as np
import pytest
from mesh.small_meshes import torus

import meshsolve as ms
from meshsolve.mesh.cuts import cut_to_disc


def double_torus():
    """Two tori joined where a face of each is left out."""
    one = torus()
    n, other = len(one.vertices), one.faces[1:, ::-1].copy() + len(one.vertices)
    for a, b in zip(one.faces[0], one.faces[0] + n):
        other[other == b] = a
    moved = one.vertices * [-1, 1, 1] + [7, 0, 0]
    return ms.Mesh(np.vstack([one.vertices, moved]), np.vstack([one.faces[1:], other]))


def cylinder():
    mesh = torus()
    return ms.Mesh(mesh.vertices, mesh.faces[(mesh.faces >= 8).all(axis=1)])


def cone(rings=5, around=12):
    """Rings of different lengths: paths along the short boundary are cheaper than along the long one."""
    mesh = torus(rings + 1, around)
    ring = np.arange(len(mesh.vertices)) // around
    angle = 2 * np.pi * np.arange(len(mesh.vertices)) / around
    x = np.stack([(1 + ring) * np.cos(angle), (1 + ring) * np.sin(angle), 3.0 * ring], 1)
    return ms.Mesh(x, mesh.faces[np.ptp(ring[mesh.faces], axis=1) < 2])


def without(mesh, faces):
    return ms.Mesh(mesh.vertices, np.delete(mesh.faces, faces, axis=0))


TETRAHEDRON = ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
SURFACES = {"sphere": (ms.datasets.icosphere(2), None), "tetrahedron": (TETRAHEDRON, 1), "torus": (torus(), 21),
            "torus with holes": (without(torus(), [5, 60, 130]), None), "cylinder": (cylinder(), None), "cone": (cone(), 6),
            "double torus": (double_torus(), None), "disc": (without(ms.datasets.icosphere(1), [3]), 0),
            "triangle": (ms.Mesh(np.eye(3), [[0, 1, 2]]), 0)}


@pytest.mark.parametrize("name", SURFACES)
def test_the_result_is_a_disc(name):
    mesh, copies = SURFACES[name]
    disc, vertex_of = cut_to_disc(mesh)
    used = np.unique(disc.faces)
    assert len(used) - len(disc.edges) + len(disc.faces) == 1 and len(disc.boundary_loops()) == 1 and disc.is_manifold
    assert len(np.unique(disc.components[used])) == 1
    n = len(mesh.vertices)
    assert np.array_equal(vertex_of[disc.faces], mesh.faces) and np.array_equal(vertex_of[:n], np.arange(n))
    assert np.array_equal(disc.vertices, mesh.vertices[vertex_of]) and (copies is None or len(vertex_of) == n + copies)


@pytest.mark.parametrize("seed", range(6))
def test_random_holes(seed):
    """A double torus or a sphere of random edge lengths without the faces around some vertices."""
    rng, mesh = np.random.default_rng(seed), double_torus() if seed % 2 else ms.datasets.icosphere(3)
    taken, cut = np.zeros(len(mesh.vertices), bool), np.zeros(len(mesh.faces), bool)
    for v in rng.permutation(len(mesh.vertices))[:40]:
        star = (mesh.faces == v).any(axis=1)
        if not taken[mesh.faces[star]].any():
            taken[mesh.faces[star]] = True
            cut |= star
    mesh = without(ms.Mesh(mesh.vertices * rng.uniform(0.5, 2, (len(mesh.vertices), 1)), mesh.faces), cut)
    disc, vertex_of = cut_to_disc(mesh)
    used = np.unique(disc.faces)
    assert len(mesh.boundary_loops()) > 3 and len(disc.boundary_loops()) == 1 and disc.is_manifold
    assert len(used) - len(disc.edges) + len(disc.faces) == 1 and np.array_equal(vertex_of[disc.faces], mesh.faces)


def test_seams_are_short():
    """A cut torus is bounded by both of its shortest loops, twice."""
    disc, _ = cut_to_disc(torus(30, 10))
    assert len(disc.boundary_loops()[0]) == 2 * (30 + 10)


@pytest.mark.parametrize(("mesh", "message"), [
    (ms.Mesh(np.eye(3), np.zeros((0, 3), int)), "must have a face"),
    (ms.Mesh(np.eye(6, 3), [[0, 1, 2], [3, 4, 5]]), "faces 0 and 1 are not connected"),
    (ms.Mesh(np.eye(5, 3), [[0, 1, 2], [0, 1, 3], [1, 0, 4]]), r"edge \(0, 1\) has 3 faces"),
    (ms.Mesh(np.eye(5, 3), [[0, 1, 2], [0, 3, 4]]), "the faces at vertex 0 form several fans"),
    (ms.Mesh(np.eye(4, 3), [[0, 1, 2], [0, 1, 3]]), r"opposite orientations at edge \(0, 1\)"),
    (ms.Mesh(np.random.default_rng(0).random((5, 3)), [[0, 1, 2], [1, 3, 2], [2, 3, 4], [3, 0, 4], [4, 0, 1]]), "must be oriented")],
    ids=["no face", "two components", "three faces at an edge", "two fans", "orientation", "moebius"])
def test_surfaces_that_cannot_be_cut(mesh, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        cut_to_disc(mesh)
