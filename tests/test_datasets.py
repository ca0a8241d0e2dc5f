"""Generators: shapes, symmetry, definiteness, structure, the same bits for the same seed, refusals."""

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from scipy.sparse.csgraph import connected_components

from meshsolve import datasets as ds
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import load_mesh

LAPLACIANS = {
    "grid2d": (lambda: ds.grid2d(7, 5), 35), "grid3d": (lambda: ds.grid3d(5), 125),
    "weighted": (lambda: ds.grid3d(4, "weighted"), 64),
    "log-uniform": (lambda: ds.grid3d(4, "log-uniform"), 64), "checkerboard": (lambda: ds.grid3d(9, "checkerboard"), 729),
    "delaunay": (lambda: ds.delaunay(300, 1), 300), "road_like": (lambda: ds.road_like(300, 1), 300),
    "rmat": (lambda: ds.rmat(7), None), "preferential": (lambda: ds.preferential(200, 3), None),
}
DIRICHLET = {kind: lambda kind=kind: ds.grid3d(5, kind, boundary="dirichlet")
             for kind in ("uniform", "weighted", "log-uniform", "checkerboard")}
DIRICHLET["grid2d"] = lambda: ds.grid2d(7, 5, boundary="dirichlet")
CIRCUITS = {"power_grid": lambda **k: ds.power_grid(8, **k), "controlled": lambda **k: ds.power_grid(8, controlled=True, **k),
            "rlc_mesh": lambda **k: ds.rlc_mesh(8, **k), "ladder": lambda **k: ds.ladder(5, sections=4, **k)}
INDEFINITE = {"kkt": (lambda: ds.kkt(60, 25), 60, 25), "banded": (lambda: ds.kkt(60, 25, kind="banded"), 60, 25),
              "stokes": (lambda: ds.stokes(5), 40, 24)}


def canonical(A):
    assert isinstance(A, sp.csr_array) and A.dtype == np.float64 and A.has_canonical_format and np.isfinite(A.data).all()
    assert A.shape[0] == A.shape[1] and A.indices.dtype == np.int32
    return A


@pytest.mark.parametrize("name", LAPLACIANS)
def test_laplacians(name):
    make, n = LAPLACIANS[name]
    L = canonical(make())
    assert n is None or L.shape == (n, n)
    assert abs(L - L.T).max() == 0 and np.abs(L @ np.ones(L.shape[0])).max() <= 1e-12 * abs(L).max()
    off = L - sp.diags_array(L.diagonal())
    off.eliminate_zeros()
    assert off.data.max() < 0 and connected_components(off)[0] == 1
    assert np.linalg.eigvalsh(L.toarray()).min() >= -1e-12 * abs(L).max()


@pytest.mark.parametrize("name", DIRICHLET)
def test_dirichlet_grids_are_positive_definite(name):
    A = canonical(DIRICHLET[name]())
    assert abs(A - A.T).max() == 0 and np.linalg.eigvalsh(A.toarray()).min() > 0


def test_grids_have_the_known_eigenvalues():
    one = 2 - 2 * np.cos(np.pi * np.arange(4) / 4)
    assert np.linalg.eigvalsh(ds.grid2d(4, 4).toarray()) == pytest.approx(np.sort(np.add.outer(one, one).ravel()), abs=1e-12)
    two = 2 - 2 * np.cos(np.pi * np.arange(1, 5) / 5)
    assert np.linalg.eigvalsh(ds.grid2d(4, 4, "dirichlet").toarray()) == pytest.approx(np.sort(np.add.outer(two, two).ravel()))
    assert ds.grid2d(2, 3)[0].toarray().tolist() == [2, -1, 0, -1, 0, 0]
    three = np.add.outer(np.add.outer(one, one), 100 * one).ravel()
    assert np.linalg.eigvalsh(ds.grid3d(4, "weighted").toarray()) == pytest.approx(np.sort(three), abs=1e-10)


def test_contrast_grids():
    weights = -ds.grid3d(16, "checkerboard").data
    assert weights.max() == 1e7 and {1.0, 1e7} <= set(weights[weights > 0])
    weights = -ds.grid3d(10, "log-uniform").data
    assert 1 <= weights[weights > 0].min() < 10 and 1e5 < weights.max() <= 1e6


