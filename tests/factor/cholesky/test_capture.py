"""Captured refactorizations and solves: the numbers of plain calls, no read, no allocation, and errors at the check."""

import copy

import numpy as np
import pytest
from kernel_harness.strict import Strict
from on_device import Sparse, to_cuda, to_numpy
from zoo import grid, spd

import meshsolve as ms
from meshsolve import device

A = spd(grid(30, 30))
B = np.random.default_rng(0).standard_normal((A.shape[0], 3))


@pytest.fixture
def harness():
    with device.use(Strict()) as harness:
        yield harness


class Step:
    """A factor with a captured refactorization and two solves, its matrix and arrays."""

    def __init__(self):
        self.A, self.b, self.x, self.y = Sparse(A), to_cuda(B), to_cuda(np.zeros(B.shape)), to_cuda(np.zeros(A.shape[0]))
        self.F = ms.cholesky(A, device="cuda")
        self.c = to_cuda(B[:, 0].copy())
        with self.F.capture() as self.step:
            self.F.refactor(self.A)
            self.F.solve(self.b, out=self.x)
            self.F.solve(self.c, out=self.y)

    def set(self, data):
        self.A.data[:] = to_cuda(np.asarray(data, float))

    def launch(self, data=None):
        if data is not None:
            self.set(data)
        self.step.launch()


def expected(M, b=B):
    return to_numpy(ms.cholesky(M, device="cuda").solve(to_cuda(b)))


def test_a_launch_gives_the_bits_of_plain_calls(harness):
    found = Step()
    assert np.array_equal(to_numpy(found.x), expected(A)) and np.array_equal(to_numpy(found.y), expected(A, B[:, 0]))
    for scale in (2.0, 3.0):
        found.set(scale * A.data)
        with harness.counted() as counts:
            found.step.launch()
        assert counts["reads"] == counts["allocations"] == counts["uploads"] == 0
        assert np.array_equal(to_numpy(found.x), expected(scale * A)) and found.F.check() is found.F
        assert np.array_equal(to_numpy(found.y), expected(scale * A, B[:, 0]))
    assert np.array_equal(to_numpy(found.F.solve(found.b)), expected(3 * A))


def test_a_check_is_one_read_and_other_calls_check_first(harness):
    found = Step()
    found.launch(2 * A.data)
    found.launch()
    with harness.counted() as counts:
        found.F.check()
    assert counts["reads"] == 1
    found.launch(3 * A.data)
    assert abs(found.F.logdet() - ms.cholesky(3 * A).logdet()) < 1e-9 and found.F.check() is found.F
    found.launch(4 * A.data)
    assert np.array_equal(to_numpy(copy.copy(found.F).solve(found.b)), expected(4 * A))


def test_plain_refactorizations_between_launches(harness):
    found = Step()
    for scale in (2.0, 5.0, 3.0):
        found.F.refactor(Sparse(7 * A))                     # exchanges the memory of the values
        found.launch(scale * A.data)
        assert np.array_equal(to_numpy(found.F.solve(found.b)), expected(scale * A))
    with pytest.raises(ms.NotPositiveDefiniteError):
        found.F.refactor(Sparse(-A))
    assert np.array_equal(to_numpy(found.F.solve(found.b)), expected(3 * A))


def indefinite():
    M = A.copy()
    M.data[:] = 2 * M.data
    M[17, 17] = -1.0
    return M


def test_a_failed_launch_gives_nan_and_the_check_restores_the_earlier_factor(harness):
    found = Step()
    found.launch(2 * A.data)
    found.F.check()
    found.launch(indefinite().data)
    assert np.isnan(to_numpy(found.x)).all() and np.isnan(to_numpy(found.y)).all()
    with pytest.raises(ms.NotPositiveDefiniteError, match="column 17 is not positive") as e:
        found.F.check()
    assert e.value.column == 17 and found.F.check() is found.F
    assert np.array_equal(to_numpy(found.F.solve(found.b)), expected(2 * A))
    found.launch(3 * A.data)
    assert np.array_equal(to_numpy(found.F.check().solve(found.b)), expected(3 * A))


def test_the_first_failed_of_several_launches_is_named(harness):
    found = Step()
    found.launch(2 * A.data)
    found.launch(indefinite().data)
    found.launch(3 * A.data)
    assert np.array_equal(to_numpy(found.x), expected(3 * A))
    with pytest.raises(ms.NotPositiveDefiniteError, match="launch 2 of 3 since the last check: the pivot of column 17"):
        found.F.check()
    assert np.array_equal(to_numpy(found.F.solve(found.b)), expected(A))
    data = A.data.copy()
    data[5] = np.nan
    found.launch(data)
    found.launch(A.data)
    with pytest.raises(ms.InvalidInputError, match="launch 1 of 2 .*the matrix is not finite"):
        found.F.solve(found.b)                              # any call checks first


