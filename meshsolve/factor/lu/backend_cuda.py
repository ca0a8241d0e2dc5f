"""The numeric phase of LU on the GPU: engines, values in the analyzed pattern, residuals. GPU counterpart of host.py."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device.reductions import is_any
from meshsolve.errors import InvalidInputError
from meshsolve.factor.base import values_in
from meshsolve.factor.lu.columns.cuda import ColumnsCuda
from meshsolve.factor.lu.fronts.cuda import FrontsCuda
from meshsolve.factor.lu.host import HostBackend
from meshsolve.factor.refine import backward_error
from meshsolve.options import counted
from meshsolve.sparse.cuda import Positions, as_device_csr
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import on_device
from meshsolve.sparse.product import norm1, residual


class CudaBackend(HostBackend):
    """Factors, values and residuals of the matrices with one pattern, on the GPU. Matrices may lie on the host or on the GPU."""

    def __init__(self, pattern, scalar, precision, threads):
        super().__init__(pattern, scalar, precision, threads)
        self.solves_vectors = False
        self._last = None                   # (indptr, indices, index map) of the last matrix on the GPU
        self._sides = {}                    # {transposed: (indptr, indices, index map of the values or None)}

    def empty_like(self, array):
        return device.xp().empty_like(array)

    def copied(self, data):
        return device.to_device(data).copy()

    def native(self, pivots):
        kind = FrontsCuda if pivots.engine == "fronts" else ColumnsCuda
        return kind(pivots.plan, pivots.analysis, np.float64 if self.precision == "double" else np.float32)

    def values_of(self, A):
        """The values of A in the pattern, (nnz,) float64. The host reads a pattern on the GPU only if it is not that of the last call.

        Raises
        ------
        InvalidInputError
            Another size, not real, NaN or infinity.
        PatternMismatchError
            An entry outside the analyzed pattern.
        """
        if not on_device(A):
            return device.to_device(super().values_of(A))
        M = as_device_csr(A)
        if M.n != self.pattern.n:
            raise InvalidInputError(f"A has {counted(M.n, 'row')}, the factor {self.pattern.n}")
        if self._last is None or len(M.indices) != len(self._last[1]) or is_any(M.indptr != self._last[0]) or is_any(
                M.indices != self._last[1]):
            positions = Csr(M.n, *map(device.to_host, M[1:3]), np.arange(1.0, len(M.indices) + 1))
            moved = values_in(self.pattern, positions)
            index = None if moved is positions.data else device.to_device(moved.astype(np.int64))    # None: the pattern is the analyzed one
            self._last = M.indptr.copy(), M.indices.copy(), index
        return M.data if self._last[2] is None else Positions.of(M, self._last[2])

    def measure(self, transposed, data):
        indptr, indices, index = self._side(transposed)
        values = data if index is None else data[index]
        norm = norm1(indptr, indices, values)

        def of(x, b):
            r = residual(indptr, indices, values, x, b)
            return r, backward_error(norm, *device.to_host(device.xp().stack([abs(v).max(axis=0) for v in (r, x, b)])))

        return of

    def _side(self, transposed):
        if transposed not in self._sides:
            P, index = self.pattern, None
            if transposed:
                turned = Csr(P.n, P.indptr, P.indices, np.arange(len(P.indices), dtype=np.float64)).to_scipy().T.tocsr()
                P = Csr(P.n, turned.indptr.astype(np.int64), turned.indices.astype(np.int32))
                index = device.to_device(turned.data.astype(np.int64))
            self._sides[transposed] = device.to_device(P.indptr), device.to_device(P.indices), index
        return self._sides[transposed]
