"""A harness with device arrays that are not numpy arrays, so that it refuses what CuPy refuses.

Numpy arrays and device arrays do not mix, there is no implicit conversion, and array functions are those of CuPy 14 with its
limits.
New arrays have garbage values. Copies to the host are recorded: `comes_back` has the size of each array. `counts` has the number of
operations of each kind, and `counted` those of a block of code.
"""

import collections
import contextlib
import functools
import operator

import numpy as np

from kernel_harness.harness import Harness, KernelError

# functions of cupy 14.2 that the library uses, and some more
FUNCTIONS = frozenset((
    "abs", "add", "all", "any", "append", "arange", "argmax", "argmin", "argsort", "array", "array_equal", "asarray",
    "ascontiguousarray", "asfortranarray", "bincount", "broadcast_to", "concatenate", "cumsum", "diff", "empty",
    "empty_like", "flatnonzero", "frexp", "full", "full_like", "isfinite", "ldexp", "lexsort", "log", "max", "maximum", "min", "minimum",
    "nonzero", "ones", "ones_like", "searchsorted", "sort", "sqrt", "stack", "sum", "unique", "where", "zeros",
    "zeros_like", "linalg.norm"))
METHODS = frozenset(("all", "any", "argmax", "argmin", "astype", "copy", "max", "mean", "min", "ravel", "repeat", "reshape", "sum", "fill",
                     "view", "tolist"))
KEEP_ORDER = frozenset(("array", "asarray", "asfortranarray", "broadcast_to", "full_like", "ones_like", "zeros_like"))
ALLOCATIONS = frozenset(("empty", "empty_like", "zeros", "zeros_like", "full", "full_like", "ones", "ones_like"))
KINDS = ("launches", "expressions", "reads", "allocations", "uploads", "library")       # of operations, in the order of `counted`
MOST_BINS = 256                                             # most bins of CUB's histogram; with more it allocates memory per thread block
NUMBERS = (bool, int, float, complex, np.generic, type(None), str, np.dtype, type, slice, type(Ellipsis))


def count(kind, in_place=False):
    """Count one operation of the GPU: a read, an expression, a named allocation, an upload or a library call.

    Raises KernelError in a block that is captured, unless the operation writes to memory that exists.
    """
    if Strict.is_capturing and not in_place:
        raise KernelError(f"{kind} in a captured block: a graph records kernels and copies on memory that exists")
    Strict.counts[kind] += 1


def write(action):
    """Count an expression that writes to memory that exists, and run it, or note it while a graph is recorded."""
    count("expressions", in_place=True)
    if Strict.recorded is None:
        action()
    else:
        Strict.recorded.append(action)


def computed(found, *arguments):
    """Count an expression, unless its result is a view of an argument, which costs nothing on the GPU."""
    if not (isinstance(found, np.ndarray) and any(np.may_share_memory(found, array) for array in arguments)):
        count("expressions")
    return found


class Array:
    """An array on the simulated device."""

    __array_ufunc__ = None                                  # numpy defers operators to this class, or raises

    def __init__(self, array):
        self.host = array

    def __array__(self, *_, **__):
        raise TypeError("implicit conversion to a numpy array is not allowed")

    @property
    def __cuda_array_interface__(self):
        return self.host.__array_interface__ | {"version": 3}

    def get(self):
        """Return a numpy copy."""
        count("reads")
        Strict.comes_back.append(self.host.size)
        return np.array(self.host, order="C")

    dtype, shape, ndim, size, strides, itemsize, nbytes, flags = (
        property(operator.attrgetter(f"host.{name}"))
        for name in ("dtype", "shape", "ndim", "size", "strides", "itemsize", "nbytes", "flags"))
    T, real, imag = (property(lambda self, name=name: wrap(getattr(self.host, name))) for name in ("T", "real", "imag"))

    def __len__(self):
        return len(self.host)

    def __iter__(self):
        raise TypeError("a loop over the entries of a device array")

    def __getitem__(self, key):
        index = unwrap(key)
        found = self.host[index]
        if any(isinstance(part, (np.ndarray, list)) for part in (index if isinstance(index, tuple) else (index,))):
            count("expressions")                            # other indices give views
        return wrap(found if np.may_share_memory(found, self.host) else by_rows(found))

    def __setitem__(self, key, value):
        index = unwrap(key)
        if isinstance(index, np.ndarray) and index.dtype == bool and isinstance(value, Array) and value.ndim:
            raise NotImplementedError("an array assigned through a mask")
        if isinstance(index, np.ndarray) and index.dtype.kind in "iu" and isinstance(value, Array) and value.size > 1:
            _refuse_twice(index)
        if isinstance(index, np.ndarray):
            count("expressions")
            self.host[index] = unwrap(value)
            return
        given = unwrap(value)
        write(lambda: self.host.__setitem__(index, given))

    def __getattr__(self, name):
        if name not in METHODS:
            raise AttributeError(f"{name} is not in strict.METHODS: add it if CuPy has it")

        def call(*args, **kwargs):
            _refuse_options(name, kwargs)
            if name in ("argmax", "argmin", "max", "min") and self.size == 0:
                raise ValueError(f"zero-size array to reduction operation {name}, along whatever axis")
            if name == "fill":
                return write(lambda: self.host.fill(*map(unwrap, args)))
            found = getattr(self.host, name)(*map(unwrap, args), **{k: unwrap(v) for k, v in kwargs.items()})
            return wrap(computed(found, self.host))
        return call

    def _scalar(self, kind):
        count("reads")
        Strict.comes_back.append(self.host.size)
        return kind(self.host.reshape(()) if self.host.size == 1 else self.host)

    def __bool__(self):
        return self._scalar(bool)

    def __int__(self):
        return self._scalar(int)

    def __float__(self):
        return self._scalar(float)


