// Forests of nodes 0, 1, ... by arrays.
#pragma once
#include <cstdint>
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
// 0 <= k < count. Returns the sum of the weights. `range` is scratch.
template <class Weight, class F>
int32_t lay_out_postorder(const std::vector<int32_t>& parent, int32_t count, std::vector<int32_t>& range, Weight&& weight, F&& f) {
  range.assign(count, 0);                       // vertices of the subtree, then the end of what is left of them
  int32_t total = 0;
  for (int32_t k = 0; k < count; ++k) {
    range[k] += weight(k);
    total += weight(k);
    if (parent[k] >= 0) range[parent[k]] += range[k];
  }
  int32_t roots = total;
  for (int32_t k = count; k-- > 0;) {
    int32_t& end = parent[k] < 0 ? roots : range[parent[k]];
    const int32_t begin = end - weight(k);
    end -= range[k];
    range[k] = begin;
    f(k, begin);
  }
  return total;
}

}  // namespace ms
