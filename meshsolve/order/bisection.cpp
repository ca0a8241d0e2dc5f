// One bisection of a region: breadth-first levels, assignment of undecided vertices, and refinement of the cut.
// Source: Fiduccia, Mattheyses 1982, with a heap instead of buckets and a limit of moves without progress.
// Cost: O(nnz of the region), and O(log) for each vertex near the cut.
#include <algorithm>
#include <queue>

#include "native/threads/interrupt.hpp"
#include "partition.hpp"

namespace ms::order {
namespace {

constexpr int kPasses = 8;                  // most passes of a refinement; it ends at the first pass without progress
constexpr int kPatience = 200;              // moves without progress after which a pass ends

// Vertices of one side by descending gain, ties by ascending number. Entries with an old gain are skipped.
struct Candidate {
  int32_t gain, vertex;
  bool operator<(const Candidate& o) const { return gain != o.gain ? gain < o.gain : vertex > o.vertex; }
};
using Heap = std::priority_queue<Candidate>;

}  // namespace

Bisection::Bisection(const Pattern& G, const double* weight)
    : G(G), weight(weight), region(G.n, 0), side(G.n, kFree), gain_(G.n, 0), mark_(G.n, 0),
      locked_(G.n, 0) {}

double Bisection::excess() const { return std::max(0.0, sum[0] - most[0]) + std::max(0.0, sum[1] - most[1]); }

int64_t Bisection::cut(const std::vector<int32_t>& vertices) const {
  int64_t edges = 0;
  for (const int32_t v : vertices)
    for (int64_t k = G.ptr[v]; k < G.ptr[v + 1]; ++k) edges += inside(G.idx[k], region[v]) && side[G.idx[k]] != side[v];
  return edges / 2;
}

void Bisection::assign(int32_t v, int8_t s) {
  side[v] = s;
  sum[s] += weight[v];
  ++count[s];
}

void Bisection::move(int32_t v) {
  sum[side[v]] -= weight[v];
  --count[side[v]];
  assign(v, static_cast<int8_t>(1 - side[v]));
}

std::vector<int32_t> Bisection::levels(const std::vector<int32_t>& vertices, int32_t start) {
  const int32_t r = region[start];
  std::vector<int32_t> order;
  order.reserve(vertices.size());
  const auto visit = [&](int32_t v) {
    if (mark_[v] || !inside(v, r)) return;
    mark_[v] = 1;
    order.push_back(v);
  };
  visit(start);
  size_t head = 0;
  for (size_t next = 0; order.size() < vertices.size(); ++next) {
    for (; head < order.size(); ++head)
      for (int64_t k = G.ptr[order[head]]; k < G.ptr[order[head] + 1]; ++k) visit(G.idx[k]);
    if (next < vertices.size()) visit(vertices[next]);
  }
  for (const int32_t v : order) mark_[v] = 0;
  return order;
}

void Bisection::spread(const std::vector<int32_t>& vertices) {
  const int32_t r = region[vertices[0]];
  std::vector<int32_t> queue;
  const auto neighbors = [&](int32_t v, int8_t s) {         // in the region, on this side
    int64_t found = 0;
    for (int64_t k = G.ptr[v]; k < G.ptr[v + 1]; ++k) found += inside(G.idx[k], r) && side[G.idx[k]] == s;
    return found;
  };
  const auto wait = [&](int32_t v) {
    if (side[v] != kFree || mark_[v]) return;
    mark_[v] = 1;
    queue.push_back(v);
  };
  for (const int32_t v : vertices)
    if (side[v] == kFree && neighbors(v, 0) + neighbors(v, 1) > 0) wait(v);
  size_t head = 0;
  for (size_t next = 0; next <= vertices.size(); ++next) {
    for (; head < queue.size(); ++head) {
      const int32_t v = queue[head];
      const int64_t more = neighbors(v, 0) - neighbors(v, 1);
      const bool second = more != 0 ? more < 0 : sum[1] - most[1] < sum[0] - most[0];       // a tie: the side with more left
      assign(v, second);
      mark_[v] = 0;
      for (int64_t k = G.ptr[v]; k < G.ptr[v + 1]; ++k)
        if (inside(G.idx[k], r)) wait(G.idx[k]);
    }
    if (next < vertices.size()) wait(vertices[next]);       // a component without a decided vertex
  }
}

namespace {

// One pass: moves the best vertices one after the other, each at most once, and keeps the best of all states. A state is better
// if its excess is smaller, or if the excess is the same and the cut is smaller.
class Pass {
 public:
  Pass(Bisection& b, const std::vector<int32_t>& vertices, std::vector<int32_t>& gain, std::vector<uint8_t>& locked)
      : b_(b), vertices_(vertices), gain_(gain), locked_(locked), slack_(1e-12 * (b.sum[0] + b.sum[1])) {}

