"""Bad input: a clear error, and the caller's arrays as they were."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from patch_shapes import MESHES, make_mesh

from meshsolve import device
from meshsolve.errors import DeviceUnavailableError, InvalidInputError
from meshsolve.patches import PatchMesh

GRID = MESHES["grid"]


@each("argument", [dict(patch_size=v) for v in (0, -1, 2.5, 512.0, "512", None, True, np.nan)]
                         + [dict(seed=v) for v in (-1, 0.5, "0", None, False)]
                         + [dict(threads=v) for v in (0, -2, "many", 1.5)])
def test_bad_arguments(argument):
    with pytest.raises(InvalidInputError, match=next(iter(argument))):
        PatchMesh(GRID, **argument)


def test_integers_of_any_kind_are_taken():
    plain = PatchMesh(GRID, patch_size=64, seed=3)
    other = PatchMesh(GRID, patch_size=np.uint8(64), seed=np.int64(3), threads=np.int32(1))
    assert np.array_equal(plain.face_patch, other.face_patch)
    PatchMesh(GRID, seed=2**64 - 1)


def triangle(**tables):
    return SimpleNamespace(**{"vertices": np.zeros((4, 3)), "faces": [[0, 1, 2]], **tables})


@pytest.mark.parametrize("mesh, text", [
    (triangle(faces=[[0, 1, 4]]), "face 0"),
    (triangle(faces=[[0, 1, -2]]), "face 0"),
    (triangle(faces=[[0, 1, 2**32 + 2]]), "face 0"),
    (triangle(faces=[[0, 1, 2, 3]]), "faces"),
    (triangle(faces=[[0.0, 1.0, 2.0]]), "faces"),
    (triangle(faces="faces"), "faces"),
    (triangle(vertices=np.zeros((0, 3))), "vert"),
    (triangle(vertices=None), "vertices"),
    (triangle(vertices=7), "vertices"),
])
def test_bad_meshes(mesh, text):
    with pytest.raises(InvalidInputError, match=text):
        PatchMesh(mesh)


@pytest.mark.parametrize("A", [None, "bunny.obj", 3, object(), np.zeros(4), np.zeros((3, 4)), sp.csr_array((0, 0)),
                               sp.csr_array((2, 5))])
def test_bad_patterns(A):
    with pytest.raises(InvalidInputError):
        PatchMesh(A)


@pytest.mark.parametrize("p", [-1, 10**9, 1.0, "0", None, True, 2**70])
def test_no_such_patch(p):
    P = PatchMesh(GRID, patch_size=64)
    with pytest.raises(InvalidInputError, match="no patch"):
        P.patch(p)
    with pytest.raises(InvalidInputError):
        P.patch(P.num_patches)


@pytest.mark.parametrize("name", ["", "vv", "VX", "VVV", None, 3, "V"])
def test_unknown_query(name):
    with pytest.raises(InvalidInputError, match="name must be one of"):
        PatchMesh(GRID).query(name)


@pytest.mark.parametrize("name", ["VF", "FV", "FE", "FF", "EF"])
def test_patterns_have_no_faces(name):
    with pytest.raises(InvalidInputError, match="faces"):
        PatchMesh(sp.eye_array(4)).query(name)


def test_devices():
    P = PatchMesh(GRID)
    if not device.available():
        with pytest.raises(DeviceUnavailableError, match="CuPy"):
            P.query("VV", device="cuda")
    with pytest.raises(InvalidInputError, match="device"):
        P.query("VV", device="tpu")


def test_input_stays_as_it_was_and_results_are_read_only():
    mesh = make_mesh(4, [[0, 1, 2], [2, 1, 3]])
    before = mesh.faces.copy(), mesh.edges.copy()
    P = PatchMesh(mesh)
    assert np.array_equal(mesh.faces, before[0]) and np.array_equal(mesh.edges, before[1]) and mesh.faces.flags.writeable
    for array in (P.vertex_patch, P.edge_patch, P.face_patch, P.patch(0).ltog_vertices, P.patch(0).ev, P.patch(0).fe):
        with pytest.raises(ValueError):
            array[0] = 1
    with pytest.raises(AttributeError):
        P.patch(0).ev = None
