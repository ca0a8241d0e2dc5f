// Rounds of scaling by powers of two, each in one sweep over the rows; see scaling.hpp.
#include "scaling.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "factor/matching/matching.hpp"
#include "native/threads/parallel.hpp"

namespace ms::ldlt {
namespace {

constexpr int64_t kScalingGrain = 1 << 13;        // rows
constexpr int rounds = 3;

constexpr double infinite = std::numeric_limits<double>::infinity();

// Powers of two between the smallest and the largest size of a row; zeros, of rows without a nonzero, do not count.
double spread(const std::vector<double>& sizes) {
  double least = infinite, most = 0;
  for (const double size : sizes) {
    if (size > 0) least = std::min(least, size);
    most = std::max(most, size);
  }
  return most == infinite ? infinite : least < most ? std::log2(most) - std::log2(least) : 0;
}

double sum_of_sizes(const double* begin, const double* end) {
  double sum = 0;
  for (const double* x = begin; x < end; ++x) sum += std::abs(*x);
  return sum;
}

}  // namespace

double rescale(const Pattern& A, const double* values, double* scale, double* scaled, bool complete, int threads) {
  std::vector<double> step(A.n), size(A.n);
  std::atomic<bool> fits{true};
  const double dense_from = complete && !matching::dense_rows(A).empty() ? matching::sparse_most(A.n) : infinite;
  const auto multiply = [&](int64_t begin, int64_t end, int) {
    bool all_fit = true;
    for (int64_t i = begin; i < end; ++i) {
      const bool dense = static_cast<double>(A.ptr[i + 1] - A.ptr[i]) > dense_from;
      double largest = 0;
      for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
        scaled[p] = values[p] * scale[i] * scale[A.idx[p]];
        largest = std::max(largest, std::abs(scaled[p]));
      }
      const auto vanished = [&] { return std::any_of(values + A.ptr[i], values + A.ptr[i + 1], [](double a) { return a != 0; }); };
      if (dense) largest = std::sqrt(largest) * std::sqrt(sum_of_sizes(scaled + A.ptr[i], scaled + A.ptr[i + 1]));      // at least the 2-norm
      size[i] = largest == 0 && vanished() ? infinite : largest;           // out of range, below or above
      const bool near = largest == 0 || (largest >= 0.5 && largest <= 2);
      step[i] = near ? 1.0 : std::exp2(-std::rint((dense ? 1.0 : 0.5) * std::log2(largest)));
      all_fit = all_fit && step[i] == 1.0 && size[i] < infinite;
    }
    if (!all_fit) fits.store(false, std::memory_order_relaxed);
  };
  double first = 0;
  for (int round = 0;; ++round) {
    fits = true;
    for_range_backwards(threads, A.n, kScalingGrain, multiply);
    if (round == 0 && !fits) first = spread(size);
    if (fits || round == rounds) return first;
    for (int32_t i = 0; i < A.n; ++i) scale[i] *= step[i];
  }
}

double norm(const Pattern& A, const double* scaled, const double* scale, int threads) {
  std::vector<double> largest((A.n + kScalingGrain - 1) / kScalingGrain, 0.0);
  for_range(threads, A.n, kScalingGrain, [&](int64_t begin, int64_t end, int) {
    double most = 0;
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) sum += std::abs(scaled[p]) / scale[A.idx[p]];
      most = std::max(most, sum / scale[i]);
    }
    largest[begin / kScalingGrain] = most;
  });
  return largest.empty() ? 0 : *std::max_element(largest.begin(), largest.end());
}

double norm(const Pattern& A, const double* values) {
  double most = 0;
  for (int32_t i = 0; i < A.n; ++i) {
    const double sum = sum_of_sizes(values + A.ptr[i], values + A.ptr[i + 1]);
    if (!(sum <= most)) most = sum;
    if (std::isnan(sum)) return sum;
  }
  return most;
}

}  // namespace ms::ldlt