def test_graphs_have_the_properties_of_their_names():
    delaunay, road = ds.delaunay(2000, 3), ds.road_like(2000, 3)
    assert delaunay.diagonal().mean() == pytest.approx(6, abs=0.1) and 2.2 < road.diagonal().mean() < 2.5
    assert abs(road.multiply(delaunay)).sum() > 0 and (abs(road) > abs(delaunay)).nnz == 0             # every road is an edge
    hubs = ds.rmat(10)
    assert hubs.diagonal().max() > 10 * np.median(hubs.diagonal()) and hubs.shape[0] <= 1024
    rich = ds.preferential(2000, 4)
    assert rich.diagonal().max() > 50 and rich.shape[0] > 1900 and (rich.nnz - rich.shape[0]) / 2 <= 8000


@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits(name):
    A = canonical(CIRCUITS[name]())
    sources = np.count_nonzero(A.diagonal() == 0)
    assert sources == 4 and np.linalg.matrix_rank(A.toarray() / np.abs(A.toarray()).max(axis=0)) == A.shape[0]
    B = CIRCUITS[name](step=0.5)
    assert np.array_equal(A.indices, B.indices) and np.array_equal(A.indptr, B.indptr) and not np.array_equal(A.data, B.data)
    assert (abs(A - A.T).max() == 0) == (name != "controlled")


def test_circuit_sizes():
    assert ds.power_grid(115).shape[0] == pytest.approx(20_000, rel=0.02)
    A = ds.ladder(18)
    assert A.shape[0] == pytest.approx(20_000, rel=0.02) and A.nnz / A.shape[0] == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize("name", INDEFINITE)
def test_saddle_points(name):
    make, positive, negative = INDEFINITE[name]
    A = canonical(make())
    assert abs(A - A.T).max() == 0
    scale = 1 / np.sqrt(np.abs(A.toarray()).max(axis=0))
    values = np.linalg.eigvalsh(scale[:, None] * A.toarray() * scale)
    assert (np.count_nonzero(values > 0), np.count_nonzero(values < 0)) == (positive, negative)


def test_a_constant_pressure_is_in_the_null_space():
    A = ds.stokes(4).toarray()
    velocities = 2 * 4 * 3
    first = -A[:velocities, velocities:].sum(axis=1)              # the gradient of the pinned cell's pressure
    assert np.count_nonzero(first) == 2 and np.linalg.matrix_rank(A) == len(A)


@pytest.mark.parametrize("dim, n", [(2, 12), (3, 6)])
def test_helmholtz_is_the_shifted_laplacian(dim, n):
    one = 2 - 2 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1))
    values = one
    for _ in range(dim - 1):
        values = np.add.outer(values, one).ravel()
    A = canonical(ds.helmholtz(n, 8, dim))
    assert np.linalg.eigvalsh(A.toarray()) == pytest.approx(np.sort(values) - (2 * np.pi / 8) ** 2, abs=1e-10)
    assert np.linalg.eigvalsh(A.toarray()).min() < 0


@pytest.mark.parametrize("k", range(5))
def test_icosphere(k):
    mesh = ds.icosphere(k)
    assert len(mesh.vertices) == 10 * 4 ** k + 2 and len(mesh.faces) == 20 * 4 ** k and mesh.is_manifold
    assert np.linalg.norm(mesh.vertices, axis=1) == pytest.approx(1, abs=1e-15)
    a, b, c = (mesh.vertices[mesh.faces[:, i]] for i in range(3))
    assert (np.einsum("ij,ij->i", np.cross(b - a, c - a), a) > 0).all()
    assert len(mesh.vertices) - len(mesh.edges) + len(mesh.faces) == 2


