"""Read matrix files: Matrix Market, scipy's .npz, numpy's .npy."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.errors import InvalidInputError, MeshsolveError
from meshsolve.files import existing
from meshsolve.memory import ensure_rows
from meshsolve.sparse import io
from meshsolve.sparse.numpy_files import load_npy, load_npz
from meshsolve.types import Array, Path, Sparse

MATRIX_SUFFIXES = (".mtx", ".npz", ".npy")
BEGINNINGS = {".npy": b"\x93NUMPY", ".npz": b"PK"}


def load_matrix(path: Path) -> Sparse | Array:
    """Read a matrix: Matrix Market (the format of the SuiteSparse collection), scipy's sparse .npz, or numpy's dense .npy.

    Parameters
    ----------
    path : str or path
        ``.mtx``, ``.mtx.gz``, ``.npz`` or ``.npy``.

    Returns
    -------
    (m, n) csr_array with sorted rows and summed duplicates; an (m, n) array if the file has a dense matrix
        float64 or complex128. Both triangles of a symmetric matrix are stored. Entries of a pattern file are ones.

    Raises
    ------
    InvalidInputError
        No such file; unknown suffix; invalid contents (the message begins with ``FILE:LINE:`` for Matrix Market).
    OutOfMemoryError
        The content or the row pointers would not fit into memory.

    Notes
    -----
    About 0.2 us per entry. Source: Boisvert, Pozo, Remington 1996, "The Matrix Market exchange formats: initial design".

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import meshsolve as ms
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.mtx"
    >>> _ = path.write_text("%%MatrixMarket matrix coordinate real symmetric\\n2 2 2\\n1 1 4\\n2 1 -1\\n")
    >>> ms.datasets.load_matrix(path).toarray().tolist()
    [[4.0, -1.0], [-1.0, 0.0]]
    """
    file = existing(path)
    if not is_matrix(file):
        raise InvalidInputError(f"{path}: unknown matrix format; use .mtx, .mtx.gz, .npz or .npy")
    try:
        A = _of_numpy(file) if file.suffix.lower() in BEGINNINGS else io.read(file)
    except (MeshsolveError, MemoryError):
        raise
    except Exception as e:              # zip and scipy raise many types
        raise InvalidInputError(f"{path}: cannot be read as a matrix: {str(e) or type(e).__name__}") from e
    if A.dtype.kind not in "fiubc":
        raise InvalidInputError(f"{path}: cannot be read as a matrix: it has {A.dtype}, not numbers")
    dtype = np.complex128 if A.dtype.kind == "c" else np.float64
    if not sp.issparse(A):
        return np.asarray(A, dtype)
    ensure_rows(A, path)
    A = sp.csr_array(A).astype(dtype, copy=False)
    A.sum_duplicates()
    return A


def check_beginning(file):
    """Check the first bytes of a .npy or .npz file. Numpy treats any other file as pickled objects, with a misleading error."""
    suffix = file.suffix.lower()
    with open(file, "rb") as f:
        begins = f.read(len(BEGINNINGS[suffix]))
    if begins != BEGINNINGS[suffix]:
        raise InvalidInputError(f"{file}: " + (f"this is not a {suffix} file" if begins else "the file is empty"))


def is_matrix(path: Path) -> bool:
    """True if the suffix is .mtx, .mtx.gz, .npz or .npy."""
    return str(path).lower().removesuffix(".gz").endswith(MATRIX_SUFFIXES)


def _of_numpy(file):
    check_beginning(file)
    return load_npz(file) if file.suffix.lower() == ".npz" else load_npy(file)
