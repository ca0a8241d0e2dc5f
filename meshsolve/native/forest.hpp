// Forests of nodes 0, 1, ... by arrays.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

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

// Positions in a postorder of a forest whose nodes have one or more vertices each. The fill does not change, and vertices that
// are eliminated one after the other are adjacent. A subtree gets a range that ends with the vertices of its root. From the roots
// down, each node splits the rest of its range among its children, the last child first: no recursion, no child lists.
//
// Calls f(k, begin) for each node, roots first: its weight(k) vertices get the positions from `begin` on. parent[k] > k, or -1
// for a root; 0 <= k < count. Returns the sum of the weights. `range` is scratch. Children come in ascending order;
// first_child[k], if given, comes before its siblings.
template <class Weight, class F>
int32_t lay_out_postorder(const std::vector<int32_t>& parent, int32_t count, std::vector<int32_t>& range, Weight&& weight, F&& f,
                          const int32_t* first_child = nullptr) {
  range.assign(count, 0);                       // vertices of the subtree, then the end of the free part of its range
  int32_t total = 0;
  for (int32_t k = 0; k < count; ++k) {
    range[k] += weight(k);
    total += weight(k);
    if (parent[k] >= 0) range[parent[k]] += range[k];
  }
  int32_t roots = total;
  std::vector<int32_t> front(first_child ? count : 0);              // begin of the subtree
  for (int32_t k = count; k-- > 0;) {
    const int32_t up = parent[k], size = range[k];
    int32_t& rest = up < 0 ? roots : range[up];
    const bool comes_first = first_child && up >= 0 && first_child[up] == k;           // the only range left
    const int32_t end = comes_first ? front[up] + size : std::exchange(rest, rest - size);
    if (first_child) front[k] = end - size;
    range[k] = end - weight(k);
    f(k, range[k]);
  }
  return total;
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
