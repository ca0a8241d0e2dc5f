// Geomview's OFF in text: positions and polygons. Colors, normals and texture coordinates are passed over.
// A row begins a line, and what follows its numbers on that line is passed over; or it is split over lines. Several rows may stand
// on a line if rows hold nothing but what the header announces.
// Source: "OFF Files" in Phillips, Levy, Munzner et al., Geomview Manual (Geometry Center, 1996). O(bytes).
#pragma once
#include "polygon_file.hpp"

namespace ms::mesh {

PolygonFile read_off(std::string_view text);

}  // namespace ms::mesh
