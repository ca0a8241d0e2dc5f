// Products of a matrix in compressed rows with blocks of columns, and the residual r = b - A x with its backward error.
// The first two take real C contiguous blocks of n rows of k values. `measured_residual` takes real or complex blocks of any strides.
// Cost: O(k nnz). A transposed matrix takes n numbers of memory.
#pragma once
#include <cmath>
#include <cstdint>

#include "csr.hpp"
#include "native/dense/complex.hpp"
#include "native/memory/strided.hpp"

namespace ms::sparse {

inline double magnitude(double x) { return std::fabs(x); }
inline double magnitude(Complex x) { return std::hypot(x.re, x.im); }

// Q := A P, and dots[c] = p_c . q_c.
void multiply_dot(const Pattern& A, const double* x, const double* P, double* Q, int64_t k, double* dots, int threads);

// R := B - A X, and norms[c] = |r_c|^2.
void residual(const Pattern& A, const double* x, const double* B, const double* X, double* R, int64_t k, double* norms, int threads);

// r := b - A x, or b - A^T x. Returns the backward error, see `backward_error`, of the worst column.
template <class S>
double measured_residual(const Pattern& A, const S* data, bool transposed, Strided<const S> x, Strided<const S> b, Strided<S> r, int64_t k);

// out[e] := -(row rows[e] of Y) . (row columns[e] of X) for `count` entries: the matrix -Y X^T at these entries. O(count k).
void sampled_product(const int32_t* rows, const int32_t* columns, int64_t count, const double* Y, const double* X, int64_t k, double* out,
                     int threads);

// ||r|| / (||A|| ||x|| + ||b||) from the norms; infinite for a norm that is NaN or infinite. ||A|| ||x|| and ||x|| / ||r|| may be
// out of the range of double. Source: Rigal and Gaches 1967.
double backward_error(double norm, double r, double x, double b);

}  // namespace ms::sparse
