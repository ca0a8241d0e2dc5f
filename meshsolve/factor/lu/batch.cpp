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

  FactorsOf(const std::shared_ptr<const typename Factor::Plan>& plan, int64_t count, int workers) {
    for (int64_t i = 0; i < (workers > 0 ? workers : count); ++i) factors_.emplace_back(plan);
  }
  Work work_of_factor(int workers) const override { return std::make_shared<std::vector<Memory>>(workers); }
  Work work_of_solve(int workers) const override { return std::make_shared<std::vector<Space>>(workers); }
  void factor(int64_t i, int64_t, const S* Ax, int64_t, const Pivoting& rule, Outcome* seen, const Work& work, int worker) override {
    *seen = factors_[i].factor(Ax, rule, 1, (*static_cast<std::vector<Memory>*>(work.get()))[worker]);
  }
  void solve(int64_t i, int64_t, const S* B, S* X, int64_t k, const Work& work, int worker) const override {
    factors_[i].solve_in((*static_cast<std::vector<Space>*>(work.get()))[worker], {B, k, 1}, {X, k, 1}, k);
  }

 private:
  std::deque<Factor> factors_;
};

// Four systems at a time by the columns engine: numbers of four systems lie together.
class LanesOf : public Factors<double> {
 public:
  using Factor = ColumnFactor<Lanes>;

  LanesOf(const std::shared_ptr<const ColumnPlan>& plan, int64_t count, int workers) {
    const int64_t groups = (count + Lanes::count - 1) / Lanes::count;
    for (int64_t g = 0; g < (workers > 0 ? workers : groups); ++g) factors_.emplace_back(plan);
  }
  Work work_of_factor(int workers) const override { return std::make_shared<std::vector<Space>>(workers); }
  Work work_of_solve(int workers) const override { return std::make_shared<std::vector<Space>>(workers); }
  int64_t group() const override { return Lanes::count; }
  void factor(int64_t g, int64_t count, const double* Ax, int64_t nnz, const Pivoting& rule, Outcome* seen, const Work& work,
              int worker) override {
    Space& space = (*static_cast<std::vector<Space>*>(work.get()))[worker];
    const auto found = factors_[g].factor(space.joined(count, Ax, nnz), rule, 1, space.own);
    for (int q = 0; q < count; ++q)
      seen[q] = {static_cast<int64_t>(found.perturbed[q]), found.largest_entry[q], found.largest_pivot_row[q]};
  }
  void solve(int64_t g, int64_t count, const double* B, double* X, int64_t k, const Work& work, int worker) const override {
    Space& space = (*static_cast<std::vector<Space>*>(work.get()))[worker];
    const int64_t size = factors_[g].plan().form.n() * k;
    const Lanes* const b = space.joined(count, B, size);
    if (space.result.size() < size) space.result = Buffer<Lanes>(size);
    Lanes* const x = space.result.data();
    factors_[g].solve_in(space.own, {b, k, 1}, {x, k, 1}, k);
    for (int64_t p = 0; p < size; ++p)
      for (int q = 0; q < count; ++q) X[q * size + p] = x[p][q];
  }

 private:
  struct Space {
    std::vector<Buffer<Lanes>> own;       // of the factor
    Buffer<Lanes> given, result;

    // (size) numbers of `count` systems; missing ones repeat the first.
    const Lanes* joined(int64_t count, const double* from, int64_t size) {
      if (given.size() < size) given = Buffer<Lanes>(size);
      const double* of[Lanes::count];
      for (int64_t q = 0; q < Lanes::count; ++q) of[q] = from + (q < count ? q : 0) * size;
      for (int64_t p = 0; p < size; ++p) given.data()[p] = Lanes(Lanes::Two{of[0][p], of[1][p]}, Lanes::Two{of[2][p], of[3][p]});
      return given.data();
    }
  };
  std::deque<Factor> factors_;
};
static_assert(Lanes::count <= most_together);

constexpr int64_t most_lanes = int64_t{2} << 20;        // bytes of four factors up to which they stay in a cache

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

// A single factor would not choose other pivots, and entries have grown less than `risk`.
bool is_safe(const Outcome& seen, double risk) {
  const double growth = seen.largest_pivot_row / seen.largest_entry;
  const bool fits = seen.perturbed == 0 && std::isfinite(seen.largest_pivot_row) && std::isfinite(growth);
  return fits && (seen.largest_entry > 1 ? seen.largest_pivot_row : growth) < risk;
}

}  // namespace

