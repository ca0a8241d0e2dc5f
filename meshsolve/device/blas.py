"""The operations of `device.dense`, by cuBLAS on the current stream."""

from __future__ import annotations

import numpy as np

LOWER, NON_UNIT, HOST = 0, 0, 0                             # values of cublas_api.h
OPERATION = {"N": 0, "T": 1}
SIDE = {"L": 0, "R": 1}
PREFIX = {np.dtype(np.float64): "d", np.dtype(np.float32): "s"}


def trsm(l, b, side="R", trans="T"):
    one = np.ones(1, b.dtype)
    _call("trsm", b, SIDE[side], LOWER, OPERATION[trans], NON_UNIT, *b.shape, one.ctypes.data, l.data.ptr, _leading(l),
          b.data.ptr, _leading(b))


def gemm(c, a, b, trans_a="N", trans_b="T"):
    minus, one = -np.ones(1, c.dtype), np.ones(1, c.dtype)
    inner = a.shape[0] if trans_a == "T" else a.shape[1]
    _call("gemm", c, OPERATION[trans_a], OPERATION[trans_b], *c.shape, inner, minus.ctypes.data, a.data.ptr, _leading(a), b.data.ptr,
          _leading(b), one.ctypes.data, c.data.ptr, _leading(c))


def _call(routine, like, *args):
    """Call a cuBLAS routine with scalars on the host, and restore the pointer mode of the handle."""
    from cupy.cuda.device import get_cublas_handle
    from cupy_backends.cuda.libs import cublas

    handle = get_cublas_handle()
    mode = cublas.getPointerMode(handle)
    cublas.setPointerMode(handle, HOST)
    try:
        getattr(cublas, PREFIX[like.dtype] + routine)(handle, *args)
    finally:
        cublas.setPointerMode(handle, mode)


def _leading(array):
    """Return the leading dimension of a column-major view, in elements."""
    if array.ndim != 2 or (array.shape[0] > 1 and array.strides[0] != array.itemsize):
        raise ValueError(f"a column-major view is needed, not strides {array.strides} of {array.dtype}")
    return max(1, array.shape[0], array.strides[1] // array.itemsize if array.shape[1] > 1 else 1)
