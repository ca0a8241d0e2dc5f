// Sub-patches and the quotient graph between them on the GPU. Twin of subpatch.cpp: its seeds, other patches of the same kind.
//
// In a wave of the breadth-first search a vertex without a patch looks for neighbours that got theirs in the wave before: nothing
// is claimed, so the patches do not depend on the order of threads. Over the whole graph a wave is a launch; where a mesh has its
// patches already, a block divides one of these and its waves are barriers. Entries of the quotient graph are listed as keys
// (row << 32 | column), once per edge of the graph, and sorted and counted by the caller.
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

// A key per edge from a vertex that has a label to one with another label. `keys` null: size[v] counts them; else they are
// written from start[v] on. With labels = patches: the quotient graph.
extern "C" __global__ void __launch_bounds__(256)
k_crossing(int n, const long long* ptr, const int* idx, const int* patch, int* size, const long long* start, long long* keys) {
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    const int mine = patch[v];
    long long at = keys ? start[v] : 0;
    int found = 0;
    for (long long k = ptr[v]; mine >= 0 && k < ptr[v + 1]; ++k) {
      const int other = patch[idx[k]];
      if (other < 0 || other == mine) continue;
      if (keys) keys[at++] = pair_key(mine, other);
      else ++found;
    }
    if (!keys) size[v] = found;
  }
}

// After a level: a patch gets a new number, or none in a leaf (slot = where the leaf begins).
extern "C" __global__ void __launch_bounds__(256)
k_relabel(int n, const int* fresh, const int* leaf_begin, int* patch, int* slot) {
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    const int p = patch[v];
    if (p < 0) continue;
    patch[v] = fresh[p];
    if (leaf_begin[p] >= 0) slot[v] = leaf_begin[p];
  }
}
