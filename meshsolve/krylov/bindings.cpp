// Bindings of the vector kernels; blocks are flat C contiguous arrays of n rows of k values.
#include "native/bind.hpp"
#include "vectors.hpp"

namespace ms {
namespace {

template <class V> int64_t rows_of(const V& block, int64_t k) { return k ? extent(block) / k : 0; }

}  // namespace

void bind_krylov(nb::module_& m) {
  using namespace nb::literals;
  m.def("krylov_renumber", [](In<int64_t> indptr, In<int32_t> indices, In<double> data, In<int32_t> position, InOut<int64_t> ptr,
                              InOut<int32_t> idx, InOut<double> y, int threads) {
    Released free;
    krylov::renumber(pattern(indptr, indices), data.data(), position.data(), ptr.data(), idx.data(), y.data(), threads);
  }, "indptr"_a, "indices"_a, "data"_a, "position"_a, "ptr"_a, "idx"_a,
     "y"_a, "threads"_a, "The matrix whose row and column q are position[q] of the given one, into ptr, idx and y.");
  m.def("krylov_step", [](In<double> alpha, In<double> P, In<double> Q, InOut<double> X, InOut<double> R, InOut<double> norms, int threads) {
    Released free;
    const int64_t k = extent(alpha), n = rows_of(P, k);
    krylov::step(n, k, alpha.data(), P.data(), Q.data(), X.data(), R.data(), norms.data(), threads);
  }, "alpha"_a, "P"_a, "Q"_a, "X"_a, "R"_a, "norms"_a, "threads"_a);
  m.def("krylov_direction", [](In<double> beta, In<double> Z, InOut<double> P, int threads) {
    Released free;
    const int64_t k = extent(beta), n = rows_of(P, k);
    krylov::direction(n, k, beta.data(), Z.data(), P.data(), threads);
  }, "beta"_a, "Z"_a, "P"_a, "threads"_a);
  m.def("krylov_dot", [](In<double> U, In<double> V, InOut<double> dots, int threads) {
    Released free;
    const int64_t k = extent(dots), n = rows_of(U, k);
    krylov::dot(n, k, U.data(), V.data(), dots.data(), threads);
  }, "U"_a, "V"_a, "dots"_a, "threads"_a);
  m.def("sqmr_subtract", [](double alpha, In<double> T, InOut<double> R, int threads) {
    Released free;
    return krylov::subtract(extent(R), alpha, T.data(), R.data(), threads);
  }, "alpha"_a, "T"_a, "R"_a, "threads"_a);
  m.def("sqmr_smooth", [](double a, double b, In<double> Q, InOut<double> D, InOut<double> X, int threads) {
    Released free;
    krylov::smooth(extent(X), a, b, Q.data(), D.data(), X.data(), threads);
  }, "a"_a, "b"_a, "Q"_a, "D"_a, "X"_a, "threads"_a);
}

}  // namespace ms
