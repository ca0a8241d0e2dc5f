// Bindings of compressed rows: checks, patterns, products, connected components.
#include <nanobind/stl/optional.h>

#include <optional>

#include "check.hpp"
#include "native/bind.hpp"
#include "product.hpp"
#include "split.hpp"

namespace ms {
namespace {

auto symmetry_of(In<int64_t> indptr, In<int32_t> indices, std::optional<In<double>> data, int threads) {
  const Symmetry s = released([&] { return symmetry(pattern(indptr, indices), data ? data->data() : nullptr, threads); });
  return std::make_tuple(std::string(s.pattern ? "symmetric" : "pattern"), s.doubt, s.row, s.column, s.gap, s.allowed);
}

auto sums_of(In<int64_t> indptr, In<double> data, std::optional<In<int32_t>> rows, int threads) {
  std::vector<double> sums(rows ? rows->shape(0) : indptr.shape(0) - 1), magnitudes(sums.size());
  {
    Released free;
    row_sums(indptr.data(), rows ? rows->data() : nullptr, static_cast<int64_t>(sums.size()), data.data(), sums.data(), magnitudes.data(),
             threads);
  }
  return nb::make_tuple(to_numpy(std::move(sums)), to_numpy(std::move(magnitudes)));
}

auto mirrored(In<int64_t> indptr, In<int32_t> indices, In<double> data) {
  OwnedPattern B;
  std::vector<double> x;
  {
    Released free;
    std::vector<int64_t> source;
    B = mirror_lower(pattern(indptr, indices), source);
    x.resize(source.size());
    for (size_t p = 0; p < x.size(); ++p) x[p] = data.data()[source[p]];
  }
  return nb::make_tuple(to_numpy(std::move(B.ptr)), to_numpy(std::move(B.idx)), to_numpy(std::move(x)));
}

auto embedded(In<int64_t> ptr_a, In<int32_t> idx_a, In<int64_t> ptr_b, In<int32_t> idx_b, In<double> data_b) {
  std::vector<double> to(idx_a.shape(0));
  const int64_t missing = released([&] { return embed(pattern(ptr_a, idx_a), pattern(ptr_b, idx_b), data_b.data(), to.data()); });
  return nb::make_tuple(missing, to_numpy(std::move(to)));
}

auto split_up(In<int64_t> indptr, In<int32_t> indices, In<double> data, In<int32_t> free, In<int32_t> position, int threads) {
  Split parts = released([&] {
    return split(pattern(indptr, indices), data.size() > 0 ? data.data() : nullptr, free.data(), extent(free), position.data(), threads);
  });
  const auto arrays = [](RowBlock& b) {
    return nb::make_tuple(to_numpy(std::move(b.ptr)), to_numpy(std::move(b.idx)), to_numpy(std::move(b.x)));
  };
  return nb::make_tuple(arrays(parts.free), arrays(parts.coupling));
}

auto components_of(In<int64_t> indptr, In<int32_t> indices, In<double> data) {
  int32_t count = 0;
  std::vector<int32_t> component = released([&] { return components(pattern(indptr, indices), data.data(), &count); });
  return nb::make_tuple(count, to_numpy(std::move(component)));
}

auto centered(In<int32_t> component, In<double> size, InOut<double> block) {
  const int64_t n = extent(component), k = n ? extent(block) / n : 0, count = extent(size);
  const int32_t* const of = count > 1 ? component.data() : nullptr;
  return to_numpy(released([&] { return center(n, k, of, size.data(), count, block.data()); }));
}

// Checks of compressed rows, for matrix.py and columns.py.
void bind_checks(nb::module_& m) {
  using namespace nb::literals;
  m.def("check_csr", [](In<int64_t> indptr, In<int32_t> indices, int64_t n, int threads) {
    if (extent(indptr) != n + 1) return std::make_tuple(std::string("invalid"), int64_t{0});
    const RowCheck c = released([&] { return check_rows(pattern(indptr, indices), extent(indices), threads); });
    const char* state = c.state == RowState::valid ? "valid" : c.state == RowState::unsorted ? "unsorted" : "invalid";
    return std::make_tuple(std::string(state), c.row);
  }, "indptr"_a, "indices"_a, "n"_a, "threads"_a = 1);
  m.def("first_not_finite", [](In<double> x, int threads) {
    return released([&] { return first_not_finite(x.data(), extent(x), threads); });
  }, "x"_a, "threads"_a = 1, "Position of the first NaN or infinity, or -1.");
  m.def("symmetry", symmetry_of, "indptr"_a, "indices"_a, "data"_a.none(), "threads"_a);
  m.def("first_asymmetry", [](In<int64_t> indptr, In<int32_t> indices, In<double> data, int64_t count, int threads) {
    auto found = released([&] { return first_asymmetry(pattern(indptr, indices), data.data(), count, threads); });
    const Symmetry& entry = found.entry;
    return nb::make_tuple(found.system, entry.row, entry.column, entry.gap, entry.allowed, to_numpy(std::move(found.doubtful)));
  }, "indptr"_a, "indices"_a, "data"_a, "count"_a, "threads"_a, "(system or -1, row, column, gap, allowed, doubtful systems)");
  m.def("diagonal", [](In<int64_t> indptr, In<int32_t> indices, In<double> data, int threads) {
    std::vector<double> d(indptr.shape(0) - 1);
    {
      Released free;
      diagonal(pattern(indptr, indices), data.data(), d.data(), threads);
    }
    return to_numpy(std::move(d));
  }, "indptr"_a, "indices"_a, "data"_a, "threads"_a, "(n,) the diagonal, 0 where nothing is stored.");
  m.def("row_sums", sums_of, "indptr"_a, "data"_a, "rows"_a = nb::none(),
        "threads"_a = 1, "Sums of the values in each row, or in the given rows, and sums of their absolute values.");
  m.def("is_permutation", [](In<int32_t> perm, int threads) {
    return is_permutation(perm.data(), static_cast<int32_t>(perm.shape(0)), threads);
  }, "perm"_a, "threads"_a = 1, "True if perm holds each of 0..n-1 once.");
  m.def("same_pattern", [](In<int64_t> ptr_a, In<int32_t> idx_a, In<int64_t> ptr_b, In<int32_t> idx_b) {
    return same_pattern(pattern(ptr_a, idx_a), pattern(ptr_b, idx_b));
  }, "indptr_a"_a, "indices_a"_a, "indptr_b"_a, "indices_b"_a);
  m.def("fingerprint", [](In<int32_t> indices, int threads) {
    Released free;
    const auto [a, b] = fingerprint(indices.data(), extent(indices), threads);
    return std::make_tuple(a, b);
  }, "indices"_a, "threads"_a = 1, "128-bit hash of a list of column indices.");
}

// Patterns and matrices derived from others.
void bind_patterns(nb::module_& m) {
  using namespace nb::literals;
  m.def("mirror_lower", mirrored, "indptr"_a, "indices"_a, "data"_a);
  m.def("symmetrize", [](In<int64_t> indptr, In<int32_t> indices, int threads) {
    return to_numpy(released([&] { return symmetrize(pattern(indptr, indices), threads); }));
  }, "indptr"_a, "indices"_a, "threads"_a = 1);
  m.def("drop_diagonal", [](In<int64_t> indptr, In<int32_t> indices, int threads) {
    return to_numpy(released([&] { return drop_diagonal(pattern(indptr, indices), threads); }));
  }, "indptr"_a, "indices"_a, "threads"_a = 1);
  m.def("unite", [](In<int64_t> ptr_a, In<int32_t> idx_a, In<int64_t> ptr_b, In<int32_t> idx_b) {
    return to_numpy(released([&] { return unite(pattern(ptr_a, idx_a), pattern(ptr_b, idx_b)); }));
  }, "indptr_a"_a, "indices_a"_a, "indptr_b"_a, "indices_b"_a);
  m.def("embed", embedded, "indptr_a"_a, "indices_a"_a, "indptr_b"_a,
        "indices_b"_a, "data_b"_a);
  m.def("split", split_up, "indptr"_a, "indices"_a, "data"_a, "free"_a,
        "position"_a, "threads"_a, "The free block and the coupling of free rows to fixed columns; see sparse/split.hpp.");
}

template <class T>
void bind_measured_residual(nb::module_& m) {
  using namespace nb::literals;
  m.def("measured_residual", [](In<int64_t> indptr, In<int32_t> indices, In<NumpyOf<T>> data, bool transposed, Block<const NumpyOf<T>> x,
                                Block<const NumpyOf<T>> b, Block<NumpyOf<T>> r) {
    Released free;
    return sparse::measured_residual<T>(pattern(indptr, indices), native<T>(data.data()), transposed, native<T>(x), native<T>(b), native<T>(r),
                            extent(x, 1));
  }, "indptr"_a, "indices"_a, "data"_a, "transposed"_a, "x"_a, "b"_a,
     "r"_a, "r := b - A x, or b - A^T x; returns the backward error of the worst column.");
}

// Products and residuals.
void bind_products(nb::module_& m) {
  using namespace nb::literals;
  m.def("multiply_dot", [](In<int64_t> indptr, In<int32_t> indices, In<double> data, In<double> P, InOut<double> Q, InOut<double> dots, int threads) {
    Released free;
    sparse::multiply_dot(pattern(indptr, indices), data.data(), P.data(), Q.data(), extent(dots), dots.data(), threads);
  }, "indptr"_a, "indices"_a, "data"_a, "P"_a, "Q"_a, "dots"_a, "threads"_a);
  m.def("residual", [](In<int64_t> indptr, In<int32_t> indices, In<double> data, In<double> B, In<double> X, InOut<double> R,
                       InOut<double> norms, int threads) {
    Released free;
    sparse::residual(pattern(indptr, indices), data.data(), B.data(), X.data(), R.data(), extent(norms), norms.data(), threads);
  }, "indptr"_a, "indices"_a, "data"_a, "B"_a, "X"_a, "R"_a,
     "norms"_a, "threads"_a);
  m.def("backward_error", [](double norm, In<double> r, In<double> x, In<double> b) {
    double worst = 0;
    for (size_t c = 0; c < r.shape(0); ++c) worst = std::max(worst, sparse::backward_error(norm, r.data()[c], x.data()[c], b.data()[c]));
    return worst;
  }, "norm"_a, "r"_a, "x"_a, "b"_a, "||r|| / (||A|| ||x|| + ||b||) of the worst column, from (k,) sizes.");
  m.def("sampled_product", [](In<int32_t> rows, In<int32_t> columns, In<double> Y, In<double> X, int64_t k, InOut<double> out, int threads) {
    Released free;
    sparse::sampled_product(rows.data(), columns.data(), extent(rows), Y.data(), X.data(), k, out.data(), threads);
  }, "rows"_a, "columns"_a, "Y"_a, "X"_a, "k"_a, "out"_a, "threads"_a, "out := -Y X^T at the entries (rows, columns).");
  bind_measured_residual<double>(m);
  bind_measured_residual<Complex>(m);
}

}  // namespace

void bind_sparse(nb::module_& m) {
  using namespace nb::literals;
  bind_checks(m);
  bind_patterns(m);
  bind_products(m);
  m.def("components", components_of, "indptr"_a, "indices"_a, "data"_a,
        "(number of connected components of a symmetric matrix, (n,) component of each row).");
  m.def("center", centered, "component"_a, "size"_a, "block"_a,
        "Subtract the means over components from a block, in position, and return them.");
}

}  // namespace ms
