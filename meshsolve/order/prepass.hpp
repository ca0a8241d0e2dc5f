// What is done to a pattern before it is dissected, and undone after. See prepass.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "order.hpp"

namespace ms::order {

// One node of the tree to be: its vertices take the positions [first, last), its subtree [begin, first).
struct TreeNode { int32_t begin, first, last; };

struct Partial {                       // an order of the reduced graph
  std::vector<int32_t> perm;
  std::vector<TreeNode> nodes;
  int32_t patches = 0;
};

struct Reduced {
  Pattern graph;                       // without dense rows, one vertex per group of twins
  std::vector<int32_t> group_start, group;   // vertices of A behind each vertex of graph; empty: they are the same
  std::vector<int32_t> dense;          // rows of A to be numbered last
  OwnedPattern held;                   // where graph lies if it is not A itself
};

void reduce(const Pattern& A, Reduced& reduced);
void expand(const Reduced& reduced, const Partial& partial, Ordering& result);

// Minimum degree with the components kept together, one node each: for small graphs and near-trees.
Partial by_components(const Pattern& A, const Limits& limits);

}  // namespace ms::order
