"""Pickles with a checksum: bytes that a disk or a copy has changed raise an error before any array of them is used.

Native code trusts the arrays of an analysis or a factor, so a few flipped bits in its pickle could end the process. A sealed object is
pickled as the bytes of its state, its arrays next to them, and a checksum of both. When it is loaded, nothing of the state is restored
before the checksum is found right. Sealed objects inside the state, such as an analysis that several factors share, are pickled on their
own: they stay shared, and have checksums of their own. A checksum is no protection against people: load pickles from sources you trust.

Cost: one pass over the bytes, about a second per gigabyte, when a pickle is written and when it is loaded. Copies have no checksum.
"""

from __future__ import annotations

import copy
import io
import pickle
import zlib
from typing import Any

import numpy as np

from meshsolve.errors import InvalidInputError

PROTOCOL = 5                    # of the inner pickle, whose arrays are kept apart


class Sealed:
    """An object whose pickle has a checksum. Its state is that of ``__getstate__`` and ``__setstate__``."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        if type(self).__reduce__ is not object.__reduce__:      # the class says how it is pickled
            return self.__reduce__()
        parts = _packed(self.__getstate__())
        if parts is None:                                       # the outer pickler may be able to do it, or raises
            return super().__reduce_ex__(protocol)
        return _restored, (type(self), *parts, _checksum(type(self), *parts))

    def __copy__(self) -> Any:
        return _with_state(object.__new__(type(self)), self.__getstate__())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = object.__new__(type(self))
        return _with_state(made, copy.deepcopy(self.__getstate__(), memo))


def _packed(state):
    """Return (bytes of a state, its arrays as bytes, the sealed objects inside), or None if Python's pickle cannot write it."""
    file, buffers = io.BytesIO(), []
    packer = _Packer(file, buffers.append)
    try:
        packer.dump(state)
    except (pickle.PicklingError, AttributeError, TypeError):   # a lambda, which cloudpickle writes
        return None
    arrays = [np.frombuffer(raw, np.uint8) if (raw := buffer.raw()).nbytes else np.zeros(0, np.uint8) for buffer in buffers]
    return file.getvalue(), arrays, packer.inner


class _Packer(pickle.Pickler):
    """Pickles a state, and collects the sealed objects inside."""

    def __init__(self, file, collect):
        super().__init__(file, PROTOCOL, buffer_callback=collect)
        self.inner = []

    def persistent_id(self, x):
        if not isinstance(x, Sealed):
            return None
        self.inner.append(x)
        return len(self.inner) - 1, _key(x)


def _checksum(cls, content, arrays, inner):
    """CRC-32 of the name of the class, of all bytes and of the names and sizes of the inner objects."""
    known = repr((cls.__module__, cls.__qualname__, len(content), [x.nbytes for x in arrays], [_key(x) for x in inner]))
    total = zlib.crc32(content, zlib.crc32(known.encode()))
    for x in arrays:
        total = zlib.crc32(x, total)
    return total


def _restored(cls: Any, content: Any, arrays: Any, inner: Any, checksum: Any) -> Any:
    """Return the object of a pickle; called by pickle."""
    try:
        good = issubclass(cls, Sealed) and _checksum(cls, content, arrays, inner) == checksum
    except Exception:                                           # parts of other types
        good = False
    if not good:
        raise InvalidInputError(f"the pickle of a {getattr(cls, '__name__', 'meshsolve object')} is damaged: its bytes do not fit its "
                                "checksum. Copy the file again, or make the object again")
    return _with_state(cls.__new__(cls), _Unpacker(content, arrays, inner).load())


class _Unpacker(pickle.Unpickler):
    def __init__(self, content, arrays, inner):
        super().__init__(io.BytesIO(content), buffers=arrays)
        self._inner = inner

    def persistent_load(self, pid):
        number, key = pid
        if _key(self._inner[number]) != key:
            raise ValueError(f"it refers to a {key[0]}, and has a {_key(self._inner[number])[0]}")
        return self._inner[number]


def _with_state(made, state):
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
    else:
        made.__dict__.update(state or {})
    return made


def _key(x):
    """What is compared of an inner object: its class and its size."""
    return type(x).__qualname__, str(getattr(x, "shape", None) or getattr(x, "n", None))
