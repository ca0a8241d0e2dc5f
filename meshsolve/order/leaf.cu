// The leaves of a nested dissection by exact minimum degree with halo, one warp a leaf. Twin of leaf.cpp and mindeg_bits.cpp.
//
// The elimination graph of a leaf is a bit matrix: a row for each of its own vertices, a column for these and for the halo, the
// vertices of separators that they touch. Eliminating a pivot joins its row to the rows of its neighbours; a degree is a count
// of bits. Source: Rose 1972 for the elimination graph, Pellegrini, Roman, Amestoy 2000 for the halo. Cost per pivot: degree
// times own + halo bits, about a microsecond at 400 vertices; the matrix lies in shared memory where it fits.
#include "device/common.cuh"
#include "order/order.cuh"

namespace ms::order {

__device__ __forceinline__ int words_of(int own, int halo) { return ((own + halo + 31) / 32) | 1; }     // odd: no bank conflicts

}  // namespace ms::order

using namespace ms;
using namespace ms::order;

// A key (leaf's first position << 32 | position of the halo vertex) for each edge that leaves a leaf; `keys` null: counted.
extern "C" __global__ void __launch_bounds__(256)
k_halo(int n, const long long* ptr, const int* idx, const int* slot, const unsigned char* in_leaf, const int* position, int* size,
       const long long* start, long long* keys) {
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    const int mine = slot[v];
    long long at = keys ? start[v] : 0;
    int found = 0;
    for (long long k = ptr[v]; in_leaf[v] && k < ptr[v + 1]; ++k) {
      if (slot[idx[k]] == mine) continue;
      if (keys) keys[at++] = pair_key(mine, position[idx[k]]);
      else ++found;
    }
    if (!keys) size[v] = found;
  }
}

// Block = a leaf of the list: perm[begin .. begin + own) is its vertices in any fixed order, in `ordered` they are in order of
// elimination. Matrix and degrees in shared memory, or with `scratch` in global memory from room[block] on.
extern "C" __global__ void __launch_bounds__(32)
k_leaf(const int* list, const int* begin, const int* own_count, const long long* halo_ptr, const int* halo, const long long* room,
       int* scratch, const long long* ptr, const int* idx, const int* perm, const int* position, int* ordered) {
  extern __shared__ int shared[];
  if (threadIdx.x >= 32) return;
  const int leaf = list[blockIdx.x], at = begin[leaf], own = own_count[leaf], lane = threadIdx.x;
  const int halo_count = static_cast<int>(halo_ptr[leaf + 1] - halo_ptr[leaf]), words = words_of(own, halo_count);
  int* const degree = scratch ? scratch + room[blockIdx.x] : shared;         // of each vertex; -1 once eliminated
  int* const neighbours = degree + own;
  int* const changed = neighbours + own;                    // step in which the degree changed last
  unsigned* const matrix = reinterpret_cast<unsigned*>(changed + own);

  for (long long k = lane; k < static_cast<long long>(own) * words; k += 32) matrix[k] = 0;
  __syncwarp();
  for (int i = lane; i < own; i += 32) {
    const int v = perm[at + i];
    unsigned* const row = matrix + static_cast<long long>(i) * words;
    for (long long k = ptr[v]; k < ptr[v + 1]; ++k) {
      const int x = position[idx[k]];
      const int j = x >= at && x < at + own ? x - at : own + lower_bound(halo + halo_ptr[leaf], halo_count, x);
      row[j >> 5] |= 1u << (j & 31);
    }
    degree[i] = static_cast<int>(ptr[v + 1] - ptr[v]);
    changed[i] = 0;
  }
  __syncwarp();

  for (int step = 0; step < own; ++step) {
    unsigned long long best = ~0ull;                        // least degree, then the latest change: 2 % less fill than by number
    for (int i = lane; i < own; i += 32) {
      if (degree[i] < 0) continue;
      const unsigned long long key = (static_cast<unsigned long long>(degree[i]) << 40) |
                                     (static_cast<unsigned long long>(own - changed[i]) << 20) | static_cast<unsigned>(i);
      if (key < best) best = key;
    }
    for (int d = 16; d > 0; d /= 2) {
      const unsigned long long other = __shfl_xor_sync(full_warp, best, d);
      if (other < best) best = other;
    }
    const int pivot = static_cast<int>(best & 0xfffff);
    const unsigned* const pivot_row = matrix + static_cast<long long>(pivot) * words;
    int count = 0;
    for (int base = 0; base * 32 < own; base += 32) {       // own vertices in the pivot's row
      const int w = base + lane;
      unsigned bits = w * 32 < own ? pivot_row[w] : 0;
      if (w == own >> 5) bits &= (1u << (own & 31)) - 1;
      const int before = warp_inclusive_sum(__popc(bits));
      for (int k = count + before - __popc(bits); bits != 0; bits &= bits - 1) neighbours[k++] = 32 * w + __ffs(bits) - 1;
      count += __shfl_sync(full_warp, before, 31);
    }
    __syncwarp();
    for (int k = lane; k < count; k += 32) {
      const int i = neighbours[k];
      unsigned* const row = matrix + static_cast<long long>(i) * words;
      int left = 0;
      for (int w = 0; w < words; ++w) {
        unsigned bits = row[w] | pivot_row[w];
        if (w == pivot >> 5) bits &= ~(1u << (pivot & 31));
        if (w == i >> 5) bits &= ~(1u << (i & 31));
        row[w] = bits;
        left += __popc(bits);
      }
      degree[i] = left;
      changed[i] = step + 1;
    }
    if (lane == 0) {
      ordered[at + step] = perm[at + pivot];
      degree[pivot] = -1;
    }
    __syncwarp();
  }
}
