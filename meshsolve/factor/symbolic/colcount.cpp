// Column counts of L without L.
// Source: Gilbert, Ng, Peyton 1994, "An efficient algorithm to compute row and column counts for sparse Cholesky
// factorization", section 4. Cost: O(nnz alpha(n)); scratch 4 n.
// Row i of L is a subtree of the elimination tree whose leaves j have a_ij != 0 and none of their descendants has. Each leaf
// adds one to the columns above it, from where two leaves meet (their lowest common ancestor, LCA) the paths count once.
// On the way, these leaves are written down by rows: the skeleton of A, from which the rows of supernodes are listed.
// All labels are postorder ones but `i`: rows keep their given numbers, for they only name places.
#include <algorithm>
#include <utility>

#include "native/interrupt.hpp"
#include "symbolic.hpp"

namespace ms::symbolic {

namespace {

// Root of the finished subtree that holds j, by path halving. While k is visited, it is LCA(j, k) for any earlier j.
inline int32_t find(int32_t j, int32_t* ancestor) {
  while (ancestor[j] != j) {
    ancestor[j] = ancestor[ancestor[j]];
    j = ancestor[j];
  }
  return j;
}

}  // namespace

std::vector<int32_t> colcount(Triangle lower, std::vector<int32_t> post, const std::vector<int32_t>& parent,
                              Skeleton* skeleton) {
  const int32_t n = static_cast<int32_t>(parent.size());
  std::vector<int32_t> count(n, 1), first(n), ancestor(n), previous(n, -1);
  if (skeleton)
    *skeleton = {{}, std::move(lower.row_ptr), std::vector<int32_t>(n, 0),
                 std::unique_ptr<int32_t[]>(new int32_t[lower.ptr[n]])};
  for (int32_t k = 0; k < n; ++k) first[k] = ancestor[k] = k;
  for (int32_t k = 0; k < n; ++k)
    if (parent[k] >= 0) {
      first[parent[k]] = std::min(first[parent[k]], first[k]);    // first descendant
      count[parent[k]] = 0;                                       // no leaf of the tree
    }
  for (int32_t k = 0; k < n; ++k) {
    if (k % (1 << 15) == 0) interrupt::poll();
    for (int64_t p = lower.ptr[post[k]]; p < lower.ptr[post[k] + 1]; ++p) {
      const int32_t i = lower.rows[p], leaf = previous[i];
      if (leaf >= first[k]) continue;                             // a descendant of k is in this row: k is no leaf
      ++count[k];
      if (leaf >= 0) --count[find(leaf, ancestor.data())];
      previous[i] = k;
      if (skeleton) skeleton->leaves[skeleton->begin[i] + skeleton->count[i]++] = k;
    }
    if (parent[k] >= 0) {
      --count[parent[k]];
      ancestor[k] = parent[k];
    }
  }
  for (int32_t k = 0; k < n; ++k)
    if (parent[k] >= 0) count[parent[k]] += count[k];
  if (skeleton) skeleton->slot = std::move(post);
  return count;
}

}  // namespace ms::symbolic
