// Parts of a graph by Lloyd's iteration in graph distance on the GPU: regions by launches over the whole graph, then one thread
// block per region.
//
// CPU counterpart: kmeans.cpp, bit for bit, which describes the method and its source. Regions grow from all seeds at once, one
// launch per layer (k_spread): a vertex joins the lowest (layer, seed) that reaches it. Then one thread block runs all rounds of
// a region of about 16 cells (k_lloyd). Its searches have the order of the sequential queue (search.cuh), so ties are resolved in
// the same way.
#include "native/rng.hpp"
#include "patches/search.cuh"

namespace ms::patches {

constexpr unsigned long long unreached = ~0ull;

struct Region {
  const int* member;                                        // (size) ascending
  int size, number;
  const int* of;                                            // (n) region of each vertex
  int *label, *seen, *queue;                                // (n), (n), (size)
  int* seed;                                                // seed of each cell; cells are numbered from first_cell in `label`
  int first_cell;
};

// Rule of a search from all seeds, with one queue.
struct Grow {
  const Region& R;
  __device__ bool inside(int w) const { return R.of[w] == R.number; }
  __device__ bool open(int, int w) const { return R.label[w] < 0; }
  __device__ void mark(int v, int w) const { R.label[w] = R.label[v]; }
  __device__ void record(int, int, int) const {}
};

__device__ __forceinline__ void grow(const Search& S, const Region& R, int cells) {
  for (int i = threadIdx.x; i < R.size; i += blockDim.x) R.label[R.member[i]] = -1;
  __syncthreads();
  for (int k = threadIdx.x; k < cells; k += blockDim.x) R.label[R.queue[k] = R.seed[k]] = R.first_cell + k;
  __syncthreads();
  flood(S, R.queue, 0, cells, Grow{R});
}

// Rule of a search within each cell, inwards from its boundary.
struct Inwards {
  const Region& R;
  __device__ bool inside(int w) const { return R.of[w] == R.number; }
  __device__ bool open(int v, int w) const { return R.label[w] == R.label[v] && !R.seen[w]; }
  __device__ void mark(int, int w) const { R.seen[w] = 1; }
  __device__ void record(int, int, int) const {}
};

// Moves the seed of each cell to the vertex that the search inwards reaches last. All cells are searched at once; the queue of a
// cell is the subsequence of its vertices in the common queue.
__device__ __forceinline__ void recenter(const Search& S, const Region& R, int cells, int* last) {
  const auto on_boundary = [&](int i) {
    const int v = R.member[i];
    for (long long q = S.ptr[v]; q < S.ptr[v + 1]; ++q)
      if (R.of[S.idx[q]] != R.number || R.label[S.idx[q]] != R.label[v]) return true;
    return false;
  };
  for (int k = threadIdx.x; k < cells; k += blockDim.x) last[k] = -1;
  const int rim = compact(R.size, R.queue, on_boundary, [&](int i) { return R.member[i]; });
  for (int i = threadIdx.x; i < R.size; i += blockDim.x) R.seen[R.member[i]] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < rim; i += blockDim.x) R.seen[R.queue[i]] = 1;
  __syncthreads();
  const int found = flood(S, R.queue, 0, rim, Inwards{R});
  for (int i = threadIdx.x; i < found; i += blockDim.x) atomicMax(last + R.label[R.queue[i]] - R.first_cell, i);
  __syncthreads();
  for (int k = threadIdx.x; k < cells; k += blockDim.x)
    if (last[k] >= 0) R.seed[k] = R.queue[last[k]];
}

// Adds floor(size / limit) seeds to each cell beyond the limit: members at equal steps. Returns the number of cells.
__device__ __forceinline__ int add_seeds(const Region& R, int cells, int limit, int* size) {
  for (int k = threadIdx.x; k < cells; k += blockDim.x) size[k] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < R.size; i += blockDim.x) atomicAdd(size + R.label[R.member[i]] - R.first_cell, 1);
  __syncthreads();
  int filled = cells;
  for (int k = 0; k < cells; ++k) {
    const long long of_cell = size[k], further = of_cell > limit ? of_cell / limit : 0;
    int before = 0;                                         // number of members of the cell before `base`
    for (int base = 0; further > 0 && base < R.size; base += blockDim.x) {
      const int i = base + threadIdx.x;
      const bool in_cell = i < R.size && R.label[R.member[i]] == R.first_cell + k;
      int members, added;
      const long long rank = before + block_exclusive_sum(in_cell ? 1 : 0, members);
      const long long j = (rank * further + of_cell - 1) / of_cell;       // the first with j * size / further >= rank
      const bool is_seed = in_cell && j < further && j * of_cell / further == rank && R.member[i] != R.seed[k];
      const int at = block_exclusive_sum(is_seed ? 1 : 0, added);
      if (is_seed) R.seed[filled + at] = R.member[i];
      before += members;
      filled += added;
    }
  }
  return filled;
}

}  // namespace ms::patches

using namespace ms;
using namespace ms::patches;

// ---- regions

// One random vertex from each of `count` equal ranges of the numbering.
extern "C" __global__ void __launch_bounds__(256)
k_first_seeds(int n, int count, unsigned long long seed, int* queue, unsigned long long* key) {
  for (long long j = grid_begin(); j < count; j += grid_step()) {
    const long long begin = j * n / count, end = (j + 1) * n / count;
    const unsigned long long drawn = hash_key(seed, j) % static_cast<unsigned long long>(end - begin);
    const int v = static_cast<int>(begin + static_cast<long long>(drawn));
    queue[j] = v;
    key[v] = j;
  }
}

