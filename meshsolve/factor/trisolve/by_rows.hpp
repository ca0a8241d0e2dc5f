// The matrix as several threads read it: rows gather forward, columns backward, chunk by chunk, each chunk in runs of one length.
#pragma once
#include <cstdint>
#include <vector>

#include "native/memory/buffer.hpp"
#include "native/memory/raw_vector.hpp"

namespace ms::trisolve {

struct Run {                            // of columns or rows with the same number of entries; or with `long_column` and more
  int32_t length, count;
};
constexpr int32_t long_column = 13;
// Counts a row with so many entries to the last run, or to a new one: where it `opens` one, or the length is another.
inline void add_to_runs(std::vector<Run>& runs, int64_t entries, bool opens) {
  const int32_t length = static_cast<int32_t>(entries < long_column ? entries : long_column);
  if (opens || runs.back().length != length) runs.push_back({length, 0});
  ++runs.back().count;
}

template <class T>
struct LowerColumns {                        // of a unit lower triangle, below the diagonal, with MINUS the values
  int32_t n;
  const int64_t* ptr;
  const int32_t* rows;
  const T* values;
};

// Chunks of rows in the order in which they are claimed. Rows of one segment's chunks do not depend on each other's.
struct Segments {
  std::vector<int32_t> rows;            // (n) rows chunk by chunk; empty: chunk c holds rows begin[c] .. begin[c + 1]
  std::vector<int32_t> begin;           // (chunks + 1)
  std::vector<int32_t> first;           // (segments + 1) first chunk of each segment
  int32_t chunks() const { return static_cast<int32_t>(begin.size()) - 1; }
  int32_t row(int32_t at) const { return rows.empty() ? at : rows[at]; }
};

struct RowTally {                       // of a row of the triangle
  int32_t count = 0, edge = -1;         // entries; the largest column, or the smallest
};

// Sets of consecutive rows that do not depend on each other, cut into chunks; runs of narrow sets become one chunk. A set ends
// before the first row that needs one of its rows. From the largest columns.
Segments cut_sets(const std::vector<RowTally>& tally);

// Ranges of consecutive rows as chunks of one segment, without the rows that need one of another range, or one that does: these
// follow in a chunk of their own. Orders that follow an elimination tree leave few. From the smallest columns.
Segments cut_ranges(const std::vector<RowTally>& tally, const int64_t* ptr, const int32_t* rows, int threads);

struct Runs {
  std::vector<Run> runs;
  std::vector<int32_t> first;           // (chunks + 1) first run of each chunk
};

// How many times faster than one thread so many would be by these segments, if they did nothing but wait for each other.
double speedup(const Segments& s, const std::vector<RowTally>& tally, int threads);

template <class T>
class ByRows {
 public:
  ByRows(const LowerColumns<T>& L, bool by_levels, int threads);
  bool worthwhile() const { return ptr_.size() > 0; }       // else the rows wait for each other, and nothing was made
  template <int K> void forward(double* Y, int threads) const;
  template <int K> void backward(const LowerColumns<T>& L, double* Y, const double* d, int threads) const;
  int64_t nbytes() const;

 private:
  void place(const LowerColumns<T>& L, const std::vector<RowTally>& tally, int threads);
  void fill(const LowerColumns<T>& L, std::vector<std::vector<RowTally>>&& parts, int threads);

  Segments segments_;
  RawVector<int32_t> order_;            // (n) rows as they are solved forward
  RawVector<int64_t> ptr_;              // (n + 1) where their entries are, in that order
  Buffer<int32_t> columns_;
  Buffer<T> values_;
  Runs down_, up_;                      // of rows forward, of columns backward
};

}  // namespace ms::trisolve
