// The renumbered matrix, and the solves. Forward by columns on one thread, by rows on several. Backward by columns: the sum of a
// column runs from its last entry to its first. The row of the first was solved last, and the other terms do not wait for it.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "entries.hpp"
#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "pieces.hpp"
#include "trisolve.hpp"

namespace ms::trisolve {
namespace {

constexpr int64_t parallel_work = 300'000;       // entries times right-hand sides; below it one thread is faster
constexpr int64_t worth = 96;                    // right-hand sides times threads before the row form is made

// Position of each column of the caller: the inverse of an order.
RawVector<int32_t> positions(const int32_t* order, int32_t n) {
  RawVector<int32_t> position(n);
  for (int32_t q = 0; q < n; ++q) position[order[q]] = q;
  return position;
}

}  // namespace

template <class T>
UnitLower<T>::UnitLower(ColumnStores<T>&& columns, bool by_levels, const int32_t* order, int threads)
    : n_(columns.n()), by_levels_(by_levels), order_(n_) {
  if (order)
    order_.assign(order, order + n_);
  else
    std::iota(order_.begin(), order_.end(), 0);
  arrange(Source(std::move(columns), order), threads);
  find_runs();
}

// The caller's columns, column order[q] as number q.
template <class T>
struct UnitLower<T>::Source {
  ColumnStores<T> columns;
  const int32_t* order;                 // null: unchanged
  RawVector<int32_t> number;            // (n) position in that order of row i of the stores; empty: i

