"""Rows of a batch: the task that makes one, the file that keeps them, and the table of all."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import os
import pickle
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.files import as_path, written_whole
from meshsolve.mesh import load_mesh
from meshsolve.options import counted
from meshsolve.order.reuse import reusing
from meshsolve.types import Path

RESERVED = ("path", "error", "seconds", "worker")
FORMAT = 1                              # of the file of rows


class Task:
    """A pipeline that can be sent to other processes.

    Attributes
    ----------
    code : bytes
        The pickled pipeline. Workers unpickle it inside the task: a pipeline that they cannot import is an error of each row.
    identity : str
        Hash of the pipeline's source and of its fixed arguments, which ties a file of rows to it.
    """

    def __init__(self, code, identity):
        self.code, self.identity = code, identity

    @classmethod
    def of(cls, pipeline):
        """Return the task of a function, or raise InvalidInputError."""
        if not callable(pipeline):
            raise InvalidInputError(f"pipeline must be a function of a Mesh, got {type(pipeline).__name__}")
        try:
            code = pickler().dumps(pipeline)
        except MemoryError:
            raise
        except Exception as e:                              # any class may raise anything when it is pickled
            raise InvalidInputError(f"pipeline cannot be sent to other processes: {type(e).__name__}: {e}") from e
        return cls(code, hashlib.sha256(source_of(pipeline).encode()).hexdigest()[:16])


def source_of(pipeline):
    """Return the text of a function, of a partial function with its arguments, or the name of another callable."""
    if isinstance(pipeline, functools.partial):
        return f"{source_of(pipeline.func)}\n{pipeline.args!r} {sorted(pipeline.keywords.items())!r}"
    try:
        text = inspect.getsource(pipeline)
    except (OSError, TypeError):                            # of a callable object, or typed at a prompt
        text = type(pipeline).__qualname__
    return f"{getattr(pipeline, '__module__', '')}.{getattr(pipeline, '__qualname__', '')}\n{text}"


def takes_path(pipeline):
    """True if the pipeline takes the path after the mesh."""
    try:
        parameters = inspect.signature(pipeline).parameters.values()
    except (TypeError, ValueError):                         # a builtin without signature
        return False
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) >= 2


def pickler():
    """Return cloudpickle, which also takes functions of a script, if it is installed; else pickle, which names them only."""
    try:
        import cloudpickle
    except ImportError:
        return pickle
    return cloudpickle


def run(path, code, orderings, worker=""):
    """Load a mesh, run the pipeline, and return the row. Every error becomes text: nothing of a user's module is sent back.

    orderings : Orderings
        Those of earlier meshes of this process: meshes of a data set often have the same faces.
    """
    begin, row, error = time.perf_counter(), {}, None
    try:
        pipeline, mesh = pickle.loads(code), load_mesh(path)
        with reusing(orderings):
            row = checked(pipeline(mesh, path) if takes_path(pipeline) else pipeline(mesh))
    except (Exception, SystemExit) as e:
        error = described(e)
    return {"path": path, **row, "error": error, "seconds": time.perf_counter() - begin, "worker": worker}


def described(error):
    """Return "Class: message" of an exception, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failed(path, error, worker=""):
    """Return the row of a mesh whose worker died."""
    return {"path": path, "error": described(error), "seconds": None, "worker": worker}


def checked(result):
    """Return the dict of a pipeline with plain values, or raise TypeError or ValueError."""
    if not isinstance(result, dict):
        raise TypeError(f"the pipeline must return a dict, got {type(result).__name__}")
    for name in result:
        if not isinstance(name, str) or name in RESERVED:
            raise ValueError(f"the pipeline's dict must have names other than {', '.join(RESERVED)}, got {name!r}")
    return {name: plain(value, name) for name, value in result.items()}


