// Parts of a graph by Lloyd's iteration in graph distance.
//
// Source: RXMesh (Mahmoud, Porumbescu, Owens 2021), section 3.1: (a) all seeds grow together, one layer at a time; (b) the
// vertex farthest from the boundary of each cell is its next seed; a cell over the limit gets further seeds. Cells that are
// still over it after the last round are cut in two between a pair of far vertices, and where that cuts off next to nothing
// (a hub with its leaves) into subtrees of a spanning tree. Small components and small subtrees are packed together.
// Cost O(rounds (n + nnz)). In a layer a vertex goes to the lowest seed that reaches it: no result depends on the threads.
#include <algorithm>
#include <atomic>
#include <limits>
#include <span>

#include "native/parallel.hpp"
#include "native/rng.hpp"
#include "patches/patches.hpp"

namespace ms::patches {
namespace {

constexpr int rounds = 3;
constexpr double aimed_fill = 0.7;                          // mean cell size / limit: few cells end over the limit
constexpr uint32_t unreached = std::numeric_limits<uint32_t>::max();
constexpr int64_t small_share = 4;                          // what is below limit / 4 may be packed with others

struct Cells {
  std::vector<int32_t> seeds;                               // one per cell
  std::vector<uint32_t> label;                              // (n) cell
  std::vector<int64_t> ptr;                                 // (cells + 1) into members
  std::vector<int32_t> members;                             // (n) ascending in each cell
};

std::vector<int32_t> first_seeds(int32_t n, int64_t limit, uint64_t seed);
void grow(const Pattern& G, Cells& cells, int threads);
void seed_unreached(const Pattern& G, int64_t limit, Cells& cells);
void list_members(Cells& cells);
void recentre(const Pattern& G, int64_t limit, Cells& cells, int threads);
Parts cut_and_number(const Pattern& G, Cells&& cells, const std::vector<int64_t>& limit_of, int64_t pack, int threads);

}  // namespace

Parts kmeans(const Pattern& G, int64_t limit, uint64_t seed, int threads) {
  Cells cells;
  cells.seeds = first_seeds(G.n, limit, seed);
  grow(G, cells, threads);
  seed_unreached(G, limit, cells);
  for (int round = 0; round < rounds; ++round) {
    list_members(cells);
    recentre(G, limit, cells, threads);
    grow(G, cells, threads);
  }
  list_members(cells);
  const std::vector<int64_t> limits(cells.seeds.size(), limit);
  return cut_and_number(G, std::move(cells), limits, limit, threads);
}

Parts halve(const Pattern& G, const Parts& parts, const std::vector<uint8_t>& marked, int threads) {
  Cells cells;
  cells.seeds.resize(parts.count);
  cells.label.assign(parts.part.begin(), parts.part.end());
  list_members(cells);
  std::vector<int64_t> limits(parts.count);
  int64_t pack = 1;
  for (int32_t p = 0; p < parts.count; ++p) {
    limits[p] = cells.ptr[p + 1] - cells.ptr[p];
    if (!marked[p]) continue;
    limits[p] = (limits[p] + 1) / 2;
    pack = std::max(pack, limits[p]);
  }
  return cut_and_number(G, std::move(cells), limits, pack, threads);
}

namespace {

// ---- Lloyd's iteration

// One random vertex from each of as many equal blocks of the numbering as there are cells.
std::vector<int32_t> first_seeds(int32_t n, int64_t limit, uint64_t seed) {
  const int64_t size = std::max<int64_t>(1, static_cast<int64_t>(aimed_fill * static_cast<double>(limit)));
  const int64_t k = (n + size - 1) / size;
  std::vector<int32_t> seeds(k);
  for (int64_t j = 0; j < k; ++j) {
    const int64_t begin = j * n / k, end = (j + 1) * n / k;
    seeds[j] = static_cast<int32_t>(begin + static_cast<int64_t>(hash_key(seed, j) % static_cast<uint64_t>(end - begin)));
  }
  return seeds;
}

// Lowers label[v] to `to` if it is higher; true for the first that reaches v.
bool claim(uint32_t& label, uint32_t to) {
  std::atomic_ref<uint32_t> at(label);
  uint32_t seen = at.load(std::memory_order_relaxed);
  while (seen > to)
    if (at.compare_exchange_weak(seen, to, std::memory_order_relaxed)) return seen == unreached;
  return false;
}

// Labels from `layer` outwards. In the layer that is being reached labels are higher by the number of cells, so that they can
// still be told from settled ones.
void spread(const Pattern& G, std::vector<int32_t> layer, uint32_t cells, std::vector<uint32_t>& label, int threads) {
  std::vector<std::vector<int32_t>> reached(std::max(threads, 1));
  while (!layer.empty()) {
    interrupt::poll();
    for_range(threads, static_cast<int64_t>(layer.size()), 4096, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) {
        const uint32_t to = label[layer[i]] + cells;
        for (int64_t q = G.ptr[layer[i]]; q < G.ptr[layer[i] + 1]; ++q)
          if (claim(label[G.idx[q]], to)) reached[worker].push_back(G.idx[q]);
      }
    });
    layer.clear();
    for (auto& part : reached) {
      layer.insert(layer.end(), part.begin(), part.end());
      part.clear();
    }
    for (const int32_t v : layer) label[v] -= cells;
  }
}

