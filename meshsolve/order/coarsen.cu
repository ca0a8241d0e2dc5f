// Bisection of the quotient graphs of all nodes of a tree level at once on the GPU. CPU counterpart: coarsen.cpp.
//
// One thread block per node computes the coarser graphs: heavy-edge matching by handshakes; one thread merges the rows of a pair.
// Then one warp per trial grows a side in the coarsest graph and refines it on each level by Fiduccia-Mattheyses passes. The best
// move is found by a scan of all candidates. The best trial is chosen on the finest level. Two launches, independent of the
// sizes.
//
// The levels lie in pools. A node with k patches and e entries in their rows has slices of pool_factor * k vertices and
// pool_factor * e entries: one level after the other, the finest first. Vertices of a level are numbered from 0.
#include "device/common.cuh"
#include "order/order.cuh"

namespace ms::order {

constexpr int pool_factor = 4;                              // size of the pools relative to the finest level
constexpr int most_levels = 30, level_row = most_levels + 2;     // level_row: entries per node in `levels`

struct Graph {                                              // one level
  int n, base;                                              // vertex numbers in adj start at `base`
  const int *row_begin, *row_end, *adj, *weight, *vertex_weight;
};

struct Pools {
  int *row_begin, *row_end, *vertex_weight, *coarse;        // per vertex
  int *adj, *weight;                                        // per entry of a row
  int* levels;                                              // per node: number of levels, first vertex of each level, end
};

// State of a bisection, compared as in coarsen.cpp: one within the limit beats one beyond it; then cut * (1/2 + share of the
// larger side) decides.
struct State {
  long long cut, larger;
  __device__ __forceinline__ bool beats(const State& other, long long limit, long long total) const {
    const bool fits = larger <= limit;
    if (fits != (other.larger <= limit)) return fits;
    if (!fits || cut == other.cut) return larger < other.larger;
    return cut * (total + 2 * larger) < other.cut * (total + 2 * other.larger);
  }
};

// Bisection of a graph by one warp. All lanes must call every function.
class Bisection {
 public:
  __device__ __forceinline__ Bisection(const Graph& graph, long long most, unsigned char* sides, int* scratch, long long stride)
      : g(graph), limit(most), side(sides), gain(scratch), stamp(scratch + stride), list(scratch + 2 * stride),
        moves(scratch + 3 * stride), lane(threadIdx.x & 31) {
    long long sum = 0;
    for (int v = lane; v < g.n; v += 32) sum += g.vertex_weight[v];
    total = warp_sum(sum);
  }

  // Greedy graph growing: side 0 grows from `start` to half of the weight, each time by the vertex of largest gain.
  __device__ __forceinline__ void grow(int start) {
    for (int v = lane; v < g.n; v += 32) side[v] = 1;
    __syncwarp();
    measure();
    for (int v = lane; v < g.n; v += 32) stamp[v] = 0;
    listed = 0;
    int v = start;
    for (int step = 2; weight_0 < total / 2; ++step) {
      const int own = g.vertex_weight[v];
      const bool fits = weight_0 == 0 || weight_0 + own <= limit;
      __syncwarp();
      if (lane == 0) stamp[v] = moved;
      __syncwarp();
      if (fits) move(v, 1, step);
      unsigned long long key = best_of_list([](int) { return true; });
      if (key == 0) key = first_unlisted();
      if (key == 0) break;
      v = vertex_of(key);
    }
    __syncwarp();
  }

  // Fiduccia-Mattheyses passes: moves by gain, also negative ones; each pass then undoes the moves after its best state.
  __device__ __forceinline__ State refine(int passes) {
    State best{};
    for (int pass = 0; pass < passes; ++pass) {
      measure();
      if (pass == 0) best = state();
      const int patience = min(max(g.n / 20, 15), 60);
      int made = 0, kept = 0;
      for (int idle = 0; idle <= patience;) {
        const unsigned long long key = best_of_list([&](int v) { return may_move(v); });
        if (key == 0) break;
        const int v = vertex_of(key), from = side[v];
        __syncwarp();
        if (lane == 0) {
          stamp[v] = moved;
          moves[made] = v;
        }
        move(v, from, ++made + 1);
        if (state().beats(best, limit, total)) {
          best = state();
          kept = made;
          idle = 0;
        } else {
          ++idle;
        }
      }
      for (int k = kept + lane; k < made; k += 32) side[moves[k]] ^= 1;
      __syncwarp();
      if (kept == 0) break;
    }
    return best;
  }

