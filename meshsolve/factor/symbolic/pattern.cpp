// Row lists of supernodes, and from them the pattern of L: LCA enumeration. Source: Ribizel, Anzt 2023, "Parallel symbolic
// Cholesky factorization". In a postordered tree the sorted lower nonzeros j1 < ... < jk < i of row i cut its row subtree into
// the paths [j1, LCA(j1, j2)), ..., [jk, i), and LCA(u, v) is the first node w >= v on the way up from u. The theorem holds for
// the tree of supernodes as well, where paths are several times shorter, and nonzeros of one supernode coincide. Column j of L is
// then a tail of its supernode's list. Rows are appended one after the other, so every list is sorted; column counts give all
// lengths before. Rows of a subtree are appended to lists of that subtree only: threads process subtrees, then the caller the
// rows above them. If the tree came with the ordering, the nonzeros have not been sorted. Marking the supernodes that a row has
// visited is then faster than sorting. Cost: O(nnz(A) + size of the lists), for L itself O(nnz(L)); scratch O(nnz(A)).
#include <algorithm>
#include <numeric>

#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "sparse/rearrange.hpp"
#include "parts.hpp"
#include "symbolic.hpp"

namespace ms::symbolic {

namespace {

std::vector<int32_t> first_descendants(const std::vector<int32_t>& parent) {
  std::vector<int32_t> first(parent.size());
  std::iota(first.begin(), first.end(), 0);
  for (size_t j = 0; j < parent.size(); ++j)
    if (parent[j] >= 0) first[parent[j]] = std::min(first[parent[j]], first[j]);
  return first;
}

}  // namespace

// Rows in parallel; each uses the positions of its row of A.
Skeleton skeleton(const Pattern& A, const Analysis& analysis, int threads) {
  const std::vector<int32_t> descendant = first_descendants(analysis.parent);
  Skeleton result{analysis.perm, {A.ptr, A.ptr + A.n}, std::vector<int32_t>(A.n),
                  std::unique_ptr<int32_t[]>(new int32_t[A.nnz()])};
  for_range(threads, A.n, kRows, [&](int64_t from, int64_t to, int) {
    std::vector<int32_t> row;
    for (int32_t i = static_cast<int32_t>(from); i < to; ++i) {
      if (i % kRows == 0) interrupt::poll();
      fetch_row(A, analysis.perm, i, A.n);
      const int32_t old = analysis.perm[i];
      row.resize(std::max<size_t>(row.size(), A.degree(old) + 1));
      int32_t* last = row.data();
      for (int64_t p = A.ptr[old]; p < A.ptr[old + 1]; ++p) {
        *last = analysis.iperm[A.idx[p]];
        last += *last < i;
      }
      sort_row(row.data(), last);
      int32_t* leaf = result.leaves.get() + A.ptr[old];
      for (int32_t before = -1, *j = row.data(); j < last; before = *j++)
        if (before < descendant[*j]) *leaf++ = *j;         // j has no descendant in this row
      result.count[old] = static_cast<int32_t>(leaf - result.leaves.get() - A.ptr[old]);
    }
  });
  return result;
}

void row_lists(const Skeleton& skeleton, const std::vector<int32_t>& old_row, const std::vector<int32_t>& block_of,
               const std::vector<int32_t>& up, const std::vector<int32_t>& parent, std::vector<int64_t>& next,
               RawVector<int32_t>& rows, int threads) {
  const int32_t n = static_cast<int32_t>(old_row.size());
  for_parts(threads, n, subtrees(parent, threads), [&](int32_t from, int32_t to) {
    for (int32_t i = from; i < to; ++i) {
      if (i % kRows == 0) interrupt::poll();
      const int32_t own = block_of[old_row[i]], slot = skeleton.slot[old_row[i]];
      const int32_t *leaf = skeleton.leaves.get() + skeleton.begin[slot], *last = leaf + skeleton.count[slot];
      for (; leaf < last; ++leaf) {
        const int32_t stop = leaf + 1 < last ? block_of[leaf[1]] : own;
        for (int32_t b = block_of[*leaf]; b < stop; b = up[b]) rows[next[b]++] = i;       // to the LCA with the next leaf
      }
    }
  });
}

// From each entry of a row, walks up the tree to a block that the row has visited. Blocks of later columns are not smaller than
// the row's own. Half of the entries are in such blocks, in an unpredictable order, so the test has no branch.
void row_lists(const Pattern& A, const Analysis& analysis, const std::vector<int32_t>& block_of, const std::vector<int32_t>& up,
               std::vector<int64_t>& next, RawVector<int32_t>& rows, int threads) {
  std::vector<int32_t> latest(up.size(), -1);           // last row of each block
  for_parts(threads, A.n, subtrees(analysis.parent, threads), [&](int32_t from, int32_t to) {
    std::vector<uint32_t> below;
    for (int32_t i = from; i < to; ++i) {
      if (i % kRows == 0) interrupt::poll();
      fetch_row(A, analysis.perm, i, to);
      const int32_t vertex = analysis.perm[i];
      const uint32_t own = block_of[vertex];
      below.resize(std::max<size_t>(below.size(), A.degree(vertex)));
      uint32_t* last = below.data();
      for (int64_t p = A.ptr[vertex]; p < A.ptr[vertex + 1]; ++p) {
        *last = block_of[A.idx[p]];
        last += *last < own;
      }
      for (const uint32_t* entry = below.data(); entry < last; ++entry)
        for (uint32_t b = *entry; b < own && latest[b] != i; b = up[b]) {
          latest[b] = i;
          rows[next[b]++] = i;
        }
    }
  });
}

OwnedPattern pattern_lca(const Pattern& A, const Analysis& analysis, int threads) {
  const std::vector<int32_t> first = fundamental_supernodes(analysis, threads);
  const int32_t n = A.n, count = static_cast<int32_t>(first.size()) - 1;
  std::vector<int32_t> natural(n), block_of(n), up(count, -1);
  RawVector<int32_t> rows;
  std::vector<int64_t> begin(count + size_t{1}, 0);
  std::iota(natural.begin(), natural.end(), 0);
  for (int32_t s = 0; s < count; ++s) {
    std::fill(block_of.begin() + first[s], block_of.begin() + first[s + 1], s);
    begin[s + 1] = begin[s] + analysis.colcount[first[s + 1] - 1] - 1;
  }
  for (int32_t s = 0; s < count; ++s)
    if (const int32_t above = analysis.parent[first[s + 1] - 1]; above >= 0) up[s] = block_of[above];
  rows.resize(begin[count]);
  std::vector<int64_t> next(begin.begin(), begin.end() - 1);
  row_lists(skeleton(A, analysis, threads), natural, block_of, up, analysis.parent, next, rows, threads);

  OwnedPattern L;
  L.ptr.assign(n + size_t{1}, 0);
  for (int32_t j = 0; j < n; ++j) L.ptr[j + 1] = L.ptr[j] + analysis.colcount[j];
  L.idx.resize(L.ptr[n]);
  for_range(threads, n, kRows, [&](int64_t from, int64_t to, int) {
    for (int64_t j = from; j < to; ++j) {               // the rest of the block, then its list
      const int32_t s = block_of[j];
      int32_t* column = L.idx.data() + L.ptr[j];
      for (int32_t i = static_cast<int32_t>(j); i < first[s + 1]; ++i) *column++ = i;
      std::copy(rows.begin() + begin[s], rows.begin() + begin[s + 1], column);
    }
  });
  return L;
}

}  // namespace ms::symbolic
