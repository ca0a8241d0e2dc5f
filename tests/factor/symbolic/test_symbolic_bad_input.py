"""Bad input to the public functions of factor/symbolic, and its messages."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each

from meshsolve.errors import InvalidInputError
from meshsolve.factor.symbolic import Symbolic, colcount, etree, pattern_of_factor, postorder
from meshsolve.sparse.matrix import symmetric_pattern


def out_of_range():
    A = sp.csr_array(np.eye(3))
    A.indices[1] = 7
    return A


@each("function", [etree, colcount, pattern_of_factor])
@each("A, text", [
    (np.ones((2, 3)), "square"),
    (np.ones(4), "2-D"),
    (np.zeros((0, 0)), "empty"),
    (None, "matrix"),
    ("A", "matrix"),
    (out_of_range(), "row 1"),
])
def test_matrices(function, A, text):
    with pytest.raises(InvalidInputError, match=text):
        function(A)


@pytest.mark.parametrize("parent, text", [
    ([1, 0], r"parent\[1\] = 0"),
    ([1, 2, 0], r"parent\[2\] = 0"),
    ([0], r"parent\[0\] = 0"),
    ([1, 5, -1], r"parent\[1\] = 5"),
    ([-2, -1], r"parent\[0\] = -2"),
    ([[1, -1]], "shape"),
    ([0.5, -1], "integers"),
    ([[1], [1, 2]], "array"),
    (None, "integers"),
], ids=["cycle of two", "cycle of three", "own parent", "too large", "below -1", "2-D", "floats", "ragged", "None"])
def test_trees(parent, text):
    with pytest.raises(InvalidInputError, match=text):
        postorder(parent)


def test_tree_of_huge_values():
    with pytest.raises(InvalidInputError, match=r"parent\[0\]"):
        postorder(np.array([2**32 + 1, -1, -1]))        # 1 if truncated to 32 bits


@pytest.mark.parametrize("perm", [[0, 0, 1], [0, 1], [0, 1, 3], [-1, 0, 1], [0.0, 1.0, 2.0], None, "abc"])
def test_permutations(perm):
    with pytest.raises(InvalidInputError, match="ordering"):
        Symbolic.build(symmetric_pattern(np.eye(3)), perm)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "many", True])
def test_threads(threads):
    with pytest.raises(InvalidInputError, match="threads"):
        Symbolic.build(symmetric_pattern(np.eye(3)), [0, 1, 2], threads=threads)
    with pytest.raises(InvalidInputError, match="threads"):
        pattern_of_factor(np.eye(3), threads=threads)
