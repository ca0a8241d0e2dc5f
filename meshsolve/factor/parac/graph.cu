// The graph of a matrix that lies on the GPU: what graph.cpp finds, bit for bit. A row is read by one thread, as its sums have one
// order. O(nnz).
#include "device/common.cuh"

namespace ms::parac {

constexpr double eps = 2.220446049250313e-16;
constexpr double rounding = 1e-10;      // of the sum of moduli: a row sum that is negative by less is zero
constexpr double largest = 1.7976931348623157e308;
constexpr int most_levels = 1 << 14;    // of a search by one block; beyond, the CPU is faster

// What `found` holds; graph_cuda.py knows the same numbers.
enum Found { bad_row, most_edges, floored, grounded };

struct Row {
  double sum, moduli;
  int negative, positive;               // entries off the diagonal by sign
};

__device__ __forceinline__ Row look_at(long long i, const long long* ptr, const int* idx, const double* x) {
  Row r{};
  for (long long p = ptr[i]; p < ptr[i + 1]; ++p) {
    r.sum += x[p];
    r.moduli += fabs(x[p]);
    const bool aside = idx[p] != i;
    r.negative += aside && x[p] < 0;
    r.positive += aside && x[p] > 0;
  }
  return r;
}

// An entry of the level that begins at `first` leads to a vertex before all others do: its key is the least.
__device__ __forceinline__ unsigned long long place_of(int i, long long entry) {
  return static_cast<unsigned long long>(i) << 32 | static_cast<unsigned long long>(entry);
}

// The first vertex from `from` on that has no name, by the block; there is one.
__device__ __forceinline__ int next_unnamed(const int* name, int n, int from) {
  __shared__ int least;
  for (;; from += blockDim.x) {
    if (threadIdx.x == 0) least = n;
    __syncthreads();
    const int i = from + threadIdx.x;
    if (i < n && name[i] < 0) atomicMin(&least, i);
    __syncthreads();
    const int found = least;
    __syncthreads();
    if (found < n) return found;
  }
}

struct Search {
  const long long* ptr;
  const int* to;
  unsigned long long* first;            // (n) the least key of an entry that leads to a vertex
  int *name, *met;                      // (n) new number, -1: none yet; the inverse

  // Vertices beside met[begin .. end) learn by which entry they were met first.
  __device__ void meet(int begin, int end) const {
    for (int i = begin + threadIdx.x; i < end; i += blockDim.x)
      for (long long p = ptr[met[i]], start = p; p < ptr[met[i] + 1]; ++p)
        if (name[to[p]] < 0) atomicMin(first + to[p], place_of(i, p - start));
    __syncthreads();
  }

  // ... and get their numbers in the order of these entries, from `known` on; returns what comes next.
  __device__ int number(int begin, int end, int known) const {
    for (int base = begin; base < end; base += blockDim.x) {
      const int i = base + threadIdx.x;
      const long long start = i < end ? ptr[met[i]] : 0, stop = i < end ? ptr[met[i] + 1] : 0;
      int mine = 0, total;
      for (long long p = start; p < stop; ++p) mine += first[to[p]] == place_of(i, p - start);
      int at = known + block_exclusive_sum(mine, total);
      for (long long p = start; mine > 0 && p < stop; ++p) {
        if (first[to[p]] != place_of(i, p - start)) continue;
        name[to[p]] = at;
        met[at++] = to[p];
        --mine;
      }
      known += total;
    }
    __syncthreads();
    return known;
  }
};

}  // namespace ms::parac

using namespace ms;
using namespace ms::parac;

// Of each row the weight of its edge to the ground and the number of its edges; of all what `found` says. A row that is none of a
// Laplacian has its sum in place of that weight.
extern "C" __global__ void __launch_bounds__(256)
k_rows(int n, const long long* ptr, const int* idx, const double* x, double* ground, int* count, unsigned long long* found) {
  const int lane = threadIdx.x & 31;
  for (long long base = grid_begin() - lane; base < n; base += grid_step()) {
    const long long i = base + lane;
    const Row row = i < n ? look_at(i, ptr, idx, x) : Row{};
    const int edges = row.negative + row.positive;
    bool has_ground = false;
    if (i < n) {
      const double noise = 4 * static_cast<double>(ptr[i + 1] - ptr[i] + 1) * eps * row.moduli;
      const bool bad = row.sum < -fmax(noise, rounding * row.moduli) || !(row.moduli <= largest);
      if (bad) atomicMin(found + bad_row, static_cast<unsigned long long>(i));
      has_ground = row.sum > noise;
      ground[i] = has_ground || bad ? row.sum : 0;
      count[i] = edges;
    }
    const int most = warp_max(edges), positive = warp_sum(row.positive), with_ground = warp_sum(static_cast<int>(has_ground));
    if (lane != 0) continue;
    atomicMax(found + most_edges, static_cast<unsigned long long>(most));
    if (positive) atomicAdd(found + floored, static_cast<unsigned long long>(positive));
    if (with_ground) atomicAdd(found + grounded, static_cast<unsigned long long>(with_ground));
  }
}

// The edges of each row from start[row] on, and by how much the numbers of neighbours differ in all.
extern "C" __global__ void __launch_bounds__(256)
k_edges(int n, const long long* ptr, const int* idx, const double* x, const long long* start, int* to, double* w,
        unsigned long long* apart) {
  const int lane = threadIdx.x & 31;
  unsigned long long differ = 0;
  for (long long base = grid_begin() - lane; base < n; base += grid_step()) {
    const long long i = base + lane;
    if (i >= n) continue;
    for (long long p = ptr[i], next = start[i]; p < ptr[i + 1]; ++p) {
      if (idx[p] == i || x[p] == 0) continue;
      to[next] = idx[p];
      w[next++] = -x[p];
      differ += static_cast<unsigned long long>(idx[p] > i ? idx[p] - i : i - idx[p]);
    }
  }
  differ = warp_sum(differ);
  if (lane == 0 && differ) atomicAdd(apart, differ);
}

// Names in breadth-first order, component after component, by one block; `state` gets how many vertices have one: all, but in a
// graph of too many levels.
extern "C" __global__ void __launch_bounds__(1024)
k_number(int n, const long long* ptr, const int* to, unsigned long long* first, int* name, int* met, int* state) {
  const Search search{ptr, to, first, name, met};
  int known = 0;
  for (int begin = 0, root = 0, level = 0; begin < n && level < most_levels; ++level) {
    if (begin == known) {                                   // a new component
      root = next_unnamed(name, n, root);
      if (threadIdx.x == 0) {
        name[root] = known;
        met[known] = root;
      }
      ++known;
      __syncthreads();
    }
    const int end = known;
    search.meet(begin, end);
    known = search.number(begin, end, known);
    begin = end;
  }
  if (threadIdx.x == 0) *state = known;
}

// Rows in the order `met`, with new names, by eight threads each.
extern "C" __global__ void __launch_bounds__(256)
k_rename(int n, const long long* ptr, const int* to, const double* w, const int* name, const int* met, const long long* new_ptr,
         int* new_to, double* new_w) {
  const int lane = threadIdx.x & 7;
  for (long long k = grid_begin() / 8; k < n; k += grid_step() / 8) {
    const long long from = ptr[met[k]] - new_ptr[k];
    for (long long p = new_ptr[k] + lane; p < new_ptr[k + 1]; p += 8) {
      new_to[p] = name[to[from + p]];
      new_w[p] = w[from + p];
    }
  }
}
