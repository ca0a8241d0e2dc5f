// Bindings of the Cholesky factor for both scalar types.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "batch.hpp"
#include "native/bind.hpp"

namespace ms {
namespace {

cholesky::SparseColumns columns_of(const In<int64_t>& indptr, const In<int32_t>& indices, const In<double>& data) {
  return {static_cast<int64_t>(indptr.size()) - 1, indptr.data(), indices.data(), data.data()};
}

// Bindings in double precision alone: for few entries, and for an analysis with a Schur interface.
void bind_double(nb::class_<cholesky::Factor<double>>& bound) {
  using namespace nb::literals;
  using Factor = cholesky::Factor<double>;
  bound
      .def("boundary_block", [](const Factor& f, InOut<double> S, int threads) {
        Released free;
        f.boundary_block(S.data(), threads);
      }, "S"_a, "threads"_a)
      .def("solve_entries", [](const Factor& f, In<int32_t> row, In<int32_t> column, In<double> value, Block<double> X, int threads) {
        Released free;
        f.solve_entries({extent(row), row.data(), column.data(), value.data()}, strided(X), extent(X, 1), threads);
      }, "row"_a, "column"_a, "value"_a, "X"_a, "threads"_a)
      .def("solve_at", [](const Factor& f, In<int32_t> row, Block<const double> B, Block<double> X, int threads) {
        Released free;
        f.solve_at(row.data(), strided(B), strided(X), extent(B, 1), threads);
      }, "row"_a, "B"_a, "X"_a, "threads"_a)
      .def("reduce", [](const Factor& f, Block<const double> B, Block<double> X, int threads) {
        Released free;
        f.reduce(strided(B), strided(X), extent(B, 1), threads);
      }, "B"_a, "X"_a, "threads"_a)
      .def("expand", [](const Factor& f, Block<const double> B, Block<const double> given, Block<double> X, int threads) {
        Released free;
        f.expand(strided(B), strided(given), strided(X), extent(B, 1), threads);
      }, "B"_a, "given"_a, "X"_a, "threads"_a);
}

template <class T>
auto bind_factor(nb::module_& m, const char* name) {
  using namespace nb::literals;
  using Factor = cholesky::Factor<T>;
  return nb::class_<Factor>(m, name)
      .def("__init__", [](Factor* self, std::shared_ptr<fronts::AssemblyTree> tree) { new (self) Factor(std::move(tree)); }, "tree"_a)
      .def("use_file", [](Factor& f, int descriptor, std::string folder) {
        f.use_file(std::make_shared<ScratchFile>(descriptor, std::move(folder)));
      }, "descriptor"_a, "folder"_a)
      .def("file_needs", [](const Factor& f, int threads) {
        const cholesky::FileNeeds needs = f.file_needs(threads);
        return nb::make_tuple(needs.memory, needs.file);
      }, "threads"_a, "Scalars (of memory in addition to the analysis, of the file) of a numeric phase with the panels in a file.")
      .def_prop_ro("file_traffic", [](const Factor& f) {
        return nb::make_tuple(f.file() ? f.file()->written() : 0, f.file() ? f.file()->bytes_read() : 0);
      }, "Bytes (written, read) so far.")
      .def("factor", [](Factor& f, In<double> data, int threads) {
        Released free;
        return f.factor(data.data(), threads);
      }, "data"_a, "threads"_a)
      .def("update", [](Factor& f, In<int64_t> indptr, In<int32_t> indices, In<double> data, bool down, int threads) {
        const cholesky::SparseColumns C = columns_of(indptr, indices, data);
        Released free;
        return f.update(C, down, threads);
      }, "indptr"_a, "indices"_a, "data"_a, "down"_a, "threads"_a)
      .def("outside", [](const Factor& f, In<int64_t> indptr, In<int32_t> indices, In<double> data) {
        const cholesky::SparseColumns C = columns_of(indptr, indices, data);
        const auto [row, column] = released([&] { return f.outside(C); });
        return nb::make_tuple(row, column);
      }, "indptr"_a, "indices"_a, "data"_a)
      .def("solve", [](const Factor& f, const std::string& system, Block<const double> B, Block<double> X, int threads) {
        const cholesky::System which = system == "A" ? cholesky::System::A : system == "L" ? cholesky::System::L : cholesky::System::Lt;
        Released free;
        f.solve(which, strided(B), strided(X), extent(B, 1), threads);
      }, "system"_a, "B"_a, "X"_a, "threads"_a)
      .def("solve_rows", [](const Factor& f, Block<const double> B, In<int32_t> nonzero, In<int32_t> wanted, Block<double> X) {
        Released free;
        f.solve_rows(strided(B), {nonzero.data(), static_cast<int64_t>(nonzero.size())},
                     {wanted.data(), static_cast<int64_t>(wanted.size())}, strided(X), extent(B, 1));
      }, "B"_a, "nonzero"_a, "wanted"_a, "X"_a)
      .def("solve_vector", [](const Factor& f, In<double> b, InOut<double> x, int threads) {
        return solve_vector(b, x, [&](const double* from, double* to) { f.solve(cholesky::System::A, {from, 1, 1}, {to, 1, 1}, 1, threads); });
      }, "b"_a, "x"_a, "threads"_a, "False where b is not finite")
      .def("values_on", [](const Factor& f, In<int64_t> indptr, In<int32_t> indices) {
        return to_numpy(released([&] { return f.values_on(pattern(indptr, indices)); }));
      }, "indptr"_a, "indices"_a)
      .def("inverse_diagonal", [](const Factor& f, int threads) {
        return to_numpy(released([&] { return f.inverse_diagonal(threads); }));
      }, "threads"_a)
      .def("inverse_on_matrix", [](const Factor& f, int64_t nnz, int threads) {
        return to_numpy(released([&] { return f.inverse_on_matrix(nnz, threads); }));
      }, "nnz"_a, "threads"_a)
      .def("inverse_scalars", &Factor::inverse_scalars, "threads"_a)
      .def("diagonal", [](const Factor& f) { return to_numpy(f.diagonal()); })
      .def("norm1", &Factor::norm1)
      .def("matrix", [](const Factor& f, int64_t nnz) { return to_numpy(f.matrix(nnz)); }, "nnz"_a)
      .def_prop_ro("may_be_singular", &Factor::may_be_singular)
      .def_prop_ro("panel_scalars", &Factor::panel_scalars)
      .def_prop_ro("changes", &Factor::changes)
      .def_prop_ro("nbytes", &Factor::nbytes);
}

// The Python wrapper checks that `data` has (count, nnz) numbers, and B and X (count, n, k).
template <class T>
void bind_cholesky_batch(nb::module_& m, const char* name) {
  using namespace nb::literals;
  using Batch = cholesky::Batch<T>;
  nb::class_<Batch>(m, name)
      .def("__init__", [](Batch* self, std::shared_ptr<fronts::AssemblyTree> tree, int64_t count) {
        new (self) Batch(std::move(tree), count);
      }, "tree"_a, "count"_a)
      .def("factor", [](Batch& f, In<double> data, int threads) {
        Released free;
        f.factor(data.data(), f.count() ? extent(data) / f.count() : 0, threads);
      }, "data"_a, "threads"_a)
      .def("factor_and_solve", [](Batch& f, In<double> data, In<double> B, InOut<double> X, int64_t k, int threads) {
        Released free;
        f.factor_and_solve(data.data(), f.count() ? extent(data) / f.count() : 0, B.data(), X.data(), k, threads);
      }, "data"_a, "B"_a, "X"_a, "k"_a, "threads"_a)
      .def("solve", [](const Batch& f, In<double> B, InOut<double> X, int64_t k, int threads) {
        Released free;
        f.solve(B.data(), X.data(), k, threads);
      }, "B"_a, "X"_a, "k"_a, "threads"_a)
      .def("state", [](const Batch& f) { return copied(f.state()); })
      .def("may_be_singular", [](const Batch& f) { return copied(f.may_be_singular()); })
      .def_prop_ro("panel_scalars", &Batch::panel_scalars)
      .def_prop_ro("item_scalars", &Batch::item_scalars)
      .def_prop_ro("systems_at_once", &Batch::systems_at_once)
      .def_prop_ro("nbytes", &Batch::nbytes);
}

}  // namespace

void bind_cholesky(nb::module_& m) {
  using namespace nb::literals;
  auto bound = bind_factor<double>(m, "CholeskyDouble");
  bind_double(bound);
  bind_factor<float>(m, "CholeskySingle");
  bind_cholesky_batch<double>(m, "CholeskyBatchDouble");
  bind_cholesky_batch<float>(m, "CholeskyBatchSingle");
  m.def("constant_component", [](In<int64_t> indptr, In<int32_t> indices, In<double> data, In<int32_t> iperm, int32_t n) {
    Released free;
    return cholesky::constant_component(pattern(indptr, indices), data.data(), iperm.data(), n);
  }, "indptr"_a, "indices"_a, "data"_a, "iperm"_a, "n"_a,
        "Last row in a permuted matrix, symmetric, of the first component of its values on which all rows sum to 0, or -1. Only "
        "the first n rows count.");
}

}  // namespace ms
