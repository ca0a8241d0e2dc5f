"""Checks of options: numbers, words and flags become checked values, or errors that name the option."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping
from numbers import Real

import numpy as np

from meshsolve.errors import InvalidInputError

INT32_MAX = np.iinfo(np.int32).max
PLURALS = {"mesh": "meshes", "vertex": "vertices", "entry": "entries", "patch": "patches"}        # other nouns get an s


def as_integer(value, name, least=1, most=INT32_MAX):
    """``value`` as an int from ``least`` to ``most``; bools and floats are refused."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise InvalidInputError(f"{name} must be an integer from {least} to {most}, got {value!r}")
    return int(value)


def as_mapping(value, name):
    """``value`` as a mapping; None is an empty one."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a mapping from names to arrays, got {shown(value)}")
    return {} if value is None else value


def as_seed(seed):
    """A seed: an integer from 0 to 2^64 - 1."""
    return as_integer(seed, "seed", 0, 2**64 - 1)


def as_number(value, name, least=0.0, above=False):
    """``value`` as a finite float of at least ``least``, with ``above`` greater than that; bools and texts are refused."""
    given = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    try:
        number = float(given) if isinstance(given, Real) and not isinstance(given, bool) else np.nan
    except OverflowError:                                   # an int outside the range of float64
        number = np.inf
    if math.isfinite(number) and (number > least if above else number >= least):
        return number
    bound = "" if least == -np.inf else f" above {least:g}" if above else f" of at least {least:g}"
    raise InvalidInputError(f"{name} must be a finite number{bound}, got {value!r}")


def shown(value):
    """A short text for a wrong argument in a message."""
    if getattr(value, "shape", ()):
        return f"an array of shape {value.shape}"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def counted(count, noun):
    """A count with its noun: "1 face", "1,200 vertices"."""
    return f"{count:,} {noun if count == 1 else PLURALS.get(noun, noun + 's')}"


def as_flag(value, name):
    """``value`` as a bool; the integers 0 and 1 are accepted."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return bool(value)
    raise InvalidInputError(f"{name} must be True or False, got {shown(value)}")


def one_of(value, name, known):
    """``value`` if it is one of ``known``."""
    if isinstance(value, (str, int, np.integer)) and not isinstance(value, bool) and value in known:
        return value
    raise InvalidInputError(f"{name} must be one of {', '.join(map(repr, known))}, got {shown(value)}")


def is_auto(value):
    """True for ``"auto"``, for an option that may also be a number or an array."""
    return isinstance(value, str) and value == "auto"


def storage_type(dtype):
    """The ``np.dtype`` in which a factor is stored: float64 or float32."""
    try:
        given = np.dtype(dtype)
    except TypeError as e:
        raise InvalidInputError(f"dtype must be float64 or float32, got {dtype!r}") from e
    if given not in (np.float64, np.float32):
        raise InvalidInputError(f"dtype must be float64 or float32, got {given}")
    return given


def thread_count(threads=None):
    """The number of threads to use: ``threads``, else ``MESHSOLVE_NUM_THREADS``, else the cores this process may use."""
    if type(threads) is int and 1 <= threads <= 1024:       # the usual case: checked before
        return threads
    source, given = "threads", threads
    if given is None and os.environ.get("MESHSOLVE_NUM_THREADS"):
        source, given = "MESHSOLVE_NUM_THREADS", os.environ["MESHSOLVE_NUM_THREADS"]
    if given is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        count = int(given) if threads is None else operator.index(given)
    except (TypeError, ValueError):
        count = 0
    if count < 1 or isinstance(given, (bool, np.bool_)):
        raise InvalidInputError(f"{source} must be a positive integer, got {given!r}")
    return min(count, 1024)
