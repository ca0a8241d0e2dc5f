// The assembly tree on the GPU: row indices of each front in its parent, and positions of the entries of A in the panels.
//
// CUDA counterpart of tree.cpp, with the same integers; tree_cuda.py has the array expressions between the kernels.
// Cost: O((nnz(A) + rows of the supernodes) log(rows of a front)).
#include "device/common.cuh"

namespace ms::fronts {

struct Supernodes {
  const int* first;                     // (count + 1)
  const long long* row_ptr;             // (count + 1)
  const int* rows;
  // Local row in front s of row i, a pivot of s or on its row list.
  __device__ int local(int s, int i) const {
    const int begin = first[s], end = first[s + 1];
    const long long list = row_ptr[s];
    return i < end ? i - begin : end - begin + lower_bound(rows + list, static_cast<int>(row_ptr[s + 1] - list), i);
  }
};

}  // namespace ms::fronts

using namespace ms;
using namespace ms::fronts;

// Lower entries of each column of the permuted matrix, the diagonal included.
extern "C" __global__ void __launch_bounds__(256)
k_count_entries(int n, const long long* Ap, const int* Ai, const int* perm, const int* iperm, int* count) {
  for (long long j = grid_begin(); j < n; j += grid_step()) {
    int found = 0;
    for (long long p = Ap[perm[j]]; p < Ap[perm[j] + 1]; ++p) found += iperm[Ai[p]] >= j;
    count[j] = found;
  }
}

// Positions of these entries in the values of A, and their local rows. node: front of each column.
extern "C" __global__ void __launch_bounds__(256)
k_place_entries(int n, const long long* Ap, const int* Ai, const int* perm, const int* iperm, const int* node, const int* first,
                const long long* row_ptr, const int* rows, const long long* entry_ptr, unsigned* source, int* local) {
  const Supernodes nodes{first, row_ptr, rows};
  for (long long j = grid_begin(); j < n; j += grid_step()) {
    long long at = entry_ptr[j];
    for (long long p = Ap[perm[j]]; p < Ap[perm[j] + 1]; ++p) {
      const int i = iperm[Ai[p]];
      if (i < j) continue;
      source[at] = static_cast<unsigned>(p);
      local[at++] = nodes.local(node[j], i);
    }
  }
}

// relative: local row in the parent of each row below the pivots. One warp per front.
extern "C" __global__ void __launch_bounds__(128)
k_relative(int count, const int* parent, const int* first, const long long* row_ptr, const int* rows, int* relative) {
  const Supernodes nodes{first, row_ptr, rows};
  const int lane = threadIdx.x & 31;
  for (long long s = grid_begin() >> 5; s < count; s += grid_step() >> 5) {
    const int above = parent[s];
    if (above < 0) continue;
    for (long long i = row_ptr[s] + lane; i < row_ptr[s + 1]; i += 32) relative[i] = nodes.local(above, rows[i]);
  }
}
