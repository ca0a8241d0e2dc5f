"""IC(0) of cuSPARSE with conjugate gradients on the GPU, through CuPy's bindings.

The level sets of the two triangular solves are analyzed once, in the set-up. Scalars of the iteration stay on the device, except the norm
of the residual, which the host reads once per iteration.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from benchmarks.peers.base import Unavailable

MAXITER = 3000
SHIFT = 1e-10                                               # shift relative to the diagonal, for singular Laplacians


class IncompleteCholesky:
    """``put(A)`` brings a csr matrix of the host to the device, ``setup()`` factors it, ``solve(b, rtol)`` gives the solution and the
    iterations; b and the solution lie on the device."""

    def __init__(self):
        try:
            import cupy
            from cupy_backends.cuda.libs import cusparse
        except ImportError as e:
            raise Unavailable(str(e)) from e
        self.cupy, self.library = cupy, cusparse

    def put(self, A):
        from cupyx.scipy.sparse import csr_matrix

        self.A = csr_matrix(sp.csr_matrix(A))
        shifted = sp.csr_matrix(A + SHIFT * sp.diags_array(A.diagonal()))
        shifted.sort_indices()
        self.shifted = csr_matrix(shifted)

    def setup(self):
        self.L = self.shifted.copy()
        self._factor()
        transpose = self.library.CUSPARSE_OPERATION_TRANSPOSE
        self.sweeps = [Sweep(self, self.library.CUSPARSE_OPERATION_NON_TRANSPOSE), Sweep(self, transpose)]

    def _factor(self):
        from cupy.cuda.device import get_cusparse_handle
        from cupyx.cusparse import MatDescriptor

        library, L, info = self.library, self.L, self.library.createCsric02Info()
        description = MatDescriptor.create()
        arrays = L.data.data.ptr, L.indptr.data.ptr, L.indices.data.ptr, info
        matrix = get_cusparse_handle(), L.shape[0], L.nnz, description.descriptor, *arrays
        space = self.cupy.empty(library.dcsric02_bufferSize(*matrix), np.int8)
        for step in (library.dcsric02_analysis, library.dcsric02):
            step(*matrix, library.CUSPARSE_SOLVE_POLICY_USE_LEVEL, space.data.ptr)
        library.destroyCsric02Info(info)

    def solve(self, b, rtol):
        xp, A = self.cupy, self.A
        r = b
        x, p, rho = xp.zeros_like(r), None, None
        enough = rtol * float(xp.linalg.norm(r))
        iterations = 0
        while iterations < MAXITER:
            iterations += 1
            z = self.sweeps[1](self.sweeps[0](r))
            before, rho = rho, r @ z
            p = z if p is None else z + rho / before * p
            q = A @ p
            alpha = rho / (p @ q)
            x += alpha * p
            r = r - alpha * q
            if not float(xp.linalg.norm(r)) > enough:       # zero or NaN
                break
        return x, iterations


class Sweep:
    """One triangular solve with the lower triangle of a factor."""

    def __init__(self, owner, operation):
        from cupy.cuda.device import get_cusparse_handle
        from cupyx.cusparse import DnMatDescriptor, SpMatDescriptor

        xp, library, n = owner.cupy, owner.library, owner.L.shape[0]
        self.library, self.b, self.x = library, xp.zeros((n, 1), order="F"), xp.zeros((n, 1), order="F")
        self.matrix = SpMatDescriptor.create(owner.L)
        self.matrix.set_attribute(library.CUSPARSE_SPMAT_FILL_MODE, library.CUSPARSE_FILL_MODE_LOWER)
        self.matrix.set_attribute(library.CUSPARSE_SPMAT_DIAG_TYPE, library.CUSPARSE_DIAG_TYPE_NON_UNIT)
        self.sides = [DnMatDescriptor.create(side) for side in (self.b, self.x)]
        self.one, plan = np.ones(1), library.spSM_createDescr()
        self.call = (get_cusparse_handle(), operation, library.CUSPARSE_OPERATION_NON_TRANSPOSE, self.one.ctypes.data, self.matrix.desc,
                     *(side.desc for side in self.sides), CUDA_R_64F, library.CUSPARSE_SPSM_ALG_DEFAULT, plan)
        self.space = xp.empty(library.spSM_bufferSize(*self.call), np.int8)
        library.spSM_analysis(*self.call, self.space.data.ptr)

    def __call__(self, b):
        self.b[:, 0] = b
        self.library.spSM_solve(*self.call, self.space.data.ptr)
        return self.x[:, 0].copy()


CUDA_R_64F = 1                                              # of library_types.h
