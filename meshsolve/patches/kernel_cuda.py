"""Functions of the user that run on the GPU, one thread block per patch. kernel.cuh is what their code sees of a patch."""

from __future__ import annotations

import functools
import hashlib
import pathlib
import re
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshsolve import device
from meshsolve.errors import InvalidInputError
from meshsolve.files import written_whole
from meshsolve.options import as_integer, as_number, shown
from meshsolve.patches.query_cuda import BLOCK, TRANSPOSED
from meshsolve.types import Array

TYPES = {"double": np.float64, "float": np.float32, "int": np.int32, "unsigned": np.uint32, "unsigned int": np.uint32,
         "long long": np.int64, "unsigned long long": np.uint64, "unsigned short": np.uint16, "unsigned char": np.uint8}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
FUNCTION = re.compile(r"\b__device__\s+void\s+(\w+)\s*\(\s*const\s+Patch\s*&\s*\w+\s*((?:,[^()]*)?)\)\s*\{")
PARAMETER = re.compile(r"(?:const\s+)?(\w[\w ]*?)\s*(\*?)\s*(?:\b__restrict__\s+)?\b(\w+)")
STATIC = 1024                       # bytes of shared memory of a block that are left for static variables
HEAD = """#define MS_PATCH_ROWS {rows}
#include "patches/kernel.cuh"
using ms::patches::Patch;
using ms::patches::Row;
#line 1 "{name}"
{source}
extern "C" __global__ void __launch_bounds__({block})
k_{name}(const ms::patches::Tables* tables_of_patches{parameters}) {{
  const Patch patch(tables_of_patches);
  {name}(patch{names});
}}
"""


@dataclass(frozen=True)
class Parameter:
    """A parameter of the user's function: its name, its type and whether it is an array."""

    name: str
    dtype: np.dtype
    is_array: bool

    @classmethod
    def of(cls, text):
        match = PARAMETER.fullmatch(" ".join(text.split()))
        if not match or match[1] not in TYPES:
            raise InvalidInputError(f"parameter {text.strip()!r} cannot be passed: its type must be one of {', '.join(TYPES)}, or a "
                                    "pointer to it")
        return cls(match[3], np.dtype(TYPES[match[1]]), bool(match[2]))

    def checked(self, value):
        """Return an argument in the form of a launch."""
        if not self.is_array and self.dtype.kind == "f":
            return self.dtype.type(as_number(value, self.name, -np.inf))
        if not self.is_array:
            limits = np.iinfo(self.dtype)
            return self.dtype.type(as_integer(value, self.name, int(limits.min), int(limits.max)))
        array = value if isinstance(value, device.xp().ndarray) else device.asarray(value) if device.holds(value) else None
        if array is None or array.dtype != self.dtype or not array.flags.c_contiguous:
            raise InvalidInputError(f"{self.name} must be a C-contiguous array of {self.dtype} on the GPU, got "
                                    + (shown(value) if array is None else f"{array.dtype}, shape {tuple(array.shape)}"))
        return array


class PatchKernel:
    """A function of the user that runs on the GPU, one thread block of 256 threads per patch: ``PatchMesh.kernel``.

    Call it with the arguments of the function after the patch: C-contiguous arrays on the GPU of exactly the declared types, and
    numbers. The launch is queued on CuPy's current stream, and results are in the arrays.

    Attributes
    ----------
    name : str
        Of the function.
    shared_bytes : int
        Shared memory of a thread block.
    """

    def __init__(self, tables: Any, source: str, per_element: list[int]) -> None:
        self.name, declared = _function_of(source)
        self._parameters = [Parameter.of(text) for text in declared]
        rows = [name for name in TRANSPOSED if re.search(rf"\b{name.lower()}\s*\(", COMMENT.sub("", source))]
        self.shared_bytes = _shared_bytes(tables, rows, per_element)
        text = HEAD.format(rows=sum(1 << TRANSPOSED[name] for name in rows), name=self.name, source=source, block=BLOCK,
                           parameters="".join(f", {text.strip()}" for text in declared),
                           names="".join(f", {parameter.name}" for parameter in self._parameters))
        self._kernel = _compiled(text, f"k_{self.name}")
        addresses = [*map(device.address, tables.view), *per_element]
        self._tables, self._addresses = tables, device.to_device(np.array(addresses, np.uint64))

    def __repr__(self):
        return f"PatchKernel({self.name}: {len(self._parameters)} parameters, {self.shared_bytes:,} bytes of shared memory)"

    def __call__(self, *args: Array | float) -> None:
        """Launch the function on all patches.

        Raises
        ------
        InvalidInputError
            Another number of arguments; an array of another type, not contiguous or not on the GPU; a value that is no number of
            the declared type.
        """
        if len(args) != len(self._parameters):
            names = ", ".join(parameter.name for parameter in self._parameters)
            raise InvalidInputError(f"{self.name} takes {len(self._parameters)} arguments ({names}), got {len(args)}")
        with device.errors(f"the patch kernel {self.name}"):
            checked: list[Any] = [parameter.checked(value) for parameter, value in zip(self._parameters, args, strict=True)]
            device.launch(self._kernel, self._tables.count, BLOCK, self.shared_bytes, (self._addresses, *checked))


def _function_of(source):
    """Return the name and the parameters, after the patch, of the one function of the source that takes a patch."""
    if not isinstance(source, str):
        raise InvalidInputError(f"source must be CUDA C++ as a string, got {shown(source)}")
    found = FUNCTION.findall(COMMENT.sub("", source))
    if len(found) != 1:
        raise InvalidInputError("source must define one function `__device__ void NAME(const Patch& patch, ...) {`, found "
                                + (", ".join(name for name, _ in found) or "none"))
    (name, parameters), = found
    return name, parameters.split(",")[1:]


def _shared_bytes(T, rows, per_element):
    """Return the shared memory of the largest patch, laid out as in the constructor of ``Patch`` in kernel.cuh."""
    xp = device.xp()
    vertices, edges, faces = (xp.diff(T.sources(kind)[0]) for kind in "VEF")
    owned_vertices, owned_edges = (xp.diff(T.sources(kind)[1]) for kind in "VE")
    need = 4 * edges + 6 * faces
    for size, count in zip((vertices, edges, faces), per_element, strict=True):
        need = need + (count * size + 15) // 16 * 16
    for name in rows:
        need = need + 4 * (owned_edges if name == "EF" else owned_vertices) + (4 * edges if name in ("VE", "VV") else 6 * faces)
    patch = int(device.scalar(xp.argmax(need).reshape(1)))
    most, limit = int(device.scalar(need[patch:patch + 1])), device.shared_limit() - STATIC
    if most > limit:
        raise InvalidInputError(f"patch {patch} needs {most:,} bytes of shared memory, a thread block has {limit:,}: use a smaller "
                                "patch_size, or fewer bytes per element")
    return most


def _compiled(text, name):
    """Return the kernel ``name`` of a source text, compiled. The same text is compiled once."""
    file = pathlib.Path(_folder().name, f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.cu")
    file.parent.mkdir(exist_ok=True)                        # a forked process that ended has removed it
    with written_whole(file) as part:                       # another thread may compile the same text
        part.write_text(text, encoding="utf-8")
    kernel = device.Kernel(str(file), name)
    device.compile_now(kernel)
    return kernel


@functools.cache
def _folder():
    """The folder of the sources of this process, removed at its end."""
    return tempfile.TemporaryDirectory(prefix="meshsolve-")
