// Cells of a partition that are too large become pieces within the limit, and pieces become numbered parts.
//
// Bisection: a search finds a vertex far from any other, a second one a vertex far from that; both grow together until they
// meet. It is kept if both sides hold 1/16 of the cell, so that a cell is looked at O(log size) times, each O(size + entries).
// Otherwise (a hub with its leaves) a breadth-first tree is cut, greedily from the leaves up.
#include "patches/kmeans.hpp"

namespace ms::patches {
namespace {

// Cuts slices [begin, end) of `order` (members of one cell) into pieces and notes where each begins. `tag[v]` is the begin of
// the slice that v lies in, -1 before the first cut that v takes part in.
struct Cutter {
  const Pattern& G;
  std::vector<int32_t>& order;
  std::vector<uint8_t>& start;
  std::vector<int32_t> tag, queue;
  std::vector<uint8_t> mark;                                // 0 before and after each cut

  Cutter(const Pattern& graph, Pieces& pieces)
      : G(graph), order(pieces.order), start(pieces.start), tag(graph.n, -1), queue(graph.n), mark(graph.n, 0) {}
  void cut(int64_t begin, int64_t end, int64_t limit);

 private:
  int64_t flood(int64_t begin, int64_t filled, int64_t head, uint8_t fresh, int32_t* up = nullptr);
  int64_t bisect(int64_t begin, int64_t end);
  void cut_tree(int64_t begin, int64_t end, int64_t limit);
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

Parts number(const Pieces& pieces, int64_t limit) {
  const auto& [order, start] = pieces;
  const int64_t n = static_cast<int64_t>(order.size());
  Parts parts{std::vector<int32_t>(n), 0};
  int32_t count = 0, shared = -1;
  int64_t filled = 0;
  for (int64_t b = 0, e = 0; b < n; b = e) {
    for (e = b + 1; e < n && start[e] == inside; ++e) {}
    int32_t id = shared;
    if (start[b] != loose) {
      id = count++;
    } else if (shared < 0 || filled + e - b > limit) {
      id = shared = count++;
      filled = e - b;
    } else {
      filled += e - b;
    }
    for (int64_t i = b; i < e; ++i) parts.part[order[i]] = id;
  }
  std::vector<int32_t> rank(count, -1);
  for (int32_t& p : parts.part) {
    if (rank[p] < 0) rank[p] = parts.count++;
    p = rank[p];
  }
  return parts;
}

namespace {

void Cutter::cut(int64_t begin, int64_t end, int64_t limit) {
  for (int64_t i = begin; i < end; ++i) tag[order[i]] = static_cast<int32_t>(begin);
  std::vector<std::pair<int64_t, int64_t>> left(1, {begin, end});
  while (!left.empty()) {
    const auto [b, e] = left.back();
    left.pop_back();
    if (e - b <= limit) {
      start[b] = piece;
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

// Goes on with a breadth-first search inside the slice: queue[begin, begin + filled) are found, from `head` on not yet looked
// at. A vertex found takes the mark of the one that found it; up is the position of that one. Returns how many are found.
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

// Orders the slice so that two sides follow each other, the cells of two far vertices, and returns where the second begins.
// A slice of several components is cut in the middle of the list of its components.
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

// Subtrees of a breadth-first tree: from the leaves up, a subtree joins its parent's piece while that stays within the limit.
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
      start[next] = is_small(weight[k], limit) ? loose : piece;
      at[k] = static_cast<int32_t>(next);
      next += weight[k];
    } else {
      root[k] = root[root[k]];                              // the parent stands before and is settled
    }
    order[at[root[k]]++] = found[k];
  }
}

}  // namespace
}  // namespace ms::patches
