#include "batch.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "native/threads/systems.hpp"
#include "scalar.hpp"
#include "sparse/check.hpp"
#include "sparse/product.hpp"

namespace ms::lu {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// Factor: FrontFactor<S> or ColumnFactor<S>, without work space of its own.
template <class S, class Factor>
class FactorsOf : public Factors<S> {
 public:
  using typename Factors<S>::Work;
  using Memory = typename Factor::Memory;
  using Space = typename Factor::Space;

  FactorsOf(const std::shared_ptr<const typename Factor::Plan>& plan, int64_t count) {
    for (int64_t i = 0; i < count; ++i) factors_.emplace_back(plan);
  }
  Work work_of_factor(int workers) const override { return std::make_shared<std::vector<Memory>>(workers); }
  Work work_of_solve(int workers) const override { return std::make_shared<std::vector<Space>>(workers); }
  Outcome factor(int64_t i, const S* Ax, const Pivoting& rule, const Work& work, int worker) override {
    return factors_[i].factor(Ax, rule, 1, (*static_cast<std::vector<Memory>*>(work.get()))[worker]);
  }
  void solve(int64_t i, const S* B, S* X, int64_t k, const Work& work, int worker) const override {
    factors_[i].solve_in((*static_cast<std::vector<Space>*>(work.get()))[worker], {B, k, 1}, {X, k, 1}, k);
  }

 private:
  std::deque<Factor> factors_;
};

template <class S>
bool is_finite(const S* x, int64_t size) {
  return first_not_finite(reinterpret_cast<const double*>(x), size * static_cast<int64_t>(sizeof(S) / sizeof(double))) < 0;
}

// The largest entry of a column of an (n, k) block.
template <class S>
double largest(const S* x, int32_t n, int64_t k) {
  double most = 0;
  for (int32_t i = 0; i < n; ++i) most = std::max(most, magnitude(x[i * k]));
  return most;
}

// A single factor would neither choose other pivots nor measure rows.
bool is_safe(const Outcome& seen, double risk) {
  const double growth = seen.largest_pivot_row / seen.largest_entry;
  const bool fits = seen.perturbed == 0 && std::isfinite(seen.largest_pivot_row) && std::isfinite(growth);
  return fits && (seen.largest_entry > 1 ? seen.largest_pivot_row : growth) < risk;
}

}  // namespace

std::unique_ptr<Factors<double>> make_factors(const std::shared_ptr<const FrontPlan>& plan, int64_t count, double) {
  return std::make_unique<FactorsOf<double, FrontFactor<double>>>(plan, count);
}
std::unique_ptr<Factors<Complex>> make_factors(const std::shared_ptr<const FrontPlan>& plan, int64_t count, Complex) {
  return std::make_unique<FactorsOf<Complex, FrontFactor<Complex>>>(plan, count);
}
std::unique_ptr<Factors<double>> make_factors(const std::shared_ptr<const ColumnPlan>& plan, int64_t count, double) {
  return std::make_unique<FactorsOf<double, ColumnFactor<double>>>(plan, count);
}
std::unique_ptr<Factors<Complex>> make_factors(const std::shared_ptr<const ColumnPlan>& plan, int64_t count, Complex) {
  return std::make_unique<FactorsOf<Complex, ColumnFactor<Complex>>>(plan, count);
}

template <class S>
void Batch<S>::factor(const S* Ax, int64_t nnz, const Pivoting& rule, const Limits& limits, int threads) {
  std::fill(state_.begin(), state_.end(), unknown);
  std::fill(is_measured_.begin(), is_measured_.end(), uint8_t{0});
  std::fill(error_.begin(), error_.end(), not_a_number);
  const auto work = factors_->work_of_factor(threads);
  each_system(threads, count(), 1, [&](int64_t i, int worker) {
    const interrupt::Member uncounted(nullptr);
    const S* const x = Ax + i * nnz;
    if (is_finite(x, nnz))
      state_[i] = is_safe(factors_->factor(i, x, rule, work, worker), limits.risk) ? factored : unfit;
    else
      state_[i] = not_finite;
  });
}

// Measures a solution, with R as work space.
template <class S>
bool Batch<S>::is_good(int64_t i, const Pattern& A, const S* Ax, const S* B, const S* X, S* R, int64_t k, const Limits& limits) {
  const Strided<const S> x{X, k, 1}, b{B, k, 1};
  error_[i] = sparse::measured_residual<S>(A, Ax, false, x, b, {R, k, 1}, k);
  bool is_good = error_[i] <= limits.enough, any = false;
  for (int64_t c = 0; c < k; ++c) {
    const double size = largest(B + c, A.n, k);
    any = any || size > 0;
    is_good = is_good && !(largest(R + c, A.n, k) > limits.suspect * size);
  }
  is_measured_[i] = any;                  // b = 0 shows nothing about the factor
  return is_good;
}

template <class S>
void Batch<S>::solve(const Pattern& A, const S* Ax, const S* B, S* X, int64_t k, const Limits& limits, int threads) {
  const int64_t size = A.n * k, nnz = A.nnz();
  const auto work = factors_->work_of_solve(threads);
  std::vector<Buffer<S>> residual(threads);
  each_system(threads, count(), k, [&](int64_t i, int worker) {
    const interrupt::Member uncounted(nullptr);
    const S* const b = B + i * size;
    S* const x = X + i * size;
    if (state_[i] == factored) {
      factors_->solve(i, b, x, k, work, worker);
      if (is_measured_[i]) return;
      Buffer<S>& r = residual[worker];
      if (r.size() < size) r = Buffer<S>(size);
      if (is_good(i, A, Ax + i * nnz, b, x, r.data(), k, limits)) return;
      state_[i] = unfit;
    }
    std::fill(x, x + size, S(not_a_number));
  });
}

template <class S>
bool Batch<S>::is_measured() const {
  for (int64_t i = 0; i < count(); ++i)
    if (state_[i] == factored && !is_measured_[i]) return false;
  return true;
}

template class Batch<double>;
template class Batch<Complex>;

}  // namespace ms::lu
