// Bindings of both LU engines, once for each scalar type.
#include <nanobind/stl/array.h>
#include <nanobind/stl/shared_ptr.h>

#include <optional>

#include "batch.hpp"
#include "native/bind.hpp"

namespace ms {
namespace {

using namespace nb::literals;

template <class T> nb::object values(const std::vector<T>& v) {
  const auto* const begin = reinterpret_cast<const NumpyOf<T>*>(v.data());
  return to_numpy(std::vector<NumpyOf<T>>(begin, begin + v.size()));
}

// {name: array} of the arrays of a plan that the kernels read.
nb::dict arrays_of(nb::handle_t<lu::FrontPlan> self) {
  const lu::FrontPlan& p = nb::cast<lu::FrontPlan&>(self);
  std::vector<int64_t> leading_p, leading_q;
  for (int32_t s = 0; s < p.tree.count(); ++s) {
    leading_p.push_back(p.leading_p(s));
    leading_q.push_back(p.leading_q(s));
  }
  nb::dict out;
  out["base"] = view(p.base, self);
  out["entry_ptr"] = view(p.entry_ptr, self);
  out["source"] = view(p.source, self);
  out["target"] = view(p.target, self);
  out["scale"] = view(p.scale, self);
  out["child_ptr"] = view(p.tree.child_ptr, self);
  out["child"] = view(p.tree.child, self);
  out["relative"] = view(p.tree.relative, self);
  out["leading_p"] = to_numpy(std::move(leading_p));
  out["leading_q"] = to_numpy(std::move(leading_q));
  return out;
}

nb::dict arrays_of(nb::handle_t<lu::ColumnPlan> self) {
  const lu::ColumnPlan& p = nb::cast<lu::ColumnPlan&>(self);
  nb::dict out;
  out["entry_ptr"] = view(p.entry_ptr, self);
  out["row"] = view(p.row, self);
  out["source"] = view(p.source, self);
  out["scale"] = view(p.scale, self);
  out["l_ptr"] = view(p.pattern.l_ptr, self);
  out["l_row"] = view(p.pattern.l_row, self);
  out["u_ptr"] = view(p.pattern.u_ptr, self);
  out["u_row"] = view(p.pattern.u_row, self);
  return out;
}

// FrontFactor<T> on a FrontPlan, or ColumnFactor<T> on a ColumnPlan.
template <class T, class Factor, class Plan>
void bind_factor(nb::module_& m, const char* name) {
  using S = lu::Scalar<T>;
  nb::class_<Factor> bound(m, name);
  if constexpr (std::is_same_v<T, double>)
    bound.def("solve_vector", [](const Factor& f, In<double> b, InOut<double> x, int threads) {
      return solve_vector(b, x, [&](const double* from, double* to) { f.solve(false, {from, 1, 1}, {to, 1, 1}, 1, threads); });
    }, "b"_a, "x"_a, "threads"_a, "False where b is not finite");
  bound
      .def("__init__", [](Factor* self, std::shared_ptr<Plan> plan) { new (self) Factor(std::move(plan)); }, "plan"_a)
      .def("factor", [](Factor& f, In<NumpyOf<S>> data, double threshold, double tiny, double perturbed_size, int threads, bool undisturbed) {
        lu::Outcome result;
        {
          Released free;
          std::optional<interrupt::Undisturbed> whole;
          if (undisturbed) whole.emplace();
          result = f.factor(native<S>(data.data()), {threshold, tiny, perturbed_size}, threads);
        }
        return nb::make_tuple(result.perturbed, result.largest_entry, result.largest_pivot_row);
      }, "data"_a, "threshold"_a, "tiny"_a, "perturbed_size"_a, "threads"_a, "undisturbed"_a = false,
         "(perturbed pivots, max |B|, max |U|)")
      .def("solve", [](const Factor& f, bool transposed, Block<const NumpyOf<S>> B, Block<NumpyOf<S>> X, int threads) {
        Released free;
        f.solve(transposed, native<S>(B), native<S>(X), extent(B, 1), threads);
      }, "transposed"_a, "B"_a, "X"_a, "threads"_a)
      .def("triangles", [](const Factor& f) {
        auto t = released([&] { return f.triangles(); });
        return nb::make_tuple(to_numpy(std::move(t.l_ptr)), to_numpy(std::move(t.l_row)), values<S>(t.l),
                              to_numpy(std::move(t.u_ptr)), to_numpy(std::move(t.u_column)), values<S>(t.u),
                              to_numpy(std::move(t.final_position)));
      }, "(L by columns, U by rows, final position of each row) of the diagonal blocks")
      .def_prop_ro("nbytes", &Factor::nbytes);
}

// Factors computed on the GPU, copied to the host for L, U and other results.
template <class T>
void bind_load(nb::module_& m) {
  m.def("load_fronts", [](lu::FrontFactor<T>& f, In<T> fronts, In<T> off_diagonal, In<int32_t> exchange) {
    f.load(fronts.data(), off_diagonal.data(), exchange.data());
  }, "factor"_a, "fronts"_a, "off_diagonal"_a, "exchange"_a);
  m.def("load_columns", [](lu::ColumnFactor<T>& f, In<T> columns, In<T> off_diagonal) { f.load(columns.data(), off_diagonal.data()); },
        "factor"_a, "columns"_a, "off_diagonal"_a);
}

// The Python wrapper checks that `data` has (count, nnz) numbers, and B and X (count, n, k).
template <class T>
void bind_lu_batch(nb::module_& m, const char* name) {
  using Batch = lu::Batch<T>;
  nb::class_<Batch>(m, name)
      .def("__init__", [](Batch* self, std::shared_ptr<lu::FrontPlan> plan, int64_t count, int workers) {
        new (self) Batch(plan, count, workers);
      }, "plan"_a, "count"_a, "workers"_a)
      .def("__init__", [](Batch* self, std::shared_ptr<lu::ColumnPlan> plan, int64_t count, int workers) {
        new (self) Batch(plan, count, workers);
      }, "plan"_a, "count"_a, "workers"_a)
      .def("factor", [](Batch& f, In<NumpyOf<T>> given, InOut<NumpyOf<T>> data, std::array<double, 5> rule, int threads) {
        Released free;
        const auto [threshold, tiny, perturbed_size, risk, unbounded] = rule;
        f.factor(native<T>(given.data()), native<T>(data.data()), extent(data) / f.count(), {threshold, tiny, perturbed_size},
                 {risk, unbounded}, threads);
      }, "given"_a, "data"_a, "rule"_a, "threads"_a)
      .def("factor_and_solve", [](Batch& f, In<int64_t> indptr, In<int32_t> indices, In<NumpyOf<T>> data, In<double> known,
                                  In<NumpyOf<T>> B, InOut<NumpyOf<T>> X, std::array<double, 4> limits, std::array<double, 5> rule,
                                  int threads) {
        Released free;
        const Pattern A = pattern(indptr, indices);
        const auto [enough, suspect, probe, rows] = limits;
        const auto [threshold, tiny, perturbed_size, risk, unbounded] = rule;
        f.factor_and_solve({A, native<T>(data.data()), known.data(), {enough, suspect, probe, rows}}, {threshold, tiny, perturbed_size},
                           {risk, unbounded}, native<T>(B.data()), native<T>(X.data()), extent(B) / (f.count() * A.n), threads);
      }, "indptr"_a, "indices"_a, "data"_a, "known"_a, "B"_a, "X"_a, "limits"_a, "rule"_a, "threads"_a)
      .def("solve", [](Batch& f, In<int64_t> indptr, In<int32_t> indices, In<NumpyOf<T>> data, In<double> known, In<NumpyOf<T>> B,
                       InOut<NumpyOf<T>> X, std::array<double, 4> limits, int threads) {
        Released free;
        const Pattern A = pattern(indptr, indices);
        const auto [enough, suspect, probe, rows] = limits;
        f.solve({A, native<T>(data.data()), known.data(), {enough, suspect, probe, rows}}, native<T>(B.data()), native<T>(X.data()),
                extent(B) / (f.count() * A.n), threads);
      }, "indptr"_a, "indices"_a, "data"_a, "known"_a, "B"_a, "X"_a, "limits"_a, "threads"_a)
      .def("state", [](const Batch& f) { return copied(f.state()); })
      .def("error", [](const Batch& f) { return copied(f.error()); })
      .def_prop_ro("is_measured", &Batch::is_measured);
}

template <class Plan> auto off_diagonal(const Plan& p) {
  return nb::make_tuple(copied(p.off_diagonal.ptr), copied(p.off_diagonal.row), copied(p.off_diagonal.source));
}

template <class T>
void bind_pivot_rows(nb::module_& m) {
  m.def("pivot_rows", [](const lu::ColumnPlan& plan, In<NumpyOf<T>> data, double threshold, double least,
                          int64_t most) {
    std::vector<int32_t> rows;
    const int32_t failed = released([&] { return lu::pivot_rows<T>(plan, native<T>(data.data()), threshold, least, most, rows); });
    return nb::make_tuple(failed, to_numpy(std::move(rows)));
  }, "plan"_a, "data"_a, "threshold"_a, "least"_a, "most"_a,
     "(-1, or the position that failed, or n where L has more than `most` entries; row of A for each position)");
}

template <class T>
void bind_lower_solve(nb::module_& m) {
  m.def("lower_solve", [](In<int64_t> l_ptr, In<int32_t> l_row, In<NumpyOf<T>> l, In<int64_t> f_ptr, In<int32_t> f_row,
                          In<NumpyOf<T>> f) {
    std::vector<int64_t> ptr;
    std::vector<int32_t> row;
    std::vector<T> x;
    {
      Released free;
      lu::lower_solve<T>(pattern(l_ptr, l_row), native<T>(l.data()), pattern(f_ptr, f_row), native<T>(f.data()), ptr, row,
                          x);
    }
    return nb::make_tuple(to_numpy(std::move(ptr)), to_numpy(std::move(row)), values<T>(x));
  }, "l_ptr"_a, "l_row"_a, "l"_a, "f_ptr"_a, "f_row"_a,
     "f"_a,
     "L^-1 F for sparse F, by columns.");
}

lu::LevelRule level_rule(const std::string& name) {
  return name == "upper" ? lu::LevelRule::upper : name == "relaxed" ? lu::LevelRule::relaxed : lu::LevelRule::exact;
}

void bind_front_plan(nb::module_& m) {
  using lu::FrontPlan;
  nb::class_<FrontPlan>(m, "FrontPlan")
      .def("__init__", [](FrontPlan* self, std::shared_ptr<symbolic::Symbolic> symbolic, In<int64_t> indptr, In<int32_t> indices,
                          In<int32_t> rows, In<int32_t> columns, In<double> row_scale, In<double> col_scale,
                          In<int32_t> block_ptr) {
        Released free;
        lu::BlockTriangularForm form{to_vector(rows), to_vector(columns), to_vector(row_scale), to_vector(col_scale), to_vector(block_ptr)};
        new (self) FrontPlan(lu::front_plan(std::move(symbolic), pattern(indptr, indices), std::move(form)));
      }, "symbolic"_a, "indptr"_a, "indices"_a, "rows"_a, "columns"_a,
         "row_scale"_a, "col_scale"_a, "block_ptr"_a)
      .def_prop_ro("scalars", [](const FrontPlan& p) { return p.base.back(); })
      .def_prop_ro("count", [](const FrontPlan& p) { return p.tree.count(); })
      .def("work_scalars", [](const FrontPlan& p, int threads) { return fronts::work_scalars(p.tree, threads, fronts::full); }, "threads"_a,
           "Scalars of the workspace of a numeric phase: update matrices and the entries of A.")
      .def("off_diagonal", &off_diagonal<FrontPlan>, "Entries above the diagonal blocks by columns: (indptr, positions, sources).")
      .def("arrays", [](nb::handle_t<FrontPlan> self) { return arrays_of(self); }, "The arrays that kernels read, by name.");
}

void bind_column_plan(nb::module_& m) {
  using lu::ColumnPlan;
  nb::class_<ColumnPlan>(m, "ColumnPlan")
      .def("__init__", [](ColumnPlan* self, In<int64_t> indptr, In<int32_t> indices, In<int32_t> rows, In<int32_t> columns,
                          In<double> row_scale, In<double> col_scale, In<int32_t> block_ptr) {
        Released free;
        lu::BlockTriangularForm form{to_vector(rows), to_vector(columns), to_vector(row_scale), to_vector(col_scale), to_vector(block_ptr)};
        new (self) ColumnPlan(lu::column_plan(pattern(indptr, indices), std::move(form)));
      }, "indptr"_a, "indices"_a, "rows"_a, "columns"_a,
         "row_scale"_a, "col_scale"_a, "block_ptr"_a)
      .def_prop_ro("scalars", [](const ColumnPlan& p) {
        return static_cast<int64_t>(p.pattern.l_row.size() + p.pattern.u_row.size() + p.entry_ptr.size()) - 1;
      }, "Entries of L and U of the diagonal blocks.")
      .def_prop_ro("flops", [](const ColumnPlan& p) { return p.flops; })
      .def("off_diagonal", &off_diagonal<ColumnPlan>, "Entries above the diagonal blocks by columns: (indptr, positions, sources).")
      .def("arrays", [](nb::handle_t<ColumnPlan> self) { return arrays_of(self); }, "The arrays that kernels read, by name.")
      .def("steps", [](const ColumnPlan& p, bool transposed) {
        auto s = released([&] { return lu::row_steps(p, transposed); });
        return nb::make_tuple(to_numpy(std::move(s.level_ptr)), to_numpy(std::move(s.ptr)), to_numpy(std::move(s.column)),
                              to_numpy(std::move(s.source)), to_numpy(std::move(s.pivot)), to_numpy(std::move(s.position)));
      }, "transposed"_a, "A solve as rows by level: (level_ptr, ptr, column, source, pivot, position of each unknown).");
}

}  // namespace

void bind_lu(nb::module_& m) {
  using lu::ColumnPlan, lu::FrontPlan;
  bind_front_plan(m);
  bind_column_plan(m);
  bind_factor<double, lu::FrontFactor<double>, FrontPlan>(m, "FrontLuDouble");
  bind_factor<float, lu::FrontFactor<float>, FrontPlan>(m, "FrontLuSingle");
  bind_factor<Complex, lu::FrontFactor<Complex>, FrontPlan>(m, "FrontLuComplex");
  bind_factor<double, lu::ColumnFactor<double>, ColumnPlan>(m, "ColumnLuDouble");
  bind_factor<float, lu::ColumnFactor<float>, ColumnPlan>(m, "ColumnLuSingle");
  bind_factor<Complex, lu::ColumnFactor<Complex>, ColumnPlan>(m, "ColumnLuComplex");
  bind_lu_batch<double>(m, "LuBatchDouble");
  bind_lu_batch<Complex>(m, "LuBatchComplex");
  bind_load<double>(m);
  bind_load<float>(m);
  bind_pivot_rows<double>(m);
  bind_pivot_rows<Complex>(m);
  bind_lower_solve<double>(m);
  bind_lower_solve<Complex>(m);
  m.def("lu_levels", [](In<int64_t> l_ptr, In<int32_t> l_row, In<int64_t> u_ptr, In<int32_t> u_column, const std::string& rule) {
    return to_numpy(released([&] { return lu::levels(pattern(l_ptr, l_row), pattern(u_ptr, u_column), level_rule(rule)); }));
  }, "l_ptr"_a, "l_row"_a, "u_ptr"_a, "u_column"_a, "rule"_a,
     "Levels of the columns; rule is upper, relaxed or exact.");
}

}  // namespace ms
