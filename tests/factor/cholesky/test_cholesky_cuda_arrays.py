"""Cholesky factors of matrices and right-hand sides on the GPU: the device of results, refusals, synchronization."""

import contextlib
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from cuda_cases import close
from kernel_harness import strict
from kernel_harness.strict import Strict
from on_device import Sparse, nothing_copied_to_host, to_cuda, to_numpy
from zoo import backward_error, grid, spd

import meshsolve as ms
from meshsolve import device


def test_results_are_on_the_device_of_the_input(gpu, monkeypatch):
    A, b = spd(grid(20, 15)), np.random.default_rng(0).standard_normal((300, 3))
    F = ms.cholesky(Sparse(A))                              # "auto": the matrix lies on the device
    assert F.report.facts["device"] == "cuda"
    reference = ms.cholesky(A, ordering=F.symbolic.ordering.perm, device="cpu").solve(b)
    assert isinstance(F.solve(b), np.ndarray)
    close(F.solve(b), reference, 1e-13)
    big = [np.asarray(a) for a in (b, np.asfortranarray(b), b[:, 0], b.astype(np.float32), b + 1j * b[::-1])]
    given = [to_cuda(a) for a in (*big, b)]
    with nothing_copied_to_host(monkeypatch, 2):
        results = [F.solve(a) for a in given[:-1]] + [F @ given[-1]]
        out = to_cuda(np.zeros((300, 3)))
        assert F.solve(given[-1], out=out) is out
        narrow = to_cuda(np.zeros((300, 3), np.float32))
        assert F.solve(given[3], out=narrow) is narrow
    assert all(type(x) is not list and not isinstance(x, (list, sp.sparray)) for x in results)
    for x, given in zip(results, (*big, b)):
        expected = ms.cholesky(A, ordering=F.symbolic.ordering.perm, device="cpu").solve(given)
        close(x, expected, 1e-6 if given.dtype == np.float32 else 1e-13)
    close(out, reference, 1e-13)
    close(narrow, reference.astype(np.float32), 1e-6)


def test_values_on_the_device_are_not_copied(gpu, monkeypatch):
    A, C = spd(grid(20, 15), seed=1), spd(grid(20, 15), seed=2)
    F = ms.cholesky(Sparse(A), device="cuda")
    later, b = Sparse(C), to_cuda(np.ones(300))
    with nothing_copied_to_host(monkeypatch, 3):
        x = F.refactor(later).solve(b)
    close(x, ms.cholesky(C, ordering=F.symbolic.ordering.perm, device="cpu").solve(np.ones(300)), 1e-13)


def test_matrices_on_the_device_in_any_form(gpu):
    A = spd(grid(9, 8))
    x = ms.cholesky(A, device="cpu").solve(np.ones(72))
    doubled = sp.csr_array(A)
    doubled = sp.csr_array((np.repeat(doubled.data / 2, 2), np.repeat(doubled.indices, 2), 2 * doubled.indptr), shape=A.shape)
    for given, options in ((to_cuda(A.toarray()), {}), (Sparse(sp.tril(A)), {"lower": True}), (Sparse(doubled), {}),
                           (Sparse(A), {"ordering": np.arange(72)})):
        close(ms.cholesky(given, device="cuda", **options).solve(to_cuda(np.ones(72))), x, 1e-12)
    close(ms.cholesky(Sparse(A), device="cpu").solve(np.ones(72)), x, 1e-12)
    smaller = sp.csr_array(A - sp.diags_array(A.diagonal()) * 0)
    smaller = sp.csr_array(sp.diags_array(A.diagonal()))    # a subset of the analyzed pattern
    close(ms.cholesky(Sparse(A), device="cuda").refactor(Sparse(smaller)).solve(np.ones(72)), 1 / A.diagonal(), 1e-13)


