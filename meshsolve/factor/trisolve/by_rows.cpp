// The row form: a transposition by several threads, its rows in the order of the chunks, and the solves with it.
// Forward, a row adds its terms by ascending column, as the columns on one thread do: the bits are the same.
// Cost: O(nnz) time on several threads, and a second copy of the matrix.
#include "by_rows.hpp"

#include "chunks.hpp"
#include "entries.hpp"
#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "pieces.hpp"

namespace ms::trisolve {
namespace {

constexpr int most_parts = 4;            // parts of the columns, counted and written in parallel; each takes 16 bytes per row
constexpr int64_t grain = 1 << 14;       // rows
constexpr double least_speedup = 1.3;    // smallest speedup for which rows pay: columns have fewer cache misses

// Parts of the columns with about the same number of entries: (parts + 1) first columns.
std::vector<int32_t> column_parts(const int64_t* ptr, int32_t n, int parts) {
  std::vector<int32_t> begin(parts + 1, 0);
  for (int t = 1; t <= parts; ++t)
    begin[t] = static_cast<int32_t>(std::lower_bound(ptr, ptr + n, ptr[n] / parts * t) - ptr);
  begin[parts] = n;
  return begin;
}

// Sums the row counts of the parts. Each part's count of a row becomes the offset of its entries in the row.
std::vector<RowSummary> joined(std::vector<std::vector<RowSummary>>& parts, bool largest, int threads) {
  const int64_t n = static_cast<int64_t>(parts[0].size());
  std::vector<RowSummary> all(n);
  for_range(threads, n, grain, [&](int64_t from, int64_t to, int) {
    for (std::vector<RowSummary>& part : parts)
      for (int64_t i = from; i < to; ++i) {
        const RowSummary mine = part[i];
        part[i].count = all[i].count;
        if (mine.count > 0 && (largest || all[i].count == 0)) all[i].edge = mine.edge;
        all[i].count += mine.count;
      }
  });
  return all;
}

// Writes the entries of the columns [from, to) to the positions next[row]. Rows are scattered, so positions and targets are
// prefetched.
template <class T>
void write_entries(const LowerColumns<T>& L, int32_t from, int32_t to, int64_t* next, int32_t* columns, T* values) {
  constexpr int64_t near = 12, far = 24;
  const int64_t end = L.ptr[to];
  for (int32_t k = from; k < to; ++k)
    for (int64_t p = L.ptr[k]; p < L.ptr[k + 1]; ++p) {
      if (p + far < end) fetch_to_write(&next[L.rows[p + far]]);
      if (p + near < end) {
        const int64_t soon = next[L.rows[p + near]];
        fetch_to_write(columns + soon);
        fetch_to_write(values + soon);
      }
      const int64_t at = next[L.rows[p]]++;
      columns[at] = k;
      values[at] = L.values[p];
    }
}

template <class Length>
Runs find_runs(const Segments& s, Length&& length) {
  Runs all;
  for (int32_t c = 0; c < s.chunks(); ++c) {
    all.first.push_back(static_cast<int32_t>(all.runs.size()));
    for (int32_t at = s.begin[c]; at < s.begin[c + 1]; ++at) add_to_runs(all.runs, length(at), at == s.begin[c]);
  }
  all.first.push_back(static_cast<int32_t>(all.runs.size()));
  return all;
}

}  // namespace

template <class T>
ByRows<T>::ByRows(const LowerColumns<T>& L, bool by_levels, int threads) {
  const int parts = std::min(threads, most_parts);
  const std::vector<int32_t> begin = column_parts(L.ptr, L.n, parts);
  std::vector<std::vector<RowSummary>> summaries(parts);
  for_range(threads, parts, 1, [&](int64_t from, int64_t to, int) {
    for (int64_t t = from; t < to; ++t) {
      summaries[t].resize(L.n);
      for (int32_t k = begin[t]; k < begin[t + 1]; ++k)
        for (int64_t p = L.ptr[k]; p < L.ptr[k + 1]; ++p) {
          RowSummary& row = summaries[t][L.rows[p]];
          row.edge = by_levels || row.count == 0 ? k : row.edge;
          ++row.count;
        }
    }
  });
  const std::vector<RowSummary> summary = joined(summaries, by_levels, threads);
  segments_ = by_levels ? cut_sets(summary) : cut_ranges(summary, L.ptr, L.rows, threads);
  if (speedup(segments_, summary, threads) < least_speedup) return;
  set_layout(L, summary, threads);
  fill(L, std::move(summaries), threads);
  down_ = find_runs(segments_, [&](int32_t at) { return ptr_[at + 1] - ptr_[at]; });
  up_ = find_runs(segments_, [&](int32_t at) { return L.ptr[segments_.row(at) + 1] - L.ptr[segments_.row(at)]; });
}

// Computes order_ and ptr_: the rows of each chunk in pieces, each piece in its own order (pieces.hpp).
template <class T>
void ByRows<T>::set_layout(const LowerColumns<T>& L, const std::vector<RowSummary>& summary, int threads) {
  const Segments& s = segments_;
  RawVector<int32_t> where(s.rows.size());                // position of each row; empty: the row itself
  for (size_t at = 0; at < s.rows.size(); ++at) where[s.rows[at]] = static_cast<int32_t>(at);
  order_.resize(L.n);
  for_range(threads, s.chunks(), 1, [&](int64_t c, int64_t last, int) {
    std::vector<int32_t> level, order(piece);
    for (; c < last; ++c) {
      bool apart = where.empty();                         // the rows of the chunk are independent
      for (int32_t row = s.begin[c]; row < s.begin[c + 1] && apart; ++row) apart = summary[row].edge < s.begin[c];
      for (int32_t from = s.begin[c]; from < s.begin[c + 1]; from += piece) {
        const int32_t count = std::min(piece, s.begin[c + 1] - from);
        const auto dependents = [&](int32_t k, auto&& f) {
          const int32_t row = s.row(from + k);
          for (int64_t p = L.ptr[row]; p < L.ptr[row + 1] && !apart; ++p) {
            const int32_t at = (where.empty() ? L.rows[p] : where[L.rows[p]]) - from;
            f(at > k && at < count ? at : k);
          }
        };
        order_piece(count, dependents, [&](int32_t k) { return int64_t{summary[s.row(from + k)].count}; }, level, order.data());
        for (int32_t k = 0; k < count; ++k) order_[from + k] = s.row(from + order[k]);
      }
    }
  });
  ptr_.resize(L.n + int64_t{1});
  ptr_[0] = 0;
  for (int32_t at = 0; at < L.n; ++at) ptr_[at + 1] = ptr_[at] + summary[order_[at]].count;
}

template <class T>
void ByRows<T>::fill(const LowerColumns<T>& L, std::vector<std::vector<RowSummary>>&& parts, int threads) {
  const int count = static_cast<int>(parts.size());
  std::vector<RawVector<int64_t>> next(count);            // position of a part's next entry of each row
  for (RawVector<int64_t>& part : next) part.resize(L.n);
  for_range(threads, L.n, grain, [&](int64_t from, int64_t to, int) {
    for (int64_t at = from; at < to; ++at)
      for (int t = 0; t < count; ++t) next[t][order_[at]] = ptr_[at] + parts[t][order_[at]].count;
  });
  parts.clear();
  columns_ = Buffer<int32_t>(L.ptr[L.n], threads);
  values_ = Buffer<T>(L.ptr[L.n], threads);
  const std::vector<int32_t> begin = column_parts(L.ptr, L.n, count);
  for_range(threads, count, 1, [&](int64_t t, int64_t last, int) {
    for (; t < last; ++t)
      write_entries(L, begin[t], begin[t + 1], next[t].data(), columns_.data(), values_.data());
  });
}

namespace {

template <class T>
struct Rows {                            // arrays of the row form, and Y
  const int32_t* order;
  const int64_t* ptr;
  const int32_t* columns;
  const T* values;
  double* Y;
};

// Rows at the positions [from, to) with `length` entries each; `long_column` stands for any number.
template <int K, int length, class T>
void gather_rows(const Rows<T>& R, int64_t from, int64_t to) {
  const int32_t* columns = R.columns + R.ptr[from];
  const T* values = R.values + R.ptr[from];
  for (int64_t at = from; at < to; ++at) {
    double* const y = R.Y + int64_t{R.order[at]} * K;
    double sum[K];
    for (int c = 0; c < K; ++c) sum[c] = y[c];
    const int64_t count = length < long_column ? length : R.ptr[at + 1] - R.ptr[at];
    if (length > 2) fetch_entries(columns, values, ahead);
    add_ascending<K>(columns, values, count, R.Y, sum);
    for (int c = 0; c < K; ++c) y[c] = sum[c];
    columns += count;
    values += count;
  }
}

template <class T> using RowKernel = void (*)(const Rows<T>&, int64_t, int64_t);

// By length for one right-hand side; for several, the loop over entries is long enough without constants.
template <int K, class T, int... lengths>
constexpr std::array<RowKernel<T>, sizeof...(lengths)> row_kernels(std::integer_sequence<int, lengths...>) {
  return {gather_rows<K, K == 1 ? lengths : long_column, T>...};
}

}  // namespace

template <class T>
template <int K>
void ByRows<T>::forward(double* Y, int threads) const {
  static constexpr auto kernels = row_kernels<K, T>(Lengths());
  const Rows<T> R{order_.data(), ptr_.data(), columns_.data(), values_.data(), Y};
  run_chunks<false>(segments_, threads, [&](int32_t chunk) {
    int64_t at = segments_.begin[chunk];
    for (int32_t r = down_.first[chunk]; r < down_.first[chunk + 1]; at += down_.runs[r++].count)
      kernels[down_.runs[r].length](R, at, at + down_.runs[r].count);
  });
}

template <class T>
template <int K>
void ByRows<T>::backward(const LowerColumns<T>& L, double* Y, const double* d, int threads) const {
  const Stored<T> columns{L, segments_.rows.empty() ? nullptr : segments_.rows.data(), d, Y};
  const Run* const runs = up_.runs.data();
  run_chunks<true>(segments_, threads, [&](int32_t chunk) {
    backward_runs<K>(runs + up_.first[chunk], runs + up_.first[chunk + 1], columns, segments_.begin[chunk + 1]);
  });
}

template <class T>
int64_t ByRows<T>::nbytes() const {
  const auto bytes = [](const auto&... arrays) { return static_cast<int64_t>((... + (arrays.size() * sizeof(*arrays.data())))); };
  return bytes(segments_.rows, segments_.begin, order_, ptr_, columns_, values_, down_.runs, up_.runs);
}

#define MS_BY_ROWS(T)                                                                         \
  template class ByRows<T>;                                                                   \
  MS_BY_ROWS_K(T, 1) MS_BY_ROWS_K(T, 2) MS_BY_ROWS_K(T, 3) MS_BY_ROWS_K(T, 4) MS_BY_ROWS_K(T, 8)
#define MS_BY_ROWS_K(T, K)                                                                    \
  template void ByRows<T>::forward<K>(double*, int) const;                                    \
  template void ByRows<T>::backward<K>(const LowerColumns<T>&, double*, const double*, int) const;
MS_BY_ROWS(double)
MS_BY_ROWS(float)

}  // namespace ms::trisolve
