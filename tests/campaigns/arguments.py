"""Attacks on the kinds of arguments: another kind in an option of a public call is an InvalidInputError that names the option."""

import inspect

import numpy as np

import meshsolve as ms
from campaigns.table import attack

WRONG_FLAGS = [0.2e-9, 1.0, -1, 2, 3.5, "yes", "", None, [], [True], (), {}, np.float64(1), np.array([True, False]), np.array(1.5), float("nan"), 1j]
WRONG_NUMBERS = ["a", "", None, [], [1.0, 2.0], {}, True, np.bool_(True), np.array([1, 2]), float("nan"), float("inf"), -np.inf, 1j, b"1", object()]
RIGHT_FLAGS = [True, False, np.True_, np.False_, 0, 1, np.int64(1)]
A = ms.datasets.grid2d(4, 4, boundary="dirichlet")
L = ms.datasets.grid2d(4, 4)
B = A @ np.ones(16)
BALL = ms.datasets.icosphere(1)
DISC = ms.Mesh(BALL.vertices, BALL.faces[:40])
TETS = ms.TetMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 2, 3]])
DECK = "a low pass\nV1 in 0 PULSE(0 1 0 1n 1n 1u 2u)\nR1 in out 1k\nC1 out 0 1n\n.end\n"
FLAGS = {                              # name: (call, options)
    "cholesky": (lambda **o: ms.cholesky(L, **o), ["pin", "lower"]), "lu": (lambda **o: ms.lu(L, **o), ["pin"]),
    "ildl": (lambda **o: ms.ildl(L, **o), ["pin", "pairs", "lower"]), "ilu": (lambda **o: ms.ilu(L, **o), ["pin"]),
    "parac": (lambda **o: ms.parac(L, **o), ["pin"]), "analyze": (lambda **o: ms.analyze(L, **o), ["lower"]),
    "cg": (lambda **o: ms.cg(L, L @ B, **o), ["pin"]), "gmres": (lambda **o: ms.gmres(L, L @ B, **o), ["pin"]),
    "solve": (lambda **o: ms.solve(L, L @ B, **o), ["pin"]), "eigsh": (lambda **o: ms.eigsh(L, 3, **o), ["pin", "count"]),
    "schur_complement": (lambda **o: ms.schur_complement(A, [0, 1], **o), ["lower"]),
    "cotan_laplacian": (lambda **o: ms.cotan_laplacian(BALL, **o), ["intrinsic_delaunay"]),
    "operators.connection_laplacian": (lambda **o: ms.operators.connection_laplacian(BALL, **o), ["intrinsic_delaunay"]),
    "apps.mcf": (lambda **o: ms.apps.mcf(BALL, 1, **o), ["conformal"]),
    "apps.parameterize": (lambda **o: ms.apps.parameterize(DISC, **o), ["cut"]),
    "apps.spectral_embedding": (lambda **o: ms.apps.spectral_embedding(abs(A), 2, **o), ["normalized"]),
    "apps.label_propagation": (lambda **o: ms.apps.label_propagation(abs(A), [0, 5], [0, 1], **o), ["balance"]),
    "apps.circuit.Circuit.transient": (lambda **o: ms.apps.circuit.parse(DECK).transient(1e-9, 5e-9, **o), ["uic", "fixed_step"]),
    "datasets.power_grid": (lambda **o: ms.datasets.power_grid(6, **o), ["controlled"]),
    "datasets.scan_like": (lambda **o: ms.datasets.scan_like(1000, **o), ["hole"]),
    "TetMesh": (lambda **o: ms.TetMesh(TETS.vertices, TETS.cells, **o), ["orient"]),
    "PatchMesh.query": (lambda **o: ms.PatchMesh(BALL).query("VV", **o), ["oriented"]),
    "CholeskyFactor.factor_batch": (lambda **o: ms.analyze(A).factor_batch(np.stack([A.data, A.data]), **o), ["keep"]),
    "LUFactor.factor_batch": (lambda **o: ms.lu(A).factor_batch(np.stack([A.data, A.data]), **o), ["keep"]),
    "IldlFactor.factor_batch": (lambda **o: ms.ildl(A, fill_level=None).factor_batch(np.stack([A.data, A.data]), **o), ["keep"]),
}
NUMBERS = {
    "cg": (lambda **o: ms.cg(A, B, **o), ["rtol", "atol"]), "gmres": (lambda **o: ms.gmres(A, B, **o), ["rtol", "atol", "restart"]),
    "sqmr": (lambda **o: ms.sqmr(A, B, **o), ["rtol", "atol"]), "solve": (lambda **o: ms.solve(A, B, **o), ["rtol"]),
    "eigsh": (lambda **o: ms.eigsh(A, **{"k": 3} | o), ["k", "tol"]), "ilu": (lambda **o: ms.ilu(A, **o), ["droptol", "max_fill"]),
    "ildl": (lambda **o: ms.ildl(A, **o), ["droptol"]), "parac": (lambda **o: ms.parac(A, **o), ["seed"]),
    "apps.smooth": (lambda **o: ms.apps.smooth(BALL, **o), []), "apps.mcf": (lambda **o: ms.apps.mcf(BALL, **{"steps": 1} | o), ["steps"]),
    "apps.pagerank": (lambda **o: ms.apps.pagerank(abs(A), **o), ["damping"]),
    "datasets.icosphere": (lambda **o: ms.datasets.icosphere(**o), ["k"]), "datasets.grid2d": (lambda **o: ms.datasets.grid2d(**{"nx": 3, "ny": 3} | o), ["nx", "ny"]),
    "batch.meshes": (lambda **o: ms.batch.meshes(["a.ply"], len, client=False, **o), ["retries"]),
}


