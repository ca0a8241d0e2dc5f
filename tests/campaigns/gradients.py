"""Attacks on the gradients of meshsolve.torch and meshsolve.jax. Without PyTorch or JAX their cases end at once."""

import functools
import importlib.util
import logging

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed

HAS_TORCH, HAS_JAX = (importlib.util.find_spec(name) is not None for name in ("torch", "jax"))


def matrix(rng, n, kind):
    """Entries (rows, columns, values) of a regular matrix of condition up to about 1e3, duplicates and stored zeros included."""
    A = np.where(rng.random((n, n)) < 3 / n, rng.standard_normal((n, n)), 0)
    if kind in ("definite", "indefinite"):
        A = A + A.T
        A += np.diag(np.abs(A).sum(axis=1) + 0.5) * (1 if kind == "definite" else np.where(rng.random(n) < 0.5, -1, 1))
    else:
        A += np.diag(np.abs(A).sum(axis=1) + 0.5)
    if kind == "complex":
        A = A + 1j * np.where(A != 0, rng.uniform(-0.2, 0.2, (n, n)), 0)
    C = sp.coo_array(A)
    rows, columns, values = C.coords[0], C.coords[1], C.data
    extra = np.unique(rng.integers(0, len(values), rng.integers(0, 4)))
    rows, columns = np.r_[rows, rows[extra]], np.r_[columns, columns[extra]]
    values = np.r_[values, values[extra] / 2]
    values[extra] /= 2
    if rng.random() < 0.3 and kind not in ("definite", "indefinite"):
        rows, columns, values = np.r_[rows, rng.integers(n)], np.r_[columns, rng.integers(n)], np.r_[values, 0]
    p = rng.permutation(len(values)) if kind == "general" else np.arange(len(values))
    return rows[p], columns[p], values[p]


@attack("torch.solve", "torch.Solver", "torch.logdet", quick=25)
def torch_solves(rng):
    """float32, float64, complex64, complex128; b (n,), (n, 1), (n, k), with and without a gradient; tensors of all layouts, Solver,
    prescribed rows; units. Oracle: autograd through torch.linalg.solve of the dense matrix in double precision."""
    if not HAS_TORCH:
        return
    import torch

    n, kind = max(axes.size(rng, 12), 2), str(rng.choice(["definite", "indefinite", "general", "complex"]))
    rows, columns, values = matrix(rng, n, kind)
    single, with_b = rng.random() < 0.5, rng.random() < 0.5
    double, dtype = (torch.complex128, torch.complex64) if kind == "complex" else (torch.float64, torch.float32)
    dtype = dtype if single else double
    unit = axes.unit(rng, 1e6 if single else 1e100)
    shape = [(n,), (n, 1), (n, 3)][rng.integers(3)]
    given = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if kind == "complex" else 0)
    how = str(rng.choice(["pair", "coo", "csr", "solver", "fixed", "logdet"]))
    how = "pair" if how == "logdet" and kind != "definite" or how == "csr" and kind == "complex" else how
    fixed = np.sort(rng.permutation(n)[:rng.integers(1, n)])
    index, found = torch.from_numpy(np.stack([rows, columns]).astype(np.int64)), []
    for ours in (True, False):
        v = torch.tensor(values * unit, dtype=dtype if ours else double, requires_grad=True)
        b = torch.tensor(given, dtype=dtype if ours else double, requires_grad=with_b)
        dense = functools.partial(torch.zeros((n, n), dtype=double).index_put, tuple(index), accumulate=True)
        with well_posed(f"{kind}, {dtype}, {shape}, {how}"):
            if how == "logdet":
                x = ms.torch.logdet((index, v)) if ours else torch.linalg.slogdet(dense(v))[1]
                loss = x
            elif how == "fixed":
                free = np.setdiff1d(np.arange(n), fixed)
                x = ms.torch.solve((index, v), b, fixed=fixed) if ours else torch.zeros_like(b).index_put(
                    (torch.from_numpy(free),), torch.linalg.solve(dense(v)[free][:, free], b[free]))
            elif ours:
                A = (index, v) if how in ("pair", "solver") else torch.sparse_coo_tensor(index, v, (n, n))
                A = A.to_sparse_csr() if how == "csr" else A
                x = (ms.torch.Solver() if how == "solver" else ms.torch.solve)(A, b)
            else:
                x = torch.linalg.solve(dense(v), b)
            loss = x if how == "logdet" else (x * unit * torch.linspace(1, 2, x.numel(), dtype=x.real.dtype).reshape(x.shape)).abs().square().sum()
            loss.backward()
        assert not ours or v.grad.dtype == dtype
        parts = [x.detach() if how == "logdet" else x.detach() * unit, v.grad * unit]
        found.append([part.to(double) for part in (*parts, *([b.grad] if with_b and how != "logdet" else []))])
    for mine, right in zip(*found, strict=True):
        error = float((mine - right).abs().max() / max(float(right.abs().max()), 1e-30))
        assert error <= (2e-3 if single else 1e-9), f"{kind}, {dtype}, {shape}, {how}: relative error {error:.2g}"


