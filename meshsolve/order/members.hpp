// The patch of each vertex while nested dissection removes separators and moves vertices between patches.
//
// A vertex that is in no separator has its patch in the subtree that contains it. Its neighbors lie in the same subtree or in
// separators above it, which no longer change. So different threads can work on different subtrees. Only for_each() may read the
// patch of a vertex that has moved to another subtree. These reads, and all writes of `patch`, are atomic.
#pragma once
#include <cstdint>
#include <vector>

#include "native/threads/atomic.hpp"
#include "subpatch.hpp"

namespace ms::order {

constexpr uint8_t kSideOfPatch = 3;     // the vertex is on the side of its patch; other values: 0, 1 and 2 (separator)

// Scratch of separator searches. Searches in different subtrees share it; two searches at the same node need one each.
struct Sides {
  std::vector<int32_t> local;           // number of each vertex in its current band or leaf
  std::vector<uint8_t> side;            // side of each vertex in the current cut, or kSideOfPatch
  std::vector<uint8_t> patch_side;

  Sides(int32_t vertices, size_t patches) : local(vertices, 0), side(vertices, kSideOfPatch), patch_side(patches, 0) {}
};

struct Members {
  Pattern graph;
  std::vector<int32_t> start;           // initial vertices of patch p: [start[p], start[p + 1])
  std::vector<int32_t> patch;           // of each vertex; -1 in a separator
  std::vector<int32_t> added, next;     // vertices that joined a patch later: first of each patch, next of each vertex
  Sides sides;

  explicit Members(SubPatches& s)
      : graph(s.graph()), start(std::move(s.start)), patch(std::move(s.patch)), added(start.size(), -1), next(graph.n, -1),
        sides(graph.n, start.size()) {}

  bool is_initial(int32_t v, int32_t p) const { return start[p] <= v && v < start[p + 1]; }
  bool in_patch(int32_t v) const { return patch[v] >= 0; }

  template <class F>
  void for_each(int32_t p, F&& f) {
    for (int32_t v = start[p]; v < start[p + 1]; ++v)
      if (AtomicRef(patch[v]).load(std::memory_order_relaxed) == p) f(v);
    for (int32_t v = added[p]; v >= 0; v = next[v]) f(v);
  }

  void remove(int32_t v) {
    const int32_t p = patch[v];
    if (!is_initial(v, p)) {
      int32_t* link = &added[p];
      while (*link != v) link = &next[*link];
      *link = next[v];
    }
    set_patch(v, -1);
  }

  void insert(int32_t v, int32_t p) {
    set_patch(v, p);
    if (is_initial(v, p)) return;
    next[v] = added[p];
    added[p] = v;
  }

 private:
  void set_patch(int32_t v, int32_t p) { AtomicRef(patch[v]).store(p, std::memory_order_relaxed); }
};

}  // namespace ms::order
