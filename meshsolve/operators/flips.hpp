// Intrinsic Delaunay triangulation of a manifold mesh given by its edge lengths. An edge whose two opposite cotangents have a
// negative sum is flipped: it is replaced by the other diagonal of its two triangles, laid out in the plane.
// Source: Fisher, Springborn, Schroeder, Bobenko 2007, "An algorithm for the construction of intrinsic Delaunay triangulations
// with applications to digital geometry processing", sections 2 and 3. O(edges + flips).
// The vertices stay. The result may have multiple edges and loops.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::operators {

struct Flipped {
  std::vector<int32_t> corners;       // (3 m) vertices of the triangles; side 3 t + c joins corners c and c + 1 of triangle t
  std::vector<double> weight;         // (3 m) half the cotangent opposite each side
  std::vector<double> length;         // (3 m) length of each side
  std::vector<int32_t> edge;          // (3 m) edge of each side
  std::vector<double> angle;          // (3 m) direction of each side at its first corner; empty if none were given
  int64_t flips = 0;
  bool finished = false;              // false if `limit` flips were not enough; the triangles are valid nevertheless
};

// faces (3 m) and of_side (3 m), the edge of each side, as in mesh/edges.hpp, with at most two sides per edge and any
// orientation. The lengths of the edges satisfy all triangle inequalities. `flattest` is the bound of cotan_weights.
// `angle` (3 m) has directions of the sides, counterclockwise around their first corners, or is empty. Directions need faces that
// are oriented alike. They stay valid through flips (signposts: Sharp, Soliman, Crane 2019, "Navigating intrinsic
// triangulations").
Flipped intrinsic_delaunay(const int32_t* faces, const int32_t* of_side, int64_t m, std::vector<double> length,
                           std::vector<double> angle, double flattest, int64_t limit);

}  // namespace ms::operators
