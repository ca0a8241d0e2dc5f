// Geomview's text OFF: positions, polygons, colors and texture coordinates of vertices. Normals and colors of faces are ignored.
// A row begins on a new line and may span several lines. The rest of its last line is ignored. Several rows may share a line if
// every row has exactly the numbers that the header announces.
// Source: "OFF Files" in Phillips, Levy, Munzner et al., Geomview Manual (Geometry Center, 1996). O(bytes).
#pragma once
#include "polygon_file.hpp"

namespace ms::mesh {

PolygonFile read_off(std::string_view text);

}  // namespace ms::mesh
