// Bindings of the matchings, the compressed graphs of 2x2 pivots, and the block triangular form.
#include "matching.hpp"
#include "native/bind.hpp"

namespace ms {

void bind_matching(nb::module_& m) {
  using namespace nb::literals;
  m.def("maximum_product", [](In<int64_t> indptr, In<int32_t> indices, In<double> values, int threads) {
    auto result = released([&] { return matching::maximum_product(pattern(indptr, indices), values.data(), threads); });
    return nb::make_tuple(to_numpy(std::move(result.row_of)), to_numpy(std::move(result.row_scale)),
                           to_numpy(std::move(result.col_scale)), result.rank);
  }, "indptr"_a, "indices"_a, "values"_a, "threads"_a,
     "(row_of, row_scale, col_scale, rank) of a matrix by rows.");
  m.def("block_triangular", [](In<int64_t> indptr, In<int32_t> indices, In<int32_t> row_of) {
    std::vector<int32_t> block;
    const int32_t count = released([&] { return matching::block_triangular(pattern(indptr, indices), to_vector(row_of), block); });
    return nb::make_tuple(to_numpy(std::move(block)), count);
  }, "indptr"_a, "indices"_a, "row_of"_a, "(block of each column, number of blocks).");
  m.def("symmetric_matching", [](In<int64_t> indptr, In<int32_t> indices, In<double> values, int threads) {
    auto result = released([&] { return matching::symmetric(pattern(indptr, indices), values.data(), threads); });
    return nb::make_tuple(to_numpy(std::move(result.scale)), to_numpy(std::move(result.partner)), result.rank);
  }, "indptr"_a, "indices"_a, "values"_a, "threads"_a,
     "(scale, partner, rank) of a symmetric matrix.");
  m.def("weak_rows", [](In<int64_t> indptr, In<int32_t> indices, In<double> values, In<double> scale, In<int32_t> perm) {
    const Pattern A = pattern(indptr, indices);
    return to_numpy(released([&] { return matching::weak_rows(A, values.data(), scale.data(), perm.data()); }));
  }, "indptr"_a, "indices"_a, "values"_a, "scale"_a, "perm"_a,
     "1 for each row without a pivot of its own in the order perm.");
  m.def("compress_pairs", [](In<int64_t> indptr, In<int32_t> indices, In<int32_t> partner, int threads) {
    auto result = released([&] { return matching::compress(pattern(indptr, indices), partner.data(), threads); });
    return nb::make_tuple(to_numpy(std::move(result.graph.ptr)), to_numpy(std::move(result.graph.idx)),
                           to_numpy(std::move(result.first)));
  }, "indptr"_a, "indices"_a, "partner"_a, "threads"_a, "(indptr, indices, first) of the compressed graph.");
  m.def("rows_of_vertices", [](In<int32_t> first, In<int32_t> vertices, In<int32_t> partner) {
    return to_numpy(matching::rows_of_vertices(first.data(), vertices.data(), extent(vertices), partner.data(),
                                               extent(partner)));
  }, "first"_a, "vertices"_a, "partner"_a);
  m.def("vertices_of_rows", [](In<int32_t> first, In<int32_t> perm, In<int32_t> partner) {
    return to_numpy(matching::vertices_of_rows(first.data(), extent(first), perm.data(), partner.data(),
                                               extent(partner)));
  }, "first"_a, "perm"_a, "partner"_a);
  m.def("expand_pairs", [](In<int64_t> indptr, In<int32_t> indices, In<int32_t> first, In<int32_t> partner, int threads) {
    const Pattern graph = pattern(indptr, indices);
    const int32_t n = static_cast<int32_t>(partner.shape(0));
    return to_numpy(released([&] { return matching::expand(graph, first.data(), partner.data(), n, threads); }));
  }, "indptr"_a, "indices"_a, "first"_a, "partner"_a, "threads"_a);
  m.def("diagonal_blocks", [](In<int64_t> indptr, In<int32_t> indices, In<int32_t> row_of, In<int32_t> block) {
    const Pattern A = pattern(indptr, indices);
    return to_numpy(released([&] { return matching::diagonal_blocks(A, to_vector(row_of), to_vector(block)); }));
  }, "indptr"_a, "indices"_a, "row_of"_a, "block"_a,
     "Symmetrized pattern of the diagonal blocks, without the diagonal.");
}

}  // namespace ms
