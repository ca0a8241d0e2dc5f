// Block triangular form: strongly connected components by depth-first search without recursion.
// Source: Tarjan 1972; Pothen and Fan 1990, "Computing the block triangular form of a sparse matrix", section 4.
// O(n + nnz) time and memory.
#include <algorithm>

#include "matching.hpp"
#include "sparse/check.hpp"

namespace ms::matching {
namespace {

struct Components {
  const Pattern& A;
  const std::vector<int32_t>& row_of;
  std::vector<int32_t>& block;
  std::vector<int32_t> number, low;                  // order of first visits, from 1; smallest number known to be reached
  std::vector<int64_t> next;                         // position in the row of a vertex at which its search continues
  std::vector<int32_t> path, open;                   // the search path; visited vertices without a component
  int32_t visited = 0, found = 0;

  void enter(int32_t j) {
    number[j] = low[j] = ++visited;
    next[j] = A.ptr[row_of[j]];
    path.push_back(j);
    open.push_back(j);
  }

  // Goes one vertex deeper from j; returns false if j has no unvisited neighbor.
  bool descend(int32_t j) {
    const int64_t end = A.ptr[row_of[j] + 1];
    while (next[j] < end) {
      const int32_t k = A.idx[next[j]++];
      if (number[k] == 0) {
        enter(k);
        return true;
      }
      if (block[k] < 0) low[j] = std::min(low[j], number[k]);
    }
    return false;
  }

  void leave(int32_t j) {
    path.pop_back();
    if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[j]);
    if (low[j] < number[j]) return;
    for (int32_t k = -1; k != j; open.pop_back()) {
      k = open.back();
      block[k] = found;
    }
    ++found;
  }

  void search(int32_t root) {
    enter(root);
    while (!path.empty())
      if (const int32_t j = path.back(); !descend(j)) leave(j);
  }
};

}  // namespace

// A component is closed after all components that it reaches, so the reversed order is upper triangular.
int32_t block_triangular(const Pattern& A, const std::vector<int32_t>& row_of, std::vector<int32_t>& block) {
  block.assign(A.n, -1);
  Components c{A, row_of, block, std::vector<int32_t>(A.n), std::vector<int32_t>(A.n), std::vector<int64_t>(A.n), {}, {}};
  for (int32_t j = 0; j < A.n; ++j)
    if (c.number[j] == 0) c.search(j);
  for (int32_t& b : block) b = c.found - 1 - b;
  return c.found;
}

OwnedPattern diagonal_blocks(const Pattern& A, const std::vector<int32_t>& row_of, const std::vector<int32_t>& block) {
  OwnedPattern B;
  B.ptr.reserve(A.n + 1);
  B.ptr.push_back(0);
  B.idx.reserve(A.nnz());
  for (int32_t j = 0; j < A.n; ++j) {
    for (int64_t p = A.ptr[row_of[j]]; p < A.ptr[row_of[j] + 1]; ++p)
      if (block[A.idx[p]] == block[j]) B.idx.push_back(A.idx[p]);
    B.ptr.push_back(static_cast<int64_t>(B.idx.size()));
  }
  return symmetrize(B.view(), 1);
}

}  // namespace ms::matching
