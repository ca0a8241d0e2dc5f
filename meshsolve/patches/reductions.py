"""Checks of the arguments of ``PatchMesh.reduce``."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.errors import InvalidInputError
from meshsolve.options import as_integer, as_number
from meshsolve.sparse.columns import as_array, first_true

OPS = ("sum", "mean", "min", "max")                         # numbered as in rings.hpp


def checked(values, targets, query, op):
    """Return the values as an array where they lie, and the dtype of the result."""
    given = device.asarray(values) if device.holds(values) else as_array(values, "values")
    if given.ndim == 0 or given.shape[0] != targets:
        raise InvalidInputError(f"values must be of shape ({targets}, ...) for the query {query}, got {tuple(given.shape)}")
    if given.dtype.kind == "f":
        return given, np.dtype(np.float32 if given.dtype.itemsize <= 4 else np.float64)
    if given.dtype.kind in "biu" and np.can_cast(given.dtype, np.int64):
        return given, np.dtype(np.float64 if op == "mean" else np.int64)
    raise InvalidInputError(f"values must be real numbers, floating point or integers within int64, got {given.dtype}")


def value_of_empty(empty, dtype, op, indptr):
    """Return the result for a row without entries."""
    if op == "sum":
        return 0
    if dtype.kind == "i":
        if empty is not None:
            return as_integer(empty, "empty", -2**63, 2**63 - 1)
        row = first_true(indptr[1:] == indptr[:-1])
        if row >= 0:
            raise InvalidInputError(f"row {row} of the query has no entries, so it has no {op} among integers: give empty=, or floating "
                                    "point values for NaN")
        return 0
    if empty is None:
        return np.nan
    return float(empty) if isinstance(empty, (float, np.floating)) else as_number(empty, "empty", -np.inf)      # NaN and infinity pass
