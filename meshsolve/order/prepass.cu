// Twins on the GPU: vertices with the same neighbours but for each other. Twin of prepass.cpp.
// Rows are ascending. Cost O(degree) comparisons of rows a vertex, nearly all of which end at the first entries.
#include "device/common.cuh"

namespace ms::order {

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

// first[v] = the smallest twin of v, v itself if none is smaller: the same for all of a group.
extern "C" __global__ void __launch_bounds__(256) k_first_twin(int n, const long long* ptr, const int* idx, int* first) {
  const Rows rows{ptr, idx};
  for (long long i = grid_begin(); i < n; i += grid_step()) {
    const int v = static_cast<int>(i);
    int found = v;
    for (long long k = ptr[v]; found == v && k < ptr[v + 1] && idx[k] < v; ++k)
      if (rows.same_but_for_each_other(v, idx[k])) found = idx[k];
    first[v] = found;
  }
}
