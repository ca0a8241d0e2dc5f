"""The boundary of meshes: edges, vertices and loops, compared with a reference walk and on known surfaces."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_meshes import CORNERS, TETRAHEDRON, random_meshes

from meshsolve import datasets
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import Mesh


def fans_by_hand(v, faces, edges):
    """The fans at v: sets of faces that are connected across edges of two faces."""
    fans = [{f} for f, t in enumerate(faces) if v in t]
    for e, around in edges.items():
        if v in e and len(around) == 2:
            joined = [fan for fan in fans if fan & set(around)]
            fans = [fan for fan in fans if not fan & set(around)] + [set().union(*joined)]
    return fans


def loops_by_hand(faces):
    """Boundary loops by a reference walk: [(start, end, face), ...], or None if a fan has only one end on the boundary."""
    edges = {}
    for f, t in enumerate(faces):
        for c in range(3):
            edges.setdefault(frozenset((t[c], t[(c + 1) % 3])), []).append(f)
    sides = [(t[c], t[(c + 1) % 3], f) for f, t in enumerate(faces) for c in range(3) if len(edges[frozenset((t[c], t[(c + 1) % 3]))]) == 1]
    loops, left = [], list(sides)
    while left:
        loop = [left.pop(0)]
        while True:
            v, f = loop[-1][1], loop[-1][2]
            (fan,) = [fan for fan in fans_by_hand(v, faces, edges) if f in fan]
            ahead = [s for s in sides if v in s[:2] and s[2] in fan and {*s[:2]} != {*loop[-1][:2]}]
            if not ahead:
                return sides, None
            ((a, b, f),) = ahead
            if {a, b} == {*loop[0][:2]} and f == loop[0][2]:
                break
            left.remove((a, b, f))
            loop.append((a, b, f) if a == v else (b, a, f))
        loops.append(loop)
    return sides, loops


@settings(max_examples=300, deadline=None)
@given(random_meshes())
def test_boundary_against_a_walk(case):
    n, faces = case
    mesh = Mesh(np.zeros((n, 3)), faces)
    sides, loops = loops_by_hand(faces.tolist())
    assert mesh.boundary_edges.tolist() == [[a, b] for a, b, _ in sides] and mesh.boundary_edges.shape == (len(sides), 2)
    assert mesh.boundary_vertices.tolist() == sorted({v for s in sides for v in s[:2]})
    assert mesh.boundary_edges.dtype == mesh.boundary_vertices.dtype == np.int32
    if loops is None:
        with pytest.raises(InvalidInputError, match="does not close at vertex"):
            mesh.boundary_loops()
    else:
        assert [loop.tolist() for loop in mesh.boundary_loops()] == [[a for a, _, _ in loop] for loop in loops]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 0.5), st.booleans())
def test_loops_of_a_sphere_with_holes(seed, share, mixed):
    """Without some random faces, several fans meet at vertices. No edge has more than two faces, so every loop closes."""
    rng, sphere = np.random.default_rng(seed), datasets.icosphere(2)
    faces = sphere.faces[rng.random(len(sphere.faces)) >= share]
    if mixed:
        faces = np.where(rng.random((len(faces), 1)) < 0.5, faces[:, ::-1], faces)
    mesh = Mesh(sphere.vertices, faces)
    loops = mesh.boundary_loops()
    walked = np.concatenate([np.stack([loop, np.roll(loop, -1)], axis=1) for loop in loops] or [np.zeros((0, 2), int)])
    by_edge = (np.sort(walked, axis=1), np.sort(mesh.boundary_edges, axis=1)) if mixed else (walked, mesh.boundary_edges)
    assert sorted(by_edge[0].tolist()) == sorted(by_edge[1].tolist())             # each boundary edge once, in its direction
    assert all(len(loop) >= 3 and loop.dtype == np.int32 for loop in loops)
    assert [loop[:2].tolist() for loop in loops] == [e for e in mesh.boundary_edges.tolist() if e in [loop[:2].tolist() for loop in loops]]


def test_boundary_of_known_meshes():
    closed = datasets.icosphere(1)
    assert closed.boundary_loops() == [] and closed.boundary_edges.shape == (0, 2) and closed.boundary_vertices.shape == (0,)
    assert Mesh(CORNERS, []).boundary_loops() == [] and Mesh(CORNERS, []).boundary_vertices.size == 0
    one = Mesh(CORNERS, [[2, 3, 0]])
    assert [loop.tolist() for loop in one.boundary_loops()] == [[2, 3, 0]] and one.boundary_vertices.tolist() == [0, 2, 3]
    bow = Mesh(np.zeros((5, 3)), [[0, 1, 2], [0, 3, 4]])                 # two fans at vertex 0
    assert [loop.tolist() for loop in bow.boundary_loops()] == [[0, 1, 2], [0, 3, 4]]
    strip = Mesh(np.zeros((5, 3)), [[k, (k + 1) % 5, (k + 2) % 5] for k in range(5)])          # a Moebius strip of five triangles
    (loop,) = strip.boundary_loops()
    assert sorted(loop.tolist()) == [0, 1, 2, 3, 4] and sorted((loop - np.roll(loop, 1)) % 5 % 3) in ([2] * 5, [0] * 5)
    book = Mesh(np.zeros((5, 3)), [[0, 1, 2], [0, 1, 3], [0, 1, 4]])
    assert len(book.boundary_edges) == 6
    with pytest.raises(InvalidInputError, match="does not close at vertex [01], where an edge has more than two faces"):
        book.boundary_loops()
    with pytest.raises(ValueError):
        book.boundary_edges[0, 0] = 1


def test_many_loops_take_one_walk():
    k = 100_000
    loops = Mesh(np.zeros((3 * k, 3)), np.arange(3 * k).reshape(k, 3)).boundary_loops()
    assert np.array_equal(np.array(loops), np.arange(3 * k).reshape(k, 3))


def test_moved_meshes_share_the_boundary():
    mesh = Mesh(CORNERS, TETRAHEDRON[:3])
    edges = mesh.boundary_edges
    assert mesh.with_vertices(2 * CORNERS).boundary_edges is edges and mesh.copy().boundary_edges is edges
