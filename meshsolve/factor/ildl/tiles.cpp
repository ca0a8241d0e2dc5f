// Partition of the rows into tiles: ranges of an order, or of groups of rows with similar patterns.
// Source: Thuerck et al. 2018, section 4.1; cosine similarity as in Saad 2003, "Finding exact and approximate block structures
// for ILU preconditioning", section 3. Rows longer than 10 sqrt(n) are not grouped: comparing them would take quadratic time.
#include <algorithm>
#include <cmath>

#include "incomplete.hpp"
#include "native/threads/parallel.hpp"

namespace ms::ildl {

std::vector<int32_t> cut_tiles(const int32_t* size, int32_t count, int32_t capacity, const int32_t* parent) {
  std::vector<int32_t> begin{0};
  std::vector<int64_t> rows(parent ? count : 0, 0);         // rows of the subtree of each vertex
  int32_t end = 0;
  for (int32_t v = 0; v < count; ++v) {
    const bool is_apart = parent && v > 0 && parent[v - 1] != v && rows[v - 1] > capacity;
    if (end > begin.back() && (is_apart || end + size[v] - begin.back() > capacity)) begin.push_back(end);
    end += size[v];
    if (!parent) continue;
    rows[v] += size[v];
    if (parent[v] >= 0) rows[parent[v]] += rows[v];
  }
  begin.push_back(end);
  return begin;
}

namespace {

constexpr double similar = 0.7;            // smallest cosine of two closed neighborhoods that share a tile

struct Grouping {
  const Pattern graph;
  const int32_t *const size, capacity;
  const int64_t longest;
  std::vector<int32_t> group, common, touched;
  std::vector<std::pair<double, int32_t>> candidates;

  bool is_long(int32_t v) const { return graph.degree(v) > longest; }

  void count(int32_t w, int32_t seed) {
    if (w <= seed || group[w] >= 0 || is_long(w)) return;
    if (common[w]++ == 0) touched.push_back(w);
  }

  // Ungrouped vertices after the seed that share neighbors with it, the most similar first.
  void find(int32_t seed) {
    interrupt::poll();
    touched.clear();
    candidates.clear();
    for (int64_t p = graph.ptr[seed]; p < graph.ptr[seed + 1]; ++p) {
      const int32_t u = graph.idx[p];
      count(u, seed);                      // seed and u are each in the closed neighborhood of the other
      count(u, seed);
      if (is_long(u)) continue;
      for (int64_t q = graph.ptr[u]; q < graph.ptr[u + 1]; ++q) count(graph.idx[q], seed);
    }
    for (const int32_t w : touched) {
      const double cosine = common[w] / std::sqrt(static_cast<double>((graph.degree(seed) + 1) * (graph.degree(w) + 1)));
      if (cosine >= similar) candidates.push_back({-cosine, w});
      common[w] = 0;
    }
    std::sort(candidates.begin(), candidates.end());
  }
};

}  // namespace

std::vector<int32_t> similar_vertices(const Pattern& graph, const int32_t* size, int32_t capacity) {
  Grouping g{graph, size, capacity, static_cast<int64_t>(10 * std::sqrt(static_cast<double>(graph.n))),
             std::vector<int32_t>(graph.n, -1), std::vector<int32_t>(graph.n, 0), {}, {}};
  int32_t groups = 0;
  for (int32_t v = 0; v < graph.n; ++v) {
    if (g.group[v] >= 0) continue;
    g.group[v] = groups;
    int32_t left = capacity - size[v];
    if (left > 0 && !g.is_long(v)) g.find(v);
    else g.candidates.clear();
    for (const auto& [minus_cosine, w] : g.candidates)
      if (size[w] <= left) {
        g.group[w] = groups;
        left -= size[w];
      }
    ++groups;
  }
  return std::move(g.group);
}

Renumbered renumber(const Pattern& A, const int32_t* rows, int threads) {
  constexpr int64_t grain = 1 << 13;
  Renumbered to{{std::vector<int64_t>(A.n + 1, 0), std::vector<int32_t>(A.nnz())}, std::vector<int64_t>(A.nnz())};
  std::vector<int32_t> position(A.n);
  for (int32_t k = 0; k < A.n; ++k) {
    position[rows[k]] = k;
    to.matrix.ptr[k + 1] = to.matrix.ptr[k] + A.degree(rows[k]);
  }
  for_range(threads, A.n, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) {
      int64_t at = to.matrix.ptr[k];
      for (int64_t p = A.ptr[rows[k]]; p < A.ptr[rows[k] + 1]; ++p, ++at) {
        to.matrix.idx[at] = position[A.idx[p]];
        to.source[at] = p;
      }
    }
  });
  return to;
}

}  // namespace ms::ildl
