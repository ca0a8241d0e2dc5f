"""The bytes of a deck's files, with other values of its parameters.

Parameters are set by a .param line that is inserted before .end. As in ngspice the last line on a parameter counts, and the
numbers of the lines before it do not change.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Mapping

from meshsolve.apps.circuit.names import lower, similar
from meshsolve.errors import InvalidInputError
from meshsolve.options import as_number, shown

# A control line with its continuation lines, which comments may interrupt.
CONTROL = re.compile(rb"^[ \t\r]*\.(params?|subckt|ends|control|endc|end)(?=[\s,()'\"]|\Z)(.*(?:\n(?:[ \t\r]*(?:\*.*)?\n)*[ \t\r]*\+.*)*)",
                     re.IGNORECASE | re.MULTILINE)
COMMENT = re.compile(rb"^[ \t\r]*\*.*|;.*|//.*|(?<=\s)\$.*", re.MULTILINE)
EXPRESSION = re.compile(rb"\{[^{}]*\}|'[^']*'")
ASSIGNED = re.compile(rb"([^\s=,()+0-9][^\s=,()+]*)\s*=")


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

    def load(self, path):
        """(content of a file, True), or (message, False), both in bytes."""
        is_deck, self._is_deck = self._is_deck, False
        content, good = (self.text, True) if is_deck and self.text is not None else _read(path)
        if not good or not self.params:
            return content, good
        names, end = _defined(content, content.find(b"\n") + 1 if is_deck else 0)       # the first line is a title
        self._known |= names
        return (self._with_params(content, end) if is_deck else content), True

    def require_all_known(self, path):
        """Raise if a name in ``params`` is not a parameter of the deck."""
        for name in self.params:
            if name not in self._known:
                raise InvalidInputError(f"{path}: there is no parameter {name!r} in a .param line of the deck, outside of "
                                        f"subcircuits{similar(name, sorted(self._known))}")

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
        elif depth == 0:
            plain = EXPRESSION.sub(b"0", COMMENT.sub(b"", line[2]))
            names |= {lower(name.decode(errors="replace")) for name in ASSIGNED.findall(plain)}
    return names, len(content)


def _read(path):
    """As :meth:`Files.load`."""
    try:
        with (gzip.open if path.lower().endswith(".gz") else open)(path, "rb") as f:
            return f.read(), True
    except FileNotFoundError:
        return os.fsencode(f"{path}: there is no such file"), False
    except (OSError, EOFError, zlib.error) as e:
        return os.fsencode(f"{path}: the file cannot be read: {getattr(e, 'strerror', None) or e}"), False
