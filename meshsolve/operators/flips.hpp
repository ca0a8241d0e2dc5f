// Intrinsic Delaunay triangulation of a manifold mesh known by the lengths of its edges: an edge whose two opposite
// cotangents sum to less than zero is replaced by the other diagonal of its two triangles, laid out in the plane, until none
// is left.
// Source: Fisher, Springborn, Schroeder, Bobenko 2007, "An algorithm for the construction of intrinsic Delaunay triangulations
// with applications to digital geometry processing", sections 2 and 3. O(edges + flips).
// The vertices stay; two of them may end up joined by several edges, and a vertex to itself.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::operators {

struct Flipped {
  std::vector<int32_t> corners;       // (3 m) of the triangles that result; side 3 t + c joins corners c and c + 1 of t
  std::vector<double> weight;         // (3 m) half the cotangent opposite each side
  std::vector<double> length;         // (3 m) of each side
  int64_t flips = 0;
  bool finished = false;              // false where `limit` flips were not enough; the triangles are valid all the same
};

// faces (3 m) and of_side (3 m), the edge of each side, as in mesh/edges.hpp: at most two sides to an edge, oriented in any
// way. length (edges): every triangle inequality holds. `flattest` is that of cotan_weights.
Flipped intrinsic_delaunay(const int32_t* faces, const int32_t* of_side, int64_t m, std::vector<double> length,
                           double flattest, int64_t limit);

}  // namespace ms::operators
