"""Arrays and matrices of a caller on the device: those of CuPy, or of the kernel harness."""

import contextlib

import numpy as np
import scipy.sparse as sp
from kernel_harness import Harness, OnDevice
from kernel_harness.strict import Strict

from meshsolve import device


def to_cuda(array):
    """Copy an array to the device, as a caller's array."""
    array = device.to_device(array)
    return array.view(OnDevice) if isinstance(device.backend(), Harness) and isinstance(array, np.ndarray) else array


def to_numpy(array):
    return np.asarray(device.to_host(array))


class Sparse:
    """The attributes of a cupyx.scipy.sparse matrix that the input checks use."""

    def __init__(self, A):
        A = sp.csr_array(A)
        self.shape, self.nnz, self.has_canonical_format = A.shape, A.nnz, A.has_canonical_format
        self.indptr, self.indices, self.data = to_cuda(A.indptr.astype(np.int32)), to_cuda(A.indices.astype(np.int32)), to_cuda(A.data)

    def tocsr(self):
        return self

    def copy(self):
        return self

    def sum_duplicates(self):
        A = sp.csr_array((to_numpy(self.data), to_numpy(self.indices), to_numpy(self.indptr)), shape=self.shape)
        A.sum_duplicates()
        self.__init__(A)

    def get(self):
        return sp.csr_array((to_numpy(self.data), to_numpy(self.indices), to_numpy(self.indptr)), shape=self.shape)


@contextlib.contextmanager
def nothing_copied_to_host(monkeypatch, most=1):
    """Check that no array of more than ``most`` numbers is copied to the host in the ``with`` block."""
    backend, sizes = device.backend(), []
    if isinstance(backend, Strict):
        backend.comes_back.clear()
        yield
        sizes = backend.comes_back
    else:
        with monkeypatch.context() as patch:
            to_host = backend.to_host
            patch.setattr(backend, "to_host", lambda array: (sizes.append(array.size), to_host(array))[1])
            yield
    assert max(sizes, default=0) <= most, "an array was copied to the host"
