// Band refinement of separators. The edge cut of the quotient graph follows the boundaries of patches; the separator need not.
// Each round computes an exact minimum vertex cut (mincut.cpp) within a band of a few layers. The next band surrounds that cut,
// until a round gains nothing: repeated narrow bands give smaller separators than one wide band.
// Source: Chevalier, Pellegrini 2008 (PT-Scotch), with a maximum flow instead of local moves.
// Cost of a round: proportional to the band, not to the node.
#include "separator.hpp"

#include <algorithm>
#include <limits>

namespace ms::order {
namespace {
constexpr double kBandShare = 0.12;       // largest share of the node's vertices that the band has on one side
constexpr double kBoundaryShare = 0.6;    // share of the node on the boundary from which no small separator is expected
constexpr double kMinGain = 0.01;         // relative gain of a round below which the refinement ends
constexpr double kBehind = 1.02;          // ratio to the score to beat from which refinement ends after the second round
}

Effort effort(const Options& o, int64_t weight) {
  if (weight < o.large) return {o.band, 1, 1, 1};
  if (weight < 10 * static_cast<int64_t>(o.large)) return {o.band, o.rounds, o.trials, o.candidates};
  return {o.band + 1, o.rounds + 2, o.trials + 1, std::max(o.candidates, 2)};
}

double separator_score(int64_t size, int64_t larger, int64_t total) {
  const double share = static_cast<double>(larger) / static_cast<double>(total);
  return static_cast<double>(size) * (1 + (share - 0.5) + 3 * std::max(0.0, share - 0.65));
}

bool SeparatorFinder::stays_behind(const Separator& found, double to_beat) { return found.later > kBehind * to_beat; }

void SeparatorFinder::find(const Quotient& q, const std::vector<uint8_t>& patch_side, double to_beat, Separator& result) {
  result.vertices.clear();
  result.score = -1;
  result.later = 0;
  int64_t weight[2] = {0, 0};
  for (int32_t i = 0; i < q.n(); ++i) {
    sides_.patch_side[q.patch[i]] = patch_side[i];
    weight[patch_side[i]] += q.vertex_weight[i];
  }
  const int64_t total = weight[0] + weight[1];
  find_boundary(q, patch_side);
  result.size = total + 1;
  if (static_cast<double>(seeds_.size()) < kBoundaryShare * static_cast<double>(total)) {
    const Effort spend = effort(options_, total);
    const int64_t limit = std::max<int64_t>(1, static_cast<int64_t>(kBandShare * static_cast<double>(total)));
    for (int round = 0; round < spend.rounds; ++round) {
      const int64_t before = result.size;
      grow_band(spend.layers, limit);
      build_graph();
      if (!improve(weight, result)) break;
      std::copy(result.weight, result.weight + 2, weight);
      result.score = separator_score(result.size, std::max(weight[0], weight[1]), total);
      const double gain = static_cast<double>(before - result.size) / static_cast<double>(before);
      if (round > 0) result.later = std::max(result.later, result.score);
      if (seeds_.empty() || gain < kMinGain || stays_behind(result, to_beat)) break;
    }
  }
  result.side.resize(result.vertices.size());
  for (size_t k = 0; k < result.vertices.size(); ++k) {
    uint8_t& side = sides_.side[result.vertices[k]];
    result.side[k] = side;
    side = kSideOfPatch;
  }
}

// seeds_ = vertices with a neighbor on the other side. Only patches at a cut edge of q can contain them.
void SeparatorFinder::find_boundary(const Quotient& q, const std::vector<uint8_t>& patch_side) {
  seeds_.clear();
  for (int32_t i = 0; i < q.n(); ++i) {
    const uint8_t own = patch_side[i];
    const auto across = [&](int32_t other) { return patch_side[other] != own; };
    if (std::none_of(q.adj.begin() + q.ptr[i], q.adj.begin() + q.ptr[i + 1], across)) continue;
    m_.for_each(q.patch[i], [&](int32_t v) {
      for (int64_t k = m_.graph.ptr[v]; k < m_.graph.ptr[v + 1]; ++k) {
        const int32_t p = m_.patch[m_.graph.idx[k]];
        if (p < 0 || sides_.patch_side[p] == own) continue;
        seeds_.push_back(v);
        return;
      }
    });
  }
}

// Breadth-first search from the seeds, for each side on its own: at most `layers` layers, and none once a side has `limit`
// vertices.
void SeparatorFinder::grow_band(int layers, int64_t limit) {
  band_.clear();
  band_side_.clear();
  layer_.clear();
  int64_t count[2] = {0, 0};
  const auto add = [&](int32_t v, uint8_t side, int32_t layer) {
    sides_.local[v] = static_cast<int32_t>(band_.size());
    band_.push_back(v);
    band_side_.push_back(side);
    layer_.push_back(layer);
    if (side < 2) ++count[side];
  };
  for (const int32_t v : seeds_) add(v, side_of(v), 0);
  size_t begin = 0;
  for (int layer = 1; layer < layers && begin < band_.size(); ++layer) {
    const size_t end = band_.size();
    const bool full[2] = {count[0] >= limit, count[1] >= limit};
    for (; begin < end; ++begin) {
      const uint8_t own = band_side_[begin];
      if (own < 2 && full[own]) continue;
      const int32_t v = band_[begin];
      for (int64_t k = m_.graph.ptr[v]; k < m_.graph.ptr[v + 1]; ++k) {
        const int32_t u = m_.graph.idx[k];
        if (!m_.in_patch(u) || in_band(u)) continue;
        const uint8_t other = side_of(u);
        if (other == 2 || (own < 2 && other != own) || full[other]) continue;
        add(u, other, layer);
      }
    }
  }
}

// The graph of the band. Sources and sinks are the vertices with a neighbor beyond the band, on side 0 and 1.
void SeparatorFinder::build_graph() {
  const size_t size = band_.size();
  cut_.ptr.resize(size + 1);
  cut_.ptr[0] = 0;
  cut_.adj.clear();
  cut_.source.assign(size, 0);
  cut_.sink.assign(size, 0);
  bool anchored[2] = {false, false};
  for (size_t i = 0; i < size; ++i) {
    const int32_t v = band_[i];
    for (int64_t k = m_.graph.ptr[v]; k < m_.graph.ptr[v + 1]; ++k) {
      const int32_t u = m_.graph.idx[k];
      if (!m_.in_patch(u)) continue;
      if (in_band(u)) {
        cut_.adj.push_back(sides_.local[u]);
        continue;
      }
      const uint8_t side = side_of(u);
      if (side == 2) continue;
      (side == 0 ? cut_.source : cut_.sink)[i] = 1;
      anchored[side] = true;
    }
    cut_.ptr[i + 1] = static_cast<int32_t>(cut_.adj.size());
  }
  if (!anchored[0]) anchor_deepest(0, cut_.source);
  if (!anchored[1]) anchor_deepest(1, cut_.sink);
}

// Sources or sinks of a side that lies entirely within the band: its deepest layer.
void SeparatorFinder::anchor_deepest(int side, std::vector<uint8_t>& anchors) {
  int32_t deepest = 0;
  for (size_t i = 0; i < band_.size(); ++i)
    if (band_side_[i] == side) deepest = std::max(deepest, layer_[i]);
  for (size_t i = 0; i < band_.size(); ++i)
    if (band_side_[i] == side && layer_[i] == deepest) anchors[i] = 1;
}

// The minimum cut of the band: of the two next to the sources and next to the sinks, the better balanced one. Returns false if it
// is not smaller than the last separator.
bool SeparatorFinder::improve(const int64_t weight[2], Separator& result) {
  const int64_t flow = cut_.run(static_cast<int32_t>(std::min<int64_t>(result.size, std::numeric_limits<int32_t>::max())));
  if (flow >= result.size) return false;
  cut_.near_sources(near_);
  cut_.near_sinks(far_);
  int64_t near_weight[2] = {weight[0], weight[1]};
  for (const uint8_t side : band_side_)
    if (side < 2) --near_weight[side];
  int64_t far_weight[2] = {near_weight[0], near_weight[1]};
  for (size_t i = 0; i < band_.size(); ++i) {
    if (near_[i] < 2) ++near_weight[near_[i]];
    if (far_[i] < 2) ++far_weight[far_[i]];
  }
  if (std::min(far_weight[0], far_weight[1]) > std::min(near_weight[0], near_weight[1])) {
    near_.swap(far_);
    std::swap(near_weight, far_weight);
  }
  result.size = flow;
  std::copy(near_weight, near_weight + 2, result.weight);
  seeds_.clear();
  for (size_t i = 0; i < band_.size(); ++i) {
    uint8_t& side = sides_.side[band_[i]];
    if (side == kSideOfPatch) result.vertices.push_back(band_[i]);
    side = near_[i];
    if (side == 2) seeds_.push_back(band_[i]);
  }
  return true;
}

}  // namespace ms::order
