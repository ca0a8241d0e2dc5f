// Rules by which a supernode joins its parent, at the price of stored zeros; shared by the C++ code and the CUDA kernels.
// Source: Ashcraft, Grimes 1989, "The influence of relaxed supernode partitions on the multifrontal method".
#pragma once
#include "native/rng.hpp"

namespace ms::symbolic {

struct Block {                          // columns of L stored as one dense lower trapezoid
  int width = 0, below = 0;             // columns; rows below the last column, which a join does not change in the upper block
  long long entries = 0;                // nonzeros of L in these columns
};

constexpr int few_zeros = 256;          // a join that adds fewer zeros costs less than a front

struct Rule {                           // two supernodes may join to at most `columns` columns if zeros are less than a share of
  double columns, share, zeros;         // `share` of all stored entries, and fewer than `zeros`
};

struct Relaxation {                     // a join is made if one of the rules allows it
  const Rule* rules;
  int count;
};

MS_HD inline long long stored(const Block& b) {
  const long long width = b.width;
  return width * (width + 1) / 2 + width * b.below;
}

// A join extends the columns of a child to the length of its parent's. Below the front of a dense row, with thousands of rows,
// that adds more zeros than a light child has entries, and uses up the zeros allowed for later joins.
MS_HD inline bool worth_joining(const Block& child, const Block& top, const Relaxation& relaxation) {
  const long long added = static_cast<long long>(child.width) * (top.width + top.below - child.below);
  if (added >= few_zeros && added > stored(child)) return false;
  const Block both{child.width + top.width, top.below, child.entries + top.entries};
  const long long all = stored(both), zeros = all - both.entries;
  for (int i = 0; i < relaxation.count; ++i) {
    const Rule& rule = relaxation.rules[i];
    const double count = static_cast<double>(zeros);
    if (both.width <= rule.columns && count < rule.zeros && count < rule.share * static_cast<double>(all)) return true;
  }
  return false;
}

}  // namespace ms::symbolic
