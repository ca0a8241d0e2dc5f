"""Recognize and read binary STL files: the corners of their facets. Normals and attributes are ignored.

Source: 3D Systems 1988, "StereoLithography Interface Specification".
"""

from __future__ import annotations

import re

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.mesh.polygons import Polygons

HEADER = 84                     # bytes before the first triangle; the last four are the number of triangles
TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def is_text(content):
    """True for a text STL. A binary header may begin with "solid" too, but then the length fits the number of triangles."""
    if len(content) > HEADER and len(content) == HEADER + TRIANGLE.itemsize * _announced(content):
        return False
    flags = re.IGNORECASE | re.MULTILINE
    return re.match(rb"\s*solid", content, flags) is not None and re.search(rb"\bfacet|\bend\s*solid\b", content, flags) is not None


def read_binary(content):
    """Read the triangles of a binary file, with a separate vertex for each corner. O(bytes).

    Bytes after the last triangle are ignored. Streaming writers leave 0 as the number of triangles; it then follows from the
    file's length.

    Raises
    ------
    InvalidInputError
        Not an STL file, or too short for its number of triangles.
    """
    if len(content) < HEADER:
        raise InvalidInputError(f"not an STL file: it is not a text STL, and its {len(content)} bytes are too few for a binary "
                                "one")
    count = _announced(content)
    held, rest = divmod(len(content) - HEADER, TRIANGLE.itemsize)
    if count == 0 and rest == 0:
        count = held
    if count > held:
        raise InvalidInputError(f"{count} triangles need {HEADER + TRIANGLE.itemsize * count} bytes, but the file has "
                                f"{len(content)}: it may be truncated")
    corners = np.frombuffer(content, TRIANGLE, count, HEADER)["corners"]
    return Polygons(corners.reshape(-1, 3).astype(np.float64), np.arange(3 * count), np.full(count, 3))


def _announced(content):
    return int.from_bytes(content[HEADER - 4:HEADER], "little")
