"""Rows of a batch: the task that makes one, the file that keeps them, and the table of all."""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import inspect
import json
import os
import pickle
import time
import types
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.files import as_path, existing, is_special, recording, sync, written_whole
from meshsolve.mesh import load_mesh
from meshsolve.options import counted
from meshsolve.order.reuse import reusing
from meshsolve.types import Path

STATES = "files"                        # the item of a stored row with the states of its mesh and of the files that were written for it
RESERVED = ("path", "error", "seconds", "worker", STATES)
FORMAT = 1                              # of the file of rows
DEEPEST, LONGEST = 100, 8192            # of the values of a row: lists in lists, bits of an integer; Python reads 4300 digits
BLOCK = 1 << 20                         # bytes that are read at once for a checksum
NOT_FINITE = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}       # texts of numbers that JSON lacks


class Task:
    """A pipeline, as it is and for other processes.

    Attributes
    ----------
    pipeline : callable
    code : bytes or None
        The pickled pipeline; None if it is not sent. Workers unpickle it inside the task: a pipeline that they cannot import is an error
        of each row.
    identity : str
        Hash of the pipeline's source and of its fixed arguments, which ties a file of rows to it.
    is_kept : bool
        True if rows are stored, which vouch for files.
    """

    def __init__(self, pipeline, code, identity, is_kept):
        self.pipeline, self.code, self.identity, self.is_kept = pipeline, code, identity, is_kept

    @classmethod
    def of(cls, pipeline, is_sent=True, is_kept=False):
        """Return the task of a function, or raise InvalidInputError."""
        if not callable(pipeline):
            raise InvalidInputError(f"pipeline must be a function of a Mesh, got {type(pipeline).__name__}")
        code = None
        if is_sent:
            try:
                code = pickler().dumps(pipeline)
            except MemoryError:
                raise
            except Exception as e:                          # any class may raise anything when it is pickled
                raise InvalidInputError(f"pipeline cannot be sent to other processes: {type(e).__name__}: {e}. client=False calls it in "
                                        "this process") from e
        return cls(pipeline, code, hashlib.sha256(source_of(pipeline).encode("utf-8", "surrogateescape")).hexdigest()[:16], is_kept)


def source_of(pipeline):
    """Return the text of a function with the values that it keeps, of a partial function with its arguments, or the name of another
    callable."""
    if isinstance(pipeline, functools.partial):
        return f"{source_of(pipeline.func)}\n{text_of(pipeline.args)} {text_of(pipeline.keywords)}"
    try:
        text = inspect.getsource(pipeline)
    except (OSError, TypeError):                            # of a callable object, or typed at a prompt
        text = type(pipeline).__qualname__
    kept = []
    for cell in getattr(pipeline, "__closure__", None) or ():
        with contextlib.suppress(ValueError):               # not filled yet
            kept.append(text_of(cell.cell_contents))
    defaults = text_of((getattr(pipeline, "__defaults__", None), getattr(pipeline, "__kwdefaults__", None)))
    return f"{getattr(pipeline, '__module__', '')}.{getattr(pipeline, '__qualname__', '')}\n{text}\n{defaults} {' '.join(kept)}"


def text_of(value, depth=0):
    """Return a text of a value that is the same in the next process: of other objects, and of lists that are too deep, the class alone."""
    if isinstance(value, int):
        return hex(value) if value.bit_length() > LONGEST else repr(value)
    if value is None or isinstance(value, (float, complex, str, bytes, np.generic, os.PathLike)):
        return repr(value)
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return f"{value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, (list, tuple)) and depth <= DEEPEST:
        return f"({', '.join(text_of(item, depth + 1) for item in value)})"
    if isinstance(value, dict) and depth <= DEEPEST:
        return "{" + ", ".join(sorted(f"{text_of(key)}: {text_of(item, depth + 1)}" for key, item in value.items())) + "}"
    if isinstance(value, (types.FunctionType, functools.partial)):
        return f"{value.__qualname__} {value.__code__.co_code.hex()}" if isinstance(value, types.FunctionType) else source_of(value)
    return f"{type(value).__module__}.{type(value).__qualname__}"


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