def plain(value, name):
    """Return a value as JSON has it; arrays become lists."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, name) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"the pipeline's value {name!r} must be a number, a string, an array, a list or a dict, got {type(value).__name__}")


class Kept:
    """The rows of a run, in memory and in a file of JSON lines if there is one; a context manager that closes it.

    The first line names the pipeline. The file is cut back to its last complete line before rows are appended, so a run that was
    killed in the middle of a line loses that row alone.
    """

    def __init__(self, file=None, rows=None):
        self._file, self.rows = file, rows or {}

    @classmethod
    def of(cls, out, identity, again):
        """Return the rows that an earlier run has left in ``out``."""
        if out is None:
            return cls()
        path = as_path(out)
        head = {"meshsolve rows": FORMAT, "pipeline": identity}
        try:
            file = open(path, "a+b")                        # noqa: SIM115 (closed by __exit__)
        except OSError as e:
            raise InvalidInputError(f"{path}: cannot be written: {e.strerror}") from e
        try:
            file.seek(0)
            lines = file.read().split(b"\n")[:-1]           # what follows the last line end is incomplete
            if again == "all" or not lines:
                lines = []
            elif parsed(lines[0], path, 1) != head:
                raise InvalidInputError(f"{path}: the rows are of another pipeline. Give another file, or again=\"all\" to replace them")
            rows = {row["path"]: row for row in (parsed(line, path, k) for k, line in enumerate(lines[1:], 2))}
            if again == "errors":
                rows = {name: row for name, row in rows.items() if row["error"] is None}
            file.truncate(sum(len(line) + 1 for line in lines))
            kept = cls(file, rows)
            if not lines:
                kept._write(head)
            return kept
        except BaseException:
            file.close()
            raise

    def add(self, row):
        """Keep a row."""
        self.rows[row["path"]] = row
        if self._file:
            self._write(row)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._file:
            self._file.close()

    def _write(self, row):
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        with contextlib.suppress(OSError):                  # pipes and some network drives cannot
            os.fsync(self._file.fileno())


def parsed(line, path, number):
    """Return the dict of a line, or raise InvalidInputError."""
    try:
        row = json.loads(line)
    except ValueError as e:
        raise InvalidInputError(f"{path}:{number}: the line is not JSON: {e}") from e
    if not isinstance(row, dict) or (number > 1 and not {"path", "error"} <= row.keys()):
        raise InvalidInputError(f"{path}:{number}: the line is not a row of meshsolve.batch")
    return row


class Table(Sequence[dict[str, Any]]):
    """Rows of a batch in the order of its paths: a sequence of dicts.

    Attributes
    ----------
    failed : list of dict
        Rows with an error.
    report : Report
        Seconds of the run, phase ``meshes``.
    """

    def __init__(self, rows, report=None):
        self._rows, self.report = rows, report

    @property
    def failed(self) -> list[dict[str, Any]]:
        return [row for row in self._rows if row["error"] is not None]

    def column(self, name: str) -> list[Any]:
        """Return one item of every row, None for rows without it."""
        if not any(name in row for row in self._rows):
            known = sorted({key for row in self._rows for key in row})
            raise InvalidInputError(f"no row has {name!r}; there are {', '.join(known)}")
        return [row.get(name) for row in self._rows]

    def save(self, path: Path) -> None:
        """Write all rows as Parquet or as numpy arrays.

        Parameters
        ----------
        path : str or path
            ``.parquet``: one record per row, for pandas, Polars or DuckDB; needs ``pip install pyarrow``. ``.npz``: one array per
            column, numbers as float64 with NaN for a missing value, other values as text. An existing file is replaced.

        Raises
        ------
        InvalidInputError
            Another ending; no pyarrow; a column that ``.npz`` cannot hold, because its arrays differ in shape.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from meshsolve.batch import Table
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.npz"
        >>> Table([{"path": "a.ply", "volume": 4.2, "error": None}, {"path": "b.ply", "error": "empty"}]).save(path)
        >>> np.load(path)["volume"]
        array([4.2, nan])
        """
        target = as_path(path)
        if target.suffix.lower() not in (".parquet", ".npz"):
            raise InvalidInputError(f"{path}: tables are saved as .parquet or .npz")
        columns = {name: self.column(name) for name in dict.fromkeys(name for row in self._rows for name in row)}
        if target.suffix.lower() == ".npz":
            arrays: dict[str, Any] = {name: as_array(values, name) for name, values in columns.items()}
            with written_whole(target) as part:
                np.savez(part, **arrays)
            return
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as e:
            raise InvalidInputError(f"{path}: Parquet files are written by pyarrow, which is not installed: pip install pyarrow") from e
        try:
            table = pyarrow.table(columns)
        except pyarrow.ArrowException as e:
            raise InvalidInputError(f"{path}: a column has values of different types: {e}") from e
        with written_whole(target) as part:
            pyarrow.parquet.write_table(table, part)

    def __getitem__(self, k):
        return self._rows[k]

    def __len__(self):
        return len(self._rows)

    def __repr__(self):
        return f"Table({counted(len(self), 'row')}, {len(self.failed)} failed)"


def as_array(values, name):
    """Return a column as one array: float64 with NaN for None if all values are numbers or lists of numbers, else text."""
    given = [value for value in values if value is not None]
    if any(isinstance(value, (str, dict)) for value in given) or not given:
        return np.array(["" if value is None else str(value) for value in values])
    try:
        shape = np.array(given, dtype=float).shape[1:]
        return np.array([np.full(shape, np.nan) if value is None else value for value in values], dtype=float)
    except (ValueError, TypeError) as e:
        raise InvalidInputError(f"the values of column {name!r} differ in shape, or are not numbers: .npz cannot hold them; save as "
                                ".parquet") from e
