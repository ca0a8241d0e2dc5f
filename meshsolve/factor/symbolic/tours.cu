// Euler tours of forests, and sums along them, in a number of launches that does not depend on the forest.
//
// A tour is a linked list: 2 j enters node j, 2 j + 1 leaves it, 2 n enters a root above all roots, and 2 n + 1 is its end. One of
// 1 << shift successive elements, chosen by a hash, is a splitter. One thread walks from each splitter to the next one, one thread
// block sums over the splitters, and a second walk writes the sum from each element to the end.
// Source: Helman, JaJa 1999, "Designing practical efficient algorithms for symmetric multiprocessors" (list ranking).
// Cost: O(n) steps. A walk has about 1 << shift of them, the longest walk about log(n) times as many.
#include "device/common.cuh"

namespace ms::symbolic {

struct Tour {
  int count, end, shift;                // nodes; the end of the tour; log2 of the elements per splitter
  const int *next, *value;

  __device__ inline Tour(int most, const int* nodes, int shift_, const int* next_, const int* value_)
      : count(nodes ? *nodes : most), end(2 * most + 1), shift(shift_), next(next_), value(value_) {}

  // The splitter of these 1 << shift elements. It may lie beyond the nodes of the tour.
  __device__ inline int splitter(int group) const {
    return (group << shift) + static_cast<int>(mix64(group) & ((1ull << shift) - 1));
  }
  __device__ inline bool is_splitter(int element) const { return element == splitter(element >> shift); }

  // First element of walk t of `groups`, or -1. The last walk starts at the root above all roots.
  __device__ inline int start(int t, int groups) const {
    if (t == groups) return end - 1;
    const int first = splitter(t);
    return first < 2 * count ? first : -1;
  }
};

}  // namespace ms::symbolic

using namespace ms;
using namespace ms::symbolic;

// Links of the tour. Array `order` has the nodes by parent, the children of a node in the order of their visits. Roots have a parent
// < 0 or 0x7fffffff. A node has the value `enter` at its entry. At its exit it has first[j + 1] - first[j], or `leave` without `first`.
// Before, next[e] is e + 1. There are `*nodes` nodes, or `most` if that is null.
extern "C" __global__ void __launch_bounds__(256)
k_tour(int most, const int* nodes, const int* parent, const long long* order, const int* first, int enter, int leave, int* next,
       int* value) {
  const int count = nodes ? *nodes : most;
  for (long long q = grid_begin(); q < count; q += grid_step()) {
    const int j = static_cast<int>(order[q]), p = parent[j], above = p < 0 || p == 0x7fffffff ? most : p;
    if (q == 0 || parent[order[q - 1]] != p) next[2 * above] = 2 * j;
    const bool last = q + 1 == count || parent[order[q + 1]] != p;
    next[2 * j + 1] = last ? 2 * above + 1 : 2 * static_cast<int>(order[q + 1]);
    value[2 * j] = enter;
    value[2 * j + 1] = first ? first[j + 1] - first[j] : leave;
    if (q == 0) value[2 * most] = value[2 * most + 1] = 0;
  }
}

// Walks to the next splitter. Walk stop[t] follows walk t, whose values have the sum sum[t]. Walk groups + 1 is the end.
extern "C" __global__ void __launch_bounds__(256)
k_walk(int most, const int* nodes, int shift, int groups, const int* next, const int* value, int* stop, int* sum) {
  const Tour tour(most, nodes, shift, next, value);
  for (long long k = grid_begin(); k < groups + 2; k += grid_step()) {
    const int t = static_cast<int>(k);
    int x = t <= groups ? tour.start(t, groups) : -1, all = 0, to = groups + 1;
    if (x >= 0) {
      do {
        all += value[x];
        x = next[x];
      } while (x != tour.end && !tour.is_splitter(x));
      if (x != tour.end) to = x >> shift;
    }
    stop[t] = to;
    sum[t] = all;
  }
}

// Sums over the walks from each one to the end, by pointer doubling in one thread block. The results lie in `sum` if `rounds` is
// even, else in `sum_out`.
extern "C" __global__ void __launch_bounds__(1024)
k_walks(int count, int rounds, int* stop, int* sum, int* stop_out, int* sum_out) {
  for (int round = 0; round < rounds; ++round) {
    for (int t = threadIdx.x; t < count; t += blockDim.x) {
      sum_out[t] = sum[t] + sum[stop[t]];                   // the end points to itself and has the sum 0
      stop_out[t] = stop[stop[t]];
    }
    __syncthreads();
    int* const swapped_stop = stop;
    int* const swapped_sum = sum;
    stop = stop_out;
    sum = sum_out;
    stop_out = swapped_stop;
    sum_out = swapped_sum;
  }
}

// left[e] = sum of the values from element e of the tour to its end. sum: of each walk, from k_walks.
extern "C" __global__ void __launch_bounds__(256)
k_spread(int most, const int* nodes, int shift, int groups, const int* next, const int* value, const int* sum, int* left) {
  const Tour tour(most, nodes, shift, next, value);
  for (long long t = grid_begin(); t <= groups; t += grid_step()) {
    int x = tour.start(static_cast<int>(t), groups);
    if (x < 0) continue;
    int rest = sum[t];
    do {
      left[x] = rest;
      rest -= value[x];
      x = next[x];
    } while (x != tour.end && !tour.is_splitter(x));
  }
}

// Children and depths of the nodes of a forest. Array `order` has the nodes sorted by parent, roots last. The sums `left` are over the
// tour with 1 at each entry and -1 at each exit. Array `most`, 0 before, receives the levels and the largest number of children.
extern "C" __global__ void __launch_bounds__(256)
k_depths(int count, const int* parent, const long long* order, const int* left, int* child, int* child_ptr, int* depth, int* most) {
  const auto first_child = [&](unsigned p) {
    int first = 0;
    for (int left_over = count; left_over > 0;) {
      const int half = left_over / 2;
      const bool below = static_cast<unsigned>(parent[order[first + half]]) < p;
      first += below ? half + 1 : 0;
      left_over = below ? left_over - half - 1 : half;
    }
    return first;
  };
  int deepest = 0, children = 0;
  for (long long f = grid_begin(); f < count; f += grid_step()) {
    const int begin = first_child(static_cast<unsigned>(f)), end = first_child(static_cast<unsigned>(f) + 1);
    child[f] = static_cast<int>(order[f]);
    child_ptr[f] = begin;
    if (f + 1 == count) child_ptr[count] = end;
    depth[f] = -left[2 * f];
    deepest = max(deepest, 1 - left[2 * f]);
    children = max(children, end - begin);
  }
  deepest = warp_max(deepest);
  children = warp_max(children);
  if ((threadIdx.x & 31) > 0) return;
  atomicMax(most, deepest);
  atomicMax(most + 1, children);
}
