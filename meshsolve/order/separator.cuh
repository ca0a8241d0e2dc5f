// Minimum vertex separator of a tree node on the GPU, by one thread block, and the two sides as new nodes. CPU counterpart:
// separator.cpp.
//
// Each round computes a maximum flow with unit vertex capacities (mincut.cuh) in a band of a few layers around the separator. The
// next band surrounds the new separator, until a round gains nothing.
// Cost of a round: the waves of the flow.
#pragma once
#include "order/dissect.cuh"
#include "order/mincut.cuh"

namespace ms::order {

constexpr int unassigned = -2;                              // layer of a vertex that has no patch of its new side yet

struct Vertices {                                           // one entry per vertex
  int *patch, *side, *layer, *touched;
  int* position;                                            // index in the band
  int *patch_weight, *patch_degree;                         // one entry per patch
};

struct Lists {                                              // slices of one node, one entry per vertex
  int *band, *touched, *other;
};

struct Memory {
  char *shared, *scratch;
  int shared_bytes;
};

// Counters that a thread block shares.
enum Counter {
  band_size, in_band_0, in_band_1, anchored, touched_size, num_unassigned, joined, near_0, near_1, far_0, far_1, num_counters
};

class Separator {
 public:
  __device__ __forceinline__ Separator(int* shared, Waves* flow_waves, const Memory& memory, const long long* rows,
                                       const int* columns, const int* sides, const Vertices& vertices, const Lists& lists,
                                       int seeds, int weight_0, int weight_1)
      : counters(shared), waves(flow_waves), m_(memory), ptr(rows), idx(columns), patch_side(sides), v_(vertices), l_(lists),
        size(weight_0 + weight_1 + 1), side_0(weight_0), side_1(weight_1) {
    if (threadIdx.x < num_counters) counters[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x == 0) counters[band_size] = seeds;
    for (int i = threadIdx.x; i < seeds; i += blockDim.x) {
      const int v = l_.band[i];
      v_.layer[v] = 0;
      v_.position[v] = i;
      if (v_.side[v] < 2) atomicAdd(counters + in_band_0 + v_.side[v], 1);
    }
    __syncthreads();
  }

  // Rounds of band, flow and cut. On return v_.side holds the sides of the vertices of all bands; 2 = separator.
  __device__ inline void improve(int rounds, int layers, int limit) {
    if (counters[band_size] == 0) size = 0;                    // the sides are not connected
    for (int round = 0; size > 0 && round < rounds; ++round) {
      grow_band(layers, limit);
      const bool fits = MinCut<unsigned short>::fits(band, m_.shared_bytes);
      if (!(fits ? cut_band<unsigned short>(m_.shared, m_.shared_bytes) : cut_band<unsigned>(m_.scratch, 0))) break;
      restart_band();
    }
  }

  // Vertices that are not on the side of their patch leave it, for the separator or for an adjacent patch of their side.
  __device__ inline void reassign(int first_patch, int last_patch, int top, int* slot) {
    const int touched = counters[touched_size];
    for (int i = threadIdx.x; i < touched; i += blockDim.x) {
      const int v = l_.touched[i], side = v_.side[v];
      const bool moves = side < 2 && side != patch_side[v_.patch[v]];
      v_.layer[v] = moves ? unassigned : none;
      if (moves) l_.other[atomicAdd(counters + num_unassigned, 1)] = v;
      if (side < 2) continue;
      leave(v);
      v_.patch[v] = none;
      slot[v] = top;
    }
    __syncthreads();
    const int count = counters[num_unassigned];
    for (int wave = 0; join(count, wave) > 0; ++wave) {
    }
    for (int i = threadIdx.x; i < count; i += blockDim.x) {         // no adjacent patch on this side: any patch of the side
      const int v = l_.other[i];
      if (v_.layer[v] != unassigned) continue;
      int p = first_patch;
      while (p + 1 < last_patch && patch_side[p] != v_.side[v]) ++p;
      move(v, p);
    }
    __syncthreads();
  }

 private:
  // use(k, look(u)) for each entry u of the row of v. The loads of four entries are in flight at once.
  template <class Look, class Use> __device__ __forceinline__ void for_row(int v, Look look, Use use) const {
    const long long begin = ptr[v];
    const int length = static_cast<int>(ptr[v + 1] - begin);
    for (int k = 0; k < length; k += 4) {
      decltype(look(0)) seen[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) seen[j] = look(idx[begin + min(k + j, length - 1)]);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (k + j < length) use(k + j, seen[j]);
    }
  }

  struct Neighbor {
    int vertex, patch, layer, side, position;
  };

