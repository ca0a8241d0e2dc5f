"""Named data of a mesh: arrays with one row per vertex, per face, or per corner of a face.

Every array is checked once, when it is set. It is stored as a read-only copy, so meshes with equal faces may share it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.report import warn
from meshsolve.sparse.columns import as_array
from meshsolve.types import ArrayLike

KEPT = {np.dtype(name) for name in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")}
NUMBERED = re.compile(r"(.+)_(\d+)")                           # name of a column of an array that is stored column by column
COLUMNS = {"color": (3, 4), "normal": (3,), "uv": (2,)}        # accepted widths of the conventional names


class MeshData(MutableMapping[str, Any]):
    """Named arrays with one row per vertex, per face, or per corner of a mesh: a mapping from name to array.

    ``mesh.vertex_data["uv"] = uv`` checks and copies an array; the stored array is read-only. Arrays of real numbers or booleans
    of any dtype are kept as they are; float16 becomes float32, longdouble float64. NaN marks a missing value.

    Three names have a meaning in files, and a fixed number of columns:

    - ``"color"``: 3 or 4 columns (red, green, blue, alpha): integers from 0 to 255, stored as uint8, or floats from 0 to 1. uint16
      with a number above 255 is kept and counts from 0 to 65535.
    - ``"uv"``: 2 columns, texture coordinates; v points upwards.
    - ``"normal"``: 3 columns. Normals are removed from a mesh when its positions are assigned.

    Raises
    ------
    InvalidInputError
        A name that is not a string or is empty; an array of another length; numbers that are not real; a conventional name with
        another number of columns. Integer colors outside 0 to 255.

    Examples
    --------
    >>> import meshsolve as ms
    >>> mesh = ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> mesh.vertex_data["height"] = [1, 2, 3]
    >>> mesh.vertex_data["height"].tolist(), list(mesh.face_data)
    ([1, 2, 3], [])
    """

    def __init__(self, kind: str, rows: tuple[int, ...]) -> None:
        self._kind, self._rows = kind, rows                     # "vertex", "face" or "corner"; leading shape of each array
        self._arrays: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __setitem__(self, name: str, values: ArrayLike) -> None:
        self._arrays[name] = self._checked(name, values)

    def __delitem__(self, name: str) -> None:
        del self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {x.dtype} {x.shape}" for name, x in self._arrays.items()) + "}"

    def copy(self) -> MeshData:
        """Return a mapping with the same arrays, which are shared. O(number of arrays)."""
        other = MeshData(self._kind, self._rows)
        other._arrays = dict(self._arrays)
        return other

    def rows(self, kept: np.ndarray) -> MeshData:
        """Return the data of a part of the rows, chosen by booleans (rows,). O(numbers)."""
        other = MeshData(self._kind, (int(np.count_nonzero(kept)), *self._rows[1:]))
        for name, x in self._arrays.items():
            other[name] = x[kept]
        return other

    def _checked(self, name: str, values: ArrayLike) -> np.ndarray:
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"a name of {self._kind} data must be a string that is not empty, got {name!r}")
        what = f"{self._kind} data {name!r}"
        given = as_array(values, what)
        if given.dtype.kind not in "biuf":
            raise InvalidInputError(f"{what} must be real numbers, got {given.dtype}")
        if given.shape[:len(self._rows)] != self._rows:
            rows = ", ".join(map(str, self._rows))
            raise InvalidInputError(f"{what} must have shape ({rows}, ...), one row for each {self._kind}, got {given.shape}")
        if name in COLUMNS and not (given.ndim == len(self._rows) + 1 and given.shape[-1] in COLUMNS[name]):
            raise InvalidInputError(f"{what} must have {' or '.join(map(str, COLUMNS[name]))} columns, got shape {given.shape}")
        dtype = given.dtype.newbyteorder("=")
        if dtype not in KEPT:
            dtype = np.dtype(np.float32 if dtype.itemsize < 4 else np.float64)
        if name == "color" and dtype.kind in "iu":
            dtype = _color_type(given, what)
        out = np.array(given, dtype, order="C")
        out.flags.writeable = False
        return out


class Surface(NamedTuple):
    """Arrays of a mesh file or of another library's mesh, not checked."""

    vertices: np.ndarray                        # (n, 3)
    faces: np.ndarray                           # (m, 3)
    vertex_data: Mapping[str, Any] = {}         # arrays (n, ...)
    face_data: Mapping[str, Any] = {}           # arrays (m, ...)
    corner_data: Mapping[str, Any] = {}         # arrays (m, 3, ...)
    source: str = ""                            # beginning of warnings: the file