@pytest.mark.parametrize(("change", "error", "message"), [
    (lambda data: data.__setitem__(5, np.inf), ms.InvalidInputError, "row 1"),
    (lambda data: data.__setitem__(1, 2 * data[1]), ms.NotSymmetricError, "symmetric"),
    (lambda data: data.fill(0), ms.NotPositiveDefiniteError, "column 0|pivot")], ids=["not finite", "not symmetric", "zeros"])
def test_errors_of_the_matrix(harness, change, error, message):
    found, data = Step(), A.data.copy()
    change(data)
    found.launch(data)
    assert np.isnan(to_numpy(found.x)).all()
    with pytest.raises(error, match=message):
        found.F.check()
    assert np.array_equal(to_numpy(found.F.solve(found.b)), expected(A))


def test_a_laplacian_is_singular_and_a_doubtful_launch_is_looked_at(harness):
    found = Step()
    L = ms.datasets.grid2d(30, 30).tocsr()
    assert np.array_equal(L.indices, A.indices)
    found.launch(L.data)
    with pytest.raises(ms.NotPositiveDefiniteError, match="Laplacian"):
        found.F.check()
    found.launch(A.data)
    assert np.array_equal(to_numpy(found.F.check().solve(found.b)), expected(A))


def test_right_hand_sides_that_are_not_finite(harness):
    found = Step()
    found.b[7, 1:2] = np.nan
    found.launch(2 * A.data)
    assert np.isnan(to_numpy(found.x)).all() and np.isnan(to_numpy(found.y)).all()
    with pytest.raises(ms.InvalidInputError, match="b: row 7"):
        found.F.check()
    assert np.array_equal(to_numpy(found.F.solve(to_cuda(B))), expected(2 * A))       # the matrix was in order


def test_solves_alone(harness):
    F, b, x = ms.cholesky(A, device="cuda"), to_cuda(B), to_cuda(np.zeros(B.shape))
    with F.capture() as step:
        F.solve(b, out=x)
    b[:] = to_cuda(2 * B)
    step.launch()
    assert np.array_equal(to_numpy(x), expected(A, 2 * B))
    F.refactor(Sparse(4 * A))
    step.launch()
    assert np.array_equal(to_numpy(x), expected(4 * A, 2 * B)) and F.check() is F


def test_two_steps_of_one_factor(harness):
    found, x = Step(), to_cuda(np.zeros(B.shape))
    with found.F.capture() as solve:
        found.F.solve(found.b, out=x)
    found.launch(indefinite().data)
    with pytest.raises(ms.NotPositiveDefiniteError, match="column 17"):
        solve.launch()                                      # checks the other step first
    solve.launch()
    assert np.array_equal(to_numpy(x), expected(A))


def inside(call):
    def run(F):
        with F.capture() as step:
            call(F)
        return step
    return run


def twice(F):
    step = inside(lambda F: F.solve(to_cuda(B), out=to_cuda(B)))(F)
    with step:
        pass


@pytest.mark.parametrize(("call", "message"), [
    (inside(lambda F: None), "nothing was captured"), (lambda F: F.capture().launch(), "nothing was captured"), (twice, "records once"),
    (inside(lambda F: F.refactor(A)), "matrix on the GPU"), (inside(lambda F: F.solve(to_cuda(B))), "out=x"),
    (inside(lambda F: F.solve(B)), "out=x"), (inside(lambda F: F.solve(to_cuda(B), "L", out=to_cuda(B))), "no other argument"),
    (inside(lambda F: F.solve(to_cuda(B).astype(np.float32), out=to_cuda(B).astype(np.float32))), "float64"),
    (inside(lambda F: (F.solve(to_cuda(B), out=to_cuda(B)), F.refactor(Sparse(A)))), "before the solves"),
    (inside(lambda F: (F.refactor(Sparse(A)), F.refactor(Sparse(A)))), "one refactor"),
    (inside(lambda F: F.capture().__enter__()), "one capture at a time")])
def test_calls_that_cannot_be_captured(harness, call, message):
    F = ms.cholesky(A, device="cuda")
    with pytest.raises(ms.InvalidInputError, match=message):
        call(F)
    assert np.array_equal(to_numpy(F.solve(to_cuda(B))), expected(A)) and F._recorder is None


@pytest.mark.parametrize("options", [{"precision": "single"}, {"precision": "mixed"}, {"device": "cpu"}], ids=str)
def test_factors_that_cannot_be_captured(harness, options):
    F = ms.cholesky(A, **{"device": "cuda"} | options)
    with pytest.raises(ms.InvalidInputError, match="capture"):
        F.capture()
