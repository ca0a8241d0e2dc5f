// What a solution leaves over, and how large that is: one pass over the matrix for each right-hand side.
// Source: Rigal and Gaches 1967 (normwise backward error). O(k nnz) time; n numbers of memory for a transposed matrix.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lu.hpp"
#include "native/threads/interrupt.hpp"

namespace ms::lu {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr int64_t kRun = 256;                   // entries of a row summed at once: the rounding of a long row stays small

double modulus(double x) { return std::fabs(x); }
double modulus(Complex x) { return std::hypot(x.re, x.im); }

template <class S>
double column_norm(const Pattern& A, const S* data) {
  std::vector<double> sum(A.n, 0.0);
  for (int64_t p = 0; p < A.nnz(); ++p) sum[A.idx[p]] += modulus(data[p]);
  return *std::max_element(sum.begin(), sum.end());
}

// r := b - A x for one column; returns ||A||.
template <class S>
double subtract_rows(const Pattern& A, const S* data, Strided<const S> x, Strided<const S> b, Strided<S> r) {
  double norm = 0;
  for (int32_t i = 0; i < A.n; ++i) {
    double size = 0;
    S sum = b.at(i, 0);
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1];) {
      S run{};
      for (const int64_t end = std::min(p + kRun, A.ptr[i + 1]); p < end; ++p) {
        run += data[p] * x.at(A.idx[p], 0);
        size += modulus(data[p]);
      }
      sum -= run;
    }
    r.at(i, 0) = sum;
    norm = std::max(norm, size);
  }
  return norm;
}

template <class S>
void subtract_columns(const Pattern& A, const S* data, Strided<const S> x, Strided<const S> b, Strided<S> r) {
  for (int32_t i = 0; i < A.n; ++i) r.at(i, 0) = b.at(i, 0);
  for (int32_t i = 0; i < A.n; ++i)
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) r.at(A.idx[p], 0) -= data[p] * x.at(i, 0);
}

// max |v|; infinite where there is a NaN, with which every later comparison would be false.
template <class S>
double largest(int32_t n, Strided<S> v) {
  double most = 0;
  for (int32_t i = 0; i < n; ++i) {
    const double size = modulus(v.at(i, 0));
    if (!(size <= most)) most = std::isnan(size) ? infinite : size;
  }
  return most;
}

// norm x / r for finite sizes, infinite only where the quotient is: neither norm x nor x / r has to be in range.
double relative(double norm, double x, double r) {
  int of_norm, of_x, of_r;
  const double quotient = std::frexp(norm, &of_norm) * std::frexp(x, &of_x) / std::frexp(r, &of_r);
  return std::ldexp(quotient, of_norm + of_x - of_r);
}

// Of r, x and b by their sizes. The sum of moduli that norm is may have left the range.
double backward_error(double norm, double r, double x, double b) {
  if (!(r < infinite && x < infinite)) return infinite;
  return r == 0 ? 0 : 1 / (relative(std::min(norm, std::numeric_limits<double>::max()), x, r) + b / r);
}

}  // namespace

template <class S>
double residual(const Pattern& A, const S* data, bool transposed, Strided<const S> x, Strided<const S> b, Strided<S> r,
                int64_t k) {
  double norm = transposed ? column_norm(A, data) : 0, worst = 0;
  for (int64_t c = 0; c < k; ++c) {
    interrupt::poll();
    if (transposed)
      subtract_columns(A, data, x.from(c), b.from(c), r.from(c));
    else
      norm = subtract_rows(A, data, x.from(c), b.from(c), r.from(c));
    worst = std::max(worst, backward_error(norm, largest(A.n, r.from(c)), largest(A.n, x.from(c)), largest(A.n, b.from(c))));
  }
  return worst;
}

template double residual<double>(const Pattern&, const double*, bool, Strided<const double>, Strided<const double>,
                                 Strided<double>, int64_t);
template double residual<Complex>(const Pattern&, const Complex*, bool, Strided<const Complex>, Strided<const Complex>,
                                  Strided<Complex>, int64_t);

}  // namespace ms::lu
