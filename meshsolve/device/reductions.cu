// Reductions of whole arrays by many blocks: any, columns of tall matrices.
//
// A maximum is NaN if a value is NaN. Grids depend on sizes only and sums have a fixed order: the same bits in every run.
#include "device/common.cuh"

namespace ms::reductions {

struct Max {
  int magnitudes;
  __device__ double of(double x) const { return magnitudes ? fabs(x) : x; }
  __device__ double begin(double first) const { return of(first); }
  __device__ double operator()(double a, double b) const { return b > a || b != b ? b : a; }
};

struct Sum {
  __device__ double of(double x) const { return x; }
  __device__ double begin(double) const { return 0.0; }
  __device__ double operator()(double a, double b) const { return a + b; }
};

template <class Op> __device__ __forceinline__ double over_warp(double value, Op op) {
  for (int d = 16; d > 0; d /= 2) value = op(value, __shfl_xor_sync(full_warp, value, d));
  return value;
}

// out[block, c]: the reduction of column c over the rows of this thread block. `row` and `column` are the strides of x, n > 0.
template <class Op>
__device__ __forceinline__ void reduce_columns(long long n, int k, const double* x, long long row, long long column, double* out,
                                               Op op) {
  __shared__ double of_warps[32];
  for (int c = blockIdx.y; c < k; c += gridDim.y) {
    double value = op.begin(x[c * column]);
    for (long long i = grid_begin(); i < n; i += grid_step()) value = op(value, op.of(x[i * row + c * column]));
    value = over_warp(value, op);
    if ((threadIdx.x & 31) == 0) of_warps[threadIdx.x >> 5] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 1; w < static_cast<int>(blockDim.x >> 5); ++w) value = op(value, of_warps[w]);
      out[static_cast<long long>(blockIdx.x) * k + c] = value;
    }
    __syncthreads();
  }
}

}  // namespace ms::reductions

using namespace ms;
using namespace ms::reductions;

extern "C" __global__ void __launch_bounds__(256)
k_any(long long count, const bool* mask, int* found) {
  for (long long p = grid_begin(); p < count; p += grid_step())
    if (mask[p]) {
      atomicExch(found, 1);
      return;
    }
}

extern "C" __global__ void __launch_bounds__(256)
k_max_columns(long long n, int k, const double* x, long long row, long long column, double* out, int magnitudes) {
  reduce_columns(n, k, x, row, column, out, Max{magnitudes});
}

extern "C" __global__ void __launch_bounds__(256)
k_sum_columns(long long n, int k, const double* x, long long row, long long column, double* out) {
  reduce_columns(n, k, x, row, column, out, Sum{});
}

// down[c] = 2^-p, up[c] = 2^p for |size[c]| in [2^(p - 1), 2^p), p limited to +-most; 1 if size[c] is 0 or not finite.
extern "C" __global__ void __launch_bounds__(256)
k_powers(int k, const double* size, int most, double* down, double* up) {
  for (long long c = grid_begin(); c < k; c += grid_step()) {
    int p = 0;
    if (size[c] - size[c] == 0.0) frexp(size[c], &p);
    p = min(max(p, -most), most);
    down[c] = ldexp(1.0, -p);
    up[c] = ldexp(1.0, p);
  }
}
