// Minimum vertex separators of all nodes of a tree level on the GPU, one block a node. Twin of separator.cpp.
//
// A band of a few layers around the cut between patches holds a maximum flow of unit vertex capacities (mincut.cuh); the band is
// laid anew around the separator until nothing is gained.
// Arrays are indexed by vertex; lists of a block are the slice that belongs to its node. Cost of a round: the waves of the flow.
#include "device/common.cuh"
#include "order/mincut.cuh"
#include "order/order.cuh"

namespace ms::order {

constexpr int none = -1;
constexpr int waiting = -2;                                 // in layer: a vertex that has no patch of its side yet
constexpr int scratch_row = 8;                              // ints a vertex: a flow that shared memory does not hold

struct Vertices {                                           // one entry a vertex; place: in the band
  int *patch, *side, *layer, *touched, *place;
  int* patch_weight;                                        // of a patch: its vertices
};

struct Lists {                                              // of one node: slices of these, one entry a vertex
  int *band, *touched, *other;
};

struct Memory {
  char *shared, *scratch;
  int room;                                                 // bytes of shared memory
};

// What a block counts together.
enum Tally {
  band_size, in_band_0, in_band_1, anchored, touched_size, waiters, joined, near_0, near_1, far_0, far_1, tallies
};

class Separator {
 public:
  __device__ __forceinline__ Separator(int* shared, Waves* flow_waves, const Memory& memory, const long long* rows,
                                       const int* columns, const int* sides, const Vertices& vertices, const Lists& lists,
                                       int seeds, int weight_0, int weight_1)
      : tally(shared), waves(flow_waves), m_(memory), ptr(rows), idx(columns), patch_side(sides), v_(vertices), l_(lists),
        size(weight_0 + weight_1 + 1), side_0(weight_0), side_1(weight_1) {
    if (threadIdx.x < tallies) tally[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x == 0) tally[band_size] = seeds;
    for (int i = threadIdx.x; i < seeds; i += blockDim.x) {
      const int v = l_.band[i];
      v_.layer[v] = 0;
      v_.place[v] = i;
      if (v_.side[v] < 2) atomicAdd(tally + in_band_0 + v_.side[v], 1);
    }
    __syncthreads();
  }

  // Rounds of band, flow and cut. The sides of the vertices that were looked at are then in v_.side; 2 = separator.
  __device__ inline void improve(int rounds, int layers, int limit) {
    if (tally[band_size] == 0) size = 0;                    // components apart
    for (int round = 0; size > 0 && round < rounds; ++round) {
      lay_band(layers, limit);
      const bool near = MinCut<unsigned short>::fits(band, m_.room);
      if (!(near ? cut_band<unsigned short>(m_.shared, m_.room) : cut_band<unsigned>(m_.scratch, 0))) break;
      seed_band();
    }
  }

  // Every vertex on another side than its patch leaves it: for the separator, or for a patch of the new side next to it.
  __device__ inline void hand_over(int first_patch, int last_patch, int top, int* slot) {
    const int touched = tally[touched_size];
    for (int i = threadIdx.x; i < touched; i += blockDim.x) {
      const int v = l_.touched[i], side = v_.side[v];
      const bool waits = side < 2 && side != patch_side[v_.patch[v]];
      v_.layer[v] = waits ? waiting : none;
      if (waits) l_.other[atomicAdd(tally + waiters, 1)] = v;
      if (side < 2) continue;
      atomicSub(v_.patch_weight + v_.patch[v], 1);
      v_.patch[v] = none;
      slot[v] = top;
    }
    __syncthreads();
    const int count = tally[waiters];
    for (int wave = 0; join(count, wave) > 0; ++wave) {
    }
    for (int i = threadIdx.x; i < count; i += blockDim.x) {         // what has no such neighbour at all: any patch
      const int v = l_.other[i];
      if (v_.layer[v] != waiting) continue;
      int p = first_patch;
      while (p + 1 < last_patch && patch_side[p] != v_.side[v]) ++p;
      move(v, p);
    }
  }

