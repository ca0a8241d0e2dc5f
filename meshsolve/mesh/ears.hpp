// Ear clipping of one polygon in the plane, and the test whether it crosses itself. Source and cost: polygons.hpp.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::mesh {

struct Point {
  double x, y;
};

// Appends three indices into `polygon` per triangle, k - 2 triangles of k >= 3 points; false where the polygon crosses itself.
// The points go around counterclockwise and lie within a square of side 1.
bool clip_ears(const std::vector<Point>& polygon, std::vector<int32_t>& triangles);

}  // namespace ms::mesh
