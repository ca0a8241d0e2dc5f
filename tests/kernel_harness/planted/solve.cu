// x = b - L x in dependency order: blocks of a persistent kernel take rows from a counter and wait for each other. `plant`
// selects a fault that the harness must find; 0 for no fault.
#include "device/common.cuh"

enum Plant { none, overrun, no_barrier, no_fence, no_acquire, plain_flag };

extern "C" __global__ void __launch_bounds__(128)
k_solve(const int* indptr, const int* indices, const double* data, const double* b, double* x, int* done, int* head, int n,
        int plant) {
  __shared__ int row;
  __shared__ double part[4];
  for (;;) {
    if (threadIdx.x == 0) row = atomicAdd(head, 1);
    __syncthreads();
    const int r = row;
    if (r >= n) break;
    double sum = 0.0;
    for (int e = indptr[r] + threadIdx.x; e < indptr[r + 1]; e += blockDim.x) {
      const int c = indices[e];
      while (plant == plain_flag && done[c] == 0) __nanosleep(20);
      while (plant != plain_flag && static_cast<volatile int*>(done)[c] == 0) __nanosleep(20);
      if (plant != no_acquire) __threadfence();
      sum += data[e] * x[c];
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(ms::full_warp, sum, d);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = sum;
    if (plant != no_barrier) __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 1; w < static_cast<int>(blockDim.x >> 5); ++w) sum += part[w];
      x[plant == overrun ? r + 1 : r] = b[r] - sum;
      if (plant != no_fence) __threadfence();
      atomicExch(done + r, 1);
    }
    __syncthreads();
  }
}
