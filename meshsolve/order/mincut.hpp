// Exact minimum vertex cut of a small graph. See mincut.cpp.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::order {

class MinCut {
 public:
  std::vector<int32_t> ptr, adj;             // the graph, both directions; rows are permuted by run()
  std::vector<uint8_t> source, sink;         // anchors of the two sides; a vertex may be both

  // Vertices in the minimum cut, or `enough` as soon as the cut is known to have that many: then no sides are known.
  int32_t run(int32_t enough);
  // The cut next to the sources or the sinks: 0 source side, 1 sink side, 2 in the cut.
  void near_sources(std::vector<uint8_t>& side) const;
  void near_sinks(std::vector<uint8_t>& side);

 private:
  static constexpr int32_t kNone = -1, kEnd = -2;
  struct Step { int32_t node, next; };
  int32_t size() const { return static_cast<int32_t>(ptr.size()) - 1; }
  void aim();
  bool augment(int32_t from);
  int32_t advance(Step& at) const;
  void apply_path();

  // Flow through v comes from came_[v] and goes to goes_[v]; kEnd at the ends of a path, kNone without flow.
  std::vector<int32_t> came_, goes_, distance_, queue_, sources_;
  std::vector<uint8_t> seen_;                // of node 2 v (in) and 2 v + 1 (out)
  std::vector<Step> path_;
};

}  // namespace ms::order
