"""Read Matrix Market files, coordinate and array, and check every line.

scipy's reader is not used. On damaged files (a NUL byte, a last line truncated inside a number) it reads beyond its buffer.
Source: Boisvert, Pozo, Remington 1996, "The Matrix Market exchange formats: initial design" (NISTIR 5935).
"""

from __future__ import annotations

import codecs
import pathlib
import re
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.files import content_of
from meshsolve.types import Array

LAYOUTS = ("coordinate", "array")
FIELDS = {"real": 1, "double": 1, "integer": 1, "unsigned-integer": 1, "complex": 2, "pattern": 0}          # numbers per value
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
OTHER_WORDS = {"int": "integer", "float": "real", "skew": "skew-symmetric", "unsymmetric": "general"}      # nonstandard keywords
LONGEST_LINE = 4096             # bytes of a line of words that are looked at
PADDING = b"\0\x1a"             # bytes that some systems append to a text


class Header(NamedTuple):
    """Contents of the banner and the size line."""

    layout: str
    field: str
    symmetry: str
    shape: tuple[int, int]
    entries: int                # number of lines that follow, one value each
    line: int                   # line number of the sizes
    begin: int                  # offset of the byte after that line


def parse(content: bytes, name: object) -> Array:
    """Parse the bytes of a Matrix Market file.

    Parameters
    ----------
    content : bytes
    name : str or path
        Name of the file, for messages.

    Returns
    -------
    coo_array or (m, n) array
        float64, int64 or complex128. Both triangles of a symmetric matrix are stored.

    Raises
    ------
    InvalidInputError
        The file is invalid; the message begins with ``FILE:LINE:``.

    Notes
    -----
    Numbers are parsed in C++ (native/text/table.cpp), in less than 0.1 us each, and copied twice.
    """
    content = content.removeprefix(codecs.BOM_UTF8).rstrip(PADDING)
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")          # line ends of classic Mac OS
    header = _header(content, name)
    width = FIELDS[header.field] + (2 if header.layout == "coordinate" else 0)
    numbers = _numbers(content, header, width, name)
    return (_coordinates if header.layout == "coordinate" else _array)(header, numbers, name)


def read(path: pathlib.Path) -> Array:
    """Read a Matrix Market file, which may be compressed with gzip. Returns and raises as :func:`parse`."""
    return parse(content_of(path), path)


def _header(content, name):
    if not content.strip():
        raise InvalidInputError(f"{name}:1: the file is empty")
    lines = _filled_lines(content)
    first, line, _ = next(lines)
    banner = re.sub(r"^%+\s*", "", first.decode("ascii", "replace").lower()) if first.startswith(b"%") else ""
    words = [OTHER_WORDS.get(word, word) for word in banner.split()[:5]]
    known = len(words) == 5 and words[:2] == ["matrixmarket", "matrix"]
    if not known or words[2] not in LAYOUTS or words[3] not in FIELDS or words[4] not in SYMMETRIES:
        raise InvalidInputError(f"{name}:{line}: the first line must be '%%MatrixMarket matrix LAYOUT FIELD SYMMETRY' with LAYOUT "
                                f"{' or '.join(LAYOUTS)}, FIELD {' or '.join(FIELDS)}, and SYMMETRY {' or '.join(SYMMETRIES)}, "
                                f"got {_shown(first)}")
    kind = words[2], words[3], words[4]
    for text, line, end in lines:
        if not text.startswith(b"%"):
            return _sizes(text.partition(b"%")[0], kind, line, end, name)
    raise InvalidInputError(f"{name}:{line}: the file ends before the sizes of the matrix")


def _filled_lines(content):
    """Yield the nonempty lines: stripped text, line number from 1, offset of the byte after the line."""
    begin, line = 0, 0
    while begin < len(content):
        end = content.find(b"\n", begin)
        end = len(content) if end < 0 else end
        text, begin, line = content[begin:min(end, begin + LONGEST_LINE)].strip(), end + 1, line + 1
        if text:
            yield text, line, begin


def _shown(line):
    """Quote the beginning of a line, for messages."""
    return repr(line[:80].decode("ascii", "replace"))