void grow(const Pattern& G, Cells& cells, int threads) {
  cells.label.assign(G.n, unreached);
  for (size_t k = 0; k < cells.seeds.size(); ++k) cells.label[cells.seeds[k]] = static_cast<uint32_t>(k);
  spread(G, cells.seeds, static_cast<uint32_t>(cells.seeds.size()), cells.label, threads);
}

// Components without a seed: one cell each if they fit, else as many seeds as their size asks for, spread again.
void seed_unreached(const Pattern& G, int64_t limit, Cells& cells) {
  std::vector<int32_t> queue, fresh;
  for (int32_t v = 0; v < G.n; ++v) {
    if (cells.label[v] != unreached) continue;
    queue.assign(1, v);
    cells.label[v] = 0;
    for (size_t head = 0; head < queue.size(); ++head)
      for (int64_t q = G.ptr[queue[head]]; q < G.ptr[queue[head] + 1]; ++q)
        if (cells.label[G.idx[q]] == unreached) {
          cells.label[G.idx[q]] = 0;
          queue.push_back(G.idx[q]);
        }
    const int64_t size = static_cast<int64_t>(queue.size()), cell = static_cast<int64_t>(aimed_fill * static_cast<double>(limit));
    const int64_t k = size <= limit ? 1 : (size + cell - 1) / std::max<int64_t>(cell, 1);
    const uint32_t first = static_cast<uint32_t>(cells.seeds.size());
    for (int64_t j = 0; j < k; ++j) cells.seeds.push_back(queue[j * size / k]);
    for (const int32_t u : queue) cells.label[u] = k == 1 ? first : unreached;
    if (k > 1) fresh.insert(fresh.end(), cells.seeds.begin() + first, cells.seeds.end());
  }
  if (fresh.empty()) return;
  for (size_t k = 0; k < cells.seeds.size(); ++k) cells.label[cells.seeds[k]] = static_cast<uint32_t>(k);
  spread(G, std::move(fresh), static_cast<uint32_t>(cells.seeds.size()), cells.label, 1);
}

void list_members(Cells& cells) {
  static_assert(sizeof(uint32_t) == sizeof(int32_t));
  OwnedPattern rows = invert(static_cast<int32_t>(cells.seeds.size()), reinterpret_cast<const int32_t*>(cells.label.data()),
                             static_cast<int64_t>(cells.label.size()), 1);
  cells.ptr = std::move(rows.ptr);
  cells.members = std::move(rows.idx);
}

bool on_boundary(const Pattern& G, const std::vector<uint32_t>& label, int32_t v) {
  return std::any_of(G.idx + G.ptr[v], G.idx + G.ptr[v + 1], [&](int32_t w) { return label[w] != label[v]; });
}