def _binary(name):
    def op(self, other):
        return wrap(by_rows(computed(getattr(operator, name)(self.host, unwrap(other)))))

    def reflected(self, other):
        return wrap(by_rows(computed(getattr(operator, name)(unwrap(other), self.host))))

    def in_place(self, other):
        value = unwrap(other)
        write(lambda: getattr(operator, f"i{name.strip('_')}")(self.host, value))
        return self
    return op, reflected, in_place


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift", "matmul"):
    _op, _reflected, _in_place = _binary(_name)
    _bare = _name.strip("_")
    setattr(Array, f"__{_bare}__", _op)
    setattr(Array, f"__r{_bare}__", _reflected)
    setattr(Array, f"__i{_bare}__", _in_place)
for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(Array, f"__{_name}__", _binary(_name)[0])
for _name in ("neg", "invert", "abs"):
    setattr(Array, f"__{_name}__", lambda self, op=getattr(operator, _name): wrap(by_rows(computed(op(self.host)))))      # noqa: B008
Array.__hash__ = None


def _refuse_options(name, options):
    """Raise for options of numpy that CuPy does not have."""
    if {"initial", "where"} & set(options) or options.get("kind") not in (None, "stable"):
        raise TypeError(f"CuPy's {name} does not take all of {', '.join(options)}")


def _refuse_twice(index):
    """Raise for repeated indices: numpy assigns the last value, CuPy any of them."""
    if len(np.unique(index)) < index.size:
        raise ValueError("several values are assigned to the same entry: CuPy assigns any of them")


def by_rows(found):
    """Results of CuPy are in C order; numpy follows the order of the arguments."""
    if isinstance(found, tuple):
        return tuple(map(by_rows, found))
    return np.ascontiguousarray(found) if isinstance(found, np.ndarray) and found.ndim > 1 else found


def garbage(array):
    """Fill a new array with garbage, as in new device memory; numpy's new memory is mostly zeros."""
    array.fill(np.nan if array.dtype.kind in "fc" else np.frombuffer(b"\xc5" * array.itemsize, array.dtype)[0])
    return array


