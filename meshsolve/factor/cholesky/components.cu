// Connected components of a symmetric pattern given by its keys, row << 32 | column.
//
// Rounds of hooking and shortening after Shiloach and Vishkin 1982: root[v] <= v points towards the least vertex of v's component.
// The result is that least vertex whatever the order of threads; few rounds on meshes, O(log n) on any graph that was met.
#include "device/common.cuh"

using namespace ms;

__device__ inline int look(int* root, long long v) { return static_cast<volatile int*>(root)[v]; }

// The larger root of an entry's two ends is hung below the smaller one.
extern "C" __global__ void __launch_bounds__(256)
k_hook(long long count, const long long* keys, int* root, int* changed) {
  for (long long k = grid_begin(); k < count; k += grid_step()) {
    const int a = look(root, keys[k] >> 32), b = look(root, keys[k] & 0xffffffff);
    if (a == b) continue;
    atomicMin(root + max(a, b), min(a, b));
    *static_cast<volatile int*>(changed) = 1;               // an atomic would bring all threads of the grid into one line
  }
}

// Every vertex points to its root.
extern "C" __global__ void __launch_bounds__(256) k_shorten(int n, int* root) {
  for (long long v = grid_begin(); v < n; v += grid_step()) {
    int r = look(root, v);
    for (int above = look(root, r); above != r; above = look(root, r)) r = above;
    atomicMin(root + v, r);
  }
}
