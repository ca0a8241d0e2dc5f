// STL in text: the corners of the facets, in their order, of all solids. Normals, names and unknown lines are passed over.
// Source: 3D Systems 1988, "StereoLithography Interface Specification". O(bytes).
#pragma once
#include "polygon_file.hpp"

namespace ms::mesh {

PolygonFile read_stl_text(std::string_view text);       // a vertex of its own for each corner

}  // namespace ms::mesh