def _color_type(color: np.ndarray, what: str) -> np.dtype:
    """Return the type of integer colors: uint8, or uint16 of 16 bits. Other programs have 0 to 255 in integers of any type."""
    low, high = (int(color.min()), int(color.max())) if color.size else (0, 0)
    if low >= 0 and high <= 255:
        return np.dtype(np.uint8)
    if color.dtype == np.uint16:
        return np.dtype(np.uint16)
    raise InvalidInputError(f"{what} must be integers from 0 to 255 or floats from 0 to 1, got {color.dtype} from {low} to {high}: divide "
                            "by the largest possible number")


def attach(data: MeshData, arrays: Mapping[str, Any], source: str) -> None:
    """Set the arrays of a file or of another library. A refused array is left out, with a warning that begins with ``source``."""
    for name, values in arrays.items():
        try:
            data[name] = values
        except InvalidInputError as e:
            warn(f"{source}{e}; it was left out", MeshsolveWarning)


def per_vertex(values: np.ndarray, faces: np.ndarray, n: int, missing: float) -> np.ndarray | None:
    """Return (n, ...) such that ``values`` equals ``result[faces]``, or None if corners of a vertex differ. O(corners).

    ``faces`` has any shape, which is the leading shape of ``values``. Vertices without a face get ``missing``.
    """
    out = np.full((n, *values.shape[faces.ndim:]), missing, values.dtype)
    out[faces] = values
    return out if np.array_equal(out[faces], values, equal_nan=values.dtype.kind == "f") else None


def at_corners(points: ArrayLike, rows: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """Return texture coordinates (m, 3, 2) of corners: the given rows (m, 3) of ``points`` (r, 2)."""
    given, at = as_array(points, "uv"), as_array(rows, "the faces of uv")
    if given.ndim != 2 or at.shape != shape or at.dtype.kind not in "iu" or not ((at >= 0) & (at < len(given))).all():
        raise InvalidInputError(f"the faces of uv must be integers of shape {shape}, below {len(given) if given.ndim else 0}, got "
                                f"{at.dtype} of shape {at.shape}")
    return given[at]


def color_fractions(color: np.ndarray) -> np.ndarray:
    """Return colors as floats from 0 to 1; integers are divided by the largest number of their type."""
    return color / np.iinfo(color.dtype).max if color.dtype.kind in "iu" else color


def narrowed(x: np.ndarray, types: Iterable[str]) -> np.ndarray:
    """Return 64-bit integers in the first of these types that holds all of them; others as they are."""
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8 and x.size:
        for narrow in types:
            if np.iinfo(narrow).min <= x.min() and x.max() <= np.iinfo(narrow).max:
                return x.astype(narrow)
    return x


def joined_columns(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Join ``name_0 name_1 ...`` of one dtype to an array ``name`` with several columns, the inverse of :func:`split_columns`."""
    out, numbered = dict(columns), dict[str, list[str]]()
    for name, x in columns.items():
        if (match := NUMBERED.fullmatch(name)) and np.ndim(x) == 1:
            numbered.setdefault(match[1], []).append(name)
    for name, parts in numbered.items():
        names = [f"{name}_{k}" for k in range(len(parts))]
        if len(parts) > 1 and name not in out and set(names) == set(parts) and len({columns[part].dtype for part in names}) == 1:
            out[name] = np.stack([out.pop(part) for part in names], axis=1)
    return out


def split_columns(name: str, width: int) -> list[str]:
    """Return the names of the columns of an array that a format stores column by column."""
    return [name] if width == 1 else [f"{name}_{k}" for k in range(width)]


def warn_of_lost(surface: Surface, kind: str, vertex: Collection[str] = (), face: Collection[str] = (),
                 corner: Collection[str] = ()) -> None:
    """Warn once about the data that are not written, by name; ``vertex``, ``face`` and ``corner`` are the names that are written."""
    held = (("vertex", surface.vertex_data, vertex), ("face", surface.face_data, face), ("corner", surface.corner_data, corner))
    missing = [f"{what} data {', '.join(map(repr, names))}" for what, data, written in held
               if (names := [name for name in data if name not in written])]
    if missing:
        better = "PLY" if set(surface.corner_data) - set(corner) else "PLY or VTU"
        warn(f"{kind} cannot hold {' and '.join(missing)}: left out; save as {better} to keep all", MeshsolveWarning)
