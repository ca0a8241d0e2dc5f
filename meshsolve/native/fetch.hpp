// Rows of a matrix that are read in another order lie far apart in memory: they are asked for ahead of time.
#pragma once
#include <cstdint>

#include "csr.hpp"

namespace ms {

// To be called at each place of list[0, end) before its row is read: fetches the row of a place further on, and before that its
// pointer.
template <class List>
inline void fetch_row(const Pattern& A, const List& list, int64_t at, int64_t end) {
  constexpr int64_t ahead = 8;
  if (at + 2 * ahead < end) __builtin_prefetch(A.ptr + list[at + 2 * ahead]);
  if (at + ahead < end) __builtin_prefetch(A.idx + A.ptr[list[at + ahead]]);
}

}  // namespace ms
