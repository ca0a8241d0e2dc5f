// Which patch each vertex belongs to while nested dissection takes separators out and hands vertices over.
// A vertex that is in no separator has its patch in the subtree that works on it, and all its neighbours lie in the same
// subtree or in separators above it, which never change again: subtrees can be worked on by different threads. Only
// for_each() may look at a vertex that has left for another subtree, so these reads and all writes of `patch` are atomic.
#pragma once
#include <cstdint>
#include <vector>

#include "native/threads/atomic.hpp"
#include "subpatch.hpp"

namespace ms::order {

constexpr uint8_t kSideOfPatch = 3;     // beside 0, 1 and 2 (separator)

// What the search for one separator writes beside its vertices. Searches in different subtrees share it, searches at one node do not.
struct Sides {
  std::vector<int32_t> local;           // number of a vertex in the band or leaf at work
  std::vector<uint8_t> side;            // of a vertex in the cut at work, or kSideOfPatch
  std::vector<uint8_t> patch_side;

  Sides(int32_t vertices, size_t patches) : local(vertices, 0), side(vertices, kSideOfPatch), patch_side(patches, 0) {}
};

struct Members {
  Pattern graph;
  std::vector<int32_t> start;           // patch p began as the vertices [start[p], start[p + 1])
  std::vector<int32_t> patch;           // of each vertex; -1 in a separator
  std::vector<int32_t> guest, next;     // per patch: list of the vertices that came from elsewhere; linked by next[v]
  Sides sides;

  explicit Members(SubPatches& s)
      : graph(s.graph()), start(std::move(s.start)), patch(std::move(s.patch)), guest(start.size(), -1), next(graph.n, -1),
        sides(graph.n, start.size()) {}

  bool at_home(int32_t v, int32_t p) const { return start[p] <= v && v < start[p + 1]; }
  bool free(int32_t v) const { return patch[v] >= 0; }

  template <class F>
  void for_each(int32_t p, F&& f) {
    for (int32_t v = start[p]; v < start[p + 1]; ++v)
      if (AtomicRef(patch[v]).load(std::memory_order_relaxed) == p) f(v);
    for (int32_t v = guest[p]; v >= 0; v = next[v]) f(v);
  }

  void take_out(int32_t v) {
    const int32_t p = patch[v];
    if (!at_home(v, p)) {
      int32_t* link = &guest[p];
      while (*link != v) link = &next[*link];
      *link = next[v];
    }
    set_patch(v, -1);
  }

  void put_in(int32_t v, int32_t p) {
    set_patch(v, p);
    if (at_home(v, p)) return;
    next[v] = guest[p];
    guest[p] = v;
  }

 private:
  void set_patch(int32_t v, int32_t p) { AtomicRef(patch[v]).store(p, std::memory_order_relaxed); }
};

}  // namespace ms::order
