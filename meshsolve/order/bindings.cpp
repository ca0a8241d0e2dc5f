// Python bindings of the order package. nested_dissection takes checked symmetric patterns without diagonal, amd also those with
// one.
#include <nanobind/stl/optional.h>

#include <limits>
#include <optional>
#include <span>

#include "contract.hpp"
#include "mincut.hpp"
#include "mindeg.hpp"
#include "mindeg_bits.hpp"
#include "native/bind.hpp"
#include "order.hpp"
#include "partition.hpp"

namespace ms {
namespace {

auto nested_dissection(In<int64_t> indptr, In<int32_t> indices, int32_t patch_size, int32_t leaf_size, int32_t band,
                       int32_t rounds, int32_t trials, int32_t candidates, int32_t large, double balance, double cheap,
                       double most, uint64_t seed, int threads, bool bounded, int64_t stop) {
  const order::Options options{patch_size, leaf_size, band, rounds, trials, candidates, large,
                               balance, cheap, most, seed, threads, bounded, stop};
  auto o = released([&] { return order::nested_dissection(pattern(indptr, indices), options); });
  return nb::make_tuple(to_numpy(std::move(o.perm)), to_numpy(std::move(o.tree.parent)), to_numpy(std::move(o.tree.first)),
                        to_numpy(std::move(o.tree.last)), o.patches, o.patch_seconds, o.order_seconds, o.too_many);
}

auto amd(In<int64_t> indptr, In<int32_t> indices, double most_flops, bool bounded, const std::optional<In<int32_t>>& last) {
  const Pattern A = pattern(indptr, indices);
  const std::span<const int32_t> end = last ? std::span(last->data(), static_cast<size_t>(extent(*last))) : std::span<const int32_t>();
  order::Limits limits = bounded ? order::bounded(A.nnz()) : order::Limits{};
  limits.flops = most_flops;
  auto e = released([&] { return order::amd(A, limits, end); });
  return nb::make_tuple(to_numpy(std::move(e.perm)), to_numpy(std::move(e.parent)), to_numpy(std::move(e.colcount)), e.visits);
}

auto partition(In<int64_t> indptr, In<int32_t> indices, In<int32_t> perm, In<int32_t> parent, In<int32_t> first, In<int32_t> last,
               In<double> weight, int32_t parts, uint64_t seed) {
  const Pattern A = pattern(indptr, indices);
  if (extent(perm) != A.n || extent(weight) != A.n) throw nb::value_error("perm, weight");
  if (parts < 1 || parts > A.n) throw nb::value_error("parts");
  const order::Tree tree{to_vector(parent), to_vector(first), to_vector(last)};
  return to_numpy(released([&] { return order::partition(A, perm.data(), tree, weight.data(), parts, seed); }));
}

// For tests of the two minimum degree codes of leaves. The vertices from `own` on are the halo.
auto leaf_order(In<int64_t> indptr, In<int32_t> indices, int32_t own, bool bits) {
  const Pattern A = pattern(indptr, indices);
  if (own < 0 || own > A.n || (bits && A.n > order::BitMinDegree::most_vertices)) throw nb::value_error("own, n");
  std::vector<int32_t> perm(own);
  if (bits) {
    order::BitMinDegree graph;
    graph.begin(own, A.n - own);
    for (int32_t i = 0; i < own; ++i)
      for (int64_t k = A.ptr[i]; k < A.ptr[i + 1]; ++k) graph.connect(i, A.idx[k]);
    graph.run(perm.data());
  } else {
    order::MinDegree<int32_t> graph;
    graph.begin(A, own);
    graph.run(perm.data());
  }
  return to_numpy(std::move(perm));
}

// For tests of the minimum cut, which uses different algorithms for thin and wide bands.
auto minimum_cut(In<int64_t> indptr, In<int32_t> indices, In<uint8_t> source, In<uint8_t> sink, int32_t enough) {
  const Pattern A = pattern(indptr, indices);
  if (extent(source) != A.n || extent(sink) != A.n) throw nb::value_error("source, sink");
  order::MinCut cut;
  cut.ptr.assign(A.ptr, A.ptr + A.n + 1);
  cut.adj.assign(A.idx, A.idx + A.nnz());
  cut.source.assign(source.data(), source.data() + A.n);
  cut.sink.assign(sink.data(), sink.data() + A.n);
  const int32_t size = cut.run(enough);
  std::vector<uint8_t> near_sources, near_sinks;
  if (size < enough) {
    cut.near_sources(near_sources);
    cut.near_sinks(near_sinks);
  }
  return nb::make_tuple(size, to_numpy(std::move(near_sources)), to_numpy(std::move(near_sinks)));
}

}  // namespace

void bind_order(nb::module_& m) {
  using namespace nb::literals;
  m.attr("small_graph") = order::kSmall;
  m.attr("near_tree") = order::kNearTree;
  m.def("nested_dissection", nested_dissection, "indptr"_a, "indices"_a, "patch_size"_a, "leaf_size"_a,
        "band"_a, "rounds"_a, "trials"_a, "candidates"_a, "large"_a, "balance"_a, "cheap"_a, "most"_a, "seed"_a,
        "threads"_a, "bounded"_a = false, "stop"_a = 0,
        "(perm, tree parent, first, last, number of patches, seconds for patches, seconds for the rest, whether more than `most` "
        "operations are estimated)");
  m.def("contract", [](In<int64_t> indptr, In<int32_t> indices, In<int32_t> last) {
    const Pattern A = pattern(indptr, indices);
    const std::vector<int32_t> rows = to_vector(last);
    for (const int32_t i : rows)
      if (i < 0 || i >= A.n) throw nb::value_error("last");
    auto out = released([&] { return order::contract(A, rows); });
    return nb::make_tuple(to_numpy(std::move(out.ptr)), to_numpy(std::move(out.idx)));
  }, "indptr"_a, "indices"_a, "last"_a, "(indptr, indices) of the graph in which the other rows are contracted; see contract.hpp");
  m.def("partition", partition, "indptr"_a, "indices"_a, "perm"_a, "parent"_a, "first"_a, "last"_a, "weight"_a, "parts"_a, "seed"_a,
        "(n,) part of each vertex, from the permutation and the tree of a nested dissection of the pattern");
  m.def("amd", amd, "indptr"_a, "indices"_a,
        "most_flops"_a = std::numeric_limits<double>::infinity(), "bounded"_a = false, "last"_a = nb::none(),
        "(perm, parent, colcount, visits) of approximate minimum degree. parent and colcount are empty if they are not available. "
        "All three are empty if a bound of the Cholesky operations exceeds most_flops. visits counts the list entries read. If "
        "bounded, and visits exceed nnz log2(nnz), the remaining vertices follow by the bounds of their degrees. The rows last follow "
        "all others, in this order: a chain at the top of the tree");
  m.def("rcm", [](In<int64_t> indptr, In<int32_t> indices, In<int32_t> roots) {
    if (extent(roots) != extent(indptr) - 1) throw nb::value_error("roots");
    return to_numpy(released([&] { return order::rcm(pattern(indptr, indices), roots.data()); }));
  }, "indptr"_a, "indices"_a, "roots"_a, "reverse Cuthill-McKee order; roots: starts of the searches, in this order");
  m.def("greedy_coloring", [](In<int64_t> indptr, In<int32_t> indices) {
    return to_numpy(released([&] { return order::greedy_coloring(pattern(indptr, indices)); }));
  }, "indptr"_a, "indices"_a, "(n,) int32 color of each vertex");
  m.def("degree_spread", [](In<int64_t> indptr, int64_t left_out) {
    return order::degree_spread(indptr.data(), extent(indptr) - 1, left_out);
  }, "indptr"_a, "left_out"_a, "standard deviation of the row lengths relative to their mean, without the left_out longest rows");
  m.def("levels", [](In<int64_t> indptr, In<int32_t> indices, int most, bool diagonal) {
    const order::Levels found = released([&] { return order::levels(pattern(indptr, indices), most, diagonal); });
    return std::make_tuple(found.width, found.dimension);
  }, "indptr"_a, "indices"_a, "most"_a, "diagonal"_a, "(width, dimension) of the level structures of breadth-first searches");
  m.def("leaf_order", leaf_order, "indptr"_a, "indices"_a, "own"_a, "bits"_a,
        "minimum degree order of the vertices below own, with the others as halo, on a bit matrix or on lists");
  m.def("minimum_cut", minimum_cut, "indptr"_a, "indices"_a, "source"_a, "sink"_a,
        "enough"_a, "(size of the cut, sides of the cut next to the sources, sides of the cut next to the sinks); 2 = in the cut");
}

}  // namespace ms
