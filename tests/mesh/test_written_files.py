"""Files are written completely or not at all: links, pipes, permissions, long names."""

import gzip
import io
import os
import stat
import threading

import numpy as np
import pytest

from meshsolve import apps, datasets
from meshsolve.errors import InvalidInputError
from meshsolve.files import written_whole
from meshsolve.mesh import load_mesh


def test_files_are_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "kept.txt"
    path.write_text("before")
    with pytest.raises(RuntimeError), written_whole(path) as part:
        part.write_text("half")
        raise RuntimeError
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["kept.txt"]
    with written_whole(path) as part:
        part.write_text("after")
    assert path.read_text() == "after" and os.listdir(tmp_path) == ["kept.txt"]


def test_the_longest_name_can_be_written(tmp_path):
    """The name of the temporary file was too long for the file system."""
    for path in (tmp_path / ("x" * 251 + ".obj"), tmp_path / ("\u20ac" * 83 + ".ply")):
        mesh = datasets.icosphere(0)
        mesh.save(path)
        assert (load_mesh(path).faces == mesh.faces).all()


@pytest.mark.parametrize("name", ["a.ply", "a.ply.gz"])
def test_numbers_at_vertices_keep_their_bits_in_a_ply_file(tmp_path, name):
    """Another program reads them; load_mesh passes them over."""
    mesh, values = datasets.icosphere(1), np.append(np.random.default_rng(0).standard_normal(40), [np.inf, np.nan])
    mesh.save(tmp_path / name, fields={"distance": values, "index": np.arange(42)})
    assert np.array_equal(load_mesh(tmp_path / name).vertices, mesh.vertices)
    content = (gzip.open if name.endswith(".gz") else open)(tmp_path / name, "rb").read()
    import trimesh

    read = trimesh.load(io.BytesIO(content), file_type="ply", process=False).metadata["_ply_raw"]["vertex"]["data"]
    assert np.array_equal(read["distance"], values, equal_nan=True) and np.array_equal(read["index"], np.arange(42))


def test_texture_coordinates_are_written_for_each_vertex(tmp_path):
    mesh = datasets.icosphere(1)
    uv = mesh.vertices[:, :2] * [1, 1e-9]
    mesh.save(tmp_path / "a.obj", uv=uv)
    lines = [line.split() for line in (tmp_path / "a.obj").read_text().splitlines()]
    assert np.array_equal(np.array([line[1:] for line in lines if line[0] == "vt"], float), uv)
    assert [line[1:] for line in lines if line[0] == "f"] == [[f"{i}/{i}" for i in face + 1] for face in mesh.faces]
    again = load_mesh(tmp_path / "a.obj")
    assert np.array_equal(again.vertices, mesh.vertices) and np.array_equal(again.faces, mesh.faces)


@pytest.mark.skipif(os.name == "nt", reason="symbolic links are for administrators there")
def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "loop.obj").symlink_to(tmp_path / "loop.obj")
    with pytest.raises(InvalidInputError, match="a symbolic link to itself"):
        datasets.icosphere(1).save(tmp_path / "loop.obj")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_no_file_to_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.mtx")
    with pytest.raises(InvalidInputError, match="a pipe or a device"):
        datasets.load_matrix(tmp_path / "pipe.mtx")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_gets_the_file_and_stays(tmp_path):
    """A file replaced the pipe; as root it would replace /dev/null."""
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    with written_whole(pipe) as part:
        part.write_text("text")
    reader.join(600)
    assert got == ["text"] and stat.S_ISFIFO(pipe.stat().st_mode) and os.listdir(tmp_path) == ["pipe"]


def test_a_new_file_has_the_permissions_of_any_other(tmp_path, monkeypatch):
    """The process's umask was set to 0 to read it, and files of other threads were world-writable."""
    monkeypatch.setattr(os, "umask", None)
    (tmp_path / "other").touch()
    with written_whole(tmp_path / "mine") as part:
        part.write_text("text")
    assert (tmp_path / "mine").stat().st_mode == (tmp_path / "other").stat().st_mode
    for wrong in (tmp_path, tmp_path / ("x" * 300), tmp_path / "no" / "folder"):
        with pytest.raises(InvalidInputError, match="cannot be written"), written_whole(wrong) as part:
            part.write_text("text")
    assert sorted(os.listdir(tmp_path)) == ["mine", "other"]
    for read in (load_mesh, datasets.load_matrix, apps.circuit.read):
        with pytest.raises(InvalidInputError):
            read(tmp_path / ("x" * 300 + ".mtx"))
