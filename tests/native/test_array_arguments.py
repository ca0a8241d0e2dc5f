"""Array arguments of the C++ core: nothing is converted on the way."""

import numpy as np
import pytest

from meshsolve import _core

PTR, IDX = np.array([0, 1, 2], np.int64), np.array([1, 0], np.int32)
X = np.array([1.0, 2.0])
READ_ONLY = np.zeros(2)
READ_ONLY.flags.writeable = False


def test_arrays_that_fit_are_taken():
    assert _core.etree(PTR, IDX).tolist() == [1, -1]
    assert [sums.tolist() for sums in _core.row_sums(PTR, X, None, 1)] == [[1.0, 2.0], [1.0, 2.0]]
    assert [sums.tolist() for sums in _core.row_sums(PTR, X, IDX[:1], 1)] == [[2.0], [2.0]]


@pytest.mark.parametrize("ptr, idx", [
    (PTR.astype(np.int32), IDX),
    (PTR, IDX.astype(np.int64)),                    # a conversion would turn 2^32 into 0
    (PTR, IDX.astype(np.float64)),
    (PTR, IDX.tolist()),
    (PTR, np.repeat(IDX, 2)[::2]),                  # not contiguous
    (PTR, IDX[None]),
    (PTR, None),
])
def test_other_arrays_are_refused(ptr, idx):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _core.etree(ptr, idx)


def test_an_optional_array_is_not_converted():
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _core.row_sums(PTR, X, IDX.astype(np.int64), 1)


@pytest.mark.parametrize("x", [READ_ONLY, np.zeros(2, np.float32), np.zeros(4)[::2]])
def test_output_must_be_writable_float64(x):
    F = _factor()
    with pytest.raises(TypeError, match="incompatible function arguments"):
        F.solve_vector(X, x, 1)


def test_blocks_may_have_any_strides():
    F, B = _factor(), np.arange(8.0).reshape(2, 4)[:, ::2]
    out = np.zeros((4, 6))[::2, ::3]
    F.solve("A", B, out, 1)
    assert np.array_equal(out, B / 4)


def _factor():
    import scipy.sparse as sp

    import meshsolve as ms
    return ms.cholesky(sp.csr_array(4 * np.eye(2)), threads=1)._factor._factor
