// Bindings of the products with a basis; blocks are C contiguous arrays of n rows of 8 values, one after the other.
#include "basis.hpp"
#include "native/bind.hpp"

namespace ms {

void bind_eigen(nb::module_& m) {
  using namespace nb::literals;
  m.def("eigen_project", [](int64_t n, In<double> Q, int64_t first, int64_t last, In<double> W, InOut<double> H, int threads) {
    Released free;
    eigen::project(n, Q.data(), first, last, W.data(), H.data(), threads);
  }, "n"_a, "Q"_a, "first"_a, "last"_a, "W"_a, "H"_a, "threads"_a);
  m.def("eigen_subtract", [](int64_t n, In<double> Q, int64_t first, int64_t last, In<double> H, InOut<double> Z, int threads) {
    Released free;
    eigen::subtract(n, Q.data(), first, last, H.data(), Z.data(), threads);
  }, "n"_a, "Q"_a, "first"_a, "last"_a, "H"_a, "Z"_a, "threads"_a);
  m.def("eigen_rotate", [](int64_t n, InOut<double> Q, int64_t from, int64_t to, In<double> Y, int threads) {
    Released free;
    eigen::rotate(n, Q.data(), from, to, Y.data(), threads);
  }, "n"_a, "Q"_a, "first_blocks"_a, "blocks"_a, "Y"_a, "threads"_a);
}

}  // namespace ms