  // candidates: vertices whose gain may have changed since the last pass, replaced by those of the next pass. True if there was
  // progress.
  bool run(std::vector<int32_t>& candidates) {
    for (const int32_t v : candidates) begin(v);
    double best_excess = b_.excess();
    int64_t cut = 0, best_cut = 0;                          // edges, relative to the start
    size_t best = 0;
    while (moved_.size() - best < kPatience) {
      const int32_t v = choose(moved_.size() == best);
      if (v < 0) break;
      cut -= gain_[v];
      move(v);
      const double now = b_.excess();
      if (now < best_excess - slack_ || (now <= best_excess + slack_ && cut < best_cut)) {
        best_excess = now;
        best_cut = cut;
        best = moved_.size();
      }
    }
    for (size_t k = moved_.size(); k-- > best;) b_.move(moved_[k]);
    for (const int32_t v : moved_) locked_[v] = 0;
    seen_.insert(seen_.end(), moved_.begin(), moved_.end());
    std::sort(seen_.begin(), seen_.end());
    seen_.erase(std::unique(seen_.begin(), seen_.end()), seen_.end());
    candidates = std::move(seen_);
    return best > 0;
  }

 private:
  void begin(int32_t v) {
    int32_t out = 0, all = 0;
    for_neighbors(v, [&](int32_t u) {
      ++all;
      out += b_.side[u] != b_.side[v];
    });
    gain_[v] = 2 * out - all;
    if (out > 0) push(v);
  }
  void push(int32_t v) {
    heap_[b_.side[v]].push({gain_[v], v});
    seen_.push_back(v);
  }
  template <class F> void for_neighbors(int32_t v, F f) {
    for (int64_t k = b_.G.ptr[v]; k < b_.G.ptr[v + 1]; ++k)
      if (b_.inside(b_.G.idx[k], b_.region[v])) f(b_.G.idx[k]);
  }
  void move(int32_t v) {
    b_.move(v);
    locked_[v] = 1;
    moved_.push_back(v);
    gain_[v] = -gain_[v];
    for_neighbors(v, [&](int32_t u) {
      if (locked_[u]) return;
      gain_[u] += b_.side[u] == b_.side[v] ? -2 : 2;
      push(u);
    });
  }
  // The vertex to move next, or -1. Above its limit a side must give a vertex, even if the cut has none (`start_cut`).
  int32_t choose(bool start_cut) {
    if (b_.excess() > slack_) {
      const int s = b_.sum[0] - b_.most[0] > b_.sum[1] - b_.most[1] ? 0 : 1;
      const int32_t v = top(s);
      return v < 0 && start_cut ? farthest(s) : v;
    }
    int32_t best = -1;
    for (int s = 0; s < 2; ++s) {
      const int32_t v = top(s);
      const bool fits = v >= 0 && b_.sum[1 - s] + b_.weight[v] <= b_.most[1 - s] + slack_;
      if (fits && (best < 0 || gain_[v] > gain_[best])) best = v;
    }
    return best;
  }
  // The vertex of side s with the largest gain, or -1.
  int32_t top(int s) {
    if (b_.count[s] <= b_.least[s]) return -1;
    for (Heap& heap = heap_[s]; !heap.empty(); heap.pop()) {
      const auto [gain, v] = heap.top();
      if (!locked_[v] && b_.side[v] == s && gain_[v] == gain) return v;
    }
    return -1;
  }
  // The last vertex of side s in breadth-first order, or -1: a cut that starts at it stays short.
  int32_t farthest(int s) {
    if (b_.count[s] <= b_.least[s]) return -1;
    if (far_.empty()) {
      const auto first = std::find_if(vertices_.begin(), vertices_.end(), [&](int32_t v) { return b_.side[v] == s; });
      far_ = b_.levels(vertices_, *first);
      from_ = far_.size();
    }
    while (from_ > 0)
      if (const int32_t v = far_[--from_]; b_.side[v] == s && !locked_[v]) return v;
    return -1;
  }

  Bisection& b_;
  const std::vector<int32_t>& vertices_;
  std::vector<int32_t>& gain_;
  std::vector<uint8_t>& locked_;
  const double slack_;                      // rounding of the sums
  Heap heap_[2];
  std::vector<int32_t> moved_, seen_, far_;
  size_t from_ = 0;
};

}  // namespace

void Bisection::refine(const std::vector<int32_t>& vertices) {
  std::vector<int32_t> candidates = vertices;
  for (int k = 0; k < kPasses && Pass(*this, vertices, gain_, locked_).run(candidates); ++k) interrupt::poll();
}

}  // namespace ms::order
