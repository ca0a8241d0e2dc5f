"""Mesh operators, mean curvature flow, eigenvalues, prescribed values and iterations in PyTorch: values and gradients."""

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve.operators import cotan_laplacian, mass_matrix

torch = pytest.importorskip("torch")


def tensors(mesh, dtype=torch.float64):
    return torch.from_numpy(mesh.vertices.copy()).to(dtype).requires_grad_(), torch.from_numpy(mesh.faces.astype(np.int64))


def bumpy(level=0):
    ball = ms.datasets.icosphere(level)
    return ball.with_vertices(ball.vertices + 0.1 * np.random.default_rng(0).standard_normal(ball.vertices.shape))


def matrix(entries, n):
    (rows, columns), values = (part.detach().numpy() for part in entries)
    return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=(n, n)))


@pytest.mark.parametrize("mesh", [bumpy(2), ms.Mesh([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 1, 3]])], ids=["bumpy", "flat"])
def test_operators_are_those_of_meshes(mesh):
    V, F = tensors(mesh)
    n = len(V)
    L, M = cotan_laplacian(mesh), mass_matrix(mesh)
    assert abs(matrix(ms.torch.cotan_laplacian(V, F), n) - L).max() <= 1e-12 * abs(L).max()
    assert abs(matrix(ms.torch.mass_matrix(V, F), n) - M).max() <= 1e-14 * abs(M).max()


def test_gradients_of_operators_and_of_the_flow_are_finite_differences():
    V, F = tensors(bumpy())
    assert torch.autograd.gradcheck(lambda V: ms.torch.cotan_laplacian(V, F)[1], V)
    assert torch.autograd.gradcheck(lambda V: ms.torch.mass_matrix(V, F)[1], V)
    assert torch.autograd.gradcheck(lambda V: ms.torch.mcf(V, F, steps=2, dt=0.1), V)
    weights = torch.linspace(0, 1, V.numel(), dtype=torch.float64).reshape(V.shape)
    assert torch.autograd.gradgradcheck(lambda V: (weights * ms.torch.mcf(V, F, dt=0.1)).sum(), V)


def test_gradients_of_flat_triangles_are_finite():
    V, F = tensors(ms.Mesh([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 1, 3]]))
    (ms.torch.cotan_laplacian(V, F)[1].square().sum() + ms.torch.mass_matrix(V, F)[1].sum()).backward()
    assert torch.isfinite(V.grad).all()


def test_the_flow_is_that_of_apps():
    mesh = bumpy(2)
    V, F = tensors(mesh)
    expected, _ = ms.apps.mcf(mesh, steps=2, dt=0.02)
    assert np.allclose(ms.torch.mcf(V, F, 2, 0.02).detach().numpy(), expected.vertices, atol=1e-12)
    assert ms.torch.mcf(*tensors(mesh, torch.float32), 1).dtype == torch.float32


