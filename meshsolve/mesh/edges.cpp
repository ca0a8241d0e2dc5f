// Counting sorts for edges and adjacency. Each thread scans all sides or edges and sorts those of its range of vertices. The result
// does not depend on the number of threads.
#include "edges.hpp"

#include <algorithm>

#include "native/forest.hpp"
#include "native/threads/parallel.hpp"
#include "sparse/rearrange.hpp"

namespace ms::mesh {

namespace {

// The sides whose lower vertex is in a range, in one bucket per lower vertex. A bucket is sorted by the higher vertex.
struct Sides {
  std::vector<int64_t> start;                                  // first entry of each bucket
  RawVector<uint64_t> bucket;                                  // higher vertex in the upper half, side in the lower half
  int64_t edges = 0;

  static int32_t high(uint64_t entry) { return static_cast<int32_t>(entry >> 32); }

  void gather(int64_t begin, int64_t end, const int32_t* faces, int64_t m) {
    const auto each_side = [&](auto&& f) {
      for (int64_t t = 0; t < m; ++t)
        for (int c = 0; c < 3; ++c) {
          const int32_t a = faces[3 * t + c], b = faces[3 * t + (c == 2 ? 0 : c + 1)], low = std::min(a, b);
          if (low >= begin && low < end) f(3 * t + c, low - begin, std::max(a, b));
        }
    };
    start.assign(end - begin + 1, 0);
    each_side([&](int64_t, int64_t low, int32_t) { ++start[low + 1]; });
    std::vector<int64_t> next = cumsum_with_cursors(start);
    bucket.resize(start.back());
    each_side([&](int64_t side, int64_t low, int32_t high) { bucket[next[low]++] = uint64_t(high) << 32 | uint64_t(side); });
    for (int64_t v = 0; v < end - begin; ++v) {
      std::sort(bucket.begin() + start[v], bucket.begin() + start[v + 1]);
      for (int64_t p = start[v]; p < start[v + 1]; ++p) edges += p == start[v] || high(bucket[p]) != high(bucket[p - 1]);
    }
  }

  // Numbers the edges of the range from `edge` on.
  void number(int64_t begin, int64_t edge, Edges& out) const {
    --edge;
    for (int64_t v = 0; v + 1 < static_cast<int64_t>(start.size()); ++v)
      for (int64_t p = start[v]; p < start[v + 1]; ++p) {
        if (p == start[v] || high(bucket[p]) != high(bucket[p - 1])) {
          ++edge;
          out.ends[2 * edge] = static_cast<int32_t>(begin + v);
          out.ends[2 * edge + 1] = high(bucket[p]);
        }
        out.of_side[static_cast<uint32_t>(bucket[p])] = static_cast<int32_t>(edge);
      }
  }
};

}  // namespace

Edges edges_of(int32_t n, const int32_t* faces, int64_t m, int threads) {
  std::vector<Sides> parts(threads);
  for_parts_of_all(threads, n, m, [&](int64_t begin, int64_t end, int64_t part) { parts[part].gather(begin, end, faces, m); });
  std::vector<int64_t> first(threads + 1, 0);
  for (int t = 0; t < threads; ++t) first[t + 1] = first[t] + parts[t].edges;
  Edges out;
  out.ends.resize(2 * first[threads]);
  out.of_side.resize(3 * m);
  for_parts_of_all(threads, n, m, [&](int64_t begin, int64_t, int64_t part) { parts[part].number(begin, first[part], out); });
  return out;
}

// Union-find on corners: two corners at a vertex are joined if their faces share an edge at that vertex.
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

// Roots are the lowest vertices of their trees.
RawVector<int32_t> components_of(int32_t n, const int32_t* ends, int64_t e) {
  RawVector<int32_t> tree(n);
  for (int32_t v = 0; v < n; ++v) tree[v] = v;
  for (int64_t k = 0; k < e; ++k) {
    const int32_t a = find_root(ends[2 * k], tree.data()), b = find_root(ends[2 * k + 1], tree.data());
    tree[std::max(a, b)] = std::min(a, b);
  }
  int32_t count = 0;
  RawVector<int32_t> out(n);
  for (int32_t v = 0; v < n; ++v) out[v] = tree[v] == v ? count++ : out[find_root(v, tree.data())];
  return out;
}

Cycles cycles_of(const int64_t* following, int64_t arcs) {
  Cycles out;
  std::vector<char> seen(arcs, 0);
  for (int64_t lowest = 0; lowest < arcs; ++lowest) {
    if (seen[lowest]) continue;
    const bool is_kept = lowest % 2 == 0;
    if (is_kept) out.first.push_back(static_cast<int64_t>(out.arcs.size()));
    for (int64_t arc = lowest; !seen[arc]; arc = following[arc]) {
      seen[arc] = 1;
      if (is_kept) out.arcs.push_back(arc);
    }
  }
  return out;
}

// Edges are in lexicographic order. A first pass appends the lower neighbors of every row in ascending order, a second pass the
// higher ones.
Adjacency adjacency_of(int32_t n, const int32_t* ends, int64_t e, bool diagonal, int threads) {
  Adjacency out;
  std::vector<int64_t>& ptr = out.ptr;
  ptr.assign(n + 1, 0);
  const auto edges_before = [&](int64_t v) {                   // number of edges whose lower vertex is before v
    int64_t low = 0, high = e;
    while (low < high) {
      const int64_t k = (low + high) / 2;
      if (ends[2 * k] < v)
        low = k + 1;
      else
        high = k;
    }
    return low;
  };
  for_parts_of_all(threads, n, e, [&](int64_t begin, int64_t end, int64_t) {
    const int64_t from = edges_before(begin), to = edges_before(end);
    for (int64_t k = 0; k < to; ++k)
      if (const int32_t high = ends[2 * k + 1]; high >= begin && high < end) ++ptr[high + 1];
    for (int64_t k = from; k < to; ++k) ++ptr[ends[2 * k] + 1];
  });
  for (int32_t v = 0; v < n; ++v) ptr[v + 1] += ptr[v] + diagonal;
  out.idx.resize(ptr[n]);
  out.edge.resize(ptr[n]);
  for_parts_of_all(threads, n, e, [&](int64_t begin, int64_t end, int64_t) {
    std::vector<int64_t> next(ptr.begin() + begin, ptr.begin() + end);
    const auto push = [&](int64_t row, int32_t column, int64_t edge) {
      out.idx[next[row - begin]] = column;
      out.edge[next[row - begin]++] = static_cast<int32_t>(edge);
    };
    const int64_t from = edges_before(begin), to = edges_before(end);
    for (int64_t k = 0; k < to; ++k)
      if (const int32_t high = ends[2 * k + 1]; high >= begin && high < end) push(high, ends[2 * k], k);
    for (int64_t v = begin; diagonal && v < end; ++v) push(v, static_cast<int32_t>(v), -1);
    for (int64_t k = from; k < to; ++k) push(ends[2 * k], ends[2 * k + 1], k);
  });
  return out;
}

}  // namespace ms::mesh