def run(path, pipeline, orderings, is_kept=False, worker=""):
    """Load a mesh, run the pipeline, and return the row. Every error becomes text: nothing of a user's module is sent back.

    pipeline : callable, or bytes with one
    orderings : Orderings
        Those of earlier meshes of this process: meshes of a data set often have the same faces.
    is_kept : bool
        True if the row gets the states of its files, see :func:`state_of`.
    """
    begin, row, error = time.perf_counter(), {}, None
    states = {path: state_of(path)} if is_kept else {}
    with recording() if is_kept else contextlib.nullcontext([]) as written:
        try:
            call = pickle.loads(pipeline) if isinstance(pipeline, bytes) else pipeline
            mesh = load_mesh(path)
            with reusing(orderings):
                row = checked(call(mesh, path) if takes_path(call) else call(mesh))
        except (Exception, SystemExit) as e:
            error = described(e)
    states |= {name: state_of(name) for name in written}
    row = {"path": path, **row, "error": error, "seconds": time.perf_counter() - begin, "worker": worker}
    return row | {STATES: states} if is_kept else row


def state_of(path):
    """Return [bytes, time of the last change in ns, checksum] of a file, or None if it does not exist."""
    try:
        found = os.stat(path)
        with open(path, "rb") as file:
            checksum = 0
            while block := file.read(BLOCK):
                checksum = zlib.crc32(block, checksum)
    except (OSError, ValueError):
        return None
    return [found.st_size, found.st_mtime_ns, checksum]


