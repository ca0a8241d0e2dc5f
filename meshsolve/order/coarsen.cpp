// Multilevel bisection: heavy-edge matching down to about 40 vertices, greedy graph growing from four starts on the coarsest
// graph, and Fiduccia-Mattheyses refinement on each level of the way back.
// Source: Karypis, Kumar 1998, "A fast and high quality multilevel scheme for partitioning irregular graphs", sections 3-5; gain
// buckets: Fiduccia, Mattheyses 1982.
// The larger side has at most the share (1 + balance) / 2. Within that limit the score of a state is cut * (1/2 + share of the
// larger side). A smaller cut saves more fill than better balance, unless it only cuts off a corner. Cost: O(edges) per level.
#include "coarsen.hpp"

#include <algorithm>
#include <numeric>

namespace ms::order {
namespace {
constexpr int32_t kCoarsest = 40, kStarts = 4, kMaxSlots = 512;
}

// ---- gain buckets
void GainBuckets::reset(int32_t n, int32_t largest_gain) {
  range_ = std::min(largest_gain, kMaxSlots);
  head_.assign(2 * range_ + 1, -1);
  at_.assign(n, -1);
  if (next_.size() < static_cast<size_t>(n)) next_.resize(n), prev_.resize(n);
  top_ = -1;
}

int32_t GainBuckets::slot(int32_t gain) const { return std::clamp(gain, -range_, range_) + range_; }

void GainBuckets::insert(int32_t v, int32_t gain) {
  const int32_t s = slot(gain);
  at_[v] = s;
  prev_[v] = -1;
  next_[v] = head_[s];
  if (next_[v] >= 0) prev_[next_[v]] = v;
  head_[s] = v;
  top_ = std::max(top_, s);
}

void GainBuckets::remove(int32_t v) {
  if (next_[v] >= 0) prev_[next_[v]] = prev_[v];
  if (prev_[v] >= 0)
    next_[prev_[v]] = next_[v];
  else
    head_[at_[v]] = next_[v];
  at_[v] = -1;
}

void GainBuckets::move(int32_t v, int32_t gain) {
  if (at_[v] == slot(gain)) return;
  remove(v);
  insert(v, gain);
}

int32_t GainBuckets::top() {
  while (top_ >= 0 && head_[top_] < 0) --top_;
  return top_ < 0 ? -1 : head_[top_];
}

// ---- the multilevel scheme
Bisector::Graph Bisector::Level::view() const {
  return {static_cast<int32_t>(vertex_weight.size()), ptr.data(), adj.data(), edge_weight.data(), vertex_weight.data()};
}

int64_t Bisector::bisect(const Quotient& q, double balance, Stream random, std::vector<uint8_t>& side) {
  const Graph whole{q.n(), q.ptr.data(), q.adj.data(), q.edge_weight.data(), q.vertex_weight.data()};
  total_ = std::accumulate(q.vertex_weight.begin(), q.vertex_weight.end(), int64_t{0});
  limit_ = static_cast<int64_t>(static_cast<double>(total_) * 0.5 * (1 + balance)) + 1;
  const int64_t heaviest = std::max<int64_t>(1, total_ / 20);
  size_t depth = 0;
  Graph g = whole;
  while (g.n > kCoarsest) {
    if (levels_.size() == depth) levels_.emplace_back();
    if (!coarsen(g, heaviest, random, levels_[depth])) break;
    g = levels_[depth++].view();
  }
  int64_t cut = best_start(g, random);
  while (depth-- > 0) {
    g = depth > 0 ? levels_[depth - 1].view() : whole;
    project(levels_[depth], g.n);
    cut = refine(g, 3, cut);
  }
  side = side_;
  return cut;
}

// One level of coarsening. Returns false if matching no longer shrinks the graph.
bool Bisector::coarsen(const Graph& fine, int64_t heaviest, Stream& random, Level& to) {
  const int32_t n = match(fine, heaviest, random, to.coarse);
  if (n > 0.93 * fine.n) return false;
  to.ptr.assign(1, 0);
  to.adj.clear();
  to.edge_weight.clear();
  to.vertex_weight.assign(n, 0);
  slot_.assign(n, -1);
  int32_t k = 0;
  for (const int32_t first : order_) {                // order_ holds the first vertex of each pair
    const int32_t row = static_cast<int32_t>(to.adj.size());
    const int32_t pair[2] = {first, mate_[first]};
    for (int side = 0; side < (pair[0] == pair[1] ? 1 : 2); ++side) {
      const int32_t v = pair[side];
      to.vertex_weight[k] += fine.vertex_weight[v];
      for (int32_t p = fine.ptr[v]; p < fine.ptr[v + 1]; ++p) {
        const int32_t u = to.coarse[fine.adj[p]];
        if (u == k) continue;
        if (slot_[u] >= row) {
          to.edge_weight[slot_[u]] += fine.edge_weight[p];
        } else {
          slot_[u] = static_cast<int32_t>(to.adj.size());
          to.adj.push_back(u);
          to.edge_weight.push_back(fine.edge_weight[p]);
        }
      }
    }
    to.ptr.push_back(static_cast<int32_t>(to.adj.size()));
    ++k;
  }
  return true;
}

// Matches each vertex, in random order, with the unmatched neighbor of largest w(edge)^2 / (w(neighbor) + 1).
int32_t Bisector::match(const Graph& g, int64_t heaviest, Stream& random, std::vector<int32_t>& coarse) {
  order_.resize(g.n);
  std::iota(order_.begin(), order_.end(), 0);
  for (int32_t i = g.n - 1; i > 0; --i) std::swap(order_[i], order_[random.below(i + 1)]);
  mate_.assign(g.n, -1);
  coarse.resize(g.n);
  int32_t pairs = 0;
  for (const int32_t v : order_) {
    if (mate_[v] >= 0) continue;
    int32_t best = v;
    float best_score = -1;
    for (int32_t p = g.ptr[v]; p < g.ptr[v + 1]; ++p) {
      const int32_t u = g.adj[p];
      if (mate_[u] >= 0 || int64_t{g.vertex_weight[u]} + g.vertex_weight[v] > heaviest) continue;
      const float w = static_cast<float>(g.edge_weight[p]), score = w * w / static_cast<float>(g.vertex_weight[u] + 1);
      if (score > best_score) best_score = score, best = u;
    }
    mate_[v] = best;
    mate_[best] = v;
    coarse[v] = coarse[best] = pairs;
    order_[pairs++] = v;
  }
  order_.resize(pairs);
  return pairs;
}

void Bisector::project(const Level& coarse, int32_t n) {
  best_.resize(n);
  for (int32_t v = 0; v < n; ++v) best_[v] = side_[coarse.coarse[v]];
  side_.swap(best_);
}

int64_t Bisector::best_start(const Graph& g, Stream& random) {
  State best{};
  for (int start = 0; start < kStarts; ++start) {
    const int64_t cut = refine(g, 4, grow(g, random));
    const State state{cut, std::max(weight_[0], weight_[1])};
    if (start > 0 && !beats(state, best)) continue;
    best = state;
    best_ = side_;
  }
  side_ = best_;
  return best.cut;
}

// Greedy graph growing: side 0 grows from a random vertex to half of the weight, each time by the vertex of largest gain.
int64_t Bisector::grow(const Graph& g, Stream& random) {
  side_.assign(g.n, 1);
  find_gains(g);
  queue_[1].insert(random.below(g.n), 0);
  int64_t weight = 0;
  int32_t unreached = 0;
  while (weight < total_ / 2) {
    int32_t v = queue_[1].top();
    if (v < 0) {                                       // the component is exhausted
      while (unreached < g.n && side_[unreached] == 0) ++unreached;
      if (unreached == g.n) break;
      v = unreached;
    } else {
      queue_[1].remove(v);
    }
    if (weight > 0 && weight + g.vertex_weight[v] > limit_) {
      if (queue_[1].top() < 0) break;
      continue;
    }
    side_[v] = 0;
    weight += g.vertex_weight[v];
    for (int32_t p = g.ptr[v]; p < g.ptr[v + 1]; ++p) {
      const int32_t u = g.adj[p];
      if (side_[u] == 0) continue;
      gain_[u] += 2 * g.edge_weight[p];
      if (queue_[1].has(u))
        queue_[1].move(u, gain_[u]);
      else
        queue_[1].insert(u, gain_[u]);
    }
  }
  int64_t cut = 0;
  for (int32_t v = 0; v < g.n; ++v)
    for (int32_t p = g.ptr[v]; side_[v] == 0 && p < g.ptr[v + 1]; ++p) cut += side_[g.adj[p]] ? g.edge_weight[p] : 0;
  return cut;
}

// ---- Fiduccia-Mattheyses
int64_t Bisector::refine(const Graph& g, int passes, int64_t cut) {
  bool better = true;
  for (int pass = 0; pass < passes && better; ++pass) cut = improve(g, cut, better);
  return cut;
}

// gain_[v] = decrease of the cut if v changes side. moves_ = the boundary, or all vertices of a small graph.
void Bisector::find_gains(const Graph& g) {
  gain_.resize(g.n);
  moves_.clear();
  weight_[0] = weight_[1] = 0;
  int32_t largest = 1;
  for (int32_t v = 0; v < g.n; ++v) {
    int32_t across = 0, inside = 0;
    for (int32_t p = g.ptr[v]; p < g.ptr[v + 1]; ++p) (side_[g.adj[p]] != side_[v] ? across : inside) += g.edge_weight[p];
    gain_[v] = across - inside;
    largest = std::max(largest, across + inside);
    weight_[side_[v]] += g.vertex_weight[v];
    if (across > 0 || g.n < 64) moves_.push_back(v);
  }
  queue_[0].reset(g.n, largest);
  queue_[1].reset(g.n, largest);
}

// Within the limit, the better score wins. A state within the limit beats every state beyond it.
bool Bisector::beats(const State& a, const State& b) const {
  const bool fits = a.larger <= limit_;
  if (fits != (b.larger <= limit_)) return fits;
  if (!fits) return a.larger < b.larger;
  const auto score = [&](const State& s) { return static_cast<double>(s.cut) * static_cast<double>(total_ + 2 * s.larger); };
  return a.cut == b.cut ? a.larger < b.larger : score(a) < score(b);
}

// One pass: moves by gain, also negative ones, then undoes the moves after the best state.
int64_t Bisector::improve(const Graph& g, int64_t cut, bool& better) {
  find_gains(g);
  for (const int32_t v : moves_) queue_[side_[v]].insert(v, gain_[v]);
  moves_.clear();
  locked_.assign(g.n, 0);
  State best{cut, std::max(weight_[0], weight_[1])};
  size_t best_moves = 0;
  const int patience = std::clamp(g.n / 20, 15, 60);
  for (int idle = 0; idle <= patience;) {
    const int32_t v = next_move(g);
    if (v < 0) break;
    const int from = side_[v];
    queue_[from].remove(v);
    locked_[v] = 1;
    side_[v] = static_cast<uint8_t>(1 - from);
    weight_[from] -= g.vertex_weight[v];
    weight_[1 - from] += g.vertex_weight[v];
    cut -= gain_[v];
    moves_.push_back(v);
    for (int32_t p = g.ptr[v]; p < g.ptr[v + 1]; ++p) {
      const int32_t u = g.adj[p];
      if (locked_[u]) continue;
      gain_[u] += side_[u] == side_[v] ? -2 * g.edge_weight[p] : 2 * g.edge_weight[p];
      GainBuckets& queue = queue_[side_[u]];
      queue.has(u) ? queue.move(u, gain_[u]) : queue.insert(u, gain_[u]);
    }
    const State state{cut, std::max(weight_[0], weight_[1])};
    if (beats(state, best)) {
      best = state;
      best_moves = moves_.size();
      idle = 0;
    } else {
      ++idle;
    }
  }
  for (size_t k = moves_.size(); k > best_moves; --k) {
    const int32_t v = moves_[k - 1];
    weight_[side_[v]] -= g.vertex_weight[v];
    side_[v] ^= 1;
    weight_[side_[v]] += g.vertex_weight[v];
  }
  better = best_moves > 0;
  return best.cut;
}

// The next vertex to move: from the side beyond the limit if there is one, else the larger gain of the moves within the limit.
int32_t Bisector::next_move(const Graph& g) {
  const int32_t v0 = queue_[0].top(), v1 = queue_[1].top();
  if (weight_[0] > limit_) return v0;
  if (weight_[1] > limit_) return v1;
  const bool ok0 = v0 >= 0 && weight_[1] + g.vertex_weight[v0] <= limit_;
  const bool ok1 = v1 >= 0 && weight_[0] + g.vertex_weight[v1] <= limit_;
  if (ok0 && ok1) return gain_[v0] != gain_[v1] ? (gain_[v0] > gain_[v1] ? v0 : v1) : (weight_[0] >= weight_[1] ? v0 : v1);
  return ok0 ? v0 : ok1 ? v1 : -1;
}

}  // namespace ms::order
