// Elimination tree of A[perm][:, perm] and its postorder. Source: Liu 1990, "The role of elimination trees in sparse
// factorization", algorithm 4.2 (path compression). Cost: one pass over A, O(nnz log n) at worst and close to linear in practice;
// scratch n. The same pass stores both triangles by rows, so that A is permuted only once for tree and counts. A range of rows
// without a column before the range is independent of the rest. Threads process such ranges, which orderings like nested
// dissection have, and the caller the rows between them.
#include <algorithm>

#include "native/memory/fetch.hpp"
#include "native/forest.hpp"
#include "native/threads/parallel.hpp"
#include "sparse/rearrange.hpp"
#include "parts.hpp"
#include "symbolic.hpp"

namespace ms::symbolic {

namespace {

constexpr int32_t kBlock = 1 << 10;             // rows read before the tree is updated: its branches would delay the loads

// Writes the rows [from, to) of both triangles. Half of the entries go to each, so the loop has no branch.
void permute(const Pattern& A, const int32_t* perm, const int32_t* iperm, int32_t from, int32_t to, Triangles& out) {
  for (int32_t k = from; k < to; ++k) {
    fetch_row(A, perm, k, A.n);
    int32_t* const columns = out.columns.get();
    int64_t lower = out.begin[k], upper = out.begin[k + 1] - 1;
    for (int64_t p = A.ptr[perm[k]]; p < A.ptr[perm[k] + 1]; ++p) {
      const int32_t i = iperm[A.idx[p]];
      columns[lower] = i;
      columns[upper] = i;
      lower += i < k;
      upper -= i > k;
    }
    out.lower[k] = static_cast<int32_t>(lower - out.begin[k]);
    out.upper[k] = static_cast<int32_t>(out.begin[k + 1] - 1 - upper);
  }
}

void climb(Triangles& t, int32_t from, int32_t to, int32_t* ancestor) {
  for (int32_t k = from; k < to; ++k)
    for (int64_t p = t.begin[k]; p < t.begin[k] + t.lower[k]; ++p) ms::climb(t.columns[p], k, ancestor, t.parent.data());
}

// Ranges of about `size` rows without a column before their range, ascending.
std::vector<Span> closed_ranges(const Triangles& t, int32_t size, int threads) {
  const int32_t n = static_cast<int32_t>(t.lower.size());
  std::vector<int32_t> first(n);                // first column of each row, or the row itself
  for_range(threads, n, kRows, [&](int64_t from, int64_t to, int) {
    for (int64_t k = from; k < to; ++k) {
      const int32_t* const row = t.columns.get() + t.begin[k];
      first[k] = static_cast<int32_t>(k);
      for (int32_t p = 0; p < t.lower[k]; ++p) first[k] = std::min(first[k], row[p]);
    }
  });
  std::vector<Span> ranges;
  int32_t begin = 0;
  const auto close = [&](int32_t end) {
    if (begin < end) ranges.push_back({begin, end});
  };
  for (int32_t k = 0; k < n; ++k) {
    if (first[k] < begin) {                     // this row connects ranges: the caller processes it
      close(k);
      begin = k + 1;
    } else if (first[k] == k && k - begin >= size) {
      close(k);
      begin = k;
    }
  }
  close(n);
  return ranges;
}

}  // namespace

Triangles etree(const Pattern& A, const int32_t* perm, const int32_t* iperm, int threads) {
  const size_t n = A.n;
  Triangles t{std::vector<int64_t>(n + 1), std::vector<int32_t>(n), std::vector<int32_t>(n),
              std::unique_ptr<int32_t[]>(new int32_t[A.nnz() + 1]), std::vector<int32_t>(n, -1), {}};
  for_range(threads, A.n, kRows, [&](int64_t b, int64_t e, int) {
    for (int64_t k = b; k < e; ++k) t.begin[k + 1] = A.degree(perm[k]);
  });
  cumsum(t.begin);
  std::vector<int32_t> ancestor(n, -1);
  if (share(A.n, threads) == A.n) {
    for (int64_t b = 0; b < A.n; b += kBlock) {
      interrupt::poll();
      const int32_t begin = static_cast<int32_t>(b), end = begin + std::min(kBlock, A.n - begin);
      permute(A, perm, iperm, begin, end, t);
      climb(t, begin, end, ancestor.data());
    }
    return t;
  }
  for_range(threads, A.n, kRows, [&](int64_t b, int64_t e, int) {
    permute(A, perm, iperm, static_cast<int32_t>(b), static_cast<int32_t>(e), t);
  });
  t.ranges = closed_ranges(t, share(A.n, threads), threads);
  for_parts(threads, A.n, t.ranges, [&](int32_t begin, int32_t end) { climb(t, begin, end, ancestor.data()); });
  return t;
}

// The parent of a row in a closed range is in this range or in no range: a fill entry that connects two ranges comes from a
// column before the later one.
Postorder postorder(const std::vector<int32_t>& parent, const std::vector<Span>& ranges, int threads) {
  const size_t n = parent.size();
  Postorder out{std::vector<int32_t>(n), std::vector<int32_t>(n)};
  std::vector<int32_t> range;
  lay_out_postorder(Forest(parent, ranges, threads), range, [](int32_t) { return 1; }, [&](int32_t j, int32_t k, int32_t size) {
    out.position[j] = k;
    out.size[k] = size;
  });
  return out;
}

std::vector<int32_t> subtree_sizes(const std::vector<int32_t>& parent) {
  std::vector<int32_t> size(parent.size(), 1);
  for (size_t j = 0; j < parent.size(); ++j)
    if (parent[j] >= 0) size[parent[j]] += size[j];
  return size;
}

std::vector<Span> subtrees(const std::vector<int32_t>& parent, int threads) {
  return share(static_cast<int32_t>(parent.size()), threads) < static_cast<int32_t>(parent.size())
             ? subtrees(parent, subtree_sizes(parent), threads) : std::vector<Span>();
}

std::vector<Span> subtrees(const std::vector<int32_t>& parent, const std::vector<int32_t>& size, int threads) {
  const int32_t n = static_cast<int32_t>(parent.size()), most = share(n, threads);
  std::vector<Span> result;
  if (most == n) return result;
  for (int32_t j = 0; j < n; ++j)
    if (size[j] <= most && (parent[j] < 0 || size[parent[j]] > most)) result.push_back({j + 1 - size[j], j + 1});
  return result;
}

std::vector<int32_t> inverse(const int32_t* perm, int32_t n, int threads) {
  std::vector<int32_t> result(n);
  for_range(threads, n, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) result[perm[k]] = static_cast<int32_t>(k);
  });
  return result;
}

}  // namespace ms::symbolic
