// Triangulation of polygons with any number of corners. A polygon that is star-shaped around its first corner, such as a convex
// one, becomes a fan. Any other polygon is triangulated by ear clipping in the plane of its Newell normal; bridges to holes are
// allowed.
// Sources: Newell's normal in Sutherland, Sproull, Schumacker 1974, "A characterization of ten hidden-surface algorithms";
// Meisters 1975, "Polygons have ears"; Held 2001, "FIST: fast industrial-strength triangulation of polygons" (grid, degenerate
// ears).
// O(corners) for fans. Ear clipping takes about O(corners log corners), and at most a bound in proportion to the corners: a polygon
// that goes around many times becomes a fan after that.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::mesh {

struct Triangles {
  std::vector<int32_t> faces;       // (3 m) polygon after polygon, k - 2 triangles for k corners, with the orientation of the polygon
  int64_t crossing = 0;             // number of polygons that intersect themselves; their triangles overlap
};

// Polygon i has counts[i] >= 3 corners; `corners` has the vertex indices polygon after polygon.
Triangles triangulate(const double* vertices, const int32_t* corners, const int32_t* counts, int64_t polygons);

}  // namespace ms::mesh
