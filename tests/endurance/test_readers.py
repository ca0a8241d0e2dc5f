"""Readers fed damaged files: an answer or a MeshsolveError that begins with the file's name, in bounded time and memory.

MESHSOLVE_ENDURANCE_FILES=10000 is the long run; a file that fails is kept in MESHSOLVE_ENDURANCE_KEEP, if that is set.
"""

import gzip
import io
import json
import os
import pathlib
import struct
import time
import warnings

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from endurance.mutations import mutate
from mesh.gltf_files import TETRAHEDRON, add, add_view, packed, tetrahedron

import meshsolve as ms
from meshsolve.datasets import load_matrix

pytestmark = pytest.mark.native
COUNT = int(os.environ.get("MESHSOLVE_ENDURANCE_FILES", 200))
KEEP = os.environ.get("MESHSOLVE_ENDURANCE_KEEP")
SECONDS = 600               # CPU seconds for one file; good files take milliseconds

OBJ = b"""# a square with texture, a pentagon, a patch
mtllib a.mtl
o first
v 0 0 0
v 1.0e0 0 0 1.0
v 1 1 0 0.5 0.5 0.5
v +0 1 -0
vt 0 0
vn 0 0 1
usemtl wood
f 1/1/1 2/1/1 3/1/1 \\
  4/1/1
g second
v 2 2 2
f -1 -2 -3
f 1//1 3//1 5//1
s off
l 1 2
"""
PLY = b"""ply
format ascii 1.0
comment made by hand
element vertex 4
property float x
property float y
property float z
property uchar red
element face 2
property list uchar int vertex_indices
end_header
0 0 0 255
1 0 0 255
1 1 0 0
0 1 0 7
3 0 1 2
4 0 1 2 3
"""
POLYGONS = PLY[:PLY.index(b"0 0 0 255")].replace(b"ascii", b"binary_big_endian") + struct.pack(
    ">" + 4 * "fffB" + "BiiiBiiii", 0, 0, 0, 1, 1, 0, 0, 2, 1, 1, 0, 3, 0, 1, 0, 4, 3, 0, 1, 2, 4, 0, 1, 2, 3)
OFF = b"OFF\n# a tetrahedron\n4 4 6\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 2 1\n3 0 1 3\n3 1 2 3\n3 0 3 2\n"
STL = b"solid s\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid s\n"
SOLIDS = STL.replace(b"0 0 1\n", b"-1.#IND nan(ind) nan\n") + STL.upper().replace(b"ENDSOLID", b"end solid")
LETTERS = b"""OFF 12 4 0 # two letters, in rows of any length
0 0 0 3 0 0 3 1 0 1 1 0
1 3 0 0 3 0
5 0 0 6 0 0 6 3 0
5 3 0 5.5 1 0 5.5 2 0
6 0 1 2 3 4 5
4 6 7 8 9 5 8 9 11 10 7 3 0 1 2
"""
SPICE = b"""a deck with a bit of everything
.param half=0.5 r={2k*half}
.subckt divider in out gain=2
R1 in out {r}
R2 out 0 1k
E1 x 0 out 0 {gain}
.ends divider
V1 a 0 DC 1 AC 1 PULSE(0 1 1n 1n 1n 5n 20n)
X1 a b divider gain=3
C1 b 0 1p
L1 b c 1u
D1 c 0 dmod
I1 0 c SIN(0 1m 1meg)
F1 0 c V1 0.1
H1 d 0 V1 10
G1 0 d b 0 1m
R3 d 0 1k
R4 a
+ c 1k ; goes on
.model dmod D(is=1e-14 n=1.2)
.ic v(b)=0.1
.tran 1n 30n
.ac dec 5 1k 1meg
.op
.print tran v(b) v(a,b)
.end
"""


def saved(suffix, tmp):
    path = tmp / f"seed{suffix}"
    ms.datasets.icosphere(1).save(path)
    return path.read_bytes()


def model():
    """A glTF with a sparse accessor, morph targets, a skin, instances, two nodes and a matrix."""
    g = tetrahedron(extensionsUsed=["EXT_mesh_gpu_instancing"], scenes=[{"nodes": [0, 1, 2]}], scene=0)
    part = g["meshes"][0]["primitives"][0]
    part["targets"] = [{"POSITION": add(g, TETRAHEDRON)}]
    part["attributes"] |= {"JOINTS_0": add(g, np.zeros((4, 4), "u1")), "WEIGHTS_0": add(g, np.ones((4, 4), "f4"))}
    g["meshes"][0]["weights"] = [0.5]
    g["accessors"][0]["sparse"] = {"count": 1, "indices": {"bufferView": add_view(g, np.uint16([3])), "componentType": 5123},
                                   "values": {"bufferView": add_view(g, np.float32([0, 0, 2]))}}
    moved = {"EXT_mesh_gpu_instancing": {"attributes": {"TRANSLATION": add(g, np.eye(3, dtype="f4"))}}}
    g["nodes"] = [{"mesh": 0, "skin": 0}, {"children": [3], "rotation": [0, 0, 1, 1]}, {"mesh": 0, "scale": [-1, 2, 3], "extensions": moved},
                  {"mesh": 0, "matrix": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 5, 6, 7, 1], "weights": [0.25]}]
    g["skins"] = [{"joints": [1], "inverseBindMatrices": add(g, np.eye(4, dtype="f4").reshape(1, 16))}]
    return g


