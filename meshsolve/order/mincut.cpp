// Maximum flow with unit vertex capacities. Each vertex is split into an in node and an out node.
//
// Thin bands: depth-first augmentation from all free sources; visited marks are kept through a pass (Pothen, Fan 1990). Arcs are
// sorted towards the sinks, and near sources come first. The first pass finds most paths. This is 2-3 times faster than Dinic's
// algorithm. An in node has one exit, so each step of a path leads from out node to out node.
// Cost: O(passes * edges), 5-30 passes. The last pass finds no path; its marks are the nodes that the sources reach.
//
// Wide bands (of volumes): paths of later passes wander through the whole band. So push-relabel follows the first pass, which is
// 2-8 times faster. Each unit of flow moves to the neighbor with the least distance label (Goldberg, Tarjan 1988). Units move
// in rounds, and the labels are recomputed exactly from time to time (Cherkassky, Goldberg 1997). A unit that enters a vertex
// with flow displaces that flow, which moves on from its previous vertex (double push of assignment problems: Goldberg, Kennedy
// 1995).
//
// The cuts next to the sources and next to the sinks are the same for every maximum flow.
#include "mincut.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "native/threads/interrupt.hpp"

namespace ms::order {
namespace {
constexpr int32_t kFar = std::numeric_limits<int32_t>::max();      // distance of a node that reaches no sink
constexpr size_t kWide = 200;                                      // number of sources from which push-relabel is faster
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

// Computes the distances to the sinks. Sorts the sources and the entries of each row by distance; the rows by a transpose.
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
    for (int32_t p = ptr[v]; p < ptr[v + 1]; ++p) {            // no branch: whether u is new is hard to predict
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

// Finds a path from the source `from` to a sink, depth first. Returns false if no path leads through unvisited nodes. Local
// pointers replace the members: a byte written to `seen` might otherwise alias any of them.
bool MinCut::augment(int32_t from) {
  uint8_t* const seen = seen_.data();
  const int32_t *const came = came_.data(), *const towards = towards_.data();
  const int32_t *const begin = ptr.data(), *const end = end_.data();
  Step* const path = path_.data();
  int32_t length = 0;
  // Enters the in node of u and leaves it, through u if it is free, else back along its flow. Returns false if that node was
  // visited.
  const auto enter = [&](int32_t u) {
    seen[u] |= kIn;
    const int32_t v = came[u] == kNone ? u : came[u];
    if (v < 0 || (seen[v] & kOut)) return false;
    seen[v] |= kOut;
    path[length++] = {v, u, begin[v]};
    return true;
  };
  // Extends the path by one step: to a neighbor, or back through v itself, which cancels its flow.
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

// Extends a flow of `flow` paths to a maximum flow.
int32_t MinCut::push(int32_t flow, int32_t enough) {
  const int64_t often = static_cast<int64_t>(adj.size()) / 2;    // entries read between two exact relabelings
  int64_t work = 0;
  start_at_sources();
  for (relabel(); !active_.empty(); active_.swap(next_active_)) {
    next_active_.clear();
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
  return_excess();
  mark_reached();
  return flow;
}

// Pushes a unit of flow into each source that does not start a path.
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

// Moves the unit at the out node of v by one step and sets v to its new vertex. Returns true if it may move on at once. Otherwise
// it waits for the next round because the label of v was too small, or it reaches no sink.
bool MinCut::step(int32_t& v) {
  int32_t* const into = into_.data();
  int32_t nearest = into[v], to = v;
  for (int32_t p = ptr[v]; p < ptr[v + 1]; ++p)
    if (const int32_t u = adj[p]; into[u] < nearest) nearest = into[u], to = u;
  if (nearest >= size()) {
    stuck_.push_back(v);
    return false;
  }
  const bool label_holds = nearest < label_[v];
  const int32_t from = came_[to], label = label_[v] = nearest + 1;
  if (to == v) {                                   // back along its own flow
    came_[v] = kNone;
    into[v] = label;
  } else {
    came_[to] = v;
    goes_[v] = to;
    into[to] = label;
  }
  v = from == kNone ? to : from;
  goes_[v] = kNone;
  if (!label_holds) next_active_.push_back(v);
  return label_holds;
}

// Computes exact labels, breadth-first from the free sinks. The predecessor of the out node of x is its in node if x is free,
// else the in node of the vertex that its flow goes to.
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

// Returns the excess of stuck units to the sources, along the paths they came by.
void MinCut::return_excess() {
  for (int32_t v : stuck_)
    while (v >= 0) {
      goes_[v] = kNone;
      v = std::exchange(came_[v], kNone);
    }
}

// Marks the nodes that the sources reach in the residual graph.
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

// Marks the nodes that reach the sinks in the residual graph, by a backward search.
void MinCut::near_sinks(std::vector<uint8_t>& side) {
  seen_.assign(size(), 0);
  queue_.resize(2 * static_cast<size_t>(size()) + 1);
  uint8_t* const seen = seen_.data();
  int32_t* const queue = queue_.data();           // in node of v: 2 v; out node of v: 2 v + 1
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