 private:
  static constexpr int moved = -1;                          // stamp of a vertex that has moved; 0: not in the list

  __device__ __forceinline__ State state() const { return {cut, max(weight_0, weight_1)}; }

  __device__ __forceinline__ bool may_move(int v) const {
    const int from = side[v];
    if (weight_0 > limit) return from == 0;
    if (weight_1 > limit) return from == 1;
    return (from == 0 ? weight_1 : weight_0) + g.vertex_weight[v] <= limit;
  }

  // gain[v] = decrease of the cut if v changes side. list = the boundary, or all vertices of a small graph.
  __device__ __forceinline__ void measure() {
    long long sum_0 = 0, sum = 0, crossing = 0;
    listed = 0;
    for (int base = 0; base < g.n; base += 32) {
      const int v = base + lane;
      bool enters = false;
      if (v < g.n) {
        int across = 0, inside = 0;
        const int own = side[v];
        for (int p = g.row_begin[v]; p < g.row_end[v]; ++p) (side[g.adj[p] - g.base] != own ? across : inside) += g.weight[p];
        gain[v] = across - inside;
        sum += g.vertex_weight[v];
        if (own == 0) sum_0 += g.vertex_weight[v];
        crossing += across;
        enters = across > 0 || g.n < 64;
        stamp[v] = enters ? 1 : 0;
      }
      append(v, enters);
    }
    weight_0 = warp_sum(sum_0);
    weight_1 = warp_sum(sum) - weight_0;
    cut = warp_sum(crossing) / 2;
    __syncwarp();
  }

  __device__ __forceinline__ void append(int v, bool enters) {
    const unsigned ballot = __ballot_sync(full_warp, enters);
    if (enters) list[listed + __popc(ballot & ((1u << lane) - 1))] = v;
    listed += __popc(ballot);
  }

  // Moves v from side `from` to the other one. Updates the gains of its neighbors and adds them to the list.
  __device__ __forceinline__ void move(int v, int from, int step) {
    const int own = g.vertex_weight[v], to = 1 - from;
    cut -= gain[v];
    weight_0 += from == 0 ? -own : own;
    weight_1 += from == 0 ? own : -own;
    if (lane == 0) side[v] = static_cast<unsigned char>(to);
    const int end = g.row_end[v];
    for (int base = g.row_begin[v]; base < end; base += 32) {
      const int p = base + lane;
      int u = -1;
      bool enters = false;
      if (p < end && stamp[g.adj[p] - g.base] != moved) {
        u = g.adj[p] - g.base;
        gain[u] += side[u] == to ? -2 * g.weight[p] : 2 * g.weight[p];
        enters = stamp[u] == 0;
        stamp[u] = step;
      }
      append(u, enters);
    }
    __syncwarp();
  }

  // Key that sorts the candidates: larger gain, then the latest change of the gain, then the lower number. 20 + 20 + 24 bits.
  __device__ __forceinline__ unsigned long long key_for(int v) const {
    constexpr int bias = 1 << 19, latest = (1 << 20) - 1;
    const unsigned long long biased = static_cast<unsigned long long>(min(max(gain[v], -bias + 1), bias - 1) + bias);
    const unsigned long long time = static_cast<unsigned long long>(min(stamp[v], latest));
    return biased << 44 | time << 24 | static_cast<unsigned>(0xffffff - v);
  }
  __device__ __forceinline__ int vertex_of(unsigned long long key) const { return 0xffffff - static_cast<int>(key & 0xffffff); }

  template <class May> __device__ __forceinline__ unsigned long long best_of_list(May may) const {
    unsigned long long best = 0;
    for (int k = lane; k < listed; k += 32) {
      const int v = list[k];
      if (stamp[v] == moved || !may(v)) continue;
      const unsigned long long key = key_for(v);
      if (key > best) best = key;
    }
    return warp_max(best);
  }

  __device__ __forceinline__ unsigned long long first_unlisted() const {
    unsigned long long best = 0;
    for (int v = lane; v < g.n && best == 0; v += 32)
      if (stamp[v] == 0) best = key_for(v);
    return warp_max(best);
  }

