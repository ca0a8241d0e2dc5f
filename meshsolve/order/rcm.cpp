// Reverse Cuthill-McKee order: breadth-first search from each root in turn. The neighbors of a vertex follow by ascending degree,
// ties in the order of its row.
// Source: Cuthill, McKee 1969; George 1971.
// Cost: O(nnz + n log n). Neighbors are sorted by merge sort; scipy's insertion sort is quadratic in the length of dense rows.
#include <algorithm>

#include "order.hpp"

namespace ms::order {

std::vector<int32_t> rcm(const Pattern& A, const int32_t* roots) {
  std::vector<int32_t> order;
  order.reserve(A.n);
  std::vector<uint8_t> visited(A.n, 0);
  const auto visit = [&](int32_t v) {
    if (visited[v]) return;
    visited[v] = 1;
    order.push_back(v);
  };
  size_t head = 0;
  for (int32_t k = 0; k < A.n; ++k) {
    visit(roots[k]);
    for (; head < order.size(); ++head) {
      const int32_t v = order[head];
      const size_t begin = order.size();
      for (int64_t p = A.ptr[v]; p < A.ptr[v + 1]; ++p) visit(A.idx[p]);
      std::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(begin), order.end(),
                       [&](int32_t a, int32_t b) { return A.degree(a) < A.degree(b); });
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace ms::order
