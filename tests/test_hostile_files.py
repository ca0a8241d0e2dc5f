"""Files from strangers: bombs, pipes, devices, names outside of a folder, headers without bytes, decks and scenes that multiply."""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import time
import tracemalloc
import warnings
import zlib

import numpy as np
import pytest
from cases import each

import meshsolve as ms
from meshsolve import files, memory

MIB = 2**20


def bomb(byte, size):
    z = zlib.compressobj(1, zlib.DEFLATED, 31)
    return b"".join(z.compress(byte * MIB) for _ in range(size // MIB)) + z.flush()


@each("name, byte, read", [("a.mtx.gz", b"%", ms.datasets.load_matrix), ("a.sp.gz", b"*", ms.apps.circuit.read), ("a.obj.gz", b"#", ms.load_mesh)])
def test_a_bomb_takes_the_memory_of_its_text(tmp_path, name, byte, read):
    size = 48 * MIB
    (tmp_path / name).write_bytes(bomb(byte, size))
    tracemalloc.start()
    with pytest.raises(ms.InvalidInputError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read(tmp_path / name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.4 * size


def test_a_bomb_beyond_memory_is_refused_early(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 40 * MIB)
    (tmp_path / "a.obj.gz").write_bytes(bomb(b"#", 200 * MIB))
    with pytest.raises(ms.OutOfMemoryError, match="decompressed"):
        ms.load_mesh(tmp_path / "a.obj.gz")
    (tmp_path / "a.obj").write_bytes(b"")
    os.truncate(tmp_path / "a.obj", 2**40)                  # a sparse file
    with pytest.raises(ms.OutOfMemoryError, match="a.obj"):
        ms.load_mesh(tmp_path / "a.obj")


def test_compressed_members_and_endings(tmp_path):
    text, path = b"v 0 0 0\n" * 20000, tmp_path / "a.gz"
    for content in (gzip.compress(text), gzip.compress(text[:5000]) + gzip.compress(text[5000:]), gzip.compress(text) + bytes(90_000), gzip.compress(b"") + gzip.compress(text)):
        path.write_bytes(content)
        assert files.content_of(path) == text
    for content in (gzip.compress(text)[:-9], gzip.compress(text) + b"x", b"\x1f\x8b", b"no gzip"):
        path.write_bytes(content)
        with pytest.raises(ms.InvalidInputError, match="a.gz: cannot be read"):
            files.content_of(path)
    path.write_bytes(b"")
    assert files.content_of(path) == b""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_and_devices_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path / "pipe", "/dev/zero", "/dev/null"):
        for name, read in (("a.obj", ms.load_mesh), ("a.ply", ms.PolygonMesh.load), ("a.off", ms.PointCloud.load), ("a.gltf", ms.load_mesh),
                           ("a.sp", ms.apps.circuit.read), ("a.mtx", ms.datasets.load_matrix), ("a.npz", ms.datasets.load_matrix)):
            (tmp_path / name).unlink(missing_ok=True)
            os.symlink(target, tmp_path / name)
            with pytest.raises(ms.InvalidInputError, match="pipe or a device"):
                read(tmp_path / name)
        with pytest.raises(ms.InvalidInputError, match="<text>:2: .*pipe or a device"):
            ms.apps.circuit.parse(f"t\n.include {target}\nR1 a 0 1\n.end\n")
    with pytest.raises(ms.InvalidInputError, match="folder"):
        ms.load_mesh(tmp_path)


def document(uri, **more):
    return {"asset": {"version": "2.0"}, "buffers": [{"byteLength": 36, "uri": uri}], "bufferViews": [{"buffer": 0, "byteLength": 36}],
            "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}], "nodes": [{"mesh": 0}], "scenes": [{"nodes": [0]}]} | more


def test_buffers_lie_in_the_folder_of_their_document(tmp_path):
    home = tmp_path / "in"
    (home / "x").mkdir(parents=True)
    for path, first in ((home / "b.bin", 1), (home / "x" / "b b.bin", 1), (tmp_path / "b.bin", 7)):
        np.float32([[first, 0, 0], [0, 1, 0], [0, 0, 1]]).tofile(path)
    os.symlink(tmp_path / "b.bin", home / "link.bin")
    os.symlink("..", home / "up")
    os.symlink("b.bin", home / "inner.bin")
    for uri in ("b.bin", "x/b%20b.bin", "./b.bin", "inner.bin"):
        (home / "a.gltf").write_text(json.dumps(document(uri)))
        assert ms.load_mesh(home / "a.gltf").vertices.max() == 1
    for uri in ("../b.bin", "%2e%2e/b.bin", "x/../../b.bin", str(tmp_path / "b.bin"), "link.bin", "up/b.bin", "..\\b.bin", "C:\\b.bin", "file:b.bin", "x/../b.bin"):
        (home / "a.gltf").write_text(json.dumps(document(uri)))
        with pytest.raises(ms.InvalidInputError, match="only files in the folder of the document are read"):
            ms.load_mesh(home / "a.gltf")


def test_scenes_are_in_proportion_to_their_bytes(tmp_path):
    path = tmp_path / "a.gltf"
    V = np.random.default_rng(0).random((19998, 3)).astype("f4")
    V.tofile(tmp_path / "b.bin")
    (tmp_path / "t.bin").write_bytes(np.zeros((40000, 3), "f4").tobytes())
    g = document("b.bin")
    g["buffers"] = [{"byteLength": V.nbytes, "uri": "b.bin"}, {"byteLength": 480000, "uri": "t.bin"}]
    g["bufferViews"] = [{"buffer": 0, "byteLength": V.nbytes}, {"buffer": 1, "byteLength": 480000}]
    g["accessors"] = [{"bufferView": 0, "componentType": 5126, "count": 19998, "type": "VEC3"}, {"bufferView": 1, "componentType": 5126, "count": 40000, "type": "VEC3"}]
    g["nodes"] = [{"mesh": 0, "extensions": {"EXT_mesh_gpu_instancing": {"attributes": {"TRANSLATION": 1}}}}]
    path.write_text(json.dumps(g))
    with pytest.raises(ms.InvalidInputError, match="out of proportion to the .* bytes of the file"):
        ms.load_mesh(path)
    g["nodes"] = [{"mesh": 0}] * 6000
    g["scenes"] = [{"nodes": list(range(6000))}]
    path.write_text(json.dumps(g))
    with pytest.raises(ms.InvalidInputError, match="out of proportion"):
        ms.load_mesh(path)


def test_decks_that_multiply_are_refused(tmp_path):
    lines = "".join(f".subckt s{k} a\nx1 a s{k - 1}\nx2 a s{k - 1}\n.ends\n" for k in range(1, 46))
    deck = f"t\nV1 a 0 1\n.subckt s0 a\n{{}}\n.ends\n{lines}X1 a s{{}}\n.op\n.end\n"
    assert "R: 4,096" in repr(ms.apps.circuit.parse(deck.format("R1 a 0 1", 12)))
    with pytest.raises(ms.InvalidInputError, match="expand to too many elements"):
        ms.apps.circuit.parse(deck.format("* nothing", 45))
    for k in range(40):
        (tmp_path / f"i{k}.sp").write_text(f".include i{k + 1}.sp\n" * 2)
    (tmp_path / "i40.sp").write_text("")
    with pytest.raises(ms.InvalidInputError, match="include each file once"):
        ms.apps.circuit.parse(f"t\nV1 a 0 1\nR1 a 0 1\n.include {tmp_path}/i0.sp\n.end\n")


def test_arrays_are_not_allocated_from_headers(tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": (2**40, 2)}
    path = tmp_path / "a.npy"
    with open(path, "wb") as f:
        np.lib.format.write_array_header_2_0(f, header)
        f.write(bytes(100))
    with pytest.raises(ms.InvalidInputError, match="announces 1099511627776 x 2 values"):
        ms.datasets.load_matrix(path)
    for x in (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array([[1, 2]], ">i4"), np.zeros((0, 2))):
        np.save(path, x)
        assert np.array_equal(ms.datasets.load_matrix(path), x)
    np.save(path, np.array([{}]), allow_pickle=True)
    with pytest.raises(ms.InvalidInputError, match="not numbers"):
        ms.datasets.load_matrix(path)


@each("corners", [3000, 40000])
def test_a_polygon_that_goes_around_many_times(tmp_path, corners):
    path = tmp_path / "a.obj"
    path.write_text("v 0 0 0\nv 4 0 0\nv 4 4 0\nv 1 1 0\nv 0 4 0\nf " + " ".join(str(k % 5 + 1) for k in range(corners)) + "\n")
    begin = time.process_time()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ms.load_mesh(path)
    assert any("intersects itself" in str(w.message) for w in found)
    assert time.process_time() - begin < 20                 # the square of 40,000 corners took a second, of 500,000 a minute


def test_large_simple_polygons_stay_simple(tmp_path):
    n = 20000
    t = np.linspace(0, 2 * np.pi, n, endpoint=False)
    r = np.where(np.arange(n) % 2, 1, 0.3)
    rows = np.c_[r * np.cos(t), r * np.sin(t), 0 * t].tolist()
    path = pathlib.Path(tmp_path / "a.off")
    path.write_text(f"OFF\n{n} 1 0\n" + "\n".join(" ".join(map(repr, row)) for row in rows) + f"\n{n} {' '.join(map(str, range(n)))}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mesh = ms.load_mesh(path)
    x, y = np.array(rows)[:, :2].T
    assert np.isclose(mesh.face_areas.sum() if hasattr(mesh, "face_areas") else mesh.area, abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def test_ctrl_c_ends_the_reading_of_a_large_file(tmp_path):
    """A file of many short lines is parsed for seconds; Ctrl-C ends that at once."""
    path = tmp_path / "a.obj"
    path.write_bytes(b"v 0 0 0\n" * 6_000_000)
    code = ("import _thread, threading, time, sys, meshsolve as ms\nthreading.Timer(0.3, _thread.interrupt_main).start()\nbegin = time.time()\n"
            "try:\n ms.load_mesh(sys.argv[1])\nexcept KeyboardInterrupt:\n sys.exit(0)\nexcept ms.MeshsolveError:\n sys.exit(0)\n")
    assert subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, timeout=60).returncode == 0
