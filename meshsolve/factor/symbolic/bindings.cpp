// Bindings of the symbolic analysis: its steps as functions of arrays, and the analysis object of a factorization.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "native/bind.hpp"
#include "symbolic.hpp"
#include "unsymmetric.hpp"

namespace ms {

namespace {

using symbolic::Symbolic;
using Indices = In<int32_t>;

template <auto member> auto of_analysis(nb::handle_t<Symbolic> self) {
  return view(nb::cast<Symbolic&>(self).analysis.*member, self);
}

template <auto member> auto of_supernodes(nb::handle_t<Symbolic> self) {
  return view(nb::cast<Symbolic&>(self).supernodes.*member, self);
}

Symbolic build(const In<int64_t>& indptr, const Indices& indices, const Indices& perm, int threads,
               const std::optional<std::pair<Indices, Indices>>& known, int32_t boundary,
               const std::optional<std::vector<std::tuple<double, double, double>>>& relax) {
  Released free;
  const Pattern A = pattern(indptr, indices);
  std::vector<symbolic::Rule> rules;
  if (relax)
    for (const auto& [columns, share, zeros] : *relax) rules.push_back({columns, share, zeros});
  const symbolic::Relaxation given{rules.data(), static_cast<int>(rules.size())}, relaxation = relax ? given : symbolic::kRelaxation;
  if (!known) return symbolic::analyze(A, perm.data(), threads, relaxation, boundary);
  const order::Elimination elimination{to_vector(perm), to_vector(known->first), to_vector(known->second)};
  return symbolic::analyze(A, elimination, threads, relaxation, boundary);
}

Symbolic restore(const Indices& perm, const Indices& iperm, const Indices& parent, const Indices& colcount, const Indices& first,
              const Indices& snode_parent, const In<int64_t>& row_ptr, const Indices& rows, int32_t boundary) {
  Symbolic result{{to_vector(perm), to_vector(iperm), to_vector(parent), to_vector(colcount), 0, 0},
               {to_vector(first), to_vector(snode_parent), to_vector(row_ptr), {rows.data(), rows.data() + rows.shape(0)}}};
  result.analysis.boundary = boundary;
  result.analysis.total();
  return result;
}

auto pattern_of(const In<int64_t>& indptr, const Indices& indices, const Symbolic& bound, int threads) {
  return to_numpy(released([&] { return symbolic::pattern_lca(pattern(indptr, indices), bound.analysis, threads); }));
}

// The next two use the order of A.
std::vector<int32_t> natural(int32_t n) {
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int32_t> etree_of(const Pattern& A) {
  Released free;
  const std::vector<int32_t> order = natural(A.n);
  return symbolic::etree(A, order.data(), order.data(), 1).parent;
}

std::vector<int32_t> colcount_of(const Pattern& A) {
  Released free;
  const symbolic::Analysis analysis = symbolic::analyze_columns(A, natural(A.n).data(), 1, nullptr);
  std::vector<int32_t> count(A.n);
  for (int32_t k = 0; k < A.n; ++k) count[analysis.perm[k]] = analysis.colcount[k];
  return count;
}

}  // namespace

void bind_symbolic(nb::module_& m) {
  using symbolic::Analysis;
  using symbolic::Supernodes;
  nb::class_<Symbolic>(m, "Analysis", "Elimination tree, column counts and relaxed supernodes of one pattern and ordering.")
      .def_prop_ro("perm", &of_analysis<&Analysis::perm>)
      .def_prop_ro("iperm", &of_analysis<&Analysis::iperm>)
      .def_prop_ro("parent", &of_analysis<&Analysis::parent>)
      .def_prop_ro("colcount", &of_analysis<&Analysis::colcount>)
      .def_prop_ro("boundary", [](const Symbolic& b) { return b.analysis.boundary; })
      .def_prop_ro("nnz", [](const Symbolic& b) { return b.analysis.nnz; })
      .def_prop_ro("flops", [](const Symbolic& b) { return b.analysis.flops; })
      .def_prop_ro("nbytes", [](const Symbolic& b) { return b.supernodes.nbytes(); })
      .def_prop_ro("first", &of_supernodes<&Supernodes::first>)
      .def_prop_ro("snode_parent", &of_supernodes<&Supernodes::parent>)
      .def_prop_ro("row_ptr", &of_supernodes<&Supernodes::row_ptr>)
      .def_prop_ro("rows", &of_supernodes<&Supernodes::rows>);
  m.def("analyze", &build, nb::arg("indptr"), nb::arg("indices"), nb::arg("perm"),
        nb::arg("threads") = 1, nb::arg("known") = nb::none(), nb::arg("boundary") = 0, nb::arg("relax") = nb::none(),
        "Analysis of A[perm][:, perm]; A is a symmetric pattern with both triangles. `known`: elimination tree and column counts of "
        "this very pattern in this order. `boundary`: rows at the end that will not be eliminated. "
        "`relax`: rules (columns, share, zeros) for joins of supernodes, instead of default_relaxation().");
  m.def("default_relaxation", [] {
    std::vector<std::tuple<double, double, double>> rules;
    for (const symbolic::Rule& rule : symbolic::kRules) rules.emplace_back(rule.columns, rule.share, rule.zeros);
    return rules;
  }, "Rules (columns, share of zeros, number of zeros) for joins of supernodes");
  m.def("restore_analysis", &restore, nb::arg("perm"), nb::arg("iperm"), nb::arg("parent"),
        nb::arg("colcount"), nb::arg("first"), nb::arg("snode_parent"),
        nb::arg("row_ptr"), nb::arg("rows"), nb::arg("boundary") = 0,
        "An Analysis from the arrays of an earlier one.");
  m.def("pattern_lca", &pattern_of, nb::arg("indptr"), nb::arg("indices"), nb::arg("analysis"),
        nb::arg("threads"), "Pattern of L by columns, rows ascending: (indptr int64, indices int32).");
  m.def("unsymmetric", [](In<int64_t> indptr, Indices rows) {
    const Pattern A = pattern(indptr, rows);
    auto f = released([&] { return symbolic::unsymmetric(A.n, A.ptr, A.idx); });
    return nb::make_tuple(to_numpy(std::move(f.l_ptr)), to_numpy(std::move(f.l_row)), to_numpy(std::move(f.u_ptr)),
                           to_numpy(std::move(f.u_row)));
  }, nb::arg("indptr"), nb::arg("rows"), "Pattern of L and U of a matrix by columns, no diagonal.");
  m.def("etree", [](In<int64_t> indptr, Indices indices) { return to_numpy(etree_of(pattern(indptr, indices))); },
        nb::arg("indptr"), nb::arg("indices"), "Elimination tree of a pattern in its own order.");
  m.def("colcount", [](In<int64_t> indptr, Indices indices) { return to_numpy(colcount_of(pattern(indptr, indices))); },
        nb::arg("indptr"), nb::arg("indices"), "Column counts of L in the order of A.");
  m.def("postorder", [](Indices parent) {
    const std::vector<int32_t> position = symbolic::postorder(to_vector(parent)).position;
    return to_numpy(symbolic::inverse(position.data(), static_cast<int32_t>(position.size()), 1));
  }, nb::arg("parent"), "Postorder of a tree with parent[j] > j or -1.");
}

}  // namespace ms
