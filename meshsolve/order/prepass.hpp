// Reduction of a pattern before a dissection, and expansion of the order after it. See prepass.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "order.hpp"

namespace ms::order {

// One node of the separator tree. Its vertices get the positions [first, last), its subtree [begin, first).
struct TreeNode { int32_t begin, first, last; };

struct Partial {                       // order of the reduced graph
  std::vector<int32_t> perm;
  std::vector<TreeNode> nodes;
  int32_t patches = 0;
};

struct Reduced {
  Pattern graph;                       // without dense rows, one vertex per group of indistinguishable nodes
  std::vector<int32_t> group_start, group;   // vertices of A in each group; empty: the vertices of `graph` are those of A
  std::vector<int32_t> dense;          // rows of A that are numbered last
  OwnedPattern storage;                // storage of `graph` if it is not A itself
};

void reduce(const Pattern& A, Reduced& reduced);
void expand(const Reduced& reduced, const Partial& partial, Ordering& result);

// Minimum degree for small graphs and near-trees: one node per connected component, whose vertices are consecutive.
Partial by_components(const Pattern& A, const Limits& limits);

}  // namespace ms::order
