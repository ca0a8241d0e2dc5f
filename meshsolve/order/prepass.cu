// A pattern that is symmetric already without its diagonal, and twins: vertices with the same neighbours but for each other. Twin
// of prepass.cpp.
// Rows are ascending. Cost O(degree) comparisons of rows a vertex, nearly all of which end at the first entries.
#include "device/common.cuh"

namespace ms::order {

constexpr int longest_row = 1024;

struct Rows {
  const long long* ptr;
  const int* idx;

  __device__ inline bool same_but_for_each_other(int v, int u) const {
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

// first[v] = the smallest twin of v, v itself if none is smaller: the same for all of a group. counts: vertices with a smaller
// twin, and rows of more than `longest` entries.
extern "C" __global__ void __launch_bounds__(256)
k_first_twin(int n, const long long* ptr, const int* idx, int longest, int* first, int* counts) {
  const Rows rows{ptr, idx};
  for (long long i = grid_begin(); i < n; i += grid_step()) {
    const int v = static_cast<int>(i);
    int found = v;
    for (long long k = ptr[v]; found == v && k < ptr[v + 1] && idx[k] < v; ++k)
      if (rows.same_but_for_each_other(v, idx[k])) found = idx[k];
    first[v] = found;
    if (found < v) atomicAdd(counts, 1);
    if (ptr[v + 1] - ptr[v] > longest) atomicAdd(counts + 1, 1);
  }
}

// Whether a pattern can be taken as it is: *unfit = 1 where a row does not ascend or is too long for one thread, where an index is
// out of range, and where an entry has no transposed one. size[v + 1] = entries of row v off the diagonal; size[0] = 0.
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

// The rows without their diagonal.
extern "C" __global__ void __launch_bounds__(256)
k_strip(int n, const long long* ptr, const int* idx, const long long* new_ptr, int* new_idx) {
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    long long at = new_ptr[v];
    for (long long k = ptr[v]; k < ptr[v + 1]; ++k)
      if (idx[k] != v) new_idx[at++] = idx[k];
  }
}
