"""The Matrix Market reader compared with scipy's writer and reader, and its errors for wrong files."""

import io

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from cases import each
from hypothesis import given
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve.sparse.io import parse

pytestmark = pytest.mark.native


def written(A, **how):
    text = io.BytesIO()
    scipy.io.mmwrite(text, A, **how)
    return text.getvalue()


def dense(A):
    return A.toarray() if sp.issparse(A) else A


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 10**6), st.booleans(),
       st.sampled_from(["float64", "int64", "complex128"]), st.sampled_from(["general", "symmetric", "skew-symmetric", "hermitian"]))
def test_files_written_by_scipy(m, n, seed, sparse, dtype, symmetry):
    rng = np.random.default_rng(seed)
    n = m if symmetry != "general" else n
    A = (rng.integers(-9, 9, (m, n)) * (rng.random((m, n)) < 0.5) * (1 if dtype == "int64" else np.pi)).astype(dtype)
    A = A * (1 + 2j) if dtype == "complex128" else A
    A = {"general": A, "symmetric": A + A.T, "skew-symmetric": A - A.T, "hermitian": A + A.conj().T}[symmetry] if m == n else A
    if symmetry == "hermitian" and dtype != "complex128" or not m * n:
        return
    text = written(sp.coo_array(A) if sparse else A, symmetry=symmetry, precision=17)
    B, C = parse(text, "A.mtx"), scipy.io.mmread(io.BytesIO(text), spmatrix=False)
    assert sp.issparse(B) == sparse and B.shape == C.shape == (m, n) and dense(B).dtype == dense(C).dtype
    assert np.array_equal(dense(B), A) and np.array_equal(dense(B), dense(C))


def test_patterns_comments_blank_lines_and_windows():
    text = (b"%%MatrixMarket MATRIX coordinate Pattern symmetric\r\n% by hand\r\n\r\n 3 3 2 \r\n1 1\r\n\r\n% here as well\r\n3 1\r\n")
    assert dense(parse(text, "A")).tolist() == [[1, 0, 1], [0, 0, 0], [1, 0, 0]]
    assert parse(text.replace(b"\r", b""), "A").nnz == parse(text.rstrip(), "A").nnz == 3
    assert parse(b"%%MatrixMarket matrix coordinate real general\n2 2 0\n", "A").nnz == 0
    assert dense(parse(b"%%MatrixMarket matrix coordinate real general\n2 1 1\n2 1 1e999", "A"))[1, 0] == np.inf


def test_fortran_exponents_and_a_byte_order_mark():
    text = b"%%MatrixMarket matrix array real general\n4 1\n1.5D3\n-2d-1\n1D+2\n3.25\n"
    assert parse(text, "A").ravel().tolist() == parse(b"\xef\xbb\xbf" + text, "A").ravel().tolist() == [1500, -0.2, 100, 3.25]
    for wrong in (b"1.5D", b"D3", b"1DD3", b"1D3x", b"1eD3"):
        with pytest.raises(ms.InvalidInputError, match="A:3: each line must have"):
            parse(text.replace(b"1.5D3", wrong), "A")


@pytest.mark.parametrize("number, dtype", [(2**53 - 1, np.int64), (-2**53 + 1, np.int64), (2**53 + 1, np.float64), (-2**60, np.float64)])
def test_integers_that_a_float_may_have_rounded_stay_floats(number, dtype):
    A = parse(b"%%%%MatrixMarket matrix array integer general\n1 1\n%d\n" % number, "A")
    assert A.dtype == dtype and A[0, 0] == float(number)


HEAD = b"%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize("text", [
    HEAD + b"2 2 1\n1 2 5\n", HEAD.replace(b"%%", b"%") + b"2 2 1\n1 2 5\n", HEAD.replace(b"%%", b"%% ") + b"2 2 1\n1 2 5\n", HEAD.upper() + b"2 2 1\n1 2 5\n",
    b"\n \n" + HEAD + b"2 2 1\n1 2 5\n", HEAD.replace(b"general", b"general   ") + b"2 2 1\n1 2 5\n", HEAD.replace(b"general", b"general % by hand") + b"2 2 1\n1 2 5\n",
    HEAD.replace(b"general", b"unsymmetric") + b"2 2 1\n1 2 5\n", HEAD.replace(b"real", b"float") + b"2 2 1\n1 2 5\n", (HEAD + b"2 2 1\n1 2 5\n").replace(b"\n", b"\r"),
    HEAD + b"+2 2 1 % sizes\n1 2 5 % an entry\n", HEAD + b"2 2 1\n1 2 5\n\n\n\0\0\0", HEAD + b"2 2 1\n1 2 5\n\x1a", HEAD + b"2 2 1\n1 2 +5.0d+00%\n",
])
def test_spellings_of_one_matrix(text):
    assert dense(parse(text, "A")).tolist() == [[0, 5], [0, 0]]


