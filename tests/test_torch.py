"""The differentiable solve: values compared with scipy, gradients with finite differences; numbers of factorizations."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each

import meshsolve as ms

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
N = 7


def problem(kind, seed=0, k=2):
    """(indices, values, b) as tensors that require gradients; the pattern has stored zeros."""
    rng = np.random.default_rng(seed)
    A = sp.random_array((N, N), density=0.4, rng=rng) + 4 * sp.eye_array(N)
    A = sp.coo_array(sp.csr_array(A + 1j * sp.random_array((N, N), density=0.3, rng=rng) if kind == "complex" else A))
    b = rng.standard_normal((N, k) if k else N)
    b = b + 1j * b[::-1] if kind == "complex" else b
    indices = torch.from_numpy(np.array(A.coords, dtype=np.int64))
    return indices, torch.from_numpy(A.data).requires_grad_(), torch.from_numpy(b).requires_grad_()


def dense(indices, values):
    return torch.zeros((N, N), dtype=values.dtype).index_put(tuple(indices), values, accumulate=True)


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_gradients_are_finite_differences(kind, k):
    indices, values, b = problem(kind, k=k)
    solve = lambda v, b: ms.torch.solve((indices, v), b)
    assert torch.autograd.gradcheck(solve, (values, b))
    assert torch.autograd.gradgradcheck(solve, (values, b))


@pytest.mark.parametrize("method", ["auto", "cholesky", "ldl", "lu"])
def test_symmetric_matrices_from_one_set_of_variables(method):
    """A Laplacian of edge weights and masses: the gradient of a weight has contributions of both triangles."""
    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 6, 6]])
    a, b = edges
    d = torch.arange(N)
    indices = torch.stack([torch.cat([a, b, a, b, d]), torch.cat([b, a, a, b, d])])
    sign = -1 if method == "ldl" else 1

    def solve(w, mass, rhs):
        return ms.torch.solve((indices, torch.cat([-w, -w, w, w, sign * mass])), rhs, method)

    rng = np.random.default_rng(3)
    w, mass, rhs = (torch.from_numpy(rng.uniform(0.5, 2, size)).requires_grad_() for size in (7, N, (N, 2)))
    assert torch.autograd.gradcheck(solve, (w, mass, rhs))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_tensors(layout):
    indices, values, b = problem("real")
    A = torch.sparse_coo_tensor(indices, values.detach(), (N, N)).coalesce()
    A = (A if layout == "coo" else A.to_sparse_csr()).requires_grad_()
    x = ms.torch.solve(A, b)
    assert torch.allclose(x, torch.linalg.solve(dense(indices, values), b))
    x.square().sum().backward()
    assert A.grad.layout == A.layout
    expected = torch.zeros_like(values)
    M = dense(indices, values)
    y = torch.linalg.solve(M.T, 2 * x.detach())
    expected = -(y @ x.detach().T)[tuple(indices)]
    assert torch.allclose(A.grad.to_dense()[tuple(indices)], expected) and torch.allclose(b.grad, y)


def test_duplicates_are_summed_and_have_gradients():
    indices = torch.tensor([[0, 0, 1], [0, 0, 1]])
    values = torch.tensor([1.0, 1.0, 4.0], dtype=torch.float64, requires_grad=True)
    x = ms.torch.solve((indices, values), torch.tensor([2.0, 4.0], dtype=torch.float64))
    assert torch.allclose(x, torch.ones(2, dtype=torch.float64), rtol=1e-14)
    x.sum().backward()
    assert torch.allclose(values.grad, torch.tensor([-0.5, -0.5, -0.25], dtype=torch.float64))


def test_single_precision_is_kept():
    indices, values, b = problem("real")
    x = ms.torch.solve((indices, values.detach().float()), b.detach().float())
    assert x.dtype == torch.float32 and torch.allclose(x.double(), ms.torch.solve((indices, values), b), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@each("method, shape, form", [(method, shape, form) for method in ("auto", "cholesky", "ldl", "lu", "cg") for shape in ((9,), (9, 1), (9, 3))
                              for form in ("pair", "coo", "csr", "solver", "fixed", "pin")])
def test_gradients_in_single_precision(method, shape, form):
    """Those of the problem in double precision, for A alone and for A and b."""
    grid = ms.datasets.grid2d(3, 3, **({} if form == "pin" else {"boundary": "dirichlet"})).tocoo()
    indices = torch.from_numpy(np.stack([grid.row, grid.col]).astype(np.int64))
    given = torch.linspace(-1, 1, int(np.prod(shape)), dtype=torch.float64).reshape(shape)
    options = {"fixed": {"fixed": [0, 4]}, "pin": {"pin": True}}.get(form, {})
    for with_b in (False, True):
        found = []
        for dtype in (torch.float32, torch.float64):
            values, b = torch.from_numpy(grid.data).to(dtype).requires_grad_(), given.to(dtype).requires_grad_(with_b)
            A = (indices, values) if form in ("pair", "solver", *options) or options else torch.sparse_coo_tensor(indices, values, (9, 9))
            A = A.to_sparse_csr() if form == "csr" else A
            x = ms.torch.Solver(method)(A, b) if form == "solver" else ms.torch.solve(A, b, method, **options)
            x.pow(3).sum().backward()
            assert x.dtype == dtype and values.grad.dtype == dtype
            found.append([x.detach(), values.grad, *([b.grad] if with_b else [])])
        for single, double in zip(*found, strict=True):
            assert (single.double() - double).abs().max() <= 1e-4 * double.abs().max()


@each("name", ["logdet", "eigsh", "eigsh with M", "cotan_laplacian", "mass_matrix", "mcf", "complex"])
def test_gradients_of_the_other_functions_in_single_precision(name):
    ball, found = ms.datasets.icosphere(0), []
    V, F = torch.from_numpy(ball.vertices + 0.1 * np.random.default_rng(0).random((12, 3))), torch.from_numpy(ball.faces.astype(np.int64))
    weight = torch.linspace(0.5, 1.5, 240, dtype=torch.float64)

    def loss(V):
        i, v = ms.torch.cotan_laplacian(V, F)
        j, m = ms.torch.mass_matrix(V, F)
        A = torch.cat([i, j], 1), torch.cat([v, m])
        if name == "complex":
            b = torch.complex(V, V.flip(0))
            return ms.torch.solve((A[0], torch.complex(A[1], 0.1 * A[1] ** 2)), b).abs().square().sum()
        return {"logdet": lambda: ms.torch.logdet(A), "eigsh": lambda: ms.torch.eigsh(A, 3)[0].sum(), "mcf": lambda: ms.torch.mcf(V, F, 2).pow(3).sum(),
                "eigsh with M": lambda: ms.torch.eigsh(A, 3, (j, m))[0].sum(), "cotan_laplacian": lambda: (v * weight[:len(v)].to(v.dtype)).sum(),
                "mass_matrix": lambda: (m * weight[:len(m)].to(m.dtype)).sum()}[name]()

    for dtype in (torch.float32, torch.float64):
        x = V.to(dtype).requires_grad_()
        result = loss(x)
        assert result.dtype == dtype
        result.backward()
        found.append(x.grad.double())
    assert (found[0] - found[1]).abs().max() <= 1e-4 * found[1].abs().max()


def test_a_singular_matrix_names_the_options_of_the_same_call():
    indices, values = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1]]), torch.tensor([1.0, -1.0, -1.0, 1.0], requires_grad=True)
    for solve in (ms.torch.solve, ms.torch.Solver()):
        with pytest.raises(ms.SingularMatrixError, match=r"pin=True.*fixed=.*method=\"ldl\"") as error:
            solve((indices, values), torch.tensor([1.0, -1.0]))
        assert "cholesky(" not in str(error.value)
    ms.torch.solve((indices, values), torch.tensor([1.0, -1.0]), pin=True).pow(2).sum().backward()
    assert torch.allclose(values.grad, torch.tensor([-0.25, 0.25, 0.25, -0.25]))


def test_steps_of_an_optimizer_refactor():
    """Conductances from potentials: one analysis, one factorization per step, none in the backward pass."""
    L = ms.datasets.grid2d(6, 6)
    half = sp.coo_array(sp.tril(L, -1))
    a, b = (torch.from_numpy(part.astype(np.int64)) for part in half.coords)
    d = torch.arange(36)
    indices = torch.stack([torch.cat([a, b, a, b, d]), torch.cat([b, a, a, b, d])])
    ground = torch.full((36,), 0.1, dtype=torch.float64)
    rhs = torch.from_numpy(np.random.default_rng(0).standard_normal((36, 30)))
    target = ms.torch.solve((indices, torch.cat([-torch.ones(2 * len(a)), torch.ones(2 * len(a)), ground])), rhs)
    log_w = torch.zeros(len(a), dtype=torch.float64).uniform_(-1, 1, generator=torch.Generator().manual_seed(0)).requires_grad_()
    solver, optimizer, losses = ms.torch.Solver(), torch.optim.Adam([log_w], 0.1), []
    for _ in range(40):
        optimizer.zero_grad()
        w = log_w.exp()
        loss = (solver((indices, torch.cat([-w, -w, w, w, ground])), rhs) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 1e-2 * losses[0]
    assert solver.analyses == 1 and solver.factorizations == 40 and solver.factor.report.facts["method"] == "cholesky"


def test_a_late_backward_factors_its_own_matrix_again():
    indices, values, b = problem("real")
    other = (values.detach() * torch.linspace(1, 2, len(values), dtype=torch.float64)).requires_grad_()
    solver = ms.torch.Solver()
    first, second = solver((indices, values), b), solver((indices, other), b)
    late, = torch.autograd.grad(first.square().sum(), values)
    alone, = torch.autograd.grad(ms.torch.solve((indices, values), b).square().sum(), values)
    assert torch.allclose(late, alone, rtol=1e-12) and solver.factorizations == 3 and solver.analyses == 1
    after, = torch.autograd.grad(second.square().sum(), other)
    alone, = torch.autograd.grad(ms.torch.solve((indices, other), b).square().sum(), other)
    assert torch.allclose(after, alone, rtol=1e-12)


def test_values_may_change_between_solve_and_step():
    indices, values, b = problem("real")
    solver = ms.torch.Solver()
    for _ in range(3):
        x = solver((indices, values), b.detach())
        expected = torch.linalg.solve(dense(indices, values.detach()), b.detach())
        assert torch.allclose(x, expected)
        with torch.no_grad():
            values.mul_(1.5)
    assert solver.analyses == 1


def test_another_kind_of_matrix_gets_another_factor():
    solver, d = ms.torch.Solver(), torch.arange(3)
    indices, b = torch.stack([torch.cat([d, d]), torch.cat([d, d.roll(1)])]), torch.ones(3, dtype=torch.float64)
    seen = []
    for off in ([0.0, 0, 0], [1.0, 0, 0], [0, 0, 0], [1, 2, 3]):
        values = torch.tensor([3.0, -3, 3, *off] if off == [0, 0, 0] and seen else [3.0, 3, 3, *off], dtype=torch.float64)
        x = solver((indices, values), b)
        assert torch.allclose(torch.zeros(3, 3, dtype=torch.float64).index_put(tuple(indices), values) @ x, b)
        seen.append(solver.factor.report.facts["method"])
    assert seen[:2] == ["cholesky", "lu"] and solver.analyses <= 3


def test_a_singular_matrix_after_a_regular_one_is_refused():
    solver, indices = ms.torch.Solver("auto"), torch.tensor([[0, 1, 0, 1], [0, 1, 1, 0]])
    b = torch.ones(2, dtype=torch.float64)
    solver((indices, torch.tensor([1.0, -1, 0, 0], dtype=torch.float64)), b)
    with pytest.raises(ms.SingularMatrixError):
        solver((indices, torch.tensor([1.0, 1, 1, 1], dtype=torch.float64)), b)
    assert torch.allclose(solver((indices, torch.tensor([2.0, 2, 0, 0], dtype=torch.float64)), b), b / 2)


EDGES = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])


def laplacian(weights, directed=0.0):
    """Entries of the Laplacian of a graph of four vertices; ``directed`` circulates along its outer edges, so rows and columns sum to 0."""
    (r, c), ring = EDGES, torch.tensor([1.0, 1, 1, 1, 0], dtype=torch.float64) * directed
    values = torch.cat([-weights - ring, -weights, weights + ring, weights])
    return torch.stack([torch.cat([r, c, r, c]), torch.cat([c, r, r, c])]), values


@pytest.mark.parametrize("method, directed", [("auto", 0.0), ("cholesky", 0.0), ("ldl", 0.0), ("lu", 0.3)])
def test_pinned_laplacians_have_solutions_of_mean_zero_and_gradients(method, directed):
    weights = torch.tensor([1.0, 2, 3, 4, 5], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([1.0, -2, 0.5, 0.5], dtype=torch.float64, requires_grad=True)

    def solved(weights, b):
        return ms.torch.solve(laplacian(weights, directed), b - b.mean(), method, pin=True)

    x, A = solved(weights, b), torch.sparse_coo_tensor(*laplacian(weights, directed), (4, 4)).to_dense()
    assert torch.allclose(A @ x, b) and abs(x.mean()) < 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("error")                  # gradients with a mean give no warning
        assert torch.autograd.gradcheck(solved, (weights, b))
    solver = ms.torch.Solver(method, pin=True)
    for scale in (1, 2):
        assert torch.allclose(scale * solver(laplacian(scale * weights, scale * directed), b), x)
    assert solver.analyses == 1 and solver.factorizations == 2


def test_a_pin_needs_a_singular_matrix_and_b_in_its_range():
    weights, b = torch.ones(5, dtype=torch.float64), torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
    with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
        ms.torch.solve(laplacian(weights), b, pin=True)
    with pytest.raises(ms.NotLaplacianError, match="row 0 of A sums to 1"):
        ms.torch.solve(EYE, ONES, pin=True)
    with pytest.raises(ms.InvalidInputError, match="pin must be"):
        ms.torch.Solver(pin=2)


EYE, ONES = (torch.tensor([[0, 1], [0, 1]]), torch.ones(2)), torch.ones(2)


@pytest.mark.parametrize("A, b, says", [
    (EYE, np.ones(2), "b must be a dense tensor, got ndarray"), (EYE, torch.ones(2, 1, 1), "b must be (n,)"),
    (EYE, torch.ones(2).double(), "the same dtype"), (torch.eye(2), ONES, "sparse COO, CSR or CSC tensor"), (sp.eye_array(2), ONES, "got dia_array"),
    (torch.ones(2, 3).to_sparse(), ONES, "square"), ((EYE[0].float(), ONES), ONES, "integers"), ((EYE[0] + 1, ONES), ONES, "outside 0..1"),
    ((EYE[0], torch.ones(3)), ONES, "(2, nnz)"), (EYE, torch.ones(2).to_sparse(), "dense tensor"), (EYE, torch.full((2,), torch.nan), "row 0 holds nan"),
    (torch.eye(3).to_sparse(), ONES, "(3,) or (3, k)"), ((EYE[0], ONES.half()), ONES.half(), "got torch.float16"),
    ((EYE[0], ONES.bfloat16()), ONES.bfloat16(), "got torch.bfloat16"), ((EYE[0], ONES.int()), ONES.int(), "got torch.int32"),
])
def test_wrong_shapes_are_refused(A, b, says):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ms.InvalidInputError) as caught:
            ms.torch.solve(A, b)
    assert says in str(caught.value)


def test_the_error_without_pytorch(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ms.InvalidInputError, match="pip install torch"):
        ms.torch.solve(EYE, ONES)


# ---- determinants -----------------------------------------------------------------------------------------------------------

def definite(seed=0):
    """(i, j, weights) of both triangles of a definite matrix and of its diagonal, each from separate variables."""
    upper = sp.triu(ms.datasets.grid2d(5, 4), 1).tocoo()
    i, j = map(torch.from_numpy, (upper.row.astype(np.int64), upper.col.astype(np.int64)))
    d = torch.arange(20)
    rng = np.random.default_rng(seed)
    w = torch.from_numpy(rng.uniform(0.5, 2, len(i))).requires_grad_()
    diagonal = torch.from_numpy(rng.uniform(10, 12, 20)).requires_grad_()
    return torch.stack([torch.cat([i, j, d]), torch.cat([j, i, d])]), w, diagonal


def test_logdet_has_its_value_and_gradient():
    indices, w, diagonal = definite()
    logdet = lambda w, d: ms.torch.logdet((indices, torch.cat([-w, -w, d])))
    full = torch.zeros((20, 20), dtype=torch.float64).index_put(tuple(indices), torch.cat([-w, -w, diagonal]).detach())
    assert logdet(w, diagonal).item() == pytest.approx(torch.logdet(full).item(), rel=1e-12)
    assert torch.autograd.gradcheck(logdet, (w, diagonal))


def test_logdet_of_sparse_tensors_and_float32():
    indices, w, diagonal = definite()
    A = torch.sparse_coo_tensor(indices, torch.cat([-w, -w, diagonal]).detach().float(), (20, 20)).coalesce().requires_grad_()
    value = ms.torch.logdet(A)
    assert value.dtype == torch.float32 and value.shape == ()
    value.backward()
    inverse = torch.linalg.inv(A.detach().to_dense())
    assert torch.allclose(A.grad.coalesce().values(), inverse[tuple(A.indices())], rtol=1e-5)
    assert ms.torch.logdet(A.detach().to_sparse_csr()).item() == value.item()


def test_a_likelihood_factors_each_matrix_once():
    indices, w, diagonal = definite()
    solver, b = ms.torch.Solver(), torch.ones(20, dtype=torch.float64)
    for step in range(3):
        values = torch.cat([-w, -w, diagonal + step])
        loss = b @ solver((indices, values), b) - solver.logdet((indices, values))
        loss.backward()
    assert solver.analyses == 1 and solver.factorizations == 3
    again = lambda w, d: b @ solver((indices, torch.cat([-w, -w, d])), b) - solver.logdet((indices, torch.cat([-w, -w, d])))
    assert torch.autograd.gradcheck(again, (w, diagonal))


def test_the_gradient_of_logdet_is_no_constant():
    indices, w, diagonal = definite()
    values = torch.cat([-w, -w, diagonal])
    g, = torch.autograd.grad(ms.torch.logdet((indices, values)), diagonal, create_graph=True)
    with pytest.raises(ms.InvalidInputError, match="differentiated again"):
        (g.sum() + diagonal.sum()).backward()


def test_logdet_has_gradients_at_stored_zeros():
    i = torch.tensor([[0, 1, 2, 0, 1, 1, 2, 0, 2, 1, 0, 2], [0, 1, 2, 1, 0, 2, 1, 2, 0, 1, 2, 0]])
    v = torch.tensor([3.0, 2.0, 4.0, -1.0, -1.0, -1.0, -1.0, 0.0, 0.5, 1.0, 0.0, -0.5], dtype=torch.float64, requires_grad=True)
    ms.torch.logdet((i, v)).backward()
    inverse = np.linalg.inv([[3, -1, 0], [-1, 3, -1], [0, -1, 4]])
    np.testing.assert_allclose(v.grad.numpy(), inverse[tuple(i.numpy())], rtol=1e-13)


def test_a_determinant_survives_later_matrices():
    indices, w, diagonal = definite()
    solver, values = ms.torch.Solver("cholesky"), torch.cat([-w, -w, diagonal]).detach().requires_grad_()
    larger = torch.cat([indices, torch.tensor([[20], [20]])], 1), torch.cat([2 * values.detach(), torch.ones(1, dtype=torch.float64)])
    first = solver.logdet((indices, values))
    solver.logdet(larger)                                       # other values and another size
    (3 * first).backward()
    full = torch.zeros((20, 20), dtype=torch.float64).index_put(tuple(indices), values.detach())
    assert torch.allclose(values.grad, 3 * torch.linalg.inv(full)[tuple(indices)], rtol=1e-10)


def test_logdet_refuses_indefinite_matrices():
    i = torch.tensor([[0, 1], [0, 1]])
    with pytest.raises(ms.NotPositiveDefiniteError):
        ms.torch.logdet((i, torch.tensor([1.0, -1.0])))
    with pytest.raises(ms.InvalidInputError, match="positive definite"):
        ms.torch.Solver("lu").logdet((i, torch.tensor([1.0, 1.0])))
    with pytest.raises(ms.InvalidInputError):
        ms.torch.logdet((i, torch.tensor([1.0, 1.0j])))
    with pytest.raises(ms.NotSymmetricError):
        ms.torch.logdet((torch.tensor([[0, 0, 1], [0, 1, 1]]), torch.tensor([2.0, 1.0, 2.0])))
    with pytest.raises(ms.InvalidInputError, match="outside 0..1"):
        ms.torch.logdet((torch.tensor([[0, -1], [0, 1]]), torch.tensor([2.0, 1.0])))
    with pytest.raises(ms.InvalidInputError):
        ms.torch.logdet((torch.zeros((2, 0), dtype=torch.int64), torch.zeros(0)))


# ---- transforms, compiled functions, second derivatives ------------------------------------------------------------------------

POINT = torch.tensor([2.0, 3.0, 4.0, 0.5, 1.0], dtype=torch.float64)
ENTRIES = torch.tensor([[0, 1, 2, 0, 0], [0, 1, 2, 1, 0]])            # the first and the last are the same entry of A
RIGHT = torch.tensor([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]], dtype=torch.float64)
func = torch.func


def mine(v, b):
    return ms.torch.solve((ENTRIES, v), b)


def plain(v, b):
    """The same by dense arithmetic that PyTorch differentiates."""
    x2, x1 = b[2] / v[2], b[1] / v[1]
    return torch.stack([(b[0] - v[3] * x1) / (v[0] + v[4]), x1, x2])


def energy(f):
    return lambda v, b=RIGHT[0]: f(v, b).pow(3).sum()


BATCH = torch.stack([POINT, 2 * POINT])
TRANSFORMS = {
    "grad": lambda f: func.grad(energy(f), argnums=(0, 1))(POINT, RIGHT[0]),
    "vmap of b": lambda f: func.vmap(lambda b: f(POINT, b))(RIGHT), "vmap of columns": lambda f: func.vmap(lambda b: f(POINT, b), 1, 1)(RIGHT.T),
    "vmap of blocks": lambda f: func.vmap(lambda b: f(POINT, b))(torch.stack([RIGHT.T, 2 * RIGHT.T])), "vmap of A": lambda f: func.vmap(lambda v: f(v, RIGHT[0]))(BATCH),
    "vmap of both": lambda f: func.vmap(f)(BATCH, RIGHT), "vmap of vmap": lambda f: func.vmap(lambda v: func.vmap(lambda b: f(v, b))(RIGHT))(BATCH),
    "jacrev": lambda f: func.jacrev(f, argnums=(0, 1))(POINT, RIGHT[0]), "jacfwd": lambda f: func.jacfwd(f, argnums=(0, 1))(POINT, RIGHT[0]),
    "jvp": lambda f: func.jvp(f, (POINT, RIGHT[0]), (POINT.flip(0), RIGHT[1])), "hessian": lambda f: func.hessian(energy(f))(POINT),
    "reverse twice": lambda f: func.jacrev(func.jacrev(energy(f)))(POINT), "reverse of forward": lambda f: func.jacrev(func.jacfwd(energy(f)))(POINT),
    "third": lambda f: func.jacrev(func.hessian(energy(f)))(POINT), "vmap of grad": lambda f: func.vmap(func.grad(energy(f), argnums=(0, 1)))(BATCH, RIGHT),
    "grad of vmap": lambda f: func.grad(lambda v: func.vmap(lambda b: f(v, b))(RIGHT).pow(2).sum())(POINT),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    ours, theirs = TRANSFORMS[name](mine), TRANSFORMS[name](plain)
    pairs = zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]
    assert all(torch.allclose(x, y, rtol=1e-9) for x, y in pairs)


def test_a_batch_of_right_hand_sides_is_one_block():
    solver, shapes = ms.torch.Solver(), []
    solver((ENTRIES, POINT), RIGHT[0])
    solve = solver.factor.solve
    solver.factor.solve = lambda b, **options: shapes.append(b.shape) or solve(b, **options)
    func.vmap(lambda b: solver((ENTRIES, POINT), b))(RIGHT)
    assert shapes == [(3, 2)] and solver.factorizations == 1


def test_transforms_of_complex_solves():
    def solve(f, v):
        v = torch.view_as_complex(v)
        return torch.view_as_real(f(v, RIGHT[0] + 0j))
    v = torch.view_as_real(POINT * (1 + 0.3j)).clone()
    for jacobian in (func.jacrev, func.jacfwd):
        assert torch.allclose(jacobian(lambda v: solve(mine, v))(v), func.jacrev(lambda v: solve(plain, v))(v), rtol=1e-9)


def spd_entries(v):
    return torch.tensor([[0, 1, 2, 0, 1], [0, 1, 2, 1, 0]]), torch.cat([v[:4], v[3:4]])


def test_transforms_of_determinants():
    ours, theirs = lambda v: ms.torch.logdet(spd_entries(v)), lambda v: ((v[0] * v[1] - v[3] ** 2) * v[2]).log()
    for transform in (lambda f: func.grad(f)(POINT), lambda f: func.vmap(f)(BATCH), lambda f: func.jvp(f, (POINT,), (POINT.flip(0),))[1],
                      lambda f: func.vmap(func.grad(f))(BATCH)):
        assert torch.allclose(transform(ours), transform(theirs), rtol=1e-9)
    for hessian in (func.hessian, lambda f: lambda v: torch.autograd.functional.hessian(f, v),
                    lambda f: lambda v: torch.autograd.functional.hessian(lambda v: ms.torch.logdet(torch.sparse_coo_tensor(*spd_entries(v), (3, 3))), v)):
        with pytest.raises(ms.InvalidInputError, match="gradient of logdet cannot be differentiated again"):
            hessian(ours)(POINT)


def test_unsupported_transforms_are_refused():
    with pytest.raises(ms.InvalidInputError, match="forward-mode derivative of a forward-mode"):
        func.jacfwd(func.jacfwd(energy(mine)))(POINT)
    with pytest.raises(ms.InvalidInputError, match="forward-mode derivative of a forward-mode"):
        func.jacfwd(func.jacfwd(lambda v: ms.torch.logdet(spd_entries(v))))(POINT)
    with pytest.raises(ms.InvalidInputError, match="vectorize=True.*torch.func"):
        torch.autograd.functional.jacobian(lambda v: mine(v, RIGHT[0]), POINT, vectorize=True)


def compiled_and_eager(call, *arguments, **options):
    """Compare value and gradients of a compiled function with those of the function."""
    torch.compiler.reset()
    found = []
    for f in (call, torch.compile(call, backend="aot_eager", **options)):
        given = [part.detach().clone().requires_grad_() for part in arguments]
        y = f(*given)
        y.backward()
        found.append((y.detach(), *(part.grad for part in given)))
    torch.compiler.reset()
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


SOLVER = ms.torch.Solver()
MASSES = torch.stack([torch.arange(3)] * 2)
BALL = ms.datasets.icosphere(0)
VERTICES, FACES = torch.from_numpy(BALL.vertices * np.linspace(0.8, 1.2, 12)[:, None]), torch.from_numpy(BALL.faces.astype(np.int64))
IN_GRAPHS = {
    "solve": (lambda v, b: ms.torch.solve((ENTRIES, v * 2), b).pow(2).sum(), POINT, RIGHT[0]),
    "lu": (lambda v, b: ms.torch.solve((ENTRIES, v * 2), b, "lu", 1).pow(2).sum(), POINT, RIGHT[0]),
    "solver": (lambda v, b: SOLVER((ENTRIES, v * 2), b.T).pow(2).sum(), POINT, RIGHT),
    "logdet": (lambda v: ms.torch.logdet(spd_entries(v)) * 2, POINT),
    "eigsh": (lambda v, m: ms.torch.eigsh(spd_entries(v), 2, (MASSES, m), n=3)[0].pow(2).sum(), POINT, POINT[:3]),
    "laplacian": (lambda V: ms.torch.cotan_laplacian(V, FACES)[1].pow(2).sum() + ms.torch.mass_matrix(V, FACES)[1].prod(), VERTICES),
    "flow": (lambda V: ms.torch.mcf(V, FACES, 2, 0.1).pow(2).sum(), VERTICES),
    "flow by automatic steps": (lambda V: ms.torch.mcf(V, FACES).pow(2).sum(), VERTICES),
}


@pytest.mark.parametrize("name", [name if name == "solve" else pytest.param(name, marks=pytest.mark.slow) for name in IN_GRAPHS])
def test_compiled_functions_are_one_graph(name):
    call, *arguments = IN_GRAPHS[name]
    compiled_and_eager(call, *arguments, fullgraph=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["solve", "logdet", "eigsh"])
def test_compiled_transforms(name):
    call, *arguments = IN_GRAPHS[name]
    for transform, given in ((func.grad, arguments), (func.vmap, [torch.stack([part, 1.5 * part]) for part in arguments])):
        torch.compiler.reset()
        transformed = lambda *parts, t=transform: t(call)(*parts)
        assert torch.allclose(torch.compile(transformed, backend="aot_eager", fullgraph=True)(*given), transform(call)(*given), rtol=1e-12)
    torch.compiler.reset()


@pytest.mark.slow
def test_sparse_tensors_and_fixed_rows_interrupt_the_graph():
    compiled_and_eager(lambda v, b: ms.torch.solve(torch.sparse_coo_tensor(ENTRIES, v * 2, (3, 3)), b).pow(2).sum(), POINT, RIGHT[0])
    compiled_and_eager(lambda v, b: ms.torch.solve(spd_entries(v), b, fixed=[1]).pow(2).sum(), POINT, RIGHT[0])
    for call in (lambda v: ms.torch.solve(spd_entries(v), RIGHT[0], fixed=[1]), lambda v: ms.torch.eigsh(spd_entries(v), 1)[0]):
        torch.compiler.reset()
        with pytest.raises(Exception, match="disable|needs n="):
            torch.compile(call, backend="aot_eager", fullgraph=True)(POINT)
    torch.compiler.reset()


@pytest.mark.slow
def test_errors_inside_a_compiled_function():
    torch.compiler.reset()
    compiled = torch.compile(lambda i, v, b: ms.torch.solve((i, v), b), backend="aot_eager", fullgraph=True)
    with pytest.raises(ms.InvalidInputError, match="outside 0..2"):
        compiled(ENTRIES + 1, POINT, RIGHT[0])
    corners = torch.compile(lambda V, F: ms.torch.mass_matrix(V, F)[1], backend="aot_eager", fullgraph=True)
    with pytest.raises(ms.InvalidInputError, match="outside 0..11"):
        corners(VERTICES, FACES + 1)
    torch.compiler.reset()


def test_a_copied_solver_has_a_name_of_its_own():
    other = copy.deepcopy(SOLVER)
    assert other._name != SOLVER._name and torch.allclose(pickle.loads(pickle.dumps(other))((ENTRIES, POINT), RIGHT[0]), mine(POINT, RIGHT[0]))


def made(v):
    return torch.sparse_coo_tensor(ENTRIES, v, (3, 3))


ONE = torch.eye(3, dtype=torch.float64).to_sparse()
TENSORS = {
    "coo": made, "coalesced": lambda v: made(v).coalesce(), "csr": lambda v: made(v).to_sparse_csr(), "csc": lambda v: made(v).to_sparse_csc(),
    "transposed": lambda v: made(v).t().t(), "scaled": lambda v: 3 * made(v) / 3, "sum": lambda v: (made(v) + made(v)) / 2, "computed": lambda v: made(v * 1),
    "dense": lambda v: made(v).to_dense().to_sparse(), "dense csr": lambda v: made(v).to_dense().to_sparse_csr(),
    "from dense": lambda v: torch.zeros(3, 3, dtype=v.dtype).index_put(tuple(ENTRIES), v, accumulate=True).to_sparse_csr(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TENSORS)
def test_derivatives_of_any_order_go_through_sparse_tensors(name):
    """PyTorch's derivative of sparse_coo_tensor is a constant, which would give a zero Hessian."""
    functional = torch.autograd.functional
    ours, theirs = (energy(f) for f in (lambda v, b: ms.torch.solve(TENSORS[name](v), b), plain))
    assert torch.allclose(functional.jacobian(ours, POINT), functional.jacobian(theirs, POINT), rtol=1e-9)
    assert torch.allclose(functional.hessian(ours, POINT), functional.hessian(theirs, POINT), rtol=1e-9)
    third = [functional.jacobian(lambda v, f=f: functional.hessian(f, v, create_graph=True), POINT) for f in (ours, theirs)]
    assert torch.allclose(*third, rtol=1e-9)


