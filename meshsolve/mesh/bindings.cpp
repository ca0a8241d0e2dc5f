// Bindings of the mesh functions. The Python wrappers check shapes and ranges; arrays are flat views of (n, 3), (m, 3), (e, 2).
#include <nanobind/stl/string_view.h>

#include <span>

#include "edges.hpp"
#include "lz4.hpp"
#include "native/bind.hpp"
#include "obj.hpp"
#include "off.hpp"
#include "ply.hpp"
#include "polygons.hpp"
#include "stars.hpp"
#include "stl.hpp"

namespace ms {
namespace {

// Returns (vertices, corners, counts, colors, uvs, uv_corners, small_faces, line, error, warning).
auto read_polygons(nb::bytes text, mesh::PolygonFile (*read)(std::string_view)) {
  const std::string_view bytes(text.c_str(), text.size());
  auto file = released([&] { return read(bytes); });
  return nb::make_tuple(to_numpy(std::move(file.vertices)), to_numpy(std::move(file.corners)), to_numpy(std::move(file.counts)),
                         to_numpy(std::move(file.colors)), to_numpy(std::move(file.uvs)), to_numpy(std::move(file.uv_corners)),
                         file.small_faces, file.line, file.error, file.warning);
}

auto triangulate(In<double> vertices, In<int32_t> corners, In<int32_t> counts) {
  auto out = released([&] { return mesh::triangulate(vertices.data(), corners.data(), counts.data(), extent(counts)); });
  return nb::make_tuple(to_numpy(std::move(out.faces)), out.crossing);
}

nb::bytes write_obj(In<double> vertices, In<int32_t> faces, In<double> colors, In<double> uvs, In<int32_t> uv_corners) {
  const auto rows = [](const auto& a) { return std::span(a.data(), static_cast<size_t>(extent(a))); };
  const std::string text = released(
      [&] { return mesh::write_obj(rows(vertices), rows(faces), rows(colors), rows(uvs), rows(uv_corners)); });
  return nb::bytes(text.data(), text.size());
}

// Returns (values, offset of the first bad word or -1, offset after the last number).
auto read_numbers(nb::bytes text, int64_t at, int64_t most) {
  const std::string_view bytes(text.c_str(), text.size());
  auto numbers = released([&] { return mesh::read_numbers(bytes.substr(static_cast<size_t>(at)), most); });
  return nb::make_tuple(to_numpy(std::move(numbers.values)), numbers.bad < 0 ? -1 : at + numbers.bad, at + numbers.end);
}

auto unpack_lz4(nb::bytes block, int64_t size) {
  const std::string_view bytes(block.c_str(), block.size());
  return to_numpy(released([&] { return mesh::unpack_lz4(bytes, size); }));
}

auto read_rows(In<uint8_t> bytes, int64_t at, int64_t rows, std::string_view counts, std::string_view items, std::string_view wanted,
               bool swap) {
  auto out = released([&] {
    return mesh::read_rows(bytes.data(), extent(bytes), at, rows, {counts, items, wanted, swap});
  });
  return nb::make_tuple(to_numpy(std::move(out.values)), to_numpy(std::move(out.counts)), out.end, out.bad_row, out.cut_off);
}

bool manifold(int32_t n, In<int32_t> faces, In<int32_t> of_side, int64_t edges) {
  Released free;
  return mesh::manifold(n, faces.data(), extent(faces) / 3, of_side.data(), edges);
}

auto edges_of(int32_t n, In<int32_t> faces, int threads) {
  auto edges = released([&] { return mesh::edges_of(n, faces.data(), extent(faces) / 3, threads); });
  return nb::make_tuple(to_numpy(std::move(edges.ends)), to_numpy(std::move(edges.of_side)));
}

auto adjacency_of(int32_t n, In<int32_t> ends, bool diagonal, int threads) {
  auto rows = released([&] { return mesh::adjacency_of(n, ends.data(), extent(ends) / 2, diagonal, threads); });
  return nb::make_tuple(to_numpy(std::move(rows.ptr)), to_numpy(std::move(rows.idx)), to_numpy(std::move(rows.edge)));
}

auto mesh_components(int32_t n, In<int32_t> ends) {
  return to_numpy(released([&] { return mesh::components_of(n, ends.data(), extent(ends) / 2); }));
}

auto cycles_of(In<int64_t> following) {
  auto out = released([&] { return mesh::cycles_of(following.data(), extent(following)); });
  return nb::make_tuple(to_numpy(std::move(out.arcs)), to_numpy(std::move(out.first)));
}

auto plane_normals(In<double> x, In<int32_t> neighbors, int threads) {
  const int64_t n = extent(x) / 3;
  RawVector<double> normals(3 * n);
  {
    Released free;
    mesh::plane_normals(x.data(), n, neighbors.data(), extent(neighbors) / n, normals.data(), threads);
  }
  return to_numpy(std::move(normals));
}

auto delaunay_stars(In<double> x, In<int32_t> neighbors, In<double> normals, int threads) {
  const int64_t n = extent(x) / 3;
  auto out = released([&] { return mesh::delaunay_stars(x.data(), n, neighbors.data(), extent(neighbors) / n, normals.data(), threads); });
  return nb::make_tuple(to_numpy(std::move(out.triangles)), to_numpy(std::move(out.round)));
}

}  // namespace

void bind_mesh(nb::module_& m) {
  using namespace nb::literals;
  m.def("read_obj", [](nb::bytes text) { return read_polygons(text, mesh::read_obj); }, "text"_a);
  m.def("read_off", [](nb::bytes text) { return read_polygons(text, mesh::read_off); }, "text"_a);
  m.def("read_stl_text", [](nb::bytes text) { return read_polygons(text, mesh::read_stl_text); }, "text"_a);
  m.def("triangulate", triangulate, "vertices"_a, "corners"_a, "counts"_a);
  m.def("write_obj", write_obj, "vertices"_a, "faces"_a, "colors"_a, "uvs"_a, "uv_corners"_a);
  m.def("read_numbers", read_numbers, "text"_a, "at"_a, "most"_a = -1);
  m.def("unpack_lz4", unpack_lz4, "block"_a, "size"_a);
  m.def("read_rows", read_rows, "bytes"_a, "at"_a, "rows"_a, "counts"_a, "items"_a, "wanted"_a, "swap"_a);
  m.def("mesh_edges", edges_of, "n"_a, "faces"_a, "threads"_a);
  m.def("mesh_is_manifold", manifold, "n"_a, "faces"_a, "of_side"_a, "edges"_a);
  m.def("mesh_components", mesh_components, "n"_a, "ends"_a);
  m.def("mesh_cycles", cycles_of, "following"_a);
  m.def("plane_normals", plane_normals, "x"_a, "neighbors"_a, "threads"_a);
  m.def("delaunay_stars", delaunay_stars, "x"_a, "neighbors"_a, "normals"_a, "threads"_a);
  m.def("mesh_adjacency", adjacency_of, "n"_a, "ends"_a, "diagonal"_a, "threads"_a);
}

}  // namespace ms
