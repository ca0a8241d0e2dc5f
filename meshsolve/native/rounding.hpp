// Arithmetic whose bits do not depend on what a compiler makes of it: products that are not fused with a sum, and a division by a
// number whose reciprocal is known.
#pragma once
#include "native/rng.hpp"

namespace ms {

MS_HD inline double times(double x, double y) {
#ifdef __CUDACC__
  return __dmul_rn(x, y);
#else
  return x * y;
#endif
}

MS_HD inline float times(float x, float y) {
#ifdef __CUDACC__
  return __fmul_rn(x, y);
#else
  return x * y;
#endif
}

// Whether quotient() below is exact: neither it nor what it takes on the way leaves the range of normal numbers.
MS_HD inline bool is_tame(double x) {
  const double size = x < 0 ? -x : x;
  return size == 0 || (size > 1e-200 && size < 1e200);
}

// a / b, correctly rounded, for y = 1 / b, correctly rounded; a, b and a / b are tame. Source: Markstein 1990. The division of a GPU
// asks first whether its numbers are, and so waits for each; several of these run side by side.
MS_HD inline double quotient(double a, double b, double y) {
  const double first = a * y, better = fma(fma(-b, first, a), y, first);
  return fma(fma(-b, better, a), y, better);
}

}  // namespace ms