@pytest.mark.parametrize("make, node", [
    (lambda v: torch.sparse_csr_tensor(torch.tensor([0, 2, 3, 4]), torch.tensor([0, 1, 1, 2]), torch.stack([v[0] + v[4], v[3], v[1], v[2]]), (3, 3)), "SparseCompressed"),
    (lambda v: torch.sparse.mm(made(v), ONE), "Matmul"),
], ids=["csr of values", "product"])
def test_second_derivatives_lost_by_pytorch_are_refused(make, node):
    functional = torch.autograd.functional
    try:
        gradient = functional.jacobian(lambda v: energy(lambda v, b: ms.torch.solve(make(v), b))(v), POINT)
    except RuntimeError as e:                               # raised by older versions of PyTorch
        assert "not implemented" in str(e)
        return
    assert torch.allclose(gradient, functional.jacobian(energy(plain), POINT), rtol=1e-9)
    with pytest.raises(ms.InvalidInputError, match=f"loses second derivatives of the sparse tensor A .*{node}.*pass \\(indices, values\\)"):
        functional.hessian(lambda v: energy(lambda v, b: ms.torch.solve(make(v), b))(v), POINT)


def test_every_layout_is_solved_with():
    D = made(POINT).to_dense()
    for A in (made(POINT), D.to_sparse_csr(), D.to_sparse_csc(), D.to_sparse_bsr((1, 3)), D.to_sparse_bsc((3, 1))):
        assert torch.allclose(ms.torch.solve(A, RIGHT[0]), plain(POINT, RIGHT[0]), rtol=1e-12)
    for A in (D.to_sparse_csr().requires_grad_(), D.to_sparse_csc().requires_grad_(), D.to_sparse().requires_grad_()):
        gradient, = torch.autograd.grad(ms.torch.solve(A, RIGHT[0]).sum(), A, create_graph=True)
        assert gradient.layout == A.layout and gradient.requires_grad
    with pytest.raises(ms.InvalidInputError, match="layout torch.sparse_bsr with gradients"):
        ms.torch.solve(D.to_sparse_bsr((1, 1)).requires_grad_(), RIGHT[0])
