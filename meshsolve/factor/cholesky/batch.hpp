// Cholesky factors of many matrices of one analyzed pattern. Threads share the systems; each system runs on one thread with the code
// of Factor, so its solutions have the bits of a factor of its own. Work space belongs to the threads, not to the systems.
#pragma once
#include <memory>
#include <vector>

#include "cholesky.hpp"

namespace ms::cholesky {

template <class T>
class Batch {
 public:
  enum State : int32_t { factored = -1, not_finite = -2, unknown = -3 };       // or the column that failed, in the new numbering

  Batch(std::shared_ptr<const fronts::AssemblyTree> tree, int64_t count);

  // Factors all systems; Ax: (count, nnz) values in the analyzed pattern, both triangles. state()[i] says what became of system i. After an interruption the remaining systems are `unknown`.
  void factor(const double* Ax, int64_t nnz, int threads);

  // X := A^-1 B for B and X of (count, n, k) numbers; NaN for systems without a factor.
  void solve(const double* B, double* X, int64_t k, int threads) const;

  const std::vector<int32_t>& state() const { return state_; }
  const std::vector<uint8_t>& may_be_singular() const { return may_be_singular_; }       // by their pivots
  int64_t count() const { return static_cast<int64_t>(state_.size()); }
  int64_t panel_scalars() const { return count() * panel_ptr_.back(); }          // of all systems
  int64_t nbytes() const { return panels_.size() * static_cast<int64_t>(sizeof(T)); }

 private:
  struct Worker;
  T* panels_of(int64_t i) const { return const_cast<T*>(panels_.data()) + i * panel_ptr_.back(); }

  std::shared_ptr<const fronts::AssemblyTree> tree_;
  const std::vector<int64_t> panel_ptr_;  // (fronts + 1), the same for each system
  Buffer<T> panels_;                      // system after system, each as panel.hpp; made by the first factor()
  std::vector<int32_t> state_;
  std::vector<uint8_t> may_be_singular_;
};

}  // namespace ms::cholesky
