"""Compile the CUDA kernels with NVRTC, which needs no driver, and read registers, stack and spills of each.

    python tests/nvrtc.py            # print a table
    python tests/nvrtc.py --write    # also write tests/kernel_limits.json, the limits of test_kernels_compile.py

The wheel nvidia-cuda-nvrtc-cu12 contains the compiler. Its ptxas prints the resources of a kernel with --ptxas-options=-v.
"""

import ctypes
import functools
import importlib.util
import json
import pathlib
import re
import sys

from kernel_harness.harness import SUFFIX

from meshsolve.device.cuda import TENSOR_CORES, macros

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "meshsolve"
LIMITS = pathlib.Path(__file__).with_name("kernel_limits.json")
ARCHITECTURES = (80, 90)
WITHOUT_TENSOR_CORES = 89           # a third architecture, for files that use device/ptx.cuh; tensor cores are for double precision
TYPES = {80: ("double",), 90: ("double", "float"), WITHOUT_TENSOR_CORES: ("double",)}      # of files with SCALAR, which are the slow ones
# the options of meshsolve/device/cuda.py and of CuPy
OPTIONS = ["-std=c++17", "--device-as-default-execution-space", "-ftz=true", "--ptxas-options=-v", f"-I{PACKAGE}"]
NUMBERS = {
    "registers": r"Used (\d+) registers",
    "stack": r"(\d+) bytes stack frame",
    "spill_stores": r"(\d+) bytes spill stores",
    "spill_loads": r"(\d+) bytes spill loads",
    "shared": r"(\d+) bytes smem",
}


def sources():
    """Return all .cu files of the package."""
    return sorted(PACKAGE.rglob("*.cu"))


def architectures(file):
    """Return the architectures for which a .cu file is compiled."""
    return (*ARCHITECTURES, WITHOUT_TENSOR_CORES) if '"device/ptx.cuh"' in file.read_text() else ARCHITECTURES


@functools.cache
def library():
    """Load libnvrtc of the installed wheel, or return None."""
    spec = importlib.util.find_spec("nvidia")
    folders = [pathlib.Path(folder) for folder in spec.submodule_search_locations] if spec else []
    found = [file for folder in folders for file in folder.glob("**/libnvrtc.so.12*") if ".alt." not in file.name]
    return ctypes.CDLL(str(found[0])) if found else None


def known_architectures():
    """Return the architectures that this NVRTC compiles for."""
    count = ctypes.c_int()
    library().nvrtcGetNumSupportedArchs(ctypes.byref(count))
    found = (ctypes.c_int * count.value)()
    library().nvrtcGetSupportedArchs(found)
    return frozenset(found)


def compile_kernels(file, architecture):
    """{kernel: {registers, stack, spill_stores, spill_loads, shared}} of one .cu file; a compiler error is raised.

    A file with SCALAR is compiled for TYPES, and its kernels end in _f64 or _f32.
    """
    scalars = TYPES[architecture] if re.search(r"\bSCALAR\b", file.read_text()) else [""]
    return {kernel + SUFFIX[scalar]: numbers for scalar in scalars
            for kernel, numbers in parse(run(file, architecture, *macros_of(scalar, architecture))[0]).items()}


def macros_of(scalar, architecture):
    """Return the options with which the CuPy backend defines macros on a GPU of this architecture."""
    return macros(scalar, str(architecture) in TENSOR_CORES)


def ptx_of(file, architecture, *more):
    """Compile a .cu file with ``more`` options and return the PTX."""
    return run(file, architecture, *more, kind="compute")[1]


def run(file, architecture, *more, kind="sm"):
    """Compile a .cu file with ``more`` options and return the compiler's log and the PTX; "compute": not to machine code."""
    nvrtc, program = library(), ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), file.read_bytes(), str(file).encode(), 0, None, None)
    options = [option.encode() for option in [*OPTIONS, *more, f"-arch={kind}_{architecture}"]]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    log = text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    ptx = "" if failed else text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise SyntaxError(f"{file} for sm_{architecture}:\n{log}")
    return log, ptx


def text(size_of, get, program):
    """Read a string of the compiler."""
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    characters = ctypes.create_string_buffer(size.value)
    get(program, characters)
    return characters.value.decode()


def parse(log):
    """Parse the numbers of each kernel in the output of ptxas."""
    kernels, numbers = {}, None
    for line in log.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)'", line):
            numbers = kernels.setdefault(entry[1], dict.fromkeys(NUMBERS, 0))
        elif numbers is not None:
            for name, pattern in NUMBERS.items():
                if found := re.search(pattern, line):
                    numbers[name] = int(found[1])
    return kernels


def report():
    """Compile all files of the package: {file: {kernel: {"sm_80": {registers, ...}}}}."""
    table = {}
    for file in sources():
        of_file = table.setdefault(file.relative_to(PACKAGE).as_posix(), {})
        for architecture in architectures(file):
            for kernel, numbers in compile_kernels(file, architecture).items():
                of_file.setdefault(kernel, {})[f"sm_{architecture}"] = numbers
    return table


def main(arguments):
    table = report()
    for file, kernels in table.items():
        for kernel, machines in kernels.items():
            for machine, numbers in machines.items():
                print(f"{file:28} {kernel:24} {machine} ", " ".join(f"{name} {value}" for name, value in numbers.items()))
    if "--write" in arguments:
        LIMITS.write_text(json.dumps(table, indent=1, sort_keys=True).replace("\n    ", " ").replace("\n   }", " }") + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
