// Sub-patches and the quotient graph between them on the GPU. CPU counterpart: subpatch.cpp, which uses the same seeds and gives
// other patches of the same quality.
//
// In each wave of the breadth-first search, a vertex without a patch reads the patches that its neighbors joined in the wave
// before. No vertex is claimed, so the patches do not depend on the order of threads. For the whole graph a wave is one launch.
// If a mesh already has patches, one thread block divides each of them, and its waves are separated by barriers.
// Entries of the quotient graph are listed as keys (row << 32 | column), one per edge of the graph; the caller sorts them.
#include "device/common.cuh"
#include "order/order.cuh"

namespace ms::order {

// The sub-patch that vertex v joins in a wave: the most frequent one among its neighbors of the last wave for which may(u) holds;
// or -1.
template <class May>
__device__ __forceinline__ int joins(int v, const long long* ptr, const int* idx, int now, unsigned long long seed,
                                     const int* patch, const int* wave, May may) {
  return most_frequent(idx + ptr[v], static_cast<int>(ptr[v + 1] - ptr[v]), hash_key(seed, v),
                       [&](int u) { return may(u) && peek(wave + u) == now - 1 ? patch[u] : -1; });
}

}  // namespace ms::order

using namespace ms;
using namespace ms::order;

// One seed in every `size` consecutive vertices.
extern "C" __global__ void __launch_bounds__(256)
k_seed(int blocks, int size, unsigned long long seed, int* patch, int* wave) {
  for (long long b = grid_begin(); b < blocks; b += grid_step()) {
    const int first = static_cast<int>(b) * size;
    const int v = first + static_cast<int>(Stream(hash_key(seed, first)).below(size));
    patch[v] = static_cast<int>(b);
    wave[v] = 0;
  }
}

// One wave: each vertex joins the most frequent patch among its neighbors of the last wave. Sets *grown if any vertex joined.
extern "C" __global__ void __launch_bounds__(256)
k_grow(int n, const long long* ptr, const int* idx, int now, unsigned long long seed, int* patch, int* wave, int* grown) {
  for (long long i = grid_begin(); i < n; i += grid_step()) {
    const int v = static_cast<int>(i);
    if (wave[v] >= 0) continue;
    const int best = joins(v, ptr, idx, now, seed, patch, wave, [](int) { return true; });
    if (best < 0) continue;
    patch[v] = best;
    *static_cast<volatile int*>(wave + v) = now;
    *static_cast<volatile int*>(grown) = 1;
  }
}

// Divides each patch p of a mesh (its vertices are listed from list_ptr[p] on) into the sub-patches first[p] ... first[p + 1] -
// 1. The list is cut evenly, each piece has one seed, and the waves stay within the patch. On return assigned vertices have wave
// 0.
extern "C" __global__ void __launch_bounds__(128)
k_divide(const long long* list_ptr, const int* list, const int* of, const long long* ptr, const int* idx, const long long* first,
      unsigned long long seed, int* patch, int* wave) {
  const int p = blockIdx.x, count = static_cast<int>(list_ptr[p + 1] - list_ptr[p]);
  const int parts = static_cast<int>(first[p + 1] - first[p]);
  const int* const own = list + list_ptr[p];
  for (int k = threadIdx.x; k < parts; k += blockDim.x) {
    const int begin = static_cast<int>(static_cast<long long>(count) * k / parts);
    const int end = static_cast<int>(static_cast<long long>(count) * (k + 1) / parts);
    const int v = own[begin + Stream(hash_key(seed, own[begin])).below(end - begin)];
    patch[v] = static_cast<int>(first[p]) + k;
    wave[v] = 0;
  }
  __syncthreads();
  int grown = 1;
  for (int now = 1; grown; ++now) {
    int joined = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      const int v = own[i];
      if (wave[v] >= 0) continue;
      const int best = joins(v, ptr, idx, now, seed, patch, wave, [&](int u) { return of[u] == p; });
      if (best < 0) continue;
      patch[v] = best;
      *static_cast<volatile int*>(wave + v) = now;
      joined = 1;
    }
    grown = __syncthreads_or(joined);
  }
  for (int i = threadIdx.x; i < count; i += blockDim.x) wave[own[i]] = min(wave[own[i]], 0);
}

// Renumbers the rows of the graph: row x of the result is row old[x].
extern "C" __global__ void __launch_bounds__(256)
k_renumber(int n, const long long* ptr, const int* idx, const int* old, const int* fresh, const long long* new_ptr,
           int* new_idx) {
  for (long long x = grid_begin(); x < n; x += grid_step()) {
    const long long from = ptr[old[x]];
    const int length = static_cast<int>(new_ptr[x + 1] - new_ptr[x]);
    for (int k = 0; k < length; ++k) new_idx[new_ptr[x] + k] = fresh[idx[from + k]];
  }
}

// weight[p] = number of vertices of patch p. The array must be zero on entry.
extern "C" __global__ void __launch_bounds__(256) k_weigh(int n, const int* patch, int* weight) {
  for (long long v = grid_begin(); v < n; v += grid_step())
    if (patch[v] >= 0) atomicAdd(weight + patch[v], 1);
}

// Lists a key for each edge between two patches: the entries of the quotient graph. With `keys` null it only counts them, in
// *used.
extern "C" __global__ void __launch_bounds__(256)
k_crossing(int n, const long long* ptr, const int* idx, const int* patch, unsigned long long* used, long long* keys) {
  list_keys(n, ptr, idx, used, keys, [&](long long v) { return patch[v]; }, [&](int own, int u) {
    const int other = patch[u];
    return other < 0 || other == own ? -1ll : pair_key(own, other);
  });
}

// One thread block per node. Ranks the nonempty patches of each side, and counts them in found[6 k + 4 + side].
extern "C" __global__ void __launch_bounds__(512)
k_rank(const int* node_ptr, const int* patch_side, const int* weight, int* rank, int* found) {
  const int k = blockIdx.x, last = node_ptr[k + 1];
  int before_0 = 0, before_1 = 0;
  for (int base = node_ptr[k]; base < last; base += blockDim.x) {
    const int p = base + threadIdx.x;
    const bool held = p < last && weight[p] > 0;
    const int in_0 = held && patch_side[p] == 0, in_1 = held && !in_0;
    int total_0, total_1;
    const int rank_0 = before_0 + block_exclusive_sum(in_0, total_0), rank_1 = before_1 + block_exclusive_sum(in_1, total_1);
    if (held) rank[p] = in_0 ? rank_0 : rank_1;
    before_0 += total_0;
    before_1 += total_1;
  }
  if (threadIdx.x > 0) return;
  found[6 * k + 4] = before_0;
  found[6 * k + 5] = before_1;
}

// Renumbers the patches after a level. A part is a side of a node. Its patches get the numbers from first[part] on. If
// first[part] is -1, the part is a leaf, which starts at position leaf_begin[part].
extern "C" __global__ void __launch_bounds__(256)
k_relabel(int n, int patches, const int* node, const int* patch_side, const int* rank, const int* weight, const int* first,
          const int* leaf_begin, int* patch, int* slot, int* new_weight) {
  for (long long i = grid_begin(); i < n; i += grid_step()) {
    if (i < patches && weight[i] > 0) {
      const int to = first[2 * node[i] + patch_side[i]];
      if (to >= 0) new_weight[to + rank[i]] = weight[i];
    }
    const int p = patch[i];
    if (p < 0) continue;
    const int part = 2 * node[p] + patch_side[p], to = first[part], begin = leaf_begin[part];
    patch[i] = to < 0 ? -1 : to + rank[p];
    if (begin >= 0) slot[i] = begin;
  }
}
