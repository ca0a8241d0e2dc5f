// Text STL: corners of the facets of all solids, in the order of the file. Normals, names and unknown lines are ignored.
// Source: 3D Systems 1988, "StereoLithography Interface Specification". O(bytes).
#pragma once
#include "polygon_file.hpp"

namespace ms::mesh {

PolygonFile read_stl_text(std::string_view text);       // separate vertex for each corner

}  // namespace ms::mesh
