"""The seam to the GPU: everything that a CUDA path does outside numpy-like array expressions goes through here.

An algorithm's CUDA path is Python that allocates arrays, launches kernels of the ``.cu`` file beside it and reads scalars
back. It imports no CuPy: it asks this module, so that the same code runs on CuPy or, in the tests, on the kernel harness,
where numpy arrays stand for device memory and g++ compiles the kernels (tests/kernel_harness/README.md).

A CUDA path looks like this::

    K = device.kernels("patches/query.cu")              # beside its algorithm; compiled at the first launch
    with device.errors("patch queries"):
        xp = device.xp()                                # cupy, or numpy under the harness: scans, sorts, allocation
        count = xp.zeros(n, xp.int32)
        device.launch(K.k_count, num_patches, 256, 0, (rows, count, np.int32(n)))
        total = device.scalar(count.sum().reshape(1))   # a scalar comes back; arrays stay

``launch(kernel, grid, block, shared, args)``
    The one launch seam. Arrays are device arrays of exactly the kernel's types; scalars are numpy scalars of the exact type
    (``np.int32(n)``), a Python number is refused. Runs on the caller's current stream and device.
    Kernels for float64 and float32 have one source, in which the type is ``SCALAR``: ``K.of(dtype).k_factor``.
``prepared(kernel, grid, block, shared, args)``
    A launch to be made many times, as a function of its last arguments.
``dense(op, *arrays)``
    The seam of library calls for large fronts: ``potrf``, ``trsm``, ``syrk``, ``gemm`` by cuSOLVER and cuBLAS, in place on
    column-major views with any leading dimension.
``xp()``, ``to_device``, ``to_host``, ``holds``
    The array module, transfers, and whether an array lies on the GPU already. Device-wide scans, stable sorts, ``unique`` and
    ``searchsorted`` are CuPy's (CUB and Thrust underneath); block-wide ones are in common.cuh.
``scalar``, ``scalar_later``
    A number comes back; with the latter the host waits for what made it alone, and not before it asks.
``choose(device, size, *arrays)``
    What an argument ``device="auto"|"cpu"|"cuda"`` means here: the one place that decides, and that says what is missing.
``errors(what)``
    Around a public entry: out of device memory, a lost context and a failed compilation become exceptions of meshsolve; what
    was allocated inside goes with its last reference.
``check_stall(flag, what)``
    After a kernel whose blocks wait for each other (``Patience`` in common.cuh): an exception instead of an endless spin.

CuPy keeps compiled kernels on disk (``~/.cupy/kernel_cache``, or ``CUPY_CACHE_DIR``), keyed by source, options and GPU; the
source it is given ends with a digest of the headers.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib.util
import pathlib
import sys
import traceback
from dataclasses import dataclass

import numpy as np

from meshsolve.errors import DeviceUnavailableError, InvalidInputError, OutOfMemoryError

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
DLPACK_CUDA = 2                     # kDLCUDA
MOST_ACROSS = 65535                 # blocks of a grid in its second and third dimension
DEVICES = ("auto", "cpu", "cuda")   # what an argument ``device`` may be
BLOCK = 256                         # threads of a block, unless a kernel needs another number
SCALARS = {np.dtype(np.float64): "double", np.dtype(np.float32): "float"}      # ``SCALAR`` in a .cu file, by dtype
AUTO_SIZE = 100_000                 # rows or elements from which device="auto" takes a GPU that is there

PYTHON_NUMBERS = frozenset((bool, int, float))

_stand_in = contextvars.ContextVar("stand_in", default=None)


@dataclass(frozen=True)
class Kernel:
    """A ``__global__`` function: its file relative to the package, its name, and ``SCALAR`` ("" if the file has none)."""

    file: str
    name: str
    scalar: str = ""

    @functools.cached_property
    def path(self):
        """Where the file is."""
        return PACKAGE / self.file


class kernels:
    """The kernels of one ``.cu`` file as attributes; nothing is compiled before the first launch.

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


