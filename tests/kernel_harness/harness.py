"""A backend of `meshsolve.device` on the CPU: device memory is numpy arrays, kernels are compiled by g++.

A .cu file is used unchanged. Quoted includes are expanded, and each `__shared__` variable becomes a reference into a heap block of
its exact size. Code that g++ and NVRTC would interpret differently is refused with file and line.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np
import scipy.sparse as sp

from meshsolve.device import MOST_ACROSS, PACKAGE
from meshsolve.device.cuda import macros

HEADERS = ("engine.hpp", "cuda.hpp")                      # of kernels
ENGINE = ("engine.hpp", "fiber.hpp", "races.hpp", "block.hpp", "hooks.hpp", "engine.cpp")
HERE = pathlib.Path(__file__).resolve().parent
PTX = PACKAGE / "device" / "ptx.cuh"                        # may have inline PTX, next to C++ for the harness
FLAGS = ["-std=c++17", "-O1", "-g1", "-fPIC", "-pthread", "-fvisibility=hidden", "-fno-gnu-unique", "-ffp-contract=off",
         "-Wall", "-Wno-unknown-pragmas", "-Wno-unused"]
INSTRUMENTED = ["-fsanitize=thread", "--param", "tsan-distinguish-volatile=1", "-fno-omit-frame-pointer", "-Wno-tsan"]
SANITIZE = {
    None: [],
    # without the checks that take 40 % of the compile time and find only what AddressSanitizer finds as well
    "address": ["-fsanitize=address,undefined", "-fno-sanitize=vptr,null,object-size,pointer-overflow", "-O0", "-fno-omit-frame-pointer"],
    "thread": INSTRUMENTED,
    "races": INSTRUMENTED,
}
DEFINES = {"races": ["-DHARNESS_RACES"]}                    # for the engine alone: kernels are compiled once for both
LINK = {None: ["-pthread"], "address": ["-fsanitize=address,undefined"], "thread": ["-fsanitize=thread"],
        "races": ["-nodefaultlibs", "-lstdc++", "-lm", "-lc", "-lgcc_s", "-lgcc"]}         # without libtsan: hooks.hpp replaces it
WITHOUT = "MESHSOLVE_HARNESS_WITHOUT"                       # environment: FILE:LINE of a construct that is taken away, see mutate.py

_ALIGN = r"(?:__align__\s*\(\s*\w+\s*\)\s*)?"
_DYNAMIC = re.compile(r"\bextern\s+__shared__\s+" + _ALIGN + r"([\w:<>,\s\*]+?)\s*\b(\w+)\s*\[\s*\]\s*;")
_STATIC = re.compile(r"(?<!extern )\b__shared__\s+" + _ALIGN + r"([\w:<>,\s\*]+?)\s*\b(\w+)\s*((?:\[[^\]]*\]\s*)*);")
_KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^()]*\)\s*)?(\w+)\s*\(')
_BOUNDS = re.compile(r"__global__\s+void\s+__launch_bounds__\s*\(\s*(\d+)[^()]*\)\s*(\w+)\s*\(")
_GLOBAL = re.compile(r"\b__global__\b")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[ \t]*$', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
SUFFIX = {"": "", "double": "_f64", "float": "_f32"}        # of kernels in kernel_limits.json, by SCALAR
SYNC = re.compile(r"\bvoid sync\(\) (const )?\{ (__syncthreads|__syncwarp)\((?:full_warp)?\); \}")    # barrier of a group of threads
LIMITS = HERE.parent / "kernel_limits.json"                 # static shared memory of each kernel


class KernelError(RuntimeError):
    """A deadlock, a spin without progress, a divergent barrier, or a launch with wrong arguments."""


class Harness:
    """The backend interface of `meshsolve.device`, with settings that vary launches.

    Parameters
    ----------
    resident : int
        Number of blocks in flight.
    seed : int
        0: threads run round-robin; otherwise they are chosen at random and yield at random.
    block : int or None
        Number of threads of one-dimensional blocks, instead of the algorithm's choice.
    timeout : float
        Seconds that a thread may spin while its block makes no progress.
    sanitize : {None, "races", "address", "thread"}
        The last two need the sanitizer's runtime in the process, see `sanitized.py`.
    shared_limit : int
        Largest dynamic shared memory of a block, bytes.
    tensor_cores : bool
        Compile kernels for a GPU with tensor cores for float64.
    """

    name = "harness"
    xp = np
    stream = 0
    multiprocessors = 3                                     # persistent kernels launch more blocks than are in flight
    memory_errors = (MemoryError,)
    device_errors = ()
    compile_errors = (SyntaxError,)

    def __init__(self, resident=2, seed=0, block=None, timeout=600.0, sanitize=None, shared_limit=48 << 10, tensor_cores=False):
        self.shared_limit, self.tensor_cores = shared_limit, tensor_cores
        self.sanitize = sanitize or os.environ.get("MESHSOLVE_HARNESS_SANITIZE") or None
        self.resident = 1 if self.sanitize == "races" else resident          # one block: flags of other blocks order nothing
        self.seed, self.block, self.timeout = seed, block, timeout
        self.launches = {}                                  # number of launches of each kernel

    def function(self, path, name, scalar=""):
        """The kernel `name` of a .cu file with SCALAR defined as `scalar`, compiled unless the cache has it."""
        return _library(pathlib.Path(path), self.sanitize, scalar, macros(scalar, self.tensor_cores)), name

    def launch(self, function, grid, block, shared, args):
        library, name = function
        self.launches[name] = self.launches.get(name, 0) + 1
        self._check_size(library, name, block, shared)
        if self.block and len(block) == 1:
            block = (self.block,)
        if max(grid[1:], default=0) > MOST_ACROSS:
            raise KernelError(f"{name}: the grid has {grid} blocks; at most {MOST_ACROSS} are allowed in y and z")
        if shared > self.shared_limit:
            raise KernelError(f"{name}: {shared} bytes of shared memory; at most {self.shared_limit} are available")
        library.launch(name, grid, block, shared, args, self.resident, self.seed, self.timeout)

    def _check_size(self, library, name, block, shared):
        """Raise if a GPU would refuse the launch. Block sizes set by the harness are not checked."""
        threads, most, static = int(np.prod(block)), library.most_threads[name], library.shared.get(name, 0)
        if threads > most and not self.block:
            raise KernelError(f"{name}: {threads} threads per block, above its __launch_bounds__ of {most}")
        if shared + static > max(self.shared_limit, 48 << 10):              # 48 kB on every GPU
            raise KernelError(f"{name}: {shared} bytes of dynamic and {static} of static shared memory are more than available")

    def to_device(self, array):
        return np.array(array, copy=True)

    def to_host(self, array):
        return np.array(array, copy=True)

    def to_host_later(self, array):
        return lambda: self.to_host(array)

    def is_native(self, array):
        """True for arrays of class OnDevice; plain numpy arrays are on the host."""
        return isinstance(array, OnDevice)

    def dense(self, op, *args, **options):
        from kernel_harness import dense

        return getattr(dense, op)(*args, **options)

    def csr(self, data, indices, indptr, shape):
        return sp.csr_array((data, indices, indptr), shape=shape)

    def release(self):
        pass


class OnDevice(np.ndarray):
    """A caller's array on the GPU: ``array.view(OnDevice)``."""