 private:
  // What `look` asks of memory for the entries of a row is under way for four of them at once; then `use` takes it.
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

  struct Neighbour {
    int vertex, patch, layer, side, place;
  };

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
        for_row(v, [&](int u) { return Neighbour{u, v_.patch[u], peek(v_.layer + u), v_.side[u], 0}; },
                [&](int, const Neighbour& u) {
                  if (u.patch < 0 || u.layer >= 0 || u.side == 2 || (mine < 2 && u.side != mine) || full(u.side)) return;
                  enter_band(u, layer);
                });
      }
      __syncthreads();
      begin = end;
      end = tally[band_size];
    }
    band = end;
    __syncthreads();
  }

  __device__ __forceinline__ void enter_band(const Neighbour& u, int layer) const {
    if (atomicCAS(v_.layer + u.vertex, none, layer) != none) return;
    const int place = atomicAdd(tally + band_size, 1);
    l_.band[place] = u.vertex;
    v_.place[u.vertex] = place;
    atomicAdd(tally + in_band_0 + u.side, 1);
  }

  // One flow and its cut; false: no better separator.
  template <class Place> __device__ __forceinline__ bool cut_band(char* memory, int room) {
    const Band b{ptr, idx, l_.band, v_.layer, v_.place, band};
    MinCut<Place> flow(memory, room, b, waves);
    if (!find_anchors(flow)) return false;
    const int found = flow.run(size);
    return found < size && take(flow, found);
  }

  // Anchors are the vertices with a neighbour beyond the band; of a side that the band has swallowed, its deepest layer.
  template <class Place> __device__ __forceinline__ bool find_anchors(const MinCut<Place>& flow) {
    if (threadIdx.x == 0) tally[anchored] = 0;
    __syncthreads();
    int deepest_0 = -1, deepest_1 = -1;
    for (int i = threadIdx.x; i < band; i += blockDim.x) {
      const int v = l_.band[i], side = v_.side[v], layer = v_.layer[v];
      const int anchor = read_row(flow, i, v);
      flow.set_anchor(i, anchor);
      if (anchor) atomicOr(tally + anchored, anchor);
      if (side == 0) deepest_0 = max(deepest_0, layer);
      if (side == 1) deepest_1 = max(deepest_1, layer);
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
        if (v_.side[v] == side && v_.layer[v] == layer) flow.add_anchor(i, 1 << side);
      }
    }
    return true;
  }

  // The neighbours of place i for the flow. Returns the ends that lie beyond the band.
  template <class Place> __device__ __forceinline__ int read_row(const MinCut<Place>& flow, int i, int v) const {
    int anchor = 0;
    for_row(v, [&](int u) { return Neighbour{u, v_.patch[u], v_.layer[u], v_.side[u], v_.place[u]}; },
            [&](int k, const Neighbour& u) {
              flow.set_neighbour(i, k, u.layer >= 0 ? u.place : none);
              if (u.patch >= 0 && u.layer < 0) anchor |= u.side == 0 ? is_source : is_sink;
            });
    return anchor;
  }

  // The minimum cut next to the sources or the one next to the sinks, which leaves the parts more even. False: none is better
  // than the separator known, since the parts are less even.
  template <class Place> __device__ __forceinline__ bool take(MinCut<Place>& flow, int found) {
    if (threadIdx.x == 0) tally[near_0] = tally[near_1] = tally[far_0] = tally[far_1] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < band; i += blockDim.x) count_side(near_0, flow.near_sources(i));
    flow.search_from_sinks();
    for (int i = threadIdx.x; i < band; i += blockDim.x) count_side(far_0, flow.far_side(i));
    __syncthreads();
    const int beyond_0 = side_0 - tally[in_band_0], beyond_1 = side_1 - tally[in_band_1];
    const int near_side_0 = beyond_0 + tally[near_0], near_side_1 = beyond_1 + tally[near_1];
    const int far_side_0 = beyond_0 + tally[far_0], far_side_1 = beyond_1 + tally[far_1];
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
    if (side < 2) atomicAdd(tally + first + side, 1);
  }

  // The separator is the band's first layer of the next round.
  __device__ inline void seed_band() {
    if (threadIdx.x == 0) tally[band_size] = tally[in_band_0] = tally[in_band_1] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < band; i += blockDim.x) {
      const int v = l_.band[i];
      const bool stays = v_.side[v] == 2;
      v_.layer[v] = stays ? 0 : none;
      if (!stays) continue;
      const int place = atomicAdd(tally + band_size, 1);
      l_.other[place] = v;
      v_.place[v] = place;
    }
    int* const swapped = l_.band;
    l_.band = l_.other;
    l_.other = swapped;
    __syncthreads();
  }

  // Waiting vertices join a patch of their side that a neighbour was in before this wave. Returns how many did.
  __device__ inline int join(int count, int wave) {
    if (threadIdx.x == 0) tally[joined] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      const int v = l_.other[i], side = v_.side[v];
      if (v_.layer[v] != waiting) continue;
      const int p = most_frequent(idx + ptr[v], static_cast<int>(ptr[v + 1] - ptr[v]), v, [&](int u) {
        const int layer = peek(v_.layer + u);
        return layer == waiting || layer >= wave || v_.side[u] != side ? none : v_.patch[u];
      });
      if (p < 0) continue;
      move(v, p);
      *static_cast<volatile int*>(v_.layer + v) = wave;
      atomicAdd(tally + joined, 1);
    }
    __syncthreads();
    const int all = tally[joined];
    __syncthreads();
    return all;
  }

  __device__ __forceinline__ void move(int v, int p) const {
    atomicSub(v_.patch_weight + v_.patch[v], 1);
    atomicAdd(v_.patch_weight + p, 1);
    v_.patch[v] = p;
  }

  int* const tally;
  Waves* const waves;
  const Memory m_;
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