  const Graph& g;
  const long long limit;
  unsigned char* const side;
  int *const gain, *const stamp, *const list, *const moves;
  const int lane;
  long long total, weight_0, weight_1, cut;
  int listed;
};

// The coarser graphs of one node, by a thread block.
class Hierarchy {
 public:
  __device__ __forceinline__ Hierarchy(const Pools& slices, int patches, int entries, int most, unsigned long long key)
      : p_(slices), size(patches), edges(entries), heaviest(most), seed(key) {}

  // On entry p_ holds the rows of level 0. mate, prefer: scratch, one entry per patch.
  __device__ inline void build(Graph g, int coarsest, int handshakes, int* mate, int* prefer) {
    int level = 0, at = 0, used = 0;
    if (threadIdx.x == 0) p_.levels[1] = 0;
    while (g.n > coarsest && level + 1 < most_levels) {
      match(g, handshakes, mate, prefer);
      const int n = number_pairs(g, mate, p_.coarse + at), next = at + g.n;
      if (n > 0.93 * g.n || next + n > pool_factor * size) break;
      const int entries = reserve_rows(g, mate, p_.coarse + at, next, used);
      if (used + entries > pool_factor * edges) break;
      for (int v = threadIdx.x; v < g.n; v += blockDim.x)
        if (leads(mate, v)) merge(g, v, mate[v], p_.coarse + at, next);
      used += entries;
      at = next;
      ++level;
      g = {n, 0, p_.row_begin + at, p_.row_end + at, p_.adj, p_.weight, p_.vertex_weight + at};
      if (threadIdx.x == 0) p_.levels[level + 1] = at;
    }
    if (threadIdx.x == 0) {
      p_.levels[0] = level + 1;
      p_.levels[level + 2] = at + g.n;
    }
  }

 private:
  __device__ __forceinline__ static bool leads(const int* mate, int v) { return mate[v] < 0 || v < mate[v]; }

  // Heavy-edge matching by handshakes. Each vertex prefers the unmatched neighbor of largest w^2 / (product of vertex weights),
  // which is symmetric. Vertices that prefer each other become a pair.
  __device__ inline void match(const Graph& g, int handshakes, int* mate, int* prefer) const {
    for (int v = threadIdx.x; v < g.n; v += blockDim.x) mate[v] = -1;
    __syncthreads();
    for (int round = 0; round < handshakes; ++round) {
      for (int v = threadIdx.x; v < g.n; v += blockDim.x) prefer[v] = mate[v] < 0 ? preferred(g, v, mate) : -1;
      __syncthreads();
      for (int v = threadIdx.x; v < g.n; v += blockDim.x)
        if (prefer[v] >= 0 && prefer[prefer[v]] == v) mate[v] = prefer[v];
      __syncthreads();
    }
  }

  __device__ inline int preferred(const Graph& g, int v, const int* mate) const {
    int best = -1;
    unsigned long long best_key = 0;
    for (int p = g.row_begin[v]; p < g.row_end[v]; ++p) {
      const int u = g.adj[p] - g.base;
      if (mate[u] >= 0 || g.vertex_weight[u] + g.vertex_weight[v] > heaviest) continue;
      const float w = static_cast<float>(g.weight[p]);
      const float score = w * w / (static_cast<float>(g.vertex_weight[u]) * static_cast<float>(g.vertex_weight[v]));
      const unsigned draw = static_cast<unsigned>(hash_key(seed, min(u, v), max(u, v)));
      const unsigned long long key = static_cast<unsigned long long>(__float_as_int(score)) << 32 | draw;
      if (best >= 0 && key <= best_key) continue;
      best = u;
      best_key = key;
    }
    return best;
  }

  // coarse[v] = number of the pair of v. Returns the number of pairs; an unmatched vertex counts as one. A barrier must follow.
  __device__ inline int number_pairs(const Graph& g, const int* mate, int* coarse) const {
    int before = 0;
    for (int base = 0; base < g.n; base += blockDim.x) {
      const int v = base + threadIdx.x;
      const bool first = v < g.n && leads(mate, v);
      int total;
      const int number = before + block_exclusive_sum(first ? 1 : 0, total);
      if (first) coarse[v] = number;
      before += total;
    }
    __syncthreads();
    for (int v = threadIdx.x; v < g.n; v += blockDim.x)
      if (!leads(mate, v)) coarse[v] = coarse[mate[v]];
    return before;
  }

