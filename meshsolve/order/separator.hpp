// Vertex separators from edge bisections of the quotient graph. See separator.cpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "members.hpp"
#include "mincut.hpp"
#include "order.hpp"

namespace ms::order {

struct Separator {
  std::vector<int32_t> vertices;        // vertices of all bands; every other vertex is on the side of its patch
  std::vector<uint8_t> side;            // side of each of these vertices: 0, 1, or 2 for the separator
  int64_t size = 0, weight[2] = {0, 0};
  double score = -1;                    // separator_score(); < 0: none found
  double later = 0;                     // largest score from the second round on
};

class SeparatorFinder {
 public:
  SeparatorFinder(Members& members, Sides& sides, const Options& options) : m_(members), sides_(sides), options_(options) {}

  // Finds a separator near the cut between the patches of sides 0 and 1. Refinement ends early if the score stays behind
  // `to_beat`.
  void find(const Quotient& q, const std::vector<uint8_t>& patch_side, double to_beat, Separator& result);

  // True if find() with this `to_beat` would have ended the refinement early.
  static bool stays_behind(const Separator& found, double to_beat);

 private:
  void find_boundary(const Quotient& q, const std::vector<uint8_t>& patch_side);
  void grow_band(int layers, int64_t limit);
  void build_graph();
  void anchor_deepest(int side, std::vector<uint8_t>& anchors);
  bool improve(const int64_t weight[2], Separator& result);
  bool in_band(int32_t v) const {
    const size_t at = static_cast<size_t>(sides_.local[v]);
    return at < band_.size() && band_[at] == v;
  }
  uint8_t side_of(int32_t v) const {
    const uint8_t side = sides_.side[v];
    return side != kSideOfPatch ? side : sides_.patch_side[m_.patch[v]];
  }

  Members& m_;
  Sides& sides_;
  const Options& options_;
  MinCut cut_;
  std::vector<int32_t> seeds_, band_, layer_;
  std::vector<uint8_t> band_side_, near_, far_;
};

// Size of a separator with a penalty for uneven sides, which is steep once the larger side exceeds a share of 0.65.
double separator_score(int64_t size, int64_t larger, int64_t total);

}  // namespace ms::order