// The seed of each cell moves to the vertex that a search inwards from its boundary reaches last; a cell over the limit gets
// further seeds among its members.
void recentre(const Pattern& G, int64_t limit, Cells& cells, int threads) {
  std::vector<int32_t> queue(G.n);
  std::vector<uint8_t> seen(G.n, 0);
  const int64_t count = static_cast<int64_t>(cells.seeds.size());
  for_range(threads, count, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) {
      int32_t* const first = queue.data() + cells.ptr[k];
      int32_t* last = first;
      for (int64_t i = cells.ptr[k]; i < cells.ptr[k + 1]; ++i)
        if (on_boundary(G, cells.label, cells.members[i])) seen[*last++ = cells.members[i]] = 1;
      for (int32_t* head = first; head != last; ++head)
        for (int64_t q = G.ptr[*head]; q < G.ptr[*head + 1]; ++q) {
          const int32_t w = G.idx[q];
          if (!seen[w] && cells.label[w] == static_cast<uint32_t>(k)) seen[*last++ = w] = 1;
        }
      if (last != first) cells.seeds[k] = last[-1];
    }
  });
  for (int64_t k = 0; k < count; ++k) {
    const int64_t size = cells.ptr[k + 1] - cells.ptr[k], further = size > limit ? size / limit : 0;
    for (int64_t j = 0; j < further; ++j) {
      const int32_t v = cells.members[cells.ptr[k] + j * size / further];
      if (v != cells.seeds[k]) cells.seeds.push_back(v);
    }
  }
}

// ---- Cells over the limit, small pieces, final numbers

enum Start : uint8_t { inside = 0, piece = 1, loose = 2 };  // a loose piece may be packed with others

// Cuts slices [begin, end) of `order` (members of one cell) into pieces and notes where each begins. `tag[v]` is the begin of
// the slice that v lies in. Slices are disjoint, so that threads share all arrays.
struct Cutter {
  const Pattern& G;
  std::vector<int32_t>& order;
  std::vector<uint8_t> start;
  std::vector<int32_t> tag, queue;
  std::vector<uint8_t> mark;                                // 0 before and after each cut

  Cutter(const Pattern& graph, std::vector<int32_t>& members)
      : G(graph), order(members), start(graph.n, inside), tag(graph.n), queue(graph.n), mark(graph.n, 0) {}
  void cut(int64_t begin, int64_t end, int64_t limit);

 private:
  int64_t flood(int64_t begin, int64_t filled, int64_t head, uint8_t fresh, int32_t* up = nullptr);
  int64_t bisect(int64_t begin, int64_t end);
  void cut_tree(int64_t begin, int64_t end, int64_t limit);
};

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
      start[next] = weight[k] * small_share <= limit ? loose : piece;
      at[k] = static_cast<int32_t>(next);
      next += weight[k];
    } else {
      root[k] = root[root[k]];                              // the parent stands before and is settled
    }
    order[at[root[k]]++] = found[k];
  }
}

// Pieces in the order of their lowest vertex; loose ones share parts of at most `pack` vertices.
Parts number(const std::vector<int32_t>& order, const std::vector<uint8_t>& start, int64_t pack) {
  const int64_t n = static_cast<int64_t>(order.size());
  Parts parts{std::vector<int32_t>(n), 0};
  int32_t count = 0, shared = -1;
  int64_t filled = 0;
  for (int64_t b = 0, e = 0; b < n; b = e) {
    for (e = b + 1; e < n && start[e] == inside; ++e) {}
    int32_t id = shared;
    if (start[b] != loose) {
      id = count++;
    } else if (shared < 0 || filled + e - b > pack) {
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

Parts cut_and_number(const Pattern& G, Cells&& cells, const std::vector<int64_t>& limit_of, int64_t pack, int threads) {
  Cutter cutter(G, cells.members);
  for_range(threads, static_cast<int64_t>(limit_of.size()), 64, [&](int64_t first, int64_t last, int) {
    for (int64_t k = first; k < last; ++k) {
      const int64_t begin = cells.ptr[k], end = cells.ptr[k + 1];
      if (begin == end) continue;
      const std::span<const int32_t> members(cells.members.data() + begin, cells.members.data() + end);
      const bool small = (end - begin) * small_share <= pack;
      if (end - begin > limit_of[k]) {
        cutter.cut(begin, end, limit_of[k]);
      } else if (small && std::none_of(members.begin(), members.end(), [&](int32_t v) { return on_boundary(G, cells.label, v); })) {
        cutter.start[begin] = loose;                        // a small component
      } else {
        cutter.start[begin] = piece;
      }
    }
  });
  return number(cells.members, cutter.start, pack);
}

}  // namespace
}  // namespace ms::patches
