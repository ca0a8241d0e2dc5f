"""Data of a mesh as properties of a PLY file, and back.

An array with several columns is one property per column: ``red green blue alpha`` for ``"color"``, ``nx ny nz`` for ``"normal"``,
``s t`` for ``"uv"``, else ``name_0 name_1 ...``. Data of corners are lists of a face, corner after corner; ``"uv"`` is ``texcoord``.
"""

from __future__ import annotations

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh.data import joined_columns, narrowed, split_columns
from meshsolve.report import warn

# property names of the conventional arrays; the first of each is written, and only alpha may be missing
CONVENTIONAL = (("color", ("red", "green", "blue", "alpha")),
                ("color", ("diffuse_red", "diffuse_green", "diffuse_blue", "diffuse_alpha")),
                ("normal", ("nx", "ny", "nz")), ("uv", ("s", "t")), ("uv", ("u", "v")), ("uv", ("texture_u", "texture_v")))
TEXCOORD = "texcoord"               # list of texture coordinates of the corners of a face
TYPES = {"i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "i8": "int64", "u8": "uint64",
         "f4": "float", "f8": "double"}
NARROW = ("<i4", "<u4")             # types of 64-bit integers that fit, because most programs know no wider ones


def arrays_of(columns):
    """Join the columns (rows,) of an element, by property name, to arrays of data."""
    columns, out = dict(columns), {}
    for name, properties in CONVENTIONAL:
        needed = [p for p in properties if p in columns or "alpha" not in p]
        if name not in out and all(p in columns for p in needed):
            out[name] = np.stack([columns.pop(p) for p in needed], axis=1)
    return joined_columns(columns) | out


def corners_of(values, lengths, counts):
    """Return the numbers of lists of faces as an array with a row per corner, NaN for empty lists; None if the lengths do not fit.

    Parameters
    ----------
    values : (sum(lengths),) array
    lengths, counts : (m,) integers
        Length of the list, and number of corners of each face.
    """
    filled = (lengths > 0) & (counts > 0)
    if not filled.any():
        return None
    k = int(np.argmax(filled))
    width = lengths[k] // counts[k]
    if width == 0 or not (lengths == np.where(filled, width * counts, 0)).all():
        return None
    if filled.all():
        out = values.reshape(-1, width)
    else:
        out = np.full((int(counts.sum()), width), np.nan, np.result_type(values, np.float32))
        out[np.repeat(filled, counts)] = values.reshape(-1, width)
    return out[:, 0] if width == 1 else out


def properties_of(data):
    """List ``(names, array (rows, len(names)))`` for the arrays of vertices or faces, in the types that are written."""
    out, conventional = [], dict(reversed(CONVENTIONAL))
    for name, x in data.items():
        x = _writable(x.reshape(len(x), -1))
        width = x.shape[1]
        out.append((list(conventional[name][:width]) if name in conventional else split_columns(_word(name), width), x))
    return out


def lists_of(corner_data):
    """List ``(name, array (m, 3 w))`` for the arrays of corners, in the types that are written."""
    return [(TEXCOORD if name == "uv" else _word(name), _writable(x.reshape(len(x), -1))) for name, x in corner_data.items()]


def require_distinct(names, element):
    """Raise if two properties of an element have one name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInputError(f"a PLY cannot have two properties of {element} named {twice[0]!r}: rename the data of the mesh, for "
                                "instance mesh.vertex_data['other'] = mesh.vertex_data.pop('name')")


def warn_of_names(data, kind):
    """Warn if arrays have the names of conventional properties, such as ``red green blue``, as whose array they are read."""
    for name, properties in CONVENTIONAL:
        if name not in data and all(p in data for p in properties if "alpha" not in p):
            names = [p for p in properties if p in data]
            warn(f"{kind} data {', '.join(map(repr, names))} in a PLY are read as {name!r}: rename the data to keep them apart",
                 MeshsolveWarning)


def type_name(x):
    """Return the name of the type in the header."""
    return TYPES[x.dtype.str[1:]]


def _writable(x):
    if x.dtype == bool:
        return x.astype(np.uint8)
    x = narrowed(x, NARROW)
    return x.astype(x.dtype.newbyteorder("<"), copy=False)


def _word(name):
    word = "_".join(name.split()) or "_"
    if word != name:
        warn(f"names in a PLY have no blanks: {name!r} is written as {word!r}", MeshsolveWarning)
    return word