@pytest.mark.parametrize("V, F, message", [
    (np.ones((3, 3)), None, "V must be an"), (torch.ones(3, 2), None, r"got torch.float32 \(3, 2\)"), (None, torch.ones(1, 3), "F must be an"),
    (None, torch.tensor([[0, 1, 3]]), "outside 0..2"), (torch.ones(3, 3).half(), None, "float16"), (None, torch.ones(1, 3).bool(), "integers"),
])
def test_wrong_meshes_are_refused(V, F, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        ms.torch.cotan_laplacian(torch.eye(3) if V is None else V, torch.tensor([[0, 1, 2]]) if F is None else F)


# ---- eigenvalues ------------------------------------------------------------------------------------------------------------


def path(weights, ends=0.1):
    """Entries of the Laplacian of a path, with ``ends`` added at both ends."""
    n = len(weights) + 1
    i, j, d = torch.arange(n - 1), torch.arange(1, n), torch.tensor([0, n - 1])
    rows, columns = torch.cat([i, j, i, j, d]), torch.cat([j, i, i, j, d])
    return torch.stack([rows, columns]), torch.cat([-weights, -weights, weights, weights, torch.full((2,), ends, dtype=weights.dtype)])


def test_gradients_of_eigenvalues():
    rng = np.random.default_rng(0)
    weights = torch.from_numpy(rng.uniform(1, 2, 19)).requires_grad_()
    masses = torch.from_numpy(rng.uniform(1, 2, 20)).requires_grad_()
    d = torch.arange(20)
    w, X = ms.torch.eigsh(path(weights), 4, ((torch.stack([d, d])), masses))
    A = matrix(path(weights), 20).toarray()
    assert torch.allclose(w, torch.linalg.eigvalsh(torch.from_numpy(A / np.sqrt(np.outer(*2 * [masses.detach().numpy()]))))[:4])
    assert not X.requires_grad and np.allclose(A @ X.numpy(), masses.detach().numpy()[:, None] * X.numpy() * w.detach().numpy())
    assert torch.autograd.gradcheck(lambda a, m: ms.torch.eigsh(path(a), 4, (torch.stack([d, d]), m))[0], (weights, masses))
    assert torch.autograd.gradcheck(lambda a: ms.torch.eigsh(path(a), 3)[0], weights)


def test_transforms_of_eigenvalues_and_operators():
    rng = np.random.default_rng(3)
    weights, d = torch.from_numpy(rng.uniform(1, 2, (2, 9))), torch.arange(10)
    energy = lambda a: ms.torch.eigsh(path(a), 3, (torch.stack([d, d]), 1 + a.new_ones(10)))[0].square().sum()
    alone = torch.stack([torch.func.grad(energy)(a) for a in weights])
    assert torch.allclose(torch.func.vmap(energy)(weights), torch.stack([energy(a) for a in weights]), rtol=1e-12)
    assert torch.allclose(torch.func.vmap(torch.func.grad(energy))(weights), alone, rtol=1e-12)
    jacobian = torch.func.jacrev(lambda a: ms.torch.eigsh(path(a), 3, n=10)[0])(weights[0])
    assert jacobian.shape == (3, 9) and torch.allclose(jacobian.sum(0), torch.func.grad(lambda a: ms.torch.eigsh(path(a), 3)[0].sum())(weights[0]))
    V, F = tensors(bumpy())
    V = torch.stack([V.detach(), 2 * V.detach()])
    flow = torch.func.vmap(lambda V: ms.torch.mcf(V, F))(V)
    assert torch.allclose(flow[1], 2 * flow[0]) and torch.allclose(flow[0], ms.torch.mcf(V[0], F))


def test_equal_eigenvalues_need_equal_weights():
    d = torch.arange(6)
    values = torch.tensor([1.0, 1, 2, 3, 3, 5], dtype=torch.float64, requires_grad=True)
    w = ms.torch.eigsh((torch.stack([d, d]), values), 3)[0]
    w.sum().backward()
    assert torch.allclose(values.grad, torch.tensor([1.0, 1, 1, 0, 0, 0], dtype=torch.float64))
    for k, loss in ((3, lambda w: w[1]), (4, lambda w: w.sum())):                # the second cuts the pair of 3
        with pytest.raises(ms.InvalidInputError, match="no derivatives of their own"):
            loss(ms.torch.eigsh((torch.stack([d, d]), values), k)[0]).backward()
    with pytest.raises(ms.InvalidInputError, match="cannot be differentiated again"):
        g, = torch.autograd.grad(ms.torch.eigsh((torch.stack([d, d]), values), 3)[0].sum(), values, create_graph=True)
        g.sum().backward()


def test_bad_eigenproblems():
    i = torch.stack([torch.arange(4)] * 2)
    ones = torch.ones(4, dtype=torch.float64)
    for A, M, message in (((i, ones.cfloat()), None, "real numbers"), ((i, ones), (i[:, :3], ones[:3]), r"M must be \(4, 4\)"),
                          ((i, ones), (i, ones.float()), "one dtype"), ((i, ones), (i, -ones), "definite")):
        with pytest.raises(ms.MeshsolveError, match=message):
            ms.torch.eigsh(A, 1, M)
    with pytest.raises(ms.InvalidInputError, match="k must be"):
        ms.torch.eigsh((i, ones), 4)


# ---- prescribed values, iterations ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 2])
def test_prescribed_values_have_gradients(k):
    rng = np.random.default_rng(1)
    weights, fixed = torch.from_numpy(rng.uniform(1, 2, 9)).requires_grad_(), [7, 2]
    b = torch.from_numpy(rng.standard_normal((10, k) if k else 10)).requires_grad_()
    prescribed = torch.from_numpy(rng.standard_normal((2, k) if k else 2)).requires_grad_()
    solved = lambda a, b, c: ms.torch.solve(path(a, 0.0), b, fixed=fixed, fixed_values=c)
    F = ms.cholesky(matrix(path(weights, 0.0), 10), fixed=fixed)
    assert np.allclose(solved(weights, b, prescribed).detach(), F.solve(b.detach().numpy(), fixed_values=prescribed.detach().numpy()))
    assert torch.autograd.gradcheck(solved, (weights, b, prescribed)) and torch.autograd.gradgradcheck(solved, (weights, b, prescribed))
    assert not ms.torch.solve(path(weights), b, fixed=range(10)).any() and not ms.torch.solve(path(weights), b, fixed=[3])[3].any()


def test_bad_prescribed_values():
    A, b = path(torch.ones(9, dtype=torch.float64)), torch.ones(10, dtype=torch.float64)
    for options, message in (({"fixed": [10]}, "outside 0..9"), ({"fixed": [1, 1]}, "more than once"), ({"fixed": [1], "pin": True}, "exclude"),
                             ({"fixed_values": b}, "needs fixed="), ({"fixed": [1], "fixed_values": b}, r"shape \(1,\)"),
                             ({"fixed": [1], "fixed_values": [1.0]}, "must be a tensor")):
        with pytest.raises(ms.InvalidInputError, match=message):
            ms.torch.solve(A, b, **options)


def test_solutions_by_iteration_have_implicit_gradients():
    weights = torch.from_numpy(np.random.default_rng(2).uniform(1, 2, 29)).requires_grad_()
    b = torch.ones((30, 2), dtype=torch.float64, requires_grad=True)
    solved = lambda a, b: ms.torch.solve(path(a, 0.5), b, "cg")
    assert torch.allclose(solved(weights, b), ms.torch.solve(path(weights, 0.5), b), rtol=1e-9)
    assert torch.autograd.gradcheck(solved, (weights, b))
    solver = ms.torch.Solver("cg", pin=True)
    for scale in (1, 2):
        x = solver(path(scale * weights, 0.0), b - b.mean(0) + torch.eye(30, 2).double() - 1 / 30)
    assert solver.analyses == 1 and solver.factorizations == 2 and abs(x.mean(0)).max() < 1e-12


def test_an_iteration_that_does_not_converge_is_an_error(monkeypatch):
    monkeypatch.setattr("meshsolve.gradients.factors.RTOL", 0.0)
    weights = torch.from_numpy(np.random.default_rng(2).uniform(1, 2, 29))
    with pytest.raises(ms.MeshsolveError, match="gradients would have this error"):
        ms.torch.solve(path(weights, 0.5), torch.ones(30, dtype=torch.float64), "cg")
