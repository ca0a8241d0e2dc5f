"""The operators in CUDA against the C++ core: the same pattern, and on the harness, which does not fuse multiplications, the same bits."""

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness import Harness

import meshsolve as ms
from meshsolve import device
from meshsolve.operators import FLATTEST, CotanAssembler, assembler


def noisy(k, seed=0):
    sphere = ms.datasets.icosphere(k)
    return sphere.with_vertices(sphere.vertices + np.random.default_rng(seed).normal(0, 0.05, sphere.vertices.shape))


def fan(n=300):
    """A vertex of many neighbours, an edge with three faces, a face without area, vertices that no face names."""
    angle = np.linspace(0, 6, n)
    rim = np.stack([np.cos(angle), np.sin(angle), 0.1 * angle], axis=1)
    faces = [[0, k, k + 1] for k in range(1, n)] + [[0, 1, n + 1], [0, n + 2, 1], [2, 3, n + 3]]
    extra = np.array([[0.2, 0, 1], [0.2, 0, -1], (rim[1] + rim[2]) / 2, [5, 5, 5], [6, 6, 6]])
    return ms.Mesh(np.concatenate([[[0, 0, 0]], rim, extra]), faces)


MESHES = {"sphere": lambda: noisy(3), "fan": fan, "triangle": lambda: ms.Mesh(np.eye(3), [[0, 1, 2]]),
          "no faces": lambda: ms.Mesh(np.eye(3), np.zeros((0, 3), int)),
          "flat": lambda: ms.Mesh([[0, 0, 0], [1, 0, 0], [0.5, 1e-12, 0], [0, 0, 0]], [[0, 1, 2], [0, 3, 1]])}


def same(found, expected, exact):
    found = device.to_host(found)
    if exact:
        assert np.array_equal(found, expected)
    else:
        assert np.abs(found - expected).max(initial=0) <= 1e-13 * np.abs(expected).max(initial=1)


@pytest.mark.parametrize("name", MESHES)
def test_values_are_those_of_the_cpu(any_backend, name):
    mesh = MESHES[name]()
    here, there = CotanAssembler(mesh), assembler(mesh, place="cuda")
    for part in ("indptr", "indices", "diagonal"):
        same(getattr(there, part), getattr(here, part), True)
    for moved in (mesh.vertices, 1.5 * mesh.vertices[:, [1, 2, 0]]):
        x = device.to_device(np.ascontiguousarray(moved))
        for found, expected in zip(there.values(x), here.values(moved)):
            same(found, expected, any_backend is not None)
        assert there.mean_edge(x) == pytest.approx(here.mean_edge(moved), rel=1e-14)


@pytest.mark.parametrize("options", [dict(seed=1, block=32), dict(seed=2, block=96, resident=4)], ids=str)
def test_the_order_of_threads_changes_no_bit(options):
    mesh, results = noisy(2), []
    for harness in (Harness(), Harness(**options)):
        with device.use(harness):
            there = assembler(mesh, place="cuda")
            values, mass = there.values(mesh.vertices)
            results.append((values, mass, *there.squared(values, mass)))
    assert all(np.array_equal(a, b) for a, b in zip(*results))


@pytest.mark.sanitize
def test_every_kernel_on_something_small():
    mesh = noisy(1)
    with device.use(Harness(seed=1, block=32)) as harness:
        there = assembler(mesh, place="cuda")
        values, mass = there.values(mesh.vertices)
        there.squared(values, mass)
    assert {"k_faces", "k_gather", "k_rows", "k_reach", "k_square"} <= harness.launches.keys()


@pytest.mark.parametrize("name", ["sphere", "fan"])
def test_the_square_is_the_product(any_backend, name):
    mesh = MESHES[name]()
    there = assembler(mesh, place="cuda")
    data, mass = there.values(device.to_device(mesh.vertices))
    mass = device.to_device(np.maximum(device.to_host(mass), 1e-3))
    indptr, indices, values, diagonal = map(device.to_host, there.squared(data, mass))
    L = ms.cotan_laplacian(mesh)
    expected = sp.csr_array(L @ sp.diags_array(1 / device.to_host(mass)) @ L)
    found = sp.csr_array((values, indices, indptr), shape=L.shape)
    assert abs(found - expected).max() <= 1e-12 * abs(expected).max() and np.array_equal(found.toarray(), found.toarray().T)
    assert np.array_equal(values[diagonal], found.diagonal())


def test_matrices_that_lie_on_the_device(any_backend):
    mesh = noisy(2)
    for make in (ms.cotan_laplacian, ms.mass_matrix):
        there = make(mesh, device="cuda")
        found = sp.csr_array(there.get() if hasattr(there, "get") else there)
        assert abs(found - make(mesh)).max() <= 1e-13 * abs(found).max()


def test_what_the_gpu_does_not_make(any_backend):
    mesh = noisy(1)
    for call in (lambda: ms.cotan_laplacian(mesh, intrinsic_delaunay=True, device="cuda"),
                 lambda: ms.mass_matrix(mesh, "voronoi", device="cuda"), lambda: ms.mass_matrix(mesh, "consistent", device="cuda")):
        with pytest.raises(ms.DeviceUnavailableError, match="CPU only"):
            call()
    with pytest.raises(ms.InvalidInputError, match="device has to be"):
        ms.cotan_laplacian(mesh, device="gpu")


def test_products_beyond_all_room_are_refused(monkeypatch):
    from meshsolve.operators import cuda

    monkeypatch.setattr(cuda, "MOST_PRODUCTS", 100)
    with device.use(Harness()), pytest.raises(ms.OutOfMemoryError, match="bi-Laplacian"):
        there = cuda.DeviceAssembler(42, noisy(1).faces, FLATTEST)
        there.squared(*there.values(noisy(1).vertices))
