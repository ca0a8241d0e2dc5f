// The weighted graph of a matrix on the GPU, and its breadth-first renumbering. CPU counterpart: graph.cpp, bit for bit: one
// thread reads a row, so its sums have the same order. Cost: O(nnz).
#include "device/common.cuh"

namespace ms::parac {

constexpr double eps = 2.220446049250313e-16;
constexpr double rounding = 1e-10;      // relative to the sum of absolute values: a row sum above -rounding counts as zero
constexpr double largest = 1.7976931348623157e308;
constexpr int most_levels = 1 << 14;    // most levels of a search by one thread block; for more, the CPU is faster

// Entries of `found`; graph_cuda.py uses the same numbers.
enum Found { bad_row, most_edges, floored, grounded };

struct Row {
  double sum, abs_sum;                  // of the entries, of their absolute values
  int negative, positive;               // numbers of off-diagonal entries by sign
};

__device__ __forceinline__ Row read_row(long long i, const long long* ptr, const int* idx, const double* x) {
  Row r{};
  for (long long p = ptr[i]; p < ptr[i + 1]; ++p) {
    r.sum += x[p];
    r.abs_sum += fabs(x[p]);
    const bool off_diagonal = idx[p] != i;
    r.negative += off_diagonal && x[p] < 0;
    r.positive += off_diagonal && x[p] > 0;
  }
  return r;
}

// Key of an entry of a level, in the order of a sequential search. A vertex is discovered by the entry of the smallest key.
__device__ __forceinline__ unsigned long long entry_key(int i, long long entry) {
  return static_cast<unsigned long long>(i) << 32 | static_cast<unsigned long long>(entry);
}

// The first vertex from `from` on without a number, by the whole thread block. There must be one.
__device__ __forceinline__ int next_unnumbered(const int* renumbered, int n, int from) {
  __shared__ int least;
  for (;; from += blockDim.x) {
    if (threadIdx.x == 0) least = n;
    __syncthreads();
    const int i = from + threadIdx.x;
    if (i < n && renumbered[i] < 0) atomicMin(&least, i);
    __syncthreads();
    const int found = least;
    __syncthreads();
    if (found < n) return found;
  }
}

struct Search {
  const long long* ptr;
  const int* to;
  unsigned long long* first;            // (n) smallest key of the entries that lead to a vertex
  int *renumbered, *old;                // (n) new number, or -1; the inverse

  // Computes by which entry each neighbor of old[begin .. end) is discovered.
  __device__ void discover(int begin, int end) const {
    for (int i = begin + threadIdx.x; i < end; i += blockDim.x)
      for (long long p = ptr[old[i]], start = p; p < ptr[old[i] + 1]; ++p)
        if (renumbered[to[p]] < 0) atomicMin(first + to[p], entry_key(i, p - start));
    __syncthreads();
  }

  // Numbers the discovered vertices in the order of these entries, from `known` on. Returns the next free number.
  __device__ int number(int begin, int end, int known) const {
    for (int base = begin; base < end; base += blockDim.x) {
      const int i = base + threadIdx.x;
      const long long start = i < end ? ptr[old[i]] : 0, stop = i < end ? ptr[old[i] + 1] : 0;
      int discovered = 0, total;
      for (long long p = start; p < stop; ++p) discovered += first[to[p]] == entry_key(i, p - start);
      int at = known + block_exclusive_sum(discovered, total);
      for (long long p = start; discovered > 0 && p < stop; ++p) {
        if (first[to[p]] != entry_key(i, p - start)) continue;
        renumbered[to[p]] = at;
        old[at++] = to[p];
        --discovered;
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

// For each row: the weight of its edge to the ground and the number of its edges. A row with a negative sum has its sum instead
// of that weight. For all rows: see Found.
extern "C" __global__ void __launch_bounds__(256)
k_rows(int n, const long long* ptr, const int* idx, const double* x, double* ground, int* count, unsigned long long* found) {
  const int lane = threadIdx.x & 31;
  for (long long base = grid_begin() - lane; base < n; base += grid_step()) {
    const long long i = base + lane;
    const Row row = i < n ? read_row(i, ptr, idx, x) : Row{};
    const int edges = row.negative + row.positive;
    bool has_ground = false;
    if (i < n) {
      const double noise = 4 * static_cast<double>(ptr[i + 1] - ptr[i] + 1) * eps * row.abs_sum;
      const bool bad = row.sum < -fmax(noise, rounding * row.abs_sum) || !(row.abs_sum <= largest);
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

// Writes the edges of each row from start[row] on. *apart += sum of the differences between the numbers of neighbors.
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

// Numbers the vertices in breadth-first order, component by component, by one thread block. *state = number of numbered vertices:
// all of them, unless there are more than most_levels levels.
extern "C" __global__ void __launch_bounds__(1024)
k_number(int n, const long long* ptr, const int* to, unsigned long long* first, int* renumbered, int* old, int* state) {
  const Search search{ptr, to, first, renumbered, old};
  int known = 0;
  for (int begin = 0, root = 0, level = 0; begin < n && level < most_levels; ++level) {
    if (begin == known) {                                   // a new component
      root = next_unnumbered(renumbered, n, root);
      if (threadIdx.x == 0) {
        renumbered[root] = known;
        old[known] = root;
      }
      ++known;
    }
    const int end = known;
    search.discover(begin, end);
    known = search.number(begin, end, known);
    begin = end;
  }
  if (threadIdx.x == 0) *state = known;
}

// Copies the rows in the new order, with new column numbers, by eight threads per row.
extern "C" __global__ void __launch_bounds__(256)
k_rename(int n, const long long* ptr, const int* to, const double* w, const int* renumbered, const int* old, const long long* new_ptr,
         int* new_to, double* new_w) {
  const int lane = threadIdx.x & 7;
  for (long long k = grid_begin() / 8; k < n; k += grid_step() / 8) {
    const long long from = ptr[old[k]] - new_ptr[k];
    for (long long p = new_ptr[k] + lane; p < new_ptr[k + 1]; p += 8) {
      new_to[p] = renumbered[to[from + p]];
      new_w[p] = w[from + p];
    }
  }
}