@attack("cholesky", "lu", "ildl", "ilu", "parac", "cg", "gmres", "solve", "eigsh", "cotan_laplacian", "apps.mcf", "apps.parameterize",
        "apps.circuit.Circuit.transient", "datasets.power_grid", "datasets.scan_like", "TetMesh", quick=150)
def flags(rng):
    """Numbers, texts, lists, arrays and None where True or False is expected; numpy's bools, 0 and 1 are taken."""
    name = str(rng.choice(list(FLAGS)))
    call, options = FLAGS[name]
    option = str(rng.choice(options))
    if rng.random() < 0.2:
        value = RIGHT_FLAGS[rng.integers(len(RIGHT_FLAGS))]
        try:
            call(**{option: value})
        except ms.MeshsolveError as e:
            assert not (option in str(e) and "True or False" in str(e)), f"{name}({option}={value!r}): {e}"
        return
    require_refused(name, option, WRONG_FLAGS[rng.integers(len(WRONG_FLAGS))], call)


@attack("cg", "gmres", "sqmr", "solve", "eigsh", "ilu", "ildl", "parac", "apps.mcf", "apps.pagerank", "datasets.icosphere", "datasets.grid2d",
        "batch.meshes", quick=80)
def numbers(rng):
    """Texts, bools, lists, NaN and infinity where one number is expected. None and infinity may have a meaning of their own."""
    name = str(rng.choice([name for name in NUMBERS if NUMBERS[name][1]]))
    call, options = NUMBERS[name]
    option = str(rng.choice(options))
    value = WRONG_NUMBERS[rng.integers(len(WRONG_NUMBERS))]
    if value is not None:
        require_refused(name, option, value, call)


def require_refused(name, option, value, call):
    try:
        call(**{option: value})
    except ms.InvalidInputError as e:
        assert option in str(e) or name == "datasets.grid2d", f"{name}({option}={value!r}): the message does not name the option: {e}"
        return
    raise AssertionError(f"{name}({option}={value!r}) is accepted")


@attack("Mesh", "TetMesh", "TetMesh.from_meshio", "cotan_laplacian", "load_mesh", "apps.Geodesics", "apps.smooth", quick=60)
def meshes(rng):
    """Objects that look like a mesh, and others: files, paths, grids with points and cells, matrices. The oracle: an InvalidInputError, or a
    mesh with the points."""
    points = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    faces = np.array([[0, 1, 2], [0, 2, 3]])

    class Grid:
        pass

    grid = Grid()
    for name, values in {"points": [points, points[:, :2], None, "x"], "vertices": [points, 3, None], "faces": [faces, faces.ravel(), None, "y"],
                         "cells": [np.r_[3, 0, 1, 2], [("triangle", faces)], None, {"triangle": faces}], "triangles": [faces],
                         "cells_dict": [{5: faces}, {"triangle": faces}, None, {}], "v": [points], "f": [faces], "n_points": [4]}.items():
        if rng.random() < 0.5:
            setattr(grid, name, values[rng.integers(len(values))])
    given = [grid, "a.msh", b"a.ply", points, faces, (points, faces), A, None, 3, {}, {"points": points}, [points, faces], np.eye(3), object][rng.integers(14)]
    calls = [ms.Mesh, ms.TetMesh, ms.TetMesh.from_meshio, ms.Mesh.from_meshio, ms.cotan_laplacian, ms.mass_matrix, ms.apps.Geodesics, ms.apps.smooth, ms.PolygonMesh,
             ms.PointCloud, ms.load_mesh, ms.operators.curvatures, ms.apps.parameterize]
    call = calls[rng.integers(len(calls))]
    required = [p for p in inspect.signature(call).parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    try:
        call(*[given, *[faces] * (len(required) - 1)])
    except ms.InvalidInputError as e:
        assert str(e), "no message"