// Block = node. found: 6 numbers a node, of which this makes 4: whether it is split, separator, sides. `room`: bytes of shared memory.
extern "C" __global__ void __launch_bounds__(512, 1)
k_separate(const long long* ptr, const int* idx, const int* patch_side, const int* node_ptr, const int* begin,
           const int* node_weight, const int* rounds, const int* layers, const int* seeds, const int* weight_0, int room,
           int* patch, int* side, int* layer, int* touched, int* place, int* band, int* touched_list, int* other, int* scratch,
           int* patch_weight, int* slot, int* found) {
  extern __shared__ int shared[];
  __shared__ int tally[tallies];
  __shared__ Waves waves;
  const int k = blockIdx.x, weight = node_weight[k], at = begin[k];
  const Vertices vertices{patch, side, layer, touched, place, patch_weight};
  const Lists lists{band + at, touched_list + at, other + at};
  int* const flow = scratch + static_cast<long long>(scratch_row) * at;
  const Memory memory{reinterpret_cast<char*>(shared), reinterpret_cast<char*>(flow), room};
  Separator s(tally, &waves, memory, ptr, idx, patch_side, vertices, lists, seeds[k], weight_0[k], weight - weight_0[k]);
  if (seeds[k] < 0.6 * weight) s.improve(rounds[k], layers[k], max(1, static_cast<int>(0.12 * weight)));
  const bool good = s.size <= 0.3 * weight && max(s.side_0, s.side_1) < weight;
  if (good) s.hand_over(node_ptr[k], node_ptr[k + 1], at + s.side_0 + s.side_1, slot);
  if (threadIdx.x > 0) return;
  found[6 * k] = good;
  found[6 * k + 1] = s.size;
  found[6 * k + 2] = s.side_0;
  found[6 * k + 3] = s.side_1;
}
