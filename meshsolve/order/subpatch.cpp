// Patches of about `size` vertices: one random seed in every `size` consecutive vertices, and one breadth-first search from all
// seeds at once. Lloyd iterations would change the fill by less than another random seed does. Vertices that no seed reaches
// (small components, vertices behind a full patch) are added in vertex order; tiny components share a patch.
// The vertices are renumbered patch by patch, so that later work is local in memory. The breadth-first search alternates between
// the patches, so consecutive rows lie far apart in memory and are prefetched. Cost: O(n + nnz).
#include "subpatch.hpp"

#include <algorithm>

#include "native/memory/fetch.hpp"
#include "native/threads/interrupt.hpp"
#include "native/threads/parallel.hpp"
#include "sparse/rearrange.hpp"
#include "native/rng.hpp"

namespace ms::order {
namespace {

struct Growth {
  std::vector<int32_t> patch;
  RawVector<int32_t> queue;
  int32_t count = 0;
};

// Branch-free in the inner loop: whether a vertex is new is hard to predict.
void grow_from_seeds(const Pattern& A, int32_t size, uint64_t seed, Growth& g) {
  const int32_t limit = 4 * size;
  int64_t last = 0;
  for (int32_t block = 0; block <= A.n - size; block += size) {
    const int32_t v = block + Stream(hash_key(seed, static_cast<uint64_t>(block))).below(size);
    g.patch[v] = g.count++;
    g.queue[last++] = v;
  }
  std::vector<int32_t> filled(g.count, 1);
  for (int64_t head = 0; head < last; ++head) {
    fetch_row(A, g.queue, head, last);
    const int32_t v = g.queue[head], p = g.patch[v];
    if ((head & 0xffff) == 0) interrupt::poll();
    int32_t size_of_p = filled[p];
    for (int64_t k = A.ptr[v]; k < A.ptr[v + 1]; ++k) {
      const int32_t u = A.idx[k], q = g.patch[u];
      const bool is_new = (q < 0) & (size_of_p != limit);
      g.patch[u] = is_new ? p : q;
      size_of_p += is_new;
      g.queue[last] = u;
      last += is_new;
    }
    filled[p] = size_of_p;
  }
}

void grow_the_rest(const Pattern& A, int32_t size, Growth& g) {
  int32_t filled = size;
  int64_t last = 0;
  const auto take = [&](int32_t v) {
    if (filled == size) ++g.count, filled = 0;
    g.patch[v] = g.count - 1;
    g.queue[last++] = v;
    ++filled;
  };
  for (int32_t start = 0; start < A.n; ++start) {
    if (g.patch[start] >= 0) continue;
    last = 0;
    take(start);
    for (int64_t head = 0; head < last; ++head) {
      const int32_t v = g.queue[head];
      for (int64_t k = A.ptr[v]; k < A.ptr[v + 1]; ++k)
        if (g.patch[A.idx[k]] < 0) take(A.idx[k]);
    }
  }
}

}  // namespace

SubPatches sub_patches(const Pattern& A, int32_t size, uint64_t seed) {
  Growth g;
  g.patch.assign(A.n, -1);
  g.queue.resize(int64_t{A.n} + 1);
  grow_from_seeds(A, size, seed, g);
  grow_the_rest(A, size, g);

  SubPatches s;
  s.start.assign(g.count + 1, 0);
  for (int32_t v = 0; v < A.n; ++v) ++s.start[g.patch[v] + 1];
  std::vector<int32_t> next = cumsum_with_cursors(s.start);
  s.old = std::move(g.queue);
  s.old.resize(A.n);
  for (int32_t v = 0; v < A.n; ++v) s.old[next[g.patch[v]]++] = v;
  s.patch = std::move(g.patch);
  return s;
}

void renumber(const Pattern& A, SubPatches& s, int threads) {
  std::vector<int32_t> patch(A.n);
  RawVector<int32_t> renumbered(A.n);
  s.ptr.resize(A.n + 1);
  s.idx.resize(A.nnz());
  s.ptr[0] = 0;
  for (int32_t x = 0; x < A.n; ++x) {
    s.ptr[x + 1] = s.ptr[x] + A.degree(s.old[x]);
    renumbered[s.old[x]] = x;
  }
  for_range(threads, A.n, 16384, [&](int64_t begin, int64_t end, int) {
    for (int64_t x = begin; x < end; ++x) {
      fetch_row(A, s.old, x, end);
      const int32_t v = s.old[x];
      patch[x] = s.patch[v];
      int32_t* row = s.idx.data() + s.ptr[x];
      for (int64_t k = A.ptr[v]; k < A.ptr[v + 1]; ++k) *row++ = renumbered[A.idx[k]];
    }
  });
  s.patch.swap(patch);
}

namespace {

// Consecutive rows of the quotient graph, computed by one thread.
struct Piece {
  std::vector<int32_t> adj, weight;
};

// adjacent = the other end's patch of each edge that leaves patch p.
void list_adjacent(const Pattern& A, const SubPatches& s, int32_t p, RawVector<int32_t>& adjacent) {
  int64_t entries = 0;
  for (int32_t x = s.start[p]; x < s.start[p + 1]; ++x) entries += A.degree(s.old[x]);
  adjacent.resize(entries + 1);
  int64_t count = 0;
  for (int32_t x = s.start[p]; x < s.start[p + 1]; ++x) {
    fetch_row(A, s.old, x, A.n);
    for (int64_t k = A.ptr[s.old[x]]; k < A.ptr[s.old[x] + 1]; ++k) {
      const int32_t other = s.patch[A.idx[k]];
      adjacent[count] = other;
      count += other != p;
    }
  }
  adjacent.resize(count);
}

// Appends row p of the quotient graph to the piece. Returns its length. seen[q]: position of q in the last row that contains it.
int32_t add_row(const RawVector<int32_t>& adjacent, std::vector<int32_t>& seen, Piece& to) {
  const int32_t row = static_cast<int32_t>(to.adj.size());
  for (const int32_t other : adjacent) {
    const int32_t at = seen[other];
    if (at >= row && at < static_cast<int32_t>(to.adj.size()) && to.adj[at] == other) {
      ++to.weight[at];
    } else {
      seen[other] = static_cast<int32_t>(to.adj.size());
      to.adj.push_back(other);
      to.weight.push_back(1);
    }
  }
  return static_cast<int32_t>(to.adj.size()) - row;
}

}  // namespace

Quotient quotient_graph(const Pattern& A, const SubPatches& s, int threads) {
  const int32_t count = s.count();
  constexpr int32_t kPatches = 256;                        // rows per piece
  struct Scratch { std::vector<int32_t> seen; RawVector<int32_t> adjacent; };
  std::vector<Piece> pieces((count + kPatches - 1) / kPatches);
  std::vector<Scratch> scratch(std::max(1, threads));
  Quotient q;
  q.ptr.assign(count + 1, 0);
  q.vertex_weight.resize(count);
  q.patch.resize(count);
  for_range(threads, static_cast<int64_t>(pieces.size()), 1, [&](int64_t first, int64_t last, int worker) {
    auto& [seen, adjacent] = scratch[worker];
    seen.resize(count, -1);
    for (int64_t piece = first; piece < last; ++piece)
      for (int32_t p = static_cast<int32_t>(piece) * kPatches; p < std::min<int64_t>(count, (piece + 1) * kPatches); ++p) {
        list_adjacent(A, s, p, adjacent);
        q.ptr[p + 1] = add_row(adjacent, seen, pieces[piece]);
        q.vertex_weight[p] = s.start[p + 1] - s.start[p];
        q.patch[p] = p;
      }
  });
  cumsum(q.ptr);
  q.adj.reserve(q.ptr[count]);
  q.edge_weight.reserve(q.ptr[count]);
  for (const Piece& piece : pieces) {
    q.adj.insert(q.adj.end(), piece.adj.begin(), piece.adj.end());
    q.edge_weight.insert(q.edge_weight.end(), piece.weight.begin(), piece.weight.end());
  }
  return q;
}

}  // namespace ms::order
