// View of a patch mesh for kernels: the tables of query_cuda.py, in the local numbers of one patch. See patches.hpp.
#pragma once
#include "device/common.cuh"

namespace ms::patches {

using u16 = unsigned short;

struct Kind {                                               // one kind of elements
  const long long *ptr, *owned_ptr;
  const int* ltog;
  __device__ int owned(int p) const { return static_cast<int>(owned_ptr[p + 1] - owned_ptr[p]); }
  __device__ int size(int p) const { return static_cast<int>(ptr[p + 1] - ptr[p]); }
  __device__ const int* global(int p) const { return ltog + ptr[p]; }
  // The local number of an element of patch p. Owned elements and ribbon both ascend.
  __device__ int local(int p, int element) const {
    const int *const row = global(p), own = owned(p), at = lower_bound(row, own, element);
    return at < own && row[at] == element ? at : own + lower_bound(row + own, size(p) - own, element);
  }
};

// The corners of a face from its sides. Corner 0 is the common end of the first and the last side.
__device__ __forceinline__ void corners(const u16* ev, const u16* sides, int corner[3]) {
  const u16 *first = ev + 2 * sides[0], *last = ev + 2 * sides[2];
  const int c = first[0] == last[0] || first[0] == last[1] ? first[0] : first[1];
  corner[0] = c;
  corner[1] = first[0] ^ first[1] ^ c;
  corner[2] = last[0] ^ last[1] ^ c;
}

}  // namespace ms::patches
