// Matrix products of a front: tiles of the update of a large front, the whole update of a small one.
#pragma once
#include "device/common.cuh"

namespace ms::fronts {

constexpr int tile = 64, inner_tile = 16;

// C -= A B^T for one tile of 64 x 64 entries; A is rows x inner. b(c, k) is the entry of B, read along c, or (by_inner) along k.
// Entries i < j + above are not changed. 256 threads with 4 x 4 entries each, rows and columns 16 apart; reads are coalesced.
template <class T, class B>
__device__ __forceinline__ void subtract_product(const T* A, long long leading, B entry, bool by_inner, int rows, int columns,
                                                 int inner, T* C, long long leading_C, int above) {
  __shared__ T a[inner_tile * tile];
  __shared__ T b[inner_tile * (tile + 1)];                  // padded, as it may be written along rows
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  T sum[4][4] = {};
  for (int from = 0; from < inner; from += inner_tile) {
    for (int k = threadIdx.x; k < inner_tile * tile; k += blockDim.x) {
      const int i = k % tile, j = k / tile;
      a[k] = i < rows && from + j < inner ? A[i + (from + j) * leading] : T(0);
      const int c = by_inner ? k / inner_tile : i, d = by_inner ? k % inner_tile : j;
      b[c + d * (tile + 1)] = c < columns && from + d < inner ? entry(c, from + d) : T(0);
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < inner_tile; ++k) {
      T p[4], q[4];
#pragma unroll
      for (int d = 0; d < 4; ++d) {
        p[d] = a[k * tile + x + 16 * d];
        q[d] = b[k * (tile + 1) + y + 16 * d];
      }
#pragma unroll
      for (int d = 0; d < 16; ++d) sum[d / 4][d % 4] += p[d / 4] * q[d % 4];
    }
    __syncthreads();
  }
#pragma unroll
  for (int d = 0; d < 16; ++d) {
    const int i = x + 16 * (d / 4), j = y + 16 * (d % 4);
    if (i < rows && j < columns && i >= j + above) C[i + j * leading_C] -= sum[d / 4][d % 4];
  }
}

// The same for B in memory with strides `across` and `along`.
template <class T>
__device__ __forceinline__ void subtract_tile(const T* A, long long leading, const T* B, long long across, long long along,
                                              int rows, int columns, int inner, T* C, long long leading_C, int above) {
  const auto entry = [&](int c, int k) { return B[c * across + k * along]; };
  subtract_product(A, leading, entry, along == 1, rows, columns, inner, C, leading_C, above);
}

// C := -A B^T, rows x rows, or only its lower triangle; A and B are rows x width. column_of(j) points to row 0 of column j of C.
// Each thread has 2 x 4 entries in registers.
template <bool lower, class T, class Leading, class Group, class Column>
__device__ __forceinline__ void outer_product(const Group& g, const T* A, Leading leading_a, const T* B, Leading leading_b,
                                              int rows, int width, Column column_of) {
  for (int c = 4 * g.warp; c < rows; c += 4 * g.warps)
    for (int r = lower ? c : 0; r < rows; r += 64) {
      const int i0 = r + g.lane, i1 = i0 + 32;
      const T *const a0 = A + min(i0, rows - 1), *const a1 = A + min(i1, rows - 1);
      T sum[2][4] = {};
      for (int k = 0; k < width; ++k) {
        const T x = a0[k * leading_a], y = a1[k * leading_a];
#pragma unroll
        for (int d = 0; d < 4; ++d) {
          const T b = B[min(c + d, rows - 1) + k * leading_b];
          sum[0][d] -= x * b;
          sum[1][d] -= y * b;
        }
      }
#pragma unroll
      for (int d = 0; d < 4; ++d) {
        const int j = c + d;
        T* const column = column_of(j);
        if ((lower ? j <= i0 : j < rows) && i0 < rows) column[i0] = sum[0][d];
        if ((lower ? j <= i1 : j < rows) && i1 < rows) column[i1] = sum[1][d];
      }
    }
  g.sync();
}

}  // namespace ms::fronts
