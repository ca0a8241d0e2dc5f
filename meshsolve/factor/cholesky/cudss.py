"""NVIDIA cuDSS as the numeric backend, through the bindings of nvmath-python, in our ordering or in its own.

cuDSS gets the upper triangle of the permuted matrix, and the identity as its ordering. So the direction of its permutations does not
matter, and new values are one gather on the GPU. If the ordering has a separator tree, the matrix is permuted to the order of its
first levels, and cuDSS gets their sizes. Versions without this parameter get the identity alone.
"""

from __future__ import annotations

import weakref

import numpy as np

from meshsolve import device
from meshsolve.errors import DeviceUnavailableError, InvalidInputError
from meshsolve.factor.cholesky.cuda import OnDevice
from meshsolve.options import INT32_MAX, counted
from meshsolve.sparse.lists_cuda import compressed, inverse, rows_of

TREE_NAMES = ("USER_ND_PARTITION_TREE", "USER_ELIMINATION_TREE")        # of the tree, from version 0.8 on and in version 0.7
MOST_LEVELS = 10                # of the tree that cuDSS gets: the number of levels of its own nested dissection
LEAST_PART = 100                # least mean number of rows of a part of the last level


class CudssFactor(OnDevice):
    """A factor inside cuDSS, with the interface of `DeviceFactor`. The entries of L are not accessible.

    Parameters
    ----------
    symbolic : Symbolic
    precision : {"double", "single", "mixed"}
    threads : int
        Not used.

    Raises
    ------
    DeviceUnavailableError
        nvmath-python or cuDSS is missing; the message has the command that installs them.
    """

    our_ordering = True             # False: cuDSS orders the matrix itself

    def __init__(self, symbolic, precision, threads=1):
        self.dtype = np.dtype(np.float64 if precision == "double" else np.float32)
        self._pattern, partition = symbolic.pattern_on_device, None
        tree = getattr(symbolic.ordering, "tree", None)
        cudss = _bindings()[0]
        name = next((name for name in TREE_NAMES if hasattr(cudss.DataParam, name)), None)
        if self.our_ordering and name and tree is not None and len(tree) > 1:
            partition, position = tree.partition(levels_of(symbolic.n))
            self._perm = device.to_device(symbolic.ordering.perm)[device.to_device(position)]
        else:
            self._perm = symbolic.analysis_on_device.perm
        self._take, self._arrays = _upper(self._pattern, inverse(self._perm), self.dtype)
        self._data = None
        self._solver = _Solver(*self._arrays, self.our_ordering, name, partition)
        version = ".".join(str(cudss.get_property(k)) for k in range(3))
        self.facts = {"cudss": version, "cudss_tree": None if partition is None else name}
        self._planned = False

    def factor(self, data):
        """As ``DeviceFactor.factor``; the column that failed is the one that cuDSS reports."""
        failed = self._factor(data)
        if failed < 0:
            self._data = data.copy()
        elif self._data is not None:
            self._factor(self._data)
        return failed

    def may_be_singular(self):
        """Return False: the pivots of cuDSS are not accessible."""
        return False

    def solve(self, system, B):
        if system != "A":
            raise InvalidInputError(f'system={system!r} needs backend="native": cuDSS keeps its factor')
        xp, k = device.xp(), B.shape[1]
        if k == 0:
            return xp.empty_like(B)
        rhs = xp.asfortranarray(B[self._perm].astype(self.dtype))
        x = xp.empty_like(rhs)
        self._solver.solve(x, rhs)
        X = xp.empty_like(B)
        X[self._perm] = x
        return X

    def diagonal(self):
        raise InvalidInputError('the entries of L need backend="native": cuDSS keeps its factor')

    def values_on(self, indptr, indices):
        return self.diagonal()

    @property
    def nnz(self):
        """Number of entries of L that cuDSS stores."""
        return int(self._solver.get("LU_NNZ"))

    @property
    def nbytes(self):
        """Bytes of the matrix, and an estimate for the factor from its number of entries."""
        return sum(array.nbytes for array in self._arrays) + self.nnz * self.dtype.itemsize

    def _factor(self, data):
        self._arrays[2][:] = data[self._take]
        if not self._planned:
            self._solver.execute("ANALYSIS")
            self._planned = True
        self._solver.execute("FACTORIZATION")
        info = self._solver.get("INFO")
        return -1 if info == 0 else min(max(int(info) - 1, 0), self._pattern.n - 1)


