// When a supernode joins its parent's, at the price of some stored zeros: scalar arithmetic of the C++ code and the CUDA kernels.
// Source: Ashcraft, Grimes 1989, "The influence of relaxed supernode partitions on the multifrontal method".
#pragma once
#include "native/rng.hpp"

namespace ms::symbolic {

struct Block {                          // columns of L that are stored as one dense trapezoid
  int width = 0, below = 0;             // columns; rows below the last of them: a join never changes those of the upper block
  long long entries = 0;                // nonzeros of L in these columns
};

constexpr int few_zeros = 256;          // a join that adds fewer costs less than a front

struct Rule {                           // two supernodes may join to at most `columns` columns if of all entries stored fewer than
  double columns, share, zeros;         // `share`, and fewer than `zeros` in number, are zeros
};

struct Relaxation {                     // a join that one of the rules allows is made
  const Rule* rules;
  int count;
};

MS_HD inline long long stored(const Block& b) {
  const long long width = b.width;
  return width * (width + 1) / 2 + width * b.below;
}

// A light child's columns are made as long as its parent's. Below the front of a hub, which may have thousands of rows, that is
// more than all of the child's own, and it uses up the zeros that columns further up could do with.
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
