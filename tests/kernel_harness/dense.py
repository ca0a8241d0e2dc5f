"""The numpy twin of the library calls behind `meshsolve.device.dense`: in place, lower triangles only."""

import numpy as np
import scipy.linalg as sl


def potrf(a):
    try:
        factor = np.linalg.cholesky(np.tril(a) + np.tril(a, -1).T)
    except np.linalg.LinAlgError:
        minors = (np.linalg.eigvalsh(np.tril(a[:k, :k]) + np.tril(a[:k, :k], -1).T)[0] for k in range(1, len(a) + 1))
        return next(k for k, least in enumerate(minors, 1) if least <= 0)
    a[np.tril_indices(len(a))] = factor[np.tril_indices(len(a))]
    return 0


def trsm(l, b, side="R", trans="T"):
    left = b if side == "L" else b.T
    flipped = (trans == "T") != (side == "R")
    left[:] = sl.solve_triangular(l, left, lower=True, trans="T" if flipped else "N", check_finite=False)


def syrk(c, a):
    lower = np.tril_indices(len(c))
    c[lower] -= (a @ a.T)[lower]


def gemm(c, a, b, trans_a="N", trans_b="T"):
    c -= (a.T if trans_a == "T" else a) @ (b.T if trans_b == "T" else b)
