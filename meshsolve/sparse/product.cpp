// Products and residuals, in blocks of rows that threads share and with widths known at compile time; see product.hpp. The
// backward error is that of Rigal and Gaches 1967, |r| / (|A| |x| + |b|) in the maximum norm.
#include "product.hpp"

#include <limits>

#include "native/threads/interrupt.hpp"
#include "sweep.hpp"

namespace ms::sparse {
namespace {

// Row i of A V, of K columns.
template <int64_t K, class Stride>
inline std::array<double, K> row_times(const Pattern& A, const double* x, int64_t i, const double* V, Stride stride) {
  std::array<double, K> sum{};
  for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
    const double* const v = V + int64_t{A.idx[p]} * stride;
    for (int64_t c = 0; c < K; ++c) sum[c] += x[p] * v[c];
  }
  return sum;
}

// sums[c] := the sum of term(i, row i of A V, c) over the rows [from, to).
template <int64_t K, class Stride, class F>
inline void sum_rows(const Pattern& A, const double* x, int64_t from, int64_t to, const double* V, Stride stride, double* sums, F&& term) {
  std::array<double, K> total{};
  for (int64_t i = from; i < to; ++i) {
    const auto row = row_times<K>(A, x, i, V, stride);
    for (int64_t c = 0; c < K; ++c) total[c] += term(i, row[c], c);
  }
  std::copy(total.begin(), total.end(), sums);
}

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr int64_t kSamples = 1 << 13;           // entries of a sampled product per task
constexpr int64_t kRun = 256;                   // entries of a row summed at once: the rounding of a long row stays small

template <class S>
double column_norm(const Pattern& A, const S* data) {
  std::vector<double> sum(A.n, 0.0);
  for (int64_t p = 0; p < A.nnz(); ++p) sum[A.idx[p]] += magnitude(data[p]);
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
        size += magnitude(data[p]);
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

// max |v|; infinite for a NaN, as comparisons with NaN would be false.
template <class S>
double largest(int32_t n, Strided<S> v) {
  double most = 0;
  for (int32_t i = 0; i < n; ++i) {
    const double size = magnitude(v.at(i, 0));
    if (!(size <= most)) most = std::isnan(size) ? infinite : size;
  }
  return most;
}

// norm x / r for finite sizes; infinite only if the quotient is.
double relative(double norm, double x, double r) {
  int of_norm, of_x, of_r;
  const double quotient = std::frexp(norm, &of_norm) * std::frexp(x, &of_x) / std::frexp(r, &of_r);
  return std::ldexp(quotient, of_norm + of_x - of_r);
}

}  // namespace

void multiply_dot(const Pattern& A, const double* x, const double* P, double* Q, int64_t k, double* dots, int threads) {
  over_blocks(A.n, k, dots, threads, [&](int64_t from, int64_t to, double* sums) {
    over_columns(k, [&](auto K, auto stride, int64_t first) {
      const double* const p = P + first;
      double* const q = Q + first;
      sum_rows<K>(A, x, from, to, p, stride, sums + first,
                  [&](int64_t i, double row, int64_t c) { return p[i * stride + c] * (q[i * stride + c] = row); });
    });
  });
}

void residual(const Pattern& A, const double* x, const double* B, const double* X, double* R, int64_t k, double* norms, int threads) {
  over_blocks(A.n, k, norms, threads, [&](int64_t from, int64_t to, double* sums) {
    over_columns(k, [&](auto K, auto stride, int64_t first) {
      const double* const b = B + first;
      double* const r = R + first;
      sum_rows<K>(A, x, from, to, X + first, stride, sums + first, [&](int64_t i, double row, int64_t c) {
        const double left = r[i * stride + c] = b[i * stride + c] - row;
        return left * left;
      });
    });
  });
}

void sampled_product(const int32_t* rows, const int32_t* columns, int64_t count, const double* Y, const double* X, int64_t k, double* out,
                     int threads) {
  for_range(threads, count, kSamples, [&](int64_t begin, int64_t end, int) {
    for (int64_t e = begin; e < end; ++e) {
      const double *const y = Y + rows[e] * k, *const x = X + columns[e] * k;
      double sum = 0;
      for (int64_t c = 0; c < k; ++c) sum += y[c] * x[c];
      out[e] = -sum;
    }
  });
}

double backward_error(double norm, double r, double x, double b) {
  if (!(r < infinite && x < infinite)) return infinite;
  // norm is a sum of absolute values, which may overflow
  return r == 0 ? 0 : 1 / (relative(std::min(norm, std::numeric_limits<double>::max()), x, r) + b / r);
}

template <class S>
double measured_residual(const Pattern& A, const S* data, bool transposed, Strided<const S> x, Strided<const S> b, Strided<S> r,
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

template double measured_residual<double>(const Pattern&, const double*, bool, Strided<const double>, Strided<const double>,
                                          Strided<double>, int64_t);
template double measured_residual<Complex>(const Pattern&, const Complex*, bool, Strided<const Complex>, Strided<const Complex>,
                                           Strided<Complex>, int64_t);

}  // namespace ms::sparse
