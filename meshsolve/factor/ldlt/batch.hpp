// Complete L D L^T factors of many matrices with one analysis. Threads share the systems; each system runs on one thread, which
// scales, factors, solves and refines as a single factor does, so its solutions have the bits of one. Pivots are chosen for each
// system, so the fronts of a system have sizes of their own: they are copied out of the work space of the thread.
#pragma once
#include <memory>
#include <vector>

#include "complete.hpp"
#include "sparse/csr.hpp"

namespace ms::ldlt {

// Refinement of solutions, see meshsolve/sparse/refine.py, and the residual above which b is not in the range of a singular
// matrix, see meshsolve/factor/ildl.
struct Refinement {
  double enough, target;
  int steps;
  double outside, rounding;               // relative to |b|, and to |x|, in the scaled system
};

class Batch {
 public:
  // Or the column that overflowed, in the new numbering. unfit: the sizes of rows need another scaling.
  enum State : int32_t { factored = -1, not_finite = -2, unknown = -3, unfit = -4, zero = -5 };

  // As Complete.
  Batch(std::shared_ptr<const fronts::AssemblyTree> tree, const LdlRule& rule, double strict_threshold, bool is_strict, int64_t count);
  Batch(const Batch&) = delete;

  // Factors all systems. Ax: (count, nnz) values, both triangles; scale: (n) that of the matching; most_spread: largest ratio of
  // row sizes, as a power of two, for which it is kept. After an interruption the remaining systems are `unknown`.
  void factor(const Pattern& A, const double* Ax, const double* scale, double most_spread, int threads);

  // X := A^-1 B, refined, for B and X of (count, n, k) numbers. X is NaN for systems that are not `factored`.
  // error: (count) backward errors.
  // outside: (count) 0, or the residual relative to b if b is not in the range of a singular matrix.
  void solve(const Pattern& A, const double* B, double* X, double* error, double* outside, int64_t k, const Refinement& rule,
             int threads) const;

  // Both, without keeping factors: each is solved for k >= 0 right-hand sides while it is in the caches.
  void factor_and_solve(const Pattern& A, const double* Ax, const double* scale, double most_spread, const double* B, double* X,
                        double* error, double* outside, int64_t k, const Refinement& rule, int threads);

  const std::vector<int32_t>& state() const { return state_; }
  std::vector<int64_t> inertia() const;   // (count, 3): positive, negative, zero
  // (count) pivots so close to zero that rounding may have changed their sign
  const std::vector<int64_t>& undecided() const { return undecided_; }
  int64_t count() const { return static_cast<int64_t>(state_.size()); }
  int64_t nbytes() const;

 private:
  struct Scaled {                         // a matrix as it is factored
    Buffer<double> scale, values;
    double norm = 0;                      // of A: largest row sum of absolute values
  };
  struct System {
    std::vector<FrontState<double>> fronts;
    Buffer<char> memory;                  // of the fronts: columns of L, D, names
    Scaled matrix;
  };
  struct Factored {                       // what a solve reads, of a system or of a thread
    const std::vector<FrontState<double>>& fronts;
    int64_t panel_scalars;                // that compete for the caches
    const Scaled& matrix;
  };
  struct Problem {                        // what the solves of all systems share
    const Pattern& A;
    const double* B;
    double *X, *error, *outside;
    int64_t k;
    const Refinement& rule;
  };
  struct Work;

  template <class F> void each_factor(int64_t steps, int threads, F f);
  int32_t factor_one(int64_t i, Scaled& matrix, Complete<double>& factor, const Pattern& A, const double* Ax, const double* scale,
                     double most_spread);
  void solve_one(int64_t i, const Factored& system, const Problem& p, Work& work) const;
  double measure(const Scaled& matrix, const Pattern& A, const double* x, const double* b, int64_t k, Work& work) const;
  double refine(const Factored& system, const Problem& p, const double* b, double* x, Work& work) const;

  const std::shared_ptr<const fronts::AssemblyTree> tree_;
  const LdlRule rule_;
  const double strict_threshold_;
  const bool is_strict_;
  int64_t panel_scalars_ = 0;             // of all systems, without delayed columns
  std::vector<System> systems_;           // made by the first factor()
  std::vector<int32_t> state_;
  std::vector<Inertia> inertia_;
  std::vector<int64_t> undecided_;
};

}  // namespace ms::ldlt
