// Minimum vertex separators of all nodes of a tree level on the GPU, one block a node. Twin of separator.cpp and mincut.cpp.
//
// A band of a few layers around the cut between patches holds a maximum flow of unit vertex capacities; the band is laid anew
// around the separator until nothing is gained. The flow: forests grow breadth-first from all free sources through the
// residual graph, a node belongs to the tree that claims it first, a tree that meets a sink gives one augmenting path, and
// these paths share no node (Azad, Buluc, Pothen 2017, "Computing maximum cardinality matchings in parallel on bipartite
// graphs via tree-grafting", for matchings). Which flow is found depends on the order of threads, the minimum cuts nearest to
// the sources and to the sinks do not: they are the same for every maximum flow.
// Vertices are split: node 2v is v's entry, 2v + 1 its exit. Arrays are indexed by vertex or by split node; lists of a block
// are the slice that belongs to its node. Cost of a round: waves times the latency of memory, about 20 forests of 20-50 waves.
#include "device/common.cuh"
#include "order/order.cuh"

namespace ms::order {

constexpr int none = -1, ended = -2;                        // in came, goes: no flow; flow begins or ends here
constexpr int waiting = -2;                                 // in layer: a vertex that has no patch of its side yet
constexpr int is_source = 1, is_sink = 2;

struct Vertices {                                           // one entry a vertex, two a split node
  int *patch, *side, *layer, *touched, *anchor, *came, *goes, *end;
  int *parent, *root;
};

struct Lists {                                              // of one node: slices of these, one entry or two a vertex
  int *band, *touched, *now, *next;
};

// What a block counts together.
enum Tally {
  band_size, in_band_0, in_band_1, anchored, touched_size, next_size, found, kept, near_0, near_1, far_0, far_1, tallies
};

class Separator {
 public:
  __device__ __forceinline__ Separator(int* shared, const long long* rows, const int* columns, const int* sides,
                                       const Vertices& vertices, const Lists& lists, int seeds, int weight_0, int weight_1)
      : tally(shared), ptr(rows), idx(columns), patch_side(sides), v_(vertices), l_(lists), size(weight_0 + weight_1 + 1),
        side_0(weight_0), side_1(weight_1) {
    if (threadIdx.x < tallies) tally[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x == 0) tally[band_size] = seeds;
    for (int i = threadIdx.x; i < seeds; i += blockDim.x) {
      const int v = l_.band[i];
      v_.layer[v] = 0;
      if (v_.side[v] < 2) atomicAdd(tally + in_band_0 + v_.side[v], 1);
    }
    __syncthreads();
  }

  // Rounds of band, flow and cut. The sides of the vertices that were looked at are then in v_.side; 2 = separator.
  __device__ inline void improve(int rounds, int layers, int limit) {
    if (tally[band_size] == 0) size = 0;                    // components apart
    for (int round = 0; size > 0 && round < rounds; ++round) {
      lay_band(layers, limit);
      if (!find_anchors()) break;
      const int flow = max_flow();
      if (flow >= size || !cut(flow)) break;
      seed_band();
    }
  }

  // Every vertex on another side than its patch leaves it: for the separator, or for a patch of the new side next to it.
  __device__ inline void hand_over(int first_patch, int last_patch, int top, int* slot) {
    const int touched = tally[touched_size];
    for (int i = threadIdx.x; i < touched; i += blockDim.x) {
      const int v = l_.touched[i], side = v_.side[v];
      const bool moves = side != patch_side[v_.patch[v]];
      v_.layer[v] = moves && side < 2 ? waiting : none;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < touched; i += blockDim.x) {
      const int v = l_.touched[i];
      if (v_.side[v] < 2) continue;
      v_.patch[v] = none;
      slot[v] = top;
    }
    __syncthreads();
    for (int wave = 0; join(touched, wave) > 0; ++wave) {
    }
    for (int i = threadIdx.x; i < touched; i += blockDim.x) {       // what has no such neighbour at all: any patch
      const int v = l_.touched[i];
      if (v_.layer[v] != waiting) continue;
      int p = first_patch;
      while (p + 1 < last_patch && patch_side[p] != v_.side[v]) ++p;
      v_.patch[v] = p;
    }
  }

