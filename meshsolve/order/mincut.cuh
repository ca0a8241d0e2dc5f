// Maximum flow with unit vertex capacities in the band of one node, by one block, and the minimum cuts next to its ends. Twin of
// mincut.cpp.
//
// Every vertex is split into an entry and an exit. Forests grow breadth-first from all free sources through the residual graph;
// an entry belongs to the tree that claims it first, a tree that meets a sink gives one augmenting path, and these paths share
// no node. Trees that met none are kept: the next forest grows from them into what the others leave (Azad, Buluc, Pothen 2017,
// "Computing maximum cardinality matchings in parallel on bipartite graphs via tree-grafting", for matchings). An entry has one
// way out, its vertex's exit or back along the flow, and no other entry leads there: so entries alone are claimed and listed.
// Which flow is found depends on the order of threads, the cuts nearest to the sources and to the sinks do not.
// Vertices are numbered by their places in the band. All of it lies in shared memory where that is large enough, since a wave
// costs what a few dependent accesses of memory do. Cost: 12 forests, 150 to 450 waves, for bands of 1000 to 6000 vertices.
#pragma once
#include "device/common.cuh"
#include "order/order.cuh"

namespace ms::order {

constexpr int is_source = 1, is_sink = 2;
constexpr int lanes = 4;                                    // threads that share a row

struct Band {
  const long long* ptr;                                     // graph
  const int* idx;
  const int *vertex, *layer, *place;                        // a place: its vertex; a vertex: layer >= 0 in the band, its place
  int size;
};

// Waves of a search: so many joined each.
struct Waves {
  int joined[3];                                            // one is read while the next is counted and the third is cleared
  int paths;
};

template <class Place> struct ClaimOf;                      // two places in a word
template <> struct ClaimOf<unsigned short> { using Type = unsigned; };
template <> struct ClaimOf<unsigned> { using Type = unsigned long long; };

template <class Place> class MinCut {
  using Claim = typename ClaimOf<Place>::Type;

 public:
  static constexpr Place none = static_cast<Place>(~0u), ended = static_cast<Place>(~1u);  // no flow; it begins or ends here

  __device__ __forceinline__ static bool fits(int size, long long room) { return size < ended && bytes(size) <= room; }

  // memory: at least bytes(size), aligned for a Claim.
  __device__ __forceinline__ MinCut(char* memory, long long room, const Band& band, Waves* shared)
      : b(band), waves(shared), claim(reinterpret_cast<Claim*>(memory)), came(reinterpret_cast<Place*>(claim + b.size)),
        goes(came + b.size), end(goes + b.size), queue(end + b.size),
        anchor(reinterpret_cast<unsigned char*>(queue + b.size)), start(reinterpret_cast<int*>(memory + bytes(b.size))),
        adj(reinterpret_cast<Place*>(start + b.size + 1)) {
    const long long left = room - bytes(b.size) - 4ll * (b.size + 1);
    if (left <= 0 || !place_rows(static_cast<int>(left / sizeof(Place)))) adj = nullptr;
    for (int i = threadIdx.x; i < b.size; i += blockDim.x) {
      claim[i] = unclaimed;
      came[i] = goes[i] = end[i] = none;
    }
  }

  // From the thread that reads the row of place i: the place of its k-th neighbour, < 0 beyond the band; the ends next to i.
  __device__ __forceinline__ void set_neighbour(int i, int k, int place) const {
    if (adj) adj[start[i] + k] = place < 0 ? none : static_cast<Place>(place);
  }
  __device__ __forceinline__ void set_anchor(int i, int ends) const { anchor[i] = static_cast<unsigned char>(ends); }
  __device__ __forceinline__ void add_anchor(int i, int ends) const { anchor[i] |= static_cast<unsigned char>(ends); }

  // Maximum flow, or some flow that is not below `enough`. The last forest holds what the sources reach.
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

  // Side in the cut next to the sources, after run(); kept for near_side(), since the search from the sinks needs the claims.
  __device__ __forceinline__ int near_sources(int i) const {
    const Place before = entry_before(i);
    const int side = before != ended && claim[before] != unclaimed ? 0 : claim[i] != unclaimed || (anchor[i] & is_source) ? 2 : 1;
    end[i] = static_cast<Place>(side);
    return side;
  }
  __device__ __forceinline__ int near_side(int i) const { return end[i]; }

  // Marks the exits that reach the sinks in the residual graph, searched backwards.
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
    const Place after = exit_after(i);
    return after != ended && claim[after] != unclaimed ? 1 : claim[i] != unclaimed ? 2 : 0;
  }

