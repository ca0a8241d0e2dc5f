// Cells that are too large become pieces within the limit, small pieces join others: on the GPU.
//
// Twin of cut.cpp, bit for bit; see there for the method. k_cut: one block an oversized cell, its searches in the order of the
// sequential queue (search.cuh); cells over the limit are few. k_merge: small pieces look for a neighbour one after the other,
// as each changes what the next one finds; one block goes through them, its threads share the work on a piece.
#include "patches/search.cuh"

namespace ms::patches {

constexpr int deepest = 384;                                // slices that wait: each is at most 15/16 of the one it came from

// One cell: [begin, end) of order. `mark` is 0 in every slice that is still to be cut; `tag` the begin of a vertex's slice.
struct Cutter {
  Search search;
  const int* cell;                                          // (n) which cell, before any cut
  int number;
  int *order, *tag, *mark, *queue;
};

struct Slice {                                              // a search inside one slice, over vertices marked `fresh`
  const Cutter& C;
  int begin, fresh;
  int* up;
  __device__ bool inside(int w) const { return C.cell[w] == C.number; }
  __device__ bool open(int, int w) const { return C.tag[w] == begin && C.mark[w] == fresh; }
  __device__ void take(int v, int w) const { C.mark[w] = C.mark[v]; }
  __device__ void place(int, int at, int from) const {
    if (up) up[at] = from;
  }
};

// The first position from `from` on whose vertex has no mark; the search has found fewer than all.
__device__ __forceinline__ int next_unmarked(const Cutter& C, int begin, int from, int size) {
  for (int base = from;; base += blockDim.x) {
    const int i = base + threadIdx.x;
    const int at = block_max(i < size && C.mark[C.order[begin + i]] == 0 ? no_one - i : 0);
    if (at > 0) return no_one - at;
  }
}

// The components of the slice one after the other in found; whether there is one only.
__device__ __forceinline__ bool list_components(const Cutter& C, int begin, int size, int* found) {
  int filled = 0, starts = 0;
  for (int from = 0; filled < size; ++starts) {
    from = next_unmarked(C, begin, from, size);
    if (threadIdx.x == 0) {
      found[filled] = C.order[begin + from];
      C.mark[found[filled]] = 1;
    }
    __syncthreads();
    filled = flood(C.search, found, filled, filled + 1, Slice{C, begin, 0, nullptr});
  }
  return starts == 1;
}

// Orders the slice so that two sides follow each other, the cells of two far vertices, and returns where the second begins.
__device__ __forceinline__ int bisect(const Cutter& C, int begin, int end) {
  const int size = end - begin;
  int* const found = C.queue + begin;
  if (!list_components(C, begin, size, found)) {
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
      C.order[begin + i] = found[i];
      C.mark[found[i]] = 0;
    }
    __syncthreads();
    return begin + size / 2;
  }
  __syncthreads();
  const int a = found[size - 1];
  __syncthreads();
  if (threadIdx.x == 0) C.mark[found[0] = a] = 0;
  __syncthreads();
  flood(C.search, found, 0, 1, Slice{C, begin, 1, nullptr});
  const int b = found[size - 1];
  __syncthreads();
  if (threadIdx.x == 0) {
    C.mark[found[0] = a] = 1;
    C.mark[found[1] = b] = 2;
  }
  __syncthreads();
  flood(C.search, found, 0, 2, Slice{C, begin, 0, nullptr});
  const auto vertex = [&](int i) { return found[i]; };
  const int first = compact(size, C.order + begin, [&](int i) { return C.mark[found[i]] == 1; }, vertex);
  compact(size, C.order + begin + first, [&](int i) { return C.mark[found[i]] == 2; }, vertex);
  for (int i = threadIdx.x; i < size; i += blockDim.x) C.mark[found[i]] = 0;
  __syncthreads();
  return begin + first;
}

// Subtrees of a breadth-first tree: from the leaves up, a subtree joins its parent's piece while that stays within the limit.
// A hub with its leaves ends here; one thread goes through the tree.
__device__ __forceinline__ void cut_tree(const Cutter& C, int begin, int end, int limit, int* scratch, unsigned char* start) {
  const int size = end - begin;
  int *const found = C.queue + begin, *const up = scratch, *const weight = up + size, *const root = weight + size,
  *const at = root + size;
  if (threadIdx.x == 0) {
    C.mark[found[0] = C.order[begin]] = 1;
    up[0] = -1;
  }
  for (int i = threadIdx.x; i < size; i += blockDim.x) weight[i] = 1;
  __syncthreads();
  flood(C.search, found, 0, 1, Slice{C, begin, 0, up});
  if (threadIdx.x == 0) {
    for (int k = size - 1; k >= 0; --k) {
      const bool joins = up[k] >= 0 && weight[up[k]] + weight[k] <= limit;
      if (joins) weight[up[k]] += weight[k];
      root[k] = joins ? up[k] : k;
    }
    int next = begin;
    for (int k = 0; k < size; ++k) {
      if (root[k] == k) {
        start[next] = 1;
        at[k] = next;
        next += weight[k];
      } else {
        root[k] = root[root[k]];                            // the parent stands before and is settled
      }
      C.order[at[root[k]]++] = found[k];
    }
  }
  __syncthreads();
}

