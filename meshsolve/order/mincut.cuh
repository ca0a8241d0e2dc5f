// Maximum flow with unit vertex capacities in the band of one node, by one thread block, and the minimum cuts next to the sources
// and next to the sinks. CPU counterpart: mincut.cpp.
//
// Each vertex is split into an entry (in node) and an exit (out node). Forests grow breadth-first from all free sources through
// the residual graph. An entry belongs to the tree that claims it first. A tree that reaches a sink gives one augmenting path;
// these paths are disjoint. The other trees are kept, and the next forest grows from them into the released nodes (tree
// grafting).
// Source: Azad, Buluc, Pothen 2017, "Computing maximum cardinality matchings in parallel on bipartite graphs via tree-grafting".
// An entry leads to one exit: its own, or back along the flow. No other entry leads to that exit, so only entries are claimed and
// listed. The flow depends on the order of threads; the cuts next to the sources and next to the sinks do not.
// Vertices are numbered by their position in the band. The arrays lie in shared memory if they fit: a wave costs a few dependent
// memory accesses. Cost: 12 forests, 150 to 450 waves, for bands of 1000 to 6000 vertices.
#pragma once
#include "device/common.cuh"
#include "order/order.cuh"

namespace ms::order {

constexpr int is_source = 1, is_sink = 2;
constexpr int lanes = 4;                                    // threads per row

struct Band {
  const long long* ptr;                                     // graph
  const int* idx;
  const int* vertex;                                        // one entry per band position
  const int *layer, *position;                              // one entry per vertex; layer >= 0: the vertex is in the band
  int size;
};

// Number of entries that joined a tree in each wave of a search.
struct Waves {
  int joined[3];                                            // one is read while the next is counted and the third is cleared
  int paths;
};

template <class Index> struct ClaimOf;                      // word that holds two band positions
template <> struct ClaimOf<unsigned short> { using Type = unsigned; };
template <> struct ClaimOf<unsigned> { using Type = unsigned long long; };

template <class Index> class MinCut {
  using Claim = typename ClaimOf<Index>::Type;

 public:
  static constexpr Index none = static_cast<Index>(~0u), ended = static_cast<Index>(~1u);  // no flow; a path starts or ends here

  __device__ __forceinline__ static bool fits(int size, long long capacity) { return size < ended && bytes(size) <= capacity; }

  // memory: `capacity` >= bytes(size) bytes, aligned for a Claim; 0 for global memory. Rows are copied to the rest of it if they
  // fit. A barrier must follow the constructor.
  __device__ __forceinline__ MinCut(char* memory, long long capacity, const Band& band, Waves* shared)
      : b(band), waves(shared), claim(reinterpret_cast<Claim*>(memory)), came(reinterpret_cast<Index*>(claim + b.size)),
        goes(came + b.size), end(goes + b.size), queue(end + b.size),
        anchor(reinterpret_cast<unsigned char*>(queue + b.size)), start(reinterpret_cast<int*>(memory + bytes(b.size))),
        adj(reinterpret_cast<Index*>(start + b.size + 1)) {
    const long long left = capacity - bytes(b.size) - 4ll * (b.size + 1);
    if (left <= 0 || !start_rows(static_cast<int>(left / sizeof(Index)))) adj = nullptr;
    for (int i = threadIdx.x; i < b.size; i += blockDim.x) {
      claim[i] = unclaimed;
      came[i] = goes[i] = end[i] = none;
    }
  }

  // Sets the k-th neighbor of position i (< 0: beyond the band), and whether i is a source or a sink. One thread does so for each
  // row.
  __device__ __forceinline__ void set_neighbor(int i, int k, int position) const {
    if (adj) adj[start[i] + k] = position < 0 ? none : static_cast<Index>(position);
  }
  __device__ __forceinline__ void set_anchor(int i, int ends) const { anchor[i] = static_cast<unsigned char>(ends); }
  __device__ __forceinline__ void add_anchor(int i, int ends) const { anchor[i] |= static_cast<unsigned char>(ends); }

  // Returns the maximum flow, or a flow of at least `enough`. The last forest contains the nodes that the sources reach.
  __device__ inline int run(int enough) {
    restart();
    for (int i = threadIdx.x; i < b.size; i += blockDim.x)
      if (anchor[i] & is_source) grow(i, i, i);
    for (int flow = 0;;) {
      search([&](int i, int lane) { step(i, lane); });
      const int paths = augment();
      flow += paths;
      if (paths == 0 || flow >= enough) return flow;
      graft();
    }
  }

  // Side in the cut next to the sources, after run(). It is kept for near_side(): the search from the sinks overwrites the
  // claims.
  __device__ __forceinline__ int near_sources(int i) const {
    const Index before = entry_before(i);
    const int side = before != ended && claim[before] != unclaimed ? 0 : claim[i] != unclaimed || (anchor[i] & is_source) ? 2 : 1;
    end[i] = static_cast<Index>(side);
    return side;
  }
  __device__ __forceinline__ int near_side(int i) const { return end[i]; }

  // Marks the exits that reach the sinks in the residual graph, by a backward search.
  __device__ inline void search_from_sinks() {
    __syncthreads();
    for (int i = threadIdx.x; i < b.size; i += blockDim.x) claim[i] = unclaimed;
    restart();
    for (int i = threadIdx.x; i < b.size; i += blockDim.x)
      if (anchor[i] & is_sink) grow(i, 0, 0);
    search([&](int i, int lane) { step_back(i, lane); });
  }

  // Side in the cut next to the sinks, after search_from_sinks().
  __device__ __forceinline__ int far_side(int i) const {
    const Index after = exit_after(i);
    return after != ended && claim[after] != unclaimed ? 1 : claim[i] != unclaimed ? 2 : 0;
  }

 private:
  static constexpr Claim unclaimed = ~Claim(0);
  static constexpr int half = 4 * sizeof(Claim);            // bits per half: the exit that leads here (high), the tree (low)

  __device__ __forceinline__ static long long bytes(int size) {
    return (size * static_cast<long long>(sizeof(Claim) + 4 * sizeof(Index) + 1) + 3) / 4 * 4;
  }

  // The vertex whose exit follows the entry of i, and the vertex whose entry precedes the exit of i; or `ended`.
  __device__ __forceinline__ Index exit_after(int i) const { return came[i] == none ? static_cast<Index>(i) : came[i]; }
  __device__ __forceinline__ Index entry_before(int i) const { return goes[i] == none ? static_cast<Index>(i) : goes[i]; }
  __device__ __forceinline__ static Index tree_of(Claim c) { return static_cast<Index>(c); }

  // Computes where the row of each position starts. Returns false if there are more than `most` entries.
  __device__ inline bool start_rows(int most) {
    int used = 0;
    for (int base = 0; base < b.size && used <= most; base += blockDim.x) {
      const int i = base + threadIdx.x;
      int length = 0, total;
      if (i < b.size) {
        const int v = b.vertex[i];
        length = static_cast<int>(min(b.ptr[v + 1] - b.ptr[v], static_cast<long long>(most)));
      }
      const int before = used + block_exclusive_sum(length, total);
      if (i < b.size) start[i] = before;
      used += total;
    }
    if (threadIdx.x == 0) start[b.size] = used;
    return used <= most;
  }

  template <class Visit> __device__ __forceinline__ void for_neighbors(int i, int lane, Visit visit) const {
    if (adj) {
      for (int k = start[i] + lane, last = start[i + 1]; k < last; k += lanes)
        if (adj[k] != none) visit(adj[k]);
      return;
    }
    const int v = b.vertex[i];
    const long long last = b.ptr[v + 1];
    for (long long k = b.ptr[v] + lane; k < last; k += lanes) {
      const int u = b.idx[k], layer = b.layer[u], position = b.position[u];
      if (layer >= 0) visit(position);                      // neighbors outside the node are in separators and have no layer
    }
  }

  // ---- waves

  __device__ __forceinline__ void restart() {               // a barrier must lie between two searches
    if (threadIdx.x < 3) waves->joined[threadIdx.x] = 0;
    tail = 0;
    counter = waves->joined;
    __syncthreads();
  }

  // Adds entry i to a tree, through the exit of `from`, unless it is in a tree.
  __device__ __forceinline__ void grow(int i, int from, int tree) const {
    if (peek(claim + i) != unclaimed) return;
    if (atomicCAS(claim + i, unclaimed, static_cast<Claim>(from) << half | static_cast<Claim>(tree)) != unclaimed) return;
    queue[tail + atomicAdd(counter, 1)] = static_cast<Index>(i);
  }

  // Waves until no entry joins: a step from each entry that joined in the wave before, by `lanes` threads each.
  template <class Step> __device__ __forceinline__ void search(Step step_from) {
    const int lane = threadIdx.x % lanes;
    for (int wave = 0;; wave = wave == 2 ? 0 : wave + 1) {
      __syncthreads();
      const int count = waves->joined[wave], first = tail, cleared = wave == 0 ? 2 : wave - 1;
      if (count == 0) return;
      if (threadIdx.x == 0) waves->joined[cleared] = 0;
      tail += count;
      counter = waves->joined + (wave == 2 ? 0 : wave + 1);
      for (int k = threadIdx.x / lanes; k < count; k += blockDim.x / lanes) step_from(queue[first + k], lane);
    }
  }

  // Grows the tree of entry i: to the neighbors of the exit that it leads to, and back into that vertex if it carries flow.
  __device__ __forceinline__ void step(int i, int lane) const {
    const Index tree = tree_of(peek(claim + i)), v = exit_after(i);
    if (v == ended || peek(end + tree) != none) return;
    if (anchor[v] & is_sink) {
      *static_cast<volatile Index*>(end + tree) = v;        // any of several sinks
      return;
    }
    for_neighbors(v, lane, [&](int u) { grow(u, v, tree); });
    if (lane == 0 && goes[v] != none) grow(v, v, tree);
  }

  __device__ __forceinline__ void step_back(int i, int lane) const {
    const Index v = entry_before(i);
    if (v == ended) return;
    for_neighbors(v, lane, [&](int u) { grow(u, 0, 0); });
    if (lane == 0 && came[v] != none) grow(v, 0, 0);
  }

  // ---- forests

  // Augments the flow along the path of every tree that reached a sink. Returns the number of paths.
  __device__ inline int augment() const {
    if (threadIdx.x == 0) waves->paths = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < b.size; i += blockDim.x) {
      if (end[i] == none || came[i] == ended) continue;
      send(i);
      atomicAdd(&waves->paths, 1);
    }
    __syncthreads();
    return waves->paths;
  }

