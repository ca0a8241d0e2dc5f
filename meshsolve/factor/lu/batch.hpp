// LU factors of many matrices with one pattern and the pivots of one analysis. Threads share the systems; each system runs on one thread
// with the code of a single factor, so its solutions have the bits of one. The core measures what a single factor measures. A system
// that needs more than the plain factor (other pivots, refinement, a probe) becomes `unfit`, and its owner factors it alone.
#pragma once
#include <memory>
#include <vector>

#include "lu.hpp"

namespace ms::lu {

// When a single factor does more than one plain solve; see solves.py.
struct Growth {
  double risk, unbounded;                 // of the entries: from risk on a factor is probed, from unbounded on it is unfit
};
struct Limits {
  double enough, suspect;                 // backward error, and size of the residual relative to b, of the first solution
  double probe, rows;                     // of risky factors: backward errors of the probe, and of the first solution row by row
};

// What measures need: the matrices, and the dense solution (n) of the probe.
template <class S>
struct Measured {
  const Pattern& A;
  const S* Ax;                            // (count, nnz) values
  const double* known;
  Limits limits;
};

constexpr int64_t most_together = 4;

// Factors with one plan, by either engine, in groups of systems that are computed together. The last group may be smaller. A group has
// factors of its own, or those of the worker. The work space of a call has a part for each worker.
template <class S>
class Factors {
 public:
  using Work = std::shared_ptr<void>;
  virtual ~Factors() = default;
  virtual Work work_of_factor(int workers) const = 0;
  virtual Work work_of_solve(int workers) const = 0;
  virtual int64_t group() const { return 1; }         // systems of a group, at most most_together
  // Computes factors g of `count` systems; Ax: (count, nnz) values.
  virtual void factor(int64_t g, int64_t count, const S* Ax, int64_t nnz, const Pivoting& rule, Outcome* seen, const Work& work,
                      int worker) = 0;
  virtual void solve(int64_t g, int64_t count, const S* B, S* X, int64_t k, const Work& work, int worker) const = 0;   // (count, n, k)
};
// Factors of `count` systems, of as many groups, or with workers > 0 of as many workers.
std::unique_ptr<Factors<double>> make_factors(const std::shared_ptr<const FrontPlan>& plan, int64_t count, int workers, double);
std::unique_ptr<Factors<Complex>> make_factors(const std::shared_ptr<const FrontPlan>& plan, int64_t count, int workers, Complex);
std::unique_ptr<Factors<double>> make_factors(const std::shared_ptr<const ColumnPlan>& plan, int64_t count, int workers, double);
std::unique_ptr<Factors<Complex>> make_factors(const std::shared_ptr<const ColumnPlan>& plan, int64_t count, int workers, Complex);

template <class S>
class Batch {
 public:
  enum State : int32_t { factored = -1, not_finite = -2, unknown = -3, unfit = -4 };

  // Plan: FrontPlan or ColumnPlan. workers: 0, or the most threads of factor_and_solve(), for which factors are not kept.
  template <class Plan>
  Batch(const std::shared_ptr<Plan>& plan, int64_t count, int workers)
      : factors_(make_factors(std::shared_ptr<const Plan>(plan), count, workers, S())), state_(count, unknown), is_measured_(count),
        is_risky_(count), error_(count) {}

  // Factors all systems with the values `given`, (count, nnz), which it copies to Ax: solves need them. After an interruption the
  // remaining systems are `unknown`.
  void factor(const S* given, S* Ax, int64_t nnz, const Pivoting& rule, const Growth& most, int threads);

  // X := A^-1 B for B and X of (count, n, k) numbers; NaN for systems that are not `factored`. The first solution of each factor is
  // measured, unless its right-hand sides are zero: error()[i] is its backward error. A risky factor is probed before. One caller at
  // a time until all are measured.
  void solve(const Measured<S>& by, const S* B, S* X, int64_t k, int threads);

  // Both, without keeping factors: each is solved for k >= 0 right-hand sides while it is in the caches.
  void factor_and_solve(const Measured<S>& by, const Pivoting& rule, const Growth& most, const S* B, S* X, int64_t k, int threads);

  const std::vector<int32_t>& state() const { return state_; }
  const std::vector<double>& error() const { return error_; }                 // NaN: not measured
  bool is_measured() const;                                                   // all factored systems are
  int64_t count() const { return static_cast<int64_t>(state_.size()); }

 private:
  using Work = typename Factors<S>::Work;
  struct Space;
  struct Part {                           // the systems of a group
    int64_t first, end;
    int64_t factors;                      // its index in factors_
    int worker;
  };
  bool is_unmeasured(int64_t i) const { return state_[i] == factored && !is_measured_[i]; }
  void forget();
  template <class F> void each_part(int64_t steps, int threads, F f);
  void factor_part(const Part& p, const S* Ax, int64_t nnz, const Pivoting& rule, const Growth& most, const Work& work);
  void solve_part(const Part& p, const Measured<S>& by, const S* B, S* X, int64_t k, const Work& work, Space& space);
  void probe(const Part& p, const Measured<S>& by, const Work& work, Space& space);
  bool is_good(int64_t i, const Measured<S>& by, const S* B, const S* X, int64_t k, Space& space);

  const std::unique_ptr<Factors<S>> factors_;
  std::vector<int32_t> state_;
  std::vector<uint8_t> is_measured_, is_risky_;
  std::vector<double> error_;
};

}  // namespace ms::lu
