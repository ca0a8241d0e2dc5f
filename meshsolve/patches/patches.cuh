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

enum Query { VE, VV, VF, EF };                              // transposed incidences, numbered as in query_cuda.py

// The pairs (source, target) of edge or face i of a patch that are entries of the rows of a query. ev, fe: tables of the patch.
template <int query, class Emit> __device__ __forceinline__ void pairs(const u16* ev, const u16* fe, int i, Emit emit) {
  if constexpr (query == VE || query == VV) {
    const int a = ev[2 * i], b = ev[2 * i + 1];
    emit(a, query == VE ? i : b);
    emit(b, query == VE ? i : a);
  } else {
    int source[3] = {fe[3 * i], fe[3 * i + 1], fe[3 * i + 2]};
    if constexpr (query == VF) corners(ev, fe + 3 * i, source);
    for (int c = 0; c < 3; ++c) emit(source[c], i);
  }
}

}  // namespace ms::patches
