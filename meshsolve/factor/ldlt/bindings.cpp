// Bindings of the complete L D L^T factor and of the scaling that both factors share.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include "batch.hpp"
#include "native/bind.hpp"
#include "scaling.hpp"
#include "small_pivots.hpp"

namespace ms {
namespace {

template <class T>
void bind_complete(nb::module_& m, const char* name) {
  using namespace nb::literals;
  using Factor = ldlt::Complete<T>;
  nb::class_<Factor>(m, name)
      .def("__init__", [](Factor* self, std::shared_ptr<fronts::AssemblyTree> tree, std::pair<double, double> rule,
                         double strict_threshold, bool is_strict) {
        new (self) Factor(std::move(tree), {rule.first, rule.second}, strict_threshold, is_strict);
      }, "tree"_a, "rule"_a, "strict_threshold"_a, "is_strict"_a)
      .def_prop_ro("is_strict", [](const Factor& f) { return f.is_strict(); })
      .def_prop_ro("changes", [](const Factor& f) { return f.changes(); })
      .def("factor", [](Factor& f, In<double> data, int threads) {
        Released free;
        return f.factor(data.data(), threads);
      }, "data"_a, "threads"_a)
      .def("solve", [](const Factor& f, In<double> scale, Block<const double> B, Block<double> X, int threads) {
        Released free;
        f.solve(scale.data(), strided(B), strided(X), extent(B, 1), threads);
      }, "scale"_a, "B"_a, "X"_a, "threads"_a)
      .def("extract", [](const Factor& f) {
        auto x = released([&] { return f.extract(); });
        return nb::make_tuple(to_numpy(std::move(x.perm)), to_numpy(std::move(x.ptr)), to_numpy(std::move(x.rows)),
                               to_numpy(std::move(x.values)), to_numpy(std::move(x.d)), to_numpy(std::move(x.e)));
      }, "(perm, indptr, rows, values, d, e)")
      .def_prop_ro("inertia", [](const Factor& f) {
        const ldlt::Inertia& i = f.pivots().inertia;
        return std::make_tuple(i.positive, i.negative, i.zero);
      })
      .def_prop_ro("nonzeros", &Factor::nonzeros)
      .def_prop_ro("delayed", [](const Factor& f) { return f.pivots().delayed; })
      .def_prop_ro("pairs", [](const Factor& f) { return f.pivots().pairs; })
      .def_prop_ro("undecided", [](const Factor& f) { return f.pivots().undecided; })
      .def_prop_ro("panel_scalars", &Factor::panel_scalars)
      .def_prop_ro("nbytes", &Factor::nbytes);
}

ldlt::Refinement rule_of(std::tuple<double, double, int> refinement, std::pair<double, double> range) {
  const auto [enough, target, steps] = refinement;
  return {enough, target, steps, range.first, range.second};
}

// The Python wrapper checks that `data` has (count, nnz) numbers, and B and X (count, n, k).
void bind_ldlt_batch(nb::module_& m) {
  using namespace nb::literals;
  using ldlt::Batch;
  nb::class_<Batch>(m, "LdltBatch")
      .def("__init__", [](Batch* self, std::shared_ptr<fronts::AssemblyTree> tree, std::pair<double, double> rule,
                         double strict_threshold, bool is_strict, int64_t count) {
        new (self) Batch(std::move(tree), {rule.first, rule.second}, strict_threshold, is_strict, count);
      }, "tree"_a, "rule"_a, "strict_threshold"_a, "is_strict"_a, "count"_a)
      .def("factor", [](Batch& f, In<int64_t> indptr, In<int32_t> indices, In<double> data, In<double> scale, double most_spread,
                        int threads) {
        Released free;
        f.factor(pattern(indptr, indices), data.data(), scale.data(), most_spread, threads);
      }, "indptr"_a, "indices"_a, "data"_a, "scale"_a, "most_spread"_a, "threads"_a)
      .def("factor_and_solve", [](Batch& f, In<int64_t> indptr, In<int32_t> indices, In<double> data, In<double> scale, double most_spread,
                                  In<double> B, InOut<double> X, InOut<double> error, InOut<double> outside,
                                  std::tuple<double, double, int> refinement, std::pair<double, double> range, int threads) {
        Released free;
        const Pattern A = pattern(indptr, indices);
        f.factor_and_solve(A, data.data(), scale.data(), most_spread, B.data(), X.data(), error.data(), outside.data(),
                           extent(B) / (f.count() * A.n), rule_of(refinement, range), threads);
      }, "indptr"_a, "indices"_a, "data"_a, "scale"_a, "most_spread"_a, "B"_a, "X"_a, "error"_a, "outside"_a, "refinement"_a, "range"_a,
         "threads"_a)
      .def("solve", [](const Batch& f, In<int64_t> indptr, In<int32_t> indices, In<double> B, InOut<double> X, InOut<double> error,
                       InOut<double> outside, std::tuple<double, double, int> refinement, std::pair<double, double> range, int threads) {
        Released free;
        const Pattern A = pattern(indptr, indices);
        f.solve(A, B.data(), X.data(), error.data(), outside.data(), extent(B) / (f.count() * A.n), rule_of(refinement, range), threads);
      }, "indptr"_a, "indices"_a, "B"_a, "X"_a, "error"_a, "outside"_a, "refinement"_a, "range"_a, "threads"_a)
      .def("state", [](const Batch& f) { return copied(f.state()); })
      .def("inertia", [](const Batch& f) { return to_numpy(f.inertia()); })
      .def("undecided", [](const Batch& f) { return copied(f.undecided()); })
      .def_prop_ro("nbytes", &Batch::nbytes);
}

}  // namespace

void bind_ldlt(nb::module_& m) {
  using namespace nb::literals;
  m.def("ldlt_norm", [](In<int64_t> indptr, In<int32_t> indices, In<double> scaled, In<double> scale, int threads) {
    Released free;
    return ldlt::norm(pattern(indptr, indices), scaled.data(), scale.data(), threads);
  }, "indptr"_a, "indices"_a, "scaled"_a, "scale"_a, "threads"_a);
  m.def("ldlt_rescale", [](In<int64_t> indptr, In<int32_t> indices, In<double> data, In<double> scale, bool complete, int threads) {
    std::vector<double> fitted = to_vector(scale), scaled(data.shape(0));
    double spread = 0;
    {
      Released free;
      spread = ldlt::rescale(pattern(indptr, indices), data.data(), fitted.data(), scaled.data(), complete, threads);
    }
    return nb::make_tuple(to_numpy(std::move(fitted)), to_numpy(std::move(scaled)), spread);
  }, "indptr"_a, "indices"_a, "data"_a, "scale"_a, "complete"_a, "threads"_a,
     "(scale, values of S A S) after rows have been brought near 1, and powers of two between the sizes of rows before.");
  m.attr("pivot_samples") = ldlt::pivot_samples;
  m.def("ldlt_size_of_zero", [](double largest, double least_other, bool grows) {
    return ldlt::Noise{largest, least_other, grows}.size_of_zero();
  }, "largest"_a, "least_other"_a, "grows"_a, "size of zero for another factorization, or 0; see small_pivots.hpp");
  bind_complete<double>(m, "LdltDouble");
  bind_complete<float>(m, "LdltSingle");
  bind_ldlt_batch(m);
}

}  // namespace ms
