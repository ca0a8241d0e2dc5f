// Bisection of the quotient graph of a tree node on the GPU. CPU counterpart: coarsen.cpp.
//
// A thread block computes the coarser graphs: heavy-edge matching by handshakes; one thread merges the rows of a pair. Then a warp,
// or a thread block for the large graphs of the upper levels, grows a side in the coarsest graph. It refines the side on each level
// by Fiduccia-Mattheyses passes. The best move is found by a scan of all candidates. The best of several trials is chosen on the
// finest level.
//
// The levels lie in the slices of the node, one after the other, the finest first. Vertices of a level are numbered from 0.
#pragma once
#include "order/dissect.cuh"

namespace ms::order {

constexpr int most_levels = 30, level_row = most_levels + 2;
constexpr int coarsest = 50;                                // number of patches at which coarsening ends
constexpr int handshakes = 4;                               // rounds per matching
constexpr int passes = 4;                                   // Fiduccia-Mattheyses passes per level

struct Graph {                                              // one level
  int n;
  const int *row_begin, *row_end, *adj, *weight, *vertex_weight;
};

struct Pools {
  int *row_begin, *row_end, *vertex_weight, *coarse;        // per vertex
  int *adj, *weight;                                        // per entry of a row
  int* levels;                                              // level_row numbers: number of levels, first vertex of each level, end
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

// Bisection of a graph by one warp or thread block. All its threads must call every function.
template <class Team> class Bisection {
 public:
  __device__ __forceinline__ Bisection(const Graph& graph, long long most, unsigned char* sides, int* scratch, long long stride)
      : g(graph), limit(most), side(sides), gain(scratch), stamp(scratch + stride), list(scratch + 2 * stride),
        moves(scratch + 3 * stride), rank(Team::rank()), threads(Team::threads()) {
    long long sum = 0;
    for (int v = rank; v < g.n; v += threads) sum += g.vertex_weight[v];
    total = Team::sum(sum);
  }

  // Greedy graph growing: side 0 grows from `start` to half of the weight, each time by the vertex of largest gain.
  __device__ __forceinline__ void grow(int start) {
    for (int v = rank; v < g.n; v += threads) side[v] = 1;
    Team::sync();
    measure();
    for (int v = rank; v < g.n; v += threads) stamp[v] = 0;
    listed = 0;
    int v = start;
    for (int step = 2; weight_0 < total / 2; ++step) {
      const int own = g.vertex_weight[v];
      const bool fits = weight_0 == 0 || weight_0 + own <= limit;
      Team::sync();
      if (rank == 0) stamp[v] = moved;
      Team::sync();
      if (fits) move(v, 1, step);
      const unsigned long long key = best_of_list([](int) { return true; });
      v = key == 0 ? first_unlisted() : vertex_of(key);
      if (v == g.n) break;
    }
    Team::sync();
  }

  // Fiduccia-Mattheyses passes: moves by gain, also negative ones; each pass then undoes the moves after its best state.
  __device__ __forceinline__ State refine() {
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
        Team::sync();
        if (rank == 0) {
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
      for (int k = kept + rank; k < made; k += threads) side[moves[k]] ^= 1;
      Team::sync();
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
    for (int base = 0; base < g.n; base += threads) {
      const int v = base + rank;
      bool enters = false;
      if (v < g.n) {
        int across = 0, inside = 0;
        const int own = side[v];
        for (int p = g.row_begin[v]; p < g.row_end[v]; ++p) (side[g.adj[p]] != own ? across : inside) += g.weight[p];
        gain[v] = across - inside;
        sum += g.vertex_weight[v];
        if (own == 0) sum_0 += g.vertex_weight[v];
        crossing += across;
        enters = across > 0 || g.n < 64;
        stamp[v] = enters ? 1 : 0;
      }
      append(v, enters);
    }
    weight_0 = Team::sum(sum_0);
    weight_1 = Team::sum(sum) - weight_0;
    cut = Team::sum(crossing) / 2;
    Team::sync();
  }

  __device__ __forceinline__ void append(int v, bool enters) {
    int total;
    const int before = Team::count_before(enters, total);
    if (enters) list[listed + before] = v;
    listed += total;
  }

  // Moves v from side `from` to the other one. Updates the gains of its neighbors and adds them to the list.
  __device__ __forceinline__ void move(int v, int from, int step) {
    const int own = g.vertex_weight[v], to = 1 - from;
    cut -= gain[v];
    weight_0 += from == 0 ? -own : own;
    weight_1 += from == 0 ? own : -own;
    if (rank == 0) side[v] = static_cast<unsigned char>(to);
    const int end = g.row_end[v];
    for (int base = g.row_begin[v]; base < end; base += threads) {
      const int p = base + rank;
      int u = -1;
      bool enters = false;
      if (p < end && stamp[g.adj[p]] != moved) {
        u = g.adj[p];
        gain[u] += side[u] == to ? -2 * g.weight[p] : 2 * g.weight[p];
        enters = stamp[u] == 0;
        stamp[u] = step;
      }
      append(u, enters);
    }
    Team::sync();
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
    for (int k = rank; k < listed; k += threads) {
      const int v = list[k];
      if (stamp[v] == moved || !may(v)) continue;
      const unsigned long long key = key_for(v);
      if (key > best) best = key;
    }
    return Team::largest(best);
  }

  // The first vertex that is not in the list, or g.n.
  __device__ __forceinline__ int first_unlisted() const {
    int v = rank;
    while (v < g.n && stamp[v] != 0) v += threads;
    return g.n - static_cast<int>(Team::largest(static_cast<unsigned long long>(max(g.n - v, 0))));
  }

  const Graph& g;
  const long long limit;
  unsigned char* const side;
  int *const gain, *const stamp, *const list, *const moves;
  const int rank, threads;
  long long total, weight_0, weight_1, cut;
  int listed;
};

// The coarser graphs of one node, by a thread block.
class Hierarchy {
 public:
  __device__ __forceinline__ Hierarchy(const Pools& slices, int patches, long long edges, int most, unsigned long long key)
      : p_(slices), size(patches), capacity(edges), heaviest(most), seed(key) {}

  // On entry the pools hold level 0, which uses `used` edges. mate, prefer: scratch, one entry per patch.
  __device__ inline void build(Graph g, int used, int* mate, int* prefer) {
    int level = 0, at = 0;
    if (threadIdx.x == 0) p_.levels[1] = 0;
    while (g.n > coarsest && level + 1 < most_levels) {
      match(g, mate, prefer);
      const int n = number_pairs(g, mate, p_.coarse + at), next = at + g.n;
      if (n > 0.93 * g.n || next + n > pool_factor * size) break;
      const int entries = reserve_rows(g, mate, p_.coarse + at, next, used);
      if (static_cast<long long>(used) + entries > capacity) break;
      for (int v = threadIdx.x; v < g.n; v += blockDim.x)
        if (leads(mate, v)) merge(g, v, mate[v], p_.coarse + at, next);
      used += entries;
      at = next;
      ++level;
      g = {n, p_.row_begin + at, p_.row_end + at, p_.adj, p_.weight, p_.vertex_weight + at};
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
  __device__ inline void match(const Graph& g, int* mate, int* prefer) const {
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
      const int u = g.adj[p];
      if (mate[u] >= 0 || g.vertex_weight[u] + g.vertex_weight[v] > heaviest) continue;
      const float w = static_cast<float>(g.weight[p]);
      const float score = w * w / (static_cast<float>(g.vertex_weight[u]) * static_cast<float>(g.vertex_weight[v]));
      const unsigned draw = static_cast<unsigned>(hash_key(seed, min(u, v), max(u, v)));
      const unsigned long long key = static_cast<unsigned long long>(__float_as_int(score)) << 32 | draw;
      if (best >= 0 && (key < best_key || (key == best_key && u > best))) continue;        // rows come in any order
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
        const int to = coarse[g.adj[p]];
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
  const int size;
  const long long capacity;
  const int heaviest;
  const unsigned long long seed;
};

// Sides of the vertices of all graphs of a trial.
__device__ __forceinline__ unsigned char* sides_of(const Dissection& d, const Node& x, int trial) {
  return reinterpret_cast<unsigned char*>(d.trial(trial) + 4ll * d.patches) + static_cast<long long>(pool_factor) * x.first_patch;
}

__device__ __forceinline__ Pools pools_of(const Dissection& d, const Node& x, int* levels) {
  const long long v = static_cast<long long>(pool_factor) * x.first_patch;
  return {d.row_begin() + v, d.row_end() + v, d.pool_weight() + v, d.coarse() + v, d.adj + x.first_edge, d.edge_weight + x.first_edge,
          levels};
}

// The coarser graphs of a node, by the thread block. A barrier must follow.
__device__ inline void coarsen(const Dissection& d, const Node& x, int* levels) {
  const Pools p = pools_of(d, x, levels);
  const int first = x.first_patch, patches = x.last_patch - first;
  Hierarchy h(p, patches, x.edges, max(1, x.weight / 20), x.key);
  h.build({patches, p.row_begin, p.row_end, p.adj, p.weight, p.vertex_weight}, x.entries, d.mate() + first, d.prefer() + first);
}

// One trial, from the coarsest graph to the finest. Returns the score of the cut.
template <class Team> __device__ __forceinline__ double bisect_once(const Dissection& d, const Node& x, int* levels, int trial) {
  const Pools p = pools_of(d, x, levels);
  const long long limit = static_cast<long long>(x.weight * 0.5 * (1 + d.balance)) + 1;
  unsigned char* const sides = sides_of(d, x, trial);
  State found{};
  for (int top = levels[0] - 1, level = top; level >= 0; --level) {
    const int at = levels[level + 1], next = levels[level + 2], n = next - at;
    const Graph g{n, p.row_begin + at, p.row_end + at, p.adj, p.weight, p.vertex_weight + at};
    Bisection<Team> b(g, limit, sides + at, d.trial(trial) + x.first_patch, d.patches);
    if (level == top) {
      b.grow(static_cast<int>(Stream(hash_key(x.key, trial)).below(n)));
    } else {
      for (int v = Team::rank(); v < n; v += Team::threads()) sides[at + v] = sides[next + p.coarse[at + v]];
      Team::sync();
    }
    found = b.refine();
  }
  return separator_score(static_cast<int>(found.cut), static_cast<int>(found.larger), x.weight);
}

struct Best {
  double score = 0;
  int trial = none;
  __device__ __forceinline__ void compare(double other_score, int other) {
    if (trial >= 0 && (other_score > score || (other_score == score && other > trial))) return;
    score = other_score;
    trial = other;
  }
};

// All trials by the warps of the thread block. Returns the best one.
__device__ __forceinline__ int best_trial(const Dissection& d, const Node& x, int* levels) {
  __shared__ double scores[32];                             // of the best trial of each warp
  __shared__ int trials[32];
  const int warp = threadIdx.x >> 5, warps = min(static_cast<int>(blockDim.x >> 5), d.trials);
  Best best;
  for (int trial = warp; trial < d.trials; trial += warps) best.compare(bisect_once<Warp>(d, x, levels, trial), trial);
  if ((threadIdx.x & 31) == 0) {
    scores[warp] = best.score;
    trials[warp] = best.trial;
  }
  __syncthreads();
  for (int w = 0; w < warps; ++w) best.compare(scores[w], trials[w]);
  return best.trial;
}

// Sides of the patches by the chosen trial, and the weight of side 0, by the thread block.
__device__ inline void choose(const Dissection& d, Node* node, int trial) {
  const int first = node->first_patch;
  const unsigned char* const sides = sides_of(d, *node, trial);
  int weight_0 = 0;
  for (int p = first + threadIdx.x; p < node->last_patch; p += blockDim.x) {
    d.patch_side()[p] = sides[p - first];
    if (sides[p - first] == 0) weight_0 += d.weight()[p];
  }
  weight_0 = Block::sum(weight_0);
  if (threadIdx.x == 0) node->weight_0 = weight_0;
}

// Bisects a node by the thread block.
__device__ inline void bisect(const Dissection& d, Node* node) {
  __shared__ int levels[level_row];
  coarsen(d, *node, levels);
  __syncthreads();
  choose(d, node, best_trial(d, *node, levels));
}

}  // namespace ms::order
