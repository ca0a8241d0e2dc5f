"""Small meshes for tests: a tetrahedron, a torus, and random faces."""

import numpy as np
from hypothesis import strategies as st

import meshsolve as ms

TETRAHEDRON = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
CORNERS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])


def torus(a=12, b=8):
    """A torus of a x b vertices, radii 2 and 1, faces outwards."""
    i, j = np.meshgrid(np.arange(a), np.arange(b), indexing="ij")
    u, v = 2 * np.pi * i / a, 2 * np.pi * j / b
    x = np.stack([(2 + np.cos(v)) * np.cos(u), (2 + np.cos(v)) * np.sin(u), np.sin(v)], -1).reshape(-1, 3)
    at = lambda di, dj: ((i + di) % a * b + (j + dj) % b).ravel()
    return ms.Mesh(x, np.vstack([np.stack([at(0, 0), at(1, 0), at(1, 1)], 1), np.stack([at(0, 0), at(1, 1), at(0, 1)], 1)]))


@st.composite
def random_meshes(draw):
    n = draw(st.integers(3, 12))
    corner = st.lists(st.integers(0, n - 1), min_size=3, max_size=3, unique=True)
    return n, np.array(draw(st.lists(corner, max_size=30)), np.int64).reshape(-1, 3)