def wrap(value):
    """Convert numpy results to device arrays. Sums and entries are 0-dimensional arrays, as in CuPy."""
    if isinstance(value, tuple):
        return tuple(map(wrap, value))
    return Array(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value


def unwrap(value):
    """Convert device arrays to numpy arguments; raise for numpy arrays."""
    if isinstance(value, Array):
        return value.host
    if isinstance(value, (tuple, list)):
        return type(value)(map(unwrap, value))
    if isinstance(value, slice):                            # CuPy accepts its arrays as integers only in slices
        return slice(*(int(end) if isinstance(end, Array) else end for end in (value.start, value.stop, value.step)))
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("CuPy needs a CuPy array, got a numpy array")
    if not isinstance(value, (*NUMBERS, np.ndarray)):
        raise TypeError(f"CuPy does not take {type(value).__name__}")
    return value


class Module:
    """Replacement of the module cupy."""

    ndarray = Array

    def __init__(self, prefix=""):
        self._prefix = prefix

    def __getattr__(self, name):
        full = self._prefix + name
        value = getattr(np.linalg if self._prefix else np, name)
        if name == "linalg":
            return Module("linalg.")
        if isinstance(value, type) or not callable(value):
            return value
        if full not in FUNCTIONS:
            raise AttributeError(f"xp.{full} is not in strict.FUNCTIONS: add it if CuPy has it")
        return lambda *args, **kwargs: self._call(full, value, args, kwargs)

    def _call(self, name, function, args, kwargs):
        _refuse_options(name, kwargs)
        if name == "lexsort" and not isinstance(args[0], Array):
            raise TypeError("keys must be a cupy.ndarray")
        if name == "searchsorted" and not isinstance(args[1], Array):
            raise NotImplementedError("only for cupy.ndarray")
        if name == "bincount" and (args[0].size == 0 or max(int(args[0].host.max()) + 1, kwargs.get("minlength", 0)) > MOST_BINS):
            raise ValueError("bincount of nothing, or with more bins than it has shared memory for: see "
                             "meshsolve.sparse.lists_cuda.bincount")
        if name in ("array", "asarray") and isinstance(args[0], (list, np.ndarray)):
            count("uploads")
            return Array(np.array(args[0], **{"dtype": args[1]} if args[1:] else kwargs))
        given = [*map(unwrap, args)]
        found = function(*given, **{k: unwrap(v) for k, v in kwargs.items()})
        if name in ALLOCATIONS:
            count("allocations")
        else:
            computed(found, *(array for array in given if isinstance(array, np.ndarray)))
        if name in ("empty", "empty_like"):
            return wrap(garbage(found))
        return wrap(found if name in KEEP_ORDER else by_rows(found))


class Strict(Harness):
    """The harness with strict arrays."""

    comes_back = []
    counts: collections.Counter = collections.Counter()
    is_capturing = False
    recorded = None                                         # launches and writes of the graph that is being recorded

    xp = Module()

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        Strict.comes_back.clear()
        Strict.counts.clear()

    @contextlib.contextmanager
    def counted(self):
        """Return a context whose dictionary has, at its end, the number of operations of each of `KINDS`."""
        numbers, before = {}, self._totals()
        yield numbers
        after = self._totals()
        numbers.update((kind, after[kind] - before[kind]) for kind in KINDS)

    @contextlib.contextmanager
    def captured(self):
        """Return a context in which only launches and copies on existing memory are allowed, as in the capture of a CUDA graph."""
        Strict.is_capturing = True
        try:
            yield
        finally:
            Strict.is_capturing = False

    def record(self, queue):
        """As the CuPy backend: note what ``queue()`` launches and writes, and return a function that does it."""
        Strict.recorded = []
        try:
            with self.captured():
                queue()
            steps = Strict.recorded
        finally:
            Strict.recorded = None

        def launch():
            for step in steps:
                step()
        return launch

    def _totals(self):
        return Strict.counts + collections.Counter({"launches": sum(self.launches.values())})

    def launch(self, function, grid, block, shared, args):
        if any(isinstance(value, np.ndarray) for value in args):
            raise TypeError(f"{function[1]}: a numpy array among the arguments")
        given = [value.host if isinstance(value, Array) else value for value in args]
        if Strict.recorded is None:
            super().launch(function, grid, block, shared, given)
        else:
            Strict.recorded.append(functools.partial(super().launch, function, grid, block, shared, given))

    def to_device(self, array):
        if isinstance(array, Array):
            return array
        count("uploads")
        return Array(np.array(array, order="F" if array.flags.fnc else "C"))

    def to_host(self, array):
        return array.get()

    def is_native(self, array):
        return isinstance(array, Array)

    def dense(self, op, *args, **options):
        count("library")
        return super().dense(op, *map(unwrap, args), **options)

    def csr(self, data, indices, indptr, shape):
        return Csr(data.astype(float) if data.dtype.kind in "iu" else data, indices, indptr, shape)


class Csr:
    """The attributes of cupyx.scipy.sparse.csr_matrix that the input checks use."""

    has_canonical_format, format = True, "csr"

    def __init__(self, data, indices, indptr, shape):
        if not all(isinstance(part, Array) for part in (data, indices, indptr)):
            raise TypeError("cupyx needs CuPy arrays")
        self.data, self.shape = data, tuple(shape)
        self.indices, self.indptr = (part.astype(np.int32, copy=False) for part in (indices, indptr))
        self.nnz, self.ndim, self.dtype = len(indices), 2, data.dtype

    def tocsr(self):
        return self

    def get(self):
        """Return a scipy matrix."""
        import scipy.sparse as sp

        return sp.csr_matrix((self.data.get(), self.indices.get(), self.indptr.get()), shape=self.shape)
