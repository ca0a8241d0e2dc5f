// Connected components of a symmetric pattern given by its keys, row << 32 | column, and sums over the rows of each.
//
// Source: Shiloach and Vishkin 1982, rounds of hooking and pointer jumping. root[v] <= v points towards the smallest vertex of v's
// component. The result does not depend on the order of threads. Meshes need few rounds; no graph so far needed more than O(log n).
#include "device/common.cuh"

using namespace ms;

__device__ inline int load(int* root, long long v) { return static_cast<volatile int*>(root)[v]; }

// Hangs the larger root of the two ends of an entry below the smaller one.
extern "C" __global__ void __launch_bounds__(256)
k_hook(long long count, const long long* keys, int* root, int* changed) {
  for (long long k = grid_begin(); k < count; k += grid_step()) {
    const int a = load(root, keys[k] >> 32), b = load(root, keys[k] & 0xffffffff);
    if (a == b) continue;
    atomicMin(root + max(a, b), min(a, b));
    *static_cast<volatile int*>(changed) = 1;               // a plain store: an atomic would serialize all threads of the grid
  }
}

// Lets every vertex point to its root.
extern "C" __global__ void __launch_bounds__(256) k_shorten(int n, int* root) {
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    int r = load(root, v);
    for (int above = load(root, r); above != r; above = load(root, r)) r = above;
    atomicMin(root + v, r);
  }
}

// sums(g, c) = sum of rows order[ptr[g]] to order[ptr[g + 1] - 1] of a C-ordered (.., k) array, in a fixed order of additions.
// Without `order`: rows ptr[g] to ptr[g + 1] - 1. `squares`: of the squares of the numbers. Grid: segments x columns; fewer thread
// blocks loop over the columns.
extern "C" __global__ void __launch_bounds__(256)
k_sum_segments(const long long* ptr, const int* order, int k, int squares, const double* X, double* sums) {
  for (int c = blockIdx.y; c < k; c += gridDim.y) {
    double sum = 0, total;
    for (long long p = ptr[blockIdx.x] + threadIdx.x; p < ptr[blockIdx.x + 1]; p += blockDim.x) {
      const double x = X[(order ? order[p] : p) * k + c];
      sum += squares ? x * x : x;
    }
    block_exclusive_sum(sum, total);
    if (threadIdx.x == 0) sums[static_cast<long long>(blockIdx.x) * k + c] = total;
  }
}