# ---- source -----------------------------------------------------------------------------------------------------------


def read(path, folders, seen):
    """Return the text of a file after `check` and `transform`, with quoted includes expanded, each file once.

    Files of the package have relative names in it, so that all checkouts share the compiled kernels.
    """
    text, shown = without_volatile(path), path.relative_to(PACKAGE.parent) if path.is_relative_to(PACKAGE) else path
    check(text, path)
    seen.add(path)

    def included(match):
        for folder in (path.parent, *folders):
            file = (folder / match[1]).resolve()
            if file.is_file():
                line = match.string.count("\n", 0, match.start()) + 2
                return read(file, folders, seen) + f'\n#line {line} "{shown}"' if file not in seen else ""
        raise FileNotFoundError(f"{path}: {match[1]} is in none of the folders")

    body = _INCLUDE.sub(included, transform(text, len(seen)).replace("#pragma once", ""))
    return f'#line 1 "{shown}"\n{body}\n'


def without_volatile(path):
    """The text of a file, without `volatile` in the line that MESHSOLVE_HARNESS_WITHOUT names. cuda.hpp skips barriers and fences."""
    text = path.read_text()
    file, _, line = os.environ.get(WITHOUT, "").rpartition(":")
    if not file or not path.as_posix().endswith(f"/{file}"):
        return text
    lines = text.split("\n")
    lines[int(line) - 1] = re.sub(r"\bvolatile\b", "", lines[int(line) - 1])
    return "\n".join(lines)