def is_as(path, state):
    """True if a file is in this state. Its time may differ, as that of a copy."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return state is None
    if state is None or found.st_size != state[0]:
        return False
    return found.st_mtime_ns == state[1] or (state_of(path) or [])[2:] == state[2:]


def described(error):
    """Return "Class: message" of an exception, in one line."""
    text = " ".join(str(error).split())
    name = "OutOfMemoryError" if isinstance(error, MemoryError) else type(error).__name__
    return f"{name}: {text}" if text else name


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


def plain(value, name, depth=0):
    """Return a value as JSON has it; arrays become lists."""
    if depth > DEEPEST or (isinstance(value, int) and value.bit_length() > LONGEST):
        raise ValueError(f"the pipeline's value {name!r} has more than {DEEPEST} lists in each other, or an integer of more than "
                         f"{LONGEST} bits")
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item, name, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, name, depth + 1) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"the pipeline's value {name!r} must be a number, a string, an array, a list or a dict, got {type(value).__name__}")


class Kept:
    """The rows of a run, in memory and in a file of JSON lines if there is one; a context manager that closes it.

    The first line names the pipeline. The file is cut back to its last complete line before rows are appended, so a run that was
    killed in the middle of a line loses that row alone.
    """

    def __init__(self, file=None, rows=None, path=None):
        self._file, self.rows, self._path = file, rows or {}, path

    @classmethod
    def of(cls, out, identity, again):
        """Return the rows that an earlier run has left in ``out``."""
        if out is None:
            return cls()
        path = as_path(out)
        if is_special(path):
            raise InvalidInputError(f"{path}: this is a pipe or a device; rows are kept in a file")
        head = {"meshsolve rows": FORMAT, "pipeline": identity}
        try:
            file = open(path, "a+b", buffering=0)           # noqa: SIM115 (closed by __exit__)
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
            rows = valid(rows, path.parent, again)
            file.truncate(sum(len(line) + 1 for line in lines))
            kept = cls(file, rows, path)
            if not lines:
                kept._write(head)
                sync(path.parent)                           # the name of a new file
            return kept
        except BaseException:
            file.close()
            raise

    def add(self, row):
        """Keep a row. In the file it has the states of its files."""
        if self._file:
            folder = os.path.abspath(self._path.parent)
            states = {within(name, folder) if name != row["path"] else name: state for name, state in row.get(STATES, {}).items()}
            self._write(row | ({STATES: states} if STATES in row else {}))
        row.pop(STATES, None)
        self.rows[row["path"]] = row

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._file:
            self._file.close()

    def _write(self, row):
        line, before = json.dumps(spelled(row), allow_nan=False).encode() + b"\n", self._file.seek(0, os.SEEK_END)
        try:
            while line:
                line = line[self._file.write(line):]
        except OSError as e:                                # a full disk
            self._file.truncate(before)
            raise InvalidInputError(f"{self._path}: cannot be written: {e.strerror}. Rows that are done are kept") from e
        with contextlib.suppress(OSError):                  # pipes and some network drives cannot
            os.fsync(self._file.fileno())


def valid(rows, folder, again):
    """Return the stored rows that need not be computed again, without the states of their files. Those that are not absolute are in the
    folder of the rows. Files that several rows wrote do not count."""
    states = {name: row.pop(STATES, {}) for name, row in rows.items()}      # earlier versions stored none
    if again == "none":
        return rows
    writers = collections.Counter(file for name, files in states.items() for file in files if file != name)
    return {name: row for name, row in rows.items() if row["error"] is None and all(
        is_as(file if file == name else folder / file, state) for file, state in states[name].items() if writers[file] < 2)}


def within(path, folder):
    """Return a path relative to a folder if it is inside."""
    return os.path.relpath(path, folder) if path.startswith(os.path.join(folder, "")) else path


def spelled(value):
    """Return a value with numbers that are not finite as texts, which JSON has. The same texts of a pipeline get a backslash."""
    if isinstance(value, str):
        return f"\\{value}" if value.lstrip("\\") in NOT_FINITE else value
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: spelled(item) for key, item in value.items()}
    return [spelled(item) for item in value] if isinstance(value, list) else value


def numbers_of(value):
    """Return a value with the texts of :func:`spelled` as numbers."""
    if isinstance(value, str):
        is_text = value.startswith("\\") and value.lstrip("\\") in NOT_FINITE
        return value[1:] if is_text else NOT_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: numbers_of(item) for key, item in value.items()}
    return [numbers_of(item) for item in value] if isinstance(value, list) else value


def parsed(line, path, number):
    """Return the dict of a line, or raise InvalidInputError."""
    try:
        row = numbers_of(json.loads(line))
    except (ValueError, RecursionError) as e:
        raise InvalidInputError(f"{path}:{number}: the line is not JSON: {e}") from e
    if not isinstance(row, dict) or (number > 1 and not is_row(row)):
        raise InvalidInputError(f"{path}:{number}: the line is not a row of meshsolve.batch")
    return row


def is_row(row):
    """True if a dict has the items of a row, in their types."""
    states = row.get(STATES, {})
    return (isinstance(row.get("path"), str) and "error" in row and isinstance(row["error"], (str, type(None))) and isinstance(states, dict)
            and all(state is None or isinstance(state, list) and len(state) == 3 for state in states.values()))


class Table(Sequence[dict[str, Any]]):
    """Rows of a batch in the order of its paths: a sequence of dicts.

    Attributes
    ----------
    failed : list of dict
        Rows with an error.
    results : list of dict
        Rows without ``seconds`` and ``worker``, to compare two runs.
    report : Report
        Seconds of the run, phase ``meshes``.
    """

    def __init__(self, rows, report=None):
        self._rows, self.report = rows, report

    @property
    def failed(self) -> list[dict[str, Any]]:
        return [row for row in self._rows if row["error"] is not None]

    @property
    def results(self) -> list[dict[str, Any]]:
        """The rows without ``seconds`` and ``worker``: what two runs have in common."""
        return [{name: value for name, value in row.items() if name not in ("seconds", "worker")} for row in self._rows]

    @classmethod
    def load(cls, path: Path) -> Table:
        """Read the rows that :func:`meshsolve.batch.meshes` wrote into ``out``, in the order in which they were done.

        Parameters
        ----------
        path : str or path
            A ``.jsonl`` file. If a mesh has several rows, its last one counts.

        Returns
        -------
        Table

        Raises
        ------
        InvalidInputError
            No such file, or not a file of rows.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import meshsolve as ms
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> ms.datasets.icosphere(1).save(folder / "a.ply")
        >>> table = ms.batch.meshes(folder, lambda mesh: {"far": float("inf")}, client=False, out=folder / "rows.jsonl")
        >>> ms.batch.Table.load(folder / "rows.jsonl").column("far")
        [inf]
        """
        file = existing(path)
        head, *lines = file.read_bytes().split(b"\n")[:-1] or [b""]
        if "meshsolve rows" not in parsed(head, path, 1):
            raise InvalidInputError(f"{path}: this is not a file of rows of meshsolve.batch")
        rows = {row["path"]: row for row in (parsed(line, path, k) for k, line in enumerate(lines, 2))}
        for row in rows.values():
            row.pop(STATES, None)
        return cls(list(rows.values()))

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
            table = pyarrow.table({name: [utf8(value) for value in values] for name, values in columns.items()})
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


def utf8(value):
    """Return a value of a row; bytes in the name of a file that are not UTF-8 are written as \\udcff."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


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