@pytest.mark.parametrize("options", [{}, {"fixed": [3, 70]}], ids=str)
@pytest.mark.parametrize("first", [sp.csr_array, Sparse])
def test_refactor_reads_the_lower_triangle_alone(gpu, first, options):
    A, B = spd(grid(9, 8), seed=1), spd(grid(9, 8), seed=2)
    b = np.ones(72)
    F = ms.cholesky(first(sp.tril(A)), lower=True, device="cuda", **options)
    expected = ms.cholesky(B, device="cpu", **options).solve(b)
    anything = B + sp.triu(B, 1)
    for later in (sp.tril(B), Sparse(sp.tril(B)), anything, Sparse(anything), Sparse(sp.tril(B))):
        close(pickle.loads(pickle.dumps(F)).refactor(later).solve(b), expected, 1e-12)
        close(F.refactor(later).solve(b), expected, 1e-12)
    if not options:
        sym = ms.analyze(first(sp.tril(A)), lower=True, device="cuda")
        close(sym.factor(Sparse(sp.tril(B)), device="cuda").refactor(sp.tril(A)).refactor(sp.tril(B)).solve(b), expected, 1e-12)


@pytest.mark.parametrize("first", [sp.csr_array, Sparse])
@pytest.mark.parametrize("function", [ms.cholesky, ms.analyze])
def test_an_upper_triangle_is_not_the_lower_one(gpu, function, first):
    with pytest.raises(ms.InvalidInputError, match="above its diagonal only"):
        function(first(sp.triu(spd(grid(9, 8)))), lower=True, device="cuda")


def test_the_callers_arrays_may_change_later(gpu):
    A = spd(grid(9, 8))
    given = Sparse(A)
    F = ms.cholesky(given, device="cuda")
    before = F.L.data
    given.indices[:] = 0
    given.data[:] = -1.0
    assert np.array_equal(F.L.data, before)
    x = F.solve(np.ones(72))
    with pytest.raises((ms.PatternMismatchError, ms.NotPositiveDefiniteError, ms.InvalidInputError, ms.NotSymmetricError)):
        F.refactor(given)
    assert np.array_equal(F.solve(np.ones(72)), x) and np.array_equal(F.refactor(Sparse(A)).L.data, before)


def test_bad_input_on_the_device(gpu):
    A = spd(grid(9, 8))
    F = ms.cholesky(A, device="cuda")
    wrong, turned = sp.lil_array(A), sp.lil_array(A)
    wrong[3, 3] = np.nan
    turned[3, 4] += 1.0
    with pytest.raises(ms.InvalidInputError, match="row 3, column 3 holds nan"):
        ms.cholesky(Sparse(wrong))
    with pytest.raises(ms.NotSymmetricError) as e:
        ms.cholesky(Sparse(turned))
    assert {e.value.row, e.value.column} == {3, 4}
    with pytest.raises(ms.NotSymmetricError):
        F.refactor(Sparse(turned))
    for large in (0, 3):
        turned[large, large] = 1e30                         # a large entry in one row does not hide another row
        with pytest.raises(ms.NotSymmetricError) as e:
            ms.cholesky(Sparse(turned))
        assert {e.value.row, e.value.column} == {3, 4}
    full = sp.lil_array(A)
    full[0, 70] = full[70, 0] = 0.5
    with pytest.raises(ms.PatternMismatchError):
        F.refactor(Sparse(full))
    for b, text in ((np.ones(71), "must be"), (np.where(np.arange(72) < 5, 0, np.inf), "row 5"), (np.ones((72, 2, 2)), "must be"), (np.ones(72, bool), None)):
        with pytest.raises(ms.InvalidInputError, match=text) if text else contextlib.nullcontext():
            F.solve(to_cuda(b))
    with pytest.raises(ms.InvalidInputError, match="square"):
        ms.cholesky(to_cuda(np.ones((3, 4))))
    with pytest.raises(ms.InvalidInputError, match="out must be"):
        F.solve(to_cuda(np.ones(72)), out=np.ones(72))