  // Reserves an upper bound for the row of each pair: the lengths of both rows. Returns the sum. Its scans make `coarse` visible to
  // all threads.
  __device__ inline int reserve_rows(const Graph& g, const int* mate, const int* coarse, int next, int used) const {
    int before = used;
    for (int base = 0; base < g.n; base += blockDim.x) {
      const int v = base + threadIdx.x;
      const bool first = v < g.n && leads(mate, v);
      int length = 0, total;
      if (first) length = g.row_end[v] - g.row_begin[v] + (mate[v] < 0 ? 0 : g.row_end[mate[v]] - g.row_begin[mate[v]]);
      const int begin = before + block_exclusive_sum(length, total);
      if (first) p_.row_begin[next + coarse[v]] = begin;
      before += total;
    }
    return before - used;
  }

  // Writes the row of the pair (v, u), or of v alone if u < 0. Entries with the same coarse column are summed.
  __device__ inline void merge(const Graph& g, int v, int u, const int* coarse, int next) const {
    const int own = coarse[v], begin = p_.row_begin[next + own];
    int end = begin;
    for (int half = 0; half < (u < 0 ? 1 : 2); ++half) {
      const int from = half == 0 ? v : u;
      for (int p = g.row_begin[from]; p < g.row_end[from]; ++p) {
        const int to = coarse[g.adj[p] - g.base];
        if (to == own) continue;
        int k = begin;
        while (k < end && p_.adj[k] != to) ++k;
        if (k == end) {
          p_.adj[end] = to;
          p_.weight[end++] = 0;
        }
        p_.weight[k] += g.weight[p];
      }
    }
    p_.row_end[next + own] = end;
    p_.vertex_weight[next + own] = g.vertex_weight[v] + (u < 0 ? 0 : g.vertex_weight[u]);
  }

  const Pools p_;
  const int size, edges, heaviest;
  const unsigned long long seed;
};

__device__ __forceinline__ Pools slices(const Pools& all, int node, int first, int first_entry) {
  const long long v = static_cast<long long>(pool_factor) * first, e = static_cast<long long>(pool_factor) * first_entry;
  return {all.row_begin + v, all.row_end + v, all.vertex_weight + v, all.coarse + v, all.adj + e, all.weight + e,
          all.levels + static_cast<long long>(level_row) * node};
}

// lower_bound for lists whose length exceeds an int.
__device__ __forceinline__ long long first_not_below(const long long* keys, long long count, long long key) {
  long long first = 0;
  while (count > 0) {
    const long long half = count / 2;
    const bool below = keys[first + half] < key;
    first += below ? half + 1 : 0;
    count = below ? count - half - 1 : half;
  }
  return first;
}

}  // namespace ms::order

using namespace ms;
using namespace ms::order;

// Rows of the quotient graph from sorted keys (row << 32 | column), one warp per row: the distinct columns, and the multiplicity
// of each as its weight. With `adj` null it only counts the columns: size[p + 1], size[0] = 0. Otherwise row p is written from
// ptr[p] on.
extern "C" __global__ void __launch_bounds__(256, 4)
k_rows(int count, long long entries, const long long* keys, int* size, const int* ptr, int* adj, int* weight) {
  const int lane = threadIdx.x & 31;
  if (!adj && grid_begin() == 0) size[0] = 0;
  for (long long w = grid_begin() >> 5; w < count; w += grid_step() >> 5) {
    const int p = static_cast<int>(w);
    const long long bound = first_not_below(keys, entries, pair_key(p + (lane & 1), 0));
    const long long begin = __shfl_sync(full_warp, bound, 0), end = __shfl_sync(full_warp, bound, 1);
    int found = 0;
    for (long long base = begin; base < end; base += 32) {
      const long long i = base + lane;
      const bool head = i < end && (i == begin || keys[i] != keys[i - 1]);
      const unsigned heads = __ballot_sync(full_warp, head);
      if (head && adj) {
        const int at = ptr[p] + found + __popc(heads & ((1u << lane) - 1));
        long long next = i + 1;
        while (next < end && keys[next] == keys[i]) ++next;
        adj[at] = static_cast<int>(keys[i]);
        weight[at] = static_cast<int>(next - i);
      }
      found += __popc(heads);
    }
    if (!adj && lane == 0) size[p + 1] = found;
  }
}

