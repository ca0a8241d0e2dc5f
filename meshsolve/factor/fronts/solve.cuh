// Parts of the solves with fronts: the rows of a front for K right-hand sides, and triangular solves of 32 unknowns by one warp.
#pragma once
#include "factor/fronts/fronts.cuh"

namespace ms::fronts {

constexpr int pivot_block = 32;

// The rows of a front for K right-hand sides, by columns: pivots in Y (n rows), the others in the front's part of `vectors`.
template <int K, class T> struct Rows {
  const int height, width, updates;
  const long long n, first;
  T *const y, *const below;
  template <class Solve>
  __device__ Rows(const Solve& t, const Front& f)
      : height(static_cast<int>(f.height)), width(static_cast<int>(f.pivots)), updates(f.updates()), n(t.n), first(f.first),
        y(t.Y + f.first), below(t.vectors + f.vector * K) {}
  __device__ T& at(int i, int c) const {
    return i < width ? y[i + c * n] : below[i - width + static_cast<long long>(c) * updates];
  }
};

// y := D^-1 y for a triangle of `width` unknowns by one warp, one row per lane, from the first unknown (`down`) or the last.
// `entry(k)` is the coefficient of unknown k in the row of this lane, or 0; `inverse` is the inverse of the row's diagonal
// entry.
template <int K, class T, class Entry>
__device__ __forceinline__ void substitute(int width, bool down, T inverse, T* y, long long n, Entry entry) {
  const int lane = threadIdx.x & 31;
  const bool mine = lane < width;
  T x[K];
#pragma unroll
  for (int c = 0; c < K; ++c) x[c] = mine ? y[lane + c * n] : T(0);
#pragma unroll 4
  for (int q = 0; q < width; ++q) {
    const int k = down ? q : width - 1 - q;
    const T value = entry(k);
#pragma unroll
    for (int c = 0; c < K; ++c) {
      const T known = __shfl_sync(full_warp, x[c] * inverse, k);
      x[c] = lane == k ? known : x[c] - value * known;
    }
  }
#pragma unroll
  for (int c = 0; c < K; ++c)
    if (mine) y[lane + c * n] = x[c];
}

// Subtracts the rows `from` and below from pivot k of a front: entry(i) is the coefficient of row i. By one warp.
template <int K, class T, class Entry>
__device__ __forceinline__ void take_rows(const Rows<K, T>& v, int k, int from, Entry entry) {
  const int lane = threadIdx.x & 31;
  T sum[K] = {};
  for (int i = from + lane; i < v.height; i += 32) {
    const T x = entry(i);
#pragma unroll
    for (int c = 0; c < K; ++c) sum[c] += x * v.at(i, c);
  }
#pragma unroll
  for (int c = 0; c < K; ++c) {
    const T all = warp_sum(sum[c]);
    if (lane == 0) v.y[k + c * v.n] -= all;
  }
}

// Subtracts the pivots [j, j + width) from row i; the coefficients start at `row` with stride `step`. By one thread.
template <int K, class T>
__device__ __forceinline__ void take_pivots(const Rows<K, T>& v, int i, int j, int width, const T* row, long long step) {
  T sum[K] = {};
  for (int k = 0; k < width; ++k) {
    const T x = row[k * step];
#pragma unroll
    for (int c = 0; c < K; ++c) sum[c] += x * v.y[j + k + c * v.n];
  }
#pragma unroll
  for (int c = 0; c < K; ++c) v.at(i, c) -= sum[c];
}

}  // namespace ms::fronts