def _sizes(text, kind, line, begin, name):
    layout, field, symmetry = kind
    sizes = text.split()
    if len(sizes) != (3 if layout == "coordinate" else 2) or not all(re.fullmatch(rb"\+?\d{1,18}", s) for s in sizes):
        named = "rows, columns and entries" if layout == "coordinate" else "rows and columns"
        raise InvalidInputError(f"{name}:{line}: the sizes must be {named}, got {_shown(text)}")
    m, n = int(sizes[0]), int(sizes[1])
    if layout == "array" and field == "pattern":
        raise InvalidInputError(f"{name}:1: 'pattern' needs 'coordinate', got 'array'")
    if symmetry != "general" and m != n:
        raise InvalidInputError(f"{name}:{line}: a {symmetry} matrix must be square, got {m} x {n}")
    triangle = n * (n + 1) // 2 if symmetry in ("symmetric", "hermitian") else n * (n - 1) // 2
    count = int(sizes[2]) if layout == "coordinate" else m * n if symmetry == "general" else triangle
    return Header(layout, field, symmetry, (m, n), count, line, begin)


def _numbers(content, header, width, name):
    """Read (entries, width) numbers, one row per line. Empty lines, comments and values of a pattern are ignored."""
    numbers, bad = _core.read_table(content, header.begin, width, header.entries, header.field == "pattern")
    found = len(numbers) // width
    if bad >= 0:
        line = header.line + 1 + bad
        if found == header.entries:
            raise InvalidInputError(f"{name}:{line}: the file has more entries than the {header.entries} announced in line "
                                    f"{header.line}")
        text = _line(content, header.begin, bad)
        raise InvalidInputError(f"{name}:{line}: each line must have {width} numbers, got {_shown(text)}")
    if found != header.entries:
        line = content.count(b"\n", 0, _end(content)) + 1
        raise InvalidInputError(f"{name}:{line}: {header.entries} entries are announced, but the file has {found}: it may be "
                                "truncated")
    return numbers.reshape(header.entries, width)


def _line(content, begin, number):
    """Return the beginning of line ``number`` (from 0) after the offset ``begin``, without blanks at its ends."""
    for _ in range(number):
        begin = content.find(b"\n", begin) + 1
    end = content.find(b"\n", begin)
    return content[begin:min(len(content) if end < 0 else end, begin + LONGEST_LINE)].strip()


def _end(content):
    """Return the number of bytes without the blanks at the end, without a copy of the content."""
    end = len(content)
    while end and not (tail := content[max(end - LONGEST_LINE, 0):end].rstrip()):
        end = max(end - LONGEST_LINE, 0)
    return max(end - LONGEST_LINE, 0) + len(tail) if end else 0


def _coordinates(header, numbers, name):
    given = numbers[:, 0], numbers[:, 1]
    with np.errstate(invalid="ignore"):
        good = [(index >= 1) & (index <= most) & (index == np.floor(index)) for index, most in zip(given, header.shape)]
    good = good[0] & good[1]
    if not good.all():
        at = int(np.argmin(good))
        raise InvalidInputError(f"{name}: entry {at + 1} has row {given[0][at]:g}, column {given[1][at]:g}, outside a matrix of "
                                f"{header.shape[0]} x {header.shape[1]} (indices count from 1)")
    kind = np.int32 if max(header.shape) <= np.iinfo(np.int32).max else np.int64
    row, column = (index.astype(kind) - kind(1) for index in given)
    values = _values(header, numbers[:, 2:])
    if header.symmetry != "general":
        off = row != column
        _require_diagonal(header, values, ~off, name)
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
    _require_diagonal(header, values, row == column, name)
    return A


def _require_diagonal(header, values, on_diagonal, name):
    """Raise if entries on the diagonal are not those of a skew-symmetric or hermitian matrix."""
    rules = {"skew-symmetric": ("0", values), "hermitian": ("real", values.imag)}
    if header.symmetry in rules:
        says, wrong = rules[header.symmetry]
        if (bad := on_diagonal & (wrong != 0)).any():
            at = int(bad.argmax()) + 1
            raise InvalidInputError(f"{name}: entry {at} of a {header.symmetry} matrix is on the diagonal and not {says}")


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
