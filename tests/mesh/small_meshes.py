"""Small meshes for tests: a tetrahedron, and random faces."""

import numpy as np
from hypothesis import strategies as st

TETRAHEDRON = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
CORNERS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])


@st.composite
def random_meshes(draw):
    n = draw(st.integers(3, 12))
    corner = st.lists(st.integers(0, n - 1), min_size=3, max_size=3, unique=True)
    return n, np.array(draw(st.lists(corner, max_size=30)), np.int64).reshape(-1, 3)