// What k_merge knows of the pieces.
struct Merger {
  const long long* ptr;
  const int *idx, *order, *begin, *of;                      // of: (n) piece
  int *size, *into, *contact;                               // contact: (pieces) 0 between two pieces
  __device__ int root(int k) const {
    while (into[k] != k) k = into[k];
    return k;
  }
  // use(root) for the piece behind every edge that leaves the vertices of piece k.
  template <class Use> __device__ __forceinline__ void neighbours(int k, Use use) const {
    for (int i = begin[k] + threadIdx.x; i < begin[k + 1]; i += blockDim.x)
      for (long long q = ptr[order[i]]; q < ptr[order[i] + 1]; ++q) {
        const int other = root(of[idx[q]]);
        if (other != k) use(other);
      }
  }
};

}  // namespace ms::patches

using namespace ms;
using namespace ms::patches;

// Cuts slices [begins[c], ends[c]) of `order`, the cells numbers[c], into pieces of at most limits[c]; start[i] says where one
// begins. finder holds no_one, mark and start 0; scratch holds four numbers a vertex.
extern "C" __global__ void __launch_bounds__(256, 4)
k_cut(const long long* ptr, const int* idx, const int* cell, const int* numbers, const int* begins, const int* ends,
      const int* limits,
      int* order, unsigned char* start, int* tag, int* mark, int* finder, int* slot, int* queue, int* scratch) {
  __shared__ int waiting[deepest];                          // ends of slices that follow the present one, the nearest last
  const int c = blockIdx.x, limit = limits[c];
  const Cutter C{{ptr, idx, finder, slot}, cell, numbers[c], order, tag, mark, queue};
  int b = begins[c], e = ends[c], depth = 0;
  for (int i = b + threadIdx.x; i < e; i += blockDim.x) tag[order[i]] = b;
  __syncthreads();
  for (;;) {
    if (e - b > limit) {
      const int middle = bisect(C, b, e);
      if (min(middle - b, e - middle) * 16ll >= e - b) {
        for (int i = middle + threadIdx.x; i < e; i += blockDim.x) tag[order[i]] = middle;
        if (threadIdx.x == 0) waiting[depth] = e;
        __syncthreads();
        ++depth;
        e = middle;
        continue;
      }
      cut_tree(C, b, e, limit, scratch + 4ll * b, start);
    } else if (threadIdx.x == 0) {
      start[b] = 1;
    }
    if (depth == 0) return;
    b = e;
    e = waiting[--depth];
    __syncthreads();
  }
}

// Small pieces (`small`: those of at most limit / 4, in order) join the neighbour with most contact among those with room, or
// share parts. One block.
extern "C" __global__ void __launch_bounds__(64)
k_merge(const long long* ptr, const int* idx, const int* order, const int* begin, const int* of, const int* small, int count,
        int limit,
        int* size, int* into, int* contact) {
  const Merger M{ptr, idx, order, begin, of, size, into, contact};
  int shared = -1;                                          // piece that others are packed into
  for (int c = 0; c < count; ++c) {
    const int k = small[c], own = size[k];
    if (into[k] != k || own * 4ll > limit) continue;
    const auto has_room = [&](int other) { return size[other] + own <= limit; };
    int leaves = 0;
    M.neighbours(k, [&](int other) {
      leaves = 1;
      if (has_room(other)) atomicAdd(contact + other, 1);
    });
    const bool alone = !__syncthreads_or(leaves);
    unsigned long long best = 0;                            // (contacts << 32 | the lower the better)
    if (!alone) {                                           // isolated vertices may be many: not these barriers for each
      M.neighbours(k, [&](int other) {
        if (has_room(other))
          best = max(best, (static_cast<unsigned long long>(contact[other]) << 32) | static_cast<unsigned>(no_one - other));
      });
      best = block_max(best);
      M.neighbours(k, [&](int other) {
        if (has_room(other)) atomicExch(contact + other, 0);
      });
      __syncthreads();
    }
    int target = best > 0 ? no_one - static_cast<int>(best & 0xffffffffu) : -1;
    const bool tiny = own * 16ll <= limit || own == 1;
    if (target < 0 && (tiny || alone)) {                    // what has neighbours stays connected, unless it is tiny
      if (shared >= 0 && size[shared] + own <= limit) target = shared;
      else shared = k;
    }
    __syncthreads();
    if (threadIdx.x == 0 && target >= 0) {
      size[target] += own;
      into[k] = target;
    }
    __syncthreads();
  }
}

// The root of each piece, and the lowest vertex of each root (`lowest` holds n before).
extern "C" __global__ void __launch_bounds__(256) k_lowest_vertex(int n, const int* of, const int* into, int* root, int* lowest) {
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    int k = of[v];
    while (into[k] != k) k = into[k];
    root[v] = k;
    if (static_cast<volatile int*>(lowest)[k] > v) atomicMin(lowest + k, static_cast<int>(v));
  }
}
