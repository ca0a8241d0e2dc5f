// Partition into parts of nearly equal weight, by recursive bisection. The subtrees below the top separator of a region are
// assigned to its two sides in proportion (proportional mapping). Layers then move across the cut until both sides have their
// share, and the cut is refined. A region inside a leaf of the tree is cut by breadth-first levels.
// Source: Pothen, Sun 1993 (proportional mapping); Fiduccia, Mattheyses 1982 (refinement).
// Cost: O(nnz log parts), and O(log) for each vertex that the refinement visits.
// Invariants: a region has the parts [low, low + parts) and at least as many vertices; Bisection::region has its `low`.
#include "partition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "native/rng.hpp"
#include "native/threads/interrupt.hpp"

namespace ms::order {
namespace {

constexpr double kImbalance = 0.1;          // excess of a side relative to its share, summed over the levels; short cuts need some
constexpr double kMostWithPieces = 1.2;     // limit of a part that gets a separate piece of another part, relative to the mean
constexpr int kCutSearches = 6;                  // searches from which a region without subtrees is cut; the best cut is kept
constexpr int kRounds = 3;                  // rounds that join separate pieces; a joined piece can connect others

struct Region {
  int32_t low, parts;
  std::vector<int32_t> vertices;
  std::vector<int32_t> roots;               // nodes of the separator tree; their subtrees have most of its vertices
};

struct Pieces {                             // connected pieces of the parts
  std::vector<int32_t> vertices;            // (n) by pieces
  std::vector<size_t> begin;                // first vertex of each piece in `vertices`, and n
  std::vector<double> weight;
  std::vector<int32_t> heaviest;            // (parts) the heaviest piece of each part
};

class Partitioner {
 public:
  Partitioner(const Pattern& G, const int32_t* perm, const Tree& tree, const double* weight, int32_t parts, uint64_t seed)
      : G_(G), perm_(perm), tree_(tree), b_(G, weight), seed_(seed),
        share_(kImbalance / std::max(1.0, std::ceil(std::log2(parts)))) {
    const auto nodes = static_cast<int32_t>(tree.parent.size());
    children_.resize(nodes);
    begin_.resize(nodes);
    for (int32_t k = 0; k < nodes; ++k) {                   // postorder: children first
      begin_[k] = children_[k].empty() ? tree.first[k] : begin_[children_[k][0]];
      if (tree.parent[k] >= 0) children_[tree.parent[k]].push_back(k);
    }
  }

  std::vector<int32_t> run(int32_t parts) {
    Region all{0, parts, std::vector<int32_t>(G_.n), {}};
    std::iota(all.vertices.begin(), all.vertices.end(), 0);
    for (size_t k = 0; k < tree_.parent.size(); ++k)
      if (tree_.parent[k] < 0) all.roots.push_back(static_cast<int32_t>(k));
    std::vector<Region> open;
    open.push_back(std::move(all));
    while (!open.empty()) {
      Region region = std::move(open.back());
      open.pop_back();
      if (region.parts > 1) bisect(region, open);
      interrupt::poll();
    }
    for (int k = 0; k < kRounds && join_pieces(parts); ++k) interrupt::poll();
    return std::move(b_.region);
  }

 private:
  void bisect(Region& region, std::vector<Region>& open) {
    const int32_t half = region.parts / 2;
    balance(region, half);
    clear(region);
    std::vector<int32_t> sides[2];
    assign_subtrees(region, sides);
    if (b_.count[0] > 0 && b_.count[1] > 0) {
      b_.spread(region.vertices);
      fill(region.vertices);
      b_.refine(region.vertices);
    } else {
      sides[0].clear();
      sides[1].clear();
      cut_levels(region);
    }
    Region second{region.low + half, region.parts - half, {}, std::move(sides[1])};
    Region first{region.low, half, {}, std::move(sides[0])};
    for (const int32_t v : region.vertices) (b_.side[v] == 0 ? first : second).vertices.push_back(v);
    for (const int32_t v : second.vertices) b_.region[v] = second.low;
    open.push_back(std::move(second));
    open.push_back(std::move(first));
  }

