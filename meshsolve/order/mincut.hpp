// Exact minimum vertex cut between the sources and the sinks of a small graph. See mincut.cpp.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::order {

class MinCut {
 public:
  std::vector<int32_t> ptr, adj;             // graph in compressed rows, each edge in both directions
  std::vector<uint8_t> source, sink;         // flags; a vertex may be both

  // Returns the size of the minimum cut, or `enough` as soon as the flow reaches it; then the sides are not available.
  int32_t run(int32_t enough);
  // The minimum cut next to the sources or next to the sinks: side 0 = source side, 1 = sink side, 2 = in the cut.
  void near_sources(std::vector<uint8_t>& side) const;
  void near_sinks(std::vector<uint8_t>& side);

 private:
  static constexpr int32_t kNone = -1, kEnd = -2;
  static constexpr uint8_t kIn = 1, kOut = 2;
  struct Step {                              // the path reaches the out node of v through the in node of `via`
    int32_t v, via;
    int32_t next;                            // position in towards_ of the next neighbor to try
  };
  int32_t size() const { return static_cast<int32_t>(ptr.size()) - 1; }
  void aim();
  bool augment(int32_t from);
  void apply_path(int32_t length);
  int32_t push(int32_t flow, int32_t enough);
  void start_at_sources();
  bool step(int32_t& v);
  void relabel();
  void return_excess();
  void mark_reached();

  // The unit of flow through v comes from came_[v] and goes on to goes_[v]; kEnd at the ends of a path, kNone without flow.
  std::vector<int32_t> came_, goes_, distance_, queue_, sources_;
  std::vector<int32_t> towards_;             // rows of adj, neighbors by ascending distance to the sinks
  std::vector<int32_t> end_;                 // ends of the rows of towards_; neighbors that reach no sink are left out
  std::vector<uint8_t> seen_;                // visited nodes of v: bits kIn, kOut
  std::vector<Step> path_;
  std::vector<int32_t> label_, into_;        // bounds of the steps to a sink: from the out node of v, through its in node
  std::vector<int32_t> active_, next_active_;    // out nodes with excess flow that are processed in this round, and in the next
  std::vector<int32_t> stuck_;               // out nodes with excess flow that reach no sink
};

}  // namespace ms::order