 private:
  static constexpr Claim unclaimed = ~Claim(0);
  static constexpr int half = 4 * sizeof(Claim);            // bits: the exit that leads here, the tree

  __device__ __forceinline__ static long long bytes(int size) {
    return (size * static_cast<long long>(sizeof(Claim) + 4 * sizeof(Place) + 1) + 3) / 4 * 4;
  }

  // The vertex whose exit is the way out of an entry, the vertex whose entry leads to an exit; or ended.
  __device__ __forceinline__ Place exit_after(int i) const { return came[i] == none ? static_cast<Place>(i) : came[i]; }
  __device__ __forceinline__ Place entry_before(int i) const { return goes[i] == none ? static_cast<Place>(i) : goes[i]; }
  __device__ __forceinline__ static Place tree_of(Claim c) { return static_cast<Place>(c); }

  // Where the rows of places begin. False: they are more than `most` entries.
  __device__ inline bool place_rows(int most) {
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
    __syncthreads();
    return used <= most;
  }

  template <class Visit> __device__ __forceinline__ void for_neighbours(int i, int lane, Visit visit) const {
    if (adj) {
      for (int k = start[i] + lane, last = start[i + 1]; k < last; k += lanes)
        if (adj[k] != none) visit(adj[k]);
      return;
    }
    const int v = b.vertex[i];
    const long long last = b.ptr[v + 1];
    for (long long k = b.ptr[v] + lane; k < last; k += lanes) {
      const int u = b.idx[k], layer = b.layer[u], place = b.place[u];
      if (layer >= 0) visit(place);                         // neighbours outside the node lie in separators: no layer
    }
  }

  // ---- waves

  __device__ __forceinline__ void restart() {
    __syncthreads();
    if (threadIdx.x < 3) waves->joined[threadIdx.x] = 0;
    tail = 0;
    counter = waves->joined;
    __syncthreads();
  }

  // Entry i joins a tree through the exit of `from`, unless it has joined one.
  __device__ __forceinline__ void grow(int i, int from, int tree) const {
    if (peek(claim + i) != unclaimed) return;
    if (atomicCAS(claim + i, unclaimed, static_cast<Claim>(from) << half | static_cast<Claim>(tree)) != unclaimed) return;
    queue[tail + atomicAdd(counter, 1)] = static_cast<Place>(i);
  }

  // A step from each place that joined, `lanes` threads each, then from each that these made join, to the end.
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

  // The tree of an entry grows through it: to the neighbours of the exit, and back into that vertex if flow passes it.
  __device__ __forceinline__ void step(int i, int lane) const {
    const Place tree = tree_of(peek(claim + i)), v = exit_after(i);
    if (v == ended || peek(end + tree) != none) return;
    if (anchor[v] & is_sink) {
      *static_cast<volatile Place*>(end + tree) = v;        // of several sinks any will do
      return;
    }
    for_neighbours(v, lane, [&](int u) { grow(u, v, tree); });
    if (lane == 0 && goes[v] != none) grow(v, v, tree);
  }

  __device__ __forceinline__ void step_back(int i, int lane) const {
    const Place v = entry_before(i);
    if (v == ended) return;
    for_neighbours(v, lane, [&](int u) { grow(u, 0, 0); });
    if (lane == 0 && came[v] != none) grow(v, 0, 0);
  }

  // ---- forests

  // Sends flow along the path of every tree that met a sink. Returns how many there were.
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

  // From the sink back to the root; what leads to an exit is read before its flow changes.
  __device__ __forceinline__ void send(int root) const {
    Place v = end[root], i = entry_before(v);
    goes[v] = ended;
    while (i != root) {
      v = static_cast<Place>(claim[i] >> half);
      const Place before = entry_before(v);
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

  // Trees that met a sink dissolve, the others grow into what becomes free.
  __device__ inline void graft() {
    for (int i = threadIdx.x; i < b.size; i += blockDim.x)
      if (claim[i] != unclaimed && end[tree_of(claim[i])] != none) claim[i] = unclaimed;
    restart();
    for (int i = threadIdx.x / lanes; i < b.size; i += blockDim.x / lanes)
      if (peek(claim + i) != unclaimed) step(i, threadIdx.x % lanes);
  }

  const Band b;
  Waves* const waves;
  Claim* const claim;                                       // of an entry; of an exit, in the search from the sinks
  Place *const came, *const goes;                           // flow into a vertex, and on
  Place* const end;                                         // of a tree, named by its source: the sink that it met
  Place* const queue;
  unsigned char* const anchor;
  int* const start;                                         // of rows in adj
  Place* adj;                                               // null: rows are read from the graph
  int tail = 0;
  int* counter = nullptr;
};

}  // namespace ms::order