// One thread block per node: the coarser graphs of its hierarchy.
extern "C" __global__ void __launch_bounds__(512, 2)
k_coarsen(const int* node_ptr, const int* ptr, const int* adj, const int* weight, const int* vertex_weight, const int* heaviest,
          int coarsest, int handshakes, unsigned long long seed, int* mate, int* prefer, int* row_begin, int* row_end,
          int* pool_vertex_weight, int* coarse, int* pool_adj, int* pool_weight, int* levels) {
  const int k = blockIdx.x, first = node_ptr[k], n = node_ptr[k + 1] - first;
  const Pools p = slices({row_begin, row_end, pool_vertex_weight, coarse, pool_adj, pool_weight, levels}, k, first, ptr[first]);
  for (int v = threadIdx.x; v < n; v += blockDim.x) {
    p.row_begin[v] = ptr[first + v];
    p.row_end[v] = ptr[first + v + 1];
    p.vertex_weight[v] = vertex_weight[first + v];
  }
  Hierarchy h(p, n, ptr[first + n] - ptr[first], heaviest[k], hash_key(seed, k));
  h.build({n, first, p.row_begin, p.row_end, adj, weight, p.vertex_weight}, coarsest, handshakes, mate + first, prefer + first);
}

// One thread block of one warp per node and trial. side: one vertex pool per trial; scratch: 4 entries per patch and trial.
extern "C" __global__ void __launch_bounds__(32, 16)
k_bisect(int trials, int count, const int* node_ptr, const int* ptr, const int* adj, const int* weight, const int* limit,
         int passes, unsigned long long seed, int* row_begin, int* row_end, int* pool_vertex_weight, int* coarse, int* pool_adj,
         int* pool_weight, int* levels, unsigned char* side, int* scratch, int* cut, int* larger) {
  if (threadIdx.x >= 32) return;
  const int k = blockIdx.x / trials, trial = blockIdx.x % trials, first = node_ptr[k];
  const Pools p = slices({row_begin, row_end, pool_vertex_weight, coarse, pool_adj, pool_weight, levels}, k, first, ptr[first]);
  unsigned char* const sides = side + pool_factor * (static_cast<long long>(trial) * count + first);
  State found{};
  for (int top = p.levels[0] - 1, level = top; level >= 0; --level) {
    const int at = p.levels[level + 1], next = p.levels[level + 2], n = next - at;
    const Graph g{n, level == 0 ? first : 0, p.row_begin + at, p.row_end + at, level == 0 ? adj : p.adj,
                  level == 0 ? weight : p.weight, p.vertex_weight + at};
    Bisection b(g, limit[k], sides + at, scratch + 4ll * trial * count + first, count);
    if (level == top) {
      b.grow(static_cast<int>(Stream(hash_key(seed, k, trial)).below(n)));
    } else {
      for (int v = threadIdx.x; v < n; v += 32) sides[at + v] = sides[next + p.coarse[at + v]];
      __syncwarp();
    }
    found = b.refine(passes);
  }
  if (threadIdx.x > 0) return;
  cut[blockIdx.x] = static_cast<int>(found.cut);
  larger[blockIdx.x] = static_cast<int>(found.larger);
}

// patch_side = sides of the best trial of each node, by the score of separator.cpp. node = node of each patch.
extern "C" __global__ void __launch_bounds__(128)
k_choose(int trials, int count, const int* node_ptr, const int* node_weight, const int* cut, const int* larger,
         const unsigned char* side, int* patch_side, int* node) {
  const int k = blockIdx.x, first = node_ptr[k];
  int best = 0;
  double best_score = 0;
  for (int t = 0; t < trials; ++t) {
    const double score = separator_score(cut[k * trials + t], larger[k * trials + t], node_weight[k]);
    if (t > 0 && score >= best_score) continue;
    best = t;
    best_score = score;
  }
  const unsigned char* const sides = side + pool_factor * (static_cast<long long>(best) * count + first);
  for (int v = threadIdx.x; v < node_ptr[k + 1] - first; v += blockDim.x) {
    patch_side[first + v] = sides[v];
    node[first + v] = k;
  }
}
