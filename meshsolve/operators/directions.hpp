// Directions in the tangent planes of an oriented manifold mesh, and in the planes of its triangles. O(n + m).
// Side c of face f has number 3 f + c and starts at corner c, as in mesh/edges.hpp.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::operators {

struct SideDirections {
  std::vector<double> angle;         // (3 m) sum of corner angles from the first side at its corner to the side, counterclockwise
  std::vector<double> total;         // (n) sum of all corner angles at a vertex
  std::vector<int32_t> first;        // (n) side with angle 0, on the boundary at a boundary vertex; -1 without faces
  std::vector<int64_t> boundary;     // the sides without another one, ascending
  int32_t bad_edge = -1;             // an edge of more than two faces, or of two that are not oriented alike; else -1
  int32_t bad_vertex = -1;           // a vertex whose faces form several fans; else -1
};
// Computes the direction of each side at its first corner from the corner angles (3 m). It stops at a bad edge or vertex. Without
// corner angles it has no angles and totals.
SideDirections side_directions(int32_t n, const int32_t* faces, int64_t m, const int32_t* of_side, int64_t edges,
                               const double* corner);

// Triangles in their own planes, one for those that agree: the front and the back of a face, unless a flip has changed one of
// them, and up to three copies of both in a point cloud. Triangle t has the corners corner[3 t...] at (0, 0), (base, 0) and (along, height), and flat[3 t...] = s (base, along,
// height). It counts with 2 s of its area. Sorted by the lowest corner, so that neighbors in the array are neighbors on the
// surface.
struct FlatTriangles {
  std::vector<int32_t> corner;
  std::vector<double> flat;
};
// `corner` and `length` (3 m): side c joins corners c and c + 1, side 0 is the longest. Each triangle counts with its area over
// `copies`, the number of triangles that may agree.
FlatTriangles flat_triangles(int64_t n, const int32_t* corner, const double* length, int64_t m, int copies);

// b := -D X for X = -g / |g|, or 0 where the gradient g of u is 0. u and b have k columns in C order. Only directions count: each
// gradient is scaled first, so that no square underflows. Source: Crane, Weischedel, Wardetzky 2013, algorithm 1.
void divergence_of_directions(const int32_t* corner, const double* flat, int64_t m, int64_t n, const double* u, int64_t k, double* b,
                              int threads);

// out := max(phi - shift, distance to the point in a straight line), an (n, k) block in C order. Each column has a point (k, 3).
// Rows of `out` are `stride` apart. `shift` (parts, k) has a row for each component: `part` (n) has the component of each vertex.
// x has the vertices (n, 3).
void shift_distances(const double* x, int64_t n, const int32_t* part, const double* shift, const double* points, int64_t k,
                     const double* phi, double* out, int64_t stride, int threads);

}  // namespace ms::operators
