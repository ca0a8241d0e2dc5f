"""Arrays and matrices that lie on the device, as a caller has them: CuPy's, or what the kernel harness takes for such."""

import contextlib

import numpy as np
import scipy.sparse as sp
from kernel_harness import Harness, OnDevice
from kernel_harness.strict import Strict

from meshsolve import device


def there(array):
    """An array that lies on the device, as a caller has it."""
    array = device.to_device(array)
    return array.view(OnDevice) if isinstance(device.backend(), Harness) and isinstance(array, np.ndarray) else array


def back(array):
    return np.asarray(device.to_host(array))


class Sparse:
    """As much of a cupyx.scipy.sparse matrix as intake looks at."""

    def __init__(self, A):
        A = sp.csr_array(A)
        self.shape, self.nnz, self.has_canonical_format = A.shape, A.nnz, A.has_canonical_format
        self.indptr, self.indices, self.data = there(A.indptr.astype(np.int32)), there(A.indices.astype(np.int32)), there(A.data)

    def tocsr(self):
        return self

    def copy(self):
        return self

    def sum_duplicates(self):
        A = sp.csr_array((back(self.data), back(self.indices), back(self.indptr)), shape=self.shape)
        A.sum_duplicates()
        self.__init__(A)

    def get(self):
        return sp.csr_array((back(self.data), back(self.indices), back(self.indptr)), shape=self.shape)


@contextlib.contextmanager
def nothing_comes_back(monkeypatch, most=1):
    """Within it no array of more than ``most`` numbers comes to the host."""
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
    assert max(sizes, default=0) <= most, "an array came back"
