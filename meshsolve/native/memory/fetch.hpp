// Data that will be read in an order that no processor foresees is asked for ahead of time.
#pragma once
#include <cstdint>

#include "sparse/csr.hpp"

namespace ms {

// g++ takes a function that does nothing but prefetch for one without any effect, and leaves out its calls; the empty assembly
// tells it otherwise.
inline void fetch(const void* at) {
  __builtin_prefetch(at);
  __asm__ volatile("");
}
inline void fetch_to_write(const void* at) {
  __builtin_prefetch(at, 1);
  __asm__ volatile("");
}

// [begin, end), of long blocks their beginning: the processor foresees how these go on.
template <class T>
inline void fetch_block(const T* begin, const T* end) {
  constexpr int64_t line = 64 / sizeof(T), most = 256 * line;
  for (const T* const stop = end - begin > most ? begin + most : end; begin < stop; begin += line) fetch(begin);
}

// To be called at each place of list[0, end) before its row is read: fetches the row of a place further on, and before that its
// pointer.
template <class List>
inline void fetch_row(const Pattern& A, const List& list, int64_t at, int64_t end) {
  constexpr int64_t ahead = 8;
  if (at + 2 * ahead < end) fetch(A.ptr + list[at + 2 * ahead]);
  if (at + ahead < end) fetch(A.idx + A.ptr[list[at + ahead]]);
}

}  // namespace ms
