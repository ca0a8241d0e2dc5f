// When a supernode joins its parent's, at the price of some stored zeros: scalar arithmetic of the C++ code and the CUDA kernels.
// Source: Ashcraft, Grimes 1989, "The influence of relaxed supernode partitions on the multifrontal method".
#pragma once
#include "native/rng.hpp"

namespace ms::symbolic {

struct Block {                          // columns of L that are stored as one dense trapezoid
  int width = 0, below = 0;             // columns; rows below the last of them: a join never changes those of the upper block
  long long entries = 0;                // nonzeros of L in these columns
};

constexpr int few_columns = 4, few_zeros = 256;     // what a front costs beside its numbers

MS_HD inline long long stored(const Block& b) {
  const long long width = b.width;
  return width * (width + 1) / 2 + width * b.below;
}

// A light child's columns are made as long as its parent's. Below the front of a hub, which may have thousands of rows, that is
// more than all of the child's own, and it uses up the zeros that columns further up could do with.
MS_HD inline bool worth_joining(const Block& child, const Block& top) {
  const long long added = static_cast<long long>(child.width) * (top.width + top.below - child.below);
  if (added >= few_zeros && added > stored(child)) return false;
  const Block both{child.width + top.width, top.below, child.entries + top.entries};
  const long long all = stored(both), zeros = all - both.entries;
  if (both.width <= few_columns && zeros < few_zeros) return true;
  const double share = both.width <= 16 ? 0.25 : both.width <= 48 ? 0.10 : 0.05;
  return static_cast<double>(zeros) < share * static_cast<double>(all);
}

}  // namespace ms::symbolic
