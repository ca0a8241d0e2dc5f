// Elimination tree of A[perm][:, perm] and its postorder.
// Source: Liu 1990, "The role of elimination trees in sparse factorization", algorithm 4.2 (path compression).
// Cost: one pass over A, O(nnz log n) at worst and close to linear in practice; scratch 2 n and the largest degree.
// The same pass keeps the strict lower triangle by columns, so that A is permuted only once for tree and counts.
#include <algorithm>

#include "native/interrupt.hpp"
#include "symbolic.hpp"

namespace ms::symbolic {

namespace {

constexpr int32_t kBlock = 1 << 10;             // rows read ahead of the tree, whose branches would hold up the loads
constexpr int32_t kAhead = 16;                  // rows from the one that is read to the one that is fetched

// Row k meets column j < k: the root of the tree that holds j becomes a child of k, and the path to it points to k.
inline void climb(int32_t j, int32_t k, int32_t* ancestor, int32_t* parent) {
  while (ancestor[j] != k) {
    const int32_t next = ancestor[j];
    ancestor[j] = k;
    if (next < 0) {
      parent[j] = k;
      return;
    }
    j = next;
  }
}

}  // namespace

Triangle etree(const Pattern& A, const int32_t* perm, const int32_t* iperm) {
  const size_t n = A.n;
  Triangle lower{std::vector<int64_t>(n + 1), std::unique_ptr<int32_t[]>(new int32_t[A.nnz() + 1]),
                 std::vector<int64_t>(n + 1), std::vector<int32_t>(n, -1)};
  std::vector<int32_t> ancestor(n, -1), left;
  int64_t below = 0;
  for (int64_t b = 0; b < A.n; b += kBlock) {
    interrupt::poll();
    const int32_t begin = static_cast<int32_t>(b), end = begin + std::min(kBlock, A.n - begin);
    int64_t entries = 1;
    for (int32_t k = begin; k < end; ++k) entries += A.degree(perm[k]);
    left.resize(std::max<size_t>(left.size(), entries));
    const int64_t before = lower.row_ptr[begin];
    int32_t* tail = left.data();
    for (int32_t k = begin; k < end; ++k) {
      __builtin_prefetch(A.idx + A.ptr[perm[k + std::min(kAhead, A.n - 1 - k)]]);
      for (int64_t p = A.ptr[perm[k]]; p < A.ptr[perm[k] + 1]; ++p) {   // half of the entries go each way: no branch
        const int32_t i = iperm[A.idx[p]];
        *tail = i;
        tail += i < k;
        lower.rows[below] = i;
        below += i > k;
      }
      lower.row_ptr[k + 1] = before + (tail - left.data());
      lower.ptr[k + 1] = below;
    }
    for (int32_t k = begin; k < end; ++k)
      for (int64_t p = lower.row_ptr[k]; p < lower.row_ptr[k + 1]; ++p)
        climb(left[p - before], k, ancestor.data(), lower.parent.data());
  }
  return lower;
}

// A subtree takes a range that ends in its root. From the roots down, each node hands the rest of its range to its
// children, the last child first: no recursion, no child lists.
std::vector<int32_t> postorder(const std::vector<int32_t>& parent) {
  const int32_t n = static_cast<int32_t>(parent.size());
  std::vector<int32_t> size(n, 1), place(n);
  for (int32_t j = 0; j < n; ++j)
    if (parent[j] >= 0) size[parent[j]] += size[j];
  int32_t roots = n;
  for (int32_t j = n; j-- > 0;) {
    int32_t& free = parent[j] < 0 ? roots : size[parent[j]];    // a parent's size has become the end of what it has left
    place[j] = free - 1;
    free -= size[j];
    size[j] = place[j];
  }
  return place;
}

std::vector<int32_t> inverse(const std::vector<int32_t>& perm) {
  std::vector<int32_t> result(perm.size());
  for (size_t k = 0; k < perm.size(); ++k) result[perm[k]] = static_cast<int32_t>(k);
  return result;
}

}  // namespace ms::symbolic
