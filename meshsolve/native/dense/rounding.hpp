// Products that are rounded before they are added: no compiler fuses them, so the same bits come out wherever they are inlined.
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

}  // namespace ms
