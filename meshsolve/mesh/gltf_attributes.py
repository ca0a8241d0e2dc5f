"""Colors and texture coordinates of glTF primitives: COLOR_0 and TEXCOORD_0.

Source: Khronos Group 2021, "glTF 2.0 Specification", section 3.7.2.1 (attributes).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.report import warn


class Attributes(NamedTuple):
    """The attributes of the vertices of a primitive."""

    vertices: int                           # number of vertices
    arrays: dict[str, np.ndarray]           # "color" (vertices, 3 or 4) uint8 or float64; "uv" (vertices, 2) float64, v upwards


KINDS = {"color": ("COLOR_0", ("VEC3", "VEC4")), "uv": ("TEXCOORD_0", ("VEC2",))}      # attribute and types for each name
READ = [label for label, _ in KINDS.values()]
GEOMETRY = ("POSITION", "NORMAL", "TANGENT", "JOINTS_", "WEIGHTS_")         # attributes that are no data of a mesh


def key_of(primitive, count):
    """Return a dictionary key made of the accessors that :func:`read` uses."""
    return count, repr([primitive["attributes"].get(label) for label, _ in KINDS.values()])


def read(document, primitive, count, what, name):
    """Read the attributes that a primitive has. Others, and damaged ones, are left out with a warning that begins with ``name``."""
    found, arrays = primitive["attributes"], {}
    if others := [label for label in found if not label.startswith(GEOMETRY) and label not in READ]:
        warn(f"{name}left out {', '.join(map(repr, others))}: of the data of vertices only COLOR_0 and TEXCOORD_0 are read",
             MeshsolveWarning)
    for key, (label, kinds) in KINDS.items():
        if label in found:
            try:
                values = (_colors if key == "color" else _texture)(document, found[label], f"{what}: {label}", kinds)
                if len(values) != count:
                    raise InvalidInputError(f"{what}: {label} has {len(values)} rows, but POSITION has {count}")
                arrays[key] = values
            except InvalidInputError as e:
                warn(f"{name}{e}; it was left out", MeshsolveWarning)
    return Attributes(count, arrays)


def joined(parts):
    """Concatenate the attributes of primitives. Rows of primitives without one are NaN, and colors without alpha get alpha 1."""
    out = {}
    for key in KINDS:
        given = [part.arrays[key] for part in parts if key in part.arrays]
        if not given:
            continue
        width, mixed = max(x.shape[1] for x in given), len(given) < len(parts) or any(x.dtype != np.uint8 for x in given)
        out[key] = np.concatenate([_converted(part.arrays.get(key), part.vertices, width, mixed) for part in parts])
    return out


def _converted(values, count, width, floats):
    if values is None:
        return np.full((count, width), np.nan)
    if floats and values.dtype == np.uint8:
        values = values / 255
    if values.shape[1] == width:
        return values
    return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=1 if floats else 255)


def _colors(document, accessor, what, kinds):
    values, normalized = document.accessor(accessor, what, kinds)
    return np.array(values) if values.dtype == np.uint8 and normalized else document.numbers(accessor, what, kinds)


def _texture(document, accessor, what, kinds):
    values = document.numbers(accessor, what, kinds)
    return np.stack([values[:, 0], 1 - values[:, 1]], axis=1)           # v points downwards in glTF
