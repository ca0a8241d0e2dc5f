// Matchings for Python.
#include "matching.hpp"
#include "native/bind.hpp"

namespace ms {
namespace {

std::vector<int32_t> to_vector(const In<int32_t>& a) { return {a.data(), a.data() + a.shape(0)}; }

}  // namespace

void bind_matching(nb::module_& m) {
  using namespace nb::literals;
  m.def("maximum_product", [](In<int64_t> indptr, In<int32_t> indices, In<double> magnitude, int threads) {
    matching::Matching result;
    {
      Released free;
      result = matching::maximum_product(pattern(indptr, indices), magnitude.data(), threads);
    }
    return std::make_tuple(to_numpy(std::move(result.row_of)), to_numpy(std::move(result.row_scale)),
                           to_numpy(std::move(result.col_scale)), result.rank);
  }, "indptr"_a.noconvert(), "indices"_a.noconvert(), "magnitude"_a.noconvert(), "threads"_a,
     "(row_of, row_scale, col_scale, rank) of a matrix by rows.");
  m.def("block_triangular", [](In<int64_t> indptr, In<int32_t> indices, In<int32_t> row_of) {
    std::vector<int32_t> block;
    int32_t count = 0;
    {
      Released free;
      count = matching::block_triangular(pattern(indptr, indices), to_vector(row_of), block);
    }
    return std::make_tuple(to_numpy(std::move(block)), count);
  }, "indptr"_a.noconvert(), "indices"_a.noconvert(), "row_of"_a.noconvert(), "(block of each column, number of blocks).");
  m.def("symmetric_matching", [](In<int64_t> indptr, In<int32_t> indices, In<double> magnitude, int threads) {
    matching::SymmetricMatching result;
    {
      Released free;
      result = matching::symmetric(pattern(indptr, indices), magnitude.data(), threads);
    }
    return std::make_tuple(to_numpy(std::move(result.scale)), to_numpy(std::move(result.partner)), result.rank);
  }, "indptr"_a.noconvert(), "indices"_a.noconvert(), "magnitude"_a.noconvert(), "threads"_a,
     "(scale, partner, rank) of a symmetric matrix.");
  m.def("weak_rows", [](In<int64_t> indptr, In<int32_t> indices, In<double> values, In<double> scale, In<int32_t> perm) {
    std::vector<uint8_t> weak;
    {
      Released free;
      weak = matching::weak_rows(pattern(indptr, indices), values.data(), scale.data(), perm.data());
    }
    return to_numpy(std::move(weak));
  }, "indptr"_a.noconvert(), "indices"_a.noconvert(), "values"_a.noconvert(), "scale"_a.noconvert(), "perm"_a.noconvert(),
     "1 for each row without a pivot of its own in the order perm.");
  m.def("compress_pairs", [](In<int64_t> indptr, In<int32_t> indices, In<int32_t> partner, int threads) {
    matching::Compression result;
    {
      Released free;
      result = matching::compress(pattern(indptr, indices), partner.data(), threads);
    }
    return std::make_tuple(to_numpy(std::move(result.graph.ptr)), to_numpy(std::move(result.graph.idx)),
                           to_numpy(std::move(result.first)));
  }, "indptr"_a.noconvert(), "indices"_a.noconvert(), "partner"_a.noconvert(), "threads"_a, "(indptr, indices, first) of the compressed graph.");
  m.def("rows_of_vertices", [](In<int32_t> first, In<int32_t> vertices, In<int32_t> partner) {
    return to_numpy(matching::rows_of_vertices(first.data(), vertices.data(), static_cast<int64_t>(vertices.shape(0)), partner.data(),
                                               static_cast<int64_t>(partner.shape(0))));
  }, "first"_a.noconvert(), "vertices"_a.noconvert(), "partner"_a.noconvert());
  m.def("vertices_of_rows", [](In<int32_t> first, In<int32_t> perm, In<int32_t> partner) {
    return to_numpy(matching::vertices_of_rows(first.data(), static_cast<int64_t>(first.shape(0)), perm.data(), partner.data(),
                                               static_cast<int64_t>(partner.shape(0))));
  }, "first"_a.noconvert(), "perm"_a.noconvert(), "partner"_a.noconvert());
  m.def("expand_pairs", [](In<int64_t> indptr, In<int32_t> indices, In<int32_t> first, In<int32_t> partner,
                            int threads) {
    OwnedPattern result;
    {
      Released free;
      result = matching::expand(pattern(indptr, indices), first.data(), partner.data(), static_cast<int32_t>(partner.shape(0)),
                                threads);
    }
    return std::make_tuple(to_numpy(std::move(result.ptr)), to_numpy(std::move(result.idx)));
  }, "indptr"_a.noconvert(), "indices"_a.noconvert(), "first"_a.noconvert(), "partner"_a.noconvert(), "threads"_a);
  m.def("diagonal_blocks", [](In<int64_t> indptr, In<int32_t> indices, In<int32_t> row_of, In<int32_t> block) {
    OwnedPattern B;
    {
      Released free;
      B = matching::diagonal_blocks(pattern(indptr, indices), to_vector(row_of), to_vector(block));
    }
    return std::make_tuple(to_numpy(std::move(B.ptr)), to_numpy(std::move(B.idx)));
  }, "indptr"_a.noconvert(), "indices"_a.noconvert(), "row_of"_a.noconvert(), "block"_a.noconvert(),
     "Symmetrized pattern of the diagonal blocks, without the diagonal.");
}

}  // namespace ms
