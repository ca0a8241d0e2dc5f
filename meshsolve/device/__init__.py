"""The interface to the GPU: kernel launches, transfers, library calls and errors. Array expressions use :func:`xp` directly.

The CUDA path of an algorithm is Python code that allocates arrays, launches kernels of the ``.cu`` file next to it, and reads scalars.
It imports this module instead of CuPy. So the same code runs on CuPy and, in the tests, on the kernel harness
(tests/kernel_harness/README.md). The harness uses numpy arrays as GPU memory and compiles the kernels with g++.

A CUDA path looks like this::

    K = device.kernels("patches/query.cu")              # compiled at the first launch
    with device.errors("patch queries"):
        xp = device.xp()                                # cupy, or numpy under the harness: scans, sorts, allocation
        count = xp.zeros(n, xp.int32)
        device.launch(K.k_count, num_patches, 256, 0, (rows, count, np.int32(n)))
        total = device.scalar(count.sum().reshape(1))   # copies one number to the host

``launch(kernel, grid, block, shared, args)``
    Launches a kernel on the caller's current stream and device. Arrays must have exactly the kernel's types. Scalars must be numpy
    scalars of the exact type (``np.int32(n)``); a Python number is refused.
    Kernels for float64 and float32 have one source, in which the type is ``SCALAR``: ``K.of(dtype).k_factor``.
``prepared(kernel, grid, block, shared, args)``
    A launch that is made many times, as a function of its last arguments.
``record(queue)``
    The launches of a function as one CUDA graph, which is launched many times.
``compile_now(kernel)``
    Compiles source text of a user; the compiler's messages become an InvalidInputError.
``dense(op, *arrays)``
    Library calls for large fronts: ``trsm``, ``gemm`` by cuBLAS, in place on column-major views with any leading dimension.
``xp()``, ``to_device``, ``to_host``, ``holds``
    The array module, transfers, and a test if an array lies on the GPU. Device-wide scans, stable sorts, ``unique`` and
    ``searchsorted`` are CuPy's (CUB and Thrust). Block-wide ones are in common.cuh.
``on_stream(pointer, ordinal)``
    A context with a stream of another library as the current one.
``null(dtype)``
    An array without entries, the null pointer as an argument.
``scalar``, ``scalar_later``
    Copy one number to the host. With the latter the host waits later, and only for the kernels that compute it.
``choose(device, size, *arrays)``
    Resolves an argument ``device="auto"|"cpu"|"cuda"``. If there is no GPU, its error names the missing part.
``errors(what)``
    A context for public entries: out of GPU memory, a lost context and a failed compilation become exceptions of meshsolve. Arrays
    allocated inside are released with their last reference.
``check_stall(flag, what)``
    After a kernel whose thread blocks wait for each other (``Timeout`` in common.cuh): raises if they waited in vain.

CuPy keeps compiled kernels on disk (``~/.cupy/kernel_cache``, or ``CUPY_CACHE_DIR``), keyed by source, options and GPU. The source
ends with a digest of its headers.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib.util
import pathlib
import sys
import traceback
import weakref
from dataclasses import dataclass

import numpy as np

from meshsolve.errors import DeviceUnavailableError, InvalidInputError, OutOfMemoryError

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
DLPACK_CUDA = 2                     # kDLCUDA
MOST_ACROSS = 65535                 # most thread blocks of a grid in its second and third dimension
DEVICES = ("auto", "cpu", "cuda")   # values of an argument ``device``
BLOCK = 256                         # threads of a block, unless a kernel needs another number
SCALARS = {np.dtype(np.float64): "double", np.dtype(np.float32): "float"}      # ``SCALAR`` in a .cu file, by dtype
AUTO_SIZE = 100_000                 # rows or elements from which device="auto" uses an available GPU

PYTHON_NUMBERS = frozenset((bool, int, float))

_nulls: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_stand_in = contextvars.ContextVar("stand_in", default=None)


@dataclass(frozen=True)
class Kernel:
    """A ``__global__`` function: its file relative to the package, its name, and ``SCALAR`` ("" if the file has none)."""

    file: str
    name: str
    scalar: str = ""

    @functools.cached_property
    def path(self):
        """Path of the file."""
        return PACKAGE / self.file


class kernels:
    """The kernels of one ``.cu`` file as attributes, compiled at the first launch.

    A file whose kernels take ``SCALAR`` numbers is compiled once for each type: ``kernels(file).of(np.float32).k_factor``.
    """

    def __init__(self, file, scalar=""):
        self._file, self._scalar, self._of = file, scalar, {}

    def __getattr__(self, name):                            # called once per name: the result is stored
        kernel = self.__dict__[name] = Kernel(self._file, name, self._scalar)
        return kernel

    def of(self, dtype):
        """The kernels with ``SCALAR`` = ``double`` or ``float``, for float64 or float32."""
        if dtype not in self._of:
            self._of[dtype] = kernels(self._file, SCALARS[np.dtype(dtype)])
        return self._of[dtype]


# ---- launches and transfers -------------------------------------------------------------------------------------------


def launch(kernel, grid, block, shared, args):
    """Run a kernel on the current stream.

    Parameters
    ----------
    kernel : Kernel
    grid, block : int or tuple of up to three ints
        Thread blocks, and threads of a block. A grid without blocks does nothing.
    shared : int
        Bytes of dynamic shared memory, up to :func:`shared_limit`.
    args : sequence of device arrays and numpy scalars

    Raises
    ------
    TypeError
        A Python number among the arguments, which has no size in bytes.
    """
    prepared(kernel, grid, block, shared, args)()


def launch_1d(kernel, items, *args):
    """Launch a kernel with one thread per item."""
    launch(kernel, grid_for(items, BLOCK), BLOCK, 0, args)


def prepared(kernel, grid, block, shared, args):
    """Return :func:`launch` as a function of the device arrays that follow ``args``. Its checks are made once, which saves most of the
    time of the host."""
    grid, block = (size if isinstance(size, tuple) else (size,) for size in (grid, block))
    for position, value in enumerate(args):
        if type(value) in PYTHON_NUMBERS:
            raise TypeError(f"{kernel.name}, argument {position}: give {value!r} as a numpy scalar of the kernel's type")
    if 0 in grid:
        return lambda *later: None
    owner = backend()
    function = owner.function(kernel.path, kernel.name, kernel.scalar)
    grid, block, shared = tuple(map(int, grid)), tuple(map(int, block)), int(shared)
    return lambda *later: owner.launch(function, grid, block, shared, (*args, *later))


def record(queue):
    """Return a function that queues the launches and copies of ``queue()`` again, as one CUDA graph on the current stream.

    ``queue`` may only launch kernels and copy between arrays that exist: nothing is read, uploaded or allocated, and no library is
    called. It has run once before, so that its kernels are compiled. Nothing runs while it is recorded. The caller keeps the arrays.
    """
    return backend().record(queue)


def compile_now(kernel):
    """Compile a kernel whose source a user has written. Raises InvalidInputError with the compiler's messages."""
    owner = backend()
    with errors(kernel.name):
        try:
            owner.function(kernel.path, kernel.name, kernel.scalar)
        except (*owner.compile_errors, FileNotFoundError) as e:     # the latter: a header that does not exist
            raise InvalidInputError(f"the source does not compile: {e}") from e


