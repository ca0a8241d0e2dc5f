// Breadth-first search by one thread block that finds the vertices in the order of a sequential queue.
//
// Layer by layer: every vertex of the layer offers its queue position to its unvisited neighbors (atomicMin), so each neighbor is
// found by the earliest vertex. Then each vertex counts the neighbors it found, and a prefix sum over the layer gives their queue
// positions. Neighbors found by the same vertex have the order of its row. A row may repeat a neighbor.
// Cost: three passes over the rows.
#pragma once
#include "device/common.cuh"

namespace ms::patches {

constexpr int unclaimed = 0x7fffffff;                          // larger than every queue position

struct Search {
  const long long* ptr;                                     // graph
  const int* idx;
  int* finder;                                              // (n) queue position of the finder; unclaimed between two searches
  int* slot;                                                // (n) scratch
};

// Continues a search: found[0, filled) are found, from `head` on not yet expanded. Returns the number of vertices found.
//
// rule.inside(w): w belongs to this thread block; rule.open(v, w): w may be found from v. rule.mark(v, w) marks w as found from
// v. rule.record(w, at, from): w is found[at], found from found[from]. All threads of the block must call it.
template <class Rule> __device__ __forceinline__ int flood(const Search& S, int* found, int head, int filled, const Rule& rule) {
  while (head < filled) {
    for (int i = head + threadIdx.x; i < filled; i += blockDim.x) {
      const int v = found[i];
      S.finder[v] = unclaimed;                                 // v is found: no thread offers a position to it
      for (long long q = S.ptr[v]; q < S.ptr[v + 1]; ++q)
        if (rule.inside(S.idx[q]) && rule.open(v, S.idx[q])) atomicMin(S.finder + S.idx[q], i);
    }
    __syncthreads();
    int next = filled;
    for (int base = head; base < filled; base += blockDim.x) {
      const int i = base + threadIdx.x, v = i < filled ? found[i] : 0;
      const long long begin = i < filled ? S.ptr[v] : 0, end = i < filled ? S.ptr[v + 1] : 0;
      int found_here = 0, total;
      for (long long q = begin; q < end; ++q) {
        const int w = S.idx[q];
        if (!rule.inside(w) || S.finder[w] != i || !rule.open(v, w)) continue;
        rule.mark(v, w);
        S.slot[w] = found_here++;
      }
      const int first = next + block_exclusive_sum(found_here, total);
      for (long long q = begin; q < end && found_here > 0; ++q) {
        const int w = S.idx[q];
        if (!rule.inside(w) || S.finder[w] != i) continue;
        found[first + S.slot[w]] = w;
        rule.record(w, first + S.slot[w], i);
      }
      next += total;
    }
    __syncthreads();
    head = filled;
    filled = next;
  }
  return filled;
}

// out = value(i) for the items i in 0 .. count - 1 with keep(i), in order. Returns their number. A barrier must follow before other
// threads read `out`.
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
  return filled;
}

}  // namespace ms::patches
