// Triangles of polygons with any number of corners. A polygon that is star-shaped around its first corner, as every convex one
// is, becomes a fan; any other one is cut ear by ear in the plane of its Newell normal, around bridges to holes as well.
// Sources: Newell's normal in Sutherland, Sproull, Schumacker 1974, "A characterization of ten hidden-surface algorithms";
// Meisters 1975, "Polygons have ears"; Held 2001, "FIST: fast industrial-strength triangulation of polygons" (grid, degenerate ears).
// O(corners) for fans; ears of a polygon take O(corners * concave corners) at worst, about O(corners) where ears are small.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::mesh {

struct Triangles {
  std::vector<int32_t> faces;       // (3 m): k - 2 for a polygon of k corners, polygon after polygon, oriented as it is
  int64_t crossing = 0;             // polygons that cross themselves: their triangles overlap
};

// counts[i] >= 3 corners of each polygon, one polygon after the other; each corner is the index of a vertex.
Triangles triangulate(const double* vertices, const int32_t* corners, const int32_t* counts, int64_t polygons);

}  // namespace ms::mesh
