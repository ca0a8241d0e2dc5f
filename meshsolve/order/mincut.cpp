// Maximum flow with unit vertex capacities: every vertex is split into an in and an out node. Depth-first augmentation from
// all free sources, visited marks kept through a pass (Pothen, Fan 1990), arcs sorted towards the sinks, near sources first:
// on thin bands the first pass finds most paths, and this beat Dinic's algorithm and labelled shortest paths 2-3 times.
// An in node has one way out, so a step of a path goes from out node to out node.
// Cost O(passes * edges), 5-30 passes. The last pass, which finds no path, has marked what the sources reach.
// In wide bands, as of volumes, paths of later passes wander through all of the band. There the first pass is followed by
// push-relabel: each unit of flow goes on by itself, towards the neighbour that is nearest to a sink as far as its label knows
// (Goldberg, Tarjan 1988), units take turns, and labels are made exact from time to time (Cherkassky, Goldberg 1997). A unit that
// enters a vertex with flow goes on from where that came from, as in assignment (Goldberg, Kennedy 1995). 2-8 times faster.
// The cuts next to the sources and to the sinks are the same for every maximum flow.
#include "mincut.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "native/threads/interrupt.hpp"

namespace ms::order {
namespace {
constexpr int32_t kFar = std::numeric_limits<int32_t>::max();      // no path to a sink
constexpr size_t kWide = 200;                                      // sources of a wide band
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
    if (found && sources_.size() >= kWide) return push(flow, enough);
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

// ---- push-relabel ---------------------------------------------------------------------------------------------------------

// The maximum flow, from `flow` paths on.
int32_t MinCut::push(int32_t flow, int32_t enough) {
  const int64_t often = static_cast<int64_t>(adj.size()) / 2;    // entries that are read between two exact labellings
  int64_t work = 0;
  start_at_sources();
  for (relabel(); !active_.empty(); active_.swap(waiting_)) {
    waiting_.clear();
    for (int32_t v : active_)
      for (bool goes_on = true; goes_on;) {
        if (sink[v]) {
          goes_[v] = kEnd;
          if (++flow == enough) return flow;
          break;
        }
        if (work > often) relabel(), work = 0;
        work += ptr[v + 1] - ptr[v] + 4;
        goes_on = step(v);
      }
  }
  take_back();
  mark_reached();
  return flow;
}

// A unit of flow enters each source that has none from outside.
void MinCut::start_at_sources() {
  active_.clear();
  stuck_.clear();
  for (const int32_t s : sources_) {
    if (came_[s] == kEnd) continue;
    const int32_t v = came_[s] == kNone ? s : came_[s];
    came_[s] = kEnd;
    goes_[v] = kNone;
    active_.push_back(v);
  }
}

// The unit at the out node of v makes a step, v := where it is then. True: it goes on at once. Else it waits, because v's label was
// too small, or is stuck.
bool MinCut::step(int32_t& v) {
  int32_t* const into = into_.data();
  int32_t nearest = into[v], to = v;
  for (int32_t p = ptr[v]; p < ptr[v + 1]; ++p)
    if (const int32_t u = adj[p]; into[u] < nearest) nearest = into[u], to = u;
  if (nearest >= size()) {
    stuck_.push_back(v);
    return false;
  }
  const bool is_foreseen = nearest < label_[v];
  const int32_t from = came_[to], label = label_[v] = nearest + 1;
  if (to == v) {                                   // back to where it came from
    came_[v] = kNone;
    into[v] = label;
  } else {
    came_[to] = v;
    goes_[v] = to;
    into[to] = label;
  }
  v = from == kNone ? to : from;
  goes_[v] = kNone;
  if (!is_foreseen) waiting_.push_back(v);
  return is_foreseen;
}

// Exact labels, breadth-first from the sinks that are free: the out node of x is entered from its in node where x is free, and from
// that of the vertex where its flow goes.
void MinCut::relabel() {
  interrupt::poll();
  label_.assign(size(), kFar);
  into_.assign(size(), kFar);
  int32_t* const label = label_.data();
  int32_t* const queue = queue_.data();
  int32_t last = 0;
  for (int32_t v = 0; v < size(); ++v)
    if (sink[v] && goes_[v] != kEnd) label[v] = 0, queue[last++] = v;
  for (int32_t head = 0; head < last; ++head) {
    const int32_t x = queue[head], u = came_[x] == kNone ? x : goes_[x];
    if (u < 0) continue;
    into_[u] = label[x];
    const auto reach = [&](int32_t v) {
      if (label[v] == kFar) label[v] = label[x] + 1, queue[last++] = v;
    };
    if (u != x) reach(u);
    for (int32_t p = ptr[u]; p < ptr[u + 1]; ++p) reach(adj[p]);
  }
}

// Units that are stuck leave the graph the way they came.
void MinCut::take_back() {
  for (int32_t v : stuck_)
    while (v >= 0) {
      goes_[v] = kNone;
      v = std::exchange(came_[v], kNone);
    }
}

// What the sources reach in the residual graph.
void MinCut::mark_reached() {
  seen_.assign(size(), 0);
  int32_t last = 0;
  const auto enter = [&](int32_t u) {
    queue_[last] = u;
    last += !(seen_[u] & kIn);
    seen_[u] |= kIn;
  };
  for (const int32_t s : sources_)
    if (came_[s] != kEnd) enter(s);
  for (int32_t head = 0; head < last; ++head) {
    const int32_t u = queue_[head], v = came_[u] == kNone ? u : came_[u];
    if (v < 0 || (seen_[v] & kOut)) continue;
    seen_[v] |= kOut;
    for (int32_t p = ptr[v]; p < ptr[v + 1]; ++p) enter(adj[p]);
    if (came_[v] != kNone) enter(v);
  }
  for (const int32_t s : sources_) seen_[s] |= kIn;
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
