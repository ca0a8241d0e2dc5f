"""Reductions of whole arrays on the device, by kernels of our own.

CuPy's are CUB's where an nvcc compiles them; with the wheels alone they have one block of threads for each number that comes out,
and take a nanosecond for each that goes in: milliseconds for the entries of a matrix.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device import BLOCK, launch_1d

K = device.kernels("device/reductions.cu")
PARTS = 256                                                 # blocks of the first pass over columns; one block has the second


def flag_of(mask):
    """(1,) int32 on the device: 1 where any entry of a bool array is true. Waits for nothing."""
    flag = device.xp().zeros(1, np.int32)
    launch_1d(K.k_any, mask.size, np.int64(mask.size), mask, flag)
    return flag


def is_any(mask):
    """Whether any entry of a bool array on the device is true."""
    return bool(device.scalar(flag_of(mask)))


def max_of_columns(x):
    """(k,) float64 on the device: the largest of each column of an (n, k) array there, n > 0; NaN where one is."""
    return _of_columns(K.k_max_columns, x)


def sum_of_columns(x):
    """(k,) float64 on the device, the same bits in every run."""
    return _of_columns(K.k_sum_columns, x)


def max_of_rows(indptr, data):
    """(n,) largest moduli of the rows of a matrix on the device, in compressed rows."""
    n = len(indptr) - 1
    most = device.xp().empty(n, np.float64)
    launch_1d(K.k_max_rows, 32 * n, np.int32(n), indptr, data, most)
    return most


def _of_columns(kernel, x):
    x = x.astype(np.float64, copy=False)
    if not (x.flags.c_contiguous or x.flags.f_contiguous):
        x = device.xp().ascontiguousarray(x)
    for most in (PARTS, 1):
        parts = device.xp().empty((device.grid_for(len(x), BLOCK, most), x.shape[1]), np.float64)
        strides = (np.int64(stride // x.itemsize) for stride in x.strides)
        device.launch(kernel, (len(parts), min(x.shape[1], device.MOST_ACROSS)), BLOCK, 0,
                      (np.int64(len(x)), np.int32(x.shape[1]), x, *strides, parts))
        x = parts
    return x[0]
