// What is known of eigenpairs after one pass over X: residuals, norms and extreme entries.
#include <algorithm>
#include <vector>

#include "basis.hpp"
#include "native/dense/widths.hpp"
#include "native/threads/parallel.hpp"

namespace ms::eigen {
namespace {

constexpr int64_t rows_per_sum = 512;

// The rows begin <= i < end of the first `columns` columns, whose sums stay in registers; `facts` as in measure().
template <int64_t columns>
void measure_strip(const Pencil& p, int64_t begin, int64_t end, const double* w, const double* X, int64_t k, double* facts) {
  double residual[columns] = {}, norm[columns] = {}, most[columns], least[columns];
  std::copy_n(facts + 2 * k, columns, most), std::copy_n(facts + 3 * k, columns, least);
  for (int64_t i = begin; i < end; ++i) {
    double a[columns] = {}, m[columns] = {};
    for (int64_t e = p.indptr[i]; e < p.indptr[i + 1]; ++e) {
      const double* const x = X + p.indices[e] * k;
      for (int64_t c = 0; c < columns; ++c) a[c] += p.A[e] * x[c];
      if (p.M)
        for (int64_t c = 0; c < columns; ++c) m[c] += p.M[e] * x[c];
    }
    const double* const x = X + i * k;
    if (!p.M)
      for (int64_t c = 0; c < columns; ++c) m[c] = p.masses[i] * x[c];
    for (int64_t c = 0; c < columns; ++c) {
      const double r = a[c] - w[c] * m[c];
      residual[c] += r * r, norm[c] += x[c] * x[c];
      most[c] = std::max(most[c], x[c]), least[c] = std::min(least[c], x[c]);
    }
  }
  for (int64_t c = 0; c < columns; ++c)
    facts[c] = residual[c], facts[k + c] = norm[c], facts[2 * k + c] = most[c], facts[3 * k + c] = least[c];
}

}  // namespace

void measure(const Pencil& p, const double* w, const double* X, int64_t k, double* facts, int threads) {
  const int64_t ranges = (p.n + rows_per_sum - 1) / rows_per_sum;
  std::vector<double> found(ranges * 4 * k);
  for_range(threads, ranges, 1, [&](int64_t from, int64_t to, int) {
    for (int64_t r = from; r < to; ++r) {
      const int64_t begin = r * rows_per_sum, end = std::min(p.n, begin + rows_per_sum);
      double* const here = found.data() + r * 4 * k;
      std::copy_n(X + begin * k, k, here + 2 * k), std::copy_n(X + begin * k, k, here + 3 * k);
      in_widths<8, 4, 2, 1>(k, [&](auto columns, int64_t c) { measure_strip<columns>(p, begin, end, w + c, X + c, k, here + c); });
    }
  });
  std::copy_n(found.data(), 4 * k, facts);
  for (int64_t r = 1; r < ranges; ++r) {
    const double* const here = found.data() + r * 4 * k;
    for (int64_t c = 0; c < 2 * k; ++c) facts[c] += here[c];
    for (int64_t c = 2 * k; c < 3 * k; ++c) facts[c] = std::max(facts[c], here[c]), facts[k + c] = std::min(facts[k + c], here[k + c]);
  }
}

}  // namespace ms::eigen