  // Breadth-first search from the seeds, for each side on its own: at most `layers` layers, and none once a side has `limit`
  // vertices.
  __device__ inline void grow_band(int layers, int limit) {
    int begin = 0, end = counters[band_size];
    for (int layer = 1; layer < layers && begin < end; ++layer) {
      const bool full_0 = counters[in_band_0] >= limit, full_1 = counters[in_band_1] >= limit;
      const auto full = [&](int side) { return side == 0 ? full_0 : full_1; };
      __syncthreads();
      for (int i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const int v = l_.band[i], own = v_.side[v];
        if (own < 2 && full(own)) continue;
        for_row(v, [&](int u) { return Neighbor{u, v_.patch[u], peek(v_.layer + u), v_.side[u], 0}; },
                [&](int, const Neighbor& u) {
                  if (u.patch < 0 || u.layer >= 0 || u.side == 2 || (own < 2 && u.side != own) || full(u.side)) return;
                  enter_band(u, layer);
                });
      }
      __syncthreads();
      begin = end;
      end = counters[band_size];
    }
    band = end;
  }

  __device__ __forceinline__ void enter_band(const Neighbor& u, int layer) const {
    if (atomicCAS(v_.layer + u.vertex, none, layer) != none) return;
    const int at = atomicAdd(counters + band_size, 1);
    l_.band[at] = u.vertex;
    v_.position[u.vertex] = at;
    atomicAdd(counters + in_band_0 + u.side, 1);
  }

  // The minimum cut of the band. Returns false if it is no better separator.
  template <class Index> __device__ __forceinline__ bool cut_band(char* memory, int capacity) {
    const Band b{ptr, idx, l_.band, v_.layer, v_.position, band};
    MinCut<Index> flow(memory, capacity, b, waves);
    if (!find_anchors(flow)) return false;
    const int found = flow.run(size);
    return found < size && accept(flow, found);
  }

  // Anchors (sources and sinks) are the vertices with a neighbor beyond the band. If a side lies entirely within the band, they
  // are its deepest layer.
  template <class Index> __device__ __forceinline__ bool find_anchors(const MinCut<Index>& flow) {
    if (threadIdx.x == 0) counters[anchored] = 0;
    __syncthreads();
    int deepest_0 = -1, deepest_1 = -1;
    for (int i = threadIdx.x; i < band; i += blockDim.x) {
      const int v = l_.band[i], side = v_.side[v], layer = v_.layer[v];
      const int anchor = read_row(flow, i, v);
      flow.set_anchor(i, anchor);
      if (anchor) atomicOr(counters + anchored, anchor);
      if (side == 0) deepest_0 = max(deepest_0, layer);
      if (side == 1) deepest_1 = max(deepest_1, layer);
      if (v_.touched[v]) continue;
      v_.touched[v] = 1;
      l_.touched[atomicAdd(counters + touched_size, 1)] = v;
    }
    __syncthreads();
    const int found_anchors = counters[anchored];
    for (int side = 0; side < 2; ++side) {
      if (found_anchors >> side & 1) continue;
      const int layer = block_max(side == 0 ? deepest_0 : deepest_1);
      if (layer < 0) return false;
      for (int i = threadIdx.x; i < band; i += blockDim.x) {
        const int v = l_.band[i];
        if (v_.side[v] == side && v_.layer[v] == layer) flow.add_anchor(i, 1 << side);
      }
    }
    return true;
  }

  // Copies the neighbors of band position i to the flow. Returns whether it is a source or a sink, as bits.
  template <class Index> __device__ __forceinline__ int read_row(const MinCut<Index>& flow, int i, int v) const {
    int anchor = 0;
    for_row(v, [&](int u) { return Neighbor{u, v_.patch[u], v_.layer[u], v_.side[u], v_.position[u]}; },
            [&](int k, const Neighbor& u) {
              flow.set_neighbor(i, k, u.layer >= 0 ? u.position : none);
              if (u.patch >= 0 && u.layer < 0) anchor |= u.side == 0 ? is_source : is_sink;
            });
    return anchor;
  }