@pytest.mark.parametrize("k", [1, 2, 7])
def test_cube(k):
    mesh = ds.cube(k)
    assert len(mesh.vertices) == 6 * k**2 + 2 and len(mesh.faces) == 12 * k**2 and mesh.is_manifold and len(mesh.boundary_edges) == 0
    assert mesh.volume == pytest.approx(8) and np.allclose(mesh.face_areas, 2 / k**2) and np.abs(mesh.vertices).max() == 1
    assert (np.abs(mesh.vertices).max(axis=1) == 1).all() and np.allclose(np.abs(mesh.face_normals).max(axis=1), 1)


@pytest.mark.parametrize("n", [1000, 5000, 20_000])
def test_scan_like(n):
    mesh = ds.scan_like(n)
    assert len(mesh.vertices) == pytest.approx(n, rel=0.15) and mesh.is_manifold and mesh.components.max() == 0
    assert len(np.unique(mesh.faces)) == len(mesh.vertices)
    rim = mesh.edges[np.bincount(mesh.side_edges.ravel()) == 1]
    assert len(mesh.vertices) - len(mesh.edges) + len(mesh.faces) == -3        # genus 2 with one hole
    loops = connected_components(sp.coo_array((np.ones(len(rim)), rim.T), shape=(len(mesh.vertices),) * 2))[1][rim[:, 0]]
    assert len(np.unique(loops)) == 1
    closed = ds.scan_like(n, hole=False)
    assert len(closed.vertices) - len(closed.edges) + len(closed.faces) == -2
    assert (np.bincount(closed.side_edges.ravel()) == 2).all()


def test_scan_like_is_oriented_outwards_and_noisy():
    smooth, noisy = ds.scan_like(5000, noise=0, hole=False), ds.scan_like(5000, hole=False)
    a, b, c = (smooth.vertices[smooth.faces[:, i]] for i in range(3))
    assert np.einsum("ij,ij->", np.cross(b - a, c - a), a) > 0                # six times the volume
    forward = smooth.faces[:, [0, 1, 2]], smooth.faces[:, [1, 2, 0]]
    assert len(np.unique(np.stack([f.ravel() for f in forward], 1), axis=0)) == smooth.faces.size      # each side once each way
    edge = np.linalg.norm(np.diff(smooth.vertices[smooth.edges], axis=1), axis=2).mean()
    distance = np.linalg.norm(noisy.vertices - smooth.vertices, axis=1)
    assert np.sqrt((distance ** 2).mean()) == pytest.approx(0.2 * edge, rel=0.1)


@pytest.mark.parametrize("make", [
    lambda s: ds.delaunay(200, s), lambda s: ds.road_like(200, s), lambda s: ds.rmat(6, s), lambda s: ds.preferential(100, 3, s),
    lambda s: ds.kkt(50, 20, s), lambda s: ds.grid3d(4, "log-uniform", seed=s), lambda s: ds.power_grid(6, seed=s),
    lambda s: ds.rlc_mesh(6, seed=s), lambda s: ds.ladder(4, seed=s), lambda s: ds.scan_like(1000, s)], ids=range(10))
def test_seeds(make):
    def bits(x):
        return x.vertices.tobytes() + x.faces.tobytes() if hasattr(x, "faces") else x.data.tobytes() + x.indices.tobytes()

    assert bits(make(1)) == bits(make(1)) != bits(make(2))


@each("call", [
    lambda: ds.grid2d(0, 3), lambda: ds.grid2d(3, 2.0), lambda: ds.grid2d(3, 3, "periodic"), lambda: ds.grid3d(3, "cubic"),
    lambda: ds.grid3d(True), lambda: ds.delaunay(3), lambda: ds.road_like(-1), lambda: ds.rmat(0), lambda: ds.preferential(1),
    lambda: ds.preferential(10, 0),
    lambda: ds.power_grid(3), lambda: ds.power_grid(8, step=0), lambda: ds.ladder(8, sections=0), lambda: ds.rlc_mesh("8"),
    lambda: ds.kkt(5, 6), lambda: ds.kkt(5, 3, kind="dense"), lambda: ds.stokes(1), lambda: ds.helmholtz(9, 0),
    lambda: ds.helmholtz(9, 1e-300), lambda: ds.helmholtz(9, 9, 4), lambda: ds.icosphere(-1), lambda: ds.icosphere(12), lambda: ds.scan_like(999),
    lambda: ds.scan_like(2000, noise=-1)])
