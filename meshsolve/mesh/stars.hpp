// Local triangulations of points: the Delaunay star of each point in its tangent plane.
//
// The plane of point i cuts the Voronoi diagram of the points in space. The cell of i in the plane is the set of c with
// 2 c.p_a <= s_a for all neighbors a. Here p_a is the projection of d_a = x_a - x_i, and s_a = |d_a|^2 + w_i - w_a. The sides of the cell
// are the vertices of its polar dual, the convex hull of 0 and the points p_a / s_a. Each side of the hull that does not touch 0 is a
// triangle (i, a, b) of the star. At a boundary of the points 0 is a vertex of the hull.
// The tiny weights w select the same diagonals in all stars where four points lie on a circle, as in a grid.
//
// Sources: Sharp & Crane 2020, "A Laplacian for nonmanifold triangle meshes", section 5.7 (stars); Boissonnat, Ghosh 2014,
// "Manifold reconstruction using tangential Delaunay complexes" (the cut of the diagram in space). O(n k log k) for k neighbors.
// Invariants: corners of a triangle ascend; triangles are in the order of the points whose stars they belong to.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::mesh {

struct Stars {
  std::vector<int32_t> triangles;     // (3 t) corners
  std::vector<int32_t> round;         // (t) number of equal triangles in stars of earlier corners: 0, 1 or 2
};

// Unit normals (3 n) of least squares through each point of x (3 n) and its k neighbors (n k). 0 if the points lie on a line.
void plane_normals(const double* x, int64_t n, const int32_t* neighbors, int64_t k, double* normals, int threads);

// Stars of the points x (3 n) among their k neighbors (n k), in the planes of the normals (3 n). A star without normal is empty.
Stars delaunay_stars(const double* x, int64_t n, const int32_t* neighbors, int64_t k, const double* normals, int threads);

}  // namespace ms::mesh
