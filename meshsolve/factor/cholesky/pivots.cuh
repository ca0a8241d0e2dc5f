// Elimination of columns, the test of their pivots, and the status of a numeric phase; for subtree.cu, queue.cu and batch.cu.
#pragma once
#include "factor/fronts/fronts.cuh"

namespace ms::cholesky {

// Words of the status, as in plan.py. The counters of queue.cu follow.
enum Status { failed, least, bits, stalled, ticket, counters };
constexpr int stall = 1 << 17;          // bit of a wait in vain

// Records the smallest column whose pivot is not positive and finite: its ancestors fail in later columns only.
__device__ __forceinline__ void record_failure(int* status, long long column) { atomicMin(status + failed, static_cast<int>(column)); }

// Records the smallest float64 exponent of a pivot relative to the diagonal entry `own` of A. Few threads change it: most only read.
__device__ __forceinline__ void record_exponent(int* status, double own, double root) {
  const int exponent = static_cast<int>(__double_as_longlong(root / own * root) >> 52 & 0x7ff);
  if (exponent < *static_cast<volatile int*>(status + least)) atomicMin(status + least, exponent);
}

// Right-looking elimination of a panel, mostly in shared memory. Column j updates the later columns unscaled, and is scaled while column
// j + 1 does: one barrier per column. Returns the first column whose pivot is not positive and finite, or `width`.
template <class T, class Group, class Leading>
__device__ __forceinline__ int eliminate(const Group& g, T* panel, Leading leading, int height, int width) {
  T scale = T(0);
  for (int j = 0;; ++j) {
    T* const column = panel + j * leading;
    if (j > 0)
      for (int i = j - 1 + g.rank; i < height; i += g.size) column[i - leading] *= scale;
    if (j == width) break;
    const T pivot = column[j];
    if (!(pivot > T(0) && pivot - pivot == T(0))) {
      width = j;
      break;
    }
    scale = rsqrt(pivot);
    const T inverse = scale * scale;
    for (int k = j + 1 + g.warp; k < width; k += g.warps) {
      const T x = column[k] * inverse;
      for (int i = k + g.lane; i < height; i += 32) panel[k * leading + i] -= column[i] * x;
    }
    g.sync();
  }
  g.sync();
  return width;
}

}  // namespace ms::cholesky