def dense(op, *arrays, **options):
    """One dense library call in place, on column-major views of float64 or float32 (leading dimension from the strides).

    ``"trsm", l, b, side="R", trans="T"``
        b becomes b L^-T (or with ``side="L"`` L^-1 b or L^-T b) for the lower triangle of ``l``.
    ``"gemm", c, a, b, trans_a="N", trans_b="T"``
        c becomes c - op(a) op(b).
    """
    return backend().dense(op, *arrays, **options)


def grid_for(items, block, most=1 << 16):
    """Return the number of thread blocks for a grid-stride loop over ``items``: one item per thread, and at most ``most`` blocks."""
    return min(-(-int(items) // block), most)


def xp():
    """Return the array module of the GPU: ``cupy``, or that of the kernel harness."""
    return backend().xp


def to_device(array):
    """Return a copy of a host array on the GPU; an array on the GPU is returned as it is."""
    return array if holds(array) else backend().to_device(array)


def to_host(array):
    """Return a numpy copy of an array on the GPU; a numpy array is returned as it is."""
    return array if isinstance(array, np.ndarray) else backend().to_host(array)


def null(dtype):
    """Return an array on the GPU without entries, a null pointer for kernels. It is made once for each type."""
    known = _nulls.setdefault(backend(), {})
    if dtype not in known:
        known[dtype] = xp().empty(0, dtype)
    return known[dtype]


def csr(data, indices, indptr, shape):
    """Return a sparse matrix on the GPU, a ``cupyx.scipy.sparse.csr_matrix``; integers become float64."""
    return backend().csr(data, indices, indptr, shape)


def holds(array):
    """Return True if an array lies on a GPU, by ``__cuda_array_interface__`` or DLPack, or is an array of the kernel harness."""
    stand_in = _stand_in.get()
    if stand_in is not None and stand_in.is_native(array):
        return True
    if isinstance(array, np.ndarray):
        return hasattr(array, "__cuda_array_interface__")
    if "sparse" in str(getattr(array, "layout", "")):       # a sparse tensor has both interfaces, which may raise any exception
        return False
    try:
        return hasattr(array, "__cuda_array_interface__") or (
            hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] == DLPACK_CUDA)
    except Exception:                                       # traced, or on a device without memory, such as PyTorch's meta
        return False


def asarray(array):
    """Return an array on the GPU, of any library, as an array of :func:`xp`, without a copy."""
    module = xp()
    known = isinstance(array, np.ndarray) or hasattr(array, "__cuda_array_interface__")
    return module.asarray(array) if known else module.from_dlpack(array)


def address(array):
    """Return the address of an array on the GPU, 0 for an empty one."""
    interface = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__       # the latter under the harness
    return interface["data"][0] if array.size else 0


def on_stream(pointer, ordinal):
    """Return a context in which the GPU with this number and the stream at this address are the current ones."""
    return backend().on_stream(pointer, ordinal)


def shared_limit():
    """Return the largest number of bytes of dynamic shared memory of a thread block."""
    return backend().shared_limit


def multiprocessors():
    """Return the number of multiprocessors of the GPU; a persistent kernel launches a few thread blocks for each."""
    return backend().multiprocessors


def stream():
    """Return the handle of the current stream, an int. Work on different streams may run at once."""
    return backend().stream


# ---- which device -----------------------------------------------------------------------------------------------------


def backend():
    """Return the CuPy backend, or the backend given to :func:`use`.

    Raises
    ------
    DeviceUnavailableError
        No CuPy, no CUDA device, a driver that is too old, or no compiler; the message has the command that installs them.
    """
    stand_in = _stand_in.get()
    if stand_in is not None:
        return stand_in
    found = _cupy()
    if isinstance(found, str):
        raise DeviceUnavailableError(found)
    return found


def available():
    """Return True if there is a GPU with a working CuPy."""
    return _stand_in.get() is not None or (_is_installed() and not isinstance(_cupy(), str))


@contextlib.contextmanager
def use(stand_in):
    """Return a context in which the CUDA paths run on the backend ``stand_in``, the kernel harness of the tests."""
    token = _stand_in.set(stand_in)
    try:
        yield stand_in
    finally:
        _stand_in.reset(token)


def choose(device, size=0, *arrays):
    """Return ``"cpu"`` or ``"cuda"`` for an argument ``device``.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        ``"auto"`` uses a GPU if there is one, and the input lies on it or ``size`` is at least ``AUTO_SIZE``.
    size : int
        Rows or elements of the input.
    arrays
        The input.

    Raises
    ------
    InvalidInputError
        An unknown device.
    DeviceUnavailableError
        ``"cuda"``, and there is no GPU.
    """
    _check_known(device)
    if device == "auto":
        worth_it = size >= AUTO_SIZE or any(map(holds, arrays))         # first, because looking for a GPU initializes it
        return "cuda" if worth_it and available() else "cpu"
    if device == "cuda":
        backend()
    return device


def on_cpu(device, what):
    """Raise if the device is unknown, or is "cuda". ``what``: subject and verb of the message, as "orderings run"."""
    _check_known(device)
    if device == "cuda":
        raise DeviceUnavailableError(f'{what} on the CPU only in this version: use device="cpu"')


def on_gpu(device, what):
    """Raise if the device is unknown, is "cpu", or is missing. ``what``: subject of the message."""
    _check_known(device)
    if device == "cpu":
        raise InvalidInputError(f'{what} needs device="cuda" or "auto"')
    backend()


# ---- errors -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def errors(what):
    """Return a context that turns exceptions of CuPy into exceptions of meshsolve that name ``what``."""
    owner = backend()
    try:
        yield
    except OutOfMemoryError:                                # raised by a check of meshsolve, with its own message
        raise
    except owner.memory_errors as e:
        traceback.clear_frames(e.__traceback__)             # otherwise the exception would keep their arrays
        owner.release()
        raise OutOfMemoryError(f"{what}: not enough GPU memory ({e}); use device=\"cpu\" or a smaller problem") from e
    except owner.device_errors as e:
        raise DeviceUnavailableError(f"{what}: the GPU failed ({e}); use device=\"cpu\"") from e


def check_stall(flag, what):
    """Raise if a kernel has set its flag, an int32 array of one entry, because its thread blocks waited for each other in vain."""
    refuse_stall(int(to_host(flag)[0]), what)


def refuse_stall(stalled, what):
    """Raise if the flag of :func:`check_stall`, copied to the host, is not 0."""
    if stalled:
        raise DeviceUnavailableError(f"{what}: a kernel made no progress (code {stalled}) and gave up; use device=\"cpu\"")


def scalar(array):
    """Return the value of an array of one entry on the GPU; waits for the GPU."""
    return np.asarray(to_host(array)).reshape(-1)[0].item()


def scalar_later(array):
    """Return a function that returns the value of an array of one entry on the GPU. It waits only for work that is queued now."""
    read = backend().to_host_later(array)
    return lambda: read().reshape(-1)[0].item()


def _check_known(device):
    if not isinstance(device, str) or device not in DEVICES:
        raise InvalidInputError(f"device must be one of {', '.join(map(repr, DEVICES))}, got {device!r}")


@functools.cache
def _is_installed():
    """Return True if CuPy is installed. So a first call on the CPU does not load the CuPy backend."""
    return "cupy" in sys.modules or importlib.util.find_spec("cupy") is not None


@functools.cache
def _cupy():
    """Return the CuPy backend, or the reason why it is missing."""
    from meshsolve.device.cuda import CuPy, reason_without

    reason = reason_without()
    return CuPy() if reason is None else reason
