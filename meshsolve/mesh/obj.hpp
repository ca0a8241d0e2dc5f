// Wavefront OBJ: positions and colors of vertices, texture coordinates and polygons of a file, in one pass over its bytes.
// Supported: v with a weight or a color, vt, f and line structure (comments, CRLF, continuation by a backslash). Other
// statements (normals, groups, materials, curves) are ignored. A texture or normal index never splits a vertex.
// Source: Wavefront "Object Files (.obj)", Advanced Visualizer manual, appendix B1. O(bytes).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "polygon_file.hpp"

namespace ms::mesh {

PolygonFile read_obj(std::string_view text);

// Text of an OBJ file; each number has the fewest digits that read back to the same bits. `colors` (3 per vertex) and `uvs` (pairs)
// may be empty. `uv_corners` has the index of the pair of each corner. Colors and pairs that are not finite are left out.
std::string write_obj(std::span<const double> vertices, std::span<const int32_t> faces, std::span<const double> colors,
                      std::span<const double> uvs, std::span<const int32_t> uv_corners);

}  // namespace ms::mesh
