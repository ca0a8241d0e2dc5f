// Sparse triangular solves with a unit lower triangular matrix L, many right-hand sides at once, the same bits on any number
// of threads: in each row the terms are added in one order, whoever does it.
// One thread: columns scatter forward and gather backward, one copy of L is read. More threads: rows gather forward (a
// second copy by rows), and chunks of rows are claimed in order; a chunk waits for the segments before its own.
// Rows are renumbered in pieces that fit into the cache, by (level within the piece, length): columns of one length follow each
// other and do not depend on each other. A loop over a short column whose length is a guess costs more than its numbers.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "native/raw_vector.hpp"

namespace ms::trisolve {

// Chunks of rows in the order in which they are claimed. Rows of one segment's chunks do not depend on each other's.
struct Segments {
  std::vector<int32_t> rows;            // (n) rows chunk by chunk; empty: chunk c holds rows begin[c] .. begin[c + 1]
  std::vector<int32_t> begin;           // (chunks + 1)
  std::vector<int32_t> first;           // (segments + 1) first chunk of each segment
  int32_t chunks() const { return static_cast<int32_t>(begin.size()) - 1; }
};

// level[k] = length of the longest path to k through the columns of L, from 0.
std::vector<int32_t> level_sets(int32_t n, const int64_t* ptr, const int32_t* rows);

// Rows sorted by (level, key): a topological order in which rows of a level, and of nearby keys, lie together.
std::vector<int32_t> order_by_level(const std::vector<int32_t>& level, const int32_t* key);

// Sets of consecutive rows that do not depend on each other, cut into chunks; runs of narrow sets become one chunk. By rows,
// columns ascending: a set ends before the first row that needs one of its rows.
Segments cut_sets(int32_t n, const int64_t* row_ptr, const int32_t* columns);

// Independent components of a lower part, dealt into bins of equal weight, and a top that follows them.
Segments cut_bins(int32_t n, const int64_t* ptr, const int32_t* rows, const int64_t* row_ptr, const int32_t* columns);

struct Run {                            // of columns with the same number of entries; or with `long_column` and more
  int32_t length, count;
};
constexpr int32_t long_column = 13;

// The order in which the columns of [from, to) stand best: by (level among themselves, length), and in their order otherwise.
// Where most of them depend on each other, as they are. `level` is scratch.
void order_piece(int32_t from, int32_t to, const int64_t* ptr, const int32_t* rows, std::vector<int32_t>& level, int32_t* order);

template <class T>
class UnitLower {
 public:
  UnitLower() = default;
  // Columns of the part below the diagonal: rows and MINUS the values. The matrix is renumbered: row order()[q] becomes row q.
  // With `by_levels` threads share out sets of independent rows, else components; `order`, a topological one, comes first.
  UnitLower(int32_t n, RawVector<int64_t>&& ptr, RawVector<int32_t>&& rows, RawVector<T>&& values, bool by_levels,
            const int32_t* order = nullptr, int threads = 1);

  int32_t n() const { return n_; }
  int64_t nnz() const { return n_ ? ptr_[n_] : 0; }
  int64_t nbytes() const;
  const RawVector<int32_t>& order() const { return order_; }
  // The matrix as it was given.
  void original(RawVector<int64_t>& ptr, RawVector<int32_t>& rows, RawVector<T>& values) const;

  // Y := L^-T diag(d) L^-1 Y for Y by rows of K values, K = 1, 2, 4 or 8; d may be null (ones).
  void solve_pair(double* Y, int K, const double* d, int threads) const;
  void forward(double* Y, int K, int threads) const;
  void backward(double* Y, int K, const double* d, int threads) const;

 private:
  struct ByRows {
    RawVector<int64_t> ptr;
    RawVector<int32_t> columns;
    RawVector<T> values;
    Segments segments;
  };
  void renumber(const int32_t* order);
  std::vector<int32_t> positions() const;
  void permuted(const int32_t* from, const int32_t* to, RawVector<int64_t>& ptr, RawVector<int32_t>& rows,
                RawVector<T>& values) const;
  struct Piece;
  void arrange(int threads);
  void arrange_piece(int32_t a, int32_t b, const int32_t* from, Piece& old);
  void find_runs();
  const ByRows& by_rows() const;
  template <int K> void forward_rows(const ByRows& R, int32_t chunk, double* Y) const;
  template <int K> void backward_rows(const ByRows& R, int32_t chunk, double* Y, const double* d) const;
  template <int K> void run(double* Y, const double* d, bool down, bool up, int threads) const;

  int32_t n_ = 0;
  bool by_levels_ = false;
  RawVector<int64_t> ptr_;
  RawVector<int32_t> rows_;
  RawVector<T> values_;
  RawVector<int32_t> order_;
  std::vector<Run> runs_;
  mutable std::unique_ptr<std::once_flag> once_ = std::make_unique<std::once_flag>();
  mutable std::unique_ptr<ByRows> by_rows_;           // made by the first solve of several threads
};

}  // namespace ms::trisolve