  // Sets the limits of the two sides.
  void balance(const Region& region, int32_t half) {
    double sum = 0, heaviest = 0;
    for (const int32_t v : region.vertices) {
      sum += b_.weight[v];
      heaviest = std::max(heaviest, b_.weight[v]);
    }
    for (int s = 0; s < 2; ++s) {
      const int32_t parts = s == 0 ? half : region.parts - half;
      const double target = sum * parts / region.parts;
      b_.most[s] = std::max(target * (1 + share_), target + heaviest / 2);
      b_.least[s] = parts;
    }
  }
  void clear(const Region& region) {
    for (const int32_t v : region.vertices) b_.side[v] = Bisection::kFree;
    b_.sum[0] = b_.sum[1] = 0;
    b_.count[0] = b_.count[1] = 0;
  }

  // Assigns the subtrees below the top separators of the region to its sides, the heaviest first. Each goes to the side with more
  // weight left. Nothing is assigned if a single subtree without children is left.
  void assign_subtrees(Region& region, std::vector<int32_t> sides[2]) {
    std::vector<int32_t> roots = std::move(region.roots);
    const auto is_empty = [&](int32_t node) { return !has_any(node, region.low); };
    for (;; roots = std::vector<int32_t>(children_[roots[0]])) {
      std::erase_if(roots, is_empty);
      if (roots.size() != 1 || children_[roots[0]].empty()) break;
    }
    if (roots.size() < 2) return;
    std::vector<double> weight(roots.size(), 0);
    for (size_t k = 0; k < roots.size(); ++k)
      for_subtree(roots[k], region.low, [&](int32_t v) { weight[k] += b_.weight[v]; });
    std::vector<size_t> order(roots.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weight[a] > weight[b]; });
    for (const size_t k : order) {
      const int8_t s = b_.most[1] - b_.sum[1] > b_.most[0] - b_.sum[0];
      sides[s].push_back(roots[k]);
      for_subtree(roots[k], region.low, [&](int32_t v) { b_.assign(v, s); });
    }
  }

  // Cuts a region without subtrees by breadth-first levels and refines the cut. The searches start at random vertices, and at the
  // ends of the region that are farthest from them.
  void cut_levels(const Region& region) {
    Stream random(hash_key(seed_, static_cast<uint64_t>(region.low), static_cast<uint64_t>(region.parts)));
    const auto size = static_cast<unsigned>(region.vertices.size());
    std::vector<int8_t> best(size);
    double least_excess = std::numeric_limits<double>::infinity();
    int64_t least_cut = 0;
    for (int k = 0; k < kCutSearches; ++k) {
      int32_t start = region.vertices[random.below(size)];
      if (k % 2 == 0) start = b_.levels(region.vertices, b_.levels(region.vertices, start).back()).back();
      clear(region);
      grow(region, start);
      fill(region.vertices);
      b_.refine(region.vertices);
      const double excess = b_.excess();
      const int64_t cut = b_.cut(region.vertices);
      if (excess > least_excess || (excess == least_excess && cut >= least_cut)) continue;
      least_excess = excess;
      least_cut = cut;
      for (unsigned i = 0; i < size; ++i) best[i] = b_.side[region.vertices[i]];
    }
    for (unsigned i = 0; i < size; ++i) b_.side[region.vertices[i]] = best[i];
  }

  // Assigns the first vertices in breadth-first order to side 0, the others to side 1.
  void grow(const Region& region, int32_t start) {
    double sum = 0;
    for (const int32_t v : region.vertices) sum += b_.weight[v];
    const double target = sum * static_cast<double>(b_.least[0]) / region.parts;
    for (const int32_t v : b_.levels(region.vertices, start)) b_.assign(v, b_.sum[0] + b_.weight[v] / 2 > target);
  }

  // Moves vertices to a side that has fewer than its parts.
  void fill(const std::vector<int32_t>& vertices) {
    for (int8_t s = 0; s < 2; ++s)
      for (auto v = vertices.rbegin(); b_.count[s] < b_.least[s] && v != vertices.rend(); ++v)
        if (b_.side[*v] != s) b_.move(*v);
  }

