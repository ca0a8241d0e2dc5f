// Directions in the tangent planes of an oriented manifold mesh, and in the planes of its triangles. O(n + m).
// Side c of face f has number 3 f + c and starts at corner c, as in mesh/edges.hpp.
#pragma once
#include <cstdint>
#include <vector>

#include "sparse/csr.hpp"

namespace ms::operators {

struct SideDirections {
  std::vector<double> angle;         // (3 m) sum of corner angles from the first side at its corner to the side, counterclockwise
  std::vector<double> total;         // (n) sum of all corner angles at a vertex
  std::vector<int32_t> first;        // (n) side with angle 0, on the boundary at a boundary vertex; -1 without faces
  int32_t bad_edge = -1;             // an edge of more than two faces, or of two that are not oriented alike; else -1
  int32_t bad_vertex = -1;           // a vertex whose faces form several fans; else -1
};
// Computes the direction of each side at its first corner from the corner angles (3 m). It stops at a bad edge or vertex.
SideDirections side_directions(int32_t n, const int32_t* faces, int64_t m, const int32_t* of_side, int64_t edges,
                               const double* corner);

// out := -g / |g| with g = G u, or 0 where g = 0. Rows 2 i and 2 i + 1 of G have the two components on triangle i; u has
// k columns. Both arrays are in C order. Only directions count: g is first divided by its largest component, so that no square
// underflows.
void unit_gradients(const Pattern& G, const double* values, const double* u, int64_t k, double* out, int threads);

// phi := max(phi - shift, distance to the point in a straight line), an (n, k) block in C order with one point (k, 3) a column.
// `shift` (parts, k) has a row for each component: `part` (n) has the component of each vertex. x has the vertices (n, 3).
void shift_distances(const double* x, int64_t n, const int32_t* part, const double* shift, const double* points, int64_t k,
                     double* phi, int threads);

}  // namespace ms::operators
