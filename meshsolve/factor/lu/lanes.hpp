// Four numbers, one of each of four systems that are factored together. All operations are those of four doubles, so a system has the
// bits that it has alone. Two vectors of two doubles are in every instruction set that is supported.
#pragma once
#include <cstdint>

#include "native/dense/lu.hpp"

namespace ms::lu {

struct Lanes {
  static constexpr int count = 4;
  using Two = double __attribute__((vector_size(16)));
  Two low, high;

  Lanes() = default;
  Lanes(double x) : low{x, x}, high{x, x} {}
  Lanes(Two l, Two h) : low(l), high(h) {}

  double operator[](int q) const { return q < 2 ? low[q] : high[q - 2]; }
  friend Lanes operator+(Lanes a, Lanes b) { return {a.low + b.low, a.high + b.high}; }
  friend Lanes operator-(Lanes a, Lanes b) { return {a.low - b.low, a.high - b.high}; }
  friend Lanes operator*(Lanes a, Lanes b) { return {a.low * b.low, a.high * b.high}; }
  friend Lanes operator/(Lanes a, Lanes b) { return {a.low / b.low, a.high / b.high}; }
  Lanes& operator+=(Lanes b) { return *this = *this + b; }
  Lanes& operator-=(Lanes b) { return *this = *this - b; }
  Lanes& operator*=(Lanes b) { return *this = *this * b; }
};

inline Lanes magnitude(Lanes x) {
  constexpr Lanes::Two zero{0, 0};
  return {x.low < zero ? -x.low : x.low, x.high < zero ? -x.high : x.high};
}
inline Lanes larger(Lanes a, Lanes b) { return {a.low < b.low ? b.low : a.low, a.high < b.high ? b.high : a.high}; }       // a if b is NaN

// As for one number, in each lane.
inline Lanes perturb(Lanes& pivot, const Pivoting& rule) {
  using Two = Lanes::Two;
  const auto perturbed = [&](Two& x) {
    const Two sign = x < Two{0, 0} ? Two{-1, -1} : Two{1, 1}, size = x * sign;
    const auto fits = size >= Two{rule.tiny, rule.tiny};
    x = fits ? x : sign * Two{rule.perturbed_size, rule.perturbed_size};
    return fits ? Two{0, 0} : Two{1, 1};
  };
  const Two low = perturbed(pivot.low);
  return {low, perturbed(pivot.high)};
}

}  // namespace ms::lu
