// Device functions that the kernels of nested dissection share: scores, label votes, and lists of keys.
#pragma once
#include "device/common.cuh"

namespace ms::order {

// Reads a value that other threads may be writing.
template <class T> __device__ __forceinline__ T peek(const T* p) { return *static_cast<const volatile T*>(p); }

// Size of a cut or separator with a penalty for uneven sides, which is steep once the larger side exceeds a share of 0.65.
__device__ __forceinline__ double separator_score(int size, int larger, int total) {
  const double share = static_cast<double>(larger) / total, beyond = share > 0.65 ? share - 0.65 : 0.0;
  return size * (1 + (share - 0.5) + 3 * beyond);
}

// Threads that work on one task: a warp or a thread block. All of them call every function.
struct Warp {
  static __device__ __forceinline__ int rank() { return threadIdx.x & 31; }
  static __device__ __forceinline__ int threads() { return 32; }
  static __device__ __forceinline__ void sync() { __syncwarp(); }
  static __device__ __forceinline__ unsigned long long largest(unsigned long long value) { return warp_max(value); }
  template <class T> static __device__ __forceinline__ T sum(T value) { return warp_sum(value); }
  static __device__ __forceinline__ int count_before(bool counts, int& total) {
    const unsigned ballot = __ballot_sync(full_warp, counts);
    total = __popc(ballot);
    return __popc(ballot & ((1u << rank()) - 1));
  }
  static __device__ __forceinline__ int sum_before(int value, int& total) {
    const int sum = warp_inclusive_sum(value);
    total = __shfl_sync(full_warp, sum, 31);
    return sum - value;
  }
};

struct Block {
  static __device__ __forceinline__ int rank() { return threadIdx.x; }
  static __device__ __forceinline__ int threads() { return blockDim.x; }
  static __device__ __forceinline__ void sync() { __syncthreads(); }
  static __device__ __forceinline__ unsigned long long largest(unsigned long long value) { return block_max(value); }
  template <class T> static __device__ __forceinline__ T sum(T value) {
    T total;
    block_exclusive_sum(value, total);
    return total;
  }
  static __device__ __forceinline__ int count_before(bool counts, int& total) { return sum_before(counts ? 1 : 0, total); }
  static __device__ __forceinline__ int sum_before(int value, int& total) { return block_exclusive_sum(value, total); }
};

constexpr int counted_row = 32;                             // longest row whose labels are counted; longer rows draw any label

// The most frequent label >= 0 among the entries of a row, ties at random; -1 if there is no such label.
template <class Label> __device__ inline int most_frequent(const int* row, int length, unsigned long long draw, Label label) {
  int labels[counted_row];                                  // read once: global memory is slow
  const bool counts = length <= counted_row;
  for (int k = 0; counts && k < length; ++k) labels[k] = label(row[k]);
  int best = -1, most = 0;
  unsigned best_draw = 0;
  for (int k = 0; k < length; ++k) {
    const int mine = counts ? labels[k] : label(row[k]);
    if (mine < 0 || mine == best) continue;
    int count = 0;
    for (int j = k; counts && j < length; ++j) count += labels[j] == mine;
    const unsigned its_draw = static_cast<unsigned>(mix64(draw + mine));
    if (best >= 0 && (count < most || (count == most && its_draw <= best_draw))) continue;
    best = mine;
    most = count;
    best_draw = its_draw;
  }
  return best;
}

// Reserves `count` entries per thread in a list that thread blocks fill in any order. Returns the first entry of this thread.
// Every thread of the block must call it.
__device__ inline long long claim(int count, unsigned long long* used) {
  __shared__ long long base;
  int total;
  const int before = block_exclusive_sum(count, total);
  if (threadIdx.x == 0) base = static_cast<long long>(atomicAdd(used, static_cast<unsigned long long>(total)));
  __syncthreads();
  const long long at = base + before;
  return at;
}

// Lists key(label, neighbor) for the neighbors of all vertices with label >= 0, in any order; keys < 0 are left out. With `keys`
// null it only counts them, in *used.
template <class Label, class Key>
__device__ __forceinline__ void list_keys(int n, const long long* ptr, const int* idx, unsigned long long* used, long long* keys,
                                          Label label, Key key) {
  for (long long first = grid_begin() - threadIdx.x; first < n; first += grid_step()) {
    const long long v = first + threadIdx.x;
    const int mine = v < n ? label(v) : -1;
    const long long begin = mine < 0 ? 0 : ptr[v], end = mine < 0 ? 0 : ptr[v + 1];
    int found = 0;
    for (long long k = begin; k < end; ++k) found += key(mine, idx[k]) >= 0;
    long long at = claim(found, used);
    for (long long k = begin; keys && k < end; ++k) {
      const long long one = key(mine, idx[k]);
      if (one >= 0) keys[at++] = one;
    }
  }
}

}  // namespace ms::order