def test_refuses(call):
    with pytest.raises(InvalidInputError):
        call()


def test_make_data_writes_the_scan(tmp_path):
    script = Path(__file__).parents[1] / "data" / "make_data.py"
    command = [sys.executable, str(script), "-n", "2000", "-o", str(tmp_path / "scan.ply")]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert np.array_equal(load_mesh(tmp_path / "scan.ply").vertices, ds.scan_like(2000).vertices)


# ---- matrix files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz", ".npz"])
def test_load_matrix(tmp_path, suffix):
    import gzip

    import scipy.io

    path = tmp_path / f"A{suffix}"
    for A in (ds.grid2d(7, 5), sp.csr_array(np.array([[0, 2j], [1, 0]])), sp.random_array((6, 9), density=0.3, rng=1)):
        if suffix == ".npz":
            sp.save_npz(path, A.tocsc())
        else:
            with (gzip.open if suffix.endswith("gz") else open)(path, "wb") as f:
                scipy.io.mmwrite(f, A, precision=17)
        B = ds.load_matrix(str(path))
        assert isinstance(B, sp.csr_array) and B.has_canonical_format and B.dtype == (complex if A.dtype.kind == "c" else float)
        assert np.array_equal(B.toarray(), A.toarray())


@pytest.mark.parametrize("which, value", [("indptr", 10**6), ("indptr", -1), ("indices", 10**8), ("indices", -5)])
def test_a_sparse_npz_with_damaged_indices_is_refused(tmp_path, which, value):
    """scipy does not check the indices, and the interpreter crashed."""
    sp.save_npz(tmp_path / "A.npz", sp.csr_array(ds.grid2d(8, 6)))
    held = dict(np.load(tmp_path / "A.npz"))
    held[which][5] = value
    np.savez(tmp_path / "A.npz", **held)
    with pytest.raises(InvalidInputError, match="A.npz: cannot be read as a matrix: "):
        ds.load_matrix(tmp_path / "A.npz")


def test_load_matrix_of_other_kinds(tmp_path):
    path = tmp_path / "A.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern general\n2 3 3\n2 1\n1 3\n2 1\n")
    assert ds.load_matrix(path).toarray().tolist() == [[0, 0, 1], [2, 0, 0]]            # duplicates are summed
    path.write_text("%%MatrixMarket matrix coordinate integer symmetric\n2 2 2\n1 1 4\n2 1 -1\n")
    assert ds.load_matrix(path).dtype == np.float64 and ds.load_matrix(path).toarray().tolist() == [[4, -1], [-1, 0]]
    path.write_text("%%MatrixMarket matrix array real general\n2 1\n1.5\n2\n")
    dense = ds.load_matrix(path)
    assert isinstance(dense, np.ndarray) and dense.tolist() == [[1.5], [2.0]]


SEEDED = [n for n in ds.__all__ if "seed" in inspect.signature(getattr(ds, n)).parameters]


@pytest.mark.parametrize("name", SEEDED)
def test_a_bad_seed_is_refused_whether_it_is_used_or_not(name):
    make = getattr(ds, name)
    given = {"n": 1000 if name == "scan_like" else 6, "k": 3, "m": 3, "mesh": ds.icosphere(2)}
    needed = {key: value for key, value in given.items() if key in inspect.signature(make).parameters}
    for seed in (-1, 1.5, None, 2**64):
        with pytest.raises(InvalidInputError, match="seed must be"):
            make(**needed, seed=seed)
    make(**needed, seed=2**64 - 1)                          # the largest


def test_average_degrees_of_roads():
    for degree, average in ((1, 2), (2.5, 2.33), (4, 3.33), (20, 6)):
        assert ds.road_like(3000, degree=degree).diagonal().mean() == pytest.approx(average, abs=0.05)


def test_scans_have_the_documented_sizes():
    for n, most in ((1000, 1.2), (2000, 1.2), (10_000, 1.11)):
        assert n <= len(ds.scan_like(n).vertices) <= most * n
