// Maximum flow with unit vertex capacities: every vertex is split into an in and an out node. Depth-first augmentation from
// all free sources, visited marks kept through a pass (Pothen, Fan 1990), arcs sorted towards the sinks, near sources first:
// on thin bands the first pass finds nearly all paths, and this beat Dinic's algorithm 2-3 times.
// Cost O(passes * edges), 5-30 passes. The last pass, which finds no path, has marked what the sources reach.
#include "mincut.hpp"

#include <algorithm>
#include <limits>

#include "native/interrupt.hpp"

namespace ms::order {
namespace {
constexpr int32_t kFar = std::numeric_limits<int32_t>::max();      // no path to a sink
}

int32_t MinCut::run(int32_t enough) {
  aim();
  came_.assign(size(), kNone);
  goes_.assign(size(), kNone);
  int32_t flow = 0;
  for (bool found = true; found;) {
    interrupt::poll();
    found = false;
    seen_.assign(2 * static_cast<size_t>(size()), 0);
    for (const int32_t s : sources_) {
      if (came_[s] == kEnd || seen_[2 * s] || !augment(s)) continue;
      found = true;
      if (++flow == enough) return flow;
    }
  }
  for (const int32_t s : sources_) seen_[2 * s] = 1;
  return flow;
}

// Distances to the sinks; neighbours that are closer come first in each row; sources in order of distance.
void MinCut::aim() {
  distance_.assign(size(), kFar);
  queue_.clear();
  for (int32_t v = 0; v < size(); ++v)
    if (sink[v]) distance_[v] = 0, queue_.push_back(v);
  sources_.clear();
  for (size_t head = 0; head < queue_.size(); ++head) {
    const int32_t v = queue_[head], mine = distance_[v];
    if (source[v]) sources_.push_back(v);
    for (int32_t p = ptr[v]; p < ptr[v + 1]; ++p) {
      const int32_t u = adj[p];
      if (distance_[u] != kFar) continue;
      distance_[u] = mine + 1;
      queue_.push_back(u);
    }
  }
  for (int32_t v = 0; v < size(); ++v) {          // three-way partition of each row: closer, equal, farther
    const int32_t mine = distance_[v];
    int32_t closer = ptr[v], equal = ptr[v];
    for (int32_t p = ptr[v]; p < ptr[v + 1]; ++p) {
      const int32_t u = adj[p], its = distance_[u];
      if (its > mine) continue;
      adj[p] = adj[equal];
      adj[equal] = u;
      if (its < mine) std::swap(adj[closer++], adj[equal]);
      ++equal;
    }
  }
}

bool MinCut::augment(int32_t from) {
  path_.clear();
  path_.push_back({2 * from, 0});
  seen_[2 * from] = 1;
  while (!path_.empty()) {
    Step& top = path_.back();
    if ((top.node & 1) && sink[top.node >> 1]) {
      apply_path();
      return true;
    }
    const int32_t to = advance(top);
    if (to < 0) {
      path_.pop_back();
    } else {
      seen_[to] = 1;
      path_.push_back({to, 0});
    }
  }
  return false;
}

// The next unseen node behind a residual arc of at.node, or -1.
// In node: through the vertex if it is free, else back along its flow. Out node: to any neighbour, then back into v.
int32_t MinCut::advance(Step& at) const {
  const int32_t v = at.node >> 1;
  if (!(at.node & 1)) {
    if (at.next++ > 0) return -1;
    const int32_t to = came_[v] == kNone ? at.node + 1 : came_[v] == kEnd ? -1 : 2 * came_[v] + 1;
    return to >= 0 && !seen_[to] ? to : -1;
  }
  const int32_t degree = ptr[v + 1] - ptr[v];
  const int32_t* row = adj.data() + ptr[v];
  while (at.next < degree) {
    const int32_t to = 2 * row[at.next++];
    if (!seen_[to]) return to;
  }
  if (at.next++ == degree && came_[v] != kNone && !seen_[2 * v]) return 2 * v;
  return -1;
}

void MinCut::apply_path() {
  for (size_t k = 0; k + 1 < path_.size(); ++k) {
    const int32_t a = path_[k].node >> 1, b = path_[k + 1].node >> 1;
    if (!(path_[k].node & 1)) continue;      // through a, or back: the next step sets what changes
    if (a == b)
      came_[a] = goes_[a] = kNone;
    else
      goes_[a] = b, came_[b] = a;
  }
  const int32_t first = path_.front().node >> 1, last = path_.back().node >> 1;
  goes_[last] = kEnd;
  came_[first] = kEnd;
}

void MinCut::near_sources(std::vector<uint8_t>& side) const {
  side.resize(size());
  for (int32_t v = 0; v < size(); ++v) side[v] = seen_[2 * v + 1] || distance_[v] == kFar ? 0 : seen_[2 * v] ? 2 : 1;
}

// What reaches the sinks in the residual graph, searched backwards.
void MinCut::near_sinks(std::vector<uint8_t>& side) {
  seen_.assign(2 * static_cast<size_t>(size()), 0);
  queue_.clear();
  const auto visit = [&](int32_t node) {
    if (!seen_[node]) seen_[node] = 1, queue_.push_back(node);
  };
  for (int32_t v = 0; v < size(); ++v)
    if (sink[v]) visit(2 * v + 1);
  for (size_t head = 0; head < queue_.size(); ++head) {
    const int32_t v = queue_[head] >> 1;
    const bool used = came_[v] != kNone;
    if (queue_[head] & 1) {
      if (!used)
        visit(2 * v);
      else if (goes_[v] >= 0)
        visit(2 * goes_[v]);
    } else {
      for (int32_t p = ptr[v]; p < ptr[v + 1]; ++p) visit(2 * adj[p] + 1);
      if (used) visit(2 * v + 1);
    }
  }
  side.resize(size());
  for (int32_t v = 0; v < size(); ++v) side[v] = seen_[2 * v] ? 1 : seen_[2 * v + 1] ? 2 : 0;
}

}  // namespace ms::order
