// Cuts cells beyond the limit into pieces, and merges small pieces with others, on the GPU.
//
// CPU counterpart: cut.cpp, bit for bit, which describes the method. Kernel k_cut: one thread block per cell beyond the limit, of which
// there are few; its searches have the order of the sequential queue (search.cuh). Kernel k_merge: small pieces choose a neighbor one
// after the other, since each choice affects the next one. One thread block processes them all; its threads share the work on a
// piece.
#include "patches/search.cuh"

namespace ms::patches {

constexpr int deepest = 384;                                // most slices on the stack: a slice has at most 15/16 of its parent

// Cuts one cell, [begin, end) of order. `mark` is 0 in every slice that is not cut yet; `tag` is the start of a vertex's slice.
struct Cutter {
  Search search;
  const int* cell;                                          // (n) cell of each vertex before the cuts
  int number;
  int *order, *tag, *mark, *queue;
};

struct Slice {                                              // rule of a search within one slice, over vertices with mark `fresh`
  const Cutter& C;
  int begin, fresh;
  int* up;
  __device__ bool inside(int w) const { return C.cell[w] == C.number; }
  __device__ bool open(int, int w) const { return C.tag[w] == begin && C.mark[w] == fresh; }
  __device__ void mark(int v, int w) const { C.mark[w] = C.mark[v]; }
  __device__ void record(int, int at, int from) const {
    if (up) up[at] = from;
  }
};

// The first position from `from` on whose vertex has no mark. There must be one.
__device__ __forceinline__ int next_unmarked(const Cutter& C, int begin, int from, int size) {
  for (int base = from;; base += blockDim.x) {
    const int i = base + threadIdx.x;
    const int at = block_max(i < size && C.mark[C.order[begin + i]] == 0 ? unclaimed - i : 0);
    if (at > 0) return unclaimed - at;
  }
}

// Lists the components of the slice one after the other in `found`. Returns true if there is only one.
__device__ __forceinline__ bool list_components(const Cutter& C, int begin, int size, int* found) {
  int filled = 0, starts = 0;
  for (int from = 0; filled < size; ++starts) {
    from = next_unmarked(C, begin, from, size);
    if (threadIdx.x == 0) {
      found[filled] = C.order[begin + from];
      C.mark[found[filled]] = 1;
    }
    filled = flood(C.search, found, filled, filled + 1, Slice{C, begin, 0, nullptr});
  }
  return starts == 1;
}

// Orders the slice so that one side follows the other: the cells of two distant vertices. Returns the start of the second side.
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
  const int a = found[size - 1];
  if (threadIdx.x == 0) C.mark[found[0] = a] = 0;
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

// Cuts a breadth-first tree into pieces: from the leaves to the root, a subtree joins the piece of its parent if the sum is
// within the limit. Used for a vertex with many leaves. One thread processes the tree.
__device__ __forceinline__ void cut_tree(const Cutter& C, int begin, int end, int limit, int* scratch, unsigned char* start) {
  const int size = end - begin;
  int *const found = C.queue + begin, *const up = scratch, *const weight = up + size, *const root = weight + size,
  *const at = root + size;
  if (threadIdx.x == 0) {
    C.mark[found[0] = C.order[begin]] = 1;
    up[0] = -1;
  }
  for (int i = threadIdx.x; i < size; i += blockDim.x) weight[i] = 1;
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
        root[k] = root[root[k]];                            // the parent comes first
      }
      C.order[at[root[k]]++] = found[k];
    }
  }
}

// The pieces, for k_merge.
struct Merger {
  const long long* ptr;
  const int *idx, *order, *begin, *of;                      // of: (n) piece of each vertex
  int *size, *into, *contact;                               // contact: (pieces) counts of common edges, 0 between two pieces
  __device__ int root(int k) const {
    while (into[k] != k) k = into[k];
    return k;
  }
  // use(piece) for the other end of every edge that leaves piece k.
  template <class Use> __device__ __forceinline__ void for_neighbors(int k, Use use) const {
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

// Cuts the cells numbers[c], slices [begins[c], ends[c]) of `order`, into pieces of at most limits[c] vertices. start[i] = 1 if a
// piece starts at position i. On entry finder = unclaimed, mark = start = 0. scratch: four entries per vertex.
extern "C" __global__ void __launch_bounds__(256, 4)
k_cut(const long long* ptr, const int* idx, const int* cell, const int* numbers, const int* begins, const int* ends,
      const int* limits,
      int* order, unsigned char* start, int* tag, int* mark, int* finder, int* slot, int* queue, int* scratch) {
  __shared__ int stack[deepest];                            // ends of the slices that follow the current one, the nearest last
  const int c = blockIdx.x, limit = limits[c];
  const Cutter C{{ptr, idx, finder, slot}, cell, numbers[c], order, tag, mark, queue};
  int b = begins[c], e = ends[c], depth = 0;
  for (int i = b + threadIdx.x; i < e; i += blockDim.x) tag[order[i]] = b;
  for (;;) {
    if (e - b > limit) {
      const int middle = bisect(C, b, e);
      if (min(middle - b, e - middle) * 16ll >= e - b) {
        for (int i = middle + threadIdx.x; i < e; i += blockDim.x) tag[order[i]] = middle;
        if (threadIdx.x == 0) stack[depth] = e;
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
    e = stack[--depth];
  }
}

// Merges small pieces (`small`: at most limit / 4 vertices, ascending). Each joins the neighbor with most common edges if the sum
// is within the limit, or shares a part. One thread block.
extern "C" __global__ void __launch_bounds__(64)
k_merge(const long long* ptr, const int* idx, const int* order, const int* begin, const int* of, const int* small, int count,
        int limit,
        int* size, int* into, int* contact) {
  const Merger M{ptr, idx, order, begin, of, size, into, contact};
  int shared = -1;                                          // piece that others are packed into
  for (int c = 0; c < count; ++c) {
    const int k = small[c], own = size[k];
    if (into[k] != k || own * 4ll > limit) continue;
    const auto fits = [&](int other) { return size[other] + own <= limit; };
    int leaves = 0;
    M.for_neighbors(k, [&](int other) {
      leaves = 1;
      if (fits(other)) atomicAdd(contact + other, 1);
    });
    const bool isolated = !__syncthreads_or(leaves);
    unsigned long long best = 0;                            // number of common edges, then the lower number
    if (!isolated) {                                        // saves barriers: there may be many isolated vertices
      M.for_neighbors(k, [&](int other) {
        if (fits(other))
          best = max(best, (static_cast<unsigned long long>(contact[other]) << 32) | static_cast<unsigned>(unclaimed - other));
      });
      best = block_max(best);
      M.for_neighbors(k, [&](int other) {
        if (fits(other)) atomicExch(contact + other, 0);
      });
    }
    int target = best > 0 ? unclaimed - static_cast<int>(best & 0xffffffffu) : -1;
    const bool tiny = own * 16ll <= limit || own == 1;
    if (target < 0 && (tiny || isolated)) {                 // other pieces are kept connected
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

// The root of each piece, and the lowest vertex of each root. On entry lowest = n.
extern "C" __global__ void __launch_bounds__(256) k_lowest_vertex(int n, const int* of, const int* into, int* root, int* lowest) {
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    int k = of[v];
    while (into[k] != k) k = into[k];
    root[v] = k;
    if (static_cast<volatile int*>(lowest)[k] > v) atomicMin(lowest + k, static_cast<int>(v));
  }
}