 private:
  // Breadth-first from the seeds, each side by itself, until `layers` deep or beyond `limit` vertices.
  __device__ inline void lay_band(int layers, int limit) {
    int begin = 0, end = tally[band_size];
    for (int layer = 1; layer < layers && begin < end; ++layer) {
      const bool full_0 = tally[in_band_0] >= limit, full_1 = tally[in_band_1] >= limit;
      const auto full = [&](int side) { return side == 0 ? full_0 : full_1; };
      __syncthreads();
      for (int i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const int v = l_.band[i], mine = v_.side[v];
        if (mine < 2 && full(mine)) continue;
        for (long long k = ptr[v]; k < ptr[v + 1]; ++k) {
          const int u = idx[k];
          if (v_.patch[u] < 0 || peek(v_.layer + u) >= 0) continue;
          const int other = v_.side[u];
          if (other == 2 || (mine < 2 && other != mine) || full(other)) continue;
          if (atomicCAS(v_.layer + u, none, layer) != none) continue;
          l_.band[atomicAdd(tally + band_size, 1)] = u;
          atomicAdd(tally + in_band_0 + other, 1);
        }
      }
      __syncthreads();
      begin = end;
      end = tally[band_size];
    }
    band = end;
    __syncthreads();
  }

  // Anchors are the vertices with a neighbour beyond the band; of a side that the band has swallowed, its deepest layer.
  __device__ inline bool find_anchors() {
    if (threadIdx.x == 0) tally[anchored] = 0;
    __syncthreads();
    int deepest_0 = -1, deepest_1 = -1;
    for (int i = threadIdx.x; i < band; i += blockDim.x) {
      const int v = l_.band[i], side = v_.side[v];
      int anchor = 0;
      for (long long k = ptr[v]; k < ptr[v + 1]; ++k)
        if (v_.patch[idx[k]] >= 0 && v_.layer[idx[k]] < 0) anchor |= v_.side[idx[k]] == 0 ? is_source : is_sink;
      v_.anchor[v] = anchor;
      v_.came[v] = v_.goes[v] = none;
      if (anchor) atomicOr(tally + anchored, anchor);
      if (side == 0) deepest_0 = max(deepest_0, v_.layer[v]);
      if (side == 1) deepest_1 = max(deepest_1, v_.layer[v]);
      if (v_.touched[v]) continue;
      v_.touched[v] = 1;
      l_.touched[atomicAdd(tally + touched_size, 1)] = v;
    }
    __syncthreads();
    const int found_anchors = tally[anchored];
    for (int side = 0; side < 2; ++side) {
      if (found_anchors >> side & 1) continue;
      const int layer = block_max(side == 0 ? deepest_0 : deepest_1);
      if (layer < 0) return false;
      for (int i = threadIdx.x; i < band; i += blockDim.x) {
        const int v = l_.band[i];
        if (v_.side[v] == side && v_.layer[v] == layer) v_.anchor[v] |= 1 << side;
      }
    }
    __syncthreads();
    return true;
  }

  // Layer after layer: a step from each node of the last one, which claims those of the next.
  template <class Step> __device__ __forceinline__ void search(Step step_from) {
    for (int count = tally[next_size]; count > 0;) {
      int* const swapped = l_.now;
      l_.now = l_.next;
      l_.next = swapped;
      __syncthreads();
      if (threadIdx.x == 0) tally[next_size] = 0;
      __syncthreads();
      for (int i = threadIdx.x; i < count; i += blockDim.x) step_from(l_.now[i]);
      __syncthreads();
      count = tally[next_size];
    }
  }

  // ---- flow

  // Maximum flow, or some flow that is no smaller than the separator known. The last forest marks what the sources reach.
  __device__ inline int max_flow() {
    for (int flow = 0;;) {
      plant();
      search([&](int node) { step(node); });
      const int paths = augment();
      flow += paths;
      if (paths == 0 || flow >= size) return flow;
    }
  }

  // Roots of the forest: sources where no flow begins.
  __device__ inline void plant() {
    if (threadIdx.x == 0) tally[next_size] = tally[found] = 0;
    for (int i = threadIdx.x; i < band; i += blockDim.x) {
      const int v = l_.band[i];
      v_.parent[2 * v] = v_.parent[2 * v + 1] = none;
      v_.end[v] = none;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < band; i += blockDim.x) {
      const int v = l_.band[i];
      if ((v_.anchor[v] & is_source) && v_.came[v] != ended) claim(2 * v, 2 * v, v);
    }
    __syncthreads();
  }

  __device__ __forceinline__ void claim(int node, int from, int tree) {
    if (peek(v_.parent + node) != none || atomicCAS(v_.parent + node, none, from) != none) return;
    v_.root[node] = tree;
    l_.next[atomicAdd(tally + next_size, 1)] = node;
  }

