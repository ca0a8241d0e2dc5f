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
  std::vector<int32_t> vertices;        // all that were looked at; every other vertex keeps the side of its patch
  std::vector<uint8_t> side;            // of each of these: 0, 1 or 2 = in the separator
  int64_t size = 0, weight[2] = {0, 0};
  double score = -1;                    // size, worse for uneven sides; < 0: none found
  double later = 0;                     // the worst score after two rounds or more
};

class SeparatorFinder {
 public:
  SeparatorFinder(Members& members, Sides& sides, const Options& options) : m_(members), sides_(sides), options_(options) {}

  // The separator near the cut of q's patches into the sides `patch_side`; one that stays well behind the score `to_beat` is
  // not worked out to the end.
  void find(const Quotient& q, const std::vector<uint8_t>& patch_side, double to_beat, Separator& result);

  // Whether find() would not have worked out to the end what it was not told `to_beat` for.
  static bool stays_behind(const Separator& found, double to_beat);

 private:
  void cut_vertices(const Quotient& q, const std::vector<uint8_t>& patch_side);
  void lay_band(int layers, int64_t limit);
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

// Size of a separator, made worse by uneven sides: beyond a share of 0.65 strongly.
double separator_score(int64_t size, int64_t larger, int64_t total);

}  // namespace ms::order
