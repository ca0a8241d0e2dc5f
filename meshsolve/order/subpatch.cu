// Sub-patches and the quotient graph between them on the GPU. Twin of subpatch.cpp: its seeds, other patches of the same kind.
//
// In a wave of the breadth-first search a vertex without a patch looks for neighbours that got theirs in the wave before: nothing
// is claimed, so the patches do not depend on the order of threads. Over the whole graph a wave is a launch; where a mesh has its
// patches already, a block divides one of these and its waves are barriers. Entries of the quotient graph are listed as keys
// (row << 32 | column), once per edge of the graph, and sorted by the caller.
#include "device/common.cuh"
#include "order/order.cuh"

namespace ms::order {

// The sub-patch that vertex v joins in a wave: that of most of its neighbours of the last wave which `may` lists; -1: none.
template <class May>
__device__ __forceinline__ int joins(int v, const long long* ptr, const int* idx, int now, unsigned long long seed,
                                     const int* patch, const int* wave, May may) {
  return most_frequent(idx + ptr[v], static_cast<int>(ptr[v + 1] - ptr[v]), hash_key(seed, v),
                       [&](int u) { return may(u) && peek(wave + u) == now - 1 ? patch[u] : -1; });
}

}  // namespace ms::order

using namespace ms;
using namespace ms::order;

// One seed in every block of `size` consecutive vertices.
extern "C" __global__ void __launch_bounds__(256)
k_seed(int blocks, int size, unsigned long long seed, int* patch, int* wave) {
  for (long long b = grid_begin(); b < blocks; b += grid_step()) {
    const int first = static_cast<int>(b) * size;
    const int v = first + static_cast<int>(Stream(hash_key(seed, first)).below(size));
    patch[v] = static_cast<int>(b);
    wave[v] = 0;
  }
}

// One wave: a vertex joins the patch that most of its neighbours of the last wave belong to. *grown: some vertex did.
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

// Divides patch p of a mesh, whose vertices are listed from list_ptr[p] on, into the sub-patches first[p] ... first[p + 1] - 1.
// The list is cut evenly, each piece has a seed, and the waves stay in the patch. Vertices that have got one count as wave 0.
extern "C" __global__ void __launch_bounds__(128)
k_divide(const long long* list_ptr, const int* list, const int* of, const long long* ptr, const int* idx, const long long* first,
      unsigned long long seed, int* patch, int* wave) {
  const int p = blockIdx.x, count = static_cast<int>(list_ptr[p + 1] - list_ptr[p]);
  const int parts = static_cast<int>(first[p + 1] - first[p]);
  const int* const mine = list + list_ptr[p];
  for (int k = threadIdx.x; k < parts; k += blockDim.x) {
    const int begin = static_cast<int>(static_cast<long long>(count) * k / parts);
    const int end = static_cast<int>(static_cast<long long>(count) * (k + 1) / parts);
    const int v = mine[begin + Stream(hash_key(seed, mine[begin])).below(end - begin)];
    patch[v] = static_cast<int>(first[p]) + k;
    wave[v] = 0;
  }
  __syncthreads();
  int grown = 1;
  for (int now = 1; grown; ++now) {
    int joined = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      const int v = mine[i];
      if (wave[v] >= 0) continue;
      const int best = joins(v, ptr, idx, now, seed, patch, wave, [&](int u) { return of[u] == p; });
      if (best < 0) continue;
      patch[v] = best;
      *static_cast<volatile int*>(wave + v) = now;
      joined = 1;
    }
    grown = __syncthreads_or(joined);
  }
  for (int i = threadIdx.x; i < count; i += blockDim.x) wave[mine[i]] = min(wave[mine[i]], 0);
}

// The rows of the graph in new numbers: row x is that of old[x].
extern "C" __global__ void __launch_bounds__(256)
k_renumber(int n, const long long* ptr, const int* idx, const int* old, const int* fresh, const long long* new_ptr,
           int* new_idx) {
  for (long long x = grid_begin(); x < n; x += grid_step()) {
    const long long from = ptr[old[x]];
    const int length = static_cast<int>(new_ptr[x + 1] - new_ptr[x]);
    for (int k = 0; k < length; ++k) new_idx[new_ptr[x] + k] = fresh[idx[from + k]];
  }
}

// weight[p] = vertices of patch p, which is zero before.
extern "C" __global__ void __launch_bounds__(256) k_weigh(int n, const int* patch, int* weight) {
  for (long long v = grid_begin(); v < n; v += grid_step())
    if (patch[v] >= 0) atomicAdd(weight + patch[v], 1);
}

// A key for each edge between vertices of two patches: the quotient graph. `keys` null: *used counts them.
extern "C" __global__ void __launch_bounds__(256)
k_crossing(int n, const long long* ptr, const int* idx, const int* patch, unsigned long long* used, long long* keys) {
  list_keys(n, ptr, idx, used, keys, [&](long long v) { return patch[v]; }, [&](int mine, int u) {
    const int other = patch[u];
    return other < 0 || other == mine ? -1ll : pair_key(mine, other);
  });
}

// Block = node. Ranks its patches that have vertices, those of a side among each other, and counts them: found[6 k + 4 + side].
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

// After a level. A part is a side of a node; its patches get the numbers from first[part] on, or none where that is -1, and are
// then a leaf, which begins at slot leaf_begin[part].
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
