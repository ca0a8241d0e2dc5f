// Correctly rounded divisions. A division of the compiler takes 460 cycles on an H200: it tests for special numbers first and
// does not overlap with others. Source: Markstein 1990, "Computation of elementary functions on the RISC System/6000".
#pragma once
#include "device/common.cuh"

namespace ms {

// x y + z, rounded once. A test compiles without it, to find products that the compiler itself has fused.
__device__ __forceinline__ double fused(double x, double y, double z) {
#ifdef MESHSOLVE_UNFUSED
  return __dadd_rn(__dmul_rn(x, y), z);
#else
  return fma(x, y, z);
#endif
}

// True if x is so far from the ends of the range that no step of a division overflows or underflows.
__device__ __forceinline__ bool is_tame(double x) {
  const double size = fabs(x);
  return size == 0 || (size > 1e-200 && size < 1e200);
}

// a / b for y = 1 / b, correctly rounded, where a, b and the result are tame.
__device__ __forceinline__ double quotient(double a, double b, double y) {
  const double first = a * y, better = fused(fused(-b, first, a), y, first);
  return fused(fused(-b, better, a), y, better);
}

// True if reciprocal(b) is correctly rounded. It is not for a mantissa of ones, or outside the range of a float.
__device__ __forceinline__ bool is_plain(double b) {
  const double size = fabs(b);
  return size > 1e-30 && size < 1e30 && static_cast<unsigned>(__double_as_longlong(b)) != ~0u;
}

// 1 / b: the reciprocal of a float, and Newton's steps.
__device__ __forceinline__ double reciprocal(double b) {
  double y = 1.0f / static_cast<float>(b);
  for (int step = 0; step < 3; ++step) y = fused(fused(-b, y, 1.0), y, y);
  return y;
}

// a / b of any numbers; the fast path is for numbers far from the ends of the range.
__device__ __forceinline__ double divided(double a, double b) {
  if (is_plain(b)) {
    const double found = quotient(a, b, reciprocal(b));
    if (is_tame(a) && is_tame(found)) return found;
  }
  return a / b;
}

}  // namespace ms
