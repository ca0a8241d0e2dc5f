// Solves with a sparse unit triangular factor by level sets, k right-hand sides in rows of k values. Rows are numbered by level,
// so that a level is a range of rows; a wide level is a launch of its own, a run of narrow ones is done by one block, which waits
// between levels at a barrier. A group of `lanes` threads adds up one row: the order of a sum is fixed.
#include "device/common.cuh"

namespace ms::trisolve {

// Y := scale Y + N Y, level after level, for N of minus the off-diagonal entries; `scale` null: 1.
template <class T>
__device__ __forceinline__ void solve_levels(int first, int end, int step, const long long* level_ptr, int k, int lanes,
                                             const long long* ptr, const int* idx, const T* value, const double* scale,
                                             double* Y) {
  const int lane = threadIdx.x & 31, part = lane % lanes;
  for (int level = first; level != end; level += step) {
    const long long from = level_ptr[level], items = (level_ptr[level + 1] - from) * k;
    for (long long base = (grid_begin() - lane) / lanes; base < items; base += grid_step() / lanes) {
      const long long item = base + lane / lanes, row = from + item / k, c = item % k;
      double sum = 0;
      if (item < items)
        for (long long p = ptr[row] + part; p < ptr[row + 1]; p += lanes) sum += value[p] * Y[idx[p] * static_cast<long long>(k) + c];
      for (int d = lanes / 2; d > 0; d /= 2) sum += __shfl_xor_sync(full_warp, sum, d);
      if (item < items && part == 0) Y[row * k + c] = (scale ? scale[row] : 1.0) * Y[row * k + c] + sum;
    }
    __syncthreads();
  }
}

}  // namespace ms::trisolve

// Levels first, first + step, ... before `end`; more than one only by a single block.
extern "C" __global__ void __launch_bounds__(512)
k_levels_double(int first, int end, int step, const long long* level_ptr, int k, int lanes, const long long* ptr, const int* idx,
                const double* value, const double* scale, double* Y) {
  ms::trisolve::solve_levels(first, end, step, level_ptr, k, lanes, ptr, idx, value, scale, Y);
}

extern "C" __global__ void __launch_bounds__(512)
k_levels_float(int first, int end, int step, const long long* level_ptr, int k, int lanes, const long long* ptr, const int* idx,
               const float* value, const double* scale, double* Y) {
  ms::trisolve::solve_levels(first, end, step, level_ptr, k, lanes, ptr, idx, value, scale, Y);
}
