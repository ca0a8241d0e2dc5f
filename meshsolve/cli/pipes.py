"""Standard input and standard output in place of files: the file name ``-``.

Standard input is read whole into a temporary file, whose suffix comes from ``--input-format`` or from the first bytes. The result of
``-o -`` is written to a temporary file and copied to standard output at the end, with all messages on standard error. Both are binary.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
import zlib

from meshsolve.errors import InvalidInputError
from meshsolve.mesh.files import READABLE, WRITABLE

INPUTS = ("mesh", "matrix", "rhs", "deck", "input")
OUTPUTS = {"output": "", "render": "png", "plot": "png", "screenshot": "png", "report": "json", "perm": "txt",
           "part": "txt"}        # with their formats
DEFAULTS = {"solve": "mtx", "spectrum": "txt", "geodesics": "txt", "param": "obj", "circuit": "csv"}        # formats of --output
BEGINNINGS = {b"%%MatrixMarket": "mtx", b"\x93NUMPY": "npy", b"PK\x03\x04": "npz", b"ply": "ply", b"OFF": "off", b"COFF": "off",
              b"NOFF": "off", b"glTF": "glb", b"{": "gltf", b"solid": "stl", b"# vtk": "vtk", b"$MeshFormat": "msh", b"<": "vtu"}
GZIP, HEAD = b"\x1f\x8b", 65536     # first bytes of a gzip file, and number of bytes in which a format is recognized
_folders: list[str] = []            # temporary folders, whose names are left out of messages


def plain(text):
    """Leave the names of temporary folders out of a message."""
    for folder in _folders:
        text = text.replace(folder, "")
    return text


def misuse(args):
    """Return what is wrong with the arguments ``-``, ``--format`` and ``--input-format``, or an empty text."""
    inputs, outputs = _named(args)
    if len(inputs) > 1 or (inputs and any(len(_listed(getattr(args, name, None))) > 1 for name in INPUTS)):
        return "only one input can be standard input (-)"
    if len(outputs) > 1 or (outputs and args.command == "circuit" and not args.output):
        return "only one output can be standard output (-); give file names to the others, the table of circuit by -o"
    if outputs and len(_listed(getattr(args, "mesh", None))) > 1:
        return "several meshes need a folder for their results, not standard output (-)"
    for option, names, what in (("input_format", inputs, "input"), ("format", outputs, "output")):
        if getattr(args, option, None) and not names:
            return f"--{option.replace('_', '-')} is for standard {what} (-); files have their format in their names"
    return ""


@contextlib.contextmanager
def piped(args):
    """Replace ``-`` among the arguments by temporary files, and copy the output to standard output, also after an error.

    Raises
    ------
    InvalidInputError
        Standard input is empty or closed, or its format is unknown.
    """
    inputs, outputs = _named(args)
    if not inputs and not outputs:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="meshsolve-") as folder:
        _folders.append(folder + os.sep)
        for name in inputs:
            path = _read(args, name, pathlib.Path(folder))
            setattr(args, name, [path] if isinstance(getattr(args, name), list) else path)
        if not outputs:
            yield
            return
        path = pathlib.Path(folder) / f"standard output.{_output_format(args, outputs[0])}"
        setattr(args, outputs[0], str(path))
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield
        finally:
            if path.exists():
                _copy_out(path)


def format_of(data, other=""):
    """Recognize the format of a file by its first bytes.

    Parameters
    ----------
    data : bytes
    other : str
        What the format is if nothing is recognized.

    Returns
    -------
    str
        Suffix without the dot: ``"ply"``, ``"mtx.gz"`` and so on; ``other`` if it is unknown.
    """
    if data.startswith(GZIP):
        with contextlib.suppress(zlib.error):
            inner = format_of(zlib.decompressobj(wbits=31).decompress(data, HEAD), other)
            return f"{inner}.gz" if inner else ""
    for beginning, kind in BEGINNINGS.items():
        if data.startswith(beginning):
            return kind
    lines = [line.split() for line in data[:HEAD].splitlines()]
    if any(words[:1] == [b"v"] and len(words) >= 4 for words in lines):
        return "obj"
    if len(data) >= 84 and len(data) == 84 + 50 * int.from_bytes(data[80:84], "little"):
        return "stl"
    if any(words and words[0].lower() in (b".end", b".tran", b".op", b".ac", b".dc", b".model", b".print") for words in lines):
        return "sp"
    return other


def _named(args):
    """Names of the input arguments and of the output arguments that are ``-``."""
    return ([name for name in INPUTS if "-" in _listed(getattr(args, name, None))],
            [name for name in OUTPUTS if getattr(args, name, None) == "-"])


def _listed(value):
    return value if isinstance(value, list) else [value]


def _read(args, name, folder):
    """Write standard input to a file and return its path."""
    if sys.stdin is None:
        raise InvalidInputError("standard input is closed")
    data = sys.stdin.buffer.read()
    if not data:
        raise InvalidInputError("standard input is empty")
    kind = args.input_format or format_of(data, "sp" if name == "deck" else "txt" if name == "rhs" else "")
    if not kind:
        raise InvalidInputError(f"the format of standard input is not recognized: give it by --input-format, one of "
                                f"{', '.join(suffix.removeprefix('.') for suffix in READABLE)}, mtx, npz, npy")
    path = folder / f"standard input.{kind.removeprefix('.')}"
    path.write_bytes(data)
    return str(path)


def _output_format(args, name):
    """Suffix of an output: ``--format``, else that of the command, else that of the mesh that was read."""
    if args.format:
        return args.format.removeprefix(".")
    if OUTPUTS[name]:
        return OUTPUTS[name]
    if args.command in DEFAULTS:
        return DEFAULTS[args.command]
    suffix = pathlib.PurePath(_listed(args.mesh)[0].removesuffix(".gz")).suffix.lower()
    return suffix.removeprefix(".") if suffix in WRITABLE else "ply"


def _copy_out(path):
    if sys.stdout is None:
        raise InvalidInputError("standard output is closed")
    sys.stdout.flush()
    with open(path, "rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.buffer.flush()