std::unique_ptr<Factors<double>> make_factors(const std::shared_ptr<const FrontPlan>& plan, int64_t count, int workers, double) {
  return std::make_unique<FactorsOf<double, FrontFactor<double>>>(plan, count, workers);
}
std::unique_ptr<Factors<Complex>> make_factors(const std::shared_ptr<const FrontPlan>& plan, int64_t count, int workers, Complex) {
  return std::make_unique<FactorsOf<Complex, FrontFactor<Complex>>>(plan, count, workers);
}
std::unique_ptr<Factors<double>> make_factors(const std::shared_ptr<const ColumnPlan>& plan, int64_t count, int workers, double) {
  const int64_t entries = static_cast<int64_t>(plan->pattern.l_row.size() + plan->pattern.u_row.size());
  if (count >= Lanes::count && entries * int64_t{sizeof(Lanes)} <= most_lanes) return std::make_unique<LanesOf>(plan, count, workers);
  return std::make_unique<FactorsOf<double, ColumnFactor<double>>>(plan, count, workers);
}
std::unique_ptr<Factors<Complex>> make_factors(const std::shared_ptr<const ColumnPlan>& plan, int64_t count, int workers, Complex) {
  return std::make_unique<FactorsOf<Complex, ColumnFactor<Complex>>>(plan, count, workers);
}

// Of a worker that measures.
template <class S>
struct Batch<S>::Space {
  std::vector<S> R, B, X, sizes;               // residuals; right-hand sides and solutions of probes; |A|, |x|, a zero and |A| |x|

  static S* of(std::vector<S>& v, int64_t size) {
    if (static_cast<int64_t>(v.size()) < size) v.resize(size);
    return v.data();
  }
};

// Solves for a known x without small entries; systems that lose it become unfit. A right-hand side of the caller does not show errors
// where it vanishes.
template <class S>
void Batch<S>::probe(const Part& part, const Measured<S>& by, const Work& work, Space& space) {
  const int64_t n = by.A.n, nnz = by.A.nnz(), first = part.first, end = part.end, count = end - first;
  S *const B = Space::of(space.B, (count + 2) * n), *const X = Space::of(space.X, count * n), *const R = Space::of(space.R, n);
  S *const minus = B + count * n, *const zero = minus + n;
  for (int64_t j = 0; j < n; ++j) minus[j] = S(-by.known[j]), zero[j] = S(0);
  std::fill(B, B + count * n, S(0));
  for (int64_t i = first; i < end; ++i) {
    if (!is_unmeasured(i) || !is_risky_[i]) continue;
    S* const b = B + (i - first) * n;
    sparse::measured_residual<S>(by.A, by.Ax + i * nnz, false, {minus, 1, 1}, {zero, 1, 1}, {b, 1, 1}, 1);
    if (!is_finite(b, n)) state_[i] = unfit;                // the scalings leave the range of double precision
  }
  factors_->solve(part.factors, count, B, X, 1, work, part.worker);
  for (int64_t i = first; i < end; ++i) {
    if (!is_unmeasured(i) || !is_risky_[i]) continue;
    const int64_t at = (i - first) * n;
    const double error = sparse::measured_residual<S>(by.A, by.Ax + i * nnz, false, {X + at, 1, 1}, {B + at, 1, 1}, {R, 1, 1}, 1);
    if (!(error <= by.limits.probe)) state_[i] = unfit;
  }
}

namespace {

// The largest entry of the residual R of a block relative to that of |A| |x| + |b|; infinite for NaN. `sizes`: nnz + 3 n k numbers.
template <class S>
double error_of_rows(const Pattern& A, const S* Ax, const S* B, const S* X, const S* R, int64_t k, S* sizes) {
  const int64_t nnz = A.nnz(), size = A.n * k;
  S *const minus = sizes + nnz, *const zero = minus + size, *const sum = zero + size;
  for (int64_t p = 0; p < nnz; ++p) sizes[p] = S(sparse::magnitude(Ax[p]));
  for (int64_t p = 0; p < size; ++p) minus[p] = S(-sparse::magnitude(X[p])), zero[p] = S(0);
  sparse::measured_residual<S>(A, sizes, false, {minus, k, 1}, {zero, k, 1}, {sum, k, 1}, k);
  double worst = 0;
  for (int64_t p = 0; p < size; ++p) {
    const double row = sparse::magnitude(sum[p]) + sparse::magnitude(B[p]), error = sparse::magnitude(R[p]) / (row == 0 ? 1 : row);
    worst = error <= worst ? worst : std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  }
  return worst;
}

}  // namespace

