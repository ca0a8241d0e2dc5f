// Bindings of the products with a basis; blocks are C contiguous arrays of n rows of 8 values, one after the other.
#include "basis.hpp"
#include "native/bind.hpp"

namespace ms {

void bind_eigen(nb::module_& m) {
  using namespace nb::literals;
  m.def("eigen_project", [](int64_t n, In<double> Q, int64_t first, int64_t last, In<double> W, int64_t count, InOut<double> H, int threads) {
    Released free;
    eigen::project(n, Q.data(), first, last, W.data(), count, H.data(), threads);
  }, "n"_a, "Q"_a, "first"_a, "last"_a, "W"_a, "count"_a, "H"_a, "threads"_a);
  m.def("eigen_subtract", [](int64_t n, In<double> Q, int64_t first, int64_t last, In<double> H, int64_t count, InOut<double> Z, int threads) {
    Released free;
    eigen::subtract(n, Q.data(), first, last, H.data(), count, Z.data(), threads);
  }, "n"_a, "Q"_a, "first"_a, "last"_a, "H"_a, "count"_a, "Z"_a, "threads"_a);
  m.def("eigen_rotate", [](int64_t n, InOut<double> Q, int64_t from, int64_t to, In<double> Y, int threads) {
    Released free;
    eigen::rotate(n, Q.data(), from, to, Y.data(), threads);
  }, "n"_a, "Q"_a, "first_blocks"_a, "blocks"_a, "Y"_a, "threads"_a);
  m.def("eigen_combine", [](int64_t n, In<double> Q, int64_t from, In<double> Y, In<double> scale, InOut<double> X, int threads) {
    Released free;
    eigen::combine(n, Q.data(), from, Y.data(), static_cast<int64_t>(X.size()) / n, scale.data(), X.data(), threads);
  }, "n"_a, "Q"_a, "blocks"_a, "Y"_a, "scale"_a, "X"_a, "threads"_a);
  m.def("eigen_measure", [](In<int64_t> indptr, In<int32_t> indices, In<double> A, In<double> M, In<double> weights,
                            In<double> w, In<double> X, InOut<double> facts, int threads) {
    Released free;
    const int64_t n = static_cast<int64_t>(indptr.size()) - 1;
    const bool is_diagonal = static_cast<int64_t>(M.size()) == n;
    const eigen::Pencil p{n, indptr.data(), indices.data(), A.data(), is_diagonal ? nullptr : M.data(), is_diagonal ? M.data() : nullptr};
    eigen::measure(p, weights.data(), w.data(), X.data(), static_cast<int64_t>(w.size()), facts.data(), threads);
  }, "indptr"_a, "indices"_a, "A"_a, "M"_a, "weights"_a, "w"_a, "X"_a, "facts"_a, "threads"_a);
}

}  // namespace ms
