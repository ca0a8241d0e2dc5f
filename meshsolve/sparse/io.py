"""Matrix Market files, coordinates and arrays, read with every line accounted for.

scipy's reader is not used: on damaged files (a NUL byte, a last line cut off inside a number) it reads past its memory.
Source: Boisvert, Pozo, Remington 1996, "The Matrix Market exchange formats: initial design" (NISTIR 5935).
"""

from __future__ import annotations

import codecs
import gzip
import pathlib
import re
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.types import Array

LAYOUTS = ("coordinate", "array")
FIELDS = {"real": 1, "double": 1, "integer": 1, "unsigned-integer": 1, "complex": 2, "pattern": 0}          # numbers a value
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
OTHER_WORDS = {"int": "integer", "float": "real", "skew": "skew-symmetric", "unsymmetric": "general"}      # of some writers
PADDING = b"\0\x1a"             # what some systems put behind the last line


class Header(NamedTuple):
    """The first lines of a file."""

    layout: str
    field: str
    symmetry: str
    shape: tuple[int, int]
    entries: int                # lines that follow, one value each
    line: int                   # of the sizes
    begin: int                  # byte behind that line


def parse(content: bytes, name: object) -> Array:
    """The matrix in the bytes of a file.

    Parameters
    ----------
    content : bytes
    name : str or path
        For messages.

    Returns
    -------
    coo_array or (m, n) array
        float64, int64 or complex128; both triangles of what is symmetric.

    Raises
    ------
    InvalidInputError
        ``FILE:LINE:`` and what is wrong there.

    Notes
    -----
    The numbers are read in C++ (native/text/table.cpp), well below 0.1 us each, and copied twice.
    """
    content = content.removeprefix(codecs.BOM_UTF8).rstrip(PADDING)
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")          # lines as the first Macs ended them
    header = _header(content, name)
    width = FIELDS[header.field] + (2 if header.layout == "coordinate" else 0)
    numbers = _numbers(content, header, width, name)
    return (_coordinates if header.layout == "coordinate" else _array)(header, numbers, name)


def read(path: pathlib.Path) -> Array:
    """The matrix in a file, which may be packed with gzip; what :func:`parse` returns and raises."""
    content = path.read_bytes()
    return parse(gzip.decompress(content) if path.suffix.lower() == ".gz" else content, path)


def _header(content, name):
    if not content.strip():
        raise InvalidInputError(f"{name}:1: the file is empty")
    lines = _filled_lines(content)
    first, line, _ = next(lines)
    banner = re.sub(r"^%+\s*", "", first.decode("ascii", "replace").lower()) if first.startswith(b"%") else ""
    words = [OTHER_WORDS.get(word, word) for word in banner.split()[:5]]
    known = len(words) == 5 and words[:2] == ["matrixmarket", "matrix"]
    if not known or words[2] not in LAYOUTS or words[3] not in FIELDS or words[4] not in SYMMETRIES:
        raise InvalidInputError(f"{name}:{line}: a Matrix Market file begins with '%%MatrixMarket matrix', coordinate or array, "
                                f"{', '.join(FIELDS)} and {', '.join(SYMMETRIES)}, not with {_shown(first)}")
    kind = words[2], words[3], words[4]
    for text, line, end in lines:
        if not text.startswith(b"%"):
            return _sizes(text.partition(b"%")[0], kind, line, end, name)
    raise InvalidInputError(f"{name}:{line}: the file ends before the sizes of the matrix")


def _filled_lines(content):
    """Lines that are not empty, without the blanks around them: text, number from 1, byte behind the line."""
    begin, line = 0, 0
    while begin < len(content):
        end = content.find(b"\n", begin)
        end = len(content) if end < 0 else end
        text, begin, line = content[begin:end].strip(), end + 1, line + 1
        if text:
            yield text, line, begin


def _shown(line):
    """The beginning of a line in quotes, for messages."""
    return repr(line[:80].decode("ascii", "replace"))