def container():
    g = tetrahedron()
    g["buffers"][0] = {"byteLength": TETRAHEDRON.nbytes}
    return packed(g, TETRAHEDRON.tobytes())


def matrix_market(matrix, **how):
    text = io.BytesIO()
    scipy.io.mmwrite(text, matrix, **how)
    return text.getvalue()


def seeds(suffix, tmp):
    """Good files of a format."""
    if suffix in (".obj", ".ply", ".off", ".stl"):
        return [*{".obj": [OBJ], ".ply": [PLY, POLYGONS], ".off": [OFF, LETTERS], ".stl": [STL, SOLIDS]}[suffix], saved(suffix, tmp)]
    if suffix in (".gltf", ".glb"):
        return [json.dumps(model(), indent=1).encode()] if suffix == ".gltf" else [container(), saved(suffix, tmp)]
    if suffix == ".mtx":
        A = ms.datasets.grid2d(4, 3)
        return [matrix_market(A), matrix_market(A, symmetry="symmetric"), matrix_market(np.eye(3) * 1j), matrix_market(sp.eye_array(5) * 2)]
    ladder = b"\n".join(b"R%d n%d n%d 1k" % (k, k, k + 1) for k in range(30))
    return [SPICE, b"a ladder\nV1 n0 0 1\n" + ladder + b"\nRe n30 0 1k\n.op\n.end\n"]


def use_mesh(path):
    mesh = ms.load_mesh(path)
    assert np.isfinite(ms.cotan_laplacian(mesh).data).all()


def use_matrix(path):
    A = load_matrix(path)
    if max(A.shape) < 1000:
        ms.order.amd(A)


def use_deck(path):
    circuit = ms.apps.circuit.read(path)
    if len(circuit.analyses) < 4:
        circuit.op()


READERS = {".obj": use_mesh, ".ply": use_mesh, ".off": use_mesh, ".stl": use_mesh, ".gltf": use_mesh, ".glb": use_mesh, ".mtx": use_matrix, ".sp": use_deck}


def damaged(suffix, tmp):
    """COUNT damaged files, some of them packed: (number, name, bytes)."""
    good = seeds(suffix, tmp)
    for number in range(COUNT):
        rng = np.random.default_rng([ord(suffix[1]), ord(suffix[2]), number])
        content = mutate(good[number % len(good)], rng, good)
        if number % 20 == 19:
            packed = gzip.compress(content, 1)
            yield number, f"bad{suffix}.gz", mutate(packed, rng) if number % 40 == 39 else packed
        else:
            yield number, f"bad{suffix}", content


def kept(number, name, content):
    if KEEP:
        (pathlib.Path(KEEP) / f"{number}-{name}").write_bytes(content)
    return f"file {number}: {content[:300]!r}"


@pytest.mark.parametrize("suffix", READERS)
def test_damaged_files(suffix, tmp_path):
    taken, refused, faults = 0, 0, []
    for number, name, content in damaged(suffix, tmp_path):
        path = tmp_path / name
        path.write_bytes(content)
        start = time.process_time()
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                READERS[suffix](path)
            taken += 1
        except ms.MeshsolveError as e:
            refused += 1
            if isinstance(e, ms.InvalidInputError) and not str(e).startswith(str(tmp_path)):
                faults.append(f"no name: {e} ... {kept(number, name, content)}")
        except Exception as e:
            faults.append(f"{type(e).__name__}: {e} ... {kept(number, name, content)}")
        if time.process_time() - start > SECONDS:
            faults.append(f"{time.process_time() - start:.0f} s ... {kept(number, name, content)}")
    assert not faults, f"{len(faults)} of {COUNT}:\n" + "\n".join(faults[:10])
    assert taken and refused, "too few or too many files are damaged beyond reading for a meaningful test"


@pytest.mark.parametrize("suffix", READERS)
def test_the_files_are_good_before(suffix, tmp_path):
    for k, content in enumerate(seeds(suffix, tmp_path)):
        path = tmp_path / f"good{k}{suffix}"
        path.write_bytes(content)
        READERS[suffix](path)


@pytest.mark.parametrize("change, says", [((b"6 6 3", b"6 6 3\0\0x"), r"A.mtx:\d+: each line must have 3 numbers"),
                                          ((b"\n10 7 -1", b"\n10 3.5"), r"A.mtx:\d+: each line must have 3 numbers")])
def test_files_that_crash_the_reader_of_scipy(change, says, tmp_path):
    """Files for which scipy's reader accesses memory out of bounds. Found by the long run."""
    path = tmp_path / "A.mtx"
    whole = matrix_market(ms.datasets.grid2d(4, 3))
    assert change[0] in whole
    path.write_bytes(whole[:whole.index(change[0])] + change[1])
    with pytest.raises(ms.InvalidInputError, match=says):
        load_matrix(path)