  // The tree of a node grows through it. Entry: through the vertex if it is free, else back along its flow. Exit: to any
  // neighbour, and back into the vertex.
  __device__ __forceinline__ void step(int node) {
    const int v = node >> 1, tree = v_.root[node], came = v_.came[v];
    if (peek(v_.end + tree) != none) return;
    if (!(node & 1)) {
      if (came == none) claim(2 * v + 1, node, tree);
      else if (came != ended) claim(2 * came + 1, node, tree);
      return;
    }
    if (v_.anchor[v] & is_sink) {
      if (atomicCAS(v_.end + tree, none, node) == none) atomicAdd(tally + found, 1);
      return;
    }
    for (long long k = ptr[v]; k < ptr[v + 1]; ++k)
      if (in_band(idx[k])) claim(2 * idx[k], node, tree);
    if (came != none) claim(2 * v, node, tree);
  }

  // Sends flow along the path of every tree that met a sink. Returns how many there were.
  __device__ inline int augment() {
    const int paths = tally[found];
    for (int i = threadIdx.x; paths > 0 && i < band; i += blockDim.x) {
      const int root = l_.band[i];
      int node = v_.end[root];
      if (node < 0) continue;
      v_.goes[node >> 1] = ended;
      for (int before = v_.parent[node]; node != 2 * root; node = before, before = v_.parent[node]) {
        if (!(before & 1)) continue;                        // through a vertex, or back: the next step sets what changes
        const int a = before >> 1, b = node >> 1;
        if (a == b) {
          v_.came[a] = v_.goes[a] = none;
        } else {
          v_.goes[a] = b;
          v_.came[b] = a;
        }
      }
      v_.came[root] = ended;
    }
    __syncthreads();
    return paths;
  }

  // ---- cut

  // The minimum cut next to the sources or the one next to the sinks, which leaves the parts more even. False: none is better
  // than the separator known, since the parts are less even.
  __device__ inline bool cut(int flow) {
    if (threadIdx.x == 0) tally[near_0] = tally[near_1] = tally[far_0] = tally[far_1] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < band; i += blockDim.x) {
      const int v = l_.band[i];
      const bool entered = v_.parent[2 * v] != none || (v_.anchor[v] & is_source), left = v_.parent[2 * v + 1] != none;
      count_side(near_0, v_.end[v] = left ? 0 : entered ? 2 : 1);
    }
    __syncthreads();
    search_from_sinks();
    for (int i = threadIdx.x; i < band; i += blockDim.x) count_side(far_0, far_side(l_.band[i]));
    __syncthreads();
    const int near_side_0 = side_0 - tally[in_band_0] + tally[near_0], near_side_1 = side_1 - tally[in_band_1] + tally[near_1];
    const int far_side_0 = side_0 - tally[in_band_0] + tally[far_0], far_side_1 = side_1 - tally[in_band_1] + tally[far_1];
    const bool take_far = min(far_side_0, far_side_1) > min(near_side_0, near_side_1);
    const int new_0 = take_far ? far_side_0 : near_side_0, new_1 = take_far ? far_side_1 : near_side_1;
    const int weight = flow + new_0 + new_1;
    const double score = separator_score(flow, max(new_0, new_1), weight);
    if (size <= weight && score >= separator_score(size, max(side_0, side_1), weight)) return false;
    size = flow;
    side_0 = new_0;
    side_1 = new_1;
    for (int i = threadIdx.x; i < band; i += blockDim.x) {
      const int v = l_.band[i];
      v_.side[v] = take_far ? far_side(v) : v_.end[v];
    }
    __syncthreads();
    return true;
  }

  __device__ __forceinline__ void count_side(int first, int side) {
    if (side < 2) atomicAdd(tally + first + side, 1);
  }

  __device__ __forceinline__ int far_side(int v) const {
    return v_.parent[2 * v] != none ? 1 : v_.parent[2 * v + 1] != none ? 2 : 0;
  }

  // Marks what reaches the sinks in the residual graph, searched backwards.
  __device__ inline void search_from_sinks() {
    if (threadIdx.x == 0) tally[next_size] = 0;
    for (int i = threadIdx.x; i < band; i += blockDim.x) v_.parent[2 * l_.band[i]] = v_.parent[2 * l_.band[i] + 1] = none;
    __syncthreads();
    for (int i = threadIdx.x; i < band; i += blockDim.x)
      if (v_.anchor[l_.band[i]] & is_sink) claim(2 * l_.band[i] + 1, 0, 0);
    __syncthreads();
    search([&](int node) { step_back(node); });
  }

  __device__ __forceinline__ void step_back(int node) {
    const int v = node >> 1;
    const bool used = v_.came[v] != none;
    if (node & 1) {
      if (!used) claim(2 * v, 0, 0);
      else if (v_.goes[v] >= 0) claim(2 * v_.goes[v], 0, 0);
      return;
    }
    for (long long k = ptr[v]; k < ptr[v + 1]; ++k)
      if (in_band(idx[k])) claim(2 * idx[k] + 1, 0, 0);
    if (used) claim(2 * v + 1, 0, 0);
  }

