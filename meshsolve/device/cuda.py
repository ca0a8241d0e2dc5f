"""CuPy behind the seam of `meshsolve.device`: compilation by NVRTC, launches, cuBLAS and cuSOLVER. CuPy is imported here only."""

from __future__ import annotations

import functools
import hashlib
import importlib
import re

from meshsolve.device import PACKAGE

OPTIONS = ("-std=c++17", "-lineinfo")                       # CuPy adds --device-as-default-execution-space: not twice
WITHOUT_ASKING = 48 << 10                                   # bytes of shared memory of a block, the kernel's static ones included
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
INSTALL = "pip install '.[cuda12]' (or '.[cuda13]') in a clone of meshsolve brings it"


def reason_without():
    """Why there is no CUDA device to run on, or None. `import cupy` succeeds without a driver, and the driver without a compiler:
    so a kernel is run."""
    try:
        import cupy
    except ImportError as e:
        return f'device="cuda" needs CuPy: {INSTALL} ({e})'
    try:
        found = cupy.cuda.is_available()
    except Exception as e:                                  # a broken driver raises what it likes
        return f'device="cuda": CuPy finds no working CUDA driver ({e})'
    if not found:
        return 'device="cuda": CuPy is there, but no CUDA device, or its driver is too old'
    try:
        cupy.ones(2).sum().get()                            # NVRTC and the headers of CUDA are needed from the first kernel on
    except Exception as e:
        return f'device="cuda": CuPy finds a GPU but runs no kernel on it; where a library or a header is missing, {INSTALL} ({e})'
    return None


class CuPy:
    """The backend of a machine with a GPU; see the docstring of `meshsolve.device` for what each method means."""

    name = "cuda"

    def __init__(self):
        import cupy

        self.xp, self._attributes_of = cupy, {}
        self.memory_errors = (MemoryError,)                 # CuPy's own is one; its sorts raise the bare class

    @property
    def device_errors(self):
        """What a driver, a compiler or a library raises; one that is not installed raises ImportError when it is first called."""
        cuda = self.xp.cuda
        return (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError, cuda.compiler.CompileException, ImportError,
                *_library_errors())

    @property
    def shared_limit(self):
        """Bytes of shared memory that a block of the current device may ask for."""
        return self._attributes["MaxSharedMemoryPerBlockOptin"]

    @property
    def multiprocessors(self):
        return self._attributes["MultiProcessorCount"]

    @property
    def _attributes(self):
        """Of the current device, asked for once: CuPy asks the driver for each of more than a hundred, some over the bus."""
        current = self.xp.cuda.Device()
        if current.id not in self._attributes_of:
            self._attributes_of[current.id] = current.attributes
        return self._attributes_of[current.id]

    def function(self, path, name, scalar=""):
        return _function(path, name, scalar)

    def launch(self, function, grid, block, shared, args):
        if shared and shared + (own := function.shared_size_bytes) > WITHOUT_ASKING:
            function.max_dynamic_shared_size_bytes = self.shared_limit - own        # not `shared`: another thread may need more
        function(grid, block, tuple(args), shared_mem=shared)

    def to_device(self, array):
        return self.xp.asarray(array)

    def to_host(self, array):
        return self.xp.asnumpy(array)

    def to_host_later(self, array):
        """A function that gives a numpy copy of the array as it is after what is queued now."""
        queued = self.xp.cuda.Event(disable_timing=True)
        queued.record()

        def read():
            queued.synchronize()
            with self.xp.cuda.Stream(non_blocking=True):    # the current stream may have got more to do
                return self.xp.asnumpy(array)
        return read

    def csr(self, data, indices, indptr, shape):
        from cupyx.scipy.sparse import csr_matrix

        return csr_matrix((data.astype(float) if data.dtype.kind in "iu" else data, indices, indptr), shape=shape)

    def release(self):
        """Hand the memory that CuPy's pool holds unused back to the driver."""
        self.xp.get_default_memory_pool().free_all_blocks()

    def dense(self, op, *arrays, **options):
        from meshsolve.device import blas

        return getattr(blas, op)(*arrays, **options)


def _library_errors():
    """The exceptions of cuBLAS and cuSOLVER, as far as these are there."""
    found = []
    for library, name in (("cublas", "CUBLASError"), ("cusolver", "CUSOLVERError")):
        try:
            found.append(getattr(importlib.import_module(f"cupy_backends.cuda.libs.{library}"), name))
        except ImportError:
            continue
    return found


@functools.cache
def _module(path, scalar):
    import cupy

    # code, not path: a path would be taken for a compiled file
    return cupy.RawModule(code=source(path), backend="nvrtc", options=(*OPTIONS, f"-I{PACKAGE}", *scalar_option(scalar)))


def scalar_option(scalar):
    """The compiler options that define ``SCALAR`` ("double", "float"; "": none), as a tuple."""
    return (f"-DSCALAR={scalar}",) if scalar else ()


def source(path, package=PACKAGE):
    """The text of a .cu file and a digest of the headers it includes, as a comment: CuPy finds compiled kernels by their text,
    and would take those of an earlier version where only a header has changed."""
    text, headers = path.read_text(), {}
    found = INCLUDE.findall(text)
    while found:
        name = found.pop()
        if name not in headers:
            headers[name] = (package / name).read_text()
            found += INCLUDE.findall(headers[name])
    digest = hashlib.sha256("\0".join(headers[name] for name in sorted(headers)).encode())
    return f"{text}\n// headers {digest.hexdigest()}\n"


@functools.cache
def _function(path, name, scalar):
    return _module(path, scalar).get_function(name)
