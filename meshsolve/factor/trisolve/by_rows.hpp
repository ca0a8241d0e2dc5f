// The matrix for solves on several threads: rows gather forward, columns backward, chunk by chunk, each chunk in runs of one
// length.
#pragma once
#include <cstdint>
#include <vector>

#include "native/memory/buffer.hpp"
#include "native/memory/raw_vector.hpp"

namespace ms::trisolve {

struct Run {                            // of columns or rows with the same number of entries, or with `long_column` or more
  int32_t length, count;
};
constexpr int32_t long_column = 13;
// Adds a row to the last run, or to a new one if it `opens` one or has another length.
inline void add_to_runs(std::vector<Run>& runs, int64_t entries, bool opens) {
  const int32_t length = static_cast<int32_t>(entries < long_column ? entries : long_column);
  if (opens || runs.back().length != length) runs.push_back({length, 0});
  ++runs.back().count;
}

template <class T>
struct LowerColumns {                        // a unit lower triangle below the diagonal, with MINUS its values
  int32_t n;
  const int64_t* ptr;
  const int32_t* rows;
  const T* values;
};

// Chunks of rows in the order in which they are claimed. Chunks of one segment are independent.
struct Segments {
  std::vector<int32_t> rows;            // (n) rows chunk by chunk; empty: chunk c has the rows [begin[c], begin[c + 1])
  std::vector<int32_t> begin;           // (chunks + 1)
  std::vector<int32_t> first;           // (segments + 1) first chunk of each segment
  int32_t chunks() const { return static_cast<int32_t>(begin.size()) - 1; }
  int32_t row(int32_t at) const { return rows.empty() ? at : rows[at]; }
};

struct RowSummary {                       // summary of a row of the triangle
  int32_t count = 0, edge = -1;         // number of entries; largest or smallest column
};

// Sets of consecutive independent rows, split into chunks; a run of narrow sets becomes one chunk. A set ends before the first
// row that depends on one of its rows. Uses the largest column of each row.
Segments cut_sets(const std::vector<RowSummary>& summary);

// Ranges of consecutive rows as chunks of one segment. Rows that depend, directly or not, on another range follow in a last
// chunk; they are few in an order that follows an elimination tree. Uses the smallest column of each row.
Segments cut_ranges(const std::vector<RowSummary>& summary, const int64_t* ptr, const int32_t* rows, int threads);

struct Runs {
  std::vector<Run> runs;
  std::vector<int32_t> first;           // (chunks + 1) first run of each chunk
};

// Estimated speedup of `threads` threads with these segments, limited by load balance and waits only.
double speedup(const Segments& s, const std::vector<RowSummary>& summary, int threads);

template <class T>
class ByRows {
 public:
  ByRows(const LowerColumns<T>& L, bool by_levels, int threads);
  bool worthwhile() const { return ptr_.size() > 0; }       // false: too little parallelism, and nothing was stored
  template <int K> void forward(double* Y, int threads) const;
  template <int K> void backward(const LowerColumns<T>& L, double* Y, const double* d, int threads) const;
  int64_t nbytes() const;

 private:
  void set_layout(const LowerColumns<T>& L, const std::vector<RowSummary>& summary, int threads);
  void fill(const LowerColumns<T>& L, std::vector<std::vector<RowSummary>>&& parts, int threads);

  Segments segments_;
  RawVector<int32_t> order_;            // (n) rows in the order of the forward solve
  RawVector<int64_t> ptr_;              // (n + 1) begin of their entries, in that order
  Buffer<int32_t> columns_;
  Buffer<T> values_;
  Runs down_, up_;                      // runs of rows forward, of columns backward
};

}  // namespace ms::trisolve
