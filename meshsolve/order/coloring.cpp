// Greedy coloring: each vertex in turn gets the smallest color that no neighbor has. Cost: O(nnz).
#include <algorithm>

#include "order.hpp"

namespace ms::order {

std::vector<int32_t> greedy_coloring(const Pattern& graph) {
  std::vector<int32_t> color(graph.n, -1), used;
  for (int32_t v = 0; v < graph.n; ++v) {
    used.assign(graph.degree(v) + 1, 0);
    for (int64_t p = graph.ptr[v]; p < graph.ptr[v + 1]; ++p)
      if (const int32_t c = color[graph.idx[p]]; c >= 0 && c <= graph.degree(v)) used[c] = 1;
    color[v] = static_cast<int32_t>(std::find(used.begin(), used.end(), 0) - used.begin());
  }
  return color;
}

}  // namespace ms::order
