// Cholesky factors of many matrices of one analyzed pattern. Threads share the systems. Small systems in double precision run in groups,
// one in each lane of a vector (group.hpp); others run one by one, with the code of Factor. So the solutions of a system have the bits of a
// factor of its own. Work space belongs to the threads, not to the systems.
#pragma once
#include <concepts>
#include <memory>
#include <optional>
#include <vector>

#include "cholesky.hpp"
#include "group.hpp"

namespace ms::cholesky {

template <class T>
class Batch {
 public:
  enum State : int32_t { factored = -1, not_finite = -2, unknown = -3 };       // or the column that failed, in the new numbering

  Batch(std::shared_ptr<const fronts::AssemblyTree> tree, int64_t count);

  // Factors all systems; Ax: (count, nnz) values in the analyzed pattern, both triangles. state()[i] says what became of system i.
  // After an interruption the remaining systems are `unknown`.
  void factor(const double* Ax, int64_t nnz, int threads);

  // The same, and X as solve() returns it, without keeping factors: each is solved for k >= 0 right-hand sides while it is in the caches.
  void factor_and_solve(const double* Ax, int64_t nnz, const double* B, double* X, int64_t k, int threads);

  // X := A^-1 B for B and X of (count, n, k) numbers; NaN for systems without a factor.
  void solve(const double* B, double* X, int64_t k, int threads) const;

  const std::vector<int32_t>& state() const { return state_; }
  const std::vector<uint8_t>& may_be_singular() const { return may_be_singular_; }       // by their pivots
  int64_t count() const { return static_cast<int64_t>(state_.size()); }
  int64_t panel_scalars() const { return items() * item_scalars(); }         // of all systems
  int64_t item_scalars() const { return group_ ? group_->scalars() : panel_ptr_.back(); }        // of systems_at_once
  int64_t systems_at_once() const { return group_ ? Group::size : 1; }       // systems that a thread factors together
  int64_t nbytes() const { return panels_.size() * static_cast<int64_t>(sizeof(T)); }

 private:
  struct Worker;
  template <class F> void each_item(int64_t steps, int threads, F f);
  // An item is a group or a system. Its panels are read soon after they are written, unless they are `far`.
  void factor_item(int64_t i, const double* Ax, int64_t nnz, T* panels, bool far, Worker& worker);
  void factor_group(int64_t g, const double* Ax, int64_t nnz, T* panels, bool far, Worker& worker) requires std::same_as<T, double>;
  int32_t factor_one(const double* Ax, T* panels, Worker& worker, uint8_t& may_be_singular) const;
  void solve_item(int64_t i, const T* panels, const double* B, double* X, int64_t k, fronts::SolveSpace<T>& space) const;
  void solve_group(int64_t g, const T* panels, const double* B, double* X, int64_t k, fronts::SolveSpace<T>& space) const
    requires std::same_as<T, double>;
  int64_t items() const { return (count() + systems_at_once() - 1) / systems_at_once(); }

  std::shared_ptr<const fronts::AssemblyTree> tree_;
  const std::vector<int64_t> panel_ptr_;  // (fronts + 1), the same for each system
  const std::optional<Group> group_;      // or nothing: the systems run one by one
  Buffer<T> panels_;                      // item after item, a system as in panel.hpp; made by the first factor()
  std::vector<int32_t> state_;
  std::vector<uint8_t> may_be_singular_;
};

}  // namespace ms::cholesky
