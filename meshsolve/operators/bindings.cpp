// Bindings of the operators. The Python wrappers check the input; arrays are flat views of (n, 3), (m, 3).
#include "assembly.hpp"
#include "cotan.hpp"
#include "cover.hpp"
#include "directions.hpp"
#include "flips.hpp"
#include "native/bind.hpp"
#include "native/memory/raw_vector.hpp"
#include "rigid.hpp"

namespace ms {
namespace {

auto cotan_weights(In<double> vertices, In<int32_t> faces, In<int32_t> of_side, int64_t edges, double flattest, int threads) {
  const int64_t m = extent(faces) / 3;
  RawVector<double> weight(edges), area(m);
  {
    Released free;
    operators::cotan_weights(vertices.data(), faces.data(), m, of_side.data(), edges, flattest, weight.data(), area.data(), threads);
  }
  return nb::make_tuple(to_numpy(std::move(weight)), to_numpy(std::move(area)));
}

auto vertex_areas(In<int32_t> faces, In<double> area, int64_t n, int threads) {
  RawVector<double> mass(n);
  {
    Released free;
    operators::vertex_areas(faces.data(), extent(area), area.data(), n, mass.data(), threads);
  }
  return to_numpy(std::move(mass));
}

auto edge_lengths(In<double> vertices, In<int32_t> ends, int threads) {
  RawVector<double> length(extent(ends) / 2);
  {
    Released free;
    operators::edge_lengths(vertices.data(), ends.data(), static_cast<int64_t>(length.size()), length.data(), threads);
  }
  return to_numpy(std::move(length));
}

auto flipped_faces(In<double> uv, In<int32_t> faces) {
  auto out = released([&] { return operators::flipped_faces(uv.data(), faces.data(), extent(faces) / 3); });
  return nb::make_tuple(to_numpy(std::move(out.faces)), out.area);
}

auto laplacian_values(In<int64_t> indptr, In<int32_t> indices, In<int32_t> edge, In<double> weight, int threads) {
  RawVector<double> data(extent(indices));
  {
    Released free;
    operators::laplacian_values(pattern(indptr, indices), edge.data(), weight.data(), data.data(), threads);
  }
  return to_numpy(std::move(data));
}

auto intrinsic_delaunay(In<int32_t> faces, In<int32_t> of_side, In<double> length, In<double> angle, double flattest,
                        int64_t limit) {
  auto out = released([&] {
    return operators::intrinsic_delaunay(faces.data(), of_side.data(), extent(faces) / 3, to_vector(length), to_vector(angle),
                                         flattest, limit);
  });
  return nb::make_tuple(to_numpy(std::move(out.corners)), to_numpy(std::move(out.weight)), to_numpy(std::move(out.length)),
                         to_numpy(std::move(out.edge)), to_numpy(std::move(out.angle)), out.flips, out.finished);
}

auto tufted_cover(In<int32_t> faces, In<int32_t> of_side, int64_t edges, In<double> key, In<int32_t> round, int threads) {
  auto out = released([&] {
    return operators::tufted_cover(faces.data(), extent(faces) / 3, of_side.data(), edges, key.data(), round.size() > 0 ? round.data() : nullptr,
                                   threads);
  });
  return nb::make_tuple(to_numpy(std::move(out.edge)), to_numpy(std::move(out.of_side)));
}

auto side_directions(int32_t n, In<int32_t> faces, In<int32_t> of_side, int64_t edges, In<double> corner_angles) {
  auto out = released([&] {
    return operators::side_directions(n, faces.data(), extent(faces) / 3, of_side.data(), edges,
                                      corner_angles.size() > 0 ? corner_angles.data() : nullptr);
  });
  return nb::make_tuple(to_numpy(std::move(out.angle)), to_numpy(std::move(out.total)), to_numpy(std::move(out.first)),
                         to_numpy(std::move(out.boundary)), out.bad_edge, out.bad_vertex);
}

auto flat_triangles(int64_t n, In<int32_t> corners, In<double> lengths, int copies) {
  auto out = released([&] { return operators::flat_triangles(n, corners.data(), lengths.data(), extent(corners) / 3, copies); });
  return nb::make_tuple(to_numpy(std::move(out.corner)), to_numpy(std::move(out.flat)));
}

void divergence_of_directions(In<int32_t> corners, In<double> flat, InOut<double> b, In<double> u, int64_t n, int threads) {
  Released free;
  operators::divergence_of_directions(corners.data(), flat.data(), extent(corners) / 3, n, u.data(), n ? extent(u) / n : 0, b.data(), threads);
}

void assemble(In<int64_t> ptr, In<int32_t> source, int64_t width, In<double> values, InOut<double> data, int threads) {
  Released free;
  operators::assemble(ptr.data(), extent(ptr) - 1, source.data(), width, values.data(), data.data(), threads);
}

auto weigh_normal(In<int64_t> indptr, In<int32_t> indices, In<int64_t> column_ptr, In<int32_t> row, In<int64_t> entry,
                  In<int64_t> product_indptr, In<int32_t> product_indices, In<int64_t> mirror, In<double> values, In<double> weight,
                  int threads) {
  std::vector<double> data(extent(product_indices));
  {
    Released free;
    operators::weigh_normal(pattern(indptr, indices), values.data(), {column_ptr.data(), row.data(), entry.data()},
                            extent(weight) > 0 ? weight.data() : nullptr, pattern(product_indptr, product_indices), mirror.data(),
                            data.data(), threads);
  }
  return to_numpy(std::move(data));
}

operators::RestRings rest_rings(const In<int64_t>& ptr, const In<int32_t>& other, const In<double>& out, const In<double>& in,
                                const In<double>& own) {
  return {ptr.data(), other.data(), out.data(), in.data(), own.data(), extent(ptr) - 1};
}

auto rest_arrays(In<int32_t> faces, In<int32_t> of_side, int64_t edges, In<double> weight, In<double> x, In<int64_t> ptr,
                 In<int32_t> other, In<int32_t> edge, bool rims, bool with_in, int threads) {
  auto out = released([&] {
    return operators::rest_arrays({faces.data(), of_side.data(), extent(faces) / 3, edges, weight.data(), x.data()}, pattern(ptr, other),
                                  edge.data(), rims, with_in, threads);
  });
  return nb::make_tuple(to_numpy(std::move(out.out)), to_numpy(std::move(out.in)), to_numpy(std::move(out.own)),
                         to_numpy(std::move(out.sides)), out.energy);
}

void fit_vertices(In<int64_t> ptr, In<int32_t> other, In<double> out, In<double> in, In<double> own, Block<const double> x,
                  InOut<double> quaternion, InOut<double> matrix, InOut<double> trace, InOut<double> stretch, InOut<double> b,
                  int threads) {
  Released free;
  operators::fit_vertices(rest_rings(ptr, other, out, in, own), strided(x), quaternion.data(), matrix.data(), trace.data(), stretch.data(),
                          b.data(), threads);
}

void pull_vertices(In<int64_t> ptr, In<int32_t> other, In<double> out, In<double> in, In<double> own, In<double> matrix, InOut<double> b,
                   int threads) {
  Released free;
  operators::pull_vertices(rest_rings(ptr, other, out, in, own), matrix.data(), b.data(), threads);
}

void energy_of_vertices(In<int32_t> faces, In<double> weight, bool rims, In<double> rest, Block<const double> x, In<double> quaternion,
                        InOut<double> energy, int threads) {
  Released free;
  operators::energy_of_vertices(faces.data(), extent(faces) / 3, weight.data(), rims, rest.data(), strided(x), quaternion.data(),
                                energy.data(), threads);
}

operators::RestShape rest_shape(const In<int32_t>& faces, const In<double>& weight, const In<int64_t>& ptr, const In<int32_t>& corner) {
  return {faces.data(), extent(faces) / 3, weight.data(), ptr.data(), corner.data(), extent(ptr) - 1};
}

void fit_faces(In<int32_t> faces, In<double> weight, In<int64_t> ptr, In<int32_t> corner, In<double> rest, Block<const double> uv,
               InOut<double> turn, InOut<double> energy, int threads) {
  Released free;
  operators::fit_faces(rest_shape(faces, weight, ptr, corner), rest.data(), strided(uv), turn.data(), energy.data(), threads);
}

auto pull_faces(In<int32_t> faces, In<double> weight, In<int64_t> ptr, In<int32_t> corner, In<double> rest, In<double> turn, int threads) {
  RawVector<double> b(2 * (extent(ptr) - 1));
  {
    Released free;
    operators::pull_faces(rest_shape(faces, weight, ptr, corner), rest.data(), turn.data(), b.data(), threads);
  }
  return to_numpy(std::move(b));
}

void shift_distances(In<double> x, In<int32_t> part, Block<const double> shift, In<double> points, Block<const double> phi,
                     Block<double> out, int threads) {
  Released free;
  operators::shift_distances(x.data(), extent(part), part.data(), shift.data(), points.data(), extent(phi, 1), phi.data(), out.data(),
                             out.stride(0), threads);
}

}  // namespace

void bind_operators(nb::module_& m) {
  using namespace nb::literals;
  m.def("rest_arrays", rest_arrays, "faces"_a, "of_side"_a, "edges"_a, "weight"_a, "x"_a, "ptr"_a, "other"_a, "edge"_a, "rims"_a,
        "with_in"_a, "threads"_a);
  m.def("fit_vertices", fit_vertices, "ptr"_a, "other"_a, "out"_a, "in"_a, "own"_a, "x"_a, "quaternion"_a, "matrix"_a, "trace"_a,
        "stretch"_a, "b"_a, "threads"_a);
  m.def("pull_vertices", pull_vertices, "ptr"_a, "other"_a, "out"_a, "in"_a, "own"_a, "matrix"_a, "b"_a, "threads"_a);
  m.def("energy_of_vertices", energy_of_vertices, "faces"_a, "weight"_a, "rims"_a, "rest"_a, "x"_a, "quaternion"_a, "energy"_a,
        "threads"_a);
  m.def("fit_faces", fit_faces, "faces"_a, "weight"_a, "ptr"_a, "corner"_a, "rest"_a, "uv"_a, "turn"_a, "energy"_a, "threads"_a);
  m.def("pull_faces", pull_faces, "faces"_a, "weight"_a, "ptr"_a, "corner"_a, "rest"_a, "turn"_a, "threads"_a);
  m.def("cotan_weights", cotan_weights, "vertices"_a, "faces"_a, "of_side"_a,
        "edges"_a, "flattest"_a, "threads"_a);
  m.def("vertex_areas", vertex_areas, "faces"_a, "area"_a, "n"_a, "threads"_a,
        "Add a third of each triangle's area to each of its corners.");
  m.def("edge_lengths", edge_lengths, "vertices"_a, "ends"_a, "threads"_a);
  m.def("flipped_faces", flipped_faces, "uv"_a, "faces"_a, "(faces without a positive area in the plane, the sum of all areas).");
  m.def("laplacian_values", laplacian_values, "indptr"_a, "indices"_a, "edge"_a,
        "weight"_a, "threads"_a);
  m.def("intrinsic_delaunay", intrinsic_delaunay, "faces"_a, "of_side"_a, "length"_a, "angle"_a,
        "flattest"_a, "limit"_a, "(corners, weights, lengths, edge of each side, angles, flips, finished).");
  m.def("tufted_cover", tufted_cover, "faces"_a, "of_side"_a, "edges"_a, "key"_a, "round"_a, "threads"_a,
        "(mesh edge of each cover edge, cover edge of each side).");
  m.def("side_directions", side_directions, "n"_a, "faces"_a, "of_side"_a, "edges"_a, "corner_angles"_a,
        "(angles, their totals, first sides, boundary sides, an edge that is not manifold and oriented or -1, a vertex with several fans or -1).");
  m.def("flat_triangles", flat_triangles, "n"_a, "corners"_a, "lengths"_a, "copies"_a,
        "(corners, flat) of the triangles, one for those that agree.");
  m.def("divergence_of_directions", divergence_of_directions, "corners"_a, "flat"_a, "b"_a, "u"_a, "n"_a, "threads"_a,
        "b := -D X for the unit vectors X against the gradients of u, (n, k) in C order.");
  m.def("shift_distances", shift_distances, "x"_a, "part"_a, "shift"_a, "points"_a, "phi"_a, "out"_a, "threads"_a,
        "out := max(phi - shift of its component, distance to the column's point in a straight line).");
  m.def("assemble", assemble, "ptr"_a, "source"_a, "width"_a, "values"_a, "data"_a, "threads"_a,
        "Sum contributions of `width` numbers into a fixed pattern.");
  m.def("weigh_normal", weigh_normal, "indptr"_a, "indices"_a, "column_ptr"_a, "row"_a,
        "entry"_a, "product_indptr"_a, "product_indices"_a, "mirror"_a,
        "values"_a, "weight"_a, "threads"_a, "Values of J^T D J on its pattern; D is the identity without weights.");
}

}  // namespace ms
