"""A later matrix on the GPU: all its checks and the pivots come back in one read, and any error leaves the earlier factor."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from cuda_cases import close
from kernel_harness.strict import Strict
from on_device import Sparse, to_cuda, to_numpy
from zoo import grid, spd

import meshsolve as ms
from meshsolve import device

A = spd(grid(9, 8))
LAPLACIAN = sp.csr_array(ms.graph_laplacian(A))


def changed(row, column, value, M=A):
    """M with other values at (row, column), which has an entry, and at its mirror entry."""
    M = sp.csr_array(M, copy=True)
    M[row, column] = M[column, row] = value
    return M


def one_sided(factor):
    """A with an entry that is larger than its mirror entry by this factor."""
    M = sp.csr_array(A, copy=True)
    M[3, 4] *= factor
    return M


def moved():
    """A with one entry and its mirror entry in other columns: as many entries."""
    M = sp.lil_array(A)
    M[0, 40] = M[40, 0] = M[0, 1]
    M[0, 1] = M[1, 0] = 0
    return sp.csr_array(M)


def apart(shift):
    """Two grids of which the second is a Laplacian plus a shift of its diagonal."""
    L = sp.csr_array(ms.datasets.grid2d(6, 5))
    return sp.csr_array(sp.block_diag([L + 0.5 * sp.eye_array(30), L + shift * sp.eye_array(30)]))


BAD = {
    "not finite": (A, changed(3, 4, np.nan), {}, ms.InvalidInputError, "row 3, column 4 holds nan"),
    "infinite": (A, changed(5, 5, np.inf), {}, ms.InvalidInputError, "row 5, column 5 holds inf"),
    "one-sided": (A, one_sided(1.1), {}, ms.NotSymmetricError, "symmetric"),
    "other pattern": (A, moved(), {}, ms.PatternMismatchError, "not in the analyzed pattern"),
    "fixed, other pattern": (A, moved(), {"fixed": [5]}, ms.PatternMismatchError, "not in the analyzed pattern"),
    "fixed, negative": (A, changed(7, 7, -1.0), {"fixed": [5, 60]}, ms.NotPositiveDefiniteError, "pivot"),
    "negative pivot": (A, changed(7, 7, -1.0), {}, ms.NotPositiveDefiniteError, "diagonal entry is negative"),
    "negative Laplacian": (A, -A, {}, ms.NotPositiveDefiniteError, "negative"),
    "Laplacian": (apart(0.5), apart(0.0), {}, ms.NotPositiveDefiniteError, "takes constants to 0"),
    "beyond float32": (A, changed(7, 7, 4e38), {"precision": "mixed"}, ms.InvalidInputError, "range of float32"),
    "too small for float32": (A, 2.0**-110 * A, {"precision": "single"}, ms.InvalidInputError, "range of float32"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_error_is_that_of_the_host_and_leaves_the_factor(gpu, name):
    good, bad, options, error, text = BAD[name]
    b, values = np.arange(1.0, good.shape[0] + 1), {"fixed_values": 2.0} if "fixed" in options else {}
    F, H = (ms.cholesky(given(good), device=place, **options) for given, place in ((Sparse, "cuda"), (sp.csr_array, "cpu")))
    before = F.refactor(Sparse(good)).solve(b, **values)
    for later in (Sparse(bad), bad):
        with pytest.raises(error, match=text) as found:
            F.refactor(later)
        assert np.array_equal(F.solve(b, **values), before)
    with pytest.raises(error) as expected:
        H.refactor(bad)
    assert [getattr(found.value, part, None) for part in ("row", "column")] == [getattr(expected.value, part, None) for part in ("row", "column")]
    close(F.refactor(Sparse(2 * good)).solve(b, **values), H.refactor(2 * good).solve(b, **values), 1e-6 if "precision" in options else 1e-13)


FORMS = {
    "plain": (A, {}), "lower": (sp.tril(A), {"lower": True}), "fixed": (A, {"fixed": [3, 70]}),
    "mixed": (A, {"precision": "mixed"}), "pinned": (LAPLACIAN, {"pin": True}), "rounding": (one_sided(1 + 4e-16), {}),
}


@pytest.mark.parametrize("name", FORMS)
def test_one_read(name):
    first, options = FORMS[name]
    with device.use(Strict()) as harness:
        F = ms.cholesky(Sparse(first), device="cuda", **options).refactor(Sparse(first))
        b = np.arange(72) - 35.5
        before, later = F.solve(b), Sparse(4 * first)
        harness.comes_back.clear()
        F.refactor(later)
        assert harness.comes_back == [3] or name == "pinned"            # which reads all row sums
        assert np.array_equal(F.solve(b), before / 4)
        assert np.array_equal(copy.copy(F).refactor(Sparse(first)).solve(b), before)


def test_a_one_sided_pattern_and_wide_row_pointers(gpu):
    """Both index maps of the mirror entries, and int64 row pointers."""
    part = sp.csr_array(sp.triu(A, 1))
    part.data[:] = 0.0
    rows = np.concatenate([sp.coo_array(A).coords[0], [0, 1]])
    columns = np.concatenate([sp.coo_array(A).coords[1], [40, 50]])
    M = sp.csr_array((np.concatenate([sp.coo_array(A).data, [0.0, 0.0]]), (rows, columns)), shape=A.shape)
    M.sort_indices()
    F, wide = ms.cholesky(Sparse(M), device="cuda"), Sparse(2 * M)
    assert wide.nnz == A.nnz + 2
    wide.indptr = to_cuda(to_numpy(wide.indptr).astype(np.int64))
    reference = ms.cholesky(A, device="cpu").solve(np.ones(72))
    close(F.refactor(wide).solve(np.ones(72)), reference / 2, 1e-13)
    with pytest.raises(ms.NotSymmetricError):
        F.refactor(Sparse(sp.csr_array((np.where(M.data == 0, 1.0, M.data), M.indices, M.indptr), shape=M.shape)))
    close(F.solve(np.ones(72)), reference / 2, 1e-13)


def test_a_difference_by_rounding_of_a_large_entry_is_no_error(gpu):
    """The kernel compares with the entry alone and sets a bit; the check by rows accepts the matrix, and it is not factored again."""
    small = changed(3, 4, 1e-14)
    small[3, 4] = 2e-14
    F = ms.cholesky(Sparse(A), device="cuda")
    if isinstance(gpu, Strict):
        gpu.launches.clear()
    close(F.refactor(Sparse(small)).solve(np.ones(72)), ms.cholesky(changed(3, 4, 2e-14), device="cpu").solve(np.ones(72)), 1e-12)
    if isinstance(gpu, Strict):
        assert gpu.launches["k_subtrees"] == 1


def test_an_interrupt_restores_the_factor(gpu, monkeypatch):
    F = ms.cholesky(Sparse(A), device="cuda").refactor(Sparse(A))
    before = F.solve(np.ones(72))
    with monkeypatch.context() as patch:
        patch.setattr(type(F), "_judge", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            F.refactor(Sparse(3 * A))
    assert np.array_equal(F.solve(np.ones(72)), before)


def test_the_order_of_threads_changes_no_bit(varied):
    from kernel_harness import OnDevice

    def on_gpu(M):
        made = Sparse(M)
        for part in ("indptr", "indices", "data"):
            setattr(made, part, getattr(made, part).view(OnDevice))
        return made

    F = ms.cholesky(A, device="cuda")
    assert np.array_equal(F.refactor(on_gpu(A)).solve(np.ones(72)), ms.cholesky(A, device="cuda").solve(np.ones(72)))
    with pytest.raises(ms.NotSymmetricError):
        F.refactor(on_gpu(one_sided(1.1)))
