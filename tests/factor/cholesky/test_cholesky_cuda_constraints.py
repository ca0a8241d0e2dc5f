"""Fixed rows and pins of Cholesky factors on the GPU, against those of the CPU."""

import numpy as np
import pytest
import scipy.sparse as sp
from cuda_cases import close
from on_device import Sparse, to_cuda, to_numpy
from zoo import grid, spd

import meshsolve as ms
from meshsolve import device


@pytest.mark.parametrize("precision", ["double", "mixed"])
def test_fixed_rows(gpu, precision):
    A, C = spd(grid(9, 8)), spd(grid(9, 8), seed=5)
    fixed, values, b = [70, 3, 15], np.array([[1.0, 2], [3, 4], [5, 6]]), np.random.default_rng(0).standard_normal((72, 2))
    host = ms.cholesky(A, fixed=fixed, precision=precision, device="cpu")
    for given, wrap in ((A, np.asarray), (Sparse(A), to_cuda)):
        F = ms.cholesky(given, fixed=fixed, precision=precision, device="cuda")
        close(F.solve(wrap(b), fixed_values=wrap(values)), host.solve(b, fixed_values=values), 1e-13)
        close(F.solve(wrap(b)), host.solve(b), 1e-13)
        close(F.solve(wrap(b), fixed_values=wrap(values + 2j)), host.solve(b, fixed_values=values + 2j), 1e-13)
        close(F.solve(wrap(b), fixed_values=wrap(np.array(0.5))), host.solve(b, fixed_values=0.5), 1e-13)
        whole = np.full((72, 2), np.nan)
        whole[fixed] = values
        close(F.solve(wrap(b), fixed_values=wrap(whole)), host.solve(b, fixed_values=values), 1e-13)
        with pytest.raises(ms.InvalidInputError, match="fixed_values: row 1 is not finite"):
            F.solve(wrap(b), fixed_values=wrap(np.array([1.0, np.nan, 2.0])))
    for later in (Sparse(C), C, Sparse(A)):
        reference = ms.cholesky(later.get() if isinstance(later, Sparse) else later, fixed=fixed, precision=precision, device="cpu")
        close(F.refactor(later).solve(b, fixed_values=values), reference.solve(b, fixed_values=values), 1e-13)
    before = F.solve(b, fixed_values=values)
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(Sparse(-C))
    assert np.array_equal(F.solve(b, fixed_values=values), before)


@pytest.mark.parametrize("pattern", [grid(9, 8), sp.block_diag([grid(5, 4), grid(3, 7), sp.csr_array((4, 4))]), sp.csr_array((5, 5))],
                         ids=["one component", "several and isolated rows", "isolated rows alone"])
def test_pinned_laplacian(gpu, pattern):
    W = sp.csr_array(pattern + pattern.T, dtype=float)
    L = sp.csr_array(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)
    b = L @ np.random.default_rng(0).standard_normal((L.shape[0], 3))
    host = ms.cholesky(L, pin=True, device="cpu")
    for given in (L, Sparse(L)):
        F = ms.cholesky(given, pin=True, device="cuda")
        close(F.solve(to_cuda(b)), host.solve(b), 1e-13)
        close(F.refactor(Sparse(2 * L)).solve(to_cuda(b)), host.solve(b) / 2, 1e-13)
    with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
        F.solve(to_cuda(b + 1))
    regular, before = L + sp.diags_array(np.where(np.arange(L.shape[0]) == 2, 1e-3, 0.0)), F.solve(to_cuda(b))
    for given in (regular, Sparse(regular)):
        with pytest.raises(ms.NotLaplacianError, match="row 2 of A sums to 0.001") as caught:
            ms.cholesky(given, pin=True, device="cuda")
        assert caught.value.row == 2
    with pytest.raises(ms.NotLaplacianError):
        F.refactor(Sparse(regular))
    assert np.array_equal(to_numpy(F.solve(to_cuda(b))), to_numpy(before))


def test_refactor_refuses_to_join_pinned_components(gpu):
    W = sp.block_diag([grid(5, 4), grid(4, 5)])
    W = sp.csr_array(W + W.T, dtype=float).tolil()
    W[3, 25] = W[25, 3] = 0.5
    joined = sp.csr_array(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - sp.csr_array(W))
    apart = joined.copy()
    apart[3, 25] = apart[25, 3] = 0.0                            # stored zeros
    apart[3, 3], apart[25, 25] = apart[3, 3] - 0.5, apart[25, 25] - 0.5
    b = apart @ np.arange(40.0)
    for given in (apart, Sparse(apart)):
        F = ms.cholesky(given, pin=True, device="cuda")
        before = to_numpy(F.solve(to_cuda(b)))
        for later in (joined, Sparse(joined)):
            with pytest.raises(ms.PatternMismatchError, match="joins two components") as caught:
                F.refactor(later)
            assert {caught.value.row, caught.value.column} == {3, 25}
        assert np.array_equal(to_numpy(F.solve(to_cuda(b))), before)


def test_a_refused_pattern_keeps_the_constraint(gpu):
    A = sp.lil_array(spd(grid(9, 8)))
    F = ms.cholesky(Sparse(A), fixed=[3, 40], device="cuda")
    b, values = np.ones(72), np.array([1.0, 2.0])
    before = F.solve(b, fixed_values=values)
    wider = A.copy()
    wider[0, 70] = wider[70, 0] = 0.1
    with pytest.raises(ms.PatternMismatchError) as e:
        F.refactor(Sparse(wider))
    assert {e.value.row, e.value.column} == {0, 70}
    assert np.array_equal(F.solve(b, fixed_values=values), before)
    assert np.array_equal(F.refactor(Sparse(A)).solve(b, fixed_values=values), before)


@pytest.mark.parametrize("most_across", [device.MOST_ACROSS, 2])
def test_means_of_large_blocks(gpu, monkeypatch, most_across):
    from meshsolve.sparse.rows_cuda import CHUNK, SegmentSums

    monkeypatch.setattr(device, "MOST_ACROSS", most_across)
    rng = np.random.default_rng(0)
    component = rng.integers(0, 3, 3 * CHUNK)
    X = rng.standard_normal((len(component), 5))
    expected = np.stack([np.bincount(component, column, 3) for column in X.T], axis=1)
    close(SegmentSums(device.to_device(component), 3)(device.to_device(X)), expected, 1e-12)
