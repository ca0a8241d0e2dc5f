"""Arrays and matrices that lie on the device, as a caller has them: CuPy's, or what the kernel harness takes for such."""

import numpy as np
import scipy.sparse as sp
from kernel_harness import Harness, OnDevice

from meshsolve import device


def there(array):
    """An array that lies on the device, as a caller has it."""
    backend = device.backend()
    return backend.to_device(array).view(OnDevice) if isinstance(backend, Harness) else backend.to_device(array)


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
