// A breadth-first search by one block that finds vertices in the very order of a sequential queue.
//
// Layer by layer: every vertex of the layer bids its position for its open neighbours (atomicMin), so each goes to the earliest
// one next to it; each then counts what it has won, a sum over the layer says where that stands in the queue. Within a row
// the order is the row's. Three passes over the rows of each vertex; neighbours in one row may repeat.
#pragma once
#include "device/common.cuh"

namespace ms::patches {

constexpr int no_one = 0x7fffffff;

struct Search {
  const long long* ptr;                                     // graph
  const int* idx;
  int* finder;                                              // (n) no_one between two searches
  int* slot;                                                // (n) scratch
};

// Goes on with a search: found[0, filled) are found, from `head` on not yet looked at. Returns how many are found.
// rule.inside(w): w belongs to this block; rule.open(v, w): w may be found from v; rule.take(v, w): it is;
// rule.place(w, at, from): it stands at found[at], found from found[from]. All threads of the block call it.
template <class Rule> __device__ __forceinline__ int flood(const Search& S, int* found, int head, int filled, const Rule& rule) {
  while (head < filled) {
    for (int i = head + threadIdx.x; i < filled; i += blockDim.x) {
      const int v = found[i];
      S.finder[v] = no_one;                                 // v is settled: nobody bids for it
      for (long long q = S.ptr[v]; q < S.ptr[v + 1]; ++q)
        if (rule.inside(S.idx[q]) && rule.open(v, S.idx[q])) atomicMin(S.finder + S.idx[q], i);
    }
    __syncthreads();
    int next = filled;
    for (int base = head; base < filled; base += blockDim.x) {
      const int i = base + threadIdx.x, v = i < filled ? found[i] : 0;
      const long long begin = i < filled ? S.ptr[v] : 0, end = i < filled ? S.ptr[v + 1] : 0;
      int won = 0, total;
      for (long long q = begin; q < end; ++q) {
        const int w = S.idx[q];
        if (!rule.inside(w) || S.finder[w] != i || !rule.open(v, w)) continue;
        rule.take(v, w);
        S.slot[w] = won++;
      }
      const int first = next + block_exclusive_sum(won, total);
      for (long long q = begin; q < end && won > 0; ++q) {
        const int w = S.idx[q];
        if (!rule.inside(w) || S.finder[w] != i) continue;
        found[first + S.slot[w]] = w;
        rule.place(w, first + S.slot[w], i);
      }
      next += total;
    }
    __syncthreads();
    head = filled;
    filled = next;
  }
  return filled;
}

// The items of 0 .. count - 1 that `keep` picks, as value(i) in their order from out[0] on; returns how many.
template <class Keep, class Value> __device__ __forceinline__ int compact(int count, int* out, Keep keep, Value value) {
  int filled = 0;
  for (int base = 0; base < count; base += blockDim.x) {
    const int i = base + threadIdx.x;
    const bool kept = i < count && keep(i);
    int total;
    const int before = block_exclusive_sum(kept ? 1 : 0, total);
    if (kept) out[filled + before] = value(i);
    filled += total;
  }
  __syncthreads();
  return filled;
}

}  // namespace ms::patches
