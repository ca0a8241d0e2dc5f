// One kernel for each group of supported CUDA functions; test_surface.py compares the results with numpy.
#include "device/division.cuh"

extern "C" __global__ void __launch_bounds__(64) k_warp_words(const int* in, int* up, int* down, int* other, unsigned* ballot,
                                                             unsigned* match, int* reduced) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x, v = in[t];
  up[t] = __shfl_up_sync(ms::full_warp, v, 3);
  down[t] = __shfl_down_sync(ms::full_warp, v, 5, 16);
  other[t] = __shfl_xor_sync(ms::full_warp, v, 9);
  ballot[t] = __ballot_sync(ms::full_warp, v & 1);
  match[t] = __match_any_sync(ms::full_warp, v % 5);
  reduced[4 * t] = __reduce_add_sync(ms::full_warp, v);
  reduced[4 * t + 1] = __reduce_min_sync(ms::full_warp, v);
  reduced[4 * t + 2] = __any_sync(ms::full_warp, v == 7);
  reduced[4 * t + 3] = __all_sync(ms::full_warp, v < 1000);
}

extern "C" __global__ void __launch_bounds__(1024) k_block_words(const int* in, int* before, int* total, int* largest, int* odd) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  int all;
  before[t] = ms::block_exclusive_sum(in[t], all);
  total[t] = all;
  largest[t] = ms::block_max(in[t]);
  odd[t] = __syncthreads_count(in[t] & 1);
}

extern "C" __global__ void __launch_bounds__(256) k_running_sums(int* row, int n, int* total) {
  const int sum = ms::block_exclusive_sums(row, n);
  if (threadIdx.x == 0) *total = sum;
}

extern "C" __global__ void __launch_bounds__(256) k_sort(int* by_block, int* by_thread, int n) {
  ms::block_sort(by_block, n);
  if (threadIdx.x == 0) ms::sort_row(by_thread, n);
}

extern "C" __global__ void __launch_bounds__(128) k_divide(int n, const double* a, const double* b, double* known, double* out,
                                                          int* largest) {
  for (int k = ms::grid_begin(); k < n; k += ms::grid_step()) {
    known[k] = ms::is_tame(a[k]) && ms::is_tame(b[k]) && ms::is_tame(a[k] / b[k]) ? ms::quotient(a[k], b[k], 1 / b[k]) : a[k] / b[k];
    out[k] = ms::divided(a[k], b[k]);
  }
  largest[ms::grid_begin()] = static_cast<int>(ms::warp_max(threadIdx.x % 21u));
}

extern "C" __global__ void __launch_bounds__(128) k_search(const int* row, int n, const int* wanted, int m, int* found) {
  for (int k = ms::grid_begin(); k < m; k += ms::grid_step()) found[k] = ms::lower_bound(row, n, wanted[k]);
}

extern "C" __global__ void __launch_bounds__(128)
k_atomics(const int* in, int n, int* sums, float* fsum, double* dsum, unsigned long long* big, int* swapped) {
  for (int k = ms::grid_begin(); k < n; k += ms::grid_step()) {
    atomicAdd(sums, in[k]);
    atomicMin(sums + 1, in[k]);
    atomicMax(sums + 2, in[k]);
    atomicOr(sums + 3, 1 << (in[k] & 15));
    atomicSub(sums + 4, 1);
    atomicAdd(fsum, static_cast<float>(in[k]));
    atomicAdd(dsum, static_cast<double>(in[k]));
    atomicMax(big, static_cast<unsigned long long>(in[k]) << 32 | static_cast<unsigned>(k));
    if (atomicCAS(swapped, 0, k + 1) == 0) atomicExch(swapped + 1, k + 1);
  }
}

extern "C" __global__ void __launch_bounds__(32) k_bits(const unsigned* in, int* out) {
  const unsigned x = in[threadIdx.x];
  int* const row = out + 5 * threadIdx.x;
  row[0] = __popc(x);
  row[1] = __ffs(static_cast<int>(x));
  row[2] = __clz(static_cast<int>(x));
  row[3] = static_cast<int>(__brev(x));
  row[4] = __float_as_int(__int_as_float(static_cast<int>(x >> 2)));
}

// 3-D indices, two kinds of shared memory, an early return before a barrier.
extern "C" __global__ void __launch_bounds__(128) k_indices(int* out, int n) {
  extern __shared__ int shared[];
  __shared__ int2 pair[8][2];
  const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  if (t >= n) return;
  shared[t] = t;
  if (t < 16) pair[t >> 1][t & 1] = make_int2(t, b);
  __syncthreads();
  out[n * b + t] = shared[n - 1 - t] + 1000 * pair[(t >> 1) & 7][t & 1].y;
}
