// Cuts cells beyond the limit into pieces, merges small pieces with others, and numbers the parts.
//
// Bisection: one search finds a peripheral vertex, a second search a vertex far from it; then both grow together until they meet.
// The bisection is accepted if both sides have 1/16 of the cell, so there are O(log size) levels of cost O(size + entries).
// Otherwise (a vertex with many leaves) a breadth-first tree is cut greedily, from the leaves to the root.
#include <algorithm>

#include "patches/kmeans.hpp"

namespace ms::patches {
namespace {

// Cuts slices [begin, end) of `order` (the members of a cell) into pieces and marks their starts.
// The slice that contains v starts at tag[v], which is -1 before the first cut.
struct Cutter {
  const Pattern& G;
  std::vector<int32_t>& order;
  std::vector<uint8_t>& start;
  std::vector<int32_t> tag, queue;
  std::vector<uint8_t> mark;                                // 0 in every slice that is not cut yet

  Cutter(const Pattern& graph, Pieces& pieces)
      : G(graph), order(pieces.order), start(pieces.start), tag(graph.n, -1), queue(graph.n), mark(graph.n, 0) {}
  void cut(int64_t begin, int64_t end, int64_t limit);

 private:
  int64_t flood(int64_t begin, int64_t filled, int64_t head, uint8_t fresh, int32_t* up = nullptr);
  int64_t bisect(int64_t begin, int64_t end);
  void cut_tree(int64_t begin, int64_t end, int64_t limit);
};

// Merges small pieces: each joins a neighbor if possible, else shares a part that need not be connected.
class Merger {
 public:
  Merger(const Pattern& G, const Pieces& pieces, int64_t limit);
  int32_t count() const { return static_cast<int32_t>(size_.size()); }
  bool is_small(int32_t k) const { return into_[k] == k && size_[k] * 4 <= limit_; }
  bool join_neighbor(int32_t k);                            // joins the neighbor with most common edges, if one is small enough
  void pack(int32_t k);                                     // shares a part with other small pieces
  Parts parts();                                            // numbered by their lowest vertex

