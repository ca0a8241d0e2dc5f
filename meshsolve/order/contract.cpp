// A graph whose columns of L are those of the last rows of another graph: connected rows that are eliminated before become one row.
// What a row reaches through eliminated rows does not change (George, Liu 1981, "Computer solution of large sparse positive definite
// systems", section 5.2). Cost: O(nnz).
#include "contract.hpp"

#include <algorithm>

#include "native/threads/interrupt.hpp"
#include "sparse/rearrange.hpp"

namespace ms::order {

OwnedPattern contract(const Pattern& A, const std::vector<int32_t>& last) {
  std::vector<int32_t> label(A.n, -1), queue;
  for (size_t k = 0; k < last.size(); ++k) label[last[k]] = -2 - static_cast<int32_t>(k);
  int32_t parts = 0;
  for (int32_t s = 0; s < A.n; ++s) {
    if (label[s] != -1) continue;
    label[s] = parts;
    queue.assign(1, s);
    for (size_t head = 0; head < queue.size(); ++head) {
      if (head % 65536 == 65535) interrupt::poll();
      for (int64_t p = A.ptr[queue[head]]; p < A.ptr[queue[head] + 1]; ++p)
        if (const int32_t u = A.idx[p]; label[u] == -1) {
          label[u] = parts;
          queue.push_back(u);
        }
    }
    ++parts;
  }
  const int32_t n = parts + static_cast<int32_t>(last.size());
  std::vector<std::vector<int32_t>> rows(last.size());
  OwnedPattern out;
  out.ptr.assign(n + size_t{1}, 0);
  for (size_t k = 0; k < last.size(); ++k) {
    std::vector<int32_t>& row = rows[k];
    for (int64_t p = A.ptr[last[k]]; p < A.ptr[last[k] + 1]; ++p)
      if (const int32_t u = label[A.idx[p]]; A.idx[p] != last[k]) row.push_back(u >= 0 ? u : parts - 2 - u);
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
    out.ptr[parts + k + 1] = static_cast<int64_t>(row.size());
    for (auto u = row.begin(); u != row.end() && *u < parts; ++u) ++out.ptr[*u + 1];
  }
  std::vector<int64_t> next = cumsum_with_cursors(out.ptr);
  out.idx.resize(static_cast<size_t>(out.ptr[n]));
  for (size_t k = 0; k < last.size(); ++k)
    for (const int32_t u : rows[k]) {
      out.idx[next[parts + k]++] = u;
      if (u < parts) out.idx[next[u]++] = parts + static_cast<int32_t>(k);
    }
  return out;
}

}  // namespace ms::order
