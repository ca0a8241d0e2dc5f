// Solves with a sparse unit triangular factor by level sets, k right-hand sides in rows of k values. Rows are numbered by level,
// so that a level is a range of rows. A wide level is one launch; one thread block does a run of narrow levels, with a barrier
// after each. A group of `lanes` threads sums one row; several warps if a level has few and long rows. The order of a sum is
// fixed and does not depend on k.
#include "device/common.cuh"

namespace ms::trisolve {

constexpr int most_lanes = 512;                             // threads of a block

template <class T> struct Rows {                            // minus the off-diagonal entries
  const long long* ptr;
  const int* idx;
  const T* value;

  // Sum of every step-th product of a row with column c of Y, from product `part` on.
  __device__ double product(long long row, long long c, int k, const double* Y, int part, int step) const {
    double sum = 0;
    for (long long p = ptr[row] + part; p < ptr[row + 1]; p += step) sum += value[p] * Y[idx[p] * static_cast<long long>(k) + c];
    return sum;
  }

  // Threads per row if a warp has more than two entries per thread.
  __device__ int lanes_for(long long from, long long end) const {
    const long long entries = ptr[end] - ptr[from], rows = end - from;
    int lanes = 32;
    while (2 * lanes * rows <= most_lanes && entries > 2 * lanes * rows) lanes *= 2;
    return lanes;
  }
};

__device__ __forceinline__ void finish(double* y, const double* scale, long long row, double sum) {
  *y = (scale ? scale[row] : 1.0) * *y + sum;
}

template <class T>
__device__ __forceinline__ void solve_level(const Rows<T>& N, long long from, long long end, int k, int lanes,
                                            const double* scale, double* Y) {
  const int lane = threadIdx.x & 31, part = lane % lanes;
  const long long items = (end - from) * k;
  for (long long base = (grid_begin() - lane) / lanes; base < items; base += grid_step() / lanes) {
    const long long item = base + lane / lanes, row = from + item / k, c = item % k;
    double sum = item < items ? N.product(row, c, k, Y, part, lanes) : 0;
    for (int d = lanes / 2; d > 0; d /= 2) sum += __shfl_xor_sync(full_warp, sum, d);
    if (item < items && part == 0) finish(Y + row * k + c, scale, row, sum);
  }
}

// The same with several warps per row.
template <class T>
__device__ __forceinline__ void solve_long_rows(const Rows<T>& N, long long from, long long end, int k, int lanes,
                                                const double* scale, double* Y) {
  __shared__ double sums[32];                               // one per warp
  while (lanes > static_cast<int>(blockDim.x)) lanes /= 2;
  const int thread = threadIdx.x, warp = thread / 32, part = thread % lanes, together = blockDim.x / lanes;
  const long long items = (end - from) * k;
  for (long long first = static_cast<long long>(blockIdx.x) * together; first < items; first += gridDim.x * together) {
    const long long item = first + thread / lanes, row = from + item / k, c = item % k;
    const bool on = thread / lanes < together && item < items;
    const double mine = warp_sum(on ? N.product(row, c, k, Y, part, lanes) : 0);
    if (thread % 32 == 0) sums[warp] = mine;
    __syncthreads();
    if (on && part < 32) {
      const double sum = warp_sum(part < lanes / 32 ? sums[warp + part] : 0);
      if (part == 0) finish(Y + row * k + c, scale, row, sum);
    }
    __syncthreads();
  }
}

// Y := scale Y + N Y, level after level; a null `scale` is all ones.
template <class T>
__device__ __forceinline__ void solve_levels(int first, int end, int step, const long long* level_ptr, int k, int lanes,
                                             const Rows<T>& N, const double* scale, double* Y) {
  for (int level = first; level != end; level += step) {
    const long long from = level_ptr[level], to = level_ptr[level + 1];
    const int wide = lanes < 32 ? lanes : N.lanes_for(from, to);
    if (wide > 32) solve_long_rows(N, from, to, k, wide, scale, Y);
    else solve_level(N, from, to, k, lanes, scale, Y);
    __syncthreads();
  }
}

}  // namespace ms::trisolve

// Levels first, first + step, ... before `end`; several levels by a single thread block only.
extern "C" __global__ void __launch_bounds__(512)
k_levels(int first, int end, int step, const long long* level_ptr, int k, int lanes, const long long* ptr, const int* idx,
         const SCALAR* value, const double* scale, double* Y) {
  ms::trisolve::solve_levels<SCALAR>(first, end, step, level_ptr, k, lanes, {ptr, idx, value}, scale, Y);
}