 private:
  int32_t root(int32_t k) {
    while (into_[k] != k) k = into_[k] = into_[into_[k]];
    return k;
  }
  const Pattern& G_;
  const std::vector<int32_t>& order_;
  const int64_t limit_;
  std::vector<int64_t> begin_;                              // (pieces + 1) into order
  std::vector<int32_t> of_;                                 // (n) piece of each vertex
  std::vector<int64_t> size_;                               // (pieces) including pieces that joined
  std::vector<int32_t> into_;                               // (pieces) the piece that it joined, or itself
  std::vector<int32_t> contacts_;
  int32_t shared_ = -1;                                     // piece that others are packed into
};

}  // namespace

Pieces cut_cells(const Pattern& G, Cells&& cells, int64_t limit) {
  Pieces pieces(std::move(cells.members));
  Cutter cutter(G, pieces);
  for (int64_t k = 0; k < cells.count(); ++k)
    if (cells.size(k) > 0) cutter.cut(cells.ptr[k], cells.ptr[k + 1], limit);
  return pieces;
}

void Pieces::refine(int64_t begin, const Pieces& of_slice) {
  const std::vector<int32_t> slice(order.begin() + begin, order.begin() + begin + static_cast<int64_t>(of_slice.order.size()));
  for (size_t i = 0; i < slice.size(); ++i) order[begin + static_cast<int64_t>(i)] = slice[of_slice.order[i]];
  std::copy(of_slice.start.begin(), of_slice.start.end(), start.begin() + begin);
}

Parts number(const Pattern& G, const Pieces& pieces, int64_t limit) {
  Merger merger(G, pieces, limit);
  for (int32_t k = 0; k < merger.count(); ++k)
    if (merger.is_small(k) && !merger.join_neighbor(k)) merger.pack(k);
  return merger.parts();
}

namespace {

void Cutter::cut(int64_t begin, int64_t end, int64_t limit) {
  for (int64_t i = begin; i < end; ++i) tag[order[i]] = static_cast<int32_t>(begin);
  std::vector<std::pair<int64_t, int64_t>> left(1, {begin, end});
  while (!left.empty()) {
    const auto [b, e] = left.back();
    left.pop_back();
    if (e - b <= limit) {
      start[b] = 1;
      continue;
    }
    const int64_t middle = bisect(b, e);
    if (std::min(middle - b, e - middle) * 16 < e - b) {
      cut_tree(b, e, limit);
      continue;
    }
    for (int64_t i = middle; i < e; ++i) tag[order[i]] = static_cast<int32_t>(middle);
    left.push_back({b, middle});
    left.push_back({middle, e});
  }
}

// Continues a breadth-first search within the slice: queue[begin, begin + filled) are found, from `head` on not yet expanded. A
// vertex with mark `fresh` is found and gets the mark of its predecessor, whose position is stored in `up`. Returns the number of
// vertices found.
int64_t Cutter::flood(int64_t begin, int64_t filled, int64_t head, uint8_t fresh, int32_t* up) {
  int32_t* const found = queue.data() + begin;
  for (; head < filled; ++head)
    for (int64_t q = G.ptr[found[head]]; q < G.ptr[found[head] + 1]; ++q) {
      const int32_t w = G.idx[q];
      if (tag[w] != begin || mark[w] != fresh) continue;
      mark[w] = mark[found[head]];
      if (up) up[filled] = static_cast<int32_t>(head);
      found[filled++] = w;
    }
  return filled;
}

// Orders the slice so that one side follows the other: the cells of two distant vertices. Returns the start of the second side. A
// slice of several components is cut in the middle of the list of its components.
int64_t Cutter::bisect(int64_t begin, int64_t end) {
  const int64_t size = end - begin;
  int32_t* const found = queue.data() + begin;
  int64_t filled = 0;
  bool connected = true;
  for (int64_t i = begin; filled < size; ++i) {
    if (mark[order[i]]) continue;
    connected = filled == 0;
    mark[found[filled] = order[i]] = 1;
    filled = flood(begin, filled + 1, filled, 0);
  }
  if (!connected) {
    std::copy(found, found + size, order.begin() + begin);
    for (int64_t i = begin; i < end; ++i) mark[order[i]] = 0;
    return begin + size / 2;
  }
  const int32_t a = found[size - 1];
  mark[found[0] = a] = 0;
  flood(begin, 1, 0, 1);
  const int32_t b = found[size - 1];
  mark[found[0] = a] = 1;
  mark[found[1] = b] = 2;
  flood(begin, 2, 0, 0);
  int64_t middle = begin;
  for (int64_t i = 0; i < size; ++i)
    if (mark[found[i]] == 1) order[middle++] = found[i];
  for (int64_t i = 0, at = middle; i < size; ++i) {
    if (mark[found[i]] == 2) order[at++] = found[i];
    mark[found[i]] = 0;
  }
  return middle;
}

// Cuts a breadth-first tree into pieces: from the leaves to the root, a subtree joins the piece of its parent if the sum is
// within the limit.
void Cutter::cut_tree(int64_t begin, int64_t end, int64_t limit) {
  const int64_t size = end - begin;
  int32_t* const found = queue.data() + begin;
  std::vector<int32_t> up(size), weight(size, 1), root(size), at(size);
  mark[found[0] = order[begin]] = 1;
  up[0] = -1;
  flood(begin, 1, 0, 0, up.data());
  for (int64_t k = size - 1; k >= 0; --k) {
    const bool joins = up[k] >= 0 && weight[up[k]] + weight[k] <= limit;
    if (joins) weight[up[k]] += weight[k];
    root[k] = joins ? up[k] : static_cast<int32_t>(k);
  }
  int64_t next = begin;
  for (int64_t k = 0; k < size; ++k) {
    if (root[k] == k) {
      start[next] = 1;
      at[k] = static_cast<int32_t>(next);
      next += weight[k];
    } else {
      root[k] = root[root[k]];                              // the parent comes first
    }
    order[at[root[k]]++] = found[k];
  }
}

// ---- numbering

Merger::Merger(const Pattern& G, const Pieces& pieces, int64_t limit) : G_(G), order_(pieces.order), limit_(limit), of_(G.n) {
  for (int64_t i = 0; i < G.n; ++i) {
    if (pieces.start[i]) begin_.push_back(i);
    of_[order_[i]] = static_cast<int32_t>(begin_.size()) - 1;
  }
  begin_.push_back(G.n);
  for (size_t k = 0; k + 1 < begin_.size(); ++k) {
    size_.push_back(begin_[k + 1] - begin_[k]);
    into_.push_back(static_cast<int32_t>(k));
  }
}

bool Merger::join_neighbor(int32_t k) {
  contacts_.clear();
  for (int64_t i = begin_[k]; i < begin_[k + 1]; ++i)
    for (int64_t q = G_.ptr[order_[i]]; q < G_.ptr[order_[i] + 1]; ++q) {
      const int32_t other = root(of_[G_.idx[q]]);
      if (other != k && size_[other] + size_[k] <= limit_) contacts_.push_back(other);
    }
  std::sort(contacts_.begin(), contacts_.end());
  int64_t best = 0;
  for (size_t b = 0, e = 0; b < contacts_.size(); b = e) {
    for (e = b; e < contacts_.size() && contacts_[e] == contacts_[b]; ++e) {}
    if (static_cast<int64_t>(e - b) <= best) continue;
    best = static_cast<int64_t>(e - b);
    into_[k] = contacts_[b];
  }
  if (best > 0) size_[into_[k]] += size_[k];
  return best > 0;
}

// Packs piece k into the shared part. A piece with neighbors is kept as it is, and so stays connected, unless it is tiny.
void Merger::pack(int32_t k) {
  const auto has_neighbor = [&](int32_t v) {
    return std::any_of(G_.idx + G_.ptr[v], G_.idx + G_.ptr[v + 1], [&](int32_t w) { return root(of_[w]) != k; });
  };
  const bool tiny = size_[k] * 16 <= limit_ || size_[k] == 1;
  if (!tiny && std::any_of(order_.begin() + begin_[k], order_.begin() + begin_[k + 1], has_neighbor)) return;
  if (shared_ >= 0 && size_[shared_] + size_[k] <= limit_) {
    size_[shared_] += size_[k];
    into_[k] = shared_;
  } else {
    shared_ = k;
  }
}

Parts Merger::parts() {
  Parts parts{std::vector<int32_t>(G_.n), 0};
  std::vector<int32_t> rank(size_.size(), -1);
  for (int32_t v = 0; v < G_.n; ++v) {
    const int32_t k = root(of_[v]);
    if (rank[k] < 0) rank[k] = parts.count++;
    parts.part[v] = rank[k];
  }
  return parts;
}

}  // namespace
}  // namespace ms::patches
