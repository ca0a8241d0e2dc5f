"""The choice of the engine: matrices that device="auto" leaves to the CPU, and cuDSS with our ordering, on a stand-in."""

import enum
import gc
import sys
import types

import numpy as np
import pytest
import scipy.sparse as sp
from cuda_cases import BOUND, close
from fake_cudss import CudaDataType, Cudss
from kernel_harness import Harness
from on_device import Sparse, to_cuda, to_numpy
from zoo import grid, spd

import meshsolve as ms
from meshsolve import device
from meshsolve.factor.fronts import cuda as fronts

# ---- matrices that "auto" leaves to the CPU ------------------------------------------------------------------------------------


def path(n):
    return sp.diags_array([np.full(n - 1, -1.0), np.full(n, 3.0), np.full(n - 1, -1.0)], offsets=[-1, 0, 1], format="csr")


def star(n, beams=1):
    """A center vertex, and groups of ``beams`` vertices joined to it and to each other."""
    parts = sp.block_diag([np.full((beams, beams), -1.0)] * (n // beams))
    hub = sp.csr_array(-np.ones((1, parts.shape[0])))
    return sp.csr_array(sp.block_array([[parts + (beams + 3) * sp.eye_array(parts.shape[0]), hub.T], [hub, sp.csr_array([[2.0 * n]])]]))


@pytest.mark.slow
@pytest.mark.parametrize("given", [sp.csr_array, sp.coo_array, Sparse])
def test_near_trees_are_factored_on_the_cpu_by_default(gpu, monkeypatch, given):
    monkeypatch.setattr(device, "AUTO_SIZE", 100)
    mesh = spd(grid(12, 11))
    for A, place in ((path(100), "cpu"), (star(100), "cpu"), (sp.eye_array(100), "cpu"), (mesh, "cuda"), (mesh.toarray(), "cuda")):
        for whole, options in ((A, {}), (sp.tril(A), {"lower": True})):
            for asked, expected in (("auto", place), ("cuda", "cuda")):
                F = ms.cholesky(whole if given is not Sparse and isinstance(A, np.ndarray) else given(whole), device=asked, **options)
                assert F.report.facts["device"] == expected
                assert np.allclose(A @ to_numpy(F.solve(to_cuda(np.ones(A.shape[0])))), 1)
        assert ms.lu(given(A)).report.facts["device"] == place
        x, info = ms.solve(given(A), np.ones(A.shape[0]))
        assert np.allclose(A @ x, 1) and info.report.facts["device"] == place


@pytest.mark.parametrize("A, ordering, limit", [(path(200) @ path(200), "natural", "DEEPEST"), (star(99, beams=3), "auto", "MOST_CHILDREN")],
                         ids=["a band", "a star of triangles"])
@pytest.mark.parametrize("given", [sp.csr_array, Sparse])
def test_deep_and_broad_trees_are_factored_on_the_cpu(gpu, monkeypatch, A, ordering, limit, given):
    monkeypatch.setattr(device, "AUTO_SIZE", 50)
    b, whole = to_cuda(np.ones(A.shape[0])), given(A)

    def places(**options):
        sym = ms.analyze(whole, ordering)
        for F in (ms.cholesky(whole, ordering, **options), ms.cholesky(whole, ordering, fixed=[0], **options), sym.factor(whole, **options)):
            rest = A @ to_numpy(F.solve(b)) - 1
            assert np.abs(rest[1:]).max() < 1e-12
            yield F.report.facts["device"]

    assert set(places()) == {"cuda"}
    monkeypatch.setattr(fronts, limit, 8)
    assert set(places()) == {"cpu"} and set(places(device="cuda")) == {"cuda"}


# ---- cuDSS ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cudss(monkeypatch):
    fake = Cudss()
    monkeypatch.setitem(sys.modules, "nvmath", types.SimpleNamespace(CudaDataType=CudaDataType, bindings=types.SimpleNamespace(cudss=fake)))
    monkeypatch.setitem(sys.modules, "nvmath.bindings", types.SimpleNamespace(cudss=fake))
    with device.use(Harness()):
        yield fake


@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_cudss_solves_in_our_ordering(cudss, precision):
    A, b = spd(grid(9, 8)), np.random.default_rng(0).standard_normal((72, 2))
    F = ms.cholesky(Sparse(A), backend="cudss", precision=precision)
    assert np.array_equal(cudss.perm, np.arange(72)) and cudss.log == ["ANALYSIS", "FACTORIZATION"]
    host = ms.cholesky(A, precision=precision, device="cpu")
    close(F.solve(to_cuda(b)), host.solve(b), BOUND[precision])
    F.refactor(2 * A)
    assert cudss.log.count("ANALYSIS") == 1
    close(F.solve(b[:, 0]), host.solve(b[:, 0]) / 2, BOUND[precision])
    assert F._factor.nnz == F.nnz, "the matrix did not arrive in our ordering"
    del F
    gc.collect()
    assert not cudss.alive


@pytest.mark.parametrize("name", ["USER_ND_PARTITION_TREE", "USER_ELIMINATION_TREE", None])
def test_cudss_gets_the_separator_tree(cudss, monkeypatch, name):
    """Under the name that its version has; without one it gets the ordering alone. Fill is that of our ordering."""
    names = ["USER_PERM", "INFO", "LU_NNZ", *([name] if name else [])]
    monkeypatch.setattr(cudss, "DataParam", enum.IntEnum("DataParam", names), raising=False)
    A = spd(grid(16, 15))
    perm, tree = dissected(16, 15)
    F = ms.cholesky(A, ordering=ms.order.Ordering(perm, "given", tree), backend="cudss")
    size = tree.partition(2)[0].tolist()
    found = None if cudss.tree is None else (cudss.tree_name, cudss.levels, cudss.tree.tolist())
    assert found == (name and (name, 2, size)) and len(size) == 3 and sum(size) == 240
    assert F.report.facts["cudss"] == "0.8.1" and F.report.facts["cudss_tree"] == name
    assert 0.99 * F.nnz < F._factor.nnz <= F.nnz          # a few entries of L are zero by cancellation
    close(F.solve(np.ones(240)), ms.cholesky(A, device="cpu").solve(np.ones(240)), 1e-13)


def dissected(rows, columns):
    """A grid cut in two by its middle column: (perm, SeparatorTree)."""
    number, middle = np.arange(rows * columns).reshape(rows, columns), columns // 2
    parts = [number[:, :middle].ravel(), number[:, middle + 1:].ravel(), number[:, middle]]
    ends = np.cumsum([len(part) for part in parts]).astype(np.int32)
    first = np.append(0, ends[:-1]).astype(np.int32)
    return np.concatenate(parts).astype(np.int32), ms.order.SeparatorTree(np.array([2, 2, -1], np.int32), first, ends)


def test_calls_that_cudss_does_not_support(cudss):
    A = spd(grid(9, 8))
    F = ms.cholesky(A, backend="cudss")
    for call in (lambda: F.solve(np.ones(72), system="L"), lambda: F.L, F.logdet, lambda: F.update(np.ones(72)), lambda: F.downdate(np.ones(72))):
        with pytest.raises(ms.InvalidInputError, match="native"):
            call()
    x = F.solve(np.ones(72))
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(-A)
    assert np.array_equal(F.solve(np.ones(72)), x)
    with pytest.raises(ms.InvalidInputError, match="cudss"):
        ms.cholesky(A, device="cpu", backend="cudss")


def test_the_error_without_cudss_names_the_package():
    with device.use(Harness()), pytest.raises(ms.DeviceUnavailableError, match="nvmath-python"):
        ms.cholesky(spd(grid(4, 4)), backend="cudss")