  // Accepts the minimum cut next to the sources or the one next to the sinks, whichever is better balanced. Returns false if its
  // score is no better than that of the last separator: it is smaller, but less balanced.
  template <class Index> __device__ __forceinline__ bool accept(MinCut<Index>& flow, int found) {
    if (threadIdx.x == 0) counters[near_0] = counters[near_1] = counters[far_0] = counters[far_1] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < band; i += blockDim.x) count_side(near_0, flow.near_sources(i));
    flow.search_from_sinks();
    for (int i = threadIdx.x; i < band; i += blockDim.x) count_side(far_0, flow.far_side(i));
    __syncthreads();
    const int beyond_0 = side_0 - counters[in_band_0], beyond_1 = side_1 - counters[in_band_1];
    const int near_side_0 = beyond_0 + counters[near_0], near_side_1 = beyond_1 + counters[near_1];
    const int far_side_0 = beyond_0 + counters[far_0], far_side_1 = beyond_1 + counters[far_1];
    const bool take_far = min(far_side_0, far_side_1) > min(near_side_0, near_side_1);
    const int new_0 = take_far ? far_side_0 : near_side_0, new_1 = take_far ? far_side_1 : near_side_1;
    const int weight = found + new_0 + new_1;
    const double score = separator_score(found, max(new_0, new_1), weight);
    if (size <= weight && score >= separator_score(size, max(side_0, side_1), weight)) return false;
    size = found;
    side_0 = new_0;
    side_1 = new_1;
    for (int i = threadIdx.x; i < band; i += blockDim.x) v_.side[l_.band[i]] = take_far ? flow.far_side(i) : flow.near_side(i);
    __syncthreads();
    return true;
  }

  __device__ __forceinline__ void count_side(int first, int side) const {
    if (side < 2) atomicAdd(counters + first + side, 1);
  }

  // The separator becomes the first layer of the next band.
  __device__ inline void restart_band() {
    if (threadIdx.x == 0) counters[band_size] = counters[in_band_0] = counters[in_band_1] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < band; i += blockDim.x) {
      const int v = l_.band[i];
      const bool stays = v_.side[v] == 2;
      v_.layer[v] = stays ? 0 : none;
      if (!stays) continue;
      const int at = atomicAdd(counters + band_size, 1);
      l_.other[at] = v;
      v_.position[v] = at;
    }
    int* const swapped = l_.band;
    l_.band = l_.other;
    l_.other = swapped;
    __syncthreads();
  }

  // Unassigned vertices join a patch of their side that had a neighbor before this wave. Returns how many did.
  __device__ inline int join(int count, int wave) {
    if (threadIdx.x == 0) counters[joined] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      const int v = l_.other[i], side = v_.side[v];
      if (v_.layer[v] != unassigned) continue;
      const int p = most_frequent(idx + ptr[v], static_cast<int>(ptr[v + 1] - ptr[v]), v, [&](int u) {
        const int layer = peek(v_.layer + u);
        return layer == unassigned || layer >= wave || v_.side[u] != side ? none : v_.patch[u];
      });
      if (p < 0) continue;
      move(v, p);
      *static_cast<volatile int*>(v_.layer + v) = wave;
      atomicAdd(counters + joined, 1);
    }
    __syncthreads();
    const int all = counters[joined];
    __syncthreads();
    return all;
  }

  __device__ __forceinline__ void leave(int v) const {
    atomicSub(v_.patch_weight + v_.patch[v], 1);
    atomicSub(v_.patch_degree + v_.patch[v], static_cast<int>(ptr[v + 1] - ptr[v]));
  }

  __device__ __forceinline__ void move(int v, int p) const {
    leave(v);
    atomicAdd(v_.patch_weight + p, 1);
    atomicAdd(v_.patch_degree + p, static_cast<int>(ptr[v + 1] - ptr[v]));
    v_.patch[v] = p;
  }

  int* const counters;
  Waves* const waves;
  const Memory m_;
  const long long* const ptr;
  const int *const idx, *const patch_side;
  const Vertices v_;
  Lists l_;
  int band = 0;

 public:
  int size, side_0, side_1;                                 // best separator and its sides; size > weight of the node: none yet
};

// Parts of a node: its two sides and the separator between them, or one leaf as side 0. Children get new numbers of patches: first
// those of side 0 that have vertices, then those of side 1.
class Split {
 public:
  __device__ __forceinline__ Split(const Dissection& state, const Node& node, const Separator& s, bool is_good)
      : d(state), x(node), good(is_good), weight_0(good ? s.side_0 : node.weight), weight_1(good ? s.side_1 : 0),
        separator(good ? s.size : 0), largest_leaf(node.depth + 1 < most_depth ? state.leaf_size : state.n) {}

  // Numbers the patches, records separator and leaves, and writes the children; a child of weight 0 does not exist.
  __device__ inline void run(Node* children) {
    rank_patches();
    number_patches();
    if (threadIdx.x > 0) return;
    const int top = x.begin + weight_0 + weight_1, owner = separator > 0 ? top : x.owner;
    if (separator > 0) record(top, top + separator, x.owner);
    const long long edges_0 = d.room * degrees_0;
    const int middle = x.begin + weight_0, second = x.first_patch + count_0;
    children[0] = {x.first_edge, edges_0, hash_key(x.key, 0), x.begin, weight_0, x.first_patch, second, owner, x.depth + 1, 0, 0, 0};
    children[1] = {x.first_edge + edges_0, d.room * degrees_1, hash_key(x.key, 1), middle, weight_1, second, second + count_1, owner,
                   x.depth + 1, 0, 0, 0};
    for (int side = 0; side < 2; ++side) {
      Node& child = children[side];
      if (!is_leaf(side)) continue;
      if (child.weight > 0) record(child.begin, -(child.begin + child.weight), owner);
      child.weight = 0;
    }
  }

