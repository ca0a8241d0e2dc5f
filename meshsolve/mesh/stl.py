"""STL files, text or binary: the corners of their facets. Normals and attributes are passed over.

Source: 3D Systems 1988, "StereoLithography Interface Specification".
"""

from __future__ import annotations

import re

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.mesh.polygons import Polygons

HEADER = 84                     # bytes before the first triangle, the last four of them the number of triangles
TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def is_text(content):
    """Whether this is the text form: the header of a binary file may begin with "solid" as well, but then its length fits its number of
    triangles."""
    if len(content) > HEADER and len(content) == HEADER + TRIANGLE.itemsize * _announced(content):
        return False
    flags = re.IGNORECASE | re.MULTILINE
    return re.match(rb"\s*solid", content, flags) is not None and re.search(rb"\bfacet|\bend\s*solid\b", content, flags) is not None


def read_binary(content):
    """The triangles of a binary file, a vertex of its own for each corner. O(bytes).

    What stands behind the last triangle is passed over. A number of triangles of 0, which a writer left that did not know it
    before, is taken from the length of the file.

    Raises
    ------
    InvalidInputError
        No STL, or shorter than the number of triangles says.
    """
    if len(content) < HEADER:
        raise InvalidInputError(f"neither the text of an STL file nor a binary one, which has at least {HEADER} bytes")
    count = _announced(content)
    held, rest = divmod(len(content) - HEADER, TRIANGLE.itemsize)
    if count == 0 and rest == 0:
        count = held
    if count > held:
        raise InvalidInputError(f"the header announces {count} triangles, {HEADER + TRIANGLE.itemsize * count} bytes, but the file has "
                                f"{len(content)}: it may be cut off")
    corners = np.frombuffer(content, TRIANGLE, count, HEADER)["corners"]
    return Polygons(corners.reshape(-1, 3).astype(np.float64), np.arange(3 * count), np.full(count, 3))


def _announced(content):
    return int.from_bytes(content[HEADER - 4:HEADER], "little")
