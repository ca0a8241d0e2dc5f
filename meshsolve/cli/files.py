"""Input and output files of the command line: matrices, vectors, permutations and reports."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import pathlib
import re

import numpy as np
import scipy.sparse as sp

from meshsolve.datasets.files import MATRIX_SUFFIXES, check_beginning, is_matrix, load_matrix
from meshsolve.errors import InvalidInputError, MeshsolveError, NotPositiveDefiniteError, OutOfMemoryError, SingularMatrixError
from meshsolve.files import as_path, content_of, existing, is_special, resolved
from meshsolve.memory import ensure_memory
from meshsolve.mesh.cursor import whole
from meshsolve.mesh.files import READABLE, WRITABLE
from meshsolve.sparse import io
from meshsolve.sparse.numpy_files import Npz, load_npy

VECTOR_SUFFIXES = (".mtx", ".mtx.gz", ".npy", ".npz", ".txt")
FIELD_SUFFIXES = (".ply", ".vtu", ".vtp", ".vtk")              # meshes with numbers at the vertices
NETLIST_SUFFIXES = (".sp", ".spi", ".spice", ".cir", ".ckt", ".net")
OTHERS = (*MATRIX_SUFFIXES, *WRITABLE, ".png", ".json", ".csv", ".raw")         # suffixes of other formats, refused for text files


# ---- outputs ------------------------------------------------------------------------------------------------------------


def check_outputs(*paths, inputs=()):
    """Check output paths before the computation: folders exist and are writable, names are distinct, no input is overwritten."""
    given = [as_path(path) for path in paths if path]
    for path in given:
        if not path.parent.is_dir():
            raise InvalidInputError(f"{path}: the folder {path.parent} does not exist")
        if path.is_dir():
            raise InvalidInputError(f"{path}: this is a folder, not a file")
        if not is_special(path) and not os.access(path.parent, os.W_OK):
            raise InvalidInputError(f"{path}: the folder {path.parent} is not writable")
    if len({resolved(path) for path in given}) < len(given):
        raise InvalidInputError(f"two outputs have the same name: {', '.join(map(str, given))}")
    read = {resolved(as_path(path)) for path in inputs}
    for path in given:
        if resolved(path) in read:
            raise InvalidInputError(f"{path}: this is an input; write to another file")


def check_mesh_format(path):
    """Raise if a mesh cannot be written in the format of the suffix."""
    if not str(path).lower().removesuffix(".gz").endswith(WRITABLE):
        raise InvalidInputError(f"{path}: meshes are written as {', '.join(WRITABLE)}, each also with .gz")


def check_picture_format(path):
    """Raise if the suffix of a picture is not .png."""
    if path and not str(path).lower().endswith(".png"):
        raise InvalidInputError(f"{path}: pictures are written as .png")


def check_vector_format(path):
    """Raise if a vector cannot be written in the format of the suffix."""
    if not str(path).lower().endswith(VECTOR_SUFFIXES):
        raise InvalidInputError(f"{path}: solutions are written as {', '.join(VECTOR_SUFFIXES)}")


def check_spectrum_format(path):
    """Raise if eigenpairs cannot be written in the format of the suffix."""
    if not (holds_fields(path) or str(path).lower().endswith((".txt", ".npz"))):
        raise InvalidInputError(f"{path}: eigenvalues are written as .txt, eigenpairs as .npz, the mesh with eigenfunctions as "
                                f"{', '.join(FIELD_SUFFIXES)}")


def check_distance_format(path):
    """Raise if distances cannot be written in the format of the suffix."""
    if not (holds_fields(path) or str(path).lower().endswith(VECTOR_SUFFIXES)):
        raise InvalidInputError(f"{path}: distances are written as {', '.join(VECTOR_SUFFIXES)}, the mesh with distances as "
                                f"{', '.join(FIELD_SUFFIXES)}")


def check_texture_format(path):
    """Raise if texture coordinates cannot be written in the format of the suffix."""
    if not str(path).lower().removesuffix(".gz").endswith(".obj"):
        raise InvalidInputError(f"{path}: meshes with texture coordinates are written as .obj or .obj.gz")


def holds_fields(path):
    """True for the name of a mesh file with numbers at the vertices, which may be compressed."""
    return str(path).lower().removesuffix(".gz").endswith(FIELD_SUFFIXES)


def check_text_format(path, what, suffix):
    """Raise if a text file has the suffix of another format, except ``suffix``. Unknown suffixes are accepted."""
    name = str(path or "").lower()
    if name.removesuffix(".gz").endswith(OTHERS) and not name.endswith(suffix):
        raise InvalidInputError(f"{path}: {what}")


def write_vector(path, x):
    """Write (n,) or (n, k) values as .npy, .npz, .txt, or Matrix Market, which may be compressed with gzip."""
    if path.suffix.lower() in (".npy", ".npz"):
        with open(path, "wb") as f:                             # numpy would append .npy to a file name
            np.save(f, x) if path.suffix.lower() == ".npy" else np.savez(f, x=x)
    elif path.suffix.lower() == ".txt":
        np.savetxt(path, x)
    else:
        import scipy.io  # slow import

        with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "wb") as f:            # scipy would append .mtx to a name
            scipy.io.mmwrite(f, x if x.ndim == 2 else x[:, None], precision=17)


def write_indices(path, indices):
    """Write a permutation or other indices, one per line, or as .npy. Does nothing without a path."""
    if path and path.suffix.lower() == ".npy":
        write_vector(path, indices)
    elif path:
        np.savetxt(path, indices, fmt="%d")


def write_report(path, report):
    """Write a report, or a dict of plain values, as JSON. Does nothing without a path."""
    if path:
        values = report if isinstance(report, dict) else report.as_dict()
        path.write_text(json.dumps(values, indent=2, default=float) + "\n")


# ---- inputs -------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def naming(path, rhs=None, call=None):
    """Prefix errors with the name of the file: ``rhs`` for errors about b, else ``path``. ``call`` replaces A in messages."""
    try:
        yield
    except (InvalidInputError, NotPositiveDefiniteError, SingularMatrixError) as e:
        message = str(e)
        if message.startswith((f"{path}:", f"{as_path(path)}:")):
            raise
        name = rhs if rhs and re.match(r"b\b", message) else path
        message = re.sub("^[Ab]: ", "", message)                # replaced by the name of the file
        message = re.sub(r"^A\b", call, message) if call else message
        raise MeshsolveError(f"{name}: {message}") from e


def is_netlist(path):
    """True if the suffix is that of a SPICE netlist."""
    return str(path).lower().removesuffix(".gz").endswith(NETLIST_SUFFIXES)


def refuse_netlist(path):
    """Raise if the suffix is that of a netlist, which is neither a mesh nor a matrix."""
    if is_netlist(path):
        raise InvalidInputError(f"{existing(path)}: this is the name of a SPICE netlist; run it with: meshsolve circuit {path} "
                                "-o OUT.csv")


def check_input_format(path):
    """Raise if the suffix is neither that of a mesh nor of a matrix, or if the file does not exist."""
    refuse_netlist(path)
    if not is_matrix(path) and not str(path).lower().removesuffix(".gz").endswith(READABLE):
        raise InvalidInputError(f"{existing(path)}: unknown format; use a mesh ({', '.join(READABLE)}) or a matrix "
                                f"({', '.join(MATRIX_SUFFIXES)})")


def check_matrix_format(path, option):
    """Raise if the file is a mesh, because ``option`` needs the entries of a matrix."""
    check_input_format(path)
    if not is_matrix(path):
        raise InvalidInputError(f"{path}: {option} needs a matrix ({', '.join(MATRIX_SUFFIXES)}), not a mesh")


def read_vector(path):
    """Read right-hand sides, (n,) or (n, k), from Matrix Market (also .gz), .npy, .npz or plain text."""
    path = existing(path)
    kind = pathlib.PurePath(path.name.lower().removesuffix(".gz")).suffix
    readers = {".npy": lambda: _read_numpy(path), ".npz": lambda: _read_numpy(path), ".txt": lambda: _read_text(path),
               ".mtx": lambda: io.read(path)}
    if kind not in readers:
        raise InvalidInputError(f"{path}: unknown vector format; use .mtx, .npy, .npz or .txt")
    try:
        b = readers[kind]()
    except MeshsolveError:
        raise
    except MemoryError as e:            # the process has a limit
        raise OutOfMemoryError(f"{path}: the vector needs more memory than this process may have") from e
    except Exception as e:
        raise InvalidInputError(f"{path}: cannot be read as a vector: {str(e) or type(e).__name__}") from e
    if sp.issparse(b):
        ensure_memory(b.dtype.itemsize * b.shape[0] * b.shape[1], f"{path} as a dense array")
        b = b.toarray()
    return b[:, 0] if b.ndim == 2 and b.shape[1] == 1 else b


def read_vertices(given):
    """Vertices given as numbers, or by the name of one file of numbers (.txt, .npy); None stays None."""
    if given is None:
        return None
    if min(numbers := [*map(whole, given)]) >= 0:
        return np.array(numbers, np.int64)
    if len(given) > 1:
        raise InvalidInputError(f"vertices must be numbers from 0, or one file of them, got {' '.join(given)}")
    numbers = np.asarray(read_vector(given[0]))
    if numbers.ndim != 1 or not np.array_equal(numbers, numbers.astype(np.int64)):
        raise InvalidInputError(f"{given[0]}: vertices must be whole numbers, one a line")
    return numbers.astype(np.int64)


def read_pattern(path):
    """Read a matrix, or the graph Laplacian of a mesh, depending on the suffix."""
    from meshsolve.mesh import load_mesh
    from meshsolve.operators import graph_laplacian

    check_input_format(path)
    return load_matrix(path) if is_matrix(path) else graph_laplacian(load_mesh(path))


def _read_numpy(path):
    """Read the array of a .npy file, or of an .npz file with one array; scipy's sparse .npz files are accepted too."""
    check_beginning(path)
    if path.suffix.lower() == ".npy":
        return load_npy(path)
    with Npz(path) as content:
        if "format" in content.names:
            return content.sparse()
        if len(content.names) != 1:
            raise InvalidInputError(f"{path}: the file must have one array, it has {len(content.names)}: {', '.join(content.names)}")
        return content[content.names[0]]


def _read_text(path):
    """Read lines of numbers, separated by blanks or commas, real or complex as in 1+2j."""
    lines = content_of(path).decode("utf-8").splitlines()
    if not any(line.split("#")[0].strip() for line in lines):
        raise InvalidInputError(f"{path}: the file has no numbers")
    delimiter = "," if any("," in line.split("#")[0] for line in lines) else None
    try:
        return np.loadtxt(lines, delimiter=delimiter, ndmin=1)
    except ValueError:
        return np.loadtxt(lines, np.complex128, delimiter=delimiter, ndmin=1)
