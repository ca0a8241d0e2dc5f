"""Files of the command line: matrices, vectors, permutations and reports."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import pathlib
import re

import numpy as np
import scipy.sparse as sp

from meshsolve.datasets.files import MATRIX_SUFFIXES, check_beginning, is_matrix, load_matrix, load_npz
from meshsolve.errors import InvalidInputError, MeshsolveError, NotPositiveDefiniteError, SingularMatrixError
from meshsolve.files import as_path, existing, is_special, resolved
from meshsolve.mesh.files import READABLE, WRITABLE
from meshsolve.sparse import io

VECTOR_SUFFIXES = (".mtx", ".mtx.gz", ".npy", ".npz", ".txt")
NETLIST_SUFFIXES = (".sp", ".spi", ".spice", ".cir", ".ckt", ".net")
OTHERS = (*MATRIX_SUFFIXES, *WRITABLE, ".png", ".json", ".csv")         # what the name of a file may promise


# ---- outputs ------------------------------------------------------------------------------------------------------------


def check_outputs(*paths, inputs=()):
    """Refuse early what could not be written after the work, and what would destroy an input: folders that are not there, one name
    for two files."""
    given = [as_path(path) for path in paths if path]
    for path in given:
        if not path.parent.is_dir():
            raise InvalidInputError(f"{path}: there is no folder {path.parent}")
        if path.is_dir():
            raise InvalidInputError(f"{path}: this is a folder")
        if not is_special(path) and not os.access(path.parent, os.W_OK):
            raise InvalidInputError(f"{path}: the folder {path.parent} cannot be written to")
    if len({resolved(path) for path in given}) < len(given):
        raise InvalidInputError(f"two outputs have the same name: {', '.join(map(str, given))}")
    read = {resolved(as_path(path)) for path in inputs}
    for path in given:
        if resolved(path) in read:
            raise InvalidInputError(f"{path}: this is an input; write to another file")


def check_mesh_format(path):
    """Refuse a mesh file whose suffix names no format that can be written."""
    if not str(path).lower().removesuffix(".gz").endswith(WRITABLE):
        raise InvalidInputError(f"{path}: meshes are written as {', '.join(WRITABLE)}, each also with .gz")


def check_picture_format(path):
    """Refuse a picture whose suffix is not .png."""
    if path and not str(path).lower().endswith(".png"):
        raise InvalidInputError(f"{path}: pictures are written as .png")


def check_vector_format(path):
    """Refuse a file of solutions whose suffix names no format."""
    if not str(path).lower().endswith(VECTOR_SUFFIXES):
        raise InvalidInputError(f"{path}: solutions are written as {', '.join(VECTOR_SUFFIXES)}")


def check_text_format(path, what, suffix):
    """Refuse a file of text whose suffix promises another format than ``suffix``; any other is taken."""
    name = str(path or "").lower()
    if name.removesuffix(".gz").endswith(OTHERS) and not name.endswith(suffix):
        raise InvalidInputError(f"{path}: {what}")


def write_vector(path, x):
    """(n,) or (n, k) values as .npy, .npz, .txt, or Matrix Market, the latter also packed with gzip."""
    if path.suffix.lower() in (".npy", ".npz"):
        with open(path, "wb") as f:                             # a name would be given the suffix .npy
            np.save(f, x) if path.suffix.lower() == ".npy" else np.savez(f, x=x)
    elif path.suffix.lower() == ".txt":
        np.savetxt(path, x)
    else:
        import scipy.io  # takes a while

        with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "wb") as f:            # a name would be given the suffix .mtx
            scipy.io.mmwrite(f, x if x.ndim == 2 else x[:, None], precision=17)


def write_perm(path, perm):
    """A permutation, one row number a line, or as .npy; does nothing without a path."""
    if path and path.suffix.lower() == ".npy":
        write_vector(path, perm)
    elif path:
        np.savetxt(path, perm, fmt="%d")


def write_report(path, report):
    """A report, or a dict of plain values, as JSON; does nothing without a path."""
    if path:
        told = report if isinstance(report, dict) else report.as_dict()
        path.write_text(json.dumps(told, indent=2, default=float) + "\n")


# ---- inputs -------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def naming(path, rhs=None, call=None):
    """Errors about what a file holds begin with its name: that of ``rhs`` where they are about b, else ``path``. ``call``: what
    the matrix is called in them instead of A.
    """
    try:
        yield
    except (InvalidInputError, NotPositiveDefiniteError, SingularMatrixError) as e:
        told = str(e)
        if told.startswith((f"{path}:", f"{as_path(path)}:")):
            raise
        name = rhs if rhs and re.match(r"b\b", told) else path
        told = re.sub("^[Ab]: ", "", told)                      # which it is the name of the file says
        told = re.sub(r"^A\b", call, told) if call else told
        raise MeshsolveError(f"{name}: {told}") from e


def refuse_netlist(path):
    """Refuse a file whose suffix names a netlist, where a mesh or a matrix is wanted."""
    if str(path).lower().removesuffix(".gz").endswith(NETLIST_SUFFIXES):
        raise InvalidInputError(f"{existing(path)}: this is the name of a SPICE netlist; run it with: meshsolve circuit {path} "
                                "-o OUT.csv")


def check_input_format(path):
    """Refuse a file whose suffix names neither a mesh nor a matrix; one that is not there is said to be so."""
    refuse_netlist(path)
    if not is_matrix(path) and not str(path).lower().removesuffix(".gz").endswith(READABLE):
        raise InvalidInputError(f"{existing(path)}: neither a mesh ({', '.join(READABLE)}) nor a matrix ({', '.join(MATRIX_SUFFIXES)})")


def check_matrix_format(path, option):
    """Refuse a mesh where ``option`` works with the entries of a matrix."""
    check_input_format(path)
    if not is_matrix(path):
        raise InvalidInputError(f"{path}: {option} needs a matrix ({', '.join(MATRIX_SUFFIXES)}), not a mesh")


def read_vector(path):
    """Right-hand sides, (n,) or (n, k), from Matrix Market (also .gz), .npy, .npz or plain text."""
    path = existing(path)
    kind = pathlib.PurePath(path.name.lower().removesuffix(".gz")).suffix
    readers = {".npy": lambda: _read_numpy(path), ".npz": lambda: _read_numpy(path), ".txt": lambda: _read_text(path),
               ".mtx": lambda: io.read(path)}
    if kind not in readers:
        raise InvalidInputError(f"{path}: unknown vector format; known are .mtx, .npy, .npz and .txt")
    try:
        b = readers[kind]()
    except InvalidInputError:
        raise
    except Exception as e:
        raise InvalidInputError(f"{path}: not a readable vector: {str(e) or type(e).__name__}") from e
    b = b.toarray() if sp.issparse(b) else np.asarray(b)
    return b[:, 0] if b.ndim == 2 and b.shape[1] == 1 else b


def _read_numpy(path):
    """An array of numpy's: of several in an .npz none is the one, and a sparse one is scipy's."""
    check_beginning(path)
    held = np.load(path, allow_pickle=False)
    if isinstance(held, np.ndarray):
        return held
    with held:
        if "format" in held.files:
            return load_npz(path)
        if len(held.files) != 1:
            raise InvalidInputError(f"{path}: one array is wanted; the file holds {len(held.files)}: {', '.join(held.files)}")
        return held[held.files[0]]


def _read_text(path):
    """Numbers in lines, parted by blanks or commas, real or as in 1+2j."""
    lines = path.read_text().splitlines()
    if not any(line.split("#")[0].strip() for line in lines):
        raise InvalidInputError(f"{path}: the file holds no numbers")
    delimiter = "," if any("," in line.split("#")[0] for line in lines) else None
    try:
        return np.loadtxt(lines, delimiter=delimiter, ndmin=1)
    except ValueError:
        return np.loadtxt(lines, np.complex128, delimiter=delimiter, ndmin=1)


def read_pattern(path):
    """A mesh or a matrix, told apart by the file's name."""
    from meshsolve.mesh import load_mesh
    from meshsolve.operators import graph_laplacian

    check_input_format(path)
    return load_matrix(path) if is_matrix(path) else graph_laplacian(load_mesh(path))