def check(text, path):
    """Raise for code that g++ and NVRTC would interpret differently, with the line."""
    code = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)

    def refuse(position, why):
        raise SyntaxError(f"{path}:{code.count(chr(10), 0, position) + 1}: {why}")

    for m in re.finditer(r"\b__shared__\b[^;]*;", code):
        if _depth(code, m.start()) == 0:
            refuse(m.start(), "__shared__ at file scope: declare it inside the kernel")
        if "," in re.sub(r"<[^<>]*>|\[[^\]]*\]|\([^()]*\)", "", m[0]):
            refuse(m.start(), "one __shared__ variable per declaration")
    for word in ("asm", "__activemask"):
        if (m := re.search(rf"\b{word}\b", code)) and (word, path) != ("asm", PTX):
            refuse(m.start(), f"{word} is not supported")
    for m in _GLOBAL.finditer(code):
        if not _KERNEL.match(code, code.rfind("extern", 0, m.start())):
            refuse(m.start(), 'write: extern "C" __global__ void __launch_bounds__(threads) name(...)')


def _depth(code, position):
    """Number of open braces at a position, not counting namespaces and extern "C"."""
    open_ = []
    for m in re.finditer(r'((?:\bnamespace\b[\w\s:]*|extern\s+"C"\s*)?)\{|\}', code[:position]):
        if m[0] == "}":
            open_.pop()
        else:
            open_.append(not m[1])
    return sum(open_)


def transform(text, file):
    """Replace `__shared__` variables by references into heap blocks, numbered by file and position; the harness uses 0 and 1.

    A method sync() passes on the line of its call, which is that of the barrier.
    """
    ids = iter(range(2 + 64 * file, 2 + 64 * (file + 1)))
    text = SYNC.sub(lambda m: "void sync(unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) "
                    f"{m[1] or ''}{{ {m[2]}({'~0u, ' if m[2] == '__syncwarp' else ''}line, file); }}", text)
    text = _DYNAMIC.sub(lambda m: f"{m[1]}* {m[2]} = static_cast<{m[1]}*>(harness::dynamic_shared());", text)
    return _STATIC.sub(lambda m: f"auto& {m[2]} = harness::shared_variable<{m[1]}{m[3]}>({next(ids)});", text)


# ---- compilation ------------------------------------------------------------------------------------------------------


@functools.cache
def _library(path, sanitize, scalar, options):
    folders = [PACKAGE]
    code = read(path.resolve(), folders, set())
    names = _KERNEL.findall(_COMMENT.sub("", code))
    most_threads = dict.fromkeys(names, 1024) | {name: int(most) for most, name in _BOUNDS.findall(_COMMENT.sub("", code))}
    code = f'#include "cuda.hpp"\n{code}\n' + "".join(f"HARNESS_EXPORT({name})\n" for name in names)
    objects = [_kernels(path.stem, code, sanitize, options), _engine(sanitize)]
    file = _built(f"{path.stem}.{{}}.so", map(str, objects), ["g++", "-shared", *objects, *LINK[sanitize]])
    return Library(file, names, most_threads, _static_shared(path, scalar), sanitize)


