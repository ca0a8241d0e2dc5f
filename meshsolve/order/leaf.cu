// Exact minimum degree with halo for the leaves of a nested dissection, one warp or thread block per leaf. CPU counterparts:
// leaf.cpp and mindeg_bits.cpp.
//
// The elimination graph of a leaf is a bit matrix. It has one row per vertex of the leaf, and one column per vertex of leaf and
// halo (the adjacent vertices of separators). Eliminating a pivot merges its row into the rows of its neighbors; a degree is a
// count of bits.
// Source: elimination graph: Rose 1972; halo: Pellegrini, Roman, Amestoy 2000.
// Cost per pivot: degree * (own + halo) bits, about a microsecond at 400 vertices. The matrix lies in shared memory if it fits.
#include "device/common.cuh"
#include "order/order.cuh"

namespace ms::order {

__device__ __forceinline__ int words_of(int own, int halo) { return ((own + halo + 31) / 32) | 1; }  // odd: no bank conflicts

// Threads that update one row of the matrix.
template <class Team> constexpr int row_threads = 32;
template <> constexpr int row_threads<Warp> = 1;

// perm[begin .. begin + own) lists the vertices of a leaf in any fixed order; ordered[] receives them in elimination order. The
// matrix and the degrees lie in shared memory, or from scratch[offset[block]] on if `scratch` is given.
#define LEAF_ARGUMENTS                                                                                                     \
  const int *list, const int *begin, const int *own_count, const long long *halo_ptr, const int *halo,                     \
      const long long *offset, int *scratch, const long long *ptr, const int *idx, const int *perm, const int *position,   \
      int *ordered
#define LEAF_VALUES list, begin, own_count, halo_ptr, halo, offset, scratch, ptr, idx, perm, position, ordered

template <class Team> class Leaf {
 public:
  __device__ __forceinline__ Leaf(int* memory, int own_vertices, int halo_vertices)
      : own(own_vertices), words(words_of(own_vertices, halo_vertices)), degree(memory), neighbors(degree + own),
        changed(neighbors + own), matrix(reinterpret_cast<unsigned*>(changed + own)) {}

  __device__ inline void read(int at, const long long* ptr, const int* idx, const int* perm, const int* position, const int* halo,
                              int halo_count) const {
    for (long long k = threadIdx.x; k < static_cast<long long>(own) * words; k += Team::threads()) matrix[k] = 0;
    Team::sync();
    for (int i = threadIdx.x; i < own; i += Team::threads()) {
      const int v = perm[at + i];
      for (long long k = ptr[v]; k < ptr[v + 1]; ++k) {
        const int x = position[idx[k]];
        const int j = x >= at && x < at + own ? x - at : own + lower_bound(halo, halo_count, x);
        row(i)[j >> 5] |= 1u << (j & 31);
      }
      degree[i] = static_cast<int>(ptr[v + 1] - ptr[v]);
      changed[i] = 0;
    }
    Team::sync();
  }

  // The vertex of least degree; ties: the latest change of the degree, which gives 2 % less fill than the lowest number.
  __device__ __forceinline__ int pivot() const {
    unsigned long long best = ~0ull;
    for (int i = threadIdx.x; i < own; i += Team::threads()) {
      if (degree[i] < 0) continue;
      const unsigned long long key = (static_cast<unsigned long long>(degree[i]) << 40) |
                                     (static_cast<unsigned long long>(own - changed[i]) << 20) | static_cast<unsigned>(i);
      if (key < best) best = key;
    }
    return static_cast<int>(~Team::largest(~best) & 0xfffff);
  }

  // Merges the row of the pivot into the rows of its neighbors.
  __device__ __forceinline__ void eliminate(int pivot, int step) const {
    const int count = list_neighbors(pivot);
    for (int k = threadIdx.x / row_threads<Team>; k < count; k += Team::threads() / row_threads<Team>) {
      const int i = neighbors[k], left = join(pivot, i);
      if (threadIdx.x % row_threads<Team> > 0) continue;
      degree[i] = left;
      changed[i] = step + 1;
    }
    if (threadIdx.x == 0) degree[pivot] = -1;
    Team::sync();
  }

 private:
  __device__ __forceinline__ unsigned* row(int i) const { return matrix + static_cast<long long>(i) * words; }

  __device__ __forceinline__ int list_neighbors(int pivot) const {
    int count = 0;
    for (int base = 0; base * 32 < own; base += Team::threads()) {
      const int w = base + threadIdx.x;
      unsigned bits = w * 32 < own ? row(pivot)[w] : 0;
      if (w == own >> 5) bits &= (1u << (own & 31)) - 1;
      int total;
      int k = count + Team::sum_before(__popc(bits), total);
      for (; bits != 0; bits &= bits - 1) neighbors[k++] = 32 * w + __ffs(bits) - 1;
      count += total;
    }
    Team::sync();
    return count;
  }

  // Merges the row of the pivot into row i. Returns the new degree of i.
  __device__ __forceinline__ int join(int pivot, int i) const {
    unsigned *const own_row = row(i), *const from = row(pivot);
    int left = 0;
    for (int w = threadIdx.x % row_threads<Team>; w < words; w += row_threads<Team>) {
      unsigned bits = own_row[w] | from[w];
      if (w == pivot >> 5) bits &= ~(1u << (pivot & 31));
      if (w == i >> 5) bits &= ~(1u << (i & 31));
      own_row[w] = bits;
      left += __popc(bits);
    }
    return row_threads<Team> == 1 ? left : warp_sum(left);
  }

  const int own, words;
  int *const degree, *const neighbors, *const changed;  // degree -1: eliminated; changed: step of the last change
  unsigned* const matrix;
};

template <class Team> __device__ __forceinline__ void order_leaf(LEAF_ARGUMENTS) {
  extern __shared__ int shared[];
  const int leaf = list[blockIdx.x], at = begin[leaf], own = own_count[leaf];
  const int halo_count = static_cast<int>(halo_ptr[leaf + 1] - halo_ptr[leaf]);
  const Leaf<Team> l(scratch ? scratch + offset[blockIdx.x] : shared, own, halo_count);
  l.read(at, ptr, idx, perm, position, halo + halo_ptr[leaf], halo_count);
  for (int step = 0; step < own; ++step) {
    const int pivot = l.pivot();
    if (threadIdx.x == 0) ordered[at + step] = perm[at + pivot];
    l.eliminate(pivot, step);
  }
}

}  // namespace ms::order

using namespace ms;
using namespace ms::order;

// Lists a key (first position of the leaf << 32 | position of the halo vertex) for each edge that leaves a leaf. With `keys` null
// it only counts them, in *used. is_begin[slot]: true if a leaf starts at this position.
extern "C" __global__ void __launch_bounds__(256)
k_halo(int n, const long long* ptr, const int* idx, const int* slot, const unsigned char* is_begin, const int* position,
       unsigned long long* used, long long* keys) {
  list_keys(n, ptr, idx, used, keys, [&](long long v) { return is_begin[slot[v]] ? slot[v] : -1; },
            [&](int own_row, int u) { return slot[u] == own_row ? -1ll : pair_key(own_row, position[u]); });
}

// One thread block of one warp per leaf of the list.
extern "C" __global__ void __launch_bounds__(32) k_leaf(LEAF_ARGUMENTS) {
  if (threadIdx.x < 32) order_leaf<Warp>(LEAF_VALUES);
}

// The same for large leaves, with all threads of the block.
extern "C" __global__ void __launch_bounds__(256) k_leaf_wide(LEAF_ARGUMENTS) { order_leaf<Block>(LEAF_VALUES); }
