"""The bytes of a deck's files, with other values of its parameters.

Parameters are set by a .param line that is inserted before .end. As in ngspice the last line on a parameter counts, and the
numbers of the lines before it do not change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import numpy as np

from meshsolve.apps.circuit.names import lower, similar
from meshsolve.errors import InvalidInputError
from meshsolve.files import writable_content_of
from meshsolve.options import as_number, counted, shown

# A control line with its continuation lines, which comments may interrupt.
CONTROL = re.compile(rb"^[ \t\r]*\.(params?|step|subckt|ends|control|endc|end)(?=[\s,()'\"]|\Z)"
                     rb"(.*(?:\n(?:[ \t\r]*(?:\*.*)?\n)*[ \t\r]*\+.*)*)", re.IGNORECASE | re.MULTILINE)
COMMENT = re.compile(rb"^[ \t\r]*\*.*|;.*|//.*|(?<=\s)\$.*", re.MULTILINE)
EXPRESSION = re.compile(rb"\{[^{}]*\}|'[^']*'")
STEPPED = re.compile(rb"\s*(?:(?:oct|dec|lin)\s+)?param\s+([^\s=,()+0-9][^\s=,()+]*)", re.IGNORECASE)
ASSIGNED = re.compile(rb"([^\s=,()+0-9][^\s=,()+]*)\s*=")
MOST_FILES = 20_000             # .include and .lib lines of a deck; each reads its file again
FREE_BYTES, MOST_TIMES = 1 << 26, 100       # bytes that a deck may read in all: so many, and so many times the bytes of its files


def as_parameters(params):
    """{name in lower case: float} of the argument ``params``."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise InvalidInputError(f"params must be a mapping from names to numbers, got {shown(params)}")
    out = {}
    for name, value in params.items():
        if not isinstance(name, str):
            raise InvalidInputError(f"parameter names must be strings, got {name!r}")
        key = lower(name.strip())
        if key in out:
            raise InvalidInputError(f"params has {name!r} twice: names ignore the case of letters")
        out[key] = as_number(value, f"the parameter {name}", float("-inf"))
    return out


class Files:
    """Loads files for the reader. The first one is the deck.

    Parameters
    ----------
    text : bytes or None
        The deck. None: the first file is the deck.
    params : dict of str to float
        New values of the deck's parameters.
    """

    def __init__(self, text, params):
        self.text, self.params, self._is_deck, self._known = text, params, True, set()
        self._seen, self._distinct, self._total, self._times = set(), 0, 0, 0       # files, their bytes, bytes and files that were read

    def load(self, path):
        """(content of a file as an array that may be changed, b""), or (None, message in bytes)."""
        is_deck, self._is_deck = self._is_deck, False
        try:
            content = bytearray(self.text) if is_deck and self.text is not None else self._read(path)
        except InvalidInputError as e:
            return None, os.fsencode(str(e))
        if self.params:
            content = bytes(content)
            names, end = _defined(content, content.find(b"\n") + 1 if is_deck else 0)       # the first line is a title
            self._known |= names
            content = bytearray(self._with_params(content, end) if is_deck else content)
        return np.frombuffer(content, np.uint8), b""

    def require_all_known(self, path):
        """Raise if a name in ``params`` is not a parameter of the deck."""
        for name in self.params:
            if name not in self._known:
                raise InvalidInputError(f"{path}: there is no parameter {name!r} in a .param line, or .step line, of the deck, "
                                        f"outside of subcircuits{similar(name, sorted(self._known))}")

    def _read(self, path):
        """Return the content of a file as a writable buffer, within what a deck may read again and again."""
        if not os.path.exists(path):
            raise InvalidInputError(f"{path}: there is no such file")
        content = writable_content_of(path)
        key = os.path.realpath(path)
        self._distinct += 0 if key in self._seen else len(content)
        self._seen.add(key)
        self._times, self._total = self._times + 1, self._total + len(content)
        if self._times > MOST_FILES or self._total > FREE_BYTES + MOST_TIMES * self._distinct:
            raise InvalidInputError(f"{path}: the deck reads its {counted(len(self._seen), 'file')} {self._times:,} times, {self._total:,} "
                                    f"bytes in all. At most {MOST_FILES:,} times and {MOST_TIMES} times their bytes are read: include each "
                                    "file once")
        return content

    def _with_params(self, content, end):
        """The deck with a .param line before its .end. Names that no parameter can have are omitted: they raise an error
        later."""
        words = [f"{name}={value!r}" for name, value in self.params.items() if ASSIGNED.fullmatch(f"{name}=".encode(errors="replace"))]
        whole = content[:end].endswith(b"\n")
        return content[:end] + b"\n" * (not whole) + f".param {' '.join(words)}".encode() + b"\n" * whole + content[end:]


def _defined(content, start):
    """Names of the parameters of a file, without those of subcircuits, and the position of its .end or its last byte."""
    names, depth, in_control = set(), 0, False
    for line in CONTROL.finditer(content, start):
        keyword = line[1].lower()
        if keyword in (b"control", b"endc"):
            in_control = keyword == b"control"
        elif in_control:
            continue
        elif keyword == b"end":
            return names, line.start()
        elif keyword in (b"subckt", b"ends"):
            depth += 1 if keyword == b"subckt" else -1
        elif depth == 0 and keyword == b"step":
            names |= {lower(name.decode(errors="replace")) for name in STEPPED.findall(line[2])[:1]}
        elif depth == 0:
            plain = EXPRESSION.sub(b"0", COMMENT.sub(b"", line[2]))
            names |= {lower(name.decode(errors="replace")) for name in ASSIGNED.findall(plain)}
    return names, len(content)
