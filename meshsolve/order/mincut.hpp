// Exact minimum vertex cut of a small graph. See mincut.cpp.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::order {

class MinCut {
 public:
  std::vector<int32_t> ptr, adj;             // the graph, both directions
  std::vector<uint8_t> source, sink;         // anchors of the two sides; a vertex may be both

  // Vertices in the minimum cut, or `enough` as soon as the cut is known to have that many: then no sides are known.
  int32_t run(int32_t enough);
  // The cut next to the sources or the sinks: 0 source side, 1 sink side, 2 in the cut.
  void near_sources(std::vector<uint8_t>& side) const;
  void near_sinks(std::vector<uint8_t>& side);

 private:
  static constexpr int32_t kNone = -1, kEnd = -2;
  static constexpr uint8_t kIn = 1, kOut = 2;
  struct Step {                              // a path is at the out node of v, which it came to through the in node of `via`
    int32_t v, via;
    int32_t next;                            // position in towards_ of the neighbour to be tried next
  };
  int32_t size() const { return static_cast<int32_t>(ptr.size()) - 1; }
  void aim();
  bool augment(int32_t from);
  void apply_path(int32_t length);
  int32_t push(int32_t flow, int32_t enough);
  void start_at_sources();
  bool step(int32_t& v);
  void relabel();
  void take_back();
  void mark_reached();

  // Flow through v comes from came_[v] and goes to goes_[v]; kEnd at the ends of a path, kNone without flow.
  std::vector<int32_t> came_, goes_, distance_, queue_, sources_;
  std::vector<int32_t> towards_;             // rows of adj, neighbours in order of their distance to the sinks
  std::vector<int32_t> end_;                 // of the rows of towards_: neighbours without a way to a sink are not in them
  std::vector<uint8_t> seen_;                // kIn and kOut: the nodes of v that have been visited
  std::vector<Step> path_;
  std::vector<int32_t> label_, into_;        // least number of steps to a sink: from the out node of v, through its in node
  std::vector<int32_t> active_, waiting_;    // out nodes where units of flow are that have a turn in this round, and in the next
  std::vector<int32_t> stuck_;               // ... that have no way to a sink
};

}  // namespace ms::order
