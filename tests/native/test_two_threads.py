"""The numeric cores on two threads give the bits of one thread, each at about the smallest size of parallel work.

Marked `native`, so that scripts/sanitize.sh covers every interaction of threads. `_core.shared_calls` counts calls with two
threads: without it, a changed threshold would silently remove a core from the sanitizers.
"""

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve import _core, order
from meshsolve.apps.geodesics.slopes import Slopes

pytestmark = pytest.mark.native


def columns(A, count):
    return np.random.default_rng(5).standard_normal((A.shape[0], count))


def full(n, shift):
    """One front of nearly all rows, large enough for tiles; symmetric, and positive definite by a large shift."""
    half = np.random.default_rng(n).standard_normal((n, n))
    return sp.csr_array(half + half.T + shift * np.eye(n))


def unsymmetric(nx, ny, kind=float):
    A = ms.datasets.grid2d(nx, ny, boundary="dirichlet")
    return sp.csr_array(A + sp.diags_array([np.full(nx * ny - 1, 0.3)], offsets=[1])).astype(kind)


# A case works in steps. Each yields whether two threads must share it, and its results.


def dissection(A, **how):
    def steps(threads):
        o = order.nested_dissection(A, threads=threads, **how)
        yield True, (o.perm, o.tree.parent)
    return steps


def operators(threads):
    sphere = ms.datasets.icosphere(5)
    mesh = ms.Mesh(sphere.vertices, sphere.faces)             # edges are not computed yet
    yield True, (mesh.edges, mesh.side_edges)
    yield True, (ms.cotan_laplacian(mesh).data, ms.mass_matrix(mesh).data)


def distances(threads):
    """The steps of the heat method between and after its solves."""
    sphere = ms.datasets.icosphere(4)
    slopes, u = Slopes(ms.operators.intrinsic_delaunay(sphere), threads), columns(sphere.vertices, 4)
    yield False, ()
    yield True, (slopes(u),)
    out = np.empty_like(u)
    _core.shift_distances(sphere.vertices.reshape(-1), sphere.components, np.zeros((1, 4)), np.zeros(12), u, out, threads)
    yield True, (out,)


def patches(threads):
    P = ms.PatchMesh(ms.datasets.icosphere(5), patch_size=64, threads=threads)
    yield True, (P.vertex_patch, P.edge_patch, P.face_patch)
    for name in ("VV", "EF", "FE"):
        yield True, P.query(name)


def analysis(threads):
    S = ms.analyze(ms.datasets.grid2d(96, 96), "rcm", threads=threads)
    yield True, (S.parent, S.colcount, *S.pattern())


def factor(make, A, rhs=8, shared_solve=True, **how):
    """Analysis, numeric phase and solves."""
    B = columns(A, rhs)

    def steps(threads):
        F = make(A, threads=threads, **how)
        before = F.solve(B)
        yield False, (before,)
        F.refactor(A)
        yield True, ()
        X = F.solve(B)
        assert np.array_equal(X, before)
        yield shared_solve, (X,)
    return steps


def complement(threads):
    """A Schur complement stored in steps."""
    S = ms.schur_complement(SPD, np.arange(0, 3600, 8), "amd", threads=threads)
    yield False, (S.matrix,)
    S.refactor(SPD)
    yield True, ()
    yield True, (S.matrix,)
    b = columns(SPD, 8)
    yield True, (S.reduce(b),)
    yield True, (S.expand(b, b[:450]),)


def parac(ordering, size, shared_solve=True):
    L = ms.datasets.grid2d(size, size)
    B = columns(L, 8)
    B -= B.mean(axis=0)

    def steps(threads):
        P = ms.parac(L, np.arange(size**2) if ordering == "given" else ordering, threads=threads)
        yield True, (P.perm, P.D, P.G.data)
        yield False, tuple(P.solve(B) for _ in range(8))        # some solves, after which the form by rows is made
        yield shared_solve, (P.solve(B),)                       # without it most rows depend on each other
    return steps


def iterations(threads):
    A = sp.csr_array(ms.datasets.grid2d(230, 220) + 4 * sp.eye_array(230 * 220))
    b = columns(A, 2)
    yield True, (ms.cg(A, b, threads=threads)[0],)
    yield True, (ms.sqmr(A, b[:, 0], threads=threads)[0],)
    yield True, (ms.gmres(A, b[:, 0], threads=threads)[0],)


SPD = ms.datasets.grid2d(60, 60, boundary="dirichlet")
CASES = {
    "nested dissection": dissection(ms.datasets.grid2d(150, 120)),
    "nested dissection, quality": dissection(ms.datasets.grid2d(80, 80), effort="quality"),
    "nested dissection of a mesh": dissection(ms.datasets.icosphere(5)),
    "edges and operators": operators,
    "distances by heat": distances,
    "patches": patches,
    "symbolic analysis": analysis,
    "cholesky, tree of fronts": factor(ms.cholesky, SPD, ordering="amd"),
    "cholesky, tiles of a front": factor(ms.cholesky, full(420, 400), shared_solve=False),
    "cholesky in single precision": factor(ms.cholesky, SPD, precision="mixed"),
    "schur complement": complement,
    "lu, tree of fronts": factor(ms.lu, unsymmetric(110, 110), engine="fronts"),
    "lu, tiles of a front": factor(ms.lu, full(420, 0), shared_solve=False, engine="fronts"),
    "lu of complex numbers": factor(ms.lu, unsymmetric(60, 60, complex), shared_solve=False, engine="fronts"),
    "lu in single precision": factor(ms.lu, unsymmetric(60, 60), shared_solve=False, engine="fronts", precision="mixed"),
    "lu, columns": factor(ms.lu, unsymmetric(60, 60), rhs=32, engine="columns"),
    "lu, columns, one right-hand side": factor(ms.lu, ms.datasets.ladder(16), rhs=1, engine="columns"),
    "ldl, tree of fronts": factor(ms.ildl, ms.datasets.stokes(24), fill_level=None),
    "ldl, a forest of small trees": factor(ms.ildl, ms.datasets.kkt(6000, 3000, seed=4, kind="banded"), fill_level=None),
    "ldl, tiles of a front": factor(ms.ildl, full(420, 0), shared_solve=False, fill_level=None),
    "ldl, incomplete": factor(ms.ildl, ms.datasets.kkt(14000, 5000, seed=4), fill_level=1, tile_size=8),
    "parac in a given order": parac("given", 160, shared_solve=False),
    "parac by minimum degree": parac("amd", 200),
    "parac by degree": parac("nnz_sort", 160, shared_solve=False),
    "parac in rounds": parac("rounds", 270),
    "iterations": iterations,
}


@pytest.mark.parametrize("name", CASES)
def test_two_threads_share_the_work_and_change_no_bit(name, monkeypatch):
    answers = {}
    for threads in (1, 2):
        monkeypatch.setenv("MESHSOLVE_NUM_THREADS", str(threads))             # for calls without a threads argument
        answers[threads], before = [], _core.shared_calls()
        for k, (divided, arrays) in enumerate(CASES[name](threads)):
            shared, before = _core.shared_calls() - before, _core.shared_calls()
            assert shared == 0 if threads == 1 else shared > 0 or not divided, f"step {k} on {threads} threads: {shared} shared"
            answers[threads].append(arrays)
    for k, (one, two) in enumerate(zip(answers[1], answers[2], strict=True)):
        assert all(np.array_equal(x, y) for x, y in zip(one, two, strict=True)), f"step {k}"
