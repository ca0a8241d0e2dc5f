// From a partition to patches on the GPU: the dual graph, owners, ribbons, local numbers.
//
// CPU counterparts: build.cpp and the dual graph of topology.cpp, which give the same arrays and state the rules and their
// source. A ribbon is a set of keys (patch << 32 | element). Kernels list the keys with repetitions: a first launch counts, and a
// prefix sum gives the position where each thread writes. A sort makes them unique, in the order that they have in the patch. No
// atomics.
#include "device/common.cuh"
#include "patches/limits.hpp"

namespace ms::patches {

// Counts the keys that a thread lists, or writes them from keys[at] on.
struct List {
  long long* keys;
  long long at;
  int count = 0;
  __device__ List(long long* all, const long long* offset, long long item) : keys(all), at(all ? offset[item] : 0) {}
  __device__ void add(int patch, int element) {
    if (keys) keys[at + count] = pair_key(patch, element);
    ++count;
  }
};


}  // namespace ms::patches

using namespace ms;
using namespace ms::patches;

// Faces that share an edge with face f; at an edge of more than three faces, the two adjacent ones of their ring. With `indices`
// null it only counts them, in size[f].
extern "C" __global__ void __launch_bounds__(256)
k_dual(int faces, const int* face_edges, const long long* ptr, const int* idx, int* size, const long long* indptr, int* indices) {
  for (long long f = grid_begin(); f < faces; f += grid_step()) {
    int count = 0;
    const auto add = [&](int other) {
      if (indices) indices[indptr[f] + count] = other;
      ++count;
    };
    for (int c = 0; c < 3; ++c) {
      const int e = face_edges[3 * f + c], around = static_cast<int>(ptr[e + 1] - ptr[e]);
      const int* const face = idx + ptr[e];
      if (around < 2) continue;
      if (around == 2) {
        add(face[0] == f ? face[1] : face[0]);
        continue;
      }
      const int at = lower_bound(face, around, static_cast<int>(f));
      add(face[(at + 1) % around]);
      add(face[(at + around - 1) % around]);
    }
    if (!indices) size[f] = count;
  }
}

// The lowest patch among the items of each row; -1 for an empty row.
extern "C" __global__ void __launch_bounds__(256)
k_lowest_patch(int rows, const long long* ptr, const int* idx, const int* item_patch, int* lowest) {
  for (long long r = grid_begin(); r < rows; r += grid_step()) {
    int best = ptr[r] < ptr[r + 1] ? item_patch[idx[ptr[r]]] : -1;
    for (long long q = ptr[r] + 1; q < ptr[r + 1]; ++q) best = min(best, item_patch[idx[q]]);
    lowest[r] = best;
  }
}

// Lists the foreign items (faces or edges) of each row (vertex) of at most `limit` items, for the patch that owns the row.
extern "C" __global__ void __launch_bounds__(256)
k_star(int rows, const long long* ptr, const int* idx, long long limit, const int* row_patch, const int* item_patch, int* count,
       const long long* offset, long long* keys) {
  for (long long r = grid_begin(); r < rows; r += grid_step()) {
    List list(keys, offset, r);
    const int p = row_patch[r];
    if (ptr[r + 1] - ptr[r] <= limit)
      for (long long q = ptr[r]; q < ptr[r + 1]; ++q)
        if (item_patch[idx[q]] != p) list.add(p, idx[q]);
    if (!keys) count[r] = list.count;
  }
}

// Lists the foreign faces at the edges of face f, for the patch of f, if neither end of the edge contributes them.
extern "C" __global__ void __launch_bounds__(256)
k_sides(int faces, const int* corners, const int* face_edges, const int* vertex_patch, const int* face_patch,
        const long long* vertex_ptr,
        const long long* edge_ptr, const int* edge_faces, int* count, const long long* offset, long long* keys) {
  for (long long f = grid_begin(); f < faces; f += grid_step()) {
    List list(keys, offset, f);
    const int p = face_patch[f];
    const auto has_star = [&](int v) { return vertex_patch[v] == p && vertex_ptr[v + 1] - vertex_ptr[v] <= star_limit; };
    for (int c = 0; c < 3; ++c) {
      const int v = corners[3 * f + c], w = corners[3 * f + (c + 1) % 3], e = face_edges[3 * f + c];
      if (has_star(v) || has_star(w) || edge_ptr[e + 1] - edge_ptr[e] > star_limit) continue;
      for (long long q = edge_ptr[e]; q < edge_ptr[e + 1]; ++q)
        if (face_patch[edge_faces[q]] != p) list.add(p, edge_faces[q]);
    }
    if (!keys) count[f] = list.count;
  }
}

// Lists the foreign parts of every local element, from its row of `table` (k columns). Local elements are the owned ones, then
// the ribbon.
extern "C" __global__ void __launch_bounds__(256)
k_closure(int owned, const int* patch, int foreign, const long long* ribbon, const int* table, int k, const int* part_patch,
          int* count,
          const long long* offset, long long* keys) {
  for (long long i = grid_begin(); i < static_cast<long long>(owned) + foreign; i += grid_step()) {
    List list(keys, offset, i);
    const int p = i < owned ? patch[i] : static_cast<int>(ribbon[i - owned] >> 32);
    const long long element = i < owned ? i : ribbon[i - owned] & 0xffffffff;
    for (int c = 0; c < k; ++c) {
      const int part = table[element * k + c];
      if (part_patch[part] != p) list.add(p, part);
    }
    if (!keys) count[i] = list.count;
  }
}

// Converts a table of k columns to local numbers, one thread block per patch. The number of an owned element is its rank; a
// foreign one is searched in the ribbon, which ascends.
extern "C" __global__ void __launch_bounds__(256)
k_localize(const long long* of_ptr, const int* of_ltog, const int* table, int k, const long long* to_ptr,
           const long long* to_owned,
           const int* to_ltog, const int* to_patch, const unsigned short* to_rank, unsigned short* local) {
  const int p = blockIdx.x, owned = static_cast<int>(to_owned[p + 1] - to_owned[p]);
  const int* const ribbon = to_ltog + to_ptr[p] + owned;
  const int foreign = static_cast<int>(to_ptr[p + 1] - to_ptr[p]) - owned;
  for (long long i = of_ptr[p] * k + threadIdx.x; i < of_ptr[p + 1] * k; i += blockDim.x) {
    const int g = table[static_cast<long long>(of_ltog[i / k]) * k + i % k];
    local[i] = to_patch[g] == p ? to_rank[g] : static_cast<unsigned short>(owned + lower_bound(ribbon, foreign, g));
  }
}