  bool has_any(int32_t node, int32_t low) const {
    for (int32_t k = begin_[node]; k < tree_.last[node]; ++k)
      if (b_.inside(perm_[k], low)) return true;
    return false;
  }
  template <class F> void for_subtree(int32_t node, int32_t low, F f) const {
    for (int32_t k = begin_[node]; k < tree_.last[node]; ++k)
      if (b_.inside(perm_[k], low)) f(perm_[k]);
  }

  bool join_pieces(int32_t parts);
  Pieces find_pieces(int32_t parts) const;

  const Pattern& G_;
  const int32_t* const perm_;
  const Tree& tree_;
  Bisection b_;
  const uint64_t seed_;
  const double share_;                      // weight by which a side may exceed its share at one level
  std::vector<std::vector<int32_t>> children_;
  std::vector<int32_t> begin_;              // first position of each subtree
};

// Joins each connected piece of a part, except its heaviest piece, to the neighboring part with the most edges to it. That part
// must stay below the limit. Returns true if a piece was joined.
bool Partitioner::join_pieces(int32_t parts) {
  const Pieces pieces = find_pieces(parts);
  std::vector<double> sum(parts, 0);
  std::vector<int32_t> edges(parts, 0), touched;
  for (int32_t v = 0; v < G_.n; ++v) sum[b_.region[v]] += b_.weight[v];
  const double limit = kMostWithPieces * std::accumulate(sum.begin(), sum.end(), 0.0) / parts;
  bool joined = false;
  for (size_t k = 0; k < pieces.weight.size(); ++k) {
    const std::span piece(pieces.vertices.data() + pieces.begin[k], pieces.vertices.data() + pieces.begin[k + 1]);
    const int32_t p = b_.region[piece[0]];
    if (pieces.heaviest[p] == static_cast<int32_t>(k)) continue;
    for (const int32_t v : piece)
      for (int64_t e = G_.ptr[v]; e < G_.ptr[v + 1]; ++e)
        if (const int32_t q = b_.region[G_.idx[e]]; q != p && edges[q]++ == 0) touched.push_back(q);
    int32_t target = -1;
    for (const int32_t q : touched)
      if (sum[q] + pieces.weight[k] <= limit && (target < 0 || edges[q] > edges[target])) target = q;
    for (const int32_t q : touched) edges[q] = 0;
    touched.clear();
    if (target < 0) continue;
    for (const int32_t v : piece) b_.region[v] = target;
    sum[p] -= pieces.weight[k];
    sum[target] += pieces.weight[k];
    joined = true;
  }
  return joined;
}

Pieces Partitioner::find_pieces(int32_t parts) const {
  Pieces found{{}, {}, {}, std::vector<int32_t>(parts, -1)};
  std::vector<uint8_t> visited(G_.n, 0);
  found.vertices.reserve(G_.n);
  const auto visit = [&](int32_t v, int32_t p) {
    if (visited[v] || b_.region[v] != p) return;
    visited[v] = 1;
    found.vertices.push_back(v);
  };
  for (int32_t start = 0; start < G_.n; ++start) {
    if (visited[start]) continue;
    const int32_t p = b_.region[start];
    size_t head = found.vertices.size();
    double weight = 0;
    found.begin.push_back(head);
    visit(start, p);
    for (; head < found.vertices.size(); ++head) {
      const int32_t v = found.vertices[head];
      weight += b_.weight[v];
      for (int64_t k = G_.ptr[v]; k < G_.ptr[v + 1]; ++k) visit(G_.idx[k], p);
    }
    int32_t& heaviest = found.heaviest[p];
    if (heaviest < 0 || weight > found.weight[heaviest]) heaviest = static_cast<int32_t>(found.weight.size());
    found.weight.push_back(weight);
  }
  found.begin.push_back(found.vertices.size());
  return found;
}

}  // namespace

std::vector<int32_t> partition(const Pattern& G, const int32_t* perm, const Tree& tree, const double* weight, int32_t parts,
                               uint64_t seed) {
  return Partitioner(G, perm, tree, weight, parts, seed).run(parts);
}

}  // namespace ms::order
