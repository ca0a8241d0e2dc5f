"""Gradients on the GPU: the kernel harness, with its arrays in the place of CUDA tensors; CUDA tensors where PyTorch has a GPU."""

import contextlib

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness.strict import Strict
from on_device import to_cuda, to_numpy

import meshsolve as ms
from meshsolve import device
from meshsolve.gradients.factors import Factors

torch = pytest.importorskip("torch")


class OnHarness:
    """Tensors on the host as arrays of the harness: all that a CUDA tensor does except its own memory and stream."""

    array = staticmethod(lambda tensor: to_cuda(tensor.detach().numpy().copy()))
    tensor = staticmethod(lambda array, like: torch.from_numpy(to_numpy(array)).to(like.dtype))
    current = staticmethod(lambda tensor: contextlib.nullcontext())


@pytest.fixture
def harness(monkeypatch):
    """Compute with all tensors on the harness."""
    from meshsolve.torch import functions

    monkeypatch.setattr(functions, "place_of", lambda tensor: OnHarness)
    with device.use(Strict()) as harness:
        yield harness


def symmetric(n=12, seed=0):
    """(indices, weights, diagonal) of a ring with a chord: both triangles in another order than that of rows, with duplicates."""
    i, j = np.array([*range(n), 0]), np.array([*range(1, n), 0, n // 2])
    d = np.arange(n)
    rng = np.random.default_rng(seed)
    indices = torch.from_numpy(np.stack([np.concatenate([i, j, d]), np.concatenate([j, i, d])]))
    return indices, *(torch.from_numpy(rng.uniform(*ends, size)).requires_grad_() for ends, size in (((0.5, 1), n + 1), ((4, 6), n)))


@pytest.mark.parametrize("method", ["auto", "cholesky", "ldl", "lu", "cg"])
def test_gradients_of_solves(harness, method):
    """As those of dense arithmetic."""
    indices, w, d = symmetric()
    b, solver, found = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(12, 2).requires_grad_(), ms.torch.Solver(method), []
    dense = lambda A, b: torch.linalg.solve(torch.zeros((12, 12), dtype=torch.float64).index_put(tuple(A[0]), A[1], accumulate=True), b)
    for solve in (solver, dense):
        x = solve((indices, torch.cat([-w, -w, d])), b)
        found.append((x, *torch.autograd.grad(x.pow(3).sum(), (w, d, b))))
    assert all(torch.allclose(*pair, rtol=1e-8) for pair in zip(*found, strict=True)) and solver.analyses == 1
    assert method == "cg" or solver.factor.report.facts["device"] == "cuda"


def test_finite_differences(harness):
    indices, w, d = symmetric(6)
    b, solver = torch.linspace(-1, 1, 6, dtype=torch.float64).requires_grad_(), ms.torch.Solver("cholesky")
    assert torch.autograd.gradcheck(lambda w, d, b: solver((indices, torch.cat([-w, -w, d])), b), (w, d, b))


def test_pins_and_fixed_rows(harness):
    indices, w, _ = symmetric(6)
    i, j = indices[:, :7]
    L = torch.stack([torch.cat([i, j, i, j]), torch.cat([j, i, i, j])])
    b, c = torch.linspace(-1, 1, 6, dtype=torch.float64).requires_grad_(), torch.ones(2, dtype=torch.float64).requires_grad_()
    solver = ms.torch.Solver("cholesky", pin=True)
    assert torch.autograd.gradcheck(lambda w, b: solver((L, torch.cat([-w, -w, w, w])), b - b.mean()), (w, b))
    solved = lambda w, b, c: ms.torch.solve((L, torch.cat([-w, -w, w, w])), b, "cholesky", fixed=[3, 1], fixed_values=c)
    assert torch.autograd.gradcheck(solved, (w, b, c))


def test_second_derivatives_and_transforms(harness):
    indices, w, d = symmetric(5)
    b = torch.ones(5, dtype=torch.float64)
    energy = lambda w: ms.torch.solve((indices, torch.cat([-w, -w, d.detach()])), b).square().sum()
    assert torch.autograd.gradgradcheck(energy, w)
    expected, = torch.autograd.grad(energy(w), w)
    assert torch.allclose(torch.func.grad(energy)(w.detach()), expected)
    both = torch.func.vmap(torch.func.grad(energy))(torch.stack([w.detach(), 2 * w.detach()]))
    assert torch.allclose(both[0], expected)


def test_gradients_of_determinants(harness):
    indices, w, d = symmetric(6)
    solver = ms.torch.Solver()
    assert torch.autograd.gradcheck(lambda w, d: solver.logdet((indices, torch.cat([-w, -w, d]))), (w, d))
    assert solver.factor.report.facts["device"] == "cuda"
    i = torch.tensor([[0, 1, 0], [0, 1, 1]])            # an entry without its mirror entry, which is zero
    v = torch.tensor([2.0, 4.0, 0.0], dtype=torch.float64, requires_grad=True)
    ms.torch.logdet((i, v)).backward()
    assert torch.allclose(v.grad, torch.tensor([0.5, 0.25, 0.0], dtype=torch.float64))


def test_single_precision_and_bad_input(harness):
    indices, w, d = symmetric()
    values, b = torch.cat([-w, -w, d]).detach().float(), torch.ones(12)
    x = ms.torch.solve((indices, values), b)
    assert x.dtype == torch.float32 and torch.allclose(x.double(), ms.torch.solve((indices, values.double()), b.double()), atol=1e-6)
    for A, error, message in (((indices - 1, values), ms.InvalidInputError, "outside 0..11"), ((indices, values * float("nan")), ms.InvalidInputError, "nan"),
                              ((indices + 1, values), ms.InvalidInputError, "outside 0..11")):
        with pytest.raises(error, match=message):
            ms.torch.solve(A, b)


def test_a_step_reads_flags_alone():
    """Forward and backward of a step with a kept pattern: nothing of more than a few numbers comes back, nothing is uploaded."""
    L = sp.coo_array(ms.datasets.grid2d(20, 20, boundary="dirichlet"))
    rows, columns = (np.concatenate([part, part[:7]]).astype(np.int64) for part in L.coords)      # duplicates
    values, n = np.concatenate([L.data, np.zeros(7)]), L.shape[0]
    with device.use(Strict()) as harness:
        i, j, v, b = map(to_cuda, (rows, columns, values, np.ones((n, 3))))
        factors = Factors("cholesky")
        for scale in (1.0, 2.0):
            factors.solve(factors.entries(i, j, v * scale, n), b)
        harness.comes_back.clear()
        with harness.counted() as found:
            entries = factors.entries(i, j, v * 3.0, n)
            x = factors.solve(entries, b)
            y = factors.solve(entries, x)
            g = entries.pattern.sampled(y, x)
        assert max(harness.comes_back) <= 3 and found["reads"] <= 5 and found["uploads"] == found["library"] == 0
        assert factors.analyses == 1 and factors.factorizations == 3
        with harness.counted() as found:
            entries.pattern.sampled(y, x)
        assert (found["launches"], found["reads"]) == (1, 0)
        harness.comes_back.clear()
        inverse = factors.inverse_entries(entries)      # the first one: the host reads the sizes of launches
        harness.comes_back.clear()
        assert np.array_equal(to_numpy(factors.inverse_entries(entries)), to_numpy(inverse)) and harness.comes_back == [len(v)] * 2
        harness.comes_back.clear()
        determinant = factors.cholesky(entries).logdet()
        assert harness.comes_back == [1]
        x, y, g, inverse = map(to_numpy, (x, y, g, inverse))
    A = 3 * sp.csr_array(L)
    assert np.allclose(A @ x, 1) and np.allclose(A @ y, x) and np.allclose(g, -(y @ x.T)[rows, columns])
    assert np.allclose(inverse, np.linalg.inv(A.toarray())[rows, columns]) and np.isclose(determinant, np.linalg.slogdet(A.toarray())[1])


@pytest.mark.gpu
def test_gradients_of_cuda_tensors():
    """With memory and streams of PyTorch: the results lie on the GPU, and gradients are those of finite differences."""
    if not (torch.cuda.is_available() and device.available()):
        pytest.skip("no GPU")
    indices, w, d = symmetric()
    indices, w, d = indices.cuda(), *(part.detach().cuda().requires_grad_() for part in (w, d))
    b = torch.linspace(-1, 1, 12, dtype=torch.float64, device="cuda").requires_grad_()
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            solver = ms.torch.Solver()
            assert solver((indices, torch.cat([-w, -w, d])), b).is_cuda
            assert torch.autograd.gradcheck(lambda w, d, b, solver=solver: solver((indices, torch.cat([-w, -w, d])), b), (w, d, b))
            assert torch.autograd.gradcheck(lambda w, d, solver=solver: solver.logdet((indices, torch.cat([-w, -w, d]))), (w, d))
    assert solver.factor.report.facts["device"] == "cuda"
