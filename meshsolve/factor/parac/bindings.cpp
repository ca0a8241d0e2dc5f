// Bindings of ParAC: the graph of a matrix, and the factor for each scalar type of G.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/unique_ptr.h>

#include <optional>

#include "native/bind.hpp"
#include "parac.hpp"

namespace ms {
namespace {

using parac::Graph;

template <class T> RawVector<T> vector(const In<T>& a) { return {a.data(), a.data() + a.shape(0)}; }

template <class T>
void bind_parac_inverse(nb::module_& m, const char* name) {
  using namespace nb::literals;
  using Inverse = parac::Inverse<T>;
  nb::class_<Inverse>(m, name)
      .def("__init__", [](Inverse* self, Graph& graph, std::optional<In<int32_t>> perm, bool by_levels, int samples, uint64_t seed, int threads) {
        const parac::Options options{samples, seed, threads};
        Released free;
        parac::Factor<T> factor = perm ? parac::factor_ordered<T>(graph, perm->data(), options)
                                       : parac::factor_rounds<T>(std::move(graph), options);
        new (self) Inverse(std::move(factor), by_levels, threads);
      }, "graph"_a, "perm"_a.none(), "by_levels"_a, "samples"_a, "seed"_a, "threads"_a)
      .def_static("restore", [](In<int64_t> ptr, In<int32_t> rows, In<T> values, In<double> D, In<int32_t> perm, int64_t rounds,
                                bool by_levels) {
        return std::make_unique<Inverse>(
            parac::Factor<T>{{vector(ptr), vector(rows), vector(values)}, {vector(D), vector(perm), rounds, 0, 0}}, by_levels);
      }, "ptr"_a, "rows"_a, "values"_a, "D"_a, "perm"_a, "rounds"_a,
         "by_levels"_a, "Restore a factor from its arrays.")
      .def("apply", [](const Inverse& f, Block<const double> B, Block<double> X, int threads) {
        Released free;
        f.apply(B.data(), B.stride(0), B.stride(1), X.data(), X.stride(0), X.stride(1), extent(B, 1), threads);
      }, "B"_a, "X"_a, "threads"_a)
      .def("apply_inside", [](const Inverse& f, In<double> B, InOut<double> X, int64_t k, int threads) {
        Released free;
        f.apply_inside(B.data(), X.data(), k, threads);
      }, "B"_a, "X"_a, "k"_a, "threads"_a)
      .def("positions", [](const Inverse& f) { return copied(f.positions()); })
      .def("project", [](const Inverse& f, InOut<double> B, int64_t k) {
        Released free;
        f.project(B.data(), k);
      }, "B"_a, "k"_a)
      .def("columns", [](const Inverse& f) {
        RawVector<int64_t> ptr;
        RawVector<int32_t> rows;
        RawVector<T> values;
        f.columns(ptr, rows, values);
        return nb::make_tuple(copied(ptr), copied(rows), copied(values));
      })
      .def("pivots", [](const Inverse& f) { return copied(f.pivots().D); })
      .def("perm", [](const Inverse& f) { return copied(f.pivots().perm); })
      .def_prop_ro("nnz", [](const Inverse& f) { return f.nnz(); })
      .def_prop_ro("rounds", [](const Inverse& f) { return f.pivots().rounds; })
      .def_prop_ro("visits", [](const Inverse& f) { return f.pivots().visits; })
      .def_prop_ro("lost", [](const Inverse& f) { return f.pivots().lost; })
      .def_prop_ro("null_components", &Inverse::null_components)
      .def_prop_ro("connected", &Inverse::connected)
      .def_prop_ro("nbytes", &Inverse::nbytes);
}

}  // namespace

void bind_parac(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<Graph>(m, "ParacGraph")
      .def("__init__", [](Graph* self, In<int64_t> indptr, In<int32_t> indices, In<double> data, int threads, bool edges, bool floor) {
        const parac::Detail detail = edges ? parac::Detail::edges : floor ? parac::Detail::floor : parac::Detail::rows;
        Released free;
        new (self) Graph(parac::graph_of(pattern(indptr, indices), data.data(), detail, threads));
      }, "indptr"_a, "indices"_a, "data"_a, "threads"_a = 1, "edges"_a = true, "floor"_a = true,
         nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(),
         "The graph of a matrix. A factor in a given order needs no edges; a check of the rows needs no floor.")
      .def("gather_neighbors", [](Graph& g, int64_t apart) {
        Released free;
        if (g.origin.empty() && parac::is_scattered(g, apart)) parac::gather_neighbors(g);
      }, "apart"_a = parac::near_enough)
      .def_ro("floored", &Graph::floored)
      .def_ro("bad_row", &Graph::bad_row)
      .def_ro("excess", &Graph::excess)
      .def_prop_ro("grounded", [](const Graph& g) { return !g.ground.empty(); })
      .def_ro("nnz", &Graph::edges)
      .def_ro("floor", &Graph::floor)
      .def("arrays", [](const Graph& g) {
        return nb::make_tuple(copied(g.ptr), copied(g.to), copied(g.w), copied(g.ground), copied(g.origin));
      })
      .def_ro("max_degree", &Graph::most);
  bind_parac_inverse<double>(m, "ParacDouble");
  bind_parac_inverse<float>(m, "ParacSingle");
}

}  // namespace ms