// Expands one layer, queue[first[step], + count[step]), and appends the vertices that it reaches. key = (layer << 32 | seed).
extern "C" __global__ void __launch_bounds__(256)
k_spread(const long long* ptr, const int* idx, unsigned layer, int step, int* first, int* count, int* queue,
         unsigned long long* key) {
  const int begin = first[step], size = count[step];
  if (grid_begin() == 0) first[step + 1] = begin + size;
  for (long long i = grid_begin(); i < size; i += grid_step()) {
    const int v = queue[begin + i];
    const unsigned long long to = (static_cast<unsigned long long>(layer) << 32) | (key[v] & 0xffffffffu);
    for (long long q = ptr[v]; q < ptr[v + 1]; ++q) {
      const int w = idx[q];
      if (static_cast<volatile unsigned long long*>(key)[w] <= to) continue;
      if (atomicMin(key + w, to) == unreached) queue[begin + size + atomicAdd(count + step + 1, 1)] = w;
    }
  }
}

// Connected components of the vertices that no seed reached, by union-find: roots are hooked to lower roots, so parent[v] <= v.
extern "C" __global__ void __launch_bounds__(256)
k_unite(const long long* ptr, const int* idx, int n, const unsigned long long* key, int* parent) {
  volatile int* const up = parent;
  const auto root = [&](int v) {
    for (int p = up[v]; p != v; p = up[v]) v = p;
    return v;
  };
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    if (key[v] != unreached) continue;
    for (long long q = ptr[v]; q < ptr[v + 1]; ++q) {
      if (idx[q] >= v) continue;                            // handled from the other end
      int a = root(static_cast<int>(v)), b = root(idx[q]);
      while (a != b) {
        const int high = max(a, b), low = min(a, b);
        if (atomicCAS(parent + high, high, low) == high) break;
        a = root(high);
        b = root(low);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) k_roots(int n, const int* parent, int* root) {
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    int r = static_cast<int>(v);
    while (parent[r] != r) r = parent[r];
    root[v] = r;
  }
}

struct FromRoot {
  const int* root;
  int number;
  int* seen;
  __device__ bool inside(int w) const { return root[w] == number; }
  __device__ bool open(int, int w) const { return !seen[w]; }
  __device__ void mark(int, int w) const { seen[w] = 1; }
  __device__ void record(int, int, int) const {}
};

// Several seeds for each large component, at equal steps of the queue of a search from its lowest vertex. Their labels start at
// labels[b]. One thread block per component.
extern "C" __global__ void __launch_bounds__(512)
k_component_seeds(const long long* ptr, const int* idx, const int* root, const int* lowest, const int* size, const int* seeds,
                  const int* labels, const long long* queue_ptr, const long long* fresh_ptr, int* finder, int* slot, int* seen,
                  int* queue, int* fresh, unsigned long long* key) {
  const int b = blockIdx.x;
  int* const found = queue + queue_ptr[b];
  if (threadIdx.x == 0) {
    found[0] = lowest[b];
    seen[lowest[b]] = 1;
  }
  flood({ptr, idx, finder, slot}, found, 0, 1, FromRoot{root, lowest[b], seen});
  for (int j = threadIdx.x; j < seeds[b]; j += blockDim.x) {
    const int v = found[static_cast<long long>(j) * size[b] / seeds[b]];
    fresh[fresh_ptr[b] + j] = v;
    key[v] = static_cast<unsigned long long>(labels[b] + j);
  }
}

// ---- cells

// Lloyd's iteration in every region of more than `limit` vertices, one thread block per region. The cells of region r are
// numbered from seed_ptr[r] on, with gaps for cells that are added. `last`: scratch of the same size.
extern "C" __global__ void __launch_bounds__(512)
k_lloyd(const long long* ptr, const int* idx, const int* region, const int* member, const long long* region_ptr,
        const long long* seed_ptr, int limit, int cell_size, int rounds, unsigned long long seed, int* seeds, int* last,
        int* finder,
        int* slot, int* seen, int* queue, int* label) {
  const int r = blockIdx.x, n = static_cast<int>(region_ptr[r + 1] - region_ptr[r]);
  const Search S{ptr, idx, finder, slot};
  const Region R{member + region_ptr[r], n,    r, region, label, seen, queue + region_ptr[r], seeds + seed_ptr[r],
                 static_cast<int>(seed_ptr[r])};
  if (n <= limit) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) label[R.member[i]] = R.first_cell;
    return;
  }
  int cells = (n + cell_size - 1) / cell_size;
  const unsigned long long own = hash_key(seed, r);
  for (long long j = threadIdx.x; j < cells; j += blockDim.x) {
    const long long begin = j * n / cells, end = (j + 1) * n / cells;
    R.seed[j] = R.member[begin + static_cast<long long>(hash_key(own, j) % static_cast<unsigned long long>(end - begin))];
  }
  grow(S, R, cells);
  for (int round = 0; round < rounds; ++round) {
    recenter(S, R, cells, last + seed_ptr[r]);
    if (round + 1 == rounds) cells = add_seeds(R, cells, limit, last + seed_ptr[r]);
    grow(S, R, cells);
  }
}
