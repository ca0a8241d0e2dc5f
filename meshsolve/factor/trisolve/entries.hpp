// Loops over the entries of a column or a row, K right-hand sides at once, that the solves of one thread and of several share.
#pragma once
#include <array>
#include <cstdint>
#include <utility>

#include "by_rows.hpp"

namespace ms::trisolve {

constexpr int64_t ahead = 256;                   // entries that are fetched before their turn
constexpr int64_t block = 8;                     // entries of a long column that are worked on together: a cache line of values

// Asks for the cache lines `entries` further on, which may lie past the end. The entries of L stream by more slowly than the
// hardware expects of a stream: left to itself it asks for them too late, a quarter of the time of a large factor.
template <class T>
inline void fetch(const int32_t* rows, const T* values, int64_t entries) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(values) + entries * sizeof(T)));
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(rows) + entries * sizeof(int32_t)));
}

// The sum of a long column from its last entry to its first, in two chains of additions that do not wait for each other.
template <int K, class T>
inline void add_long(const int32_t* rows, const T* values, int64_t count, const double* Y, double* sum) {
  double odd[K] = {};
  const auto add = [&](int64_t e, double* to) {
    const double v = static_cast<double>(values[e]);
    for (int c = 0; c < K; ++c) to[c] += v * Y[int64_t{rows[e]} * K + c];
  };
  for (; count >= block; count -= block) {
    fetch(rows + count - block, values + count - block, -ahead);
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

// The same from the first entry to the last: the order in which columns on one thread reach a row.
template <int K, class T>
inline void add_ascending(const int32_t* columns, const T* values, int64_t count, const double* Y, double* sum) {
  for (int64_t e = 0; e < count; ++e) {
    const double v = static_cast<double>(values[e]);
    for (int c = 0; c < K; ++c) sum[c] += v * Y[int64_t{columns[e]} * K + c];
  }
}

using Lengths = std::make_integer_sequence<int, long_column + 1>;

}  // namespace ms::trisolve
