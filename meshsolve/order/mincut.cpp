// Maximum flow with unit vertex capacities: every vertex is split into an in and an out node. Depth-first augmentation from
// all free sources, visited marks kept through a pass (Pothen, Fan 1990), arcs sorted towards the sinks, near sources first:
// on thin bands the first pass finds most paths, and this beat Dinic's algorithm and labelled shortest paths 2-3 times.
// An in node has one way out, so a step of a path goes from out node to out node.
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
    seen_.assign(size(), 0);
    for (const int32_t s : sources_) {
      if (came_[s] == kEnd || (seen_[s] & kIn) || !augment(s)) continue;
      found = true;
      if (++flow == enough) return flow;
    }
  }
  for (const int32_t s : sources_) seen_[s] |= kIn;
  return flow;
}

// Distances to the sinks; sources in order of distance; rows in order of distance, by a transposition in that order.
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
  towards_.resize(adj.size());
  end_.assign(ptr.begin(), ptr.end());
  for (const int32_t v : queue_)
    for (int32_t p = ptr[v]; p < ptr[v + 1]; ++p) towards_[end_[adj[p]]++] = v;
}

bool MinCut::augment(int32_t from) {
  path_.clear();
  if (!enter(from)) return false;
  while (!path_.empty()) {
    if (sink[path_.back().v]) {
      apply_path();
      return true;
    }
    if (!advance()) path_.pop_back();
  }
  return false;
}

// Into the in node of u, and on: through u if it is free, else back along its flow. False: no unseen node there.
inline bool MinCut::enter(int32_t u) {
  seen_[u] |= kIn;
  const int32_t v = came_[u] == kNone ? u : came_[u];
  if (v < 0 || (seen_[v] & kOut)) return false;
  seen_[v] |= kOut;
  path_.push_back({v, u, ptr[v]});
  return true;
}

// One step on from the end of the path: to a neighbour, or back through v itself, which frees it of its flow.
bool MinCut::advance() {
  Step& top = path_.back();
  const int32_t v = top.v, end = end_[v];
  while (top.next < end) {
    const int32_t u = towards_[top.next++];
    if (!(seen_[u] & kIn) && enter(u)) return true;
  }
  return came_[v] != kNone && !(seen_[v] & kIn) && enter(v);
}

void MinCut::apply_path() {
  for (size_t k = 1; k < path_.size(); ++k) {
    const int32_t before = path_[k - 1].v, via = path_[k].via;
    if (via == before)
      came_[via] = goes_[via] = kNone;
    else
      goes_[before] = via, came_[via] = before;
  }
  goes_[path_.back().v] = kEnd;
  came_[path_.front().via] = kEnd;
}

void MinCut::near_sources(std::vector<uint8_t>& side) const {
  side.resize(size());
  for (int32_t v = 0; v < size(); ++v) side[v] = (seen_[v] & kOut) || distance_[v] == kFar ? 0 : (seen_[v] & kIn) ? 2 : 1;
}

// What reaches the sinks in the residual graph, searched backwards.
void MinCut::near_sinks(std::vector<uint8_t>& side) {
  seen_.assign(size(), 0);
  queue_.clear();                                 // 2 v: the in node of v, 2 v + 1: its out node
  const auto visit = [&](int32_t v, uint8_t node) {
    if (seen_[v] & node) return;
    seen_[v] |= node;
    queue_.push_back(2 * v + (node == kOut));
  };
  for (int32_t v = 0; v < size(); ++v)
    if (sink[v]) visit(v, kOut);
  for (size_t head = 0; head < queue_.size(); ++head) {
    const int32_t v = queue_[head] >> 1;
    const bool used = came_[v] != kNone;
    if (queue_[head] & 1) {
      if (!used)
        visit(v, kIn);
      else if (goes_[v] >= 0)
        visit(goes_[v], kIn);
    } else {
      for (int32_t p = ptr[v]; p < ptr[v + 1]; ++p) visit(adj[p], kOut);
      if (used) visit(v, kOut);
    }
  }
  side.resize(size());
  for (int32_t v = 0; v < size(); ++v) side[v] = (seen_[v] & kIn) ? 1 : (seen_[v] & kOut) ? 2 : 0;
}

}  // namespace ms::order
