// The loops over frequencies and over the values of a source; see sweeps.hpp.
#include "sweeps.hpp"

#include <algorithm>
#include <cmath>

#include "native/threads/interrupt.hpp"
#include "native/threads/parallel.hpp"

namespace ms::circuit {
namespace {

constexpr int64_t kChunk = 64;                 // frequencies of a task: fixed, so that bits do not depend on the threads
constexpr int64_t kWorthThreads = 2'000'000;   // products of a sweep below which one thread is faster

// Points with one copy of the factor. Each chunk begins with the same pivot order.
class Points {
 public:
  Points(const SmallSignals& system, const SmallLu<Complex>& first)
      : system_(system), lu_(first), unit_(unit_of(system.s)), s_(system.s), entries_(system.g.size()), x_(system.n),
        change_(system.n), residual_(system.n) {
    for (Complex& value : s_) value = value * unit_;
  }

  bool solve(double omega, Complex* out) {
    for (size_t p = 0; p < entries_.size(); ++p) entries_[p] = {system_.g[p], omega * system_.c[p]};
    if (!lu_.factor(entries_.data())) return false;
    lu_.solve(s_.data(), x_.data());
    lu_.residual(entries_.data(), s_.data(), x_.data(), residual_.data());        // threshold pivoting loses digits
    lu_.solve(residual_.data(), change_.data());
    double sum = 0;
    for (int32_t k = 0; k < system_.n; ++k) sum += size(x_[k] = (x_[k] += change_[k]) * (1 / unit_));
    for (size_t k = 0; k < system_.keep.size(); ++k) out[k] = x_[system_.keep[k]];
    return std::isfinite(sum);
  }

 private:
  const SmallSignals& system_;
  SmallLu<Complex> lu_;
  const double unit_;
  std::vector<Complex> s_, entries_, x_, change_, residual_;
};

}  // namespace

std::vector<int64_t> sweep_frequencies(const SmallSignals& system, const double* omega, int64_t count, Complex* out, int threads) {
  SmallLu<Complex> first(system.n, system.indptr, system.indices);
  std::vector<Complex> entries(system.g.size());
  for (size_t p = 0; p < entries.size(); ++p) entries[p] = {system.g[p], omega[0] * system.c[p]};
  first.factor(entries.data());
  if (count * first.work() < kWorthThreads) threads = 1;
  std::vector<char> failed(static_cast<size_t>(count), 0);
  const auto wide = static_cast<int64_t>(system.keep.size());
  for_range(threads, (count + kChunk - 1) / kChunk, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      Points points(system, first);
      interrupt::poll();
      for (int64_t k = chunk * kChunk; k < std::min(count, (chunk + 1) * kChunk); ++k)
        failed[static_cast<size_t>(k)] = !points.solve(omega[k], out + k * wide);
    }
  });
  std::vector<int64_t> left;
  for (int64_t k = 0; k < count; ++k)
    if (failed[static_cast<size_t>(k)]) left.push_back(k);
  return left;
}

double sweep_source(const SourceSweep& sweep, SmallEquations& equations, Equations& at_rest, Values x, const double* values, int64_t count,
                    double* out) {
  double largest = 0;
  Values s, guess, before;
  Solution next;
  for (int64_t k = 0; k < count; ++k) {
    interrupt::poll();
    s = sweep.fixed;
    for (const auto& [row, factor] : sweep.moving) s[static_cast<size_t>(row)] += factor * values[k];
    guess = x;
    for (size_t j = 0; j < before.size(); ++j) guess[j] += x[j] - before[j];
    const Request from_line{0, &s, &x, &guess, nullptr}, from_point{0, &s, &x, nullptr, nullptr};
    const bool solved = (!before.empty() && equations.solve(from_line, next)) || equations.solve(from_point, next);
    if (!solved) at_rest.solve(from_point, next);
    before = std::move(x);
    x = next.x;
    if (!solved) before.clear();               // the state may have jumped
    for (const double current : next.current) largest = std::max(largest, std::abs(current));
    for (const int64_t j : sweep.keep) *out++ = x[static_cast<size_t>(j)];
  }
  return largest;
}

}  // namespace ms::circuit
