// Counting sorts for the edges and the adjacency. All serial: whatever is summed per edge is then in the order of the faces
// on every machine.
#include "edges.hpp"

#include <algorithm>
#include <utility>

#include "native/forest.hpp"
#include "native/rearrange.hpp"

namespace ms::mesh {

// Sides are put into buckets by their lower vertex; a bucket, about three sides for each of its edges, is sorted by the
// higher vertex and walked once.
Edges edges_of(int32_t n, const int32_t* faces, int64_t m) {
  Edges out;
  out.of_side.resize(3 * m);
  std::vector<int64_t> start(n + 1, 0);
  const auto each_side = [&](auto&& f) {
    for (int64_t t = 0; t < m; ++t)
      for (int c = 0; c < 3; ++c) {
        const int32_t a = faces[3 * t + c], b = faces[3 * t + (c == 2 ? 0 : c + 1)];
        f(3 * t + c, std::min(a, b), std::max(a, b));
      }
  };
  each_side([&](int64_t, int32_t low, int32_t) { ++start[low + 1]; });
  std::vector<int64_t> next = begin_rows(start);
  std::vector<std::pair<int32_t, int32_t>> bucket(3 * m);        // (higher vertex, side)
  each_side([&](int64_t side, int32_t low, int32_t high) { bucket[next[low]++] = {high, static_cast<int32_t>(side)}; });
  out.ends.reserve(3 * m + 64);
  int32_t edge = -1;
  for (int32_t v = 0; v < n; ++v) {
    std::sort(bucket.begin() + start[v], bucket.begin() + start[v + 1]);
    int32_t last = -1;
    for (int64_t p = start[v]; p < start[v + 1]; ++p) {
      const auto [high, side] = bucket[p];
      if (high != last) {
        ++edge;
        out.ends.push_back(v);
        out.ends.push_back(high);
        last = high;
      }
      out.of_side[side] = edge;
    }
  }
  out.ends.shrink_to_fit();
  return out;
}

// Disjoint sets of corners: two corners at one vertex are joined when an edge at that vertex joins their faces.
bool manifold(int32_t n, const int32_t* faces, int64_t m, const int32_t* of_side, int64_t e) {
  std::vector<int32_t> first(e, -1), set(3 * m);
  for (int64_t k = 0; k < 3 * m; ++k) set[k] = static_cast<int32_t>(k);
  const auto root = [&](int32_t k) { return find_root(k, set.data()); };
  const auto head = [](int32_t side) { return side % 3 == 2 ? side - 2 : side + 1; };       // corner at which a side ends
  for (int64_t k = 0; k < 3 * m; ++k) {
    const int32_t side = static_cast<int32_t>(k);
    int32_t& other = first[of_side[k]];
    if (other == -1) {
      other = side;
      continue;
    }
    if (other == -2) return false;                // a third face
    const bool along = faces[other] == faces[side];
    set[root(side)] = root(along ? other : head(other));
    set[root(head(side))] = root(along ? head(other) : other);
    other = -2;
  }
  std::vector<char> seen(n, 0);
  for (int64_t k = 0; k < 3 * m; ++k)
    if (set[k] == k && seen[faces[k]]++) return false;
  return true;
}

// The edges come in lexicographic order: going through them once fills the lower neighbours of every row in ascending
// order, and once more the higher ones.
Adjacency adjacency_of(int32_t n, const int32_t* ends, int64_t e, bool diagonal) {
  Adjacency out;
  auto& ptr = out.rows.ptr;
  ptr.assign(n + 1, 0);
  for (int64_t k = 0; k < 2 * e; ++k) ++ptr[ends[k] + 1];
  for (int32_t v = 0; v < n; ++v) ptr[v + 1] += ptr[v] + diagonal;
  out.rows.idx.resize(ptr[n]);
  out.edge.resize(ptr[n]);
  std::vector<int64_t> next(ptr.begin(), ptr.end() - 1);
  const auto put = [&](int32_t row, int32_t column, int32_t edge) {
    out.rows.idx[next[row]] = column;
    out.edge[next[row]++] = edge;
  };
  for (int64_t k = 0; k < e; ++k) put(ends[2 * k + 1], ends[2 * k], static_cast<int32_t>(k));
  if (diagonal)
    for (int32_t v = 0; v < n; ++v) put(v, v, -1);
  for (int64_t k = 0; k < e; ++k) put(ends[2 * k], ends[2 * k + 1], static_cast<int32_t>(k));
  return out;
}

}  // namespace ms::mesh
