// Wavefront OBJ: vertex positions and polygons of a file, in one pass over its bytes.
// Supported: v, f and line structure (comments, CRLF, continuation by a backslash). Other statements (normals, texture
// coordinates, groups, materials, curves) are ignored, so a texture or normal index never splits a vertex.
// Source: Wavefront "Object Files (.obj)", Advanced Visualizer manual, appendix B1. O(bytes).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "polygon_file.hpp"

namespace ms::mesh {

PolygonFile read_obj(std::string_view text);

// Text of an OBJ file; each coordinate has the fewest digits that read back to the same bits.
std::string write_obj(const double* vertices, int64_t n, const int32_t* faces, int64_t m);

}  // namespace ms::mesh
