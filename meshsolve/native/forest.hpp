// Forests of nodes 0, 1, ... by arrays, and loops in which threads process some ranges of nodes and the caller the others.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "threads/parallel.hpp"

namespace ms {

// Adds the entry (k, j), j < k, to an elimination tree. The root of the tree of j becomes a child of k, and the path from j
// points to k. Both arrays are -1 before the first call. Source: Liu 1990, "The role of elimination trees in sparse
// factorization", algorithm 4.2.
inline void climb(int32_t j, int32_t k, int32_t* ancestor, int32_t* parent) {
  while (ancestor[j] != k) {
    const int32_t next = ancestor[j];
    ancestor[j] = k;
    if (next < 0) {
      parent[j] = k;
      return;
    }
    j = next;
  }
}

// Root of the tree of j, by path halving; a root is its own ancestor.
inline int32_t find_root(int32_t j, int32_t* ancestor) {
  while (ancestor[j] != j) {
    ancestor[j] = ancestor[ancestor[j]];
    j = ancestor[j];
  }
  return j;
}

struct Span { int32_t begin, end; };    // the nodes [begin, end)

// Calls f(s, worker) for all parts, several for each thread.
template <class F>
void for_each_part(int threads, const std::vector<Span>& parts, F&& f) {
  const int64_t count = static_cast<int64_t>(parts.size());
  for_range(threads, count, count / 256, [&](int64_t b, int64_t e, int worker) {
    for (int64_t s = b; s < e; ++s) f(s, worker);
  });
}

// A forest, parent[k] > k or -1, with parts: ascending ranges such that the parent of a node is in its range or in no range. Then
// threads visit the nodes whose parents are in their range, and the caller the others. Without parts the caller visits all nodes.
class Forest {
 public:
  explicit Forest(const std::vector<int32_t>& parent) : Forest(parent, kNoParts, 1) {}
  Forest(const std::vector<int32_t>& parent, const std::vector<Span>& parts, int threads)
      : parent_(parent), parts_(parts), threads_(threads), tops_(parts.size()) {
    for_each_part(threads, parts, [&](int64_t s, int) {
      for (int32_t k = parts[s].begin; k < parts[s].end; ++k)
        if (is_top(k, s)) tops_[s].push_back(k);
    });
  }

  const std::vector<int32_t>& parent() const { return parent_; }

  // Calls f(k) after all children of k; it may change what belongs to k and to its parent.
  template <class F>
  void children_first(F&& f) const {
    for_each_part(threads_, parts_, [&](int64_t s, int) {
      for (int32_t k = parts_[s].begin; k < parts_[s].end; ++k)
        if (!is_top(k, s)) f(k);
    });
    int32_t done = 0;
    for (size_t s = 0; s < parts_.size(); ++s) {
      for (int32_t k = done; k < parts_[s].begin; ++k) f(k);
      for (const int32_t k : tops_[s]) f(k);
      done = parts_[s].end;
    }
    for (int32_t k = done; k < count(); ++k) f(k);
  }

  // Calls f(k) after its parent and after its later siblings; it may change what belongs to k and to its parent.
  template <class F>
  void parents_first(F&& f) const {
    int32_t done = count();
    for (size_t s = parts_.size(); s-- > 0;) {
      for (int32_t k = done; k-- > parts_[s].end;) f(k);
      for (size_t t = tops_[s].size(); t-- > 0;) f(tops_[s][t]);
      done = parts_[s].begin;
    }
    for (int32_t k = done; k-- > 0;) f(k);
    for_each_part(threads_, parts_, [&](int64_t s, int) {
      for (int32_t k = parts_[s].end; k-- > parts_[s].begin;)
        if (!is_top(k, s)) f(k);
    });
  }

 private:
  static inline const std::vector<Span> kNoParts;
  int32_t count() const { return static_cast<int32_t>(parent_.size()); }
  bool is_top(int32_t k, int64_t s) const { return parent_[k] < 0 || parent_[k] >= parts_[s].end; }

  const std::vector<int32_t>& parent_;
  const std::vector<Span>& parts_;
  const int threads_;
  std::vector<std::vector<int32_t>> tops_;      // of each part, ascending: nodes whose parents are in no part
};

// Positions in a postorder of a forest whose nodes have one or more vertices each. The fill does not change, and vertices that
// are eliminated one after the other are adjacent. A subtree gets a range that ends with the vertices of its root. From the roots
// down, each node splits the rest of its range among its children, the last child first: no recursion, no child lists.
//
// Calls f(k, begin, size) for each node, parents first: its weight(k) vertices get the positions from `begin` on, and its subtree
// has `size` vertices. `range` is scratch. Children come in ascending order; first_child[k], if given, comes before its siblings.
template <class Weight, class F>
void lay_out_postorder(const Forest& forest, std::vector<int32_t>& range, Weight&& weight, F&& f,
                       const int32_t* first_child = nullptr) {
  const std::vector<int32_t>& parent = forest.parent();
  range.assign(parent.size(), 0);               // vertices of the subtree, then the end of the free part of its range
  int32_t roots = 0;
  forest.children_first([&](int32_t k) {
    range[k] += weight(k);
    (parent[k] < 0 ? roots : range[parent[k]]) += range[k];
  });
  std::vector<int32_t> front(first_child ? parent.size() : 0);      // begin of the subtree
  forest.parents_first([&](int32_t k) {
    const int32_t up = parent[k], size = range[k];
    int32_t& rest = up < 0 ? roots : range[up];
    const bool comes_first = first_child && up >= 0 && first_child[up] == k;           // the only range left
    const int32_t end = comes_first ? front[up] + size : std::exchange(rest, rest - size);
    if (first_child) front[k] = end - size;
    range[k] = end - weight(k);
    f(k, range[k], size);
  });
}

// The child of each node of an assembly tree that is eliminated first, or -1: the child with the largest difference of its peak
// of memory and its update matrix. Few update matrices are then stored until the parent is assembled. Without it, if leaves hang
// on a chain (points and cameras in bundle adjustment), all leaves would be stored until the end of the chain. `front(k)` and
// `update(k)` are the numbers of scalars of a front and of its update matrix. Source: Liu 1986, "On the storage requirement in
// the out-of-core multifrontal method for sparse factorization", section 4. Only the first child of Liu's order is used: it
// decides the peak.
template <class Front, class Update>
std::vector<int32_t> first_children(const std::vector<int32_t>& parent, int32_t count, Front&& front, Update&& update) {
  struct Memory {
    double waits = 0, peak = 0;                 // all children except the first: sum of the update matrices, largest further need
    double kept = 0, most = 0;                  // the same two of the first child
  };
  std::vector<int32_t> first(count, -1);
  std::vector<Memory> memory(count);
  for (int32_t k = 0; k < count; ++k) {
    Memory& own = memory[k];
    const double most = std::max({own.most, own.kept + own.peak, own.kept + own.waits + front(k)}), kept = update(k);
    if (parent[k] < 0) continue;
    Memory& up = memory[parent[k]];
    double later = most, leaves = kept;         // of the child that is not the first; zeros for an only child
    if (most - kept > up.most - up.kept) {      // a front is larger than its update matrix
      std::swap(later, up.most);
      std::swap(leaves, up.kept);
      first[parent[k]] = k;
    }
    up.peak = std::max(up.peak, up.waits + later);
    up.waits += leaves;
  }
  return first;
}

}  // namespace ms
