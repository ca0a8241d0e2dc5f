"""Bad input to meshes, mesh files, operators and patches."""

import functools
import os
import types

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from hostile.material import N, adjacency, damaged_gzip, half, nan_sphere, spd, sphere, without_cupy, written
from hostile.row import Unsymmetric, bad, fine


class Grid:
    """The attributes of a pyvista.UnstructuredGrid of two triangles."""

    points = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    cells = np.array([3, 0, 1, 2, 3, 0, 2, 3])
    cells_dict = {5: np.array([[0, 1, 2], [0, 2, 3]])}


def tetrahedra():
    """An object like a meshio.Mesh with volume cells."""
    cell = types.SimpleNamespace(type="tetra", data=np.array([[0, 1, 2, 3]]))
    return types.SimpleNamespace(points=np.eye(4, 3), cells=[cell], cells_dict={"tetra": cell.data})


def book():
    """Three faces at one edge, one of them of zero area."""
    return ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0, 0]], [[0, 1, 2], [0, 1, 3], [0, 1, 4]])


def far_sphere():
    return ms.Mesh(sphere().vertices + 1e7, sphere().faces)


def whole_ply(tmp):
    sphere().save(tmp / "whole.ply")
    return (tmp / "whole.ply").read_bytes()


MSH = ("$MeshFormat\n2.2 0 8\n$EndMeshFormat\n{1}$Nodes\n3\n4 0 0 0\n6 1 0 0\n8 0 1 0\n$EndNodes\n$Elements\n1\n5 2 2 4 1 4 6 {0}\n$EndElements\n")
TETRAHEDRON = ("# vtk DataFile Version 3.0\na\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 float\n0 0 0 1 0 0 0 1 0 0 0 1\nCELLS 1 5\n4 0 1 2 3\n"
               "CELL_TYPES 1\n10\n")

