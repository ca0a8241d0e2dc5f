"""Input checks of the positions and faces of a mesh."""

from __future__ import annotations

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.options import INT32_MAX, counted
from meshsolve.report import warn
from meshsolve.sparse.columns import as_array
from meshsolve.sparse.matrix import LARGEST_SIZE

LEAST_WIDTH = 1e-70                # smallest width of a component in applications: its fourth power is far above 0
LARGEST_COORDINATE = 1e70          # largest accepted |coordinate|: its fourth power, a squared area, stays finite


def as_vertices(vertices, name="vertices"):
    """Return positions as (n, 3) float64, C order, always a copy."""
    given = as_array(vertices, name)
    if given.ndim != 2 or given.shape[1] != 3 or given.dtype.kind not in "fiu":
        raise InvalidInputError(f"{name} must be (n, 3) real numbers, got shape {given.shape} of {given.dtype}")
    if len(given) == 0:
        raise InvalidInputError("a mesh needs at least one vertex")
    if len(given) > LARGEST_SIZE:
        raise InvalidInputError(f"the mesh has {counted(len(given), 'vertex')}; at most {LARGEST_SIZE:,} are supported")
    x = np.array(given, np.float64, order="C")
    check_positions(x)
    return x


def check_positions(x):
    """Raise if a coordinate is not finite or above the bound. O(n)."""
    if not max(x.max(), -x.min()) <= LARGEST_COORDINATE:        # true for NaN as well
        bad = int(np.argmax(~(np.abs(x) <= LARGEST_COORDINATE).all(axis=1)))
        raise InvalidInputError(f"vertex {bad} is at {x[bad].tolist()}: coordinates must be finite and at most 1e70")


def require_width(mesh):
    """Return a mesh, solid or cloud; raise if a component is so small that squared areas in it underflow. One at a point may be. O(n)."""
    x, sizes = mesh.vertices, np.abs(mesh.vertices)
    if sizes.min(initial=np.inf, where=sizes > 0) >= LEAST_WIDTH * 1e17:         # rounding errors of a coordinate are wider
        return mesh
    order, count = np.argsort(mesh.components, kind="stable"), np.bincount(mesh.components)
    starts = np.cumsum(count) - count
    width = (np.maximum.reduceat(x[order], starts) - np.minimum.reduceat(x[order], starts)).max(axis=1)
    if len(small := np.flatnonzero((width > 0) & (width < LEAST_WIDTH))):
        k = int(small[0])
        raise InvalidInputError(f"the component of vertex {int(order[starts[k]])} is {width[k]:.3g} wide, it must be at least "
                                f"{LEAST_WIDTH:g}: smaller areas have squares of 0. Measure in a smaller unit of length")
    return mesh


def as_faces(faces, n):
    """Return corners as (m, 3) int32, C order, always a copy, each below ``n``."""
    given = as_array(faces, "faces")
    if given.size == 0 and given.ndim <= 2:
        return np.zeros((0, 3), np.int32)
    if given.ndim != 2 or given.shape[1] != 3:
        raise InvalidInputError(f"faces must be (m, 3), three corners per face, got {given.shape}")
    if given.dtype.kind not in "iu":
        raise InvalidInputError(f"faces must be integers, got {given.dtype}")
    if 3 * len(given) > INT32_MAX:
        raise InvalidInputError(f"the mesh has {counted(len(given), 'face')}; at most {INT32_MAX // 3:,} are supported")
    if given.min() < 0 or given.max() >= n:
        row, corner = np.argwhere((given < 0) | (given >= n))[0]
        raise InvalidInputError(f"face {row} refers to vertex {given[row, corner]}; the mesh has vertices 0..{n - 1}")
    return np.array(given, np.int32, order="C")


def distinct_corners(faces):
    """Return booleans (m,) of the faces with distinct corners, with a warning, or None if all are."""
    good = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    if good.all():
        return None
    warn(f"dropped {counted(int(np.count_nonzero(~good)), 'face')} with a repeated corner", MeshsolveWarning)
    return good