  Source(ColumnStores<T>&& all, const int32_t* in_order) : columns(std::move(all)), order(in_order), number(std::move(columns.name)) {
    if (!order) return;
    const RawVector<int32_t> position = positions(order, columns.n());
    if (number.empty()) number.resize(columns.n());
    for (int32_t i = 0; i < columns.n(); ++i) number[i] = position[columns.row(i)];
  }
  bool in_place() const { return !order && columns.position.empty(); }
  int32_t at(int32_t q) const { return order ? order[q] : q; }
};

template <class T>
struct UnitLower<T>::Piece {             // of one worker: the original columns of a piece
  std::vector<int64_t> ptr;
  std::vector<int32_t> rows, level;
  std::vector<T> values;
};

// Copies the columns [a, b) to their positions in ptr_.
template <class T>
void UnitLower<T>::load(int32_t a, int32_t b, const Source& source, Piece& piece) const {
  constexpr int32_t ahead = 8;
  const ColumnStores<T>& columns = source.columns;
  const int64_t begin = ptr_[a], end = ptr_[b];
  piece.ptr.assign(ptr_.begin() + a, ptr_.begin() + b + 1);
  if (source.in_place()) {
    piece.rows.assign(rows_.begin() + begin, rows_.begin() + end);
    piece.values.assign(values_.begin() + begin, values_.begin() + end);
  } else {
    piece.rows.resize(end - begin);
    piece.values.resize(end - begin);
    for (int32_t q = a; q < b; ++q) {
      if (q + ahead < b) {
        fetch(columns.rows(source.at(q + ahead)));
        fetch(columns.values(source.at(q + ahead)));
      }
      std::copy_n(columns.rows(source.at(q)), ptr_[q + 1] - ptr_[q], piece.rows.begin() + (ptr_[q] - begin));
      std::copy_n(columns.values(source.at(q)), ptr_[q + 1] - ptr_[q], piece.values.begin() + (ptr_[q] - begin));
    }
  }
  if (!source.number.empty())
    for (int32_t& row : piece.rows) row = source.number[row];
}

// Computes the order from[a .. b) of the columns [a, b), and moves them.
template <class T>
void UnitLower<T>::arrange_piece(int32_t a, int32_t b, const Piece& old, std::vector<int32_t>& level, int32_t* from) {
  const int64_t begin = old.ptr[0];
  const auto dependents = [&](int32_t k, auto&& f) {
    for (int64_t p = old.ptr[k] - begin; p < old.ptr[k + 1] - begin; ++p) f(old.rows[p] < b ? old.rows[p] - a : k);
  };
  order_piece(b - a, dependents, [&](int32_t k) { return old.ptr[k + 1] - old.ptr[k]; }, level, from + a);
  int64_t to = begin;
  for (int32_t q = a; q < b; ++q) {
    if (q > a) ptr_[q] = to;             // neighbor pieces share the ends
    const int32_t k = from[q];
    for (int64_t p = old.ptr[k] - begin; p < old.ptr[k + 1] - begin; ++p, ++to) {
      rows_[to] = old.rows[p];
      values_[to] = old.values[p];
    }
    from[q] += a;
  }
}

// Moves the columns into this matrix, each piece in its own order. A single store in the right order is arranged in place.
template <class T>
void UnitLower<T>::arrange(Source&& source, int threads) {
  if (source.order) {
    ptr_.resize(n_ + int64_t{1});
    ptr_[0] = 0;
    for (int32_t q = 0; q < n_; ++q) ptr_[q + 1] = ptr_[q] + source.columns.length(source.order[q]);
  } else {
    ptr_ = std::move(source.columns.ptr);
  }
  if (source.in_place()) {
    rows_ = std::move(source.columns.stores[0].rows);
    values_ = std::move(source.columns.stores[0].values);
  } else {
    rows_.resize(nnz());
    values_.resize(nnz());
    make_pages_of(rows_, 0, nnz(), threads);
    make_pages_of(values_, 0, nnz(), threads);
  }
  RawVector<int32_t> from(n_), position(n_);
  std::vector<Piece> work(threads);
  for_range(threads, (int64_t{n_} + piece - 1) / piece, 4, [&](int64_t first, int64_t last, int worker) {
    for (int64_t at = first; at < last; ++at) {
      const int32_t a = static_cast<int32_t>(at * piece), b = static_cast<int32_t>(std::min<int64_t>(n_, (at + 1) * piece));
      load(a, b, source, work[worker]);
      arrange_piece(a, b, work[worker], work[worker].level, from.data());
      for (int32_t q = a; q < b; ++q) position[from[q]] = q;
    }
  });
  for_range(threads, nnz(), 1 << 16, [&](int64_t first, int64_t last, int) {
    for (int64_t p = first; p < last; ++p) rows_[p] = position[rows_[p]];
  });
  for_range(threads, n_, 1 << 16, [&](int64_t first, int64_t last, int) {
    for (int64_t q = first; q < last; ++q) from[q] = order_[from[q]];
  });
  order_.swap(from);
  for_range(threads, static_cast<int64_t>(source.columns.stores.size()), 1, [&](int64_t first, int64_t last, int) {
    for (int64_t k = first; k < last; ++k) source.columns.stores[k] = {};          // returns their pages, which takes time
  });
}

template <class T>
void UnitLower<T>::find_runs() {
  for (int32_t q = 0; q < n_; ++q) add_to_runs(runs_, ptr_[q + 1] - ptr_[q], q == 0);
}

template <class T>
void UnitLower<T>::original(RawVector<int64_t>& ptr, RawVector<int32_t>& rows, RawVector<T>& values) const {
  const RawVector<int32_t> position = positions(order_.data(), n_);
  ptr.resize(n_ + int64_t{1});
  ptr[0] = 0;
  rows.resize(nnz());
  values.resize(nnz());
  for (int32_t k = 0; k < n_; ++k) {
    const int32_t q = position[k];
    int64_t at = ptr[k];
    for (int64_t p = ptr_[q]; p < ptr_[q + 1]; ++p, ++at) {
      rows[at] = order_[rows_[p]];
      values[at] = values_[p];
    }
    ptr[k + 1] = at;
  }
}

template <class T>
int64_t UnitLower<T>::nbytes() const {
  const int64_t entry = sizeof(int32_t) + sizeof(T), row = sizeof(int64_t) + sizeof(int32_t);
  const ByRows<T>* const R = kept_->ready;
  return nnz() * entry + n_ * row + static_cast<int64_t>(runs_.size() * sizeof(Run)) + (R ? R->nbytes() : 0);
}

// The row form, or null until or unless it pays. A solve on more threads counts more.
template <class T>
const ByRows<T>* UnitLower<T>::by_rows(int64_t columns, int threads) const {
  if (kept_->solved.fetch_add(columns, std::memory_order_relaxed) * threads < worth) return nullptr;
  std::call_once(kept_->once, [&] {
    kept_->by_rows = std::make_unique<const ByRows<T>>(this->columns(), by_levels_, threads);
    if (!kept_->by_rows->worthwhile()) kept_->by_rows.reset();
    kept_->ready = kept_->by_rows.get();
  });
  return kept_->ready;
}

namespace {

// Adds `count` entries of a column to their rows. All rows are read before the first is written, as they are distinct: a write
// with an unknown address would delay the reads after it.
template <int K, int count, class T>
inline void scatter_entries(const int32_t* rows, const T* values, const double* s, double* Y) {
  double sum[count > 0 ? count : 1][K];
  for (int e = 0; e < count; ++e)
    for (int c = 0; c < K; ++c) sum[e][c] = Y[int64_t{rows[e]} * K + c] + static_cast<double>(values[e]) * s[c];
  for (int e = 0; e < count; ++e)
    for (int c = 0; c < K; ++c) Y[int64_t{rows[e]} * K + c] = sum[e][c];
}

// Columns [from, to) with `length` entries each; `long_column` stands for any number.
template <int K, int length, class T>
void scatter(const Stored<T>& L, int64_t from, int64_t to) {
  const int32_t* rows = L.of.rows + L.of.ptr[from];
  const T* values = L.of.values + L.of.ptr[from];
  for (int64_t k = from; k < to; ++k) {
    double s[K];
    for (int c = 0; c < K; ++c) s[c] = L.Y[k * K + c];
    if constexpr (length < long_column) {
      if (length > 2) fetch_entries(rows, values, ahead);
      scatter_entries<K, length>(rows, values, s, L.Y);
      rows += length;
      values += length;
    } else {
      const int32_t* const end = L.of.rows + L.of.ptr[k + 1];
      for (; end - rows >= block; rows += block, values += block) {
        fetch_entries(rows, values, ahead);
        scatter_entries<K, K == 1 ? block : 1>(rows, values, s, L.Y);
        for (int e = 1; e < block && K > 1; ++e) scatter_entries<K, 1>(rows + e, values + e, s, L.Y);
      }
      for (; rows < end; ++rows, ++values) scatter_entries<K, 1>(rows, values, s, L.Y);
    }
  }
}

// By length for one right-hand side; for several, the loop over entries is long enough without constants.
template <int K, class T, int... lengths>
constexpr std::array<Kernel<T>, sizeof...(lengths)> scatters(std::integer_sequence<int, lengths...>) {
  return {scatter<K, K == 1 ? lengths : long_column, T>...};
}

template <int K, class T>
void forward_runs(const std::vector<Run>& runs, const Stored<T>& L) {
  static constexpr auto kernels = scatters<K, T>(Lengths());
  int64_t k = 0;
  for (const Run& run : runs) {
    kernels[run.length](L, k, k + run.count);
    k += run.count;
  }
}

}  // namespace

template <class T>
template <int K>
void UnitLower<T>::run(double* Y, const double* d, bool down, bool up, int threads) const {
  const ByRows<T>* const R = threads <= 1 || nnz() * K < parallel_work ? nullptr : by_rows(K, threads);
  if (!R) {
    const Stored<T> L{columns(), nullptr, d, Y};
    if (down) forward_runs<K>(runs_, L);
    if (up) backward_runs<K>(runs_.data(), runs_.data() + runs_.size(), L, n_);
    return;
  }
  if (down) R->template forward<K>(Y, threads);
  if (up) R->template backward<K>(columns(), Y, d, threads);
}

template <class T>
void UnitLower<T>::solve_pair(double* Y, int K, const double* d, int threads) const {
  in_groups(K, [&](auto width, int64_t) { run<width>(Y, d, true, true, threads); });
}

template <class T>
void UnitLower<T>::forward(double* Y, int K, int threads) const {
  in_groups(K, [&](auto width, int64_t) { run<width>(Y, nullptr, true, false, threads); });
}

template <class T>
void UnitLower<T>::backward(double* Y, int K, const double* d, int threads) const {
  in_groups(K, [&](auto width, int64_t) { run<width>(Y, d, false, true, threads); });
}

template class UnitLower<double>;
template class UnitLower<float>;

}  // namespace ms::trisolve
