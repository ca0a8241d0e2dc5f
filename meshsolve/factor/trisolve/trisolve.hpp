// Sparse triangular solves with a unit lower triangular matrix L and many right-hand sides. The terms of a row are always added
// in the same order: the same bits on any number of threads. One thread: columns scatter forward and gather backward, from
// one copy of L. Several threads: rows gather forward, from a second copy by rows, which is made after enough solves to pay off.
// Chunks of rows are claimed in order, and a chunk waits for the segments before its own. Rows are renumbered in pieces that fit
// into the cache, by (level within the piece, length): columns of one length are adjacent and independent. In a loop over a short
// column of unpredictable length, the branch costs more than the arithmetic.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "by_rows.hpp"
#include "columns.hpp"
#include "native/memory/raw_vector.hpp"
#include "native/dense/widths.hpp"

namespace ms::trisolve {

// Calls f(K, first) for k right-hand sides in groups of K, a constant.
template <class F>
void in_groups(int64_t k, F&& f) {
  in_widths<8, 4, 3, 2, 1>(k, f);
}
constexpr int64_t largest_group = 8;

// Rows sorted by (level, key): a topological order in which rows of a level and of close keys are adjacent.
std::vector<int32_t> order_by_level(const std::vector<int32_t>& level, const int32_t* key);

template <class T>
class UnitLower {
 public:
  UnitLower() = default;
  // Renumbers the matrix: row order()[q] becomes row q. Threads share sets of independent rows with `by_levels`, else ranges of
  // rows. `order`, a topological order, is applied first.
  UnitLower(ColumnStores<T>&& columns, bool by_levels, const int32_t* order = nullptr, int threads = 1);

  int32_t n() const { return n_; }
  int64_t nnz() const { return n_ ? ptr_[n_] : 0; }
  int64_t nbytes() const;
  const RawVector<int32_t>& order() const { return order_; }
  // The matrix in its original numbering.
  void original(RawVector<int64_t>& ptr, RawVector<int32_t>& rows, RawVector<T>& values) const;

  // Y := L^-T diag(d) L^-1 Y for Y by rows of K values, a group size of in_groups(); d may be null (all ones).
  void solve_pair(double* Y, int K, const double* d, int threads) const;
  void forward(double* Y, int K, int threads) const;
  void backward(double* Y, int K, const double* d, int threads) const;

 private:
  struct Piece;
  struct Source;
  void arrange(Source&& source, int threads);
  void load(int32_t a, int32_t b, const Source& source, Piece& piece) const;
  void arrange_piece(int32_t a, int32_t b, const Piece& old, std::vector<int32_t>& level, int32_t* from);
  void find_runs();
  LowerColumns<T> columns() const { return {n_, ptr_.data(), rows_.data(), values_.data()}; }
  const ByRows<T>* by_rows(int64_t columns, int threads) const;
  template <int K> void run(double* Y, const double* d, bool down, bool up, int threads) const;

  int32_t n_ = 0;
  bool by_levels_ = false;
  RawVector<int64_t> ptr_;
  RawVector<int32_t> rows_;
  RawVector<T> values_;
  RawVector<int32_t> order_;
  std::vector<Run> runs_;
  struct Kept {
    std::atomic<int64_t> solved{0};     // right-hand sides so far, atomic for several threads
    std::once_flag once;
    std::unique_ptr<const ByRows<T>> by_rows;
    std::atomic<const ByRows<T>*> ready{nullptr};
  };
  std::unique_ptr<Kept> kept_ = std::make_unique<Kept>();
};

}  // namespace ms::trisolve
