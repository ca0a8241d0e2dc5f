#include "batch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <utility>

#include "native/memory/stream.hpp"
#include "native/threads/systems.hpp"
#include "scaling.hpp"
#include "sparse/check.hpp"
#include "sparse/product.hpp"

namespace ms::ldlt {
namespace {

// Copies the pivots of all fronts into one block: columns of L, then D, then names of the columns. With `far` the block goes past the
// caches, which it will have left before it is read.
void store(const std::vector<FrontState<double>>& from, bool far, std::vector<FrontState<double>>& fronts, Buffer<char>& memory) {
  const auto panel = [](const FrontState<double>& f) { return (f.ld * f.pivots + 1) / 2 * 2; };      // one more lies in the front as well
  int64_t of_panels = 0, pivots = 0, names = 0;
  for (const auto& f : from) of_panels += panel(f), pivots += f.pivots, names += f.columns;
  const int64_t bytes = (of_panels + 2 * pivots) * int64_t{sizeof(double)} + names * int64_t{sizeof(int32_t)};
  if (memory.size() < bytes) memory = Buffer<char>(bytes);
  fronts = from;
  double *next = reinterpret_cast<double*>(memory.data()), *next_d = next + of_panels;
  int32_t* next_name = reinterpret_cast<int32_t*>(next_d + 2 * pivots);
  for (FrontState<double>& f : fronts) {
    copy_block(f.panel, panel(f), next, far);
    f.panel = std::exchange(next, next + panel(f));
    f.d = std::exchange(next_d, std::copy_n(f.d, f.pivots, next_d));
    f.e = std::exchange(next_d, std::copy_n(f.e, f.pivots, next_d));
    f.name = std::exchange(next_name, std::copy_n(f.name, f.columns, next_name));
  }
}

// The largest absolute value of numbers; NaN for one. Their bits ascend with them, and those of NaN are the largest.
class Largest {
 public:
  void see(double x) { most_ = std::max(most_, std::bit_cast<int64_t>(std::abs(x))); }
  double get() const { return std::bit_cast<double>(most_); }

 private:
  int64_t most_ = 0;
};

double length(const double* x, int32_t n, int64_t k, int64_t c) {
  double sum = 0;
  for (int32_t i = 0; i < n; ++i) sum += x[i * k + c] * x[i * k + c];
  return std::sqrt(sum);
}

}  // namespace

// Work space of a thread in solves: five (n, k) blocks.
struct Batch::Work {
  fronts::SolveSpace<double> space;
  Buffer<double> memory;
  double *b = nullptr, *x = nullptr, *residual = nullptr;     // of the scaled system
  double *correction = nullptr, *corrected = nullptr;
  std::vector<double> squares;

