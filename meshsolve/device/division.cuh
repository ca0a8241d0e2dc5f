// Correctly rounded divisions. Those of the compiler take 460 cycles each on an H200, because they test for special numbers first
// and do not overlap. Source: Markstein 1990, "Computation of elementary functions on the RISC System/6000".
#pragma once
#include "device/common.cuh"

namespace ms {

// x y + z, rounded once. A test compiles without: what is fused then, the compiler has fused on its own.
__device__ __forceinline__ double fused(double x, double y, double z) {
#ifdef MESHSOLVE_UNFUSED
  return __dadd_rn(__dmul_rn(x, y), z);
#else
  return fma(x, y, z);
#endif
}

// Whether a number is so far from the ends of the range that nothing overflows or is lost on the way to a quotient.
__device__ __forceinline__ bool is_tame(double x) {
  const double size = fabs(x);
  return size == 0 || (size > 1e-200 && size < 1e200);
}

// a / b for y = 1 / b, correctly rounded, where a, b and the result are tame.
__device__ __forceinline__ double quotient(double a, double b, double y) {
  const double first = a * y, better = fused(fused(-b, first, a), y, first);
  return fused(fused(-b, better, a), y, better);
}

// Whether reciprocal(b) is correctly rounded: not for a mantissa of ones, nor beyond what a float holds.
__device__ __forceinline__ bool is_plain(double b) {
  const double size = fabs(b);
  return size > 1e-30 && size < 1e30 && static_cast<unsigned>(__double_as_longlong(b)) != ~0u;
}

// 1 / b by a float's and Newton's steps.
__device__ __forceinline__ double reciprocal(double b) {
  double y = 1.0f / static_cast<float>(b);
  for (int step = 0; step < 3; ++step) y = fused(fused(-b, y, 1.0), y, y);
  return y;
}

// a / b of any numbers, faster where they are ordinary.
__device__ __forceinline__ double divided(double a, double b) {
  if (is_plain(b)) {
    const double found = quotient(a, b, reciprocal(b));
    if (is_tame(a) && is_tame(found)) return found;
  }
  return a / b;
}

}  // namespace ms
