// Reduction of a graph before a dissection. Dense rows would connect every part with every other, so they are removed and
// numbered last. Indistinguishable nodes (adjacent, with the same other neighbors: the unknowns of one mesh vertex) are
// eliminated together in any good order, so they become one vertex. They are searched for in a sample first.
// Term: George, Liu 1989, "The evolution of the minimum degree ordering algorithm". Cost: O(n + nnz).
#include "prepass.hpp"

#include <algorithm>
#include <cmath>

#include "sparse/rearrange.hpp"
#include "native/rng.hpp"

namespace ms::order {
namespace {

constexpr int32_t kSample = 1000;           // vertices that are tested before all of them are
constexpr int64_t kShortRow = 64;           // mean row length up to which rows are compared without hashes
constexpr double kWorthMerging = 0.15;      // share of vertices with an indistinguishable neighbor from which merging pays

std::vector<int32_t> dense_rows(const Pattern& A) {
  const double limit = std::max(64.0, 10.0 * std::sqrt(static_cast<double>(A.n)));
  std::vector<int32_t> rows;
  for (int32_t i = 0; i < A.n; ++i)
    if (static_cast<double>(A.degree(i)) > limit) rows.push_back(i);
  if (static_cast<double>(rows.size()) > std::sqrt(static_cast<double>(A.n))) rows.clear();    // keep them: not outliers
  std::stable_sort(rows.begin(), rows.end(), [&](int32_t a, int32_t b) { return A.degree(a) < A.degree(b); });
  return rows;
}

// The pattern of A on the groups: renumbered[i] is the group of row i or -1, first[g] the row that leader group g.
OwnedPattern restrict_to(const Pattern& A, const std::vector<int32_t>& renumbered, const std::vector<int32_t>& first) {
  OwnedPattern B;
  const int32_t n = static_cast<int32_t>(first.size());
  B.ptr.assign(1, 0);
  B.ptr.reserve(n + 1);
  for (int32_t i = 0; i < n; ++i) {
    const int32_t v = first[i];
    for (int64_t p = A.ptr[v]; p < A.ptr[v + 1]; ++p) {
      const int32_t u = A.idx[p];
      if (renumbered[u] >= 0 && renumbered[u] != i && first[renumbered[u]] == u) B.idx.push_back(renumbered[u]);
    }
    B.ptr.push_back(static_cast<int64_t>(B.idx.size()));
  }
  return B;
}

// Hash of each vertex and its neighbors: equal for indistinguishable nodes. Empty if rows are short: comparing them is as fast.
std::vector<uint64_t> row_hashes(const Pattern& A) {
  std::vector<uint64_t> hashes;
  if (A.nnz() <= kShortRow * A.n) return hashes;
  for (int32_t v = 0; v < A.n; ++v) {
    uint64_t sum = mix64(static_cast<uint64_t>(v));
    for (int64_t p = A.ptr[v]; p < A.ptr[v + 1]; ++p) sum += mix64(static_cast<uint64_t>(A.idx[p]));
    hashes.push_back(sum);
  }
  return hashes;
}

// True if adjacent vertices v and u have the same other neighbors.
bool indistinguishable(const Pattern& A, const std::vector<uint64_t>& hashes, int32_t v, int32_t u) {
  if (A.degree(v) != A.degree(u) || (!hashes.empty() && hashes[v] != hashes[u])) return false;
  int64_t p = A.ptr[v], q = A.ptr[u];
  for (;;) {
    if (p < A.ptr[v + 1] && A.idx[p] == u) ++p;
    if (q < A.ptr[u + 1] && A.idx[q] == v) ++q;
    if (p == A.ptr[v + 1] || q == A.ptr[u + 1]) return p == A.ptr[v + 1] && q == A.ptr[u + 1];
    if (A.idx[p++] != A.idx[q++]) return false;
  }
}

// The smallest node that is indistinguishable from v, or v itself.
int32_t representative(const Pattern& A, const std::vector<uint64_t>& hashes, int32_t v) {
  for (int64_t p = A.ptr[v]; p < A.ptr[v + 1] && A.idx[p] < v; ++p)
    if (indistinguishable(A, hashes, v, A.idx[p])) return A.idx[p];
  return v;
}

bool worth_merging(const Pattern& A, const std::vector<uint64_t>& hashes) {
  const int32_t sample = std::min(kSample, A.n);
  int32_t found = 0;
  for (int32_t k = 0; k < sample; ++k) {
    const int32_t v = static_cast<int32_t>(int64_t{k} * A.n / sample);
    for (int64_t p = A.ptr[v]; p < A.ptr[v + 1]; ++p)
      if (indistinguishable(A, hashes, v, A.idx[p])) {
        ++found;
        break;
      }
  }
  return found > kWorthMerging * sample;
}

// Postordered tree of the nodes: the parent of a node is the first later node whose subtree contains it.
Tree tree_of(std::vector<TreeNode>& nodes) {
  std::sort(nodes.begin(), nodes.end(), [](const TreeNode& a, const TreeNode& b) { return a.first < b.first; });
  Tree t;
  std::vector<int32_t> open;                  // nodes without a parent yet
  for (const TreeNode& s : nodes) {
    const int32_t k = static_cast<int32_t>(t.parent.size());
    while (!open.empty() && t.first[open.back()] >= s.begin) {
      t.parent[open.back()] = k;
      open.pop_back();
    }
    t.parent.push_back(-1);
    t.first.push_back(s.first);
    t.last.push_back(s.last);
    open.push_back(k);
  }
  return t;
}

}  // namespace

void reduce(const Pattern& A, Reduced& r) {
  r.graph = A;
  r.dense = dense_rows(A);
  const std::vector<uint64_t> hashes = row_hashes(A);
  const bool merge = worth_merging(A, hashes);
  if (r.dense.empty() && !merge) return;
  std::vector<int32_t> renumbered(A.n, 0), first;
  for (const int32_t i : r.dense) renumbered[i] = -1;
  for (int32_t v = 0; v < A.n; ++v) {
    if (renumbered[v] < 0) continue;
    const int32_t leader = merge ? representative(A, hashes, v) : v;
    renumbered[v] = leader < v ? renumbered[leader] : static_cast<int32_t>(first.size());
    if (leader == v) first.push_back(v);
  }
  const int32_t n = static_cast<int32_t>(first.size());
  r.group_start.assign(n + 1, 0);
  for (int32_t v = 0; v < A.n; ++v)
    if (renumbered[v] >= 0) ++r.group_start[renumbered[v] + 1];
  std::vector<int32_t> next = cumsum_with_cursors(r.group_start);
  r.group.resize(r.group_start[n]);
  for (int32_t v = 0; v < A.n; ++v)
    if (renumbered[v] >= 0) r.group[next[renumbered[v]]++] = v;
  r.storage = restrict_to(A, renumbered, first);
  r.graph = r.storage.view();
}

void expand(const Reduced& r, const Partial& partial, Ordering& result) {
  std::vector<TreeNode> nodes = partial.nodes;
  if (r.group_start.empty()) {
    result.perm = partial.perm;
  } else {
    std::vector<int32_t> position(partial.perm.size() + 1, 0);      // new position of the first vertex of each group
    for (size_t k = 0; k < partial.perm.size(); ++k) {
      const int32_t g = partial.perm[k];
      result.perm.insert(result.perm.end(), r.group.begin() + r.group_start[g], r.group.begin() + r.group_start[g + 1]);
      position[k + 1] = static_cast<int32_t>(result.perm.size());
    }
    for (TreeNode& s : nodes) s = {position[s.begin], position[s.first], position[s.last]};
  }
  if (!r.dense.empty()) {
    const int32_t at = static_cast<int32_t>(result.perm.size());
    result.perm.insert(result.perm.end(), r.dense.begin(), r.dense.end());
    nodes.push_back({0, at, static_cast<int32_t>(result.perm.size())});
  }
  result.tree = tree_of(nodes);
  result.patches = partial.patches;
}

Partial by_components(const Pattern& A, const Limits& limits) {
  std::vector<int32_t> component(A.n, -1), queue, start{0};
  queue.reserve(A.n);
  for (int32_t s = 0; s < A.n; ++s) {
    if (component[s] >= 0) continue;
    const int32_t c = static_cast<int32_t>(start.size()) - 1;
    size_t head = queue.size();
    component[s] = c;
    queue.push_back(s);
    for (; head < queue.size(); ++head)
      for (int64_t p = A.ptr[queue[head]]; p < A.ptr[queue[head] + 1]; ++p) {
        const int32_t u = A.idx[p];
        if (component[u] >= 0) continue;
        component[u] = c;
        queue.push_back(u);
      }
    start.push_back(static_cast<int32_t>(queue.size()));
  }
  Partial partial;
  partial.perm.resize(A.n);
  std::vector<int32_t> next(start.begin(), start.end() - 1);
  const std::vector<int32_t> order = amd(A, limits).perm;
  for (const int32_t v : order) partial.perm[next[component[v]]++] = v;
  for (size_t c = 0; c + 1 < start.size(); ++c) partial.nodes.push_back({start[c], start[c], start[c + 1]});
  return partial;
}

}  // namespace ms::order
