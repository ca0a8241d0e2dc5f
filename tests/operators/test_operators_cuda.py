"""The operators in CUDA against the C++ core: the same pattern, and on the harness, which does not fuse multiplications, the same bits."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness import Harness

import meshsolve as ms
from meshsolve import device
from meshsolve.mesh.elements import FLATTEST
from meshsolve.operators import CotanAssembler, assembler


def noisy(k, seed=0):
    sphere = ms.datasets.icosphere(k)
    return sphere.with_vertices(sphere.vertices + np.random.default_rng(seed).normal(0, 0.05, sphere.vertices.shape))


def fan(n=300):
    """A vertex of high degree, an edge with three faces, a zero-area face, unreferenced vertices."""
    angle = np.linspace(0, 6, n)
    rim = np.stack([np.cos(angle), np.sin(angle), 0.1 * angle], axis=1)
    faces = [[0, k, k + 1] for k in range(1, n)] + [[0, 1, n + 1], [0, n + 2, 1], [2, 3, n + 3]]
    extra = np.array([[0.2, 0, 1], [0.2, 0, -1], (rim[1] + rim[2]) / 2, [5, 5, 5], [6, 6, 6]])
    return ms.Mesh(np.concatenate([[[0, 0, 0]], rim, extra]), faces)


def scattered(faces, n, seed=1):
    """Vertices at random positions, faces and vertices in random order."""
    rng = np.random.default_rng(seed)
    return ms.Mesh(rng.normal(size=(n, 3)), rng.permutation(n)[np.asarray(faces)[rng.permutation(len(faces))]])


def pages(count=3650):
    """An edge with more faces than a patch allows, and more faces at one of its ends."""
    k = np.arange(2, count + 2)
    return scattered(np.concatenate([np.stack([0 * k, 0 * k + 1, k], 1), np.stack([0 * k[1:], k[:-1], k[1:]], 1)]), count + 2)


def crossing():
    """Sheets that share edges and vertices: edges with up to eight faces, at which many patches meet."""
    i = np.arange(400).reshape(20, 20)
    a, b, c = i, np.roll(i, -1, 1), np.roll(i, -1, 0)
    sheet = np.stack([a, c, b], axis=-1).reshape(-1, 3)
    return scattered(np.concatenate([sheet, sheet[:, ::-1], np.roll(sheet, 1, 1), sheet]), 400)


MESHES = {"sphere": lambda: noisy(3), "fan": fan, "crossing": crossing, "triangle": lambda: ms.Mesh(np.eye(3), [[0, 1, 2]]),
          "no faces": lambda: ms.Mesh(np.eye(3), np.zeros((0, 3), int)),
          "flat": lambda: ms.Mesh([[0, 0, 0], [1, 0, 0], [0.5, 1e-12, 0], [0, 0, 0]], [[0, 1, 2], [0, 3, 1]]),
          "dust": lambda: ms.Mesh(1e-152 * np.eye(3), [[0, 1, 2]]),
          "a point": lambda: ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]], [[0, 1, 2], [0, 3, 4]])}


def same(found, expected, exact):
    found = device.to_host(found)
    if exact:
        assert np.array_equal(found, expected)
    else:
        assert np.abs(found - expected).max(initial=0) <= 1e-13 * np.abs(expected).max(initial=1)


@pytest.mark.parametrize("name", MESHES)
def test_values_are_those_of_the_cpu(any_backend, name):
    mesh = MESHES[name]()
    on_host, on_gpu = CotanAssembler(mesh), assembler(mesh, place="cuda")
    for part in ("indptr", "indices", "diagonal"):
        same(getattr(on_gpu, part), getattr(on_host, part), True)
    for moved in (mesh.vertices, 1.5 * mesh.vertices[:, [1, 2, 0]]):
        x = device.to_device(np.ascontiguousarray(moved))
        for found, expected in zip(on_gpu.values(x), on_host.values(moved)):
            same(found, expected, any_backend is not None)
        assert on_gpu.mean_edge(x) == pytest.approx(on_host.mean_edge(moved), rel=1e-14)


@pytest.mark.parametrize("capacity", [0, 3500])
def test_patches_beyond_shared_memory(any_backend, monkeypatch, capacity):
    from meshsolve.operators import cuda

    monkeypatch.setattr(cuda, "CAPACITY", capacity)
    mesh = noisy(4)
    on_gpu, expected = assembler(mesh, place="cuda"), CotanAssembler(mesh).values(mesh.vertices)
    need = np.diff(device.to_host(on_gpu._scratch_ptr))
    assert (need > 0).all() if capacity == 0 else 0 < np.count_nonzero(need) < len(need)
    for found, values in zip(on_gpu.values(device.to_device(mesh.vertices)), expected):
        same(found, values, any_backend is not None)


def test_heavy_vertices(cuda):
    """Two heavy vertices with an edge; warps compute their sums, in a different order than the CPU."""
    mesh = pages()
    on_gpu, on_host = assembler(mesh, place="cuda"), CotanAssembler(mesh)
    data, mass = on_gpu.values(device.to_device(mesh.vertices))
    assert np.array_equal(device.to_host(on_gpu.indices), on_host.indices)
    for found, expected in zip((data, mass), on_host.values(mesh.vertices)):
        same(found, expected, False)
    L = sp.csr_array((device.to_host(data), on_host.indices, on_host.indptr))
    assert abs(L - L.T).max() == 0 and abs(L.sum(axis=1)).max() < 1e-11 * abs(L).max()


def test_a_step_is_one_launch(cuda):
    mesh = noisy(3)
    on_gpu, x = assembler(mesh, place="cuda"), device.to_device(mesh.vertices)
    if cuda is not None:
        before = sum(cuda.launches.values())
        cuda.comes_back.clear()
        on_gpu.values(x)
        assert sum(cuda.launches.values()) == before + 1 and not cuda.comes_back


@pytest.mark.parametrize("options", [dict(seed=1, block=32), dict(seed=2, block=96, resident=4)], ids=str)
def test_the_order_of_threads_changes_no_bit(options):
    sphere, heavy, results = noisy(2), pages(), []
    for harness in (Harness(), Harness(**options)):
        with device.use(harness):
            on_gpu = assembler(sphere, place="cuda")
            values, mass = on_gpu.values(sphere.vertices)
            results.append((values, mass, *on_gpu.squared(values, mass), *assembler(heavy, place="cuda").values(heavy.vertices)))
    assert all(np.array_equal(a, b) for a, b in zip(*results))


def with_heavy(on_gpu, vertices):
    """An assembler that treats the given vertices as heavy, adjacent or not."""
    on_gpu._tables = replace(on_gpu._tables, heavy_vertices=device.to_device(np.array(vertices, np.int32)))
    on_gpu._heavy_faces = (*on_gpu.patches.query("VF"), on_gpu.patches.query("FV")[1])
    return on_gpu


@pytest.mark.sanitize
def test_every_kernel_on_something_small():
    mesh = noisy(1)
    with device.use(Harness(seed=1, block=32)) as harness:
        on_gpu = assembler(mesh, place="cuda")
        expected = on_gpu.values(mesh.vertices)
        on_gpu.squared(*expected)
        for found, values in zip(with_heavy(on_gpu, sorted([*mesh.faces[0], 41])).values(mesh.vertices), expected):
            same(found, values, False)
    assert {"k_insert_diagonal", "k_lay_out", "k_laplacian", "k_heavy", "k_reach", "k_square"} <= harness.launches.keys()


@pytest.mark.parametrize("name", ["sphere", "fan"])
def test_the_square_is_the_product(any_backend, name):
    mesh = MESHES[name]()
    on_gpu = assembler(mesh, place="cuda")
    data, mass = on_gpu.values(device.to_device(mesh.vertices))
    mass = device.to_device(np.maximum(device.to_host(mass), 1e-3))
    indptr, indices, values, diagonal = map(device.to_host, on_gpu.squared(data, mass))
    L = ms.cotan_laplacian(mesh)
    expected = sp.csr_array(L @ sp.diags_array(1 / device.to_host(mass)) @ L)
    found = sp.csr_array((values, indices, indptr), shape=L.shape)
    assert abs(found - expected).max() <= 1e-12 * abs(expected).max() and np.array_equal(found.toarray(), found.toarray().T)
    assert np.array_equal(values[diagonal], found.diagonal())


def test_matrices_on_the_device(any_backend):
    mesh = noisy(2)
    for make in (ms.cotan_laplacian, ms.mass_matrix):
        on_gpu = make(mesh, device="cuda")
        found = sp.csr_array(on_gpu.get() if hasattr(on_gpu, "get") else on_gpu)
        assert abs(found - make(mesh)).max() <= 1e-13 * abs(found).max()


def test_operators_without_gpu_support(any_backend):
    mesh = noisy(1)
    for call in (lambda: ms.cotan_laplacian(mesh, intrinsic_delaunay=True, device="cuda"),
                 lambda: ms.mass_matrix(mesh, "voronoi", device="cuda"), lambda: ms.mass_matrix(mesh, "consistent", device="cuda")):
        with pytest.raises(ms.DeviceUnavailableError, match="CPU only"):
            call()
    with pytest.raises(ms.InvalidInputError, match="device must be"):
        ms.cotan_laplacian(mesh, device="gpu")


def test_products_beyond_memory_are_refused(monkeypatch):
    from meshsolve.operators import cuda

    monkeypatch.setattr(cuda, "MOST_PRODUCTS", 100)
    with device.use(Harness()), pytest.raises(ms.OutOfMemoryError, match="bi-Laplacian"):
        on_gpu = cuda.DeviceAssembler(noisy(1), FLATTEST)
        on_gpu.squared(*on_gpu.values(noisy(1).vertices))
