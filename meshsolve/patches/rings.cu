// Queries composed of the rows of other queries, and reductions over rows, on the GPU: one thread per row or per number of the result.
//
// CPU counterpart: rings.cpp. The work of one row is that of rings.hpp, so the results are those of the CPU to the bit. The rows
// lie in global memory, because the edges at the ends of an edge, and the second ring, need not lie in the patch of a row.
#include "device/common.cuh"
#include "patches/rings.hpp"

namespace ms::patches {

// out[item] = reduction of number item % width over the entries of row item / width.
template <class T>
__device__ __forceinline__ void reduce_item(long long item, int width, int op, const long long* indptr, const int* indices,
                                            const T* values, T empty, T* out) {
  const long long row = item / width;
  out[item] = reduce_column(op, indices + indptr[row], indices + indptr[row + 1], values + item % width, width, empty);
}

}  // namespace ms::patches

using namespace ms;
using namespace ms::patches;

// Rows of VV or VE (`values`) in rotation order. Each vertex uses its part of `scratch`, two integers per neighbor and per face.
// *failed: vertex << 32 | position (rotate_row) of the lowest vertex without such an order.
extern "C" __global__ void __launch_bounds__(256)
k_rotate(int n, const long long* vv_ptr, const int* vv, const long long* vf_ptr, const int* vf, const int* corners,
         const int* values, int* scratch, int* out, long long* failed) {
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    const long long first = vv_ptr[v], first_face = vf_ptr[v];
    const Star star{static_cast<int>(v), static_cast<int>(vv_ptr[v + 1] - first), static_cast<int>(vf_ptr[v + 1] - first_face),
                    vv + first, vf + first_face, corners};
    const int bad = rotate_row(star, values + first, scratch + 2 * (first + first_face), out + first);
    if (bad >= 0) atomicMin(failed, pair_key(static_cast<int>(v), bad));
  }
}

// Edges that share an end with each edge; `indptr` has the positions of the rows.
extern "C" __global__ void __launch_bounds__(256)
k_merge_edges(int edges, const long long* ve_ptr, const int* ve, const int* ends, const long long* indptr, int* indices) {
  for (long long e = grid_begin(); e < edges; e += grid_step()) {
    const int a = ends[2 * e], b = ends[2 * e + 1];
    merge_edges(ve + ve_ptr[a], ve + ve_ptr[a + 1], ve + ve_ptr[b], ve + ve_ptr[b + 1], static_cast<int>(e), indices + indptr[e]);
  }
}

// Four vertices per edge. *failed: the lowest edge of more than two faces.
extern "C" __global__ void __launch_bounds__(256)
k_diamond(int edges, const long long* ef_ptr, const int* ef, const int* ends, const int* corners, int* out, long long* failed) {
  for (long long e = grid_begin(); e < edges; e += grid_step())
    if (!diamond(ends + 2 * e, ef + ef_ptr[e], static_cast<int>(ef_ptr[e + 1] - ef_ptr[e]), corners, out + 4 * e)) atomicMin(failed, e);
}

extern "C" __global__ void __launch_bounds__(256)
k_reduce_double(long long items, int width, int op, const long long* indptr, const int* indices, const double* values, double empty,
                double* out) {
  for (long long i = grid_begin(); i < items; i += grid_step()) reduce_item(i, width, op, indptr, indices, values, empty, out);
}

extern "C" __global__ void __launch_bounds__(256)
k_reduce_float(long long items, int width, int op, const long long* indptr, const int* indices, const float* values, float empty,
               float* out) {
  for (long long i = grid_begin(); i < items; i += grid_step()) reduce_item(i, width, op, indptr, indices, values, empty, out);
}

extern "C" __global__ void __launch_bounds__(256)
k_reduce_integer(long long items, int width, int op, const long long* indptr, const int* indices, const long long* values,
                 long long empty, long long* out) {
  for (long long i = grid_begin(); i < items; i += grid_step()) reduce_item(i, width, op, indptr, indices, values, empty, out);
}
