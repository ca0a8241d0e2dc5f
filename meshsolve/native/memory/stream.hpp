// Copies to memory that will have left the caches before it is read. Written past the caches, its old contents are not read first.
#pragma once
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ms {

// Copies an even number of values to an address that is a multiple of 16 bytes. far: past the caches; other threads see the values after
// end_streams().
inline void copy_block(const double* from, int64_t count, double* to, bool far) {
#ifdef __SSE2__
  for (; far && count > 0; count -= 2, from += 2, to += 2) _mm_stream_pd(to, _mm_loadu_pd(from));
#endif
  if (count > 0) std::memcpy(to, from, sizeof(double) * count);
}

inline void end_streams() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace ms