def levels_of(n):
    """Return the number of levels of the tree that cuDSS gets for n rows."""
    return min(MOST_LEVELS, max(1, (n // LEAST_PART).bit_length()))


def _upper(pattern, iperm, dtype):
    """Return (index map of the values, (indptr, indices, empty values)) of the upper triangle of the permuted matrix, on the GPU."""
    if pattern.nnz > INT32_MAX:
        raise InvalidInputError(f'backend="cudss" takes at most {counted(INT32_MAX, "entry")}, not {pattern.nnz}')
    xp, iperm = device.xp(), iperm.astype(np.int64)
    row, column = iperm[rows_of(pattern.indptr, pattern.nnz)], iperm[pattern.indices]
    upper = xp.flatnonzero(row <= column)
    keys = (row << 32 | column)[upper]
    order = xp.argsort(keys)
    indptr, indices = compressed(pattern.n, keys[order])
    return upper[order], (indptr.astype(np.int32), indices, xp.empty(len(order), dtype))


class _Solver:
    """One symmetric positive definite system in cuDSS. Its handles are destroyed with this object."""

    def __init__(self, indptr, indices, values, our_ordering, tree_name, partition):
        self._cudss, self._types = cudss, types = _bindings()
        self._kept = indptr, indices, values
        self._n, self._type = len(indptr) - 1, types.CUDA_R_64F if values.dtype == np.float64 else types.CUDA_R_32F
        self._handle, self._config = cudss.create(), cudss.config_create()
        self._work = cudss.data_create(self._handle)
        index = types.CUDA_R_32I
        self._matrix = cudss.matrix_create_csr(
            self._n, self._n, len(indices), _address(indptr), 0, _address(indices), _address(values), index, index, self._type,
            cudss.MatrixType.SPD, cudss.MatrixViewType.UPPER, cudss.IndexBase.ZERO)
        if our_ordering:
            self._identity = np.arange(self._n, dtype=np.int32)
            cudss.data_set(self._handle, self._work, cudss.DataParam.USER_PERM, self._identity.ctypes.data, self._identity.nbytes)
        if partition is not None:
            self._partition, levels = partition, np.array([len(partition).bit_length()], np.int32)
            cudss.config_set(self._config, cudss.ConfigParam.ND_NLEVELS, levels.ctypes.data, levels.nbytes)
            cudss.data_set(self._handle, self._work, getattr(cudss.DataParam, tree_name), partition.ctypes.data, partition.nbytes)
        self._column = device.xp().zeros((self._n, 1), values.dtype)
        self._vector = self._dense(self._column)            # argument of analysis and factorization
        at_end = weakref.finalize(self, _destroy, cudss, self._handle, self._config, self._work, (self._matrix, self._vector))
        at_end.atexit = False                               # the driver may be unloaded at exit

    def execute(self, phase):
        """Run the analysis or the factorization."""
        self._execute(phase, self._vector, self._vector)

    def solve(self, x, b):
        """x := A^-1 b for (n, k) arrays in Fortran order."""
        dense = self._dense(x), self._dense(b)
        try:
            self._execute("SOLVE", *dense)
        finally:
            for matrix in dense:
                self._cudss.matrix_destroy(matrix)

    def get(self, name):
        """Return a number that cuDSS reports after a phase."""
        param = getattr(self._cudss.DataParam, name)
        value, written = np.zeros(1, self._cudss.get_data_param_dtype(param)), np.zeros(1, np.uint64)
        self._cudss.data_get(self._handle, self._work, param, value.ctypes.data, value.nbytes, written.ctypes.data)
        return value.item()

    def _execute(self, phase, x, b):
        cudss = self._cudss
        cudss.set_stream(self._handle, device.stream())
        try:
            cudss.execute(self._handle, getattr(cudss.Phase, phase), self._config, self._work, self._matrix, x, b)
        except cudss.cuDSSError as e:
            raise DeviceUnavailableError(f"cuDSS failed in its {phase.lower()} phase: {e}") from e

    def _dense(self, array):
        layout = self._cudss.Layout.COL_MAJOR
        return self._cudss.matrix_create_dn(self._n, array.shape[1], self._n, _address(array), self._type, layout)


def _bindings():
    """Return (cudss bindings, CudaDataType) of nvmath-python."""
    try:
        from nvmath import CudaDataType
        from nvmath.bindings import cudss

        cudss.get_property(0)                               # loads the library
    except Exception as e:                                  # loaders raise any exception
        raise DeviceUnavailableError(
            f"backend=\"cudss\" needs nvmath-python with cuDSS: pip install '.[cudss]' in a clone of meshsolve brings them ({e})") from e
    return cudss, CudaDataType


def _destroy(cudss, handle, config, work, matrices):
    for matrix in matrices:
        cudss.matrix_destroy(matrix)
    cudss.data_destroy(handle, work)
    cudss.config_destroy(config)
    cudss.destroy(handle)


def _address(array):
    interface = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
    return interface["data"][0]
