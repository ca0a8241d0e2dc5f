// Copies to memory that will have left the caches before it is read: past the caches, so that its old contents are not read first.
#pragma once
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ms {

// Copies an even number of values to an address that is a multiple of 16 bytes. Other threads see them after end_streams().
inline void stream(const double* from, int64_t count, double* to) {
#ifdef __SSE2__
  for (int64_t i = 0; i < count; i += 2) _mm_stream_pd(to + i, _mm_loadu_pd(from + i));
#else
  std::memcpy(to, from, sizeof(double) * count);
#endif
}

inline void end_streams() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace ms