ROWS = [
    bad("Mesh", "vertices of two columns", "vertices must be (n, 3)", lambda tmp: (ms.Mesh, (np.zeros((3, 2)), [[0, 1, 2]]), {})),
    bad("Mesh", "`vertex_data` that is no mapping from names to arrays", "vertex_data must be a mapping from names to arrays, got an array", lambda tmp: (ms.Mesh, (np.eye(3), [[0, 1, 2]]), {"vertex_data": np.ones(3)})),
    bad("Mesh", "no vertices", "at least one vertex", lambda tmp: (ms.Mesh, (np.zeros((0, 3)), np.zeros((0, 3), int)), {})),
    bad("Mesh", "NaN, infinity or a coordinate above 1e70", "vertex 1 is at", lambda tmp: (ms.Mesh, ([[0, 0, 0], [0, np.nan, 0], [1, 0, 0]], [[0, 1, 2]]), {})),
    bad("Mesh", "complex, text or object vertices", "real numbers", lambda tmp: (ms.Mesh, (np.eye(3) * 1j, [[0, 1, 2]]), {})),
    bad("Mesh", "masked vertices or faces", "masked", lambda tmp: (ms.Mesh, (np.ma.masked_equal(np.eye(3), 1), [[0, 1, 2]]), {})),
    bad("Mesh", "a vertex index out of range, also 2^32", "face 1 refers to vertex 4294967296", lambda tmp: (ms.Mesh, (np.eye(3), np.array([[0, 1, 2], [0, 1, 2**32]])), {})),
    bad("Mesh", "a negative vertex index", "face 0 refers to vertex -1", lambda tmp: (ms.Mesh, (np.eye(3), [[0, 1, -1]]), {})),
    bad("Mesh", "faces of four corners", "faces must be (m, 3)", lambda tmp: (ms.Mesh, (np.eye(3), [[0, 1, 2, 0]]), {})),
    bad("Mesh", "fractional or bool faces", "faces must be integers", lambda tmp: (ms.Mesh, (np.eye(3), [[0.0, 1.0, 2.0]]), {})),
    bad("Mesh", "a face with a repeated corner", "dropped 1 face with a repeated corner", lambda tmp: (ms.Mesh, (np.eye(3), [[0, 1, 1], [0, 1, 2]]), {}), ms.MeshsolveWarning),
    fine("Mesh", "non-manifold, flipped, zero-area or no faces; unreferenced vertices", "kept unchanged", lambda tmp: (ms.Mesh, (np.zeros((5, 3)), [[0, 1, 2], [1, 0, 2], [0, 1, 3]]), {})),
    bad("Mesh", "one argument that is not a mesh", "ndarray has no vertices and faces", lambda tmp: (ms.Mesh, (np.eye(3),), {})),
    bad("Mesh", "the name of a file", "read files with load_mesh", lambda tmp: (ms.Mesh, ("scan.ply",), {})),
    bad("Mesh.boundary_loops", "a boundary that meets an edge of more than two faces", "does not close at vertex 1", lambda tmp: (book().boundary_loops, (), {})),
    fine("Mesh.boundary_loops", "several fans at a vertex, faces of different orientation", "each fan is visited separately; a loop has the direction of the face of its first edge", lambda tmp: (ms.Mesh(np.zeros((6, 3)), [[0, 1, 2], [0, 3, 4], [5, 4, 3]]).boundary_loops, (), {})),
    bad("PolygonMesh", "a polygon with fewer than three corners", "polygon 0 has fewer than three corners", lambda tmp: (ms.PolygonMesh, (np.eye(4, 3), [[0, 1]]), {})),
    bad("PolygonMesh", "faces that are no lists", "faces must be lists of vertex numbers", lambda tmp: (ms.PolygonMesh, (np.eye(4, 3), 3), {})),
    bad("PolygonMesh", "a corner outside the mesh, or twice", "polygon 0 has a repeated corner", lambda tmp: (ms.PolygonMesh, (np.eye(4, 3), [[0, 1, 2, 1]]), {})),
    bad("PolygonMesh.load", "a format without polygons", "unknown mesh format '.stl'; use one of .obj, .ply, .off", lambda tmp: (ms.PolygonMesh.load, (tmp / "a.stl",), {})),
    bad("PolygonMesh.save", "a format without polygons", "unknown mesh format '.vtu'; use one of .obj, .ply, .off", lambda tmp: (ms.PolygonMesh(np.eye(3), [[0, 1, 2]]).save, (tmp / "a.vtu",), {})),
    bad("PointCloud", "fewer points than `neighbors` + 1", "neighbors=30 must be less than the number of points, 4", lambda tmp: (ms.PointCloud, (np.eye(4, 3),), {})),
    bad("PointCloud", "fewer than 4 `neighbors`", "neighbors must be an integer from 4", lambda tmp: (ms.PointCloud, (sphere().vertices,), {"neighbors": 3})),
    bad("PointCloud", "NaN, infinity or a coordinate above 1e70", "vertex 3 is at", lambda tmp: (ms.PointCloud, (np.where(np.arange(126).reshape(42, 3) == 9, np.nan, sphere().vertices),), {})),
    bad("PointCloud", "a mesh", "got a Mesh: give its vertices", lambda tmp: (ms.PointCloud, (sphere(),), {})),
    bad("PointCloud", "points of two columns", "points must be (n, 3)", lambda tmp: (ms.PointCloud, (np.zeros((50, 2)),), {})),
    bad("PointCloud", "all points at one position", "neighbors=30 must be less than the number of positions of points, 1", lambda tmp: (ms.PointCloud, (np.zeros((42, 3)),), {})),
    bad("PointCloud", "a normal of length 0, NaN, or normals of another number", "normal 0 must be finite and not 0", lambda tmp: (ms.PointCloud, (sphere().vertices, np.zeros((42, 3))), {})),
    bad("PointCloud.load", "a format without points", "unknown mesh format '.stl'; use one of .obj, .ply, .off", lambda tmp: (ms.PointCloud.load, (tmp / "a.stl",), {})),
    bad("cotan_laplacian", "points on a line", "the points lie on a line", lambda tmp: (ms.cotan_laplacian, (ms.PointCloud(np.linspace(0, 1, 42)[:, None] * [1, 2, 3]),), {})),
    bad("mass_matrix", "a PointCloud and `kind=\"consistent\"`", "masses of a PointCloud are \"lumped\"", lambda tmp: (ms.mass_matrix, (ms.PointCloud(sphere().vertices), "consistent"), {})),
    bad("operators.gradient", "a PointCloud", "ms.operators.intrinsic_delaunay(cloud).gradient()", lambda tmp: (ms.operators.gradient, (ms.PointCloud(sphere().vertices),), {})),
    bad("TetMesh", "an inverted cell", "cell 0 is inverted", lambda tmp: (ms.TetMesh, (np.eye(4, 3), [[0, 1, 2, 3]]), {})),
    bad("TetMesh", "a corner outside the mesh", "cell 0 has corners [0, 1, 2, 4]", lambda tmp: (ms.TetMesh, (np.eye(4, 3), [[0, 1, 2, 4]]), {})),
    bad("TetMesh", "two cells with the same corners", "cells 0 and 1 have the same corners [0, 1, 2, 3]: remove one of them", lambda tmp: (ms.TetMesh, (np.eye(4, 3), [[0, 1, 3, 2], [3, 0, 1, 2]]), {})),
    bad("TetMesh", "a cell with a repeated corner", "cell 0 has a repeated corner", lambda tmp: (ms.TetMesh, (np.eye(4, 3), [[0, 1, 2, 2]]), {})),
    bad("Mesh.from_trimesh", "a trimesh.Scene", "pass scene.to_geometry()", lambda tmp: (ms.Mesh.from_trimesh, (types.SimpleNamespace(geometry={}, to_geometry=None),), {})),
    bad("Mesh.from_trimesh", "anything else", "not a trimesh.Trimesh", lambda tmp: (ms.Mesh.from_trimesh, ("bunny",), {})),
    bad("Mesh.from_meshio", "anything else", "not a meshio.Mesh", lambda tmp: (ms.Mesh.from_meshio, ("bunny",), {})),
    bad("Mesh", "a grid of pyvista, or another object with points and cells", "the cells of this Grid are no list of blocks with type and data: pass arrays, for a grid of pyvista Mesh(grid.points, grid.cells_dict[5])", lambda tmp: (ms.Mesh, (Grid(),), {})),
    bad("Mesh.from_meshio", "the name of a file", "not a meshio.Mesh, but the name of a file, 'a.msh': pass meshio.read", lambda tmp: (ms.Mesh.from_meshio, ("a.msh",), {})),
    bad("TetMesh.from_meshio", "the name of a file, a grid of pyvista, no mesh", "not a meshio.Mesh", lambda tmp: (ms.TetMesh.from_meshio, (Grid(),), {})),
    bad("cotan_laplacian", "`intrinsic_delaunay` not True or False", "intrinsic_delaunay must be True or False, got 2e-10", lambda tmp: (ms.cotan_laplacian, (ms.datasets.icosphere(1),), {"intrinsic_delaunay": 0.2e-9})),
    bad("Mesh.from_meshio", "volume cells", "cells of kind 'tetra' are not supported", lambda tmp: (ms.Mesh.from_meshio, (tetrahedra(),), {})),
    bad("Mesh.with_vertices", "another number of vertices", "vertices must have 42 rows as before, got 3", lambda tmp: (sphere().with_vertices, (np.eye(3),), {})),
    bad("Mesh.save", "a vertex that was changed to NaN", "vertex 3 is at", lambda tmp: (nan_sphere().save, (tmp / "mesh.ply",), {})),
    *[bad(name, "a mesh with a vertex that was changed to NaN", "vertex 3 is at", lambda tmp, f=function: (f, (nan_sphere(),), {}))
      for name, function in [("cotan_laplacian", ms.cotan_laplacian), ("mass_matrix", ms.mass_matrix), ("operators.gradient", ms.operators.gradient),
                             ("operators.divergence", ms.operators.divergence), ("apps.mcf", ms.apps.mcf), ("apps.smooth", ms.apps.smooth)]],
    bad("Mesh.save", "`fields` that are no mapping", "fields must be a mapping from names to arrays, got an array", lambda tmp: (sphere().save, (tmp / "a.ply",), {"fields": np.ones(12)})),
    bad("Mesh.save", "an unknown format", "unknown mesh format", lambda tmp: (sphere().save, (tmp / "mesh.xyz",), {})),
    bad("Mesh.save", "`fields` for another format than PLY, VTU, VTP, VTK and MSH", "numbers at vertices are written as .ply", lambda tmp: (sphere().save, (tmp / "mesh.obj",), {"fields": {"height": sphere().vertices[:, 1]}})),
    bad("Mesh.save", "`uv` for another format than OBJ, PLY and GLB", "texture coordinates are written as .obj", lambda tmp: (sphere().save, (tmp / "mesh.stl",), {"uv": sphere().vertices[:, :2]})),
    bad("Mesh.save", "faces of `uv` of another shape or out of range", "the faces of uv must be integers of shape (80, 3), below 3", lambda tmp: (sphere().save, (tmp / "mesh.obj",), {"uv": (np.ones((3, 2)), sphere().faces)})),
    bad("Mesh.save", "`fields` or `uv` of another length", "vertex data 'height' must have shape (42, ...), one row for each vertex", lambda tmp: (sphere().save, (tmp / "mesh.ply",), {"fields": {"height": np.ones(41)}})),
    bad("Mesh.save", "a field of a PLY named x, y or z", "two properties of vertex named 'x'", lambda tmp: (sphere().save, (tmp / "mesh.ply",), {"fields": {"x": np.ones(42)}})),
    bad("Mesh.vertex_data", "another number of rows", "vertex data 'height' must have shape (42, ...)", lambda tmp: (sphere().vertex_data.__setitem__, ("height", np.ones(41)), {})),
    bad("Mesh.corner_data", "three columns of texture coordinates", "corner data 'uv' must have 2 columns", lambda tmp: (sphere().corner_data.__setitem__, ("uv", np.ones((80, 3, 3))), {})),
    bad("load_mesh", "an OBJ with a texture index out of range", "mesh.obj:5: texture index 2 is outside 1..1", lambda tmp: (ms.load_mesh, (written(tmp, "mesh.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nf 1/1 2/1 3/2\n"),), {})),
    bad("Mesh.save", "a folder that does not exist", "cannot be written", lambda tmp: (sphere().save, (tmp / "no" / "mesh.obj",), {})),
    bad("Mesh.save", "the name of a folder", "cannot be written", lambda tmp: ((tmp / "folder.obj").mkdir() or sphere().save, (tmp / "folder.obj",), {})),
    bad("Mesh.save", "no file name", "a file name must be", lambda tmp: (sphere().save, (3,), {})),
    bad("load_mesh", "a file that does not exist", "no such file", lambda tmp: (ms.load_mesh, (tmp / "mesh.obj",), {})),
    bad("load_mesh", "a glTF whose buffer lies outside of its folder", "only files in the folder of the document are read", lambda tmp: (
        ms.load_mesh, (written(tmp, "out.gltf", '{"asset": {"version": "2.0"}, "buffers": [{"byteLength": 12, "uri": "../b.bin"}], "bufferViews": [{"buffer": 0, '
                                                '"byteLength": 12}], "accessors": [{"bufferView": 0, "componentType": 5126, "count": 1, "type": "VEC3"}], "meshes": '
                                                '[{"primitives": [{"attributes": {"POSITION": 0}}]}], "nodes": [{"mesh": 0}]}'),), {})),
    bad("load_mesh", "a pipe or a device", "this is a pipe or a device; only files can be read", lambda tmp: ((tmp / "null.obj").symlink_to(os.devnull) or ms.load_mesh, (tmp / "null.obj",), {})),
    bad("load_mesh", "a folder", "this is a folder", lambda tmp: ((tmp / "folder.obj").mkdir() or ms.load_mesh, (tmp / "folder.obj",), {})),
    bad("load_mesh", "an unknown format", "unknown mesh format '.xyz'", lambda tmp: (ms.load_mesh, (written(tmp, "mesh.xyz", "0 0 0"),), {})),
    bad("load_mesh", "no file name, a null character", "is not a file name", lambda tmp: (ms.load_mesh, ("a\0b.obj",), {})),
    bad("load_mesh", "an OBJ with a broken line", "mesh.obj:2: ", lambda tmp: (ms.load_mesh, (written(tmp, "mesh.obj", "v 0 0 0\nv 1 x 0\n"),), {})),
    bad("load_mesh", "an OBJ with a vertex index out of range", "mesh.obj:4: ", lambda tmp: (ms.load_mesh, (written(tmp, "mesh.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n"),), {})),
    bad("load_mesh", "an empty file", "mesh.obj: ", lambda tmp: (ms.load_mesh, (written(tmp, "mesh.obj", ""),), {})),
    *[bad("load_mesh", f"a {suffix} file cut in half", f"half{suffix}", lambda tmp, s=suffix: (ms.load_mesh, (half(tmp, s),), {}))
      for suffix in (".obj", ".ply", ".off", ".stl", ".glb", ".vtu", ".vtp", ".vtk", ".msh", ".obj.gz", ".ply.gz")],
    bad("load_mesh", "a glTF that requires Draco compression", "requires the extension KHR_draco_mesh_compression", lambda tmp: (
        ms.load_mesh, (written(tmp, "mesh.gltf", '{"extensionsRequired": ["KHR_draco_mesh_compression"]}'),), {})),
    bad("load_mesh", "an MSH that announces more than its bytes hold", "the file announces 9999999999999999 nodes, but it has", lambda tmp: (
        ms.load_mesh, (written(tmp, "mesh.msh", "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n9999999999999999\n"),), {})),
    bad("load_mesh", "an MSH with an element whose node is missing", "element 5 refers to node 9, which the file does not have", lambda tmp: (
        ms.load_mesh, (written(tmp, "mesh.msh", MSH.format(9, "")),), {})),
    bad("load_mesh", "an MSH with names of groups", "names of groups are left out: in 'gmsh:physical' 4 is 'lid'", lambda tmp: (
        ms.load_mesh, (written(tmp, "mesh.msh", MSH.format(8, '$PhysicalNames\n1\n2 4 "lid"\n$EndPhysicalNames\n')),), {}), ms.MeshsolveWarning),
    bad("load_mesh", "a VTU with an XML document type, which may define entities", "the file has an XML document type, <!DOCTYPE VTKFile>", lambda tmp: (
        ms.load_mesh, (written(tmp, "mesh.vtu", '<!DOCTYPE VTKFile [<!ENTITY a "1 1 1">]><VTKFile type="UnstructuredGrid"/>'),), {})),
    bad("load_mesh", "a VTK or VTU of another dataset than a grid or a surface", "a VTK file of type 'ImageData' is not supported", lambda tmp: (
        ms.load_mesh, (written(tmp, "mesh.vtu", '<VTKFile type="ImageData"/>'),), {})),
    bad("load_mesh", "tetrahedra or other solid cells", "cells of kind 'tetra' are not supported", lambda tmp: (ms.load_mesh, (written(tmp, "mesh.vtk", TETRAHEDRON),), {})),
    bad("load_mesh", "triangles and quadrilaterals of higher order", "1 face of higher order: read by their corners", lambda tmp: (
        ms.load_mesh, (written(tmp, "mesh.vtk", TETRAHEDRON.replace("4 0 1 2 3", "6 0 1 2 3 0 1").replace("1 5\n", "1 7\n").replace("10\n", "22\n")),), {}), ms.MeshsolveWarning),
    bad("load_mesh", "a PLY that continues after its rows", "has 4 bytes after the rows that its header announces", lambda tmp: (
        ms.load_mesh, (written(tmp, "mesh.ply", whole_ply(tmp) + b"more"),), {}), ms.MeshsolveWarning),
    bad("Mesh.save", "an STL or GLB far from the origin, relative to its faces", "single precision: rounding moves corners of 80 faces", lambda tmp: (
        far_sphere().save, (tmp / "mesh.stl",), {}), ms.MeshsolveWarning),
    bad("Mesh.save", "names that a format cannot hold", "is written as 'a__b'", lambda tmp: (
        sphere().save, (tmp / "mesh.msh",), {"fields": {'a"\nb': np.ones(42)}}), ms.MeshsolveWarning),
    bad("Mesh.vertex_data", "integer colors outside 0 to 255", "vertex data 'color' must be integers from 0 to 255 or floats from 0 to 1, got int64 from 0 to 999", lambda tmp: (
        sphere().vertex_data.__setitem__, ("color", np.arange(126).reshape(42, 3) * 999 // 125), {})),
    fine("Mesh.vertex_data", "colors from 0 to 255 in another type of integers", "stored as uint8", lambda tmp: (
        sphere().vertex_data.__setitem__, ("color", np.arange(126).reshape(42, 3)), {})),
    bad("load_mesh", "a damaged gzip file", "cannot be read", lambda tmp: (ms.load_mesh, (damaged_gzip(tmp),), {})),
    *[bad(name, "not a mesh", "must be a meshsolve.Mesh", lambda tmp, f=function: (f, (np.eye(3),), {}))
      for name, function in {"cotan_laplacian": ms.cotan_laplacian, "mass_matrix": ms.mass_matrix, "operators.gradient": ms.operators.gradient,
                             "operators.divergence": ms.operators.divergence, "apps.mcf": ms.apps.mcf,
                             "apps.smooth": functools.partial(ms.apps.smooth, strength=1)}.items()],
    bad("cotan_laplacian", "the name of a file", "read files with load_mesh", lambda tmp: (ms.cotan_laplacian, ("scan.ply",), {})),
    bad("cotan_laplacian(intrinsic_delaunay=True)", "a non-manifold mesh", "needs a manifold mesh", lambda tmp: (ms.cotan_laplacian, (book(),), {"intrinsic_delaunay": True})),
    fine("cotan_laplacian", "slivers, zero-area triangles, non-manifold edges", "finite weights", lambda tmp: (ms.cotan_laplacian, (book(),), {})),
    bad("graph_laplacian(weights=\"values\")", "weights that are not symmetric", "W[7, 6] is 1, but W[6, 7] is 3", lambda tmp: (ms.graph_laplacian, (adjacency((6, 7, 3.0)),), {"weights": "values"}), Unsymmetric, row=7, column=6),
    bad("graph_laplacian(weights=\"values\")", "a negative weight, as a Laplacian has", "W[0, 1] is -1: weights must be at least 0", lambda tmp: (ms.graph_laplacian, (spd(),), {"weights": "values"})),
    bad("graph_laplacian(weights=\"values\")", "NaN or infinity", "row 6, column 7 holds nan", lambda tmp: (ms.graph_laplacian, (adjacency((6, 7, np.nan)),), {"weights": "values"})),
    bad("graph_laplacian(weights=\"values\")", "weights whose sum overflows", "vertex 6 sum to infinity", lambda tmp: (ms.graph_laplacian, (adjacency((6, 7, 1.7e308), (7, 6, 1.7e308), (6, 5, 1.7e308), (5, 6, 1.7e308)),), {"weights": "values"})),
    bad("graph_laplacian(weights=\"values\")", "a mesh, which has no weights", "needs a matrix, got a mesh", lambda tmp: (ms.graph_laplacian, (sphere(),), {"weights": "values"})),
    fine("graph_laplacian(weights=\"values\")", "loops on the diagonal, duplicates, stored zeros", "loops cancel, duplicates are summed, zeros stay", lambda tmp: (ms.graph_laplacian, (adjacency((6, 6, 5.0), (2, 3, 0.0), (3, 2, 0.0)),), {"weights": "values"})),
    bad("graph_laplacian", "a matrix with entries in one direction only: a directed graph", "2 entries without a mirror entry", lambda tmp: (ms.graph_laplacian, (sp.coo_array(([1.0, 1.0], ([0, 2], [1, 5])), shape=(N, N)),), {}), ms.MeshsolveWarning),
    bad("graph_laplacian(weights=)", "an unknown word", "weights must be one of 'unit', 'values'", lambda tmp: (ms.graph_laplacian, (spd(),), {"weights": "distance"})),
    bad("graph_laplacian(weights=)", "not one for each edge of a mesh", "120 real numbers, one for each of mesh.edges", lambda tmp: (ms.graph_laplacian, (sphere(), np.ones(119)), {})),
    bad("graph_laplacian(weights=)", "a negative or infinite weight of an edge", "weights[3] of the edge from vertex 0 to 15 is inf", lambda tmp: (ms.graph_laplacian, (sphere(), np.where(np.arange(120) == 3, np.inf, 1.0)), {})),
    bad("graph_laplacian(weights=)", "an array for a matrix", "needs a mesh, got a matrix", lambda tmp: (ms.graph_laplacian, (spd(), np.ones(11)), {})),
    fine("operators.gradient", "slivers, zero-area triangles, non-manifold edges", "finite, with the energy of the Laplacian", lambda tmp: (ms.operators.gradient, (book(),), {})),
    bad("mass_matrix", "unknown kind", "kind must be one of", lambda tmp: (ms.mass_matrix, (sphere(), "full"), {})),
    bad("mass_matrix", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.mass_matrix), (sphere(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("mass_matrix", "unknown device", "device must be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.mass_matrix, (sphere(),), {"device": "gpu"})),
    bad("cotan_laplacian", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.cotan_laplacian), (sphere(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("cotan_laplacian", "unknown device", "device must be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.cotan_laplacian, (sphere(),), {"device": "gpu"})),
    bad("cotan_laplacian", "`device=\"cuda\"` with `intrinsic_delaunay`", "on the CPU only", lambda tmp: (ms.cotan_laplacian, (sphere(), True), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("PatchMesh", "`patch_size` below 1", "patch_size must be an integer from 1", lambda tmp: (ms.PatchMesh, (sphere(), 0), {})),
    bad("PatchMesh", "a negative or fractional seed", "seed must be an integer", lambda tmp: (ms.PatchMesh, (sphere(),), {"seed": 0.5})),
    bad("PatchMesh.patch", "a number out of range", "there is no patch 99", lambda tmp: (ms.PatchMesh(sphere()).patch, (99,), {})),
    bad("PatchMesh.query", "unknown query", "name must be one of VV, VE, VF, FV, FE, FF, EV, EF, EE, EVDiamond, got 'VX'", lambda tmp: (ms.PatchMesh(sphere()).query, ("VX",), {})),
    bad("PatchMesh.query", "faces of a pattern", "needs faces", lambda tmp: (ms.PatchMesh(spd()).query, ("VF",), {})),
    bad("PatchMesh.query", "`oriented=True` at a vertex that is not manifold", "vertex 0 is not manifold, so its neighbors have no rotation order: its 2 faces form more than one fan", lambda tmp: (ms.PatchMesh(ms.Mesh(np.eye(5, 3), [[0, 1, 2], [0, 3, 4]])).query, ("VV",), {"oriented": True})),
    bad("PatchMesh.query", "`\"EVDiamond\"` at an edge of more than two faces", "edge 0, (0, 1), is not manifold: it has 3 faces", lambda tmp: (ms.PatchMesh(ms.Mesh(np.eye(5, 3), [[0, 1, 2], [0, 1, 3], [0, 1, 4]])).query, ("EVDiamond",), {})),
    bad("PatchMesh.query", "`oriented=True` for another query than VV and VE", "oriented=True is for the queries VV and VE, got 'VF'", lambda tmp: (ms.PatchMesh(sphere()).query, ("VF",), {"oriented": True})),
    bad("PatchMesh.query", "`rings` below 1", "rings must be an integer from 1", lambda tmp: (ms.PatchMesh(sphere()).query, ("VV",), {"rings": 0})),
    bad("PatchMesh.query", "`rings` for another query than VV", "rings=2 is for the query VV", lambda tmp: (ms.PatchMesh(sphere()).query, ("VE",), {"rings": 2})),
    bad("PatchMesh.reduce", "values of another length", "values must be of shape (42, ...)", lambda tmp: (ms.PatchMesh(sphere()).reduce, ("VV", [1.0]), {})),
    bad("PatchMesh.reduce", "complex values, text", "values must be real numbers", lambda tmp: (ms.PatchMesh(sphere()).reduce, ("VV", np.full(42, 1j)), {})),
    bad("PatchMesh.reduce", "an unknown `op`", "op must be one of 'sum', 'mean', 'min', 'max'", lambda tmp: (ms.PatchMesh(sphere()).reduce, ("VV", np.ones(42), "median"), {})),
    bad("PatchMesh.reduce", "integers and a row without entries, without `empty`", "row 3 of the query has no entries", lambda tmp: (ms.PatchMesh(ms.Mesh(np.eye(4, 3), [[0, 1, 2]])).reduce, ("VV", np.arange(4), "min"), {})),
    bad("PatchMesh.query", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.PatchMesh(sphere()).query), ("VV", "cuda"), {}), ms.DeviceUnavailableError),
    bad("PatchMesh.kernel", "a negative number of bytes", "vertex_bytes must be an integer from 0", lambda tmp: (ms.PatchMesh(sphere()).kernel, ("",), {"vertex_bytes": -1})),
    bad("PatchMesh.kernel", "no GPU or no CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.PatchMesh(sphere()).kernel), ("",), {}), ms.DeviceUnavailableError),
    bad("PatchMesh", "`device=\"cuda\"` without a GPU or CuPy", "needs CuPy: pip install", lambda tmp: (without_cupy(ms.PatchMesh), (sphere(),), {"device": "cuda"}), ms.DeviceUnavailableError),
    bad("PatchMesh", "unknown device", "device must be one of 'auto', 'cpu', 'cuda'", lambda tmp: (ms.PatchMesh, (sphere(),), {"device": "gpu"})),
]
