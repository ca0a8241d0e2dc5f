"""Problems of the benchmarks: names, meshes, graphs and matrices."""

import math

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from benchmarks import problems


def test_smoothing_system_is_symmetric_and_positive():
    """On an octahedron: A and A2 share their pattern, and A 1 = M 1 since the Laplacian's rows sum to zero."""
    ms = pytest.importorskip("meshsolve")
    if not hasattr(ms, "cotan_laplacian"):
        pytest.skip("no mesh operators")
    corners = np.vstack([np.eye(3), -np.eye(3)])
    faces = [[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]]
    S = problems.smoothing_system(ms.Mesh(corners, np.array(faces, np.int32)))
    assert (S.A.indices == S.A2.indices).all() and abs(S.A - S.A.T).max() < 1e-14
    assert np.linalg.eigvalsh(S.A.toarray()).min() > 0
    area = 8 * math.sqrt(3) / 2
    assert math.isclose((S.A @ np.ones(6)).sum(), area) and math.isclose((S.A2 @ np.ones(6)).sum(), area)


def test_loop_subdivision():
    """An octahedron: 18 vertices in 32 faces, all alike by symmetry; a lone triangle: crease rules, its plane stays."""
    corners = np.vstack([np.eye(3), -np.eye(3)])
    faces = np.array([[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]])
    vertices, fine = problems.loop_subdivided(corners, faces)
    assert vertices.shape == (18, 3) and fine.shape == (32, 3)
    assert np.allclose(vertices[0], [5 / 8, 0, 0])                    # valence 4: weight 3/32 per neighbor, they cancel
    sides = np.sort(fine[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    assert (np.unique(sides, axis=0, return_counts=True)[1] == 2).all()
    area = [np.cross(v[f[:, 1]] - v[f[:, 0]], v[f[:, 2]] - v[f[:, 0]]) for v, f in ((corners, faces), (vertices, fine))]
    outward = [np.einsum("ij,ij->i", a, v[f].mean(axis=1)) > 0 for a, v, f in zip(area, (corners, vertices), (faces, fine))]
    assert outward[0].all() == outward[1].all() and len({*outward[1]}) == 1      # orientation is kept
    vertices, fine = problems.loop_subdivided(np.eye(3), np.array([[0, 1, 2]]))
    assert np.allclose(vertices.sum(axis=1), 1) and np.allclose(vertices[0], [3 / 4, 1 / 8, 1 / 8]) and len(fine) == 4


def test_problem_names(monkeypatch, tmp_path):
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes/two-part.obj").write_text("v 0 0 0\n")
    head = "file,kind,n,nnz_or_faces,components,nonmanifold_edges"
    (tmp_path / "INDEX.csv").write_text(
        f"{head}\nmeshes/two-part.obj,mesh,40000,79996,1,0\nmeshes/soup.obj,mesh,90000,30000,30000,0\n"
        "graphs/star.mtx,graph,5,8,1,0\nspd/spring.mtx,matrix,2,4,1,0\n")
    monkeypatch.setenv("MESHSOLVE_DATA", str(tmp_path))
    assert problems.find("two-part").level == 0 and problems.find("two-part-2").level == 2
    assert [p.name for p in problems.problem_set("order")] == ["two-part", "two-part-1", "two-part-2"]
    assert problems.find("icosphere-3").path is None
    for name, n in (("grid3d-6", 216), ("tetrahedra-1", 1000)):
        system = problems.find(name).system()
        assert system.n == n and system.A.sum() == pytest.approx(1e-3 * system.A.diagonal().sum(), rel=0.01)       # a Laplacian and a shift
        assert sp.csgraph.connected_components(system.A)[0] == 1 and abs(system.A - system.A.T).max() == 0
    with pytest.raises(SystemExit, match="no mesh or matrix 'absent'"):
        problems.find("absent")
    monkeypatch.setenv("MESHSOLVE_DATA", str(tmp_path / "nowhere"))
    assert all(p.path is None for p in problems.problem_set("cholesky"))


def test_graphs_and_matrices_are_problems(monkeypatch, tmp_path):
    """A graph gives its largest component, shifted to be definite; a matrix is used unchanged."""
    (tmp_path / "graphs").mkdir()
    (tmp_path / "spd").mkdir()
    star = sp.coo_array((np.ones(5), ([1, 2, 3, 4, 6], [0, 0, 0, 0, 5])), shape=(7, 7))
    scipy.io.mmwrite(tmp_path / "graphs/star.mtx", star + star.T, symmetry="symmetric")
    scipy.io.mmwrite(tmp_path / "spd/spring.mtx", sp.coo_array([[2.0, -1], [-1, 2]]), symmetry="symmetric")
    (tmp_path / "INDEX.csv").write_text("file,kind\ngraphs/star.mtx,graph\nspd/spring.mtx,matrix\n")
    monkeypatch.setenv("MESHSOLVE_DATA", str(tmp_path))
    star, spring = (problems.find(name).system() for name in ("star", "spring"))
    assert star.n == 5 and np.allclose(star.A.sum(axis=1), 1e-3 * 8 / 5) and np.allclose(star.A2.sum(axis=1), 2e-3 * 8 / 5)
    assert np.array_equal(spring.A.toarray(), [[2, -1], [-1, 2]]) and spring.B.shape == (2, 3)
    assert (spring.A2 - spring.A).nnz == 2
    with pytest.raises(SystemExit, match="star is not a mesh"):
        problems.find("star").mesh()
