// Device functions that the kernels of all packages share: sums over a warp and a thread block, sorts, searches, waits with a
// timeout.
//
// Only the subset of CUDA that both NVRTC and the kernel harness of the tests compile. No standard header, no CUB, no inline PTX
// outside ptx.cuh, no __activemask. Masks are constants or come from a ballot. One __shared__ variable per declaration, inside a
// function. Flags between thread blocks are volatile or atomic; the data that they guard is accessed after __threadfence. Kernels
// are extern "C" with __launch_bounds__, called k_<verb>. Blocks are one-dimensional and a multiple of 32 threads wide.
#pragma once
#include "native/rng.hpp"

namespace ms {

constexpr unsigned full_warp = 0xffffffffu;

// First item of a loop in strides of the whole grid, and its step.
__device__ inline long long grid_begin() { return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline long long grid_step() { return static_cast<long long>(gridDim.x) * blockDim.x; }

// ---- sums in a warp and a block

template <class T> __device__ inline T warp_inclusive_sum(T value) {
  const int lane = threadIdx.x & 31;
  for (int d = 1; d < 32; d *= 2) {
    const T below = __shfl_up_sync(full_warp, value, d);
    if (lane >= d) value += below;
  }
  return value;
}

// The sum and the largest value of a warp, returned in all lanes.
template <class T> __device__ __forceinline__ T warp_sum(T value) {
  for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(full_warp, value, d);
  return value;
}

template <class T> __device__ __forceinline__ T warp_max(T value) {
  for (int d = 16; d > 0; d /= 2) {
    const T other = __shfl_xor_sync(full_warp, value, d);
    if (other > value) value = other;
  }
  return value;
}

__device__ __forceinline__ unsigned warp_max(unsigned value) { return __reduce_max_sync(full_warp, value); }

__device__ __forceinline__ double warp_max(double value) {  // no NaN; comparisons would take more registers
  for (int d = 16; d > 0; d /= 2) value = fmax(value, __shfl_xor_sync(full_warp, value, d));
  return value;
}

// Sum over the threads before this one, and over all of them. Every thread of the block calls it.
template <class T> __device__ inline T block_exclusive_sum(T value, T& total) {
  __shared__ T sums[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const T inclusive = warp_inclusive_sum(value);
  if (lane == 31) sums[warp] = inclusive;
  __syncthreads();
  if (warp == 0) {
    const T sum = warp_inclusive_sum(lane < warps ? sums[lane] : T(0));
    sums[lane] = sum;
  }
  __syncthreads();
  total = sums[warps - 1];
  const T before = warp > 0 ? sums[warp - 1] : T(0);
  __syncthreads();                                          // the next call may write
  return before + inclusive - value;
}

// The largest value of the thread block, returned in every thread. Every thread of the block calls it.
template <class T> __device__ inline T block_max(T value) {
  __shared__ T largest[32];
  value = warp_max(value);
  if ((threadIdx.x & 31) == 0) largest[threadIdx.x >> 5] = value;
  __syncthreads();
  value = largest[0];
  for (int w = 1; w < static_cast<int>(blockDim.x >> 5); ++w)
    if (largest[w] > value) value = largest[w];
  __syncthreads();
  return value;
}

// Exclusive scan of `count` integers in place, by the whole block: row[k] becomes the sum of the entries before k.
__device__ inline int block_exclusive_sums(int* row, int count) {
  int before = 0;
  for (int base = 0; base < count; base += blockDim.x) {
    const int k = base + threadIdx.x;
    int total;
    const int sum = block_exclusive_sum(k < count ? row[k] : 0, total);
    if (k < count) row[k] = before + sum;
    before += total;
  }
  __syncthreads();
  return before;
}

// ---- sorting and searching

// Pairs are sorted by their first number, then by the second.
__device__ __forceinline__ long long pair_key(int first, int second) { return (static_cast<long long>(first) << 32) | second; }

// Sorts a row by one thread: insertion sort if the row is short or nearly sorted, else heap sort.
template <class T> __device__ __forceinline__ void sift_down(T* row, int root, int count) {
  const T x = row[root];
  for (int child = 2 * root + 1; child < count; child = 2 * root + 1) {
    if (child + 1 < count && row[child + 1] > row[child]) ++child;
    if (!(row[child] > x)) break;
    row[root] = row[child];
    root = child;
  }
  row[root] = x;
}

template <class T> __device__ __forceinline__ void sort_row(T* row, int count) {
  if (count <= 48) {
    for (int i = 1; i < count; ++i) {
      const T x = row[i];
      int j = i;
      for (; j > 0 && row[j - 1] > x; --j) row[j] = row[j - 1];
      row[j] = x;
    }
    return;
  }
  for (int root = count / 2 - 1; root >= 0; --root) sift_down(row, root, count);
  for (int last = count - 1; last > 0; --last) {
    const T x = row[last];
    row[last] = row[0];
    row[0] = x;
    sift_down(row, 0, last);
  }
}

// Sorts `count` values in shared or global memory by the whole block: odd-even merge sort (Batcher 1968), any count.
template <class T> __device__ inline void block_sort(T* row, int count) {
  for (int p = 1; p < count; p *= 2)
    for (int k = p; k >= 1; k /= 2) {
      for (int i = threadIdx.x; i < count; i += blockDim.x) {
        const int j = i + k;
        if (j >= count || i < k % p || ((i - k % p) / k) % 2 != 0 || i / (2 * p) != j / (2 * p)) continue;
        const T a = row[i], b = row[j];
        if (a > b) {
          row[i] = b;
          row[j] = a;
        }
      }
      __syncthreads();
    }
}

// The first position of an ascending row whose value is not below x.
template <class T> __device__ inline int lower_bound(const T* row, int count, T x) {
  int first = 0;
  while (count > 0) {
    const int half = count / 2;
    if (row[first + half] < x) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

// ---- waiting for another thread block

// A wait with a timeout, for kernels whose thread blocks wait for each other. A wait that takes too long sets *stalled, which
// ends all other waits of the kernel at once. device.check_stall raises an exception for it.
//   Timeout timeout(stalled);
//   if (!timeout.until([&] { return reinterpret_cast<volatile int*>(done)[c] != 0; })) return;
struct Timeout {
  int* const stalled;
  unsigned sleep = 16, longest = 1024;                      // nanoseconds
  long long left = 4000000;                                 // about four seconds of sleeping
  __device__ explicit Timeout(int* flag) : stalled(flag) {}
  template <class Ready> __device__ bool until(Ready ready) {
    while (!ready()) {
      if (--left < 0) atomicExch(stalled, 1);
      if (*static_cast<volatile int*>(stalled)) return false;
      __nanosleep(sleep);
      if (sleep < longest) sleep *= 2;
    }
    __threadfence();                                        // data that the other block wrote before its flag is visible
    return true;
  }
};

}  // namespace ms
