// Wavefront OBJ: the vertex positions and polygons of a file, in one sweep over its bytes.
// Read: v, f and line structure (comments, CRLF, continuation by a backslash). Every other statement (normals, texture
// coordinates, groups, materials, curves) is passed over, so a texture or normal index never splits a vertex.
// Source: Wavefront "Object Files (.obj)", Advanced Visualizer manual, appendix B1. O(bytes).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "polygon_file.hpp"

namespace ms::mesh {

PolygonFile read_obj(std::string_view text);

// The text of a plain file: every coordinate with the fewest digits that read back to the same bits.
std::string write_obj(const double* vertices, int64_t n, const int32_t* faces, int64_t m);

}  // namespace ms::mesh