def _sizes(text, kind, line, begin, name):
    layout, field, symmetry = kind
    sizes = text.split()
    if len(sizes) != (3 if layout == "coordinate" else 2) or not all(re.fullmatch(rb"\+?\d{1,18}", s) for s in sizes):
        named = "rows, columns and entries" if layout == "coordinate" else "rows and columns"
        raise InvalidInputError(f"{name}:{line}: the sizes have to be {named}, not {_shown(text)}")
    m, n = int(sizes[0]), int(sizes[1])
    if layout == "array" and field == "pattern":
        raise InvalidInputError(f"{name}:1: an array has values: 'pattern' goes with 'coordinate'")
    if symmetry != "general" and m != n:
        raise InvalidInputError(f"{name}:{line}: a {symmetry} matrix is square, not {m} x {n}")
    triangle = n * (n + 1) // 2 if symmetry in ("symmetric", "hermitian") else n * (n - 1) // 2
    count = int(sizes[2]) if layout == "coordinate" else m * n if symmetry == "general" else triangle
    return Header(layout, field, symmetry, (m, n), count, line, begin)


def _numbers(content, header, width, name):
    """(count, width) numbers, a line each; empty lines and comments are passed over, and the values of what calls itself a pattern."""
    numbers, bad = _core.read_table(content, header.begin, width, header.entries, header.field == "pattern")
    found = len(numbers) // width
    if bad >= 0:
        line = header.line + 1 + bad
        if found == header.entries:
            raise InvalidInputError(f"{name}:{line}: one more entry than the {header.entries} that were announced")
        text = content[header.begin:].split(b"\n")[bad].strip()
        raise InvalidInputError(f"{name}:{line}: a line of this file holds {width} numbers, not {_shown(text)}")
    if found != header.entries:
        line = content.rstrip().count(b"\n") + 1
        raise InvalidInputError(f"{name}:{line}: {header.entries} entries were announced, {found} are there: the file may be cut off")
    return numbers.reshape(header.entries, width)


def _coordinates(header, numbers, name):
    given = numbers[:, 0], numbers[:, 1]
    with np.errstate(invalid="ignore"):
        good = [(index >= 1) & (index <= most) & (index == np.floor(index)) for index, most in zip(given, header.shape)]
    good = good[0] & good[1]
    if not good.all():
        at = int(np.argmin(good))
        raise InvalidInputError(f"{name}: entry {at + 1} is in row {given[0][at]:g}, column {given[1][at]:g} of a matrix of "
                                f"{header.shape[0]} x {header.shape[1]}")
    kind = np.int32 if max(header.shape) <= np.iinfo(np.int32).max else np.int64
    row, column = (index.astype(kind) - kind(1) for index in given)
    values = _values(header, numbers[:, 2:])
    if header.symmetry != "general":
        off = row != column
        if header.symmetry == "skew-symmetric" and values[~off].any():
            at = int(np.argmax(~off & (values != 0)))
            raise InvalidInputError(f"{name}: entry {at + 1} is on the diagonal of a skew-symmetric matrix")
        row, column = np.concatenate([row, column[off]]), np.concatenate([column, row[off]])
        values = np.concatenate([values, _mirrored(header, values[off])])
    return sp.coo_array((values, (row, column)), shape=header.shape)


def _array(header, numbers, name):
    values, (m, n) = _values(header, numbers), header.shape
    if header.symmetry == "general":
        return values.reshape(n, m).T
    A = np.zeros((n, n), values.dtype)
    column, row = np.triu_indices(n, header.symmetry == "skew-symmetric")
    A[column, row] = _mirrored(header, values)
    A[row, column] = values
    return A


def _values(header, numbers):
    if header.field == "pattern":
        return np.ones(len(numbers))
    if header.field == "complex":
        return numbers[:, 0] + 1j * numbers[:, 1]
    if header.field.endswith("integer") and (np.abs(numbers) < 2**53).all() and (numbers == np.floor(numbers)).all():
        return numbers[:, 0].astype(np.int64)
    return numbers[:, 0]


def _mirrored(header, values):
    return -values if header.symmetry == "skew-symmetric" else values.conj() if header.symmetry == "hermitian" else values
