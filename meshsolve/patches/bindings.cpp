// Python bindings of the patches, with plain arrays as arguments and results. patches/__init__.py documents them.
#include "native/bind.hpp"
#include "patches/patches.hpp"

namespace ms {
namespace {

using namespace patches;

nb::tuple elements(Elements&& E) {
  return nb::make_tuple(to_numpy(std::move(E.patch)), to_numpy(std::move(E.ptr)), to_numpy(std::move(E.owned_ptr)),
                        to_numpy(std::move(E.ltog)), to_numpy(std::move(E.owner_patch)), to_numpy(std::move(E.owner_local)));
}

nb::tuple arrays(Patches&& P) {
  return nb::make_tuple(elements(std::move(P.vertices)), elements(std::move(P.edges)), elements(std::move(P.faces)),
                        to_numpy(std::move(P.ev)), to_numpy(std::move(P.fe)), to_numpy(std::move(P.heavy_vertices)),
                        to_numpy(std::move(P.heavy_edges)));
}

nb::tuple patch_surface(int32_t n, In<int32_t> edges, In<int32_t> faces, In<int32_t> face_edges, int64_t patch_size,
                        uint64_t seed, int threads) {
  const int32_t num_edges = static_cast<int32_t>(edges.shape(0) / 2), num_faces = static_cast<int32_t>(faces.shape(0) / 3);
  return arrays(released([&] {
    return cut_surface({n, num_edges, num_faces, edges.data(), faces.data(), face_edges.data()}, patch_size, seed, threads);
  }));
}

nb::tuple patch_pattern(In<int64_t> indptr, In<int32_t> indices, int64_t patch_size, uint64_t seed, int threads) {
  const Pattern G = pattern(indptr, indices);
  return arrays(released([&] { return cut_pattern(G, upper_edges(G), patch_size, seed, threads); }));
}

auto patch_query(const std::string& name, In<int64_t> vertex_ptr, In<int64_t> vertex_owned, In<int32_t> vertex_ltog,
            In<int64_t> edge_ptr, In<int64_t> edge_owned, In<int32_t> edge_ltog, In<int64_t> face_ptr, In<int64_t> face_owned,
            In<int32_t> face_ltog, In<uint16_t> ev, In<uint16_t> fe, In<int32_t> heavy_vertices, In<int32_t> heavy_edges,
            int threads) {
  const View P{static_cast<int32_t>(vertex_ptr.shape(0)) - 1,
               {vertex_ptr.data(), vertex_owned.data(), vertex_ltog.data()},
               {edge_ptr.data(), edge_owned.data(), edge_ltog.data()},
               {face_ptr.data(), face_owned.data(), face_ltog.data()},
               ev.data(),
               fe.data(),
               heavy_vertices.data(),
               heavy_edges.data(),
               extent(heavy_vertices),
               extent(heavy_edges)};
  return to_numpy(released([&] { return query(P, name, threads); }));
}

// Queries composed of rows: (entries, lowest row that has no result or INT64_MAX).
nb::tuple patch_rotate(In<int64_t> vv_ptr, In<int32_t> vv, In<int64_t> vf_ptr, In<int32_t> vf, In<int32_t> corners,
                       In<int32_t> values, int threads) {
  std::vector<int32_t> out(extent(values));
  const int64_t failed = released(
      [&] { return rotate(pattern(vv_ptr, vv), pattern(vf_ptr, vf), corners.data(), values.data(), out.data(), threads); });
  return nb::make_tuple(to_numpy(std::move(out)), failed);
}

nb::tuple patch_diamonds(In<int64_t> ef_ptr, In<int32_t> ef, In<int32_t> ends, In<int32_t> corners, int threads) {
  std::vector<int32_t> out(2 * extent(ends));
  const int64_t failed =
      released([&] { return diamonds(pattern(ef_ptr, ef), ends.data(), corners.data(), out.data(), threads); });
  return nb::make_tuple(to_numpy(std::move(out)), failed);
}

auto patch_edges_of_edges(In<int64_t> ve_ptr, In<int32_t> ve, In<int32_t> ends, int threads) {
  return to_numpy(released([&] { return edges_of_edges(pattern(ve_ptr, ve), ends.data(), extent(ends) / 2, threads); }));
}

auto patch_rings(In<int64_t> vv_ptr, In<int32_t> vv, int count, int64_t most, int threads) {
  return to_numpy(released([&] { return rings(pattern(vv_ptr, vv), count, most, threads); }));
}

template <class T>
void patch_reduce(In<int64_t> indptr, In<int32_t> indices, In<T> values, int64_t width, int op, T empty, InOut<T> out,
                  int threads) {
  released([&] { reduce(pattern(indptr, indices), values.data(), width, op, empty, out.data(), threads); });
}

template <class T> void bind_reduce(nb::module_& m) {
  using namespace nb::literals;
  m.def("patch_reduce", patch_reduce<T>, "indptr"_a, "indices"_a, "values"_a, "width"_a, "op"_a, "empty"_a, "out"_a, "threads"_a);
}

}  // namespace

void bind_patches(nb::module_& m) {
  using namespace nb::literals;
  m.def("patch_surface", patch_surface, "num_vertices"_a, "edges"_a, "faces"_a,
        "face_edges"_a, "patch_size"_a, "seed"_a, "threads"_a);
  m.def("patch_pattern", patch_pattern, "indptr"_a, "indices"_a, "patch_size"_a, "seed"_a,
        "threads"_a);
  m.def("patch_query", patch_query, "name"_a, "vertex_ptr"_a, "vertex_owned"_a, "vertex_ltog"_a,
        "edge_ptr"_a, "edge_owned"_a, "edge_ltog"_a, "face_ptr"_a,
        "face_owned"_a, "face_ltog"_a, "ev"_a, "fe"_a,
        "heavy_vertices"_a, "heavy_edges"_a, "threads"_a);
  m.def("patch_rotate", patch_rotate, "vv_ptr"_a, "vv"_a, "vf_ptr"_a, "vf"_a, "corners"_a, "values"_a, "threads"_a);
  m.def("patch_diamonds", patch_diamonds, "ef_ptr"_a, "ef"_a, "ends"_a, "corners"_a, "threads"_a);
  m.def("patch_edges_of_edges", patch_edges_of_edges, "ve_ptr"_a, "ve"_a, "ends"_a, "threads"_a);
  m.def("patch_rings", patch_rings, "vv_ptr"_a, "vv"_a, "count"_a, "most"_a, "threads"_a);
  bind_reduce<double>(m);
  bind_reduce<float>(m);
  bind_reduce<int64_t>(m);
}

}  // namespace ms
