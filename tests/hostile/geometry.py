"""Distances, fields, maps, deformations, skinning weights, quadratics."""

import numpy as np

import meshsolve as ms
from hostile.material import N, edited, spd, sphere, without_cupy
from hostile.row import bad


def two_triangles():
    return ms.Mesh(np.arange(18.0).reshape(6, 3) ** 2, [[0, 1, 2], [3, 4, 5]])


def distances():
    return ms.apps.Geodesics(sphere())


ROWS = [
    bad("Geodesics.distance", "no source, or one outside the mesh", "sources must have at least one vertex", lambda tmp: (distances().distance, ([],), {})),
    bad("Geodesics.distance", "coordinates in a face that do not sum to 1", "point 0 of sources must lie in a face", lambda tmp: (distances().distance, (([0], [[0.5, 0.5, 0.5]]),), {})),
    bad("Geodesics.signed_distance", "vertices that no edge joins", "goes from vertex 0 to vertex 1, which no edge joins", lambda tmp: (distances().signed_distance, ([0, 1],), {})),
    bad("Geodesics.signed_distance", "a curve of one point", "curve must have at least two points", lambda tmp: (distances().signed_distance, ([0],), {})),
    bad("Geodesics.signed_distance", "points in different components", "and no path along the surface", lambda tmp: (ms.apps.Geodesics(two_triangles()).signed_distance, (([0, 1], [[1, 0, 0], [1, 0, 0]]),), {})),
    bad("Geodesics.transport", "NaN in a vector", "vectors[0] must be finite", lambda tmp: (distances().transport, (0, [np.nan, 0, 0]), {})),
    bad("Geodesics.extend", "another number of values than sources", "values must be (2,) or (2, k)", lambda tmp: (distances().extend, ([0, 1], [1.0]), {})),
    bad("Geodesics.transport", "a solid instead of a surface", "tangent vectors need a surface, got a TetMesh", lambda tmp: (ms.apps.Geodesics(ms.TetMesh(np.eye(4, 3)[::-1], [[0, 1, 2, 3]], orient=True)).transport, (0, [1, 0, 0]), {})),
    bad("Geodesics.transport", "points instead of a surface", "tangent vectors need a surface with faces, got a PointCloud", lambda tmp: (ms.apps.Geodesics(ms.PointCloud(sphere().vertices)).transport, (0, [1, 0, 0]), {})),
    bad("Geodesics.distance", "points in faces of a PointCloud", "sources must be numbers of points, got a tuple", lambda tmp: (ms.apps.Geodesics(ms.PointCloud(sphere().vertices)).distance, (([0], [[1, 0, 0]]),), {})),
    bad("Geodesics.log_map", "several sources", "source must be one point, got 2", lambda tmp: (distances().log_map, ([0, 1],), {})),
    bad("Geodesics.log_map", "an edge of three faces", "edge (0, 1) has 3 faces", lambda tmp: (ms.apps.Geodesics(ms.Mesh(np.eye(5, 3), [[0, 1, 2], [1, 0, 3], [0, 1, 4]])).log_map, (0,), {})),
    bad("apps.direction_field", "faces that are not oriented alike", "faces 0 and 1 have opposite orientations at edge (0, 1)", lambda tmp: (ms.apps.direction_field, (ms.Mesh(np.eye(4, 3), [[0, 1, 2], [0, 1, 3]]),), {})),
    bad("apps.direction_field", "a prescribed vector without a part along the surface", "vector 0 of fixed must be finite", lambda tmp: (ms.apps.direction_field, (sphere(),), {"fixed": ([0], [[0, 0, 0]])})),
    bad("apps.direction_field", "`align=\"curvature\"` with an odd power", "needs an even power", lambda tmp: (ms.apps.direction_field, (sphere(), 3), {"align": "curvature"})),
    bad("apps.direction_field", "no preferred direction on a component", "the component of vertex 0 has none", lambda tmp: (ms.apps.direction_field, (sphere(),), {"align": np.zeros((42, 3))})),
    bad("operators.connection_laplacian", "a `power` below 1 or above 100", "power must be an integer from 1 to 100", lambda tmp: (ms.operators.connection_laplacian, (sphere(), 0), {})),
    bad("apps.parameterize", "a closed surface without `cut`", "the surface must have a boundary", lambda tmp: (ms.apps.parameterize, (sphere(),), {})),
    bad("apps.parameterize", "several components", "must have one component", lambda tmp: (ms.apps.parameterize, (two_triangles(),), {})),
    bad("apps.parameterize", "faces that are not oriented alike", "have opposite orientations at edge (0, 1)", lambda tmp: (ms.apps.parameterize, (ms.Mesh(np.eye(4, 3), [[0, 1, 2], [0, 1, 3]]),), {})),
    bad("apps.parameterize", "an edge of three faces", "the mesh must be manifold", lambda tmp: (ms.apps.parameterize, (ms.Mesh(np.eye(5, 3), [[0, 1, 2], [0, 1, 3], [1, 0, 4]]),), {})),
    bad("apps.parameterize", "a face without area, for `method=\"slim\"`", "face 0 has none", lambda tmp: (ms.apps.parameterize, (ms.Mesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]]), "slim"), {})),
    bad("apps.parameterize", "a vertex without faces", "1 vertex without faces, NaN in the map, the first is 3", lambda tmp: (ms.apps.parameterize, (ms.Mesh(np.eye(4, 3), [[0, 1, 2]]),), {}), ms.MeshsolveWarning),
    bad("apps.parameterize", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.apps.parameterize), (ms.Mesh(np.eye(3), [[0, 1, 2]]),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("apps.Deformation", "no handle", "handles must have at least one vertex", lambda tmp: (ms.apps.Deformation, (sphere(), []), {})),
    bad("apps.Deformation", "a handle outside the mesh", "handles has row numbers outside", lambda tmp: (ms.apps.Deformation, (sphere(), [10**6]), {})),
    bad("apps.Deformation", "a handle twice", "handles names row 1 more than once", lambda tmp: (ms.apps.Deformation, (sphere(), [1, 1]), {})),
    bad("apps.Deformation", "a component without a handle", "that of vertex 3 has none", lambda tmp: (ms.apps.Deformation, (two_triangles(), [0]), {})),
    bad("apps.Deformation", "no vertex without a handle", "handles must leave a vertex of a face free", lambda tmp: (ms.apps.Deformation, (two_triangles(), np.arange(6)), {})),
    bad("apps.Deformation", "a mesh without faces", "the mesh must have a face, got none", lambda tmp: (ms.apps.Deformation, (ms.Mesh(np.eye(3), []), [0]), {})),
    bad("apps.Deformation", "a vertex whose faces have no width", "vertex 2 has only faces whose other corners coincide, so that no handle determines it", lambda tmp: (ms.apps.Deformation, (ms.Mesh([[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 2], [0, 3, 4]]), [0]), {})),
    bad("apps.Deformation", "a component whose faces have no area", "the faces of the component of vertex 1 have no area", lambda tmp: (ms.apps.Deformation, (ms.Mesh([[0, 0, 0], [0, 0, 0], [1, 0, 0]], [[0, 1, 2]]), [0]), {})),
    bad("Geodesics.extend", "a source in a component whose faces have no area", "vertex 2 is in a component whose faces have no area", lambda tmp: (ms.apps.Geodesics(ms.Mesh([[0, 0, 0], [0, 0, 0], [1, 0, 0]], [[0, 1, 2]])).extend, (2, [1.0]), {})),
    bad("Deformation.move", "positions that are NaN, or of another number", "positions must be 1 finite rows of 3", lambda tmp: (ms.apps.Deformation(sphere(), [0]).move, (np.full((1, 3), np.nan),), {})),
    bad("Deformation.move", "rotations for a method without them", "rotations need method=\"poisson\"", lambda tmp: (ms.apps.Deformation(sphere(), [0]).move, (np.zeros((1, 3)),), {"rotations": [0, 0, 1]})),
    bad("apps.skinning_weights", "a component without a handle", "that of vertex 3 has none", lambda tmp: (ms.apps.skinning_weights, (two_triangles(), [0]), {})),
    bad("apps.skinning_weights", "all vertices as handles", "handles must leave a vertex free, got all of them", lambda tmp: (ms.apps.skinning_weights, (sphere(), np.arange(42)), {})),
    bad("apps.skinning_weights", "a vertex without faces", "vertex 3 has none", lambda tmp: (ms.apps.skinning_weights, (ms.Mesh(np.eye(4, 3), [[0, 1, 2]]), [0]), {})),
    bad("Quadratic", "a sparse Aeq with decreasing row pointers", "Aeq is not a valid sparse matrix", lambda tmp: (ms.Quadratic, (spd(),), {"Aeq": edited(indptr={5: 1})})),
    bad("Quadratic.minimize", "bounds that cross", "in row 0 they are 1 and 0", lambda tmp: (ms.Quadratic(spd()).minimize, (np.ones(N),), {"lower": 1, "upper": 0})),
    bad("Quadratic.minimize", "a lower bound of inf", "of row 0 must leave a finite number", lambda tmp: (ms.Quadratic(spd()).minimize, (np.ones(N),), {"lower": np.inf})),
    bad("Quadratic.minimize", "equalities that contradict each other", "no point satisfies bounds, rows and equalities", lambda tmp: (ms.Quadratic(spd(), Aeq=np.ones((2, N))).minimize, (np.ones(N),), {"beq": [1, 2]}), ms.ConvergenceWarning),
    bad("Quadratic.minimize", "no minimum", "the pivot of row 0 is not positive", lambda tmp: (ms.Quadratic(-spd()).minimize, (np.ones(N),), {}), ms.NotPositiveDefiniteError, column=0),
    bad("Quadratic.minimize", "bounds and equalities without a common point", "no point satisfies bounds, rows and equalities", lambda tmp: (ms.Quadratic(spd(), Aeq=np.ones((1, N))).minimize, (np.ones(N),), {"beq": [5.0 * N], "lower": 0, "upper": 1}), ms.ConvergenceWarning),
    bad("Quadratic.minimize", "rows and bounds without a common point", "info.certificate is a proof", lambda tmp: (ms.Quadratic(spd(), C=np.ones((1, N))).minimize, (np.ones(N),), {"lower": 0, "row_upper": -1}), ms.ConvergenceWarning),
    bad("Quadratic.minimize", "row bounds that cross", "row_lower must not be above row_upper, in row 0 they are 1 and 0", lambda tmp: (ms.Quadratic(spd(), C=np.ones((1, N))).minimize, (np.ones(N),), {"row_lower": 1, "row_upper": 0})),
    bad("Quadratic.minimize", "row bounds without rows", "this quadratic has no rows", lambda tmp: (ms.Quadratic(spd()).minimize, (np.ones(N),), {"row_lower": 1})),
    bad("Quadratic.minimize", "a direction without curvature that no bound stops", "there is no minimum", lambda tmp: (ms.Quadratic(np.diag([1.0, 0.0])).minimize, (np.ones(2),), {"lower": 0}), ms.NotPositiveDefiniteError, column=1),
    bad("Quadratic.minimize", "a function that is not convex, between bounds", "the pivot of row 1 is not positive: the function is not convex", lambda tmp: (ms.Quadratic(np.diag([1.0, -1.0])).minimize, (np.ones(2),), {"lower": 0, "upper": 1}), ms.NotPositiveDefiniteError, column=1),
    bad("Quadratic", "rows with another number of columns", "C must be a finite matrix with", lambda tmp: (ms.Quadratic, (spd(),), {"C": np.ones((1, N + 1))})),
]
