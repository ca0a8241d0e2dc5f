// Size and direction of a pivot, for real and complex numbers alike. The size of a complex number is |re| + |im|.
#pragma once
#include <cmath>
#include <cstdint>

#include "native/dense/complex.hpp"
#include "native/dense/lu.hpp"

namespace ms::lu {

inline double magnitude(double x) { return std::fabs(x); }
inline double magnitude(float x) { return std::fabs(x); }
inline double magnitude(Complex x) { return std::fabs(x.re) + std::fabs(x.im); }

template <class T>
T sign(T x) {
  return x < 0 ? T(-1) : T(1);
}
inline Complex sign(Complex x) {
  const double m = magnitude(x);
  return m > 0 ? Complex{x.re / m, x.im / m} : Complex{1, 0};
}

inline double larger(double a, double b) { return a < b ? b : a; }          // a if b is NaN

// Replaces a pivot that is too small. Returns how many pivots it replaced.
template <class T>
int64_t perturb(T& pivot, const Pivoting& rule) {
  if (magnitude(pivot) >= rule.tiny) return 0;
  pivot = sign(pivot) * T(rule.perturbed_size);
  return 1;
}

}  // namespace ms::lu