def test_values_of_a_pattern_are_ignored():
    head = HEAD.replace(b"real", b"pattern")
    assert dense(parse(head + b"2 2 3\n1 1 7\n2 1\n2 2 1.5 -2\n", "A")).tolist() == [[1, 0], [1, 1]]
    with pytest.raises(ms.InvalidInputError, match="A:3: each line must have 2 numbers, got '1 1 x'"):
        parse(head + b"2 2 1\n1 1 x\n", "A")


def test_zeros_on_the_diagonal_of_a_skew_symmetric_matrix():
    for name in (b"skew-symmetric", b"skew"):
        assert dense(parse(HEAD.replace(b"general", name) + b"2 2 2\n1 1 0\n2 1 3\n", "A")).tolist() == [[0, -3], [3, 0]]


@each("text, says", [
    (b"", "A.mtx:1: the file is empty"), (b"1 1 1\n", "A.mtx:1: the first line must be"), (HEAD, "A.mtx:1: the file ends before the sizes"),
    (HEAD.replace(b"real", b"quaternion") + b"1 1 0\n", "A.mtx:1:"), (HEAD + b"% c\n\n1 1\n", "A.mtx:4: the sizes"), (HEAD + b"-1 1 0\n", "A.mtx:2: the sizes"),
    (HEAD + b"1 1 1e1\n", "the sizes"), (HEAD + b"2 2 1\n1 1\n", "A.mtx:3: each line must have 3"), (HEAD + b"2 2 1\n1 1 x\n", "A.mtx:3:"),
    (HEAD + b"2 2 1\n1 1 1_0\n", "A.mtx:3:"), (HEAD + b"2 2 2\n1 1 1 2 2\n2\n", "A.mtx:3: each line must"), (HEAD + b"2 2 2\n1 1 1\n", "2 entries are announced, but the file has 1"),
    (HEAD + b"2 2 1\n1 1 1\n2 2 1\n", "A.mtx:4: the file has more entries"), (HEAD + b"2 2 1\n3 1 1\n", "entry 1 has row 3"), (HEAD + b"2 2 1\n0 1 1\n", "row 0"),
    (HEAD + b"2 2 1\n1 1.5 1\n", "column 1.5"), (HEAD + b"2 2 1\nnan 1 1\n", "row nan"), (HEAD.replace(b"general", b"symmetric") + b"2 3 0\n", "square, got 2 x 3"),
    (HEAD.replace(b"general", b"skew-symmetric") + b"2 2 1\n1 1 1\n", "of a skew-symmetric matrix is on the diagonal"), (HEAD.replace(b"coordinate real", b"array pattern") + b"1 1\n1\n", "'pattern' needs 'coordinate'"),
    (HEAD.replace(b"real general", b"complex hermitian") + b"2 2 2\n2 1 0 1\n1 1 1 5\n", "entry 2 of a hermitian matrix is on the diagonal and not real"),
    (HEAD.replace(b"coordinate real general", b"array complex hermitian") + b"2 2\n1 0\n2 5\n3 1\n", "entry 3 of a hermitian matrix is on the diagonal and not real"),
    (HEAD + b"99999999 99999999 999999999999999999\n1 1 1\n", "entries are announced, but the file has 1"),
])
def test_wrong_files_are_named_with_their_line(text, says):
    with pytest.raises(ms.InvalidInputError) as caught:
        parse(text, "A.mtx")
    assert str(caught.value).startswith("A.mtx:") and says in str(caught.value)


@pytest.mark.parametrize("text, shown", [
    (HEAD + b"4 4 1\n1 4 x\n", "must have 3 numbers, got '1 4 x'"), (HEAD + b"4 4 x\n", "got '4 4 x'"), (b"matrix\n", "got 'matrix'"),
    (HEAD + b"4 4 1\n1 4 \xff\0\n", "got '1 4 \N{REPLACEMENT CHARACTER}\\x00'"), (HEAD + b"4 4 1\n" + b"7" * 500 + b"\n", f"got '{'7' * 80}'")])
def test_a_wrong_line_is_shown_as_text(text, shown):
    with pytest.raises(ms.InvalidInputError) as caught:
        parse(text, "A.mtx")
    assert str(caught.value).endswith(shown)