@attack("torch.cotan_laplacian", "torch.mass_matrix", "torch.mcf", "torch.eigsh", quick=8)
def torch_meshes(rng):
    """Spheres in units 1e-3 to 1e3, float32 and float64. Oracle: central differences of the same loss with numpy in double precision."""
    if not HAS_TORCH:
        return
    import torch

    V, F = axes.sphere(rng, 0)
    V = (V - V.mean(axis=0)) * 10.0 ** rng.integers(-3, 4)
    V = V + 0.1 * np.abs(V).max() * rng.random(V.shape)
    size, name, single = np.abs(V).max(), str(rng.choice(["cotan", "mass", "mcf", "eigsh"])), rng.random() < 0.5
    R = rng.standard_normal((len(V), len(V)))

    def loss(X):
        tensor = isinstance(X, torch.Tensor)
        if name == "mcf":
            dt = 0.05 * size ** 2
            x = ms.torch.mcf(X, torch.from_numpy(F.astype(np.int64)), 1, dt) if tensor else ms.apps.mcf(ms.Mesh(X, F), 1, dt)[0].vertices
            return (x * (torch.from_numpy(R[:, :3]).to(X.dtype) if tensor else R[:, :3])).sum() / size
        f = {"cotan": ms.cotan_laplacian, "eigsh": ms.cotan_laplacian, "mass": ms.mass_matrix}[name]
        if name == "eigsh":
            w = ms.torch.eigsh(ms.torch.cotan_laplacian(X, torch.from_numpy(F.astype(np.int64))), 4)[0] if tensor else \
                np.linalg.eigvalsh(f(ms.Mesh(X, F)).toarray())[:4]
            return w.sum()
        if not tensor:
            return (f(ms.Mesh(X, F)).toarray() * R).sum() / (size ** 2 if name == "mass" else 1)
        i, v = (ms.torch.cotan_laplacian if name == "cotan" else ms.torch.mass_matrix)(X, torch.from_numpy(F.astype(np.int64)))
        return (v * torch.from_numpy(R).to(X.dtype)[i[0], i[1]]).sum() / (size ** 2 if name == "mass" else 1)

    X = torch.tensor(V, dtype=torch.float32 if single else torch.float64, requires_grad=True)
    with well_posed(name):
        loss(X).backward()
    direction = rng.standard_normal(V.shape) * size
    step = 1e-5
    right = (loss(V + step * direction) - loss(V - step * direction)) / (2 * step)
    mine = float((X.grad.double().numpy() * direction).sum())
    scale = np.linalg.norm(X.grad.double().numpy()) * np.linalg.norm(direction)
    assert abs(mine - right) <= (2e-3 if single else 1e-6) * max(scale, abs(right)), f"{name}: {mine} instead of {right}"


