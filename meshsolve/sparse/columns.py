"""Vectors and blocks of columns: checked where they lie, measured, and handed back in the form in which they came."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, device, foreign
from meshsolve.device.reductions import flag_of, max_of_columns, sum_of_columns
from meshsolve.errors import InvalidInputError


def read_only(x):
    """A view of a numpy array that cannot be written to: results that others hold as well. CuPy's arrays know nothing of the kind, and
    are returned as they are, like what is no array."""
    if not isinstance(x, np.ndarray):
        return x
    view = x.view()
    view.flags.writeable = False
    return view


def as_array(x, name):
    """A numpy array of anything that is one, see :func:`from_any`; what is none raises InvalidInputError, masked entries too."""
    if type(x) is np.ndarray:
        return x
    if foreign.is_sparse(x):
        dense = "toarray" if sp.issparse(x) else "to_dense" if hasattr(x, "to_dense") else "todense"
        raise InvalidInputError(f"{name} is sparse, a {type(x).__name__}, where a dense array is needed: {name}.{dense}()")
    try:
        given = from_any(x)
    except Exception as e:                                  # whatever foreign array types raise
        raise foreign.why_no_array(x, name, e) from e
    if np.ma.is_masked(x):
        raise InvalidInputError(f"{name} has masked entries: fill them first")
    return given


def from_any(x):
    """A CPU array of anything that is one: numpy, DLPack (torch, jax), buffers; a CuPy array is copied to the host."""
    if hasattr(x, "__cuda_array_interface__"):
        return x.get() if hasattr(x, "get") else np.from_dlpack(x.cpu())
    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__"):
        return np.from_dlpack(x)
    return np.asarray(x)


def as_complex(real, imaginary):
    """The complex128 array of two real ones: a product with 1j would make NaN of an infinite part."""
    x = real.astype(np.complex128)
    x.imag = imaginary
    return x


def as_perm(perm, n, name="perm"):
    """A permutation of 0..n-1 as (n,) int32; names the first index that is missing or given twice."""
    given = as_array(perm, name)
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} has to be {n} integers, not shape {given.shape} of {given.dtype}")
    if given.dtype == np.int32 and _core.is_permutation(given := np.ascontiguousarray(given)):
        return given
    if given.min(initial=0) < 0 or given.max(initial=0) >= n:
        k = int(np.argmax((given < 0) | (given >= n)))
        raise InvalidInputError(f"{name} has values outside 0..{n - 1}: {given[k]} at {k}")
    given = np.ascontiguousarray(given, np.int32)
    count = np.bincount(given, minlength=n)
    if (count != 1).any():
        raise InvalidInputError(f"{name} is no permutation: {int(np.argmax(count != 1))} occurs {count[count != 1][0]} times")
    return given


def as_indices(idx, n, name="fixed"):
    """Distinct row numbers as (k,) int32 in the order given; one number, a boolean mask of length n and what ``np.where`` makes of a
    mask are taken as well."""
    if isinstance(idx, tuple) and len(idx) == 1 and isinstance(idx[0], np.ndarray):
        idx = idx[0]
    given = as_array(idx, name)
    if given.ndim == 0 and given.dtype.kind in "iu":
        given = given[None]
    if given.dtype == bool and given.shape == (n,):
        return np.flatnonzero(given).astype(np.int32)
    given = given.astype(np.int64) if given.size == 0 else given
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} has to be a list of row numbers, not shape {given.shape} of {given.dtype}")
    if given.size and (given.min() < 0 or given.max() >= n):
        raise InvalidInputError(f"{name} has row numbers outside 0..{n - 1}: {given[(given < 0) | (given >= n)][0]}")
    values, count = np.unique(given, return_counts=True)
    if len(values) != len(given):
        mask = ": a mask has to be of dtype bool" if given.shape == (n,) and values[-1] <= 1 else ""
        raise InvalidInputError(f"{name} names row {values[count > 1][0]} more than once{mask}")
    return given.astype(np.int32)


def as_rhs(b, n, name="b", dtype=np.float64):
    """A right-hand side as an (n, k) array of ``dtype``, float64 or complex128, C or F contiguous, and the shape it came in.

    The caller's own memory where that fits, so it is not to be written to.

    Raises
    ------
    InvalidInputError
        Not (n,) or (n, k), not real numbers, NaN or infinity.
    """
    given = as_array(b, name)
    if given.dtype.kind not in ("fiub" if dtype == np.float64 else "fiubc"):
        raise InvalidInputError(f"{name} has to hold {'real ' if dtype == np.float64 else ''}numbers, not {given.dtype}")
    if given.ndim not in (1, 2) or given.shape[0] != n:
        raise InvalidInputError(f"{name} has to be ({n},) or ({n}, k), not {given.shape}")
    columns = np.asarray(given if given.ndim == 2 else given[:, None], dtype)
    if not (columns.flags.c_contiguous or columns.flags.f_contiguous):
        columns = np.ascontiguousarray(columns)
    if _core.first_not_finite(columns.ravel(order="K").view(np.float64)) >= 0:
        row, column = np.argwhere(~np.isfinite(columns))[0]
        raise InvalidInputError(f"{name}: row {row} holds {columns[row, column]}")
    return columns, given.shape


def as_device_rhs(b, n, name="b"):
    """A right-hand side on the device as an (n, k) float64 array, C or F contiguous, and the shape it came in.

    Raises
    ------
    InvalidInputError
        Not (n,) or (n, k), not real numbers, NaN or infinity.
    """
    columns, shape, check = begin_device_rhs(b, n, name)
    check()
    return columns, shape


def begin_device_rhs(b, n, name="b"):
    """What :func:`as_device_rhs` gives, and a function that raises where a value is not finite. That waits until b is there: to be
    called when all work with b is queued, and before anyone sees what came of it."""
    xp = device.xp()
    if b.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} has to hold real numbers, not {b.dtype}")
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise InvalidInputError(f"{name} has to be ({n},) or ({n}, k), not {tuple(b.shape)}")
    columns = (b if b.ndim == 2 else b[:, None]).astype(np.float64, copy=False)
    if not (columns.flags.c_contiguous or columns.flags.f_contiguous):
        columns = xp.ascontiguousarray(columns)
    return columns, b.shape, finite_later(columns, f"{name}: row {{}} holds a value that is not finite")


def finite_later(x, message):
    """A function that raises where an (n, k) array on the device holds NaN or infinity, with the row in the message; it waits for
    what is queued now."""
    xp = device.xp()
    not_finite = device.scalar_later(flag_of(~xp.isfinite(x)))

    def check():
        if not_finite():
            raise InvalidInputError(message.format(int(xp.argmin(xp.isfinite(x).all(axis=1)))))
    return check


def reduce_columns(name, x):
    """(k,) ``"max"``, ``"min"`` or ``"mean"`` of each column of an (n, k) array, numpy's or CuPy's. numpy takes many times as long along
    rows of a few values as down a column, CuPy over tall arrays of a few columns."""
    if not isinstance(x, np.ndarray):
        return {"max": max_of_columns, "min": lambda x: -max_of_columns(-x), "mean": lambda x: sum_of_columns(x) / len(x)}[name](x)
    if x.shape[1] <= 32:
        return np.array([getattr(column, name)() for column in x.T])
    return getattr(x, name)(axis=0)


def lengths(x):
    """(k,) 2-norms of the columns of an (n, k) float64 array, also where their squares leave the range of float64.

    Of einsum, not of products of vectors: BLAS sums those on all its threads, in an order of theirs, and where another program has the
    cores it waits milliseconds for them, column by column."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->j", x, x) if x.shape[1] > 8 else np.array([np.einsum("i,i", column, column) for column in x.T])
    if ((squares > 1e-280) & (squares < 1e280)).all():
        return np.sqrt(squares)
    largest = max_abs(x)
    scale = np.where(largest > 0, largest, 1.0)
    return scale * np.linalg.norm(x / scale, axis=0)


def max_abs(x):
    """(k,) the largest modulus in each column of an (n, k) array; 0 where there are no rows."""
    if 0 in x.shape:                                        # of which CuPy takes no maximum, whatever the axis
        return np.zeros(x.shape[1])
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        return np.maximum(reduce_columns("max", x), -reduce_columns("min", x))      # abs(x) would be a copy
    return reduce_columns("max", abs(x))


def device_lengths(x):
    """(k,) 2-norms of the columns of an (n, k) float64 array on the device, on the host, as :func:`lengths` has them:
    also where their squares leave the range of float64."""
    if 0 in x.shape:
        return np.zeros(x.shape[1])
    largest = device.to_host(max_abs(x))
    scale = np.where(largest > 0, largest, 1.0)
    x = x / device.to_device(scale)
    return scale * np.sqrt(device.to_host(sum_of_columns(x * x)))
