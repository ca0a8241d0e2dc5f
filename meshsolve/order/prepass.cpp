// Dense rows would join everything with everything: they are taken out and numbered last. Twins (neighbours with the same
// other neighbours: the unknowns of one mesh vertex) are eliminated together in any good order: they become one vertex.
// Cost O(n + nnz); twins are looked for in a sample first.
#include "prepass.hpp"

#include <algorithm>
#include <cmath>

#include "sparse/rearrange.hpp"
#include "native/rng.hpp"

namespace ms::order {
namespace {

constexpr int32_t kSample = 1000;           // vertices looked at before twins are searched everywhere
constexpr int64_t kShortRow = 64;           // mean length of a row up to which rows are compared entry by entry
constexpr double kWorthMerging = 0.15;      // share of vertices with a twin from which merging pays

std::vector<int32_t> dense_rows(const Pattern& A) {
  const double limit = std::max(64.0, 10.0 * std::sqrt(static_cast<double>(A.n)));
  std::vector<int32_t> rows;
  for (int32_t i = 0; i < A.n; ++i)
    if (static_cast<double>(A.degree(i)) > limit) rows.push_back(i);
  if (static_cast<double>(rows.size()) > std::sqrt(static_cast<double>(A.n))) rows.clear();    // not the exception here
  std::stable_sort(rows.begin(), rows.end(), [&](int32_t a, int32_t b) { return A.degree(a) < A.degree(b); });
  return rows;
}

// The rows and columns of A with fresh[i] >= 0, in these new numbers; several i may share one (twins): the first stands.
OwnedPattern restrict_to(const Pattern& A, const std::vector<int32_t>& fresh, const std::vector<int32_t>& first) {
  OwnedPattern B;
  const int32_t n = static_cast<int32_t>(first.size());
  B.ptr.assign(1, 0);
  B.ptr.reserve(n + 1);
  for (int32_t i = 0; i < n; ++i) {
    const int32_t v = first[i];
    for (int64_t p = A.ptr[v]; p < A.ptr[v + 1]; ++p) {
      const int32_t u = A.idx[p];
      if (fresh[u] >= 0 && fresh[u] != i && first[fresh[u]] == u) B.idx.push_back(fresh[u]);
    }
    B.ptr.push_back(static_cast<int64_t>(B.idx.size()));
  }
  return B;
}

// Sums of hashes of each vertex and its neighbors, the same for twins. Empty where rows are short, as comparing these takes no longer.
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

// The same neighbours but for each other.
bool twins(const Pattern& A, const std::vector<uint64_t>& hashes, int32_t v, int32_t u) {
  if (A.degree(v) != A.degree(u) || (!hashes.empty() && hashes[v] != hashes[u])) return false;
  int64_t p = A.ptr[v], q = A.ptr[u];
  for (;;) {
    if (p < A.ptr[v + 1] && A.idx[p] == u) ++p;
    if (q < A.ptr[u + 1] && A.idx[q] == v) ++q;
    if (p == A.ptr[v + 1] || q == A.ptr[u + 1]) return p == A.ptr[v + 1] && q == A.ptr[u + 1];
    if (A.idx[p++] != A.idx[q++]) return false;
  }
}

int32_t first_twin(const Pattern& A, const std::vector<uint64_t>& hashes, int32_t v) {
  for (int64_t p = A.ptr[v]; p < A.ptr[v + 1] && A.idx[p] < v; ++p)
    if (twins(A, hashes, v, A.idx[p])) return A.idx[p];
  return v;
}

bool has_many_twins(const Pattern& A, const std::vector<uint64_t>& hashes) {
  const int32_t sample = std::min(kSample, A.n);
  int32_t found = 0;
  for (int32_t k = 0; k < sample; ++k) {
    const int32_t v = static_cast<int32_t>(int64_t{k} * A.n / sample);
    for (int64_t p = A.ptr[v]; p < A.ptr[v + 1]; ++p)
      if (twins(A, hashes, v, A.idx[p])) {
        ++found;
        break;
      }
  }
  return found > kWorthMerging * sample;
}

// Nodes become a postordered tree: the parent of a node is the first later one whose subtree holds it.
Tree tree_of(std::vector<TreeNode>& nodes) {
  std::sort(nodes.begin(), nodes.end(), [](const TreeNode& a, const TreeNode& b) { return a.first < b.first; });
  Tree t;
  std::vector<int32_t> open;                  // nodes without a parent so far
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
  const bool merge = has_many_twins(A, hashes);
  if (r.dense.empty() && !merge) return;
  std::vector<int32_t> fresh(A.n, 0), first;
  for (const int32_t i : r.dense) fresh[i] = -1;
  for (int32_t v = 0; v < A.n; ++v) {
    if (fresh[v] < 0) continue;
    const int32_t twin = merge ? first_twin(A, hashes, v) : v;
    fresh[v] = twin < v ? fresh[twin] : static_cast<int32_t>(first.size());
    if (twin == v) first.push_back(v);
  }
  const int32_t n = static_cast<int32_t>(first.size());
  r.group_start.assign(n + 1, 0);
  for (int32_t v = 0; v < A.n; ++v)
    if (fresh[v] >= 0) ++r.group_start[fresh[v] + 1];
  std::vector<int32_t> next = cumsum_with_cursors(r.group_start);
  r.group.resize(r.group_start[n]);
  for (int32_t v = 0; v < A.n; ++v)
    if (fresh[v] >= 0) r.group[next[fresh[v]]++] = v;
  r.held = restrict_to(A, fresh, first);
  r.graph = r.held.view();
}

void expand(const Reduced& r, const Partial& partial, Ordering& result) {
  std::vector<TreeNode> nodes = partial.nodes;
  if (r.group_start.empty()) {
    result.perm = partial.perm;
  } else {
    std::vector<int32_t> position(partial.perm.size() + 1, 0);      // of the first vertex of each group
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
