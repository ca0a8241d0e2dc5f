"""Numpy counterparts of the library calls of `meshsolve.device.dense`: in place, lower triangles only.

As on the GPU, values that are not finite are not refused.
"""

from scipy.linalg import get_blas_funcs


def trsm(l, b, side="R", trans="T"):
    routine, = get_blas_funcs(["trsm"], [l, b])
    b[:] = routine(1, l, b, side=side == "R", lower=True, trans_a=trans == "T")


def gemm(c, a, b, trans_a="N", trans_b="T"):
    c -= (a.T if trans_a == "T" else a) @ (b.T if trans_b == "T" else b)
