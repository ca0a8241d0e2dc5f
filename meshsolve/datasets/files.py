"""Matrices of others, from their files."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.errors import InvalidInputError
from meshsolve.files import existing
from meshsolve.memory import ensure_rows
from meshsolve.sparse import io
from meshsolve.types import Array, Path, Sparse

MATRIX_SUFFIXES = (".mtx", ".npz", ".npy")
BEGINNINGS = {".npy": b"\x93NUMPY", ".npz": b"PK"}


def load_matrix(path: Path) -> Sparse | Array:
    """A matrix from a Matrix Market file, as the SuiteSparse collection has them, from scipy's .npz, or a dense one from numpy's .npy.

    Parameters
    ----------
    path : str or path
        ``.mtx``, ``.mtx.gz``, ``.npz`` or ``.npy``.

    Returns
    -------
    (m, n) csr_array, rows sorted, duplicates summed; an (m, n) array where the file holds a dense one
        float64, or complex128. Both triangles of what is symmetric; ones where the file holds a pattern alone.

    Raises
    ------
    InvalidInputError
        There is no such file, its suffix is another, or ``FILE:LINE:`` and what is wrong there.
    OutOfMemoryError
        It has more rows than fit, however few entries.

    Notes
    -----
    About 0.2 us an entry. Source: Boisvert, Pozo, Remington 1996, "The Matrix Market exchange formats: initial design".

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
        raise InvalidInputError(f"{path}: unknown matrix format; known are .mtx, .mtx.gz, .npz and .npy")
    try:
        A = _of_numpy(file) if file.suffix.lower() in BEGINNINGS else io.read(file)
    except InvalidInputError:
        raise
    except Exception as e:              # scipy raises whatever zip and gzip meet
        raise InvalidInputError(f"{path}: not a readable matrix: {str(e) or type(e).__name__}") from e
    if A.dtype.kind not in "fiubc":
        raise InvalidInputError(f"{path}: not a readable matrix: it holds {A.dtype}, not numbers")
    dtype = np.complex128 if A.dtype.kind == "c" else np.float64
    if not sp.issparse(A):
        return np.asarray(A, dtype)
    ensure_rows(A, path)
    A = sp.csr_array(A).astype(dtype, copy=False)
    A.sum_duplicates()
    return A


def _of_numpy(file):
    check_beginning(file)
    return load_npz(file) if file.suffix.lower() == ".npz" else np.load(file, allow_pickle=False)


def load_npz(file):
    """The sparse matrix of scipy's .npz, whose index arrays scipy follows without a look at them.

    Raises
    ------
    ValueError
        They point outside the matrix; or what else scipy raises.
    """
    A = sp.load_npz(file)
    if A.format in ("csr", "csc", "bsr"):
        A.check_format(full_check=True)
    return A


def check_beginning(file):
    """Refuse what is no file of numpy's: numpy takes it for pickled objects and says how to trust it."""
    suffix = file.suffix.lower()
    with open(file, "rb") as f:
        begins = f.read(len(BEGINNINGS[suffix]))
    if begins != BEGINNINGS[suffix]:
        raise InvalidInputError(f"{file}: " + (f"this is no {suffix} file" if begins else "the file is empty"))


def is_matrix(path: Path) -> bool:
    """Whether the name says Matrix Market, scipy's .npz or numpy's .npy (the first may be packed with gzip)."""
    return str(path).lower().removesuffix(".gz").endswith(MATRIX_SUFFIXES)