@pytest.mark.parametrize("options", [{}, {"precision": "single"}, {"precision": "mixed"}, {"fixed": [3]}, {"pin": True}], ids=str)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_right_hand_sides_that_are_not_finite(gpu, options, value):
    A = spd(grid(9, 8))
    F = ms.cholesky(ms.graph_laplacian(A) if "pin" in options else A, device="cuda", **options)
    b, out = np.zeros((72, 2)), to_cuda(np.full((72, 2), 7.0))
    b[40, 1] = value
    turned = np.zeros(72, complex)
    turned.imag = b[:, 1]
    with pytest.raises(ms.InvalidInputError, match="^b: row 40 holds a value that is not finite"):
        F.solve(to_cuda(b), out=out)
    assert (to_numpy(out) == 7.0).all()
    with pytest.raises(ms.InvalidInputError, match="^b: row 40 holds"):
        F.solve(to_cuda(turned))


def test_a_solve_is_queued_before_b_is_checked(monkeypatch):
    """A check of b on the host would wait for all work before it at the begin of each solve."""
    A, launched = spd(grid(9, 8)), []
    with device.use(Strict()) as harness:
        F, G, b, values = ms.cholesky(A, device="cuda"), ms.cholesky(A, fixed=[5], device="cuda"), to_cuda(np.ones(72)), to_cuda(np.ones(1))
        monkeypatch.setattr(harness, "to_host", lambda array: (launched.append(dict(harness.launches)), array.get())[1])
        for solve, reads in ((lambda: F.solve(b), 1), (lambda: G.solve(b, fixed_values=values), 2)):
            harness.launches.clear()
            launched.clear()
            solve()
            assert launched == [harness.launches] * reads and {"k_any", "k_backward", "k_from_columns"} <= launched[0].keys()


@pytest.mark.parametrize("options", [{}, {"precision": "mixed"}, {"fixed": [3]}, {"pin": True}], ids=str)
def test_no_sort_and_no_single_block_reduction_of_a_matrix(monkeypatch, options):
    """Without nvcc those of CuPy take milliseconds for each refactorization of a million rows."""
    A = spd(grid(9, 8))
    A = sp.csr_array(ms.graph_laplacian(A) if "pin" in options else A)
    A[1, 0] = np.nextafter(A[1, 0], 0)
    b = A @ np.random.default_rng(0).standard_normal((72, 2))
    host = ms.cholesky(A, device="cpu", **options).solve(b)
    with device.use(Strict()):
        F, later, b = ms.cholesky(Sparse(A), device="cuda", **options), Sparse(A), to_cuda(b)
        slow = {"all", "any", "max", "min", "sum", "mean", "argmax", "argmin", "array_equal", "sort", "argsort", "lexsort", "unique"}
        monkeypatch.setattr(strict, "METHODS", strict.METHODS - slow)
        monkeypatch.setattr(strict, "FUNCTIONS", strict.FUNCTIONS - slow)
        close(F.refactor(later).solve(b), host, 1e-12)


@pytest.mark.slow
def test_only_scalars_of_a_large_matrix_are_copied_to_the_host(gpu):
    """Ordering, analysis and factor of a matrix that is dissected on the device, with fixed rows, pins, and a mesh."""
    A = spd(grid(72, 71))
    n, rhs = A.shape[0], np.arange(A.shape[0]) - (A.shape[0] - 1) / 2
    b = to_cuda(rhs)
    for options in ({}, {"fixed": [3, 4000]}, {"pin": True}, {"lower": True}):
        given = Sparse(ms.graph_laplacian(A) if "pin" in options else A)
        if isinstance(gpu, Strict):
            gpu.comes_back.clear()
        F = ms.cholesky(given, device="cuda", **options)
        x = F.refactor(given).solve(b) if "lower" not in options else F.solve(b)
        assert F.report.facts["ordering"] == "nd" and F.report.facts["num_patches"] > 50
        if isinstance(gpu, Strict):
            others = [size for size in gpu.comes_back if size != 3 * F._factor.tree.count]             # sizes of the fronts
            assert len(others) == len(gpu.comes_back) - 1 and max(others) < n // 20, sorted(others)[-5:]
        if "pin" not in options and "fixed" not in options:
            assert backward_error(A, to_numpy(x)[:, None], rhs[:, None]) < 1e-15