def _kernels(stem, code, sanitize, options):
    """The compiled kernels. ThreadSanitizer and the detector of races share them."""
    command = ["g++", *FLAGS, *SANITIZE[sanitize], *options]
    inputs = ["-c", "-I", _precompiled(sanitize), "-I", HERE, "-x", "c++", "-"]
    return _built(f"{stem}.{{}}.o", [code, *command, *_texts(*HEADERS)], [*command, *inputs], code)


def _precompiled(sanitize):
    """The folder of the precompiled cuda.hpp."""
    command = ["g++", *FLAGS, *SANITIZE[sanitize]]
    inputs = ["-x", "c++-header", HERE / "cuda.hpp"]
    return _built("headers.{}/cuda.hpp.gch", [*command, *_texts(*HEADERS)], [*command, *inputs]).parent


def _engine(sanitize):
    command = ["g++", *FLAGS, *SANITIZE[sanitize], *DEFINES.get(sanitize, [])]
    return _built("engine.{}.o", [*command, *_texts(*ENGINE)], [*command, "-c", HERE / "engine.cpp"])


def _built(name, parts, command, code=None):
    """The file ``name`` of the cache, with the hash of ``parts`` in it. A missing one is made by the command, which reads ``code``."""
    file = cache_folder() / name.format(_key(*parts))
    file.parent.mkdir(exist_ok=True)
    with _missing(file) as made:
        if made:
            _compile([*command, "-o", made], code)
    return file


def _texts(*names):
    return [(HERE / name).read_text() for name in names]