  void reserve(int64_t n, int64_t k) {
    space.reserve(n, k, 1, nullptr);
    squares.resize(k);
    if (memory.size() >= 5 * n * k) return;
    memory = Buffer<double>(5 * n * k);
    double** const blocks[] = {&b, &x, &residual, &correction, &corrected};
    for (int q = 0; q < 5; ++q) *blocks[q] = memory.data() + q * n * k;
  }
};

Batch::Batch(std::shared_ptr<const fronts::AssemblyTree> tree, const LdlRule& rule, double strict_threshold, bool is_strict, int64_t count)
    : tree_(std::move(tree)), rule_(rule), strict_threshold_(strict_threshold), is_strict_(is_strict), state_(count, unknown),
      inertia_(count), undecided_(count) {}

int32_t Batch::factor_one(int64_t i, Scaled& matrix, Complete<double>& factor, const Pattern& A, const double* Ax, const double* scale,
                          double most_spread) {
  matrix.norm = norm(A, Ax);
  if (!std::isfinite(matrix.norm) && first_not_finite(Ax, A.nnz()) >= 0) return not_finite;
  if (matrix.norm == 0) return zero;
  if (matrix.scale.size() == 0) {
    matrix.values = Buffer<double>(A.nnz());
    matrix.scale = Buffer<double>(A.n);
  }
  std::copy_n(scale, A.n, matrix.scale.data());
  if (rescale(A, Ax, matrix.scale.data(), matrix.values.data(), true, 1) > most_spread) return unfit;
  factor.choose_threshold(is_strict_);
  if (const int32_t failed = factor.factor(matrix.values.data(), 1); failed >= 0) return failed;
  inertia_[i] = factor.pivots().inertia;
  undecided_[i] = factor.pivots().undecided;
  return factored;
}

// Calls f(system, worker, work space of its factor) for all systems, after what is known of them has been forgotten.
template <class F>
void Batch::each_factor(int64_t steps, int threads, F f) {
  std::fill(state_.begin(), state_.end(), unknown);
  std::fill(inertia_.begin(), inertia_.end(), Inertia{});
  std::fill(undecided_.begin(), undecided_.end(), 0);
  std::deque<Complete<double>> workers;
  for (int q = 0; q < threads; ++q) workers.emplace_back(tree_, rule_, strict_threshold_, is_strict_);
  panel_scalars_ = workers[0].panel_scalars() * count();
  each_system(threads, count(), steps, [&](int64_t i, int worker) {
    const interrupt::Member uncounted(nullptr);
    f(i, worker, workers[worker]);
  });
}

void Batch::factor(const Pattern& A, const double* Ax, const double* scale, double most_spread, int threads) {
  systems_.resize(count());
  each_factor(1, threads, [&](int64_t i, int, Complete<double>& own) {
    System& system = systems_[i];
    state_[i] = factor_one(i, system.matrix, own, A, Ax + i * A.nnz(), scale, most_spread);
    if (state_[i] != factored) return;
    const bool far = fronts::leaves_cache<double>(panel_scalars_);
    store(own.fronts(), far, system.fronts, system.memory);
    if (far) end_streams();
  });
}

void Batch::factor_and_solve(const Pattern& A, const double* Ax, const double* scale, double most_spread, const double* B, double* X,
                             double* error, double* outside, int64_t k, const Refinement& rule, int threads) {
  std::vector<Scaled> matrices(threads);
  std::vector<Work> works(threads);
  const Problem p{A, B, X, error, outside, k, rule};
  each_factor(1 + k, threads, [&](int64_t i, int worker, Complete<double>& own) {
    Scaled& matrix = matrices[worker];
    state_[i] = factor_one(i, matrix, own, A, Ax + i * A.nnz(), scale, most_spread);
    if (k > 0) solve_one(i, {own.fronts(), own.panel_scalars(), matrix}, p, works[worker]);
  });
}

// The backward error of x in the caller's units. The work space receives the scaled system's b, x and residual.
double Batch::measure(const Scaled& matrix, const Pattern& A, const double* x, const double* b, int64_t k, Work& work) const {
  const double* const scale = matrix.scale.data();
  const auto each_row = [&](int64_t c, auto f) {             // f(row, its position in column c)
    if (k == 1)                                              // consecutive numbers are compiled to vectors
      for (int64_t i = 0; i < A.n; ++i) f(i, i);
    else
      for (int64_t i = 0; i < A.n; ++i) f(i, i * k + c);
  };
  for (int64_t c = 0; c < k; ++c) each_row(c, [&](int64_t i, int64_t p) { work.b[p] = scale[i] * b[p], work.x[p] = x[p] / scale[i]; });
  sparse::residual(A, matrix.values.data(), work.b, work.x, work.residual, k, work.squares.data(), 1);
  double worst = 0;
  for (int64_t c = 0; c < k; ++c) {
    Largest left, of_x, of_b;
    each_row(c, [&](int64_t i, int64_t p) { left.see(work.residual[p] / scale[i]), of_x.see(x[p]), of_b.see(b[p]); });
    worst = std::max(worst, sparse::backward_error(matrix.norm, left.get(), of_x.get(), of_b.get()));
  }
  return worst;
}

// Refines x as meshsolve/sparse/refine.py does; returns its backward error.
double Batch::refine(const Factored& system, const Problem& p, const double* b, double* x, Work& work) const {
  const double* const scale = system.matrix.scale.data();
  const int64_t size = p.A.n * p.k;
  double error = measure(system.matrix, p.A, x, b, p.k, work);
  if (error <= p.rule.enough) return error;
  for (int step = 0; step < p.rule.steps && !(error <= p.rule.target); ++step) {
    for (int64_t q = 0; q < size; ++q) work.residual[q] /= scale[q / p.k];
    solve_fronts<double>(*tree_, system.fronts, system.panel_scalars, scale, {work.residual, p.k, 1}, {work.correction, p.k, 1}, p.k, 1,
                         work.space);
    for (int64_t q = 0; q < size; ++q) work.corrected[q] = x[q] + work.correction[q];
    const double before = error, after = measure(system.matrix, p.A, work.corrected, b, p.k, work);
    if (!(after < before)) break;
    std::copy_n(work.corrected, size, x);
    error = after;
    if (after > 0.5 * before) break;
  }
  return error;
}

void Batch::solve_one(int64_t i, const Factored& system, const Problem& p, Work& work) const {
  const int64_t k = p.k, size = p.A.n * k;
  const double* const b = p.B + i * size;
  double* const x = p.X + i * size;
  p.outside[i] = 0;
  if (state_[i] != factored) {
    p.error[i] = std::numeric_limits<double>::quiet_NaN();
    std::fill(x, x + size, p.error[i]);
    return;
  }
  work.reserve(p.A.n, k);
  solve_fronts<double>(*tree_, system.fronts, system.panel_scalars, system.matrix.scale.data(), {b, k, 1}, {x, k, 1}, k, 1, work.space);
  p.error[i] = refine(system, p, b, x, work);
  if (inertia_[i].zero == 0) return;
  measure(system.matrix, p.A, x, b, k, work);
  for (int64_t c = 0; c < k; ++c) {
    const double left = length(work.residual, p.A.n, k, c), own = length(work.b, p.A.n, k, c);
    if (left > p.rule.outside * own + p.rule.rounding * length(work.x, p.A.n, k, c)) p.outside[i] = std::max(p.outside[i], left / own);
  }
}

void Batch::solve(const Pattern& A, const double* B, double* X, double* error, double* outside, int64_t k, const Refinement& rule,
                  int threads) const {
  std::vector<Work> works(threads);
  const Problem p{A, B, X, error, outside, k, rule};
  each_system(threads, count(), k, [&](int64_t i, int worker) {
    const interrupt::Member uncounted(nullptr);
    solve_one(i, {systems_[i].fronts, panel_scalars_, systems_[i].matrix}, p, works[worker]);
  });
}

std::vector<int64_t> Batch::inertia() const {
  std::vector<int64_t> out;
  for (const Inertia& found : inertia_) out.insert(out.end(), {found.positive, found.negative, found.zero});
  return out;
}

int64_t Batch::nbytes() const {
  int64_t sum = 0;
  for (const System& s : systems_)
    sum += s.memory.size() + int64_t{sizeof(FrontState<double>)} * static_cast<int64_t>(s.fronts.size()) +
           int64_t{sizeof(double)} * (s.matrix.scale.size() + s.matrix.values.size());
  return sum;
}

}  // namespace ms::ldlt
