// A warp or a thread block as a team that works on one pivot, and the operations of a team on its edges: sort, merge, sum. Every
// sum has the order of the CPU code (pivot.hpp), for any size of the team.
#pragma once
#include "device/common.cuh"
#include "factor/parac/pivot.hpp"

namespace ms::parac {

struct Warp {
  int rank = static_cast<int>(threadIdx.x & 31), size = 32;
  __device__ void sync() const { __syncwarp(full_warp); }
  __device__ int exclusive_sum(int value, int& total) const {
    const int inclusive = warp_inclusive_sum(value);
    total = __shfl_sync(full_warp, inclusive, 31);
    return inclusive - value;
  }
  __device__ int exclusive_count(bool counts, int& total) const {
    const unsigned votes = __ballot_sync(full_warp, counts);
    total = __popc(votes);
    return __popc(votes & ((1u << rank) - 1));
  }
  __device__ unsigned long long from_first(unsigned long long value) const { return __shfl_sync(full_warp, value, 0); }
};

struct Block {
  int rank = static_cast<int>(threadIdx.x), size = static_cast<int>(blockDim.x);
  __device__ void sync() const { __syncthreads(); }
  __device__ int exclusive_sum(int value, int& total) const { return block_exclusive_sum(value, total); }
  __device__ int exclusive_count(bool counts, int& total) const { return block_exclusive_sum(static_cast<int>(counts), total); }
  __device__ unsigned long long from_first(unsigned long long value) const {
    __shared__ unsigned long long kept;
    __syncthreads();
    if (rank == 0) kept = value;
    __syncthreads();
    return kept;
  }
};

// ---- sorting

// Stable sort of at most 32 edges by one warp: each lane counts the edges before its own.
template <class Less> __device__ __forceinline__ void sort_few(Edge* e, int count, Less less) {
  const int lane = static_cast<int>(threadIdx.x & 31);
  Edge own{0, 0, 0};
  int before = 0;
  if (lane < count) {
    own = e[lane];
    for (int j = 0; j < count; ++j) before += j < lane ? !less(own, e[j]) : less(e[j], own);
  }
  __syncwarp(full_warp);
  if (lane < count) e[before] = own;
  __syncwarp(full_warp);
}

// Odd-even merge sort (Batcher 1968) by the whole team, for any count.
template <class Team, class Less> __device__ __forceinline__ void sort_edges(const Team& team, Edge* e, int count, Less less) {
  if (team.size == 32 && count <= 32) {
    sort_few(e, count, less);
    return;
  }
  for (int p = 1; p < count; p *= 2)
    for (int k = p; k >= 1; k /= 2) {
      const int skipped = k & (p - 1), mask = 2 * p - 1;
      for (int i = team.rank; i + k < count; i += team.size) {
        if (i < skipped || ((i - skipped) & k) != 0 || (i & ~mask) != ((i + k) & ~mask)) continue;
        const Edge a = e[i], b = e[i + k];
        if (less(b, a)) {
          e[i] = b;
          e[i + k] = a;
        }
      }
      team.sync();
    }
}

// ---- merging

// Merges the entries of each neighbor in a list sorted by nearer(), in place. Raises the weights to at least `floor`.
// entries[], if given, receives the number of merged entries. Returns the number of neighbors.
template <class Team>
__device__ __forceinline__ int merge(const Team& team, Edge* e, int d, int samples, double floor, int* entries = nullptr) {
  int kept = 0;
  for (int base = 0; base < d; base += team.size) {
    const int i = base + team.rank;
    const bool head = i < d && (i == 0 || e[i - 1].to != e[i].to);
    Edge sum{0, 0, 0};
    const int next = head ? static_cast<int>(merge_entries(e, i, d, samples, sum)) : i;
    if (head && floor > 0 && sum.w < floor) sum.w = floor;
    int total;
    const int before = team.exclusive_count(head, total);
    team.sync();
    if (head) {
      e[kept + before] = sum;
      if (entries) entries[kept + before] = next - i;
    }
    kept += total;
    team.sync();
  }
  return kept;
}

// ---- sums in a fixed order, each by one thread

__device__ __forceinline__ void suffix_sums(const Warp& warp, const Edge* e, int d, double* suffix) {
  if (warp.rank == 0) suffix_sums(e, d, suffix);
  warp.sync();
}

// Long rows are in global memory: the block copies them to shared memory, tile by tile, for the one thread that sums.
__device__ __forceinline__ void suffix_sums(const Block& block, const Edge* e, int d, double* suffix) {
  constexpr int tile = 256;
  __shared__ double part[256];
  double sum = 0;
  if (block.rank == 0) suffix[d] = 0;
  for (int end = d; end > 0; end -= tile) {
    const int first = end > tile ? end - tile : 0;
    for (int i = first + block.rank; i < end; i += block.size) part[i - first] = e[i].w;
    block.sync();
    for (int i = end - first; block.rank == 0 && i > 0; --i) part[i - 1] = sum += part[i - 1];
    block.sync();
    for (int i = first + block.rank; i < end; i += block.size) suffix[i] = part[i - first];   // part[k] is one thread's, as above
  }
  block.sync();
}

}  // namespace ms::parac