@attack("jax.solve", quick=1)
def jax_solves(rng):
    """Padded BCOO and BCSR, pairs; float32, float64, integers, mixed types, with and without 64-bit numbers; jit, vmap. Oracle: jax.numpy.linalg
    of the dense matrix."""
    if not HAS_JAX:
        return
    import jax
    from jax.experimental.sparse import BCOO, BCSR

    logging.disable(logging.CRITICAL)
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", bool(rng.random() < 0.5))
    try:
        xp, n = jax.numpy, int(rng.choice([2, 3, 5]))       # few shapes: each is compiled
        D = rng.integers(-2, 3, (n, n))
        D = D + D.T + np.diag(np.abs(D + D.T).sum(axis=1) + 1)
        kinds = ["float64", "float32", "int32", "complex64"]
        D, b = xp.asarray(D.astype(rng.choice(kinds))), xp.asarray(rng.integers(-3, 4, [(n,), (n, 2)][rng.integers(2)]).astype(rng.choice(kinds)))
        how = str(rng.choice(["BCOO", "BCSR", "pair"]))
        stored = int((D != 0).sum()) + int(rng.integers(0, 4))
        A = BCOO.fromdense(D, nse=stored) if how == "BCOO" else BCSR.fromdense(D, nse=stored)
        A = (xp.asarray(np.stack(np.nonzero(D))), D[np.nonzero(D)]) if how == "pair" else A
        solve = (lambda b: ms.jax.solve(A, b)) if rng.random() < 0.5 else jax.jit(lambda b: ms.jax.solve(A, b))
        with well_posed(f"{how}, {D.dtype}, {b.dtype}"):
            x, right = solve(b), xp.linalg.solve(D, b)
        tolerance = 1e-10 if right.dtype.itemsize // (1 + (right.dtype.kind == "c")) == 8 else 1e-4
        assert x.dtype == right.dtype and np.allclose(x, right, rtol=tolerance, atol=tolerance), f"{how}, {D.dtype}, {b.dtype}: {x} instead of {right}"
        if D.dtype.kind == "f" and how != "pair" and b.dtype.kind == "f":
            made = (lambda data: BCOO((data, A.indices), shape=A.shape)) if how == "BCOO" else lambda data: BCSR((data, A.indices, A.indptr), shape=A.shape)
            g = jax.grad(lambda data: (ms.jax.solve(made(data), b) ** 2).sum())(A.data)
            y = np.linalg.solve(np.asarray(D, float).T, 2 * np.asarray(right, float))
            dense = -(y.reshape(n, -1) @ np.asarray(right, float).reshape(n, -1).T)
            rows = np.asarray(A.indices)[:, 0] if how == "BCOO" else np.searchsorted(np.asarray(A.indptr), np.arange(A.nse), side="right") - 1
            columns = np.asarray(A.indices)[:, 1] if how == "BCOO" else np.asarray(A.indices)
            inside = (rows < n) & (columns < n)
            expected = np.where(inside, dense[np.where(inside, rows, 0), np.where(inside, columns, 0)], 0)
            tolerance = 1e-10 if g.dtype == np.float64 and right.dtype == np.float64 else 1e-4
            assert np.allclose(g, expected, rtol=10 * tolerance, atol=10 * tolerance), f"{how}: gradient {g} instead of {expected}"
    finally:
        jax.config.update("jax_enable_x64", before)


@attack("jax.cotan_laplacian", "jax.mass_matrix", "jax.logdet", "jax.eigsh", "jax.mcf", quick=1)
def jax_meshes(rng):
    """A sphere with moved vertices in units of 1e-3 to 1e3. Oracle: central differences of the same number."""
    if not HAS_JAX:
        return
    import jax

    logging.disable(logging.CRITICAL)
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        xp, ball, unit = jax.numpy, ms.datasets.icosphere(0), 10.0 ** rng.uniform(-3, 3)
        n = len(ball.vertices)
        V = unit * (ball.vertices + rng.uniform(-0.15, 0.15, (n, 3)))
        weights, direction = rng.standard_normal((n, 3)), unit * rng.standard_normal((n, 3))

        def pencil(V):
            (i, stiff), (j, mass) = ms.jax.cotan_laplacian(V, ball.faces), ms.jax.mass_matrix(V, ball.faces)
            return i, stiff, j, mass / unit**2

        def determinant(V):
            i, stiff, j, mass = pencil(V)
            return ms.jax.logdet((xp.concatenate([i, j], axis=1), xp.concatenate([stiff, mass])), n)

        def eigenvalues(V):
            i, stiff, j, mass = pencil(V)
            return (ms.jax.eigsh((i, stiff), 4, n, (j, mass))[0] * xp.arange(4.0)).sum()

        def flow(V):
            return (ms.jax.mcf(V, ball.faces, 0.01 * unit**2, 2) / unit * weights).sum()

        loss = (determinant, eigenvalues, flow)[rng.integers(3)]
        with well_posed(f"{loss.__name__} in units of {unit:.1e}"):
            mine = float((jax.grad(loss)(xp.asarray(V)) * direction).sum())
            right = float(loss(xp.asarray(V + 1e-5 * direction)) - loss(xp.asarray(V - 1e-5 * direction))) / 2e-5
        assert abs(mine - right) <= 1e-5 * max(abs(right), 1), f"{loss.__name__} in units of {unit:.1e}: {mine} instead of {right}"
    finally:
        jax.config.update("jax_enable_x64", before)
