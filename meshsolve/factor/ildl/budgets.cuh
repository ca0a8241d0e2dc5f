// Memory budgets of incomplete.cpp, one depth at a time: how many columns each row may keep, and which are dropped.
#pragma once
#include "factor/ildl/rows.cuh"

namespace ms::ildl {

// Inclusive maximum scan over the threads of a block. A barrier must lie between two calls.
__device__ __forceinline__ long long block_inclusive_max(long long value, long long& most) {
  __shared__ long long largest[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  for (int step = 1; step < 32; step *= 2) {
    const long long below = __shfl_up_sync(full_warp, value, step);
    if (lane >= step && below > value) value = below;
  }
  if (lane == 31) largest[warp] = value;
  __syncthreads();
  for (int w = 0; w < warp; ++w) value = max(value, largest[w]);
  most = largest[0];
  for (int w = 1; w < warps; ++w) most = max(most, largest[w]);
  return value;
}

// Let S_t be the sum of the needs beyond the budget of rows up to t. Then max(spare, S_1, ..., S_{t-1}) - S_{t-1} is left for row
// t. Returns the number of rows that must be trimmed.
__device__ __forceinline__ long long share(const Rows& R, int depth) {
  const int from = R.depth_ptr[depth], to = R.depth_ptr[depth + 1];
  long long sum = 0, most = static_cast<long long>(R.state[spare]), cut = 0;
  for (int base = from; base < to; base += blockDim.x) {
    const int t = base + threadIdx.x, i = t < to ? R.order[t] : -1;
    long long budget = 0, over = 0, total, highest;
    if (i >= 0) {
      budget = budget_of(R.max_fill, R.a_ptr[R.begin[i + 1]] - R.a_ptr[R.begin[i]]);
      over = R.count[i] - budget;
    }
    const long long before = sum + block_exclusive(over, total);
    const long long left = max(most, block_inclusive_max(before, highest)) - before;
    if (i >= 0) R.keep[i] = over > left ? static_cast<int>(budget + left) : -1;
    sum += total;
    most = max(most, highest);
    block_exclusive(i >= 0 && over > left, total);
    cut += total;
  }
  if (threadIdx.x == 0) R.state[spare] = static_cast<unsigned long long>(max(most, sum) - sum);
  return cut;
}

// The keep-th largest column size of a row, as the bits of a double, and the number of larger sizes.
__device__ __forceinline__ unsigned long long find_threshold(const double* size, int count, int keep, long long& larger) {
  unsigned long long found = 0;
  larger = 0;
  for (int bit = 62; bit >= 0; --bit) {
    const unsigned long long trial = found | 1ull << bit;
    long long mine = 0, total;
    for (int q = threadIdx.x; q < count; q += blockDim.x)
      mine += static_cast<unsigned long long>(__double_as_longlong(size[q])) >= trial;
    block_exclusive(mine, total);
    if (total >= keep) found = trial;
    else larger = total;                  // count of the last rejected trial: the sizes above `found`
  }
  return found;
}

// Keeps the columns of row i with the largest entries, of equal ones the first. In place: each kept column moves towards the
// front.
__device__ __forceinline__ void trim(const Rows& R, int i) {
  __shared__ int source[most_threads];
  const int m = R.begin[i + 1] - R.begin[i], count = R.count[i], keep = R.keep[i];
  int* const name = R.name + R.first_name[i];
  double *const size = R.size + R.first_name[i], *const value = R.value + R.first_value[i],
               *const scaled = R.scaled + R.first_value[i];
  long long larger = 0, equal = 0, kept = 0;
  const unsigned long long threshold = keep > 0 ? find_threshold(size, count, keep, larger) : ~0ull;
  for (int base = 0; base < count; base += blockDim.x) {
    const int q = base + threadIdx.x, own = q < count ? name[q] : 0;
    const double most = q < count ? size[q] : 0;
    const unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(most));
    long long ties, stay;
    const bool tie = q < count && bits == threshold;
    const long long rank = equal + block_exclusive(tie, ties);
    const bool stays = (q < count && bits > threshold && keep > 0) || (tie && rank < keep - larger);
    const long long position = block_exclusive(stays, stay);
    if (stays) {
      source[position] = q;
      name[kept + position] = own;
    }
    __syncthreads();
    for (long long base_value = 0; base_value < stay * m; base_value += blockDim.x) {
      const long long p = base_value + threadIdx.x;
      const bool moves = p < stay * m;
      const long long at = moves ? static_cast<long long>(source[p / m]) * m + p % m : 0;
      const double x = moves ? value[at] : 0, w = moves ? scaled[at] : 0;
      __syncthreads();
      if (moves) {
        value[kept * m + p] = x;
        scaled[kept * m + p] = w;
      }
    }
    equal += ties;
    kept += stay;
  }
  if (threadIdx.x == 0) R.count[i] = static_cast<int>(kept);
}

}  // namespace ms::ildl
