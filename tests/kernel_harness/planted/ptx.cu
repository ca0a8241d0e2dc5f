// The functions of device/ptx.cuh, for tests/device/test_ptx.py.
#include "device/ptx.cuh"

// C += A B for matrices of 8 x 4, 4 x 8 and 8 x 8 numbers by rows, one product for each warp.
extern "C" __global__ void __launch_bounds__(64) k_multiply(const double* A, const double* B, double* C) {
  const int product = static_cast<int>(ms::grid_begin() / 32), i = threadIdx.x % 32 / 4, j = threadIdx.x % 4;
  double* const c = C + 64 * product + 8 * i + 2 * j;
  double sum[2] = {c[0], c[1]};
  ms::multiply_add_8x8x4(A[32 * product + 4 * i + j], B[32 * product + 8 * j + i], sum[0], sum[1]);
  c[0] = sum[0];
  c[1] = sum[1];
}

// out := two groups of 64 copies, reversed; only the first `count` numbers are given. Waits for all groups except `pending` ones.
extern "C" __global__ void __launch_bounds__(64) k_copy(int count, int pending, const SCALAR* from, SCALAR* out) {
  __shared__ SCALAR first[64];
  __shared__ SCALAR second[64];
  const int t = threadIdx.x;
  ms::copy_async(first + t, from + t, t < count);
  ms::end_copies();
  ms::copy_async(second + t, from + 64 + t, t < count);
  ms::end_copies();
  if (pending == 0) ms::wait_for_copies<0>();
  if (pending == 1) ms::wait_for_copies<1>();
  __syncthreads();
  out[t] = first[63 - t];
  out[64 + t] = second[63 - t];
}
