"""Captured steps of factors with fixed and pinned rows: the bits of plain calls, no read, no allocation, and errors at the check."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness.strict import Strict
from on_device import Sparse, to_cuda, to_numpy
from zoo import grid, spd

import meshsolve as ms
from meshsolve import device

FIXED = [250, 3, 31, 0]
LARGE = ms.datasets.grid2d(16, 16).tocsr()
TWO = sp.block_diag([LARGE, ms.datasets.grid2d(9, 5)], "csr")           # two components
A = spd(grid(16, 16))
RNG = np.random.default_rng(0)
B = RNG.standard_normal((256, 3))
CASES = {                   # matrix, options of the factor, shape of the fixed values
    "zeros": (A, {"fixed": FIXED}, None),
    "a number": (A, {"fixed": FIXED}, ()),
    "a value a row": (A, {"fixed": FIXED}, (4,)),
    "one column": (A, {"fixed": FIXED}, (4, 1)),
    "all columns": (A, {"fixed": FIXED}, (4, 3)),
    "of all rows": (A, {"fixed": FIXED}, (256,)),
    "of all rows and columns": (A, {"fixed": FIXED}, (256, 3)),
    "one fixed row": (LARGE, {"fixed": [7]}, (1,)),
    "pinned": (LARGE, {"pin": True}, None),
    "two pinned": (TWO, {"pin": True}, None),
    "lower triangle": (sp.tril(LARGE, format="csr"), {"pin": True, "lower": True}, None),
    "few rows": (spd(grid(5, 4)), {"fixed": [13, 3, 0]}, (20,)),
    "few rows, two pinned": (sp.block_diag([ms.datasets.grid2d(4, 4), ms.datasets.grid2d(3, 2)], "csr"), {"pin": True}, None),
}


@pytest.fixture
def harness():
    with device.use(Strict()) as harness:
        yield harness


def rhs(M, options, seed=0):
    """Return right-hand sides; with ``pin`` in the range of M."""
    b = np.random.default_rng(seed).standard_normal((M.shape[0], 3))
    return (M + sp.triu(M.T, 1) if options.get("lower") else M) @ b if "pin" in options else b


class Step:
    """A factor of a case with a captured refactorization and a solve, its matrix and arrays."""

    def __init__(self, name, refactors=True):
        M, self.options, shape = CASES[name]
        self.matrix, self.A, self.values = M, Sparse(M), {}
        if shape is not None:
            self.values["fixed_values"] = 2.5 if shape == () else to_cuda(RNG.standard_normal(shape))
        self.b = to_cuda(rhs(M, self.options))
        self.x = to_cuda(np.zeros(self.b.shape))
        self.F = ms.cholesky(self.A, device="cuda", **self.options)
        with self.F.capture() as self.step:
            if refactors:
                self.F.refactor(self.A)
            self.F.solve(self.b, out=self.x, **self.values)

    def set(self, data=None, b=None):
        if data is not None:
            self.A.data[:] = to_cuda(np.asarray(data, float))
        if b is not None:
            self.b[:] = to_cuda(b)

    def renew_values(self):
        values = self.values.get("fixed_values")
        if device.holds(values):
            values[:] = to_cuda(RNG.standard_normal(values.shape))

    def expected(self, scale=1.0):
        F = ms.cholesky(Sparse(scale * self.matrix), device="cuda", **self.options)
        return to_numpy(F.solve(self.b, **self.values))


@pytest.mark.parametrize("name", CASES)
def test_a_launch_gives_the_bits_of_plain_calls(harness, name):
    found = Step(name)
    assert np.array_equal(to_numpy(found.x), found.expected())
    for seed, scale in enumerate((2.0, 3.0), 1):
        found.set(scale * found.matrix.data, rhs(found.matrix, found.options, seed))
        found.renew_values()
        with harness.counted() as counts:
            found.step.launch()
        assert counts["reads"] == counts["allocations"] == counts["uploads"] == 0
        assert np.array_equal(to_numpy(found.x), found.expected(scale)) and found.F.check() is found.F
        assert np.array_equal(to_numpy(found.F.solve(found.b, **found.values)), found.expected(scale))


@pytest.mark.parametrize("name", ["all columns", "of all rows", "pinned"])
def test_solves_alone(harness, name):
    found = Step(name, refactors=False)
    found.set(b=2 * to_numpy(found.b))
    found.renew_values()
    found.step.launch()
    assert np.array_equal(to_numpy(found.x), found.expected())
    found.F.refactor(Sparse(4 * found.matrix))
    found.step.launch()
    assert np.array_equal(to_numpy(found.x), found.expected(4)) and found.F.check() is found.F


def test_solves_alone_refuse_another_pattern_of_the_coupling(harness):
    found = Step("all columns", refactors=False)
    M = A.copy()
    M[3, 4] = M[4, 3] = 0.0
    M.eliminate_zeros()
    found.F.refactor(Sparse(M))
    with pytest.raises(ms.InvalidInputError, match="between free and fixed rows has changed"):
        found.step.launch()
    found.F.refactor(found.A)
    with pytest.raises(ms.InvalidInputError, match="capture again"):
        found.step.launch()
    with found.F.capture() as step:
        found.F.solve(found.b, out=found.x, **found.values)
    step.launch()
    assert np.array_equal(to_numpy(found.x), found.expected())


def test_the_coupling_is_that_of_the_last_good_launch(harness):
    """Of plain solves, refused refactorizations and copies after launches, and of failed launches."""
    found = Step("all columns")
    solve = lambda F: to_numpy(F.solve(found.b, **found.values))
    found.set(2 * A.data)
    found.step.launch()
    assert np.array_equal(solve(copy.copy(found.F)), found.expected(2))
    found.set(3 * A.data)
    found.step.launch()
    assert np.array_equal(solve(found.F), found.expected(3))                # without a check before
    found.set(4 * A.data)
    found.step.launch()
    with pytest.raises(ms.NotPositiveDefiniteError):
        found.F.refactor(Sparse(-A))                                        # checks the launch, then restores its coupling
    assert np.array_equal(solve(found.F), found.expected(4))
    found.set(-5 * A.data)
    found.step.launch()
    assert np.isnan(to_numpy(found.x)).all()
    with pytest.raises(ms.NotPositiveDefiniteError):
        found.F.check()
    assert np.array_equal(solve(found.F), found.expected(4))
    found.F.refactor(Sparse(7 * A))
    assert np.array_equal(solve(found.F), found.expected(7))
    found.set(8 * A.data)
    found.step.launch()
    assert np.array_equal(solve(found.F), found.expected(8))


def test_prescribed_values_that_are_not_finite(harness):
    found = Step("of all rows")
    found.values["fixed_values"][100:101] = np.nan                          # a free row, which is not read
    found.step.launch()
    assert np.isfinite(to_numpy(found.x)).all() and found.F.check() is found.F
    found.values["fixed_values"][31:32] = np.nan
    found.step.launch()
    assert np.isnan(to_numpy(found.x)).all()
    with pytest.raises(ms.InvalidInputError, match="fixed_values: the value of row 31 is not finite"):
        found.F.check()
    found.values["fixed_values"][31:32] = 0.0
    found.b[5, :1] = np.inf
    found.step.launch()
    with pytest.raises(ms.InvalidInputError, match="b: row 5"):
        found.F.check()


def test_a_right_hand_side_outside_the_range_is_projected_with_a_warning(harness):
    found = Step("two pinned")
    b = rhs(TWO, found.options) + np.array([0.0, 1e-3, 0.0])
    found.set(b=b)
    found.step.launch()
    found.set(b=rhs(TWO, found.options))
    found.step.launch()                                                     # the warning is for any launch since the last check
    with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
        found.F.check()
    found.step.launch()
    found.F.check()
    found.set(b=b)
    found.step.launch()
    with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
        found.F.check()
    with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
        assert np.array_equal(to_numpy(found.x), found.expected())


def not_laplacian(M):
    data = M.data.copy()
    data[0] *= 1.5
    return data, ms.NotLaplacianError, "row 0"


def not_finite(M):
    data = M.data.copy()
    data[3] = np.nan
    return data, ms.InvalidInputError, "row 0|row 1"


@pytest.mark.parametrize("change", [not_laplacian, not_finite])
def test_matrices_that_cannot_be_pinned(harness, change):
    found = Step("two pinned")
    data, error, message = change(TWO)
    found.set(data)
    found.step.launch()
    assert np.isnan(to_numpy(found.x)).all()
    with pytest.raises(error, match=message):
        found.F.check()
    assert np.array_equal(to_numpy(found.F.solve(found.b)), found.expected())
    found.step.launch()
    found.set(TWO.data)
    found.step.launch()
    with pytest.raises(ms.InvalidInputError, match="launch 1 of 2 since the last check: "):
        found.F.check()


def bridged(weight):
    """Two grids with an edge of this weight between them, stored also if it is 0."""
    M = sp.lil_array(TWO)
    for i, j, w in ((255, 256, -1.0), (256, 255, -1.0), (255, 255, M[255, 255] + 1), (256, 256, M[256, 256] + 1)):
        M[i, j] = w
    M = M.tocsr()
    M.sort_indices()
    with_bridge, M = M, M.copy()
    row = np.repeat(np.arange(M.shape[0]), np.diff(M.indptr))
    M.data[(row < 256) != (M.indices < 256)] = -weight
    M.data[(row == M.indices) & np.isin(row, (255, 256))] += weight - 1
    assert with_bridge.nnz == M.nnz
    return M


def test_an_entry_that_joins_two_components(harness):
    """Refused by a refactorization as by a launch."""
    A = Sparse(bridged(0.0))
    b = to_cuda(bridged(0.0) @ RNG.standard_normal((TWO.shape[0], 2)))
    F, x = ms.cholesky(A, pin=True, device="cuda"), to_cuda(np.zeros(b.shape))
    before = to_numpy(F.solve(b))
    with F.capture() as step:
        F.refactor(A)
        F.solve(b, out=x)
    with pytest.raises(ms.PatternMismatchError, match="joins"):
        F.refactor(Sparse(bridged(0.5)))
    A.data[:] = to_cuda(bridged(0.5).data)
    step.launch()
    with pytest.raises(ms.PatternMismatchError, match="joins"):
        F.check()
    assert np.array_equal(to_numpy(F.solve(b)), before)


def test_rows_whose_sums_are_near_the_limit_are_looked_at_again(harness):
    found = Step("pinned")
    M = LARGE.tolil()
    M[0, 0] *= 1 + 1.9995e-6                                                # the limit is 1e-6 of the sum of absolute values
    found.F.refactor(Sparse(M.tocsr()))
    found.set(M.tocsr().data)
    found.step.launch()
    assert found.F.check() is found.F
    M[0, 0] *= 1 + 1e-8
    with pytest.raises(ms.NotLaplacianError, match="row 0"):
        found.F.refactor(Sparse(M.tocsr()))
    found.set(M.tocsr().data)
    found.step.launch()
    with pytest.raises(ms.NotLaplacianError, match="row 0"):
        found.F.check()


def test_calls_that_cannot_be_captured(harness):
    found = Step("zeros")
    b, x = found.b, found.x
    for values in (np.zeros(4), to_cuda(np.zeros(4)).astype(np.float32), to_cuda(np.zeros((3, 4))).T, [1.0, 2.0, 3.0, 4.0]):
        message = "fixed_values= takes a contiguous float64 array on the GPU, or one number"
        with pytest.raises(ms.InvalidInputError, match=message), found.F.capture():
            found.F.solve(b, out=x, fixed_values=values)
    F = ms.cholesky(Sparse(sp.csr_array(np.zeros((3, 3)))), pin=True, device="cuda")
    with pytest.raises(ms.InvalidInputError, match="rows that are not isolated"):
        F.capture()


@pytest.mark.sanitize
def test_every_kernel_on_something_small(harness):
    """Few threads, because ThreadSanitizer is slow for each."""
    harness.block = 32
    for name in ("few rows", "few rows, two pinned"):
        found = Step(name)
        found.step.launch()
        assert found.F.check() is found.F
    assert {"k_take_rows", "k_put_rows", "k_check_range", "k_check_null_space", "k_sum_segments"} <= harness.launches.keys()
