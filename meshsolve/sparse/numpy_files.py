"""Read numpy's .npy and .npz files, and scipy's sparse .npz, without trust in their headers.

An array is allocated only if the file has its values: numpy allocates what a header announces. A sparse matrix passes
:func:`meshsolve.sparse.structure.checked` before scipy converts it. Objects (pickles) are never read.
"""

from __future__ import annotations

import os
import zipfile

import numpy as np
import scipy.sparse as sp

from meshsolve.errors import InvalidInputError
from meshsolve.memory import ensure_memory
from meshsolve.sparse.structure import checked

PIECE = 1 << 20                 # bytes of values that are read at once
COMPRESSED = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}
TEXT = "SU"                     # kinds of dtypes of the name of a format


def load_npy(path):
    """Return the array of a .npy file. Raises ValueError for a damaged one."""
    with open(path, "rb") as f:
        return _array(f, os.fstat(f.fileno()).st_size, path)


class Npz:
    """The arrays of an .npz file, read by name. A context manager.

    Attributes
    ----------
    names : list of str
        Without ``.npy``.
    """

    def __init__(self, path):
        self._path, self._file = path, zipfile.ZipFile(path)
        self.names = [name.removesuffix(".npy") for name in self._file.namelist()]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()

    def __getitem__(self, name):
        """Return an array. Raises ValueError, KeyError, or an error of the module zipfile, for a damaged file."""
        stored = next((whole for whole in (f"{name}.npy", name) if whole in self._file.namelist()), None)
        if stored is None:
            raise ValueError(f"it has no array {name!r}")
        ensure_memory(size := self._file.getinfo(stored).file_size, f"the array {name!r} of {self._path}")
        with self._file.open(stored) as f:
            return _array(f, size, name)

    def sparse(self):
        """Return the matrix that scipy's ``save_npz`` has written, in its format, checked."""
        name = self["format"]
        kind = name.item() if name.ndim == 0 and name.dtype.kind in TEXT else None
        kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else kind
        shape, data = tuple(self._integers("shape").tolist()), self["data"]
        if len(shape) != 2:
            raise ValueError(f"its shape must be two integers, got {shape}")
        if not 0 <= min(shape) <= max(shape) <= np.iinfo(np.int64).max:
            raise ValueError(f"its shape is {shape[0]} x {shape[1]}")
        if kind == "bsr" and (data.ndim != 3 or 0 in data.shape[1:]):
            raise ValueError(f"its blocks have the shape {data.shape[1:]}")
        if kind in COMPRESSED:
            A = COMPRESSED[kind]((data, self._integers("indices"), self._integers("indptr")), shape=shape)
        elif kind == "coo":
            A = sp.coo_array((data, (self._integers("row"), self._integers("col"))), shape=shape)
        elif kind == "dia":
            A = sp.dia_array(shape)                         # its constructor would cast offsets to 32 bits before they are checked
            A.data, A.offsets = data, self._integers("offsets")
        else:
            raise ValueError(f"the sparse format {kind!r} is not supported")
        try:
            return checked(A, "it")
        except InvalidInputError as e:                      # the caller adds the name of the file
            raise ValueError(str(e)) from e

    def _integers(self, name):
        """Return a list of integers; scipy would round other numbers."""
        x = self[name]
        if x.ndim != 1 or x.dtype.kind not in "iu":
            raise ValueError(f"its array {name!r} must be a list of integers, got {x.shape} of {x.dtype}")
        return x


def load_npz(path):
    """Return the matrix of scipy's sparse .npz in its format. Raises ValueError for damaged arrays."""
    with Npz(path) as file:
        return file.sparse()


def _array(file, size, name):
    """Return the array in an open file of ``size`` bytes in the format .npy."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} has version {version} of the format .npy, which holds no plain numbers")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    if dtype.kind not in "fiubc" + TEXT:
        raise ValueError(f"{name} holds {dtype}, not numbers")
    count = 1
    for length in shape:
        count *= length
    left = size - file.tell()
    if min(shape, default=0) < 0 or count * dtype.itemsize > left:
        raise ValueError(f"the header of {name} announces {' x '.join(map(str, shape))} values of {dtype}, but {left} bytes follow: it may "
                         "be truncated")
    ensure_memory(count * dtype.itemsize, f"the array {name}")
    values = np.empty(count, dtype)
    rest = memoryview(values.view(np.uint8)) if values.nbytes else memoryview(b"")
    while len(rest):
        got = file.readinto(rest[:PIECE])
        if not got:
            raise ValueError(f"{name} ends {len(rest)} bytes too early")
        rest = rest[got:]
    return values.reshape(shape[::-1]).T if is_fortran else values.reshape(shape)
