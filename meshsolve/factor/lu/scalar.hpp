// Size and direction of a pivot, for real and complex numbers alike. The size of a complex number is the sum of its parts'.
#pragma once
#include <cmath>

#include "native/dense/complex.hpp"

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

}  // namespace ms::lu
