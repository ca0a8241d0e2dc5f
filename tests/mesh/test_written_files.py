"""Files are written completely or not at all: links, pipes, permissions, long names."""

import errno
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


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_a_temporary_file_is_never_more_readable(tmp_path):
    """While a private file is replaced, and for good if the program is killed meanwhile."""
    path = tmp_path / "secret.txt"
    for mode in (0o600, 0o640, 0o400, 0o666):
        path.write_text("before")
        path.chmod(mode)
        with written_whole(path) as part:
            assert part.name.startswith(".") and stat.S_IMODE(part.stat().st_mode) == 0o600
            part.write_text("after")
        assert stat.S_IMODE(path.stat().st_mode) == mode and path.read_text() == "after"
        path.unlink()
    before = os.umask(0o027)
    try:
        with written_whole(path) as part:
            part.write_text("new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_a_lost_group_takes_its_permissions_along(tmp_path, monkeypatch):
    """If the file cannot have the group of the earlier one, its new group gets what all others had."""
    from meshsolve import files

    (tmp_path / "a").write_text("x")
    own = (tmp_path / "a").stat()
    other = os.stat_result((0o100664, 0, 0, 1, own.st_uid, own.st_gid + 1, 1, 0, 0, 0))

    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(os, "chown", refused)
    files._take_permissions(tmp_path / "a", other)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


@pytest.mark.skipif(not hasattr(os, "link"), reason="no hard links")
@pytest.mark.parametrize("length", [3, 100, 100_000])
def test_other_names_of_a_file_see_the_new_content(tmp_path, length):
    path, other = tmp_path / "a.txt", tmp_path / "b.txt"
    path.write_text("y" * 1000)
    path.chmod(0o640)
    os.link(path, other)
    with written_whole(path) as part:
        part.write_text("x" * length)
    assert other.read_text() == "x" * length and path.samefile(other) and sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_full_disk_keeps_the_earlier_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")
    for number in (errno.ENOSPC, errno.EFBIG):
        with pytest.raises(InvalidInputError, match="a.txt: cannot be written: "), written_whole(path) as part:
            part.write_text("half")
            raise OSError(number, os.strerror(number))
    with pytest.raises(FileNotFoundError), written_whole(path) as part:         # an error of the caller
        raise FileNotFoundError
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["a.txt"]


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
