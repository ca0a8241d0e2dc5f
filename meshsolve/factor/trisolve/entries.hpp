// Loops over the entries of a column or a row for K right-hand sides, shared by the solves on one and on several threads.
#pragma once
#include <array>
#include <cstdint>
#include <utility>

#include "by_rows.hpp"
#include "native/memory/fetch.hpp"

namespace ms::trisolve {

constexpr int64_t ahead = 256;                   // distance of prefetches, in entries
constexpr int64_t block = 8;                     // entries of a long column per step: a cache line of values

// Prefetches the cache lines `entries` further on, which may be past the end. The hardware prefetches such a slow stream too
// late, which costs a quarter of the time with a large factor.
template <class T>
inline void fetch_entries(const int32_t* rows, const T* values, int64_t entries) {
  fetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(values) + entries * sizeof(T)));
  fetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(rows) + entries * sizeof(int32_t)));
}

// Sum of a long column from its last entry to its first, in two independent chains of additions.
template <int K, class T>
inline void add_long(const int32_t* rows, const T* values, int64_t count, const double* Y, double* sum) {
  double odd[K] = {};
  const auto add = [&](int64_t e, double* to) {
    const double v = static_cast<double>(values[e]);
    for (int c = 0; c < K; ++c) to[c] += v * Y[int64_t{rows[e]} * K + c];
  };
  for (; count >= block; count -= block) {
    fetch_entries(rows + count - block, values + count - block, -ahead);
    for (int64_t e = count - 1; e > count - block; e -= 2) {
      add(e, sum);
      add(e - 1, odd);
    }
  }
  while (count > 0) add(--count, sum);
  for (int c = 0; c < K; ++c) sum[c] += odd[c];
}

template <int K, class T>
inline void add_short(const int32_t* rows, const T* values, int64_t count, const double* Y, double* sum) {
  for (int64_t e = count - 1; e >= 0; --e) {
    const double v = static_cast<double>(values[e]);
    for (int c = 0; c < K; ++c) sum[c] += v * Y[int64_t{rows[e]} * K + c];
  }
}

// The same from the first entry to the last: the order in which the columns on one thread update a row.
template <int K, class T>
inline void add_ascending(const int32_t* columns, const T* values, int64_t count, const double* Y, double* sum) {
  for (int64_t e = 0; e < count; ++e) {
    const double v = static_cast<double>(values[e]);
    for (int c = 0; c < K; ++c) sum[c] += v * Y[int64_t{columns[e]} * K + c];
  }
}

// The columns of L, or those at the positions of `list`. d may be null (all ones).
template <class T>
struct Stored {
  LowerColumns<T> of;
  const int32_t* list;
  const double* d;
  double* Y;
};
template <class T> using Kernel = void (*)(const Stored<T>&, int64_t, int64_t);

// Backward: the columns at the positions [from, to) with `length` entries each (`long_column`: any number), from the last to the
// first. Without a list they are consecutive.
template <int K, int length, class T>
void gather(const Stored<T>& L, int64_t from, int64_t to) {
  const int64_t* const ptr = L.of.ptr;
  for (int64_t at = to, p = ptr[to]; at-- > from;) {
    const int64_t k = L.list ? L.list[at] : at, count = length < long_column ? length : ptr[k + 1] - ptr[k];
    const double scale = L.d ? L.d[k] : 1.0;
    double s[K];
    for (int c = 0; c < K; ++c) s[c] = L.Y[k * K + c] * scale;
    p = L.list ? ptr[k] : p - count;
    const int32_t* const rows = L.of.rows + p;
    const T* const values = L.of.values + p;
    if (length > 2 && length < long_column) fetch_entries(rows, values, -ahead);
    if (count >= long_column)
      add_long<K>(rows, values, count, L.Y, s);
    else
      add_short<K>(rows, values, count, L.Y, s);
    for (int c = 0; c < K; ++c) L.Y[k * K + c] = s[c];
  }
}

// By length for one right-hand side; for several, the loop over entries is long enough without constants.
template <int K, class T, int... lengths>
constexpr std::array<Kernel<T>, sizeof...(lengths)> gathers(std::integer_sequence<int, lengths...>) {
  return {gather<K, K == 1 ? lengths : long_column, T>...};
}

using Lengths = std::make_integer_sequence<int, long_column + 1>;

// Solves the runs [first, last), which end at position `end`.
template <int K, class T>
void backward_runs(const Run* first, const Run* last, const Stored<T>& L, int64_t end) {
  static constexpr auto kernels = gathers<K, T>(Lengths());
  for (; last-- > first; end -= last->count) kernels[last->length](L, end - last->count, end);
}

}  // namespace ms::trisolve
