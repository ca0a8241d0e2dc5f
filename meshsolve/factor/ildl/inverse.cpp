// The incomplete factor as a preconditioner: two triangular solves with a division by D between them, for 4, 2 or 1 right-hand
// sides at a time. Cost: L is read twice for each such group.
#include <algorithm>

#include "incomplete.hpp"
#include "native/threads/interrupt.hpp"
#include "native/threads/parallel.hpp"
#include "native/dense/widths.hpp"

namespace ms::ildl {
namespace {

constexpr int64_t grain = 1 << 14;        // rows

}  // namespace

template <class T>
Inverse<T>::Inverse(const IncompleteFactor& factor, const int32_t* row, const double* scale, int threads) {
  const int32_t n = factor.n();
  const auto& [ptr, rows] = factor.columns;
  const std::vector<double>& values = factor.minus_values;
  trisolve::ColumnStores<T> columns({ptr.begin(), ptr.end()}, {rows.begin(), rows.end()}, {values.begin(), values.end()});
  const std::vector<int32_t> order = trisolve::order_by_level(trisolve::level_sets(columns), nullptr);
  lower_ = trisolve::UnitLower<T>(std::move(columns), true, order.data(), threads);
  const RawVector<int32_t>& eliminated = lower_.order();
  std::vector<int32_t> position(n);                     // row of lower_ for the k-th row eliminated
  row_.resize(n);
  scale_.resize(n);
  for (int32_t q = 0; q < n; ++q) {
    position[eliminated[q]] = q;
    row_[q] = row[eliminated[q]];
    scale_[q] = scale[row_[q]];
  }
  p_.resize(n);
  q_.resize(n);
  partner_.resize(n);
  const double *const d = factor.d.data(), *const e = factor.e.data();
  for (int32_t k = 0; k < n; ++k) {
    const int32_t a = position[k];
    if (e[k] == 0) {
      p_[a] = 1 / d[k];
      partner_[a] = a;
      continue;
    }
    const int32_t b = position[++k];
    const double off = e[k - 1], scaled = d[k - 1] / off * d[k] - off;
    p_[a] = d[k] / off / scaled;
    p_[b] = d[k - 1] / off / scaled;
    q_[a] = q_[b] = -1 / scaled;
    partner_[a] = b;
    partner_[b] = a;
  }
}

template <class T>
void Inverse<T>::solve(Strided<const double> B, Strided<double> X, int64_t k, int threads) const {
  const int64_t n = static_cast<int64_t>(p_.size());
  auto space = space_.lease();
  if (const size_t size = n * std::min<int64_t>(k, 4); space->y.size() < size) {
    space->y.resize(size);
    space->z.resize(size);
  }
  double *const Y = space->y.data(), *const Z = space->z.data();
  interrupt::begin(k);
  in_widths<4, 3, 2, 1>(k, [&](auto K, int64_t at) {
    interrupt::poll();
    const Strided<const double> b = B.from(at);
    const Strided<double> x = X.from(at);
    for_range(threads, n, grain, [&](int64_t from, int64_t to, int) {
      for (int64_t q = from; q < to; ++q)
        for (int64_t c = 0; c < K; ++c) Y[q * K + c] = scale_[q] * b.at(row_[q], c);
    });
    lower_.forward(Y, K, threads);
    for_range(threads, n, grain, [&](int64_t from, int64_t to, int) {
      for (int64_t q = from; q < to; ++q)
        for (int64_t c = 0; c < K; ++c) Z[q * K + c] = p_[q] * Y[q * K + c] + q_[q] * Y[partner_[q] * K + c];
    });
    lower_.backward(Z, K, nullptr, threads);
    for_range(threads, n, grain, [&](int64_t from, int64_t to, int) {
      for (int64_t q = from; q < to; ++q)
        for (int64_t c = 0; c < K; ++c) x.at(row_[q], c) = scale_[q] * Z[q * K + c];
    });
    interrupt::advance(K);
  });
}

template <class T>
int64_t Inverse<T>::nbytes() const {
  return lower_.nbytes() + static_cast<int64_t>(p_.size()) * (3 * sizeof(double) + 3 * sizeof(int32_t) + sizeof(int64_t));
}

template class Inverse<double>;
template class Inverse<float>;

}  // namespace ms::ildl