template <class S>
bool Batch<S>::is_good(int64_t i, const Measured<S>& by, const S* B, const S* X, int64_t k, Space& space) {
  const Pattern& A = by.A;
  const S* const Ax = by.Ax + i * A.nnz();
  S* const R = Space::of(space.R, A.n * k);
  error_[i] = sparse::measured_residual<S>(A, Ax, false, {X, k, 1}, {B, k, 1}, {R, k, 1}, k);
  bool is_good = error_[i] <= by.limits.enough, any = false;
  for (int64_t c = 0; c < k; ++c) {
    const double size = largest(B + c, A.n, k);
    any = any || size > 0;
    is_good = is_good && !(largest(R + c, A.n, k) > by.limits.suspect * size);
  }
  if (is_good && is_risky_[i]) is_good = error_of_rows(A, Ax, B, X, R, k, Space::of(space.sizes, A.nnz() + 3 * A.n * k)) <= by.limits.rows;
  is_measured_[i] = any;                  // b = 0 shows nothing about the factor
  return is_good;
}

template <class S>
void Batch<S>::factor_part(const Part& p, const S* Ax, int64_t nnz, const Pivoting& rule, const Growth& most, const Work& work) {
  Outcome seen[most_together];
  bool any = false;
  for (int64_t i = p.first; i < p.end; ++i) {
    state_[i] = is_finite(Ax + i * nnz, nnz) ? unfit : not_finite;
    any = any || state_[i] == unfit;
  }
  if (!any) return;
  factors_->factor(p.factors, p.end - p.first, Ax + p.first * nnz, nnz, rule, seen, work, p.worker);
  for (int64_t i = p.first; i < p.end; ++i) {
    if (state_[i] == unfit && is_safe(seen[i - p.first], most.unbounded)) state_[i] = factored;
    is_risky_[i] = !is_safe(seen[i - p.first], most.risk);
  }
}

template <class S>
void Batch<S>::solve_part(const Part& p, const Measured<S>& by, const S* B, S* X, int64_t k, const Work& work, Space& space) {
  const int64_t size = by.A.n * k;
  const auto any = [&](auto is) {
    for (int64_t i = p.first; i < p.end; ++i)
      if (is(i)) return true;
    return false;
  };
  if (any([&](int64_t i) { return is_unmeasured(i) && is_risky_[i]; })) probe(p, by, work, space);
  if (any([&](int64_t i) { return state_[i] == factored; }))
    factors_->solve(p.factors, p.end - p.first, B + p.first * size, X + p.first * size, k, work, p.worker);
  for (int64_t i = p.first; i < p.end; ++i) {
    S* const x = X + i * size;
    if (is_unmeasured(i) && !is_good(i, by, B + i * size, x, k, space)) state_[i] = unfit;
    if (state_[i] != factored) std::fill(x, x + size, S(not_a_number));
  }
}

// Calls f(part) for all groups; each has factors of its own.
template <class S>
template <class F>
void Batch<S>::each_part(int64_t steps, int threads, F f) {
  const int64_t together = factors_->group();
  each_system(threads, (count() + together - 1) / together, steps * together, [&](int64_t g, int worker) {
    const interrupt::Member uncounted(nullptr);
    f(Part{g * together, std::min((g + 1) * together, count()), g, worker});
  });
}

template <class S>
void Batch<S>::forget() {
  std::fill(state_.begin(), state_.end(), unknown);
  std::fill(is_measured_.begin(), is_measured_.end(), uint8_t{0});
  std::fill(error_.begin(), error_.end(), not_a_number);
}

template <class S>
void Batch<S>::factor(const S* given, S* Ax, int64_t nnz, const Pivoting& rule, const Growth& most, int threads) {
  forget();
  const Work work = factors_->work_of_factor(threads);
  each_part(1, threads, [&](const Part& p) {
    std::copy_n(given + p.first * nnz, (p.end - p.first) * nnz, Ax + p.first * nnz);
    factor_part(p, Ax, nnz, rule, most, work);
  });
}

template <class S>
void Batch<S>::solve(const Measured<S>& by, const S* B, S* X, int64_t k, int threads) {
  const Work work = factors_->work_of_solve(threads);
  std::vector<Space> spaces(threads);
  each_part(k, threads, [&](const Part& p) { solve_part(p, by, B, X, k, work, spaces[p.worker]); });
}

template <class S>
void Batch<S>::factor_and_solve(const Measured<S>& by, const Pivoting& rule, const Growth& most, const S* B, S* X, int64_t k, int threads) {
  forget();
  const Work of_factor = factors_->work_of_factor(threads), of_solve = factors_->work_of_solve(threads);
  std::vector<Space> spaces(threads);
  each_part(1 + k, threads, [&](Part p) {
    p.factors = p.worker;
    factor_part(p, by.Ax, by.A.nnz(), rule, most, of_factor);
    if (k > 0) solve_part(p, by, B, X, k, of_solve, spaces[p.worker]);
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
