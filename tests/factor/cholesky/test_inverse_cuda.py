"""Selected inversion on the GPU: against dense inverses, for every kind of front, with constraints, and without a host read."""

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness.strict import Strict
from on_device import Sparse, to_cuda, to_numpy
from zoo import grid, random_spd, spd

import meshsolve as ms
from meshsolve import device
from meshsolve.factor.cholesky import inverse_cuda
from meshsolve.factor.fronts import cuda as fronts

WAYS = {"shared memory": fronts.Limits(), "one block": fronts.Limits(tiny=0), "tiles": fronts.Limits(0, 0, 384), "libraries": fronts.Limits(0, 0, 0)}


def dense(A):
    rng = np.random.default_rng(A)
    M = rng.standard_normal((A, A))
    return sp.csr_array(M @ M.T + A * np.eye(A))


def check(F, A, expected, tolerance=1e-12):
    """Compare both results with a dense array on the pattern of A."""
    diagonal, Z = F.inverse_diagonal(), F.selected_inverse()
    assert device.holds(diagonal) and device.holds(Z.data)
    scale, Z = abs(expected).max(), Z.get()
    assert abs(to_numpy(diagonal) - np.diag(expected)).max() <= tolerance * scale
    on = A.toarray() != 0
    assert Z.nnz == on.sum() and abs(Z.toarray() - np.where(on, expected, 0)).max() <= tolerance * scale


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("A", [spd(grid(11, 9)), random_spd(70, 0.1, 0), dense(90)], ids=["grid", "random", "dense"])
def test_entries_of_the_dense_inverse(gpu, monkeypatch, way, A):
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
    check(ms.cholesky(Sparse(A), device="cuda"), A, np.linalg.inv(A.toarray()))


def test_fronts_of_several_tiles(gpu, monkeypatch):
    monkeypatch.setattr(fronts, "LIMITS", fronts.Limits(0, 0, 384))
    A = sp.block_array([[dense(100), None, sp.random_array((100, 75), density=1, rng=1)],       # 75 rows below 100 and below 40 pivots
                        [None, dense(40), sp.random_array((40, 75), density=1, rng=2)],
                        [sp.random_array((100, 75), density=1, rng=1).T, sp.random_array((40, 75), density=1, rng=2).T, 3 * dense(75)]])
    check(ms.cholesky(Sparse(A), ordering="natural", device="cuda"), sp.csr_array(A), np.linalg.inv(A.toarray()))


@pytest.mark.parametrize("precision", ["single", "mixed"])
def test_factors_in_float32(cuda, precision):
    A = spd(grid(9, 9))
    check(ms.cholesky(Sparse(A), precision=precision, device="cuda"), A, np.linalg.inv(A.toarray()), 1e-5)


@pytest.mark.parametrize("pieces", [1, 3])
def test_constraints(cuda, pieces):
    """As the host with the same constraint; the zeros of fixed rows are not stored."""
    L = sp.csr_array(sp.block_diag([ms.datasets.grid2d(5, 4)] * pieces))
    for options in ({"fixed": [3, 17, *range(28, 20 * pieces, 20)]}, {"pin": True}):
        F, G = ms.cholesky(Sparse(L), device="cuda", **options), ms.cholesky(L, device="cpu", **options)
        Z, expected = F.selected_inverse().get(), G.selected_inverse()
        assert np.array_equal(Z.indptr, expected.indptr) and np.array_equal(Z.indices, expected.indices)
        assert abs(Z.data - expected.data).max() <= 1e-13 * abs(expected.data).max()
        assert abs(to_numpy(F.inverse_diagonal()) - G.inverse_diagonal()).max() <= 1e-13 * abs(expected.data).max()


def test_isolated_rows(cuda):
    F = ms.cholesky(Sparse(sp.csr_array((np.zeros(3), (np.arange(3), np.arange(3))))), pin=True, device="cuda")
    assert F.selected_inverse().nnz == 0 and not to_numpy(F.inverse_diagonal()).any()


def test_the_host_reads_nothing():
    A = spd(grid(20, 20))
    with device.use(Strict()) as harness:
        F = ms.cholesky(Sparse(A), device="cuda")
        F.inverse_diagonal()
        levels = len(inverse_cuda._top_down(F.symbolic).levels)
        for call in (F.inverse_diagonal, F.selected_inverse):
            with harness.counted() as found:
                call()
            assert found["reads"] == found["uploads"] == found["library"] == 0 and found["launches"] <= 4 * levels + 1


@pytest.mark.sanitize
def test_schedules_and_races(varied, monkeypatch):
    A = spd(grid(7, 7))
    for limits in (fronts.Limits(), fronts.Limits(tiny=0)):
        monkeypatch.setattr(fronts, "LIMITS", limits)
        F = ms.cholesky(to_cuda(A.toarray()), device="cuda")
        expected = np.linalg.inv(A.toarray())
        Z = F.selected_inverse()
        assert abs(to_numpy(F.inverse_diagonal()) - np.diag(expected)).max() <= 1e-12
        assert abs(to_numpy(Z.data) - expected[A.nonzero()]).max() <= 1e-12
        assert np.array_equal(to_numpy(F.selected_inverse().data), to_numpy(Z.data))


@pytest.mark.sanitize
def test_tiles_have_no_races(gpu, monkeypatch):
    monkeypatch.setattr(fronts, "LIMITS", fronts.Limits(0, 0, 384))
    for A in (spd(grid(6, 6)), spd(sp.csr_array(np.ones((20, 20))))):               # the second has products of more than 16 terms
        check(ms.cholesky(Sparse(A), device="cuda"), A, np.linalg.inv(A.toarray()))
