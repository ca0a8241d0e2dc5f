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
  path_.resize(size());
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
  queue_.resize(static_cast<size_t>(size()) + 1);
  int32_t last = 0;
  for (int32_t v = 0; v < size(); ++v)
    if (sink[v]) distance_[v] = 0, queue_[last++] = v;
  sources_.clear();
  for (int32_t head = 0; head < last; ++head) {
    const int32_t v = queue_[head], farther = distance_[v] + 1;
    if (source[v]) sources_.push_back(v);
    for (int32_t p = ptr[v]; p < ptr[v + 1]; ++p) {            // whether u is new is hard to foretell: no branch
      const int32_t u = adj[p], d = distance_[u];
      distance_[u] = std::min(d, farther);
      queue_[last] = u;
      last += d == kFar;
    }
  }
  towards_.resize(adj.size());
  end_.assign(ptr.begin(), ptr.end());
  for (int32_t k = 0; k < last; ++k)
    for (int32_t v = queue_[k], p = ptr[v]; p < ptr[v + 1]; ++p) towards_[end_[adj[p]]++] = v;
}

// A path from the source `from` to a sink, depth first; false: there is none through nodes not seen so far. The arrays are held in
// local variables: a byte written to `seen` might else be any of their members.
bool MinCut::augment(int32_t from) {
  uint8_t* const seen = seen_.data();
  const int32_t *const came = came_.data(), *const towards = towards_.data();
  const int32_t *const begin = ptr.data(), *const end = end_.data();
  Step* const path = path_.data();
  int32_t length = 0;
  // Into the in node of u, and on: through u if it is free, else back along its flow. False: no unseen node there.
  const auto enter = [&](int32_t u) {
    seen[u] |= kIn;
    const int32_t v = came[u] == kNone ? u : came[u];
    if (v < 0 || (seen[v] & kOut)) return false;
    seen[v] |= kOut;
    path[length++] = {v, u, begin[v]};
    return true;
  };
  // One step on from the end of the path: to a neighbour, or back through v itself, which frees it of its flow.
  const auto advance = [&] {
    Step& top = path[length - 1];
    const int32_t v = top.v, last = end[v];
    for (int32_t next = top.next; next < last;) {
      const int32_t u = towards[next++];
      if ((seen[u] & kIn) || !enter(u)) continue;
      top.next = next;
      return true;
    }
    top.next = last;
    return came[v] != kNone && !(seen[v] & kIn) && enter(v);
  };
  if (!enter(from)) return false;
  while (length > 0) {
    if (sink[path[length - 1].v]) {
      apply_path(length);
      return true;
    }
    if (!advance()) --length;
  }
  return false;
}

void MinCut::apply_path(int32_t length) {
  for (int32_t k = 1; k < length; ++k) {
    const int32_t before = path_[k - 1].v, via = path_[k].via;
    if (via == before)
      came_[via] = goes_[via] = kNone;
    else
      goes_[before] = via, came_[via] = before;
  }
  goes_[path_[length - 1].v] = kEnd;
  came_[path_[0].via] = kEnd;
}

void MinCut::near_sources(std::vector<uint8_t>& side) const {
  side.resize(size());
  for (int32_t v = 0; v < size(); ++v) side[v] = (seen_[v] & kOut) || distance_[v] == kFar ? 0 : (seen_[v] & kIn) ? 2 : 1;
}

// What reaches the sinks in the residual graph, searched backwards.
void MinCut::near_sinks(std::vector<uint8_t>& side) {
  seen_.assign(size(), 0);
  queue_.resize(2 * static_cast<size_t>(size()) + 1);
  uint8_t* const seen = seen_.data();
  int32_t* const queue = queue_.data();           // 2 v: the in node of v, 2 v + 1: its out node
  int32_t last = 0;
  const auto visit = [&](int32_t v, uint8_t node) {
    const uint8_t before = seen[v];
    seen[v] = before | node;
    queue[last] = 2 * v + (node == kOut);
    last += (before & node) == 0;
  };
  for (int32_t v = 0; v < size(); ++v)
    if (sink[v]) visit(v, kOut);
  const int32_t *const came = came_.data(), *const goes = goes_.data(), *const begin = ptr.data(), *const to = adj.data();
  for (int32_t head = 0; head < last; ++head) {
    const int32_t v = queue[head] >> 1;
    const bool used = came[v] != kNone;
    if (queue[head] & 1) {
      if (!used)
        visit(v, kIn);
      else if (goes[v] >= 0)
        visit(goes[v], kIn);
    } else {
      for (int32_t p = begin[v]; p < begin[v + 1]; ++p) visit(to[p], kOut);
      if (used) visit(v, kOut);
    }
  }
  side.resize(size());
  for (int32_t v = 0; v < size(); ++v) side[v] = (seen_[v] & kIn) ? 1 : (seen_[v] & kOut) ? 2 : 0;
}

}  // namespace ms::order
