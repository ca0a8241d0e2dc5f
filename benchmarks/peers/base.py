"""The interface of a direct solver in a comparison, and the compilation of the small native layers of some peers."""

from __future__ import annotations

import ctypes
import hashlib
import os
import pathlib
import shlex
import subprocess
import tempfile

import numpy as np
import scipy.sparse as sp


class Unavailable(RuntimeError):
    """A peer that is not installed. The message names the missing part."""


class Solver:
    """Phases of a direct solver for symmetric positive definite systems, timed separately by the caller.

    ``matrix`` and ``rhs`` convert the data to the library's format and are not timed: each peer gets its input for free. A library that
    does not separate analysis and numeric phase (``splits`` is false) does both in ``factor``.
    """

    splits = True

    def __init__(self, perm=None):
        self.perm = perm

    def version(self):
        """Name and version of the library. Raises :class:`Unavailable` if it is not installed."""
        raise NotImplementedError

    def matrix(self, A):
        """The (n, n) csr_array A, both triangles stored, in the library's own form."""
        return A

    def rhs(self, B):
        """The (n, k) right-hand sides in the library's own memory order."""
        return np.asfortranarray(B)

    def first(self, M, watch):
        """All work from the matrix to the factor, by phases on the stopwatch ``watch``."""
        if self.splits:
            with watch.phase("analyze"):
                self.analyze(M)
        with watch.phase("factor"):
            self.factor(M)

    def analyze(self, M):
        """Ordering and symbolic analysis."""

    def factor(self, M):
        """Numeric factorization."""
        raise NotImplementedError

    def refactor(self, M):
        """Numeric factorization of other values on the analyzed pattern."""
        self.factor(M)

    def solve(self, B):
        """The solution of all right-hand sides, (n, k)."""
        raise NotImplementedError

    def close(self):
        """Free native memory. The solver must not be used afterwards."""

    def facts(self):
        """Sizes that the library reports: ``nnz_L`` and others, if it has them."""
        return {}


def triangle(A, upper=False):
    """One triangle of A with its diagonal, as csr_array with sorted int32 indices."""
    T = sp.csr_array(sp.triu(A) if upper else sp.tril(A))
    T.sort_indices()
    T.indptr, T.indices = T.indptr.astype(np.int32), T.indices.astype(np.int32)
    return T


def cache_folder():
    """The folder that keeps compiled layers and subdivided meshes: ``$XDG_CACHE_HOME/meshsolve-benchmarks``."""
    root = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(root) / "meshsolve-benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def compile_layer(source, compiler, flags):
    """Compile the C or C++ file ``source`` of this folder, unless it is in the cache, and load it."""
    path = pathlib.Path(__file__).parent / source
    command = [*shlex.split(compiler), "-shared", "-fPIC", *flags]
    try:
        release = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as e:
        raise Unavailable(f"no compiler {command[0]}: {e}") from e
    key = hashlib.sha256("\0".join([path.read_text(), release, *command, _cpu_flags()]).encode()).hexdigest()[:16]
    library = cache_folder() / f"{path.stem}-{key}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
            target = pathlib.Path(scratch) / library.name
            links = [f for f in flags if f.startswith("-l")]         # libraries come after the file that needs them
            options = [f for f in command if f not in links]
            done = subprocess.run([*options, str(path), "-o", str(target), *links], capture_output=True, text=True)
            if done.returncode:
                raise Unavailable(f"{source} does not compile: {done.stderr.strip().splitlines()[0]}")
            os.replace(target, library)
    try:
        return ctypes.CDLL(str(library))
    except OSError as e:
        raise Unavailable(str(e)) from e


def _cpu_flags():
    """CPU features that ``-march=native`` depends on: another machine must compile again."""
    try:
        return next(line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        return ""


def pointer(array):
    """The address of a numpy array (None is NULL), for ctypes."""
    return None if array is None else array.ctypes.data_as(ctypes.c_void_p)
