// Instructions that CUDA C++ lacks: products on float64 tensor cores, and copies to shared memory that the thread does not wait for.
//
// The only file with inline PTX. The kernel harness compiles the plain C++ of each function, and refuses PTX elsewhere. The compiler
// accepts the instructions from compute capability 8.0 on, but few GPUs have fast tensor cores for float64.
#pragma once
#include "device/common.cuh"

namespace ms {

// True if tensor cores multiply float64 matrices. device/cuda.py defines the macro by the compute capability.
#ifdef MESHSOLVE_TENSOR_CORES
constexpr bool has_tensor_cores = true;
#else
constexpr bool has_tensor_cores = false;
#endif

// C += A B by a warp; A is 8 x 4, B is 4 x 8, C is 8 x 8. Lane 4 i + j has A(i, j), B(j, i), c = C(i, 2 j) and next = C(i, 2 j + 1).
// An entry is a chain of fused multiply-adds, in an order that the hardware defines.
__device__ __forceinline__ void multiply_add_8x8x4(double a, double b, double& c, double& next) {
#ifdef __KERNEL_HARNESS__
  const int lane = threadIdx.x & 31, i = lane / 4, j = lane % 4;
  for (int k = 0; k < 4; ++k) {
    const double left = __shfl_sync(full_warp, a, 4 * i + k);
    c = fma(left, __shfl_sync(full_warp, b, 8 * j + k), c);
    next = fma(left, __shfl_sync(full_warp, b, 8 * j + 4 + k), next);
  }
#else
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(c), "+d"(next)
               : "d"(a), "d"(b));
#endif
}

// Begins *to := *from, or *to := 0 if the number is not given; `to` is in shared memory. end_copies ends the group of such copies.
template <class T> __device__ __forceinline__ void copy_async(T* to, const T* from, bool is_given) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a copy has 4 or 8 bytes");
#ifdef __KERNEL_HARNESS__
  harness::copy_async(to, is_given ? *from : T(0));
#else
  const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = is_given ? static_cast<int>(sizeof(T)) : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(from), "n"(sizeof(T)), "r"(bytes) : "memory");
#endif
}

// Ends a group of copies of this thread, which may be empty.
__device__ __forceinline__ void end_copies() {
#ifdef __KERNEL_HARNESS__
  harness::end_copies();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for the groups of this thread except the last `pending` ones. A barrier then makes the numbers visible to other threads.
template <int pending> __device__ __forceinline__ void wait_for_copies() {
#ifdef __KERNEL_HARNESS__
  harness::wait_for_copies(pending);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

}  // namespace ms
