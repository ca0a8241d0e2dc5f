"""Vectors and blocks of columns: checked where they lie, measured, and returned in the form in which they came."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, device, foreign
from meshsolve.device.reductions import flag_of, is_any, max_of_columns, sum_of_columns
from meshsolve.errors import InvalidInputError

WIDE = 32               # columns up to which numpy reduces faster column by column than along rows


def as_array(x, name):
    """Return a numpy array of any array-like, see :func:`from_any`. Raises InvalidInputError for anything else, and for masked entries."""
    if type(x) is np.ndarray:
        return x
    if foreign.is_sparse(x):
        dense = "toarray" if sp.issparse(x) else "to_dense" if hasattr(x, "to_dense") else "todense"
        raise InvalidInputError(f"{name} is sparse, a {type(x).__name__}, where a dense array is needed: {name}.{dense}()")
    try:
        given = from_any(x)
    except MemoryError:
        raise
    except Exception as e:                                  # foreign array types raise any exception
        raise foreign.why_no_array(x, name, e) from e
    if np.ma.is_masked(x):
        raise InvalidInputError(f"{name} has masked entries: fill them first")
    return given


def as_floats(x, name):
    """Return an array-like of real numbers as float64. Raises InvalidInputError for others: complex numbers would lose a part."""
    given = as_array(x, name)
    if given.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must be real numbers, got {given.dtype}")
    return np.asarray(given, np.float64)


def from_any(x):
    """Return a host array of any array-like: numpy, DLPack (torch, jax), buffers. A CuPy array is copied to the host."""
    if hasattr(x, "__cuda_array_interface__"):
        return x.get() if hasattr(x, "get") else np.from_dlpack(x.cpu())
    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__"):
        return np.from_dlpack(x)
    return np.asarray(x)


def read_only(x):
    """Return a read-only view of a numpy array that several objects share. Other objects, CuPy arrays too, are returned as they are."""
    if not isinstance(x, np.ndarray):
        return x
    view = x.view()
    view.flags.writeable = False
    return view


def as_complex(real, imaginary):
    """Return the complex128 array of two real ones. A product with 1j would make NaN of an infinite part."""
    x = real.astype(np.complex128)
    x.imag = imaginary
    return x


# ---- row numbers ------------------------------------------------------------------------------------------------------


def as_perm(perm, n, name="perm", threads=1):
    """Return a permutation of 0..n-1 as (n,) int32. An error names the first index that is missing or given twice."""
    given = as_array(perm, name)
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must be {n} integers, got shape {given.shape} of {given.dtype}")
    if given.dtype == np.int32 and _core.is_permutation(given := np.ascontiguousarray(given), threads):
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
    """Return distinct row numbers as (k,) int32 in the given order. One number, a boolean mask of length n, and the result of
    ``np.where(mask)`` are accepted too."""
    if isinstance(idx, tuple) and len(idx) == 1 and isinstance(idx[0], np.ndarray):
        idx = idx[0]
    given = as_array(idx, name)
    if given.ndim == 0 and given.dtype.kind in "iu":
        given = given[None]
    if given.dtype == bool and given.shape == (n,):
        return np.flatnonzero(given).astype(np.int32)
    given = given.astype(np.int64) if given.size == 0 else given
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must be a list of row numbers, got shape {given.shape} of {given.dtype}")
    if given.size and (given.min() < 0 or given.max() >= n):
        raise InvalidInputError(f"{name} has row numbers outside 0..{n - 1}: {given[(given < 0) | (given >= n)][0]}")
    values, count = np.unique(given, return_counts=True)
    if len(values) != len(given):
        mask = ": a mask must be of dtype bool" if given.shape == (n,) and values[-1] <= 1 else ""
        raise InvalidInputError(f"{name} names row {values[count > 1][0]} more than once{mask}")
    return given.astype(np.int32)


# ---- right-hand sides -------------------------------------------------------------------------------------------------


def as_rhs(b, n, name="b", dtype=np.float64):
    """Return a right-hand side on the host and the shape in which it came.

    Parameters
    ----------
    b : (n,) or (n, k) array-like
    dtype : float64 or complex128

    Returns
    -------
    columns : (n, k) array of ``dtype``, C or F contiguous
        The caller's own memory if it has this form. Do not write to it.
    shape : tuple

    Raises
    ------
    InvalidInputError
        Not (n,) or (n, k), not real numbers, NaN or infinity.
    """
    given = as_array(b, name)
    if given.dtype.kind not in ("fiub" if dtype == np.float64 else "fiubc"):
        raise InvalidInputError(f"{name} must hold {'real ' if dtype == np.float64 else ''}numbers, got {given.dtype}")
    columns = np.asarray(_columns_of(given, n, name), dtype)
    if not (columns.flags.c_contiguous or columns.flags.f_contiguous):
        columns = np.ascontiguousarray(columns)
    if _core.first_not_finite(columns.ravel(order="K").view(np.float64)) >= 0:
        row, column = np.argwhere(~np.isfinite(columns))[0]
        raise InvalidInputError(f"{name}: row {row} holds {columns[row, column]}")
    return columns, given.shape


def as_rhs_cuda(b, n, name="b"):
    """Return a real right-hand side that lies on the GPU as (n, k) float64, C or F contiguous, and its shape; as :func:`as_rhs`."""
    columns, shape, check = begin_rhs_cuda(b, n, name)
    check()
    return columns, shape


def begin_rhs_cuda(b, n, name="b"):
    """Return the results of :func:`as_rhs_cuda` and a function that raises if a value is not finite.

    That function waits until b has been computed. Call it when all work with b is queued, before any result is returned.
    """
    if b.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} must hold real numbers, got {b.dtype}")
    columns = _columns_of(b, n, name).astype(np.float64, copy=False)
    if not (columns.flags.c_contiguous or columns.flags.f_contiguous):
        columns = device.xp().ascontiguousarray(columns)
    return columns, b.shape, check_finite_later(columns, f"{name}: row {{}} holds a value that is not finite")


def checked_already():
    """Check nothing: the values were checked before."""


def check_finite_later(x, message):
    """Return a function that raises if an (n, k) array on the GPU holds NaN or infinity. ``message`` has ``{}`` for the row.

    The function waits for the work that is queued now.
    """
    xp = device.xp()
    not_finite = device.scalar_later(flag_of(~xp.isfinite(x)))

    def check():
        if not_finite():
            raise InvalidInputError(message.format(int(xp.argmin(xp.isfinite(x).all(axis=1)))))
    return check


def first_true(mask):
    """Return the first index of a true entry of an (n,) bool array on the host or on the GPU, or -1."""
    if not isinstance(mask, np.ndarray):
        return int(device.xp().argmax(mask)) if is_any(mask) else -1
    found = np.flatnonzero(mask)
    return int(found[0]) if len(found) else -1


# ---- norms ------------------------------------------------------------------------------------------------------------


def reduce_columns(name, x):
    """Return ``"max"``, ``"min"`` or ``"mean"`` of each column of an (n, k) array, (k,) where the array lies.

    numpy takes many times as long along rows of a few values as down a column, CuPy on tall arrays of a few columns.
    """
    if not isinstance(x, np.ndarray):
        return {"max": max_of_columns, "min": lambda x: -max_of_columns(-x), "mean": lambda x: sum_of_columns(x) / len(x)}[name](x)
    if x.shape[1] <= WIDE:
        return np.array([getattr(column, name)() for column in x.T])
    return getattr(x, name)(axis=0)


def max_abs(x):
    """Return the largest absolute value in each column of an (n, k) array, (k,) where the array lies; 0 without rows."""
    if 0 in x.shape:                                        # CuPy has no maximum of an empty array, along either axis
        return np.zeros(x.shape[1])
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        return np.maximum(reduce_columns("max", x), -reduce_columns("min", x))      # abs(x) would be a copy
    return reduce_columns("max", abs(x)) if isinstance(x, np.ndarray) else max_of_columns(x, magnitudes=True)


def lengths(x):
    """Return the 2-norms of the columns of an (n, k) float64 array, (k,) on the host, without overflow or underflow of the squares.

    On the host the squares are summed by einsum. BLAS would sum products of vectors on all its threads, in an order that depends on
    them; if other programs use the cores, it waits milliseconds per column.
    """
    if 0 in x.shape:
        return np.zeros(x.shape[1])
    on_host = isinstance(x, np.ndarray)
    if on_host:
        with np.errstate(over="ignore", under="ignore"):
            squares = np.einsum("ij,ij->j", x, x) if x.shape[1] > 8 else np.array([np.einsum("i,i", column, column) for column in x.T])
        if ((squares > 1e-280) & (squares < 1e280)).all():
            return np.sqrt(squares)
    largest = device.to_host(max_abs(x))
    scale = np.where(largest > 0, largest, 1.0)
    if on_host:
        return scale * np.linalg.norm(x / scale, axis=0)
    x = x / device.to_device(scale)
    return scale * np.sqrt(device.to_host(sum_of_columns(x * x)))


def _columns_of(b, n, name):
    """Return b as an array with two dimensions."""
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise InvalidInputError(f"{name} must be ({n},) or ({n}, k), got {tuple(b.shape)}")
    return b if b.ndim == 2 else b[:, None]
