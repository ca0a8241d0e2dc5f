"""Cholesky factors whose panels lie in a temporary file: ``memory="disk"``. The numeric phase and the solves are those of `HostFactor`.

The file has no name: it is removed from its folder when it is opened, and the system frees its space when the factor is deleted or
the process ends. Large update matrices of the numeric phase pass through the same file.
"""

from __future__ import annotations

import os
import shutil
import tempfile

from meshsolve.errors import DeviceUnavailableError, InvalidInputError, OutOfMemoryError
from meshsolve.factor.cholesky.host import HostFactor
from meshsolve.files import as_path
from meshsolve.memory import ensure_memory
from meshsolve.options import counted, one_of

IN_RAM = 'factor with memory="ram"'


class DiskEngine:
    """:class:`DiskFactor` with its folder; it is used as the class :class:`HostFactor` is.

    Parameters
    ----------
    folder : path, optional
        By default the folder of temporary files.

    Raises
    ------
    InvalidInputError
        The folder does not exist, or files cannot be created in it.
    DeviceUnavailableError
        On Windows, which has no positioned reads.
    """

    place, takes_vectors = HostFactor.place, False
    prepare, suits = staticmethod(HostFactor.prepare), staticmethod(HostFactor.suits)
    graph_of, keep_indices = staticmethod(HostFactor.graph_of), staticmethod(HostFactor.keep_indices)

    def __init__(self, folder=None):
        if not hasattr(os, "pread"):
            raise DeviceUnavailableError(f'memory="disk" is not supported on this system: {IN_RAM}')
        self.folder = os.path.abspath(tempfile.gettempdir() if folder is None else as_path(folder))
        self.open().close()

    def __call__(self, symbolic, precision, threads):
        return DiskFactor(symbolic, precision, threads, self)

    def open(self):
        """Return a new empty file without a name."""
        try:
            return tempfile.TemporaryFile(dir=self.folder, buffering=0)
        except OSError as e:
            raise InvalidInputError(f"folder={self.folder!r}: no file can be created in this folder: {e.strerror}") from e


def disk_engine(memory, folder, device, backend="native"):
    """Return the :class:`DiskEngine` of ``memory="disk"``, or None.

    Raises
    ------
    InvalidInputError
        A factor on the GPU, or a folder for a factor in main memory.
    """
    if one_of(memory, "memory", ("ram", "disk")) == "disk":
        if device == "cuda" or backend == "cudss":
            host = 'device="cpu"' if device == "cuda" else 'backend="native"'
            raise InvalidInputError(f'memory="disk" is for factors on the host: use {host}')
        return DiskEngine(folder)
    if folder is not None:
        raise InvalidInputError('folder= goes with memory="disk"')
    return None


class DiskFactor(HostFactor):
    """Panels of L in a file of the folder of ``engine``, a :class:`DiskEngine`.

    Attributes
    ----------
    traffic : dict
        Bytes of the file, bytes written and read so far, and an upper bound of the memory of a numeric phase without the analysis.
    """

    def __init__(self, symbolic, precision, threads, engine):
        self._engine, self._process, self._file = engine, os.getpid(), engine.open()
        super().__init__(symbolic, precision, threads)
        self._factor.use_file(self._file.fileno(), engine.folder)

    def matrix(self):
        """As :meth:`HostFactor.matrix`, also in a forked process: the values are in memory."""
        return self._matrix.data if self._keep else self._in_core.matrix(self._pattern.nnz)

    def update(self, C, down):
        """Raise InvalidInputError."""
        raise InvalidInputError(f'factors with memory="disk" cannot be updated: refactor, or {IN_RAM}')

    def inverse_diagonal(self):
        """Raise InvalidInputError."""
        raise InvalidInputError(f'entries of the inverse need the factor in main memory: {IN_RAM}')

    inverse_on_matrix = inverse_diagonal

    @property
    def traffic(self):
        written, read = self._factor.file_traffic
        return {"file_bytes": self._itemsize * self._factor.panel_scalars, "written_bytes": written, "read_bytes": read,
                "peak_bytes": self._itemsize * self._factor.file_needs(self._threads)[0]}

    def _ensure_space(self, symbolic, threads):
        memory, file = (self._itemsize * scalars for scalars in self._factor.file_needs(threads))
        ensure_memory(memory, f"the numeric phase ({counted(symbolic.nnz, 'nonzero')})")
        free = shutil.disk_usage(self._engine.folder).free
        if file > free:
            raise OutOfMemoryError(f"the factor and its update matrices take {file:,} bytes, but folder={self._engine.folder!r} has "
                                   f"{free:,} free bytes: pass another folder=")

    @property
    def _factor(self):
        """The factor of the core. A forked process shares the file with its parent, so it may neither read nor write it."""
        if self._process != os.getpid():
            raise DeviceUnavailableError(f"the file of this factor belongs to process {self._process}, from which this one was forked: "
                                         "copy.copy(F) has a file of its own")
        return self._in_core

    @_factor.setter
    def _factor(self, factor):
        self._in_core = factor
