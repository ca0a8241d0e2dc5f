// What one pass over X finds out about eigenpairs: residuals, their attainable sizes, Rayleigh quotients and extreme entries.
#include <algorithm>
#include <cmath>
#include <vector>

#include "basis.hpp"
#include "native/dense/widths.hpp"
#include "native/threads/parallel.hpp"

namespace ms::eigen {
namespace {

constexpr int64_t rows_per_sum = 512;
constexpr int64_t sums = 6, facts_each = 8;         // of a column: those that are added, and all

// The rows begin <= i < end of the first `columns` columns, whose sums stay in registers; `facts` as in measure().
template <int64_t columns>
void measure_strip(const Pencil& p, const double* weights, int64_t begin, int64_t end, const double* w, const double* X, int64_t k,
                   double* facts) {
  double sum[sums][columns] = {}, most[columns], least[columns];
  std::copy_n(facts + sums * k, columns, most), std::copy_n(facts + (sums + 1) * k, columns, least);
  for (int64_t i = begin; i < end; ++i) {
    double a[columns] = {}, m[columns] = {}, a_size[columns] = {}, m_size[columns] = {};
    for (int64_t e = p.indptr[i]; e < p.indptr[i + 1]; ++e) {
      const double* const x = X + p.indices[e] * k;
      for (int64_t c = 0; c < columns; ++c) {
        const double ax = p.A[e] * x[c];
        a[c] += ax, a_size[c] += std::abs(ax);
      }
      if (p.M)
        for (int64_t c = 0; c < columns; ++c) {
          const double mx = p.M[e] * x[c];
          m[c] += mx, m_size[c] += std::abs(mx);
        }
    }
    const double* const x = X + i * k;
    if (!p.M)
      for (int64_t c = 0; c < columns; ++c) m[c] = p.masses[i] * x[c], m_size[c] = std::abs(m[c]);
    for (int64_t c = 0; c < columns; ++c) {
      const double r = a[c] - w[c] * m[c], size = a_size[c] + std::abs(w[c]) * m_size[c];
      sum[0][c] += weights[i] * r * r, sum[1][c] += weights[i] * m[c] * m[c], sum[2][c] += weights[i] * size * size;
      sum[3][c] += std::abs(x[c]) * a_size[c], sum[4][c] += x[c] * a[c], sum[5][c] += x[c] * m[c];
      most[c] = std::max(most[c], x[c]), least[c] = std::min(least[c], x[c]);
    }
  }
  for (int64_t s = 0; s < sums; ++s) std::copy_n(sum[s], columns, facts + s * k);
  std::copy_n(most, columns, facts + sums * k), std::copy_n(least, columns, facts + (sums + 1) * k);
}

}  // namespace

void measure(const Pencil& p, const double* weights, const double* w, const double* X, int64_t k, double* facts, int threads) {
  const int64_t ranges = (p.n + rows_per_sum - 1) / rows_per_sum, size = facts_each * k;
  std::vector<double> found(ranges * size);
  for_range(threads, ranges, 1, [&](int64_t from, int64_t to, int) {
    for (int64_t r = from; r < to; ++r) {
      const int64_t begin = r * rows_per_sum, end = std::min(p.n, begin + rows_per_sum);
      double* const here = found.data() + r * size;
      std::copy_n(X + begin * k, k, here + sums * k), std::copy_n(X + begin * k, k, here + (sums + 1) * k);
      in_widths<8, 4, 2, 1>(k, [&](auto columns, int64_t c) {
        measure_strip<columns>(p, weights, begin, end, w + c, X + c, k, here + c);
      });
    }
  });
  std::copy_n(found.data(), size, facts);
  for (int64_t r = 1; r < ranges; ++r) {
    const double* const here = found.data() + r * size;
    for (int64_t c = 0; c < sums * k; ++c) facts[c] += here[c];
    for (int64_t c = sums * k; c < (sums + 1) * k; ++c) {
      facts[c] = std::max(facts[c], here[c]), facts[k + c] = std::min(facts[k + c], here[k + c]);
    }
  }
}

}  // namespace ms::eigen