  // Neighbours of a band vertex outside the node lie in separators, which have no layer.
  __device__ __forceinline__ bool in_band(int v) const { return v_.layer[v] >= 0; }

  // The separator is the band's first layer of the next round.
  __device__ inline void seed_band() {
    if (threadIdx.x == 0) tally[kept] = tally[in_band_0] = tally[in_band_1] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < band; i += blockDim.x) {
      const int v = l_.band[i];
      v_.layer[v] = v_.side[v] == 2 ? 0 : none;
      if (v_.side[v] == 2) l_.now[atomicAdd(tally + kept, 1)] = v;
    }
    __syncthreads();
    const int seeds = tally[kept];
    for (int i = threadIdx.x; i < seeds; i += blockDim.x) l_.band[i] = l_.now[i];
    if (threadIdx.x == 0) tally[band_size] = seeds;
    __syncthreads();
  }

  // Waiting vertices join a patch of their side that a neighbour was in before this wave. Returns how many did.
  __device__ inline int join(int touched, int wave) {
    if (threadIdx.x == 0) tally[found] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < touched; i += blockDim.x) {
      const int v = l_.touched[i], side = v_.side[v];
      if (v_.layer[v] != waiting) continue;
      const int p = most_frequent(idx + ptr[v], static_cast<int>(ptr[v + 1] - ptr[v]), v, [&](int u) {
        const int layer = peek(v_.layer + u);
        return layer == waiting || layer >= wave || v_.side[u] != side ? none : v_.patch[u];
      });
      if (p < 0) continue;
      v_.patch[v] = p;
      *static_cast<volatile int*>(v_.layer + v) = wave;
      atomicAdd(tally + found, 1);
    }
    __syncthreads();
    const int joined = tally[found];
    __syncthreads();
    return joined;
  }

  int* const tally;
  const long long* const ptr;
  const int *const idx, *const patch_side;
  const Vertices v_;
  Lists l_;
  int band = 0;

 public:
  int size, side_0, side_1;                                 // of the best separator; size beyond the node's weight: none yet
};

}  // namespace ms::order

using namespace ms;
using namespace ms::order;

// Sides of the vertices before the search, and the vertices at the cut, listed in the slice of their node.
extern "C" __global__ void __launch_bounds__(256)
k_boundary(int n, const long long* ptr, const int* idx, const int* patch, const int* patch_side, const int* node,
           const int* begin, int* side, int* layer, int* touched, int* band, int* seeds, int* weight_0) {
  for (long long i = grid_begin(); i < n; i += grid_step()) {
    const int v = static_cast<int>(i), p = patch[v];
    if (p < 0) continue;
    const int k = node[p], mine = patch_side[p];
    side[v] = mine;
    layer[v] = none;
    touched[v] = 0;
    if (mine == 0) atomicAdd(weight_0 + k, 1);
    for (long long e = ptr[v]; e < ptr[v + 1]; ++e) {
      const int other = patch[idx[e]];
      if (other < 0 || patch_side[other] == mine) continue;
      band[begin[k] + atomicAdd(seeds + k, 1)] = v;
      break;
    }
  }
}

// Block = node. found: 4 numbers a node: whether it is split, separator, sides. Lists of two entries a vertex: now, next.
extern "C" __global__ void __launch_bounds__(512, 2)
k_separate(const long long* ptr, const int* idx, const int* patch_side, const int* node_ptr, const int* begin,
           const int* node_weight, const int* rounds, const int* layers, const int* seeds, const int* weight_0, int* patch,
           int* side, int* layer, int* touched, int* anchor, int* came, int* goes, int* end, int* parent, int* root, int* band,
           int* touched_list, int* now, int* next, int* slot, int* found) {
  __shared__ int tally[tallies];
  const int k = blockIdx.x, weight = node_weight[k], at = begin[k];
  const Vertices vertices{patch, side, layer, touched, anchor, came, goes, end, parent, root};
  const Lists lists{band + at, touched_list + at, now + 2ll * at, next + 2ll * at};
  Separator s(tally, ptr, idx, patch_side, vertices, lists, seeds[k], weight_0[k], weight - weight_0[k]);
  if (seeds[k] < 0.6 * weight) s.improve(rounds[k], layers[k], max(1, static_cast<int>(0.12 * weight)));
  const bool good = s.size <= 0.3 * weight && max(s.side_0, s.side_1) < weight;
  if (good) s.hand_over(node_ptr[k], node_ptr[k + 1], at + s.side_0 + s.side_1, slot);
  if (threadIdx.x > 0) return;
  found[4 * k] = good;
  found[4 * k + 1] = s.size;
  found[4 * k + 2] = s.side_0;
  found[4 * k + 3] = s.side_1;
}