 private:
  __device__ __forceinline__ bool is_leaf(int side) const { return !good || (side == 0 ? weight_0 : weight_1) <= largest_leaf; }

  __device__ __forceinline__ void record(int begin, int end, int owner) const {
    d.span_end()[begin] = end;
    d.span_owner()[begin] = owner;
  }

  // Side of a patch that has vertices, or -1.
  __device__ __forceinline__ int side_of(int p) const {
    if (p >= x.last_patch || d.weight()[p] == 0) return none;
    return good ? d.patch_side()[p] : 0;
  }

  __device__ __forceinline__ void rank_patches() {
    long long ranked = 0, total, sum_0 = 0, sum_1 = 0;      // ranked: those of side 1 in the upper half
    for (int base = x.first_patch; base < x.last_patch; base += blockDim.x) {
      const int p = base + threadIdx.x, side = side_of(p);
      const long long before = ranked + block_exclusive_sum(side == none ? 0ll : 1ll << (32 * side), total);
      ranked += total;
      if (side == none) continue;
      d.mate()[p] = static_cast<int>(before >> (32 * side));
      (side == 0 ? sum_0 : sum_1) += d.degree()[p];
    }
    count_0 = static_cast<int>(ranked);
    count_1 = static_cast<int>(ranked >> 32);
    block_exclusive_sum(sum_0, degrees_0);
    block_exclusive_sum(sum_1, degrees_1);
  }

  // Moves weights and degrees to the new numbers, and finds where the list of each patch ends. relabel() fills it from its end.
  __device__ __forceinline__ void number_patches() const {
    const long long pool = static_cast<long long>(pool_factor) * x.first_patch;
    int *const weight = d.row_begin() + pool, *const degree = d.row_end() + pool;
    for (int p = x.first_patch + threadIdx.x; p < x.last_patch; p += blockDim.x) {
      const int side = side_of(p);
      if (side == none) continue;
      const int k = d.mate()[p] + (side == 0 ? 0 : count_0);
      weight[k] = d.weight()[p];
      degree[k] = d.degree()[p];
      d.fresh()[p] = is_leaf(side) ? -1 - (x.begin + (side == 0 ? 0 : weight_0)) : x.first_patch + k;
    }
    __syncthreads();
    int before = x.begin, total;
    for (int base = 0; base < count_0 + count_1; base += blockDim.x) {
      const int k = base + threadIdx.x, p = x.first_patch + k;
      const bool is_one = k < count_0 + count_1;
      const int own = is_one ? weight[k] : 0, sum = before + block_exclusive_sum(own, total);
      before += total;
      if (!is_one) continue;
      d.weight()[p] = own;
      d.degree()[p] = degree[k];
      d.list_begin()[p] = sum + own;
    }
  }

  const Dissection& d;
  const Node& x;
  const bool good;
  const int weight_0, weight_1, separator, largest_leaf;
  int count_0 = 0, count_1 = 0;
  long long degrees_0 = 0, degrees_1 = 0;
};

// Divides a node by the thread block. On entry the band holds the vertices at the cut, and the barrier after it has passed.
__device__ inline void separate(const Dissection& d, const Node& x, int* shared, int shared_bytes, Node* children) {
  __shared__ int counters[num_counters];
  __shared__ Waves waves;
  const int at = x.begin;
  const Vertices vertices{d.patch, d.side(), d.layer(), d.touched(), d.position(), d.weight(), d.degree()};
  const Lists lists{d.band() + at, d.touched_list() + at, d.other() + at};
  int* const scratch = d.flow() + static_cast<long long>(scratch_row) * at;
  const Memory memory{reinterpret_cast<char*>(shared), reinterpret_cast<char*>(scratch), shared_bytes};
  Separator s(counters, &waves, memory, d.ptr, d.idx, d.patch_side(), vertices, lists, x.seeds, x.weight_0, x.weight - x.weight_0);
  const int more = x.weight >= d.large ? 2 : 0;             // near the root
  if (x.seeds < 0.6 * x.weight) s.improve(d.rounds + more, d.layers + more, max(1, static_cast<int>(0.12 * x.weight)));
  const bool good = s.size <= 0.3 * x.weight && max(s.side_0, s.side_1) < x.weight;
  if (good) s.reassign(x.first_patch, x.last_patch, at + s.side_0 + s.side_1, d.slot());
  Split(d, x, s, good).run(children);
}

}  // namespace ms::order
