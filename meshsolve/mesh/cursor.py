"""A position in the bytes of a file that mixes words with numbers in text or binary: legacy VTK and MSH.

Nothing is allocated before the bytes that it needs have been found, so time and memory are proportional to the bytes of a file.
"""

from __future__ import annotations

import re

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError

WORD = re.compile(rb"\s*(\S*)")
END_OF_LINE = re.compile(rb"[ \t\r]*\n")
LARGEST_EXACT = 2.0 ** 53                   # integers up to this bound are exact in float64
MOST_COLUMNS = 10**8                        # of an array: numpy's records are smaller than 2^31 bytes


class Cursor:
    """Read words, lines and arrays one after the other.

    ``text`` is whether arrays are text; ``order`` is the byte order of binary ones, ``"<"`` or ``">"``.
    """

    def __init__(self, content, text=True, order=">"):
        self.content, self.at, self.text, self.order = content, 0, text, order

    def word(self):
        """Return the next word, empty at the end of the file."""
        match = WORD.match(self.content, self.at)
        self.at = match.end()
        return match[1].decode("utf-8", "replace")

    def peek(self):
        """Return the next word without reading it."""
        return WORD.match(self.content, self.at)[1].decode("utf-8", "replace")

    def line(self):
        """Return the rest of the line."""
        end = self.content.find(b"\n", self.at)
        end = len(self.content) if end < 0 else end
        line, self.at = self.content[self.at:end], end + 1
        return line.decode("utf-8", "replace").strip()

    def count(self, what):
        """Return the next word as a number of things; each takes at least one byte of the file."""
        word = self.word()
        if not (word.isascii() and word.isdecimal()):
            raise InvalidInputError(f"{self.where()}: {word[:20]!r} is not a number of {what}")
        if len(word) > 18 or int(word) > len(self.content):
            raise InvalidInputError(f"{self.where()}: the file announces {word[:20]} {what}, but it has {len(self.content)} bytes: "
                                    "it may be truncated")
        return int(word)

    def end_of_line(self):
        """Skip blanks and one end of line, after which binary numbers begin."""
        if match := END_OF_LINE.match(self.content, self.at):
            self.at = match.end()

    def skip_past(self, words):
        """Skip to the end of the next ``words``."""
        found = self.content.find(words.encode(), self.at)
        if found < 0:
            raise InvalidInputError(f"{self.where()}: {words[:40]!r} is missing: the file may be truncated")
        self.at = found + len(words.encode())

    def numbers(self, dtype, count, what):
        """Return ``count`` numbers in the type of the file, or as float64 if a text has others.

        Raises
        ------
        InvalidInputError
            The file has too few bytes, or a word that is no number.
        """
        dtype = np.dtype(dtype)
        if self.text:
            return self._decimals(dtype, count, what)
        left = (len(self.content) - self.at) // dtype.itemsize
        if not 0 <= count <= left:
            raise InvalidInputError(f"{what} needs {count} numbers, but the file has bytes for {max(left, 0)}: it may be truncated")
        values = np.frombuffer(self.content, dtype.newbyteorder(self.order), count, self.at) if count else np.zeros(0, dtype)
        self.at += values.nbytes
        return values.astype(dtype)

    def integers(self, dtype, count, what):
        """Return ``count`` integers as int64."""
        return as_integers(self.numbers(dtype, count, what), what)

    def where(self):
        """The line of the cursor, for messages."""
        return f"line {self.line_of(self.at)}"

    def line_of(self, at):
        """Return the number of the line of a byte."""
        return self.content.count(b"\n", 0, at) + 1

    def _decimals(self, dtype, count, what):
        begin = self.at
        if not 0 <= count <= len(self.content):
            raise InvalidInputError(f"{what} needs {count} numbers, but the file has {len(self.content)} bytes: it may be truncated")
        values, bad, self.at = _core.read_numbers(self.content, begin, count)
        if len(values) < count:
            word = WORD.match(self.content, self.at)[1][:20].decode("latin-1")
            why = f"line {self.line_of(bad)}: {word!r} is not a number" if bad >= 0 else "it may be truncated"
            raise InvalidInputError(f"{what} needs {count} numbers, but the file has {len(values)}: {why}")
        return typed(values, dtype, lambda: self.content[begin:self.at])


def typed(values, dtype, text):
    """Convert float64 numbers of ``text()`` to the type of the file; numbers that are not of this integer type stay float64."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return values.astype(dtype, copy=False)
    if len(values) and not np.abs(values).max() < LARGEST_EXACT:
        try:
            return np.array([int(word) for word in text().split()], dtype)
        except (ValueError, OverflowError):
            return values
    with np.errstate(invalid="ignore"):
        out = values.astype(dtype)
    return out if (out == values).all() else values


def whole(word):
    """Return a word of at most 18 decimal digits as an integer; -1 for any other word."""
    return int(word) if word.isascii() and word.isdecimal() and len(word) <= 18 else -1


def as_integers(values, what):
    """Return numbers as int64; raise if one is no integer of at most 63 bits."""
    wrong = ~(np.abs(values) <= LARGEST_EXACT) | (values != np.floor(values)) if values.dtype.kind == "f" else values > np.iinfo("i8").max
    if wrong.any():
        raise InvalidInputError(f"{what} must be integers, got {values[wrong][0]:g}")
    return values.astype(np.int64)
