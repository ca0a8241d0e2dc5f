"""Numpy counterparts of the library calls of `meshsolve.device.dense`: in place, lower triangles only.

As on the GPU, values that are not finite are not refused.
"""

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs


def potrf_size(a):
    return len(a)


def potrf(a, info, work):
    assert len(work) >= len(a)
    (routine,), lower = get_lapack_funcs(["potrf"], [a]), np.tril_indices(len(a))
    factor, info[0] = routine(a, lower=True, clean=False)
    a[lower] = factor[lower]


def trsm(l, b, side="R", trans="T"):
    routine, = get_blas_funcs(["trsm"], [l, b])
    b[:] = routine(1, l, b, side=side == "R", lower=True, trans_a=trans == "T")


def syrk(c, a):
    lower = np.tril_indices(len(c))
    with np.errstate(all="ignore"):
        c[lower] -= (a @ a.T)[lower]


def gemm(c, a, b, trans_a="N", trans_b="T"):
    c -= (a.T if trans_a == "T" else a) @ (b.T if trans_b == "T" else b)
