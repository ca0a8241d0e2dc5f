"""Reductions of whole arrays on the GPU, by own kernels.

CuPy uses CUB if an nvcc is installed. With its wheels alone it uses one thread block per result, which takes a nanosecond per entry:
milliseconds for the values of a matrix.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device import BLOCK, launch_1d

K = device.kernels("device/reductions.cu")
PARTS = 256                                                 # thread blocks of the first pass over columns; the second has one


def flag_of(mask):
    """Return a (1,) int32 array on the GPU, 1 if any entry of a bool array is true. Does not wait."""
    flag = device.xp().zeros(1, np.int32)
    launch_1d(K.k_any, mask.size, np.int64(mask.size), mask, flag)
    return flag


def is_any(mask):
    """Return True if any entry of a bool array on the GPU is true."""
    return bool(device.scalar(flag_of(mask)))


def max_of_columns(x, magnitudes=False):
    """Return the largest entry of each column of an (n, k) array, n > 0, (k,) float64 on the GPU; NaN for a column with NaN.

    ``magnitudes``: of the absolute values.
    """
    return _of_columns(K.k_max_columns, x, np.int32(magnitudes))


def sum_of_columns(x):
    """Return the sums of the columns, (k,) float64 on the GPU, with the same bits in every run."""
    return _of_columns(K.k_sum_columns, x)


def powers_of_two(size, most):
    """Return (2^-p, 2^p), (k,) float64 on the GPU, for the p of :func:`numpy.frexp` of each size, limited to -most and most."""
    down, up = (device.xp().empty(len(size), np.float64) for _ in range(2))
    launch_1d(K.k_powers, len(size), np.int32(len(size)), size, np.int32(most), down, up)
    return down, up


def _of_columns(kernel, x, *options):
    x = x.astype(np.float64, copy=False)
    if not (x.flags.c_contiguous or x.flags.f_contiguous):
        x = device.xp().ascontiguousarray(x)
    for most in (PARTS, 1):
        parts = device.xp().empty((device.grid_for(len(x), BLOCK, most), x.shape[1]), np.float64)
        strides = (np.int64(stride // x.itemsize) for stride in x.strides)
        device.launch(kernel, (len(parts), min(x.shape[1], device.MOST_ACROSS)), BLOCK, 0,
                      (np.int64(len(x)), np.int32(x.shape[1]), x, *strides, parts, *options))
        x = parts
    return x[0]
