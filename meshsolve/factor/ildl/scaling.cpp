#include "scaling.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "native/parallel.hpp"

namespace ms::ildl {
namespace {

constexpr int64_t grain = 1 << 13;        // rows
constexpr int rounds = 3;

}  // namespace

void rescale(const Pattern& A, const double* values, double* scale, double* scaled, int threads) {
  std::vector<double> step(A.n);
  std::atomic<bool> fits{true};
  const auto multiply = [&](int64_t begin, int64_t end, int) {
    bool all_fit = true;
    for (int64_t i = begin; i < end; ++i) {
      double largest = 0;
      for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
        scaled[p] = values[p] * scale[i] * scale[A.idx[p]];
        largest = std::max(largest, std::abs(scaled[p]));
      }
      const bool near = largest == 0 || (largest >= 0.5 && largest <= 2);
      step[i] = near ? 1.0 : std::exp2(-std::rint(0.5 * std::log2(largest)));
      all_fit = all_fit && step[i] == 1.0;
    }
    if (!all_fit) fits.store(false, std::memory_order_relaxed);
  };
  for (int round = 0;; ++round) {
    fits = true;
    for_range(threads, A.n, grain, multiply);
    if (fits || round == rounds) return;
    for (int32_t i = 0; i < A.n; ++i) scale[i] *= step[i];
  }
}

}  // namespace ms::ildl
