"""Stand-in for the part of nvmath-python 1.0 that `meshsolve.factor.cholesky.cudss` calls: dense Cholesky on host memory."""

import ctypes
import enum
import types

import numpy as np
import scipy.sparse as sp


class CudaDataType(enum.IntEnum):
    CUDA_R_32F = 0
    CUDA_R_64F = 1
    CUDA_R_32I = 10


DTYPES = {CudaDataType.CUDA_R_32F: np.float32, CudaDataType.CUDA_R_64F: np.float64, CudaDataType.CUDA_R_32I: np.int32}


class cuDSSError(Exception):
    pass


def at(address, count, dtype):
    """The array at an address."""
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype)


class Cudss(types.SimpleNamespace):
    """The module `nvmath.bindings.cudss`. ``alive`` has the handles not yet destroyed, ``log`` the phases that ran."""

    cuDSSError = cuDSSError
    Phase = enum.IntEnum("Phase", "ANALYSIS FACTORIZATION SOLVE")
    DataParam = enum.IntEnum("DataParam", "USER_PERM INFO LU_NNZ USER_ND_PARTITION_TREE")
    ConfigParam = enum.IntEnum("ConfigParam", "ND_NLEVELS")
    MatrixType = enum.IntEnum("MatrixType", "GENERAL SPD")
    MatrixViewType = enum.IntEnum("MatrixViewType", "FULL UPPER")
    IndexBase = enum.IntEnum("IndexBase", "ZERO ONE", start=0)
    Layout = enum.IntEnum("Layout", "COL_MAJOR ROW_MAJOR", start=0)

    def __init__(self):
        super().__init__(alive={}, log=[], perm=None, info=0, factor=None, tree=None, levels=None)

    def _new(self, what):
        self.alive[len(self.log) * 1000 + len(self.alive) + 1] = what
        return list(self.alive)[-1]

    def create(self):
        return self._new("handle")

    def config_create(self):
        return self._new("config")

    def data_create(self, handle):
        assert self.alive[handle] == "handle"
        return self._new("data")

    def get_property(self, which):
        return (0, 8, 1)[which]

    def matrix_create_csr(self, rows, columns, nnz, start, end, indices, values, offsets, index, value, kind, view, base):
        assert (kind, view, base, end) == (self.MatrixType.SPD, self.MatrixViewType.UPPER, 0, 0) and rows == columns
        return self._new((rows, nnz, at(start, rows + 1, DTYPES[offsets]), at(indices, nnz, DTYPES[index]), at(values, nnz, DTYPES[value])))

    def matrix_create_dn(self, rows, columns, leading, values, value, layout):
        assert leading == rows and layout == self.Layout.COL_MAJOR
        return self._new(at(values, rows * columns, DTYPES[value]).reshape(columns, rows).T)

    def data_set(self, handle, data, param, value, size):
        assert param != self.DataParam.INFO
        given = at(value, size // 4, np.int32).copy()
        if param == self.DataParam.USER_PERM:
            self.perm = given
        else:
            self.tree, self.tree_name = given, param.name

    def config_set(self, config, param, value, size):
        assert self.alive[config] == "config" and param == self.ConfigParam.ND_NLEVELS and size == 4
        self.levels = int(at(value, 1, np.int32)[0])

    def get_data_param_dtype(self, param):
        return np.dtype(np.int32 if param == self.DataParam.INFO else np.int64)

    def data_get(self, handle, data, param, value, size, written):
        at(value, 1, self.get_data_param_dtype(param))[:] = self.info if param == self.DataParam.INFO else np.count_nonzero(self.factor)

    def set_stream(self, handle, stream):
        assert self.alive[handle] == "handle"

    def execute(self, handle, phase, config, data, matrix, x, b):
        self.log.append(phase.name)
        n, _, indptr, indices, values = self.alive[matrix]
        if phase == self.Phase.FACTORIZATION:
            U = sp.csr_array((values, indices, indptr), shape=(n, n)).toarray()
            A = U + np.triu(U, 1).T
            self.info = next((k for k in range(1, n + 1) if np.linalg.eigvalsh(A[:k, :k])[0] <= 0), 0)
            self.factor = None if self.info else np.linalg.cholesky(A)
        elif phase == self.Phase.SOLVE:
            self.alive[x][:] = np.linalg.solve(self.factor.T, np.linalg.solve(self.factor, self.alive[b]))

    def matrix_destroy(self, handle):
        del self.alive[handle]

    config_destroy = destroy = matrix_destroy

    def data_destroy(self, handle, data):
        del self.alive[data]