def _key(*parts):
    """Hash of what a compiled file depends on."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


@contextlib.contextmanager
def _missing(file):
    """Yield the name under which to make a file, or None if it exists. Other processes wait meanwhile."""
    if file.exists():
        yield None
        return
    with open(file.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if file.exists():
            yield None
            return
        made = file.with_suffix(".tmp")
        yield made
        made.replace(file)


def _compile(command, code=None):
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}       # no sanitizer in g++ itself
    done = subprocess.run(command, input=code, text=True, capture_output=True, env=plain)
    if done.returncode:
        raise SyntaxError(done.stderr)


def cache_folder():
    """The folder of compiled kernels."""
    folder = pathlib.Path(os.environ.get("MESHSOLVE_HARNESS_CACHE", pathlib.Path(tempfile.gettempdir()) / f"meshsolve-harness-{os.getuid()}"))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _static_shared(path, scalar):
    """Bytes of shared memory that each kernel of a file of the package declares, as NVRTC found them."""
    known = json.loads(LIMITS.read_text())
    kernels = known.get(path.resolve().relative_to(PACKAGE).as_posix(), {}) if path.resolve().is_relative_to(PACKAGE) else {}
    known = {name: max(numbers["shared"] for numbers in machines.values()) for name, machines in kernels.items()}
    suffix = SUFFIX[scalar]
    return {name.removesuffix(suffix): shared for name, shared in known.items() if name.endswith(suffix)}


class Library:
    """The kernels of one compiled file. Libraries of one build share the stacks of their threads, kept from launch to launch."""

    loaded = []
    stacks = {}                 # address of the list, by what the libraries are built for

    def __init__(self, file, names, most_threads, shared, sanitize):
        self.loaded.append(self)
        self.file, self.most_threads, self.shared = file, most_threads, shared
        self.library = library = ctypes.CDLL(str(file))
        library.harness_share.restype = ctypes.c_void_p
        self.stacks[sanitize] = library.harness_share(ctypes.c_void_p(self.stacks.get(sanitize)))
        self.types, self.functions = {}, {}
        for name in names:
            codes = getattr(library, f"codes_{name}")
            codes.restype = ctypes.POINTER(ctypes.c_char * 8)
            self.types[name] = [code.value.decode() for code in itertools.takewhile(lambda code: code.value, codes())]
            self.functions[name] = getattr(library, f"call_{name}")

    def launch(self, name, grid, block, shared, args, resident, seed, timeout):
        types = self.types[name]
        if len(types) != len(args):
            raise KernelError(f"{name} takes {len(types)} arguments, got {len(args)}")
        values = [_argument(name, k, type_, value) for k, (type_, value) in enumerate(zip(types, args))]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        sizes = [(ctypes.c_uint * 3)(*(*size, 1, 1)[:3]) for size in (grid, block)]
        error = ctypes.create_string_buffer(512)
        if self.library.harness_launch(self.functions[name], *sizes, ctypes.c_size_t(shared), pointers, ctypes.c_uint(resident),
                                       ctypes.c_uint64(seed), ctypes.c_double(timeout), error, ctypes.c_size_t(len(error))):
            raise KernelError(f"{name}: {self._with_lines(error.value.decode())}")

    def needed_lines(self):
        """Lines (file, line) whose barrier or `volatile` some pair of accesses needed so far; only of a library built with "races"."""
        out, size = ctypes.create_string_buffer(1 << 20), ctypes.c_uint()
        self.library.harness_sites(out, ctypes.c_size_t(len(out)))
        rows = [line.split("\t") for line in out.value.decode().splitlines()]
        needed = {(file, int(line)) for _, file, line, _, pairs, _, _ in rows if int(pairs)}
        self.library.harness_strong_code.restype = ctypes.POINTER(ctypes.c_int)
        offsets = self.library.harness_strong_code(ctypes.byref(size))[:size.value]
        strong = [place.rpartition(":") for place in self._places([offset for offset in offsets if offset])]
        return needed | {(file, int(line)) for file, _, line in strong if line.isdigit()}

    def _with_lines(self, text):
        """Replace each {offset of code} by file and line."""
        offsets = re.findall(r"\{(-?\d+)\}", text)
        for offset, place in zip(offsets, self._places(offsets)):
            text = text.replace(f"{{{offset}}}", place.removeprefix(f"{PACKAGE}/"), 1)
        return text

    def _places(self, offsets):
        if not offsets:
            return []
        symbols = subprocess.run(["nm", self.file], capture_output=True, text=True, check=True).stdout
        zero = int(re.search(r"^(\w+) \w harness_zero$", symbols, re.MULTILINE)[1], 16)
        codes = [hex(zero + int(offset) - 1) for offset in offsets]                # return addresses are those of the next instruction
        found = subprocess.run(["addr2line", "-e", self.file, *codes], capture_output=True, text=True, check=True).stdout
        return [place.split(" ")[0] for place in found.splitlines()]


def _argument(kernel, position, expected, value):
    """Copy an argument to separate memory. Its type must be exactly the kernel's; CuPy would not check this."""
    where = f"{kernel}, argument {position}"
    if isinstance(value, np.ndarray) and value.ndim:
        given = "*" + value.dtype.str[1:]
        if not (value.flags.c_contiguous or value.flags.f_contiguous):
            raise KernelError(f"{where}: the array is not contiguous")
        if given != expected:
            raise KernelError(f"{where}: {given[1:]} array, the kernel takes {expected}")
        return ctypes.c_void_p(_address(value))
    if not isinstance(value, np.generic) or value.dtype.str[1:] != expected:
        raise KernelError(f"{where}: {type(value).__name__}, the kernel takes {expected}")
    return ctypes.create_string_buffer(value.tobytes(), value.nbytes)


def _address(array):
    """The address as CuPy gives it: null for an array allocated with size 0, but not for an empty slice."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return array.ctypes.data if owner.size else None
