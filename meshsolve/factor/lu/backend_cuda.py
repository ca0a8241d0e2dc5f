"""The numeric phase of LU on the GPU: engines, values in the analyzed pattern, residuals. GPU counterpart of host.py."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.errors import InvalidInputError
from meshsolve.factor.lu.columns.cuda import ColumnsCuda
from meshsolve.factor.lu.fronts.cuda import FrontsCuda
from meshsolve.factor.lu.host import HostBackend
from meshsolve.options import counted
from meshsolve.sparse.cuda import Gather, as_csr_cuda
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import on_device
from meshsolve.sparse.refine import Normwise


class CudaBackend(HostBackend):
    """Factors, values and residuals of the matrices with one pattern, on the GPU. Matrices may lie on the host or on the GPU."""

    def __init__(self, pattern, scalar, precision, threads):
        super().__init__(pattern, scalar, precision, threads)
        self.solves_vectors = False
        self._gather: Gather | None = None  # index map of the last matrix on the GPU
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
        M = as_csr_cuda(A)
        if M.n != self.pattern.n:
            raise InvalidInputError(f"A has {counted(M.n, 'row')}, the factor {self.pattern.n}")
        if self._gather is None or not self._gather.given.same_as(M):
            positions = Csr(M.n, *map(device.to_host, (M.indptr, M.indices)), np.arange(1.0, M.nnz + 1))
            moved = positions.within(self.pattern)
            index = None if moved is positions.data else device.to_device(moved.astype(np.int64))    # None: the pattern is the analyzed one
            given = Csr(M.n, M.indptr.copy(), M.indices.copy())
            self._gather = Gather(given, given, index)
        return self._gather.values(M.data)

    def measure(self, transposed, data):
        indptr, indices, index = self._side(transposed)
        A = Csr(len(indptr) - 1, indptr, indices, data if index is None else data[index])
        return Normwise(A.residual, A.norm1())

    def _side(self, transposed):
        if transposed not in self._sides:
            P, index = self.pattern, None
            if transposed:
                turned = Csr(P.n, P.indptr, P.indices, np.arange(len(P.indices), dtype=np.float64)).to_scipy().T.tocsr()
                P = Csr(P.n, turned.indptr.astype(np.int64), turned.indices.astype(np.int32))
                index = device.to_device(turned.data.astype(np.int64))
            self._sides[transposed] = device.to_device(P.indptr), device.to_device(P.indices), index
        return self._sides[transposed]
