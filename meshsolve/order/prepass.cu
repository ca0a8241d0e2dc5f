// Reduction of a graph before a dissection: symmetric patterns without their diagonal, and indistinguishable nodes (adjacent
// vertices with the same other neighbors). CPU counterpart: prepass.cpp.
// Rows are ascending. Cost: O(degree) comparisons of rows per vertex; nearly all end at the first entries.
#include "device/common.cuh"

namespace ms::order {

constexpr int longest_row = 1024;

struct Rows {
  const long long* ptr;
  const int* idx;

  __device__ inline bool indistinguishable(int v, int u) const {
    long long p = ptr[v], q = ptr[u];
    const long long p_end = ptr[v + 1], q_end = ptr[u + 1];
    if (p_end - p != q_end - q) return false;
    for (;;) {
      if (p < p_end && idx[p] == u) ++p;
      if (q < q_end && idx[q] == v) ++q;
      if (p == p_end || q == q_end) return p == p_end && q == q_end;
      if (idx[p++] != idx[q++]) return false;
    }
  }
};

}  // namespace ms::order

using namespace ms;
using namespace ms::order;

// first[v] = the smallest node that is indistinguishable from v, or v itself. It is the same for all nodes of a group. counts[0]:
// number of vertices with first[v] < v. counts[1]: number of rows of more than `longest` entries.
extern "C" __global__ void __launch_bounds__(256)
k_representative(int n, const long long* ptr, const int* idx, int longest, int* first, int* counts) {
  const Rows rows{ptr, idx};
  for (long long i = grid_begin(); i < n; i += grid_step()) {
    const int v = static_cast<int>(i);
    int found = v;
    for (long long k = ptr[v]; found == v && k < ptr[v + 1] && idx[k] < v; ++k)
      if (rows.indistinguishable(v, idx[k])) found = idx[k];
    first[v] = found;
    if (found < v) atomicAdd(counts, 1);
    if (ptr[v + 1] - ptr[v] > longest) atomicAdd(counts + 1, 1);
  }
}

// Tests if a pattern is symmetric. Sets *unfit = 1 if a row does not ascend or is too long for one thread, an index is out of
// range, or a mirror entry is missing.
//
// size[v + 1] = number of off-diagonal entries of row v; size[0] = 0.
extern "C" __global__ void __launch_bounds__(256)
k_check_symmetric(int n, const long long* ptr, const int* idx, long long* size, long long* unfit) {
  if (grid_begin() == 0) size[0] = 0;
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    long long found = 0;
    bool fit = ptr[v + 1] - ptr[v] <= longest_row;
    for (long long k = ptr[v]; k < ptr[v + 1] && fit; ++k) {
      const int u = idx[k];
      fit = u >= 0 && u < n && (k == ptr[v] || idx[k - 1] < u);
      if (!fit || u == v) continue;
      ++found;
      const int length = static_cast<int>(ptr[u + 1] - ptr[u]), at = lower_bound(idx + ptr[u], length, static_cast<int>(v));
      fit = at < length && idx[ptr[u] + at] == v;
    }
    size[v + 1] = found;
    if (!fit) *static_cast<volatile long long*>(unfit) = 1;
  }
}

// Copies the rows without their diagonal.
extern "C" __global__ void __launch_bounds__(256)
k_strip(int n, const long long* ptr, const int* idx, const long long* new_ptr, int* new_idx) {
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    long long at = new_ptr[v];
    for (long long k = ptr[v]; k < ptr[v + 1]; ++k)
      if (idx[k] != v) new_idx[at++] = idx[k];
  }
}