# ---- the seam ---------------------------------------------------------------------------------------------------------


def launch(kernel, grid, block, shared, args):
    """Run a kernel on the current stream.

    Parameters
    ----------
    kernel : Kernel
    grid, block : int or tuple of up to three ints
        Blocks, and threads of a block. A grid of no blocks does nothing.
    shared : int
        Bytes of dynamic shared memory, up to :func:`shared_limit`.
    args : sequence of device arrays and numpy scalars

    Raises
    ------
    TypeError
        A Python number among the arguments: its size is not the kernel's to guess.
    """
    prepared(kernel, grid, block, shared, args)()


def launch_1d(kernel, items, *args):
    """Launch a kernel with one thread per item."""
    launch(kernel, grid_for(items, BLOCK), BLOCK, 0, args)


def prepared(kernel, grid, block, shared, args):
    """:func:`launch` as a function of the arguments that come after ``args``, device arrays: what is checked once takes the host
    a fraction of the time."""
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


def dense(op, *arrays, **options):
    """One dense library call in place, on column-major views of float64 or float32 (leading dimension from the strides).

    ``"potrf_size", a``
        How many scalars ``work`` has to have for this ``a``.
    ``"potrf", a, info, work``
        The lower triangle of (n, n) ``a`` becomes its Cholesky factor, and ``info``, (1,) int32 on the device, 0, or k > 0 where
        the k-th pivot is not positive.
    ``"trsm", l, b, side="R", trans="T"``
        b becomes b L^-T (or with ``side="L"`` L^-1 b or L^-T b) for the lower triangle of ``l``.
    ``"syrk", c, a``
        The lower triangle of c becomes that of c - a a^T.
    ``"gemm", c, a, b, trans_a="N", trans_b="T"``
        c becomes c - op(a) op(b).
    """
    return backend().dense(op, *arrays, **options)


