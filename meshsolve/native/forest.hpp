// Forests of nodes 0, 1, ... by arrays.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace ms {

// Row k of a matrix meets column j < k: the root of the tree that holds j becomes a child of k, and the path to it points to k. Both
// arrays hold -1 at first. Source: Liu 1990, "The role of elimination trees in sparse factorization", algorithm 4.2.
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

// Root of the tree that holds j, by path halving; a root is its own ancestor.
inline int32_t find_root(int32_t j, int32_t* ancestor) {
  while (ancestor[j] != j) {
    ancestor[j] = ancestor[ancestor[j]];
    j = ancestor[j];
  }
  return j;
}

// Places in a postorder of a forest whose nodes stand for one or more vertices each: the same fill, and what is eliminated one after
// the other lies close together. A subtree takes a range that ends in its root's vertices. From the roots down, each node hands
// the rest of its range to its children, the last child first: no recursion, no child lists.
//
// f(k, begin) for each node, roots first: its weight(k) vertices take the places from `begin` on. parent[k] > k, or -1 for a root;
// 0 <= k < count. Returns the sum of the weights. `range` is scratch. Children come in ascending order, but first_child[k] before its
// siblings where that is given.
template <class Weight, class F>
int32_t lay_out_postorder(const std::vector<int32_t>& parent, int32_t count, std::vector<int32_t>& range, Weight&& weight, F&& f,
                          const int32_t* first_child = nullptr) {
  range.assign(count, 0);                       // vertices of the subtree, then the end of what is left of them
  int32_t total = 0;
  for (int32_t k = 0; k < count; ++k) {
    range[k] += weight(k);
    total += weight(k);
    if (parent[k] >= 0) range[parent[k]] += range[k];
  }
  int32_t roots = total;
  std::vector<int32_t> front(first_child ? count : 0);              // where the subtree begins
  for (int32_t k = count; k-- > 0;) {
    const int32_t up = parent[k], size = range[k];
    int32_t& rest = up < 0 ? roots : range[up];
    const bool comes_first = first_child && up >= 0 && first_child[up] == k;           // its siblings leave it just this place
    const int32_t end = comes_first ? front[up] + size : std::exchange(rest, rest - size);
    if (first_child) front[k] = end - size;
    range[k] = end - weight(k);
    f(k, range[k]);
  }
  return total;
}

// For each node of an assembly tree the child that is to be eliminated first, or -1: the one beside whose own peak of memory the least
// of it stays. What waits for a parent meanwhile is then little: where leaves hang on a chain, as points do on cameras, all leaves
// waited for the end of the chain. `front(k)` and `update(k)` are the scalars of a node's matrix and of what it leaves to its parent.
// Source: Liu 1986, "On the storage requirement in the out-of-core multifrontal method for sparse factorization", section 4; of its
// order of all children the first is taken, which decides.
template <class Front, class Update>
std::vector<int32_t> first_children(const std::vector<int32_t>& parent, int32_t count, Front&& front, Update&& update) {
  struct Memory {
    double waits = 0, peak = 0;                 // of the children but the first: what they leave, and the most beside that
    double kept = 0, most = 0;                  // of the first child
  };
  std::vector<int32_t> first(count, -1);
  std::vector<Memory> memory(count);
  for (int32_t k = 0; k < count; ++k) {
    Memory& own = memory[k];
    const double most = std::max({own.most, own.kept + own.peak, own.kept + own.waits + front(k)}), kept = update(k);
    if (parent[k] < 0) continue;
    Memory& up = memory[parent[k]];
    double later = most, leaves = kept;         // of the child that is not the first; zeros while there is one alone
    if (most - kept > up.most - up.kept) {      // as of the one that comes first: a front is larger than its update matrix
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