  // Augments from the sink back to the root. The entry before an exit is read before its flow changes.
  __device__ __forceinline__ void send(int root) const {
    Index v = end[root], i = entry_before(v);
    goes[v] = ended;
    while (i != root) {
      v = static_cast<Index>(claim[i] >> half);
      const Index before = entry_before(v);
      if (v == i) {
        came[i] = goes[i] = none;
      } else {
        goes[v] = i;
        came[i] = v;
      }
      i = before;
    }
    came[root] = ended;
  }

  // Dissolves the trees that reached a sink. The others grow into the released entries.
  __device__ inline void graft() {
    for (int i = threadIdx.x; i < b.size; i += blockDim.x)
      if (claim[i] != unclaimed && end[tree_of(claim[i])] != none) claim[i] = unclaimed;
    restart();
    for (int i = threadIdx.x / lanes; i < b.size; i += blockDim.x / lanes)
      if (peek(claim + i) != unclaimed) step(i, threadIdx.x % lanes);
  }

  const Band b;
  Waves* const waves;
  Claim* const claim;                                       // per entry; per exit in the search from the sinks
  Index *const came, *const goes;                           // previous and next vertex of the flow through a vertex
  Index* const end;                                         // sink that a tree reached; a tree is numbered by its source
  Index* const queue;
  unsigned char* const anchor;
  int* const start;                                         // row pointers of adj
  Index* adj;                                               // neighbors; null: rows are read from the graph
  int tail = 0;
  int* counter = nullptr;
};

}  // namespace ms::order