def grid_for(items, block, most=1 << 16):
    """Blocks for a loop over ``items`` in strides of the grid, one item a thread while there are at most ``most`` blocks."""
    return min(-(-int(items) // block), most)


def xp():
    """The array module of the device: ``cupy``, or what stands in for it."""
    return backend().xp


def to_device(array):
    """A copy of a host array on the device; an array that lies there already is returned as it is."""
    return array if holds(array) else backend().to_device(array)


def to_host(array):
    """A numpy copy of a device array; a numpy array as it is."""
    return array if isinstance(array, np.ndarray) else backend().to_host(array)


def csr(data, indices, indptr, shape):
    """A sparse matrix on the device: a ``cupyx.scipy.sparse.csr_matrix``, which holds float64 where it is given integers."""
    return backend().csr(data, indices, indptr, shape)


def holds(array):
    """Whether an array lies on a GPU: it has ``__cuda_array_interface__``, it says so by DLPack, or it stands in for such."""
    stand_in = _stand_in.get()
    if stand_in is not None and stand_in.is_native(array):
        return True
    if isinstance(array, np.ndarray):
        return hasattr(array, "__cuda_array_interface__")
    if "sparse" in str(getattr(array, "layout", "")):       # a sparse tensor: it offers both interfaces, and raises what it likes
        return False
    try:
        return hasattr(array, "__cuda_array_interface__") or (
            hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] == DLPACK_CUDA)
    except Exception:                                       # traced, or on a device without memory, such as PyTorch's meta
        return False


def asarray(array):
    """An array that lies on the GPU, of whatever library, as one of :func:`xp`; no copy."""
    module = xp()
    known = isinstance(array, np.ndarray) or hasattr(array, "__cuda_array_interface__")
    return module.asarray(array) if known else module.from_dlpack(array)


def shared_limit():
    """Most bytes of dynamic shared memory that a block may ask for."""
    return backend().shared_limit


def multiprocessors():
    """Multiprocessors of the device: a persistent kernel launches some blocks for each."""
    return backend().multiprocessors


# ---- which device -----------------------------------------------------------------------------------------------------


def backend():
    """CuPy behind the seam, or what :func:`use` has put in its place.

    Raises
    ------
    DeviceUnavailableError
        No CuPy, no CUDA device, a driver that is too old, or no compiler; the message says what to install.
    """
    stand_in = _stand_in.get()
    if stand_in is not None:
        return stand_in
    found = _cupy()
    if isinstance(found, str):
        raise DeviceUnavailableError(found)
    return found


def available():
    """Whether there is a device to run on."""
    return _stand_in.get() is not None or (_is_installed() and not isinstance(_cupy(), str))


@contextlib.contextmanager
def use(stand_in):
    """Within this context the CUDA paths run on ``stand_in``: the kernel harness of the tests."""
    token = _stand_in.set(stand_in)
    try:
        yield stand_in
    finally:
        _stand_in.reset(token)


def choose(device, size=0, *arrays):
    """``"cpu"`` or ``"cuda"`` for an argument ``device``.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        ``"auto"`` takes the GPU where one is found and either the input lies on it or ``size`` is at least ``AUTO_SIZE``.
    size : int
        Rows or elements of the input.
    arrays
        The input.

    Raises
    ------
    InvalidInputError
        An unknown device.
    DeviceUnavailableError
        ``"cuda"`` where there is none.
    """
    _check_known(device)
    if device == "auto":
        worth_it = size >= AUTO_SIZE or any(map(holds, arrays))         # first: to look for a device is to start it
        return "cuda" if worth_it and available() else "cpu"
    if device == "cuda":
        backend()
    return device


def on_cpu(device, what):
    """Refuse a device that is unknown, and "cuda" for ``what`` runs on the CPU only."""
    _check_known(device)
    if device == "cuda":
        raise DeviceUnavailableError(f'{what} on the CPU only in this version: use device="cpu"')


def on_gpu(device, what):
    """Refuse a device that is unknown, a missing GPU, and "cpu" for ``what`` runs on the GPU only."""
    _check_known(device)
    if device == "cpu":
        raise InvalidInputError(f'{what} needs device="cuda" or "auto"')
    backend()


def _check_known(device):
    if not isinstance(device, str) or device not in DEVICES:
        raise InvalidInputError(f"device must be one of {', '.join(map(repr, DEVICES))}, got {device!r}")


@functools.cache
def _is_installed():
    """Whether there is a CuPy at all: a first call on the CPU need not load what speaks to it."""
    return "cupy" in sys.modules or importlib.util.find_spec("cupy") is not None


@functools.cache
def _cupy():
    """CuPy behind the seam, or the reason why there is none."""
    from meshsolve.device.cuda import CuPy, reason_without

    reason = reason_without()
    return CuPy() if reason is None else reason


# ---- what goes wrong --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def errors(what):
    """Turn what CuPy raises inside into exceptions of meshsolve that name ``what``."""
    owner = backend()
    try:
        yield
    except OutOfMemoryError:                                # that says of itself what is too large
        raise
    except owner.memory_errors as e:
        traceback.clear_frames(e.__traceback__)             # or the exception would keep their arrays alive
        owner.release()
        raise OutOfMemoryError(f"{what}: the GPU has not enough memory ({e}); use device=\"cpu\" or a smaller problem") from e
    except owner.device_errors as e:
        raise DeviceUnavailableError(f"{what}: the GPU failed ({e}); device=\"cpu\" goes on without it") from e


def check_stall(flag, what):
    """Raise where a kernel has set its flag, an int32 array of one entry: its blocks waited for each other in vain."""
    stalled = int(to_host(flag)[0])
    if stalled:
        raise DeviceUnavailableError(f"{what}: a kernel made no progress (code {stalled}) and gave up; use device=\"cpu\"")


def scalar(array):
    """The value of a device array of one entry: waits for the device."""
    return np.asarray(to_host(array)).reshape(-1)[0].item()


def scalar_later(array):
    """A function that gives the value of a device array of one entry: it waits for what is queued now, not for what follows."""
    read = backend().to_host_later(array)
    return lambda: read().reshape(-1)[0].item()
