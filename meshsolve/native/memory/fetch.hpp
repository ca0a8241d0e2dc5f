// Prefetches of data that is read in an order that the hardware cannot predict.
#pragma once
#include <cstdint>

#include "sparse/csr.hpp"

namespace ms {

// g++ treats a function that only prefetches as one without effect and drops its calls; the empty assembly statement prevents
// that.
inline void fetch(const void* at) {
  __builtin_prefetch(at);
  __asm__ volatile("");
}
inline void fetch_to_write(const void* at) {
  __builtin_prefetch(at, 1);
  __asm__ volatile("");
}

// Prefetches [begin, end); of a long block only the beginning, as the hardware predicts the rest.
template <class T>
inline void fetch_block(const T* begin, const T* end) {
  constexpr int64_t line = 64 / sizeof(T), most = 256 * line;
  for (const T* const stop = end - begin > most ? begin + most : end; begin < stop; begin += line) fetch(begin);
}

// Call it at each position of list[0, end) before its row is read: prefetches the row of a later position, and the pointer of a
// still later one.
template <class List>
inline void fetch_row(const Pattern& A, const List& list, int64_t at, int64_t end) {
  constexpr int64_t ahead = 8;
  if (at + 2 * ahead < end) fetch(A.ptr + list[at + 2 * ahead]);
  if (at + ahead < end) fetch(A.idx + A.ptr[list[at + ahead]]);
}

}  // namespace ms
