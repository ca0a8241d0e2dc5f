// Patches of about `size` vertices: one random seed in every block of `size` consecutive vertices and one breadth-first
// search from all seeds at once. Lloyd rounds on top change the fill by less than another seed does. What no seed reaches
// (small components, vertices beyond a full patch) is filled in vertex order; tiny components share a patch.
// Cost O(n + nnz). The vertices are renumbered patch by patch: all later work is local in memory.
#include "subpatch.hpp"

#include <algorithm>

#include "native/interrupt.hpp"
#include "native/parallel.hpp"
#include "native/rng.hpp"

namespace ms::order {
namespace {

struct Growth {
  std::vector<int32_t> patch, queue;
  int32_t count = 0;
};

void grow_from_seeds(const Pattern& A, int32_t size, uint64_t seed, Growth& g) {
  const int32_t limit = 4 * size;
  std::vector<int32_t> filled;
  for (int32_t block = 0; block <= A.n - size; block += size) {
    const int32_t v = block + Stream(hash_key(seed, static_cast<uint64_t>(block))).below(size);
    g.patch[v] = g.count++;
    g.queue.push_back(v);
  }
  filled.assign(g.count, 1);
  for (size_t head = 0; head < g.queue.size(); ++head) {
    const int32_t v = g.queue[head], p = g.patch[v];
    if ((head & 0xffff) == 0) interrupt::poll();
    for (int64_t k = A.ptr[v]; k < A.ptr[v + 1]; ++k) {
      const int32_t u = A.idx[k];
      if (g.patch[u] >= 0 || filled[p] == limit) continue;
      g.patch[u] = p;
      ++filled[p];
      g.queue.push_back(u);
    }
  }
}

void grow_the_rest(const Pattern& A, int32_t size, Growth& g) {
  int32_t filled = size;
  const auto take = [&](int32_t v) {
    if (filled == size) ++g.count, filled = 0;
    g.patch[v] = g.count - 1;
    g.queue.push_back(v);
    ++filled;
  };
  for (int32_t start = 0; start < A.n; ++start) {
    if (g.patch[start] >= 0) continue;
    g.queue.clear();
    take(start);
    for (size_t head = 0; head < g.queue.size(); ++head) {
      const int32_t v = g.queue[head];
      for (int64_t k = A.ptr[v]; k < A.ptr[v + 1]; ++k)
        if (g.patch[A.idx[k]] < 0) take(A.idx[k]);
    }
  }
}

}  // namespace

SubPatches sub_patches(const Pattern& A, int32_t size, uint64_t seed, int threads) {
  Growth g;
  g.patch.assign(A.n, -1);
  g.queue.reserve(A.n);
  grow_from_seeds(A, size, seed, g);
  grow_the_rest(A, size, g);

  SubPatches s;
  s.start.assign(g.count + 1, 0);
  for (int32_t v = 0; v < A.n; ++v) ++s.start[g.patch[v] + 1];
  for (int32_t p = 0; p < g.count; ++p) s.start[p + 1] += s.start[p];
  std::vector<int32_t> next(s.start.begin(), s.start.end() - 1), fresh(A.n);
  s.old.resize(A.n);
  s.patch.resize(A.n);
  s.graph.ptr.resize(A.n + 1);
  s.graph.idx.resize(A.nnz());
  for (int32_t v = 0; v < A.n; ++v) {
    fresh[v] = next[g.patch[v]]++;
    s.old[fresh[v]] = v;
  }
  s.graph.ptr[0] = 0;
  for (int32_t x = 0; x < A.n; ++x) s.graph.ptr[x + 1] = s.graph.ptr[x] + A.degree(s.old[x]);
  for_range(threads, A.n, 16384, [&](int64_t begin, int64_t end, int) {
    for (int64_t x = begin; x < end; ++x) {
      const int32_t v = s.old[x];
      s.patch[x] = g.patch[v];
      int32_t* row = s.graph.idx.data() + s.graph.ptr[x];
      for (int64_t k = A.ptr[v]; k < A.ptr[v + 1]; ++k) *row++ = fresh[A.idx[k]];
    }
  });
  return s;
}

Quotient quotient_graph(const SubPatches& s, int threads) {
  const int32_t count = s.count();
  constexpr int32_t kPatches = 256;                        // rows of one piece, made by one thread
  struct Piece { std::vector<int32_t> adj, weight; };
  std::vector<Piece> pieces((count + kPatches - 1) / kPatches);
  Quotient q;
  q.ptr.assign(count + 1, 0);
  q.vertex_weight.resize(count);
  q.patch.resize(count);
  std::vector<std::vector<int32_t>> scratch(std::max(1, threads));
  for_range(threads, static_cast<int64_t>(pieces.size()), 1, [&](int64_t first, int64_t last, int worker) {
    std::vector<int32_t>& seen = scratch[worker];          // where the row last looked at holds the edge to a patch
    seen.resize(count, -1);
    for (int64_t piece = first; piece < last; ++piece) {
      Piece& out = pieces[piece];
      for (int32_t p = static_cast<int32_t>(piece) * kPatches; p < std::min<int64_t>(count, (piece + 1) * kPatches); ++p) {
        const int32_t row = static_cast<int32_t>(out.adj.size());
        for (int64_t k = s.graph.ptr[s.start[p]]; k < s.graph.ptr[s.start[p + 1]]; ++k) {
          const int32_t other = s.patch[s.graph.idx[k]];
          if (other == p) continue;
          const int32_t at = seen[other];
          if (at >= row && at < static_cast<int32_t>(out.adj.size()) && out.adj[at] == other) {
            ++out.weight[at];
          } else {
            seen[other] = static_cast<int32_t>(out.adj.size());
            out.adj.push_back(other);
            out.weight.push_back(1);
          }
        }
        q.ptr[p + 1] = static_cast<int32_t>(out.adj.size()) - row;
        q.vertex_weight[p] = s.start[p + 1] - s.start[p];
        q.patch[p] = p;
      }
    }
  });
  for (int32_t p = 0; p < count; ++p) q.ptr[p + 1] += q.ptr[p];
  q.adj.reserve(q.ptr[count]);
  q.edge_weight.reserve(q.ptr[count]);
  for (const Piece& piece : pieces) {
    q.adj.insert(q.adj.end(), piece.adj.begin(), piece.adj.end());
    q.edge_weight.insert(q.edge_weight.end(), piece.weight.begin(), piece.weight.end());
  }
  return q;
}

}  // namespace ms::order
