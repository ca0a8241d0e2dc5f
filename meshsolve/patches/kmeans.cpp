// Parts of a graph by Lloyd's iteration in graph distance.
//
// Source: RXMesh (Mahmoud, Porumbescu, Owens 2021), section 3.1. (a) All seeds grow together, one layer at a time. (b) The vertex
// farthest from the boundary of each cell is its next seed. A cell beyond the limit gets additional seeds. In this code (a) first
// partitions the graph into regions of about 16 cells. The rounds of (a) and (b) run within each region, which fits into the
// cache and is an independent task. Cells that are still beyond the limit are cut by cut.cpp.
// A vertex joins the lowest of the seeds that reach it in the same layer, so the result does not depend on the number of threads.
// Cost: O(rounds (n + nnz)).
#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>

#include "native/threads/atomic.hpp"
#include "native/threads/parallel.hpp"
#include "native/rng.hpp"
#include "patches/kmeans.hpp"

namespace ms::patches {
namespace {

constexpr int rounds = 4;                                   // rounds of Lloyd's iteration
constexpr int64_t cells_per_region = 16;                    // region size, so that it fits into the cache
constexpr double aimed_fill = 0.85;                         // mean cell size relative to the limit, so that few cells exceed it
constexpr uint32_t unreached = std::numeric_limits<uint32_t>::max();

struct Subgraph {                                           // induced graph of a region, numbered in the order of its members
  OwnedPattern graph;
  std::vector<uint8_t> rim;                                 // 1 if the vertex has a neighbor outside the region
};

int64_t cell_size(int64_t limit) { return std::max<int64_t>(1, static_cast<int64_t>(aimed_fill * static_cast<double>(limit))); }

Cells find_regions(const Pattern& G, int64_t size, uint64_t seed, int threads);
Subgraph extract(const Pattern& G, const Cells& regions, int64_t r, std::vector<int32_t>& position);
Cells lloyd(const Subgraph& S, int64_t limit, uint64_t seed);
void list_members(Cells& cells);

}  // namespace

Parts kmeans(const Pattern& G, int64_t limit, uint64_t seed, int threads) {
  const Cells regions = find_regions(G, cells_per_region * cell_size(limit), seed, threads);
  Pieces pieces(regions.members);
  std::vector<int32_t> position(G.n);
  for_range(threads, regions.count(), 4, [&](int64_t first, int64_t last, int) {
    for (int64_t r = first; r < last; ++r) {
      pieces.start[regions.ptr[r]] = 1;
      if (regions.size(r) <= limit) continue;
      interrupt::poll();
      const Subgraph S = extract(G, regions, r, position);
      pieces.refine(regions.ptr[r], cut_cells(S.graph.view(), lloyd(S, limit, hash_key(seed, static_cast<uint64_t>(r))), limit));
    }
  });
  return number(G, pieces, limit);
}

Parts halve(const Pattern& G, const Parts& parts, const std::vector<uint8_t>& marked, int threads) {
  Cells cells;
  cells.seeds.resize(parts.count);
  cells.label.assign(parts.part.begin(), parts.part.end());
  list_members(cells);
  Pieces pieces(cells.members);
  std::vector<int32_t> position(G.n);
  for_range(threads, cells.count(), 4, [&](int64_t first, int64_t last, int) {
    for (int64_t p = first; p < last; ++p) {
      pieces.start[cells.ptr[p]] = 1;
      if (!marked[p]) continue;
      const Subgraph S = extract(G, cells, p, position);
      Cells whole;
      whole.ptr = {0, cells.size(p)};
      whole.members.resize(cells.size(p));
      std::iota(whole.members.begin(), whole.members.end(), 0);
      pieces.refine(cells.ptr[p], cut_cells(S.graph.view(), std::move(whole), (cells.size(p) + 1) / 2));
    }
  });
  int64_t largest = 1;
  for (int32_t p = 0; p < parts.count; ++p)
    if (marked[p]) largest = std::max(largest, (cells.size(p) + 1) / 2);
  return number(G, pieces, largest);
}

namespace {

// ---- growth from seeds

// Lowers `label` to `to` if it is higher. Returns true if the vertex was unreached.
bool claim(uint32_t& label, uint32_t to) {
  AtomicRef<uint32_t> at(label);
  uint32_t seen = at.load(std::memory_order_relaxed);
  while (seen > to)
    if (at.compare_exchange_weak(seen, to, std::memory_order_relaxed)) return seen == unreached;
  return false;
}

// Grows the labels outwards from `layer`. During a step the labels of the next layer are increased by the number of cells, which
// distinguishes them from final labels.
void spread(const Pattern& G, std::vector<int32_t> layer, uint32_t cells, std::vector<uint32_t>& label, int threads) {
  std::vector<std::vector<int32_t>> reached(threads);
  while (!layer.empty()) {
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

// One random vertex from each of k equal ranges of the numbering, for k cells of the given size.
std::vector<int32_t> first_seeds(int32_t n, int64_t size, uint64_t seed) {
  const int64_t k = (n + size - 1) / size;
  std::vector<int32_t> seeds(k);
  for (int64_t j = 0; j < k; ++j) {
    const int64_t begin = j * n / k, end = (j + 1) * n / k;
    seeds[j] = static_cast<int32_t>(begin + static_cast<int64_t>(hash_key(seed, j) % static_cast<uint64_t>(end - begin)));
  }
  return seeds;
}

// The members of each cell: a counting sort by label.
void list_members(Cells& cells) {
  static_assert(sizeof(uint32_t) == sizeof(int32_t));
  OwnedPattern rows = invert(static_cast<int32_t>(cells.seeds.size()), reinterpret_cast<const int32_t*>(cells.label.data()),
                             static_cast<int64_t>(cells.label.size()), 1);
  cells.ptr = std::move(rows.ptr);
  cells.members = std::move(rows.idx);
}

// ---- regions

// Components without a seed: one region each, or several in proportion to the size.
void seed_unreached(const Pattern& G, int64_t size, Cells& regions, int threads) {
  std::vector<int32_t> queue, fresh, pending;               // pending: vertices of components with several new seeds
  for (int32_t v = 0; v < G.n; ++v) {
    if (regions.label[v] != unreached) continue;
    const uint32_t first = static_cast<uint32_t>(regions.seeds.size());
    queue.assign(1, v);
    regions.label[v] = first;
    for (size_t head = 0; head < queue.size(); ++head)
      for (int64_t q = G.ptr[queue[head]]; q < G.ptr[queue[head] + 1]; ++q)
        if (regions.label[G.idx[q]] == unreached) {
          regions.label[G.idx[q]] = first;
          queue.push_back(G.idx[q]);
        }
    const int64_t found = static_cast<int64_t>(queue.size()), k = std::max<int64_t>(1, found / size);
    for (int64_t j = 0; j < k; ++j) regions.seeds.push_back(queue[j * found / k]);
    if (k == 1) continue;
    pending.insert(pending.end(), queue.begin(), queue.end());
    fresh.insert(fresh.end(), regions.seeds.begin() + first, regions.seeds.end());
    for (int64_t j = 0; j < k; ++j) regions.label[regions.seeds[first + j]] = static_cast<uint32_t>(first + j);
  }
  for (const int32_t v : pending)                           // after the scan, which would otherwise find their components again
    if (regions.seeds[regions.label[v]] != v) regions.label[v] = unreached;
  spread(G, std::move(fresh), static_cast<uint32_t>(regions.seeds.size()), regions.label, threads);
}

Cells find_regions(const Pattern& G, int64_t size, uint64_t seed, int threads) {
  Cells regions;
  regions.seeds = first_seeds(G.n, size, seed);
  regions.label.assign(G.n, unreached);
  for (size_t k = 0; k < regions.seeds.size(); ++k) regions.label[regions.seeds[k]] = static_cast<uint32_t>(k);
  spread(G, regions.seeds, static_cast<uint32_t>(regions.seeds.size()), regions.label, threads);
  seed_unreached(G, size, regions, threads);
  list_members(regions);
  return regions;
}

// The induced graph of region r. All threads share `position`; each writes only the members of its regions.
Subgraph extract(const Pattern& G, const Cells& regions, int64_t r, std::vector<int32_t>& position) {
  const int32_t* const members = regions.members.data() + regions.ptr[r];
  const int64_t n = regions.size(r);
  Subgraph S{{std::vector<int64_t>(n + 1, 0), {}}, std::vector<uint8_t>(n, 0)};
  for (int64_t i = 0; i < n; ++i) position[members[i]] = static_cast<int32_t>(i);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t q = G.ptr[members[i]]; q < G.ptr[members[i] + 1]; ++q) {
      const int32_t w = G.idx[q];
      if (regions.label[w] == static_cast<uint32_t>(r)) S.graph.idx.push_back(position[w]);
      else S.rim[i] = 1;
    }
    S.graph.ptr[i + 1] = static_cast<int64_t>(S.graph.idx.size());
  }
  return S;
}

bool has_foreign_neighbor(const Pattern& G, const std::vector<uint32_t>& label, int32_t v) {
  return std::any_of(G.idx + G.ptr[v], G.idx + G.ptr[v + 1], [&](int32_t w) { return label[w] != label[v]; });
}

// ---- Lloyd's iteration in one region

// Breadth-first search from all seeds with one queue. Branch-free in the inner loop: whether a vertex is new is hard to predict.
void grow(const Pattern& G, Cells& cells) {
  cells.label.assign(G.n, unreached);
  std::vector<int32_t> queue(cells.seeds);
  queue.resize(G.n + 1);
  int64_t last = static_cast<int64_t>(cells.seeds.size());
  for (int64_t k = 0; k < last; ++k) cells.label[queue[k]] = static_cast<uint32_t>(k);
  for (int64_t head = 0; head < last; ++head)
    for (int64_t q = G.ptr[queue[head]]; q < G.ptr[queue[head] + 1]; ++q) {
      const int32_t w = G.idx[q];
      const bool fresh = cells.label[w] == unreached;
      cells.label[w] = fresh ? cells.label[queue[head]] : cells.label[w];
      queue[last] = w;
      last += fresh;
    }
}

// Moves the seed of each cell to the vertex that a search inwards from the boundary of the cell reaches last.
void recenter(const Subgraph& S, Cells& cells) {
  const Pattern G = S.graph.view();
  std::vector<int32_t> queue(G.n + 1);
  std::vector<uint8_t> seen(G.n, 0);
  for (int64_t k = 0; k < cells.count(); ++k) {
    int32_t* last = queue.data();
    for (int64_t i = cells.ptr[k]; i < cells.ptr[k + 1]; ++i) {
      const int32_t v = cells.members[i];
      if (S.rim[v] || has_foreign_neighbor(G, cells.label, v)) seen[*last++ = v] = 1;
    }
    for (const int32_t* head = queue.data(); head != last; ++head)
      for (int64_t q = G.ptr[*head]; q < G.ptr[*head + 1]; ++q) {
        const int32_t w = G.idx[q];
        const uint8_t fresh = (seen[w] ^ 1) & static_cast<uint8_t>(cells.label[w] == static_cast<uint32_t>(k));
        seen[w] |= fresh;
        *last = w;
        last += fresh;
      }
    if (last != queue.data()) cells.seeds[k] = last[-1];
  }
}

// Adds floor(size / limit) seeds to each cell beyond the limit.
void add_seeds(int64_t limit, Cells& cells) {
  for (int64_t k = 0, count = cells.count(); k < count; ++k) {
    const int64_t additional = cells.size(k) > limit ? cells.size(k) / limit : 0;
    for (int64_t j = 0; j < additional; ++j) {
      const int32_t v = cells.members[cells.ptr[k] + j * cells.size(k) / additional];
      if (v != cells.seeds[k]) cells.seeds.push_back(v);
    }
  }
}

Cells lloyd(const Subgraph& S, int64_t limit, uint64_t seed) {
  const Pattern G = S.graph.view();
  Cells cells;
  cells.seeds = first_seeds(G.n, cell_size(limit), seed);
  grow(G, cells);
  for (int round = 0; round < rounds; ++round) {
    list_members(cells);
    recenter(S, cells);
    if (round + 1 == rounds) add_seeds(limit, cells);       // cells of earlier rounds are uneven
    grow(G, cells);
  }
  list_members(cells);
  return cells;
}

}  // namespace
}  // namespace ms::patches
