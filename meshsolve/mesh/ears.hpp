// Ear clipping of one polygon in the plane, and a test for self-intersection. Source and cost: polygons.hpp.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::mesh {

struct Point {
  double x, y;
};

// Appends three indices into `polygon` per triangle, k - 2 triangles for k >= 3 points. Returns false if the polygon intersects
// itself.
// The points are in counterclockwise order within a square of side 1.
bool clip_ears(const std::vector<Point>& polygon, std::vector<int32_t>& triangles);

}  // namespace ms::mesh
