"""The backend of `meshsolve.device` by CuPy: compilation by NVRTC, launches, transfers. Only this file and blas.py import CuPy."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import re

from meshsolve.device import PACKAGE

OPTIONS = ("-std=c++17",)                                    # CuPy adds --device-as-default-execution-space, which must not be given twice
TENSOR_CORES = "80", "90", "100"                            # compute capabilities with fast tensor cores for float64
DEFAULT_SHARED = 48 << 10                                   # bytes of shared memory of a block, static ones included, without opt-in
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
INSTALL = "pip install '.[cuda12]' (or '.[cuda13]') in a clone of meshsolve brings it"


def reason_without():
    """Return the reason why CUDA code cannot run, or None. A kernel is run, because CuPy can be imported without a driver, and a driver
    be found without a compiler."""
    try:
        import cupy
    except ImportError as e:
        return f'device="cuda" needs CuPy: {INSTALL} ({e})'
    try:
        found = cupy.cuda.is_available()
    except Exception as e:                                  # a broken driver raises any exception
        return f'device="cuda": CuPy finds no working CUDA driver ({e})'
    if not found:
        return 'device="cuda": CuPy is installed, but there is no CUDA device, or its driver is too old'
    try:
        cupy.ones(2).sum().get()                            # the first kernel needs NVRTC and the headers of CUDA
    except Exception as e:
        return f'device="cuda": CuPy finds a GPU but cannot run a kernel on it. If a library or a header is missing, {INSTALL} ({e})'
    return None


class CuPy:
    """The backend of a machine with a GPU. The docstring of `meshsolve.device` describes the methods."""

    name = "cuda"

    def __init__(self):
        import cupy

        self.xp, self._attributes_of = cupy, {}
        self.memory_errors = (MemoryError,)                 # CuPy's own class derives from it; its sorts raise the base class

    @property
    def compile_errors(self):
        """Exceptions of the compiler, with its messages."""
        return (self.xp.cuda.compiler.CompileException,)

    @property
    def device_errors(self):
        """Exceptions of the driver, the compiler and the libraries. A missing library raises ImportError at its first call."""
        cuda = self.xp.cuda
        return (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError, cuda.compiler.CompileException, ImportError,
                *_library_errors())

    @property
    def shared_limit(self):
        """Largest shared memory of a thread block of the current device, in bytes."""
        return self._attributes["MaxSharedMemoryPerBlockOptin"]

    @property
    def multiprocessors(self):
        return self._attributes["MultiProcessorCount"]

    @property
    def stream(self):
        return self.xp.cuda.get_current_stream().ptr

    @property
    def has_tensor_cores(self):
        """True if kernels for the current device multiply float64 matrices on its tensor cores."""
        return self.xp.cuda.Device().compute_capability in TENSOR_CORES

    def function(self, path, name, scalar=""):
        return _function(path, name, macros(scalar, self.has_tensor_cores))

    def launch(self, function, grid, block, shared, args):
        if shared and shared + (own := function.shared_size_bytes) > DEFAULT_SHARED:
            function.max_dynamic_shared_size_bytes = self.shared_limit - own        # the maximum, as another thread may need more
        function(grid, block, tuple(args), shared_mem=shared)

    def record(self, queue):
        stream = self.xp.cuda.Stream(non_blocking=True)     # the null stream cannot be captured
        with stream:
            stream.begin_capture()
            try:
                queue()
            except BaseException:
                with contextlib.suppress(Exception):        # the first exception is the cause of this one
                    stream.end_capture()
                raise
            return stream.end_capture().launch

    def to_device(self, array):
        return self.xp.asarray(array)

    def to_host(self, array):
        return self.xp.asnumpy(array)

    def to_host_later(self, array):
        """Return a function that returns a numpy copy of the array as it is after the work queued now."""
        queued = self.xp.cuda.Event(disable_timing=True)
        queued.record()

        def read():
            queued.synchronize()
            with self.xp.cuda.Stream(non_blocking=True):    # the current stream may have more work by then
                return self.xp.asnumpy(array)
        return read

    def csr(self, data, indices, indptr, shape):
        from cupyx.scipy.sparse import csr_matrix

        return csr_matrix((data.astype(float) if data.dtype.kind in "iu" else data, indices, indptr), shape=shape)

    @contextlib.contextmanager
    def on_stream(self, pointer, ordinal):
        with self.xp.cuda.Device(ordinal), self.xp.cuda.ExternalStream(pointer, ordinal):
            yield

    def release(self):
        """Return unused memory of CuPy's pool to the driver."""
        self.xp.get_default_memory_pool().free_all_blocks()

    def dense(self, op, *arrays, **options):
        from meshsolve.device import blas

        return getattr(blas, op)(*arrays, **options)

    @property
    def _attributes(self):
        """Attributes of the current device, read once. CuPy queries the driver for more than a hundred, some over the bus."""
        current = self.xp.cuda.Device()
        if current.id not in self._attributes_of:
            self._attributes_of[current.id] = current.attributes
        return self._attributes_of[current.id]


def macros(scalar, has_tensor_cores=False):
    """Return the compiler options that define ``SCALAR`` ("double", "float"; "": none) and the macro of device/ptx.cuh, as a tuple.

    The compiler's own macro of the architecture is not enough: an older compiler replaces a new architecture by its latest one.
    """
    tensor_cores = ("-DMESHSOLVE_TENSOR_CORES",) if has_tensor_cores and scalar == "double" else ()
    return (f"-DSCALAR={scalar}", *tensor_cores) if scalar else ()


def source(path, package=PACKAGE):
    """Return the text of a .cu file, and a digest of its headers as a comment.

    CuPy looks up compiled kernels by their text. Without the digest it would use old kernels after a change of a header.
    """
    text, headers = path.read_text(), {}
    found = INCLUDE.findall(text)
    while found:
        name = found.pop()
        if name not in headers:
            headers[name] = (package / name).read_text()
            found += INCLUDE.findall(headers[name])
    digest = hashlib.sha256("\0".join(headers[name] for name in sorted(headers)).encode())
    return f"{text}\n// headers {digest.hexdigest()}\n"


def _library_errors():
    """Return the exception of cuBLAS, if it is installed."""
    try:
        return (importlib.import_module("cupy_backends.cuda.libs.cublas").CUBLASError,)
    except ImportError:
        return ()


@functools.cache
def _function(path, name, options):
    return _module(path, options).get_function(name)


@functools.cache
def _module(path, options):
    import cupy

    # code=, because CuPy takes a path for a compiled file
    return cupy.RawModule(code=source(path), backend="nvrtc", options=(*OPTIONS, f"-I{PACKAGE}", *options))
