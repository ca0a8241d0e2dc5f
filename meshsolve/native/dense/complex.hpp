// Complex numbers of the numeric kernels. Files compiled for different instruction sets include this header, so all functions are
// always inlined: the linker has no copies to choose from.
#pragma once

namespace ms {

struct Complex {
  double re = 0, im = 0;
  [[gnu::always_inline]] constexpr Complex() = default;
  [[gnu::always_inline]] constexpr Complex(double r, double i = 0) : re(r), im(i) {}
  [[gnu::always_inline]] friend constexpr Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  [[gnu::always_inline]] friend constexpr Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  [[gnu::always_inline]] friend constexpr Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  [[gnu::always_inline]] friend constexpr Complex operator/(Complex a, Complex b) {       // scaled by the larger part of b
    const bool real = (b.re < 0 ? -b.re : b.re) >= (b.im < 0 ? -b.im : b.im);
    const double t = real ? b.im / b.re : b.re / b.im, d = real ? b.re + b.im * t : b.re * t + b.im;
    return real ? Complex{(a.re + a.im * t) / d, (a.im - a.re * t) / d} : Complex{(a.re * t + a.im) / d, (a.im * t - a.re) / d};
  }
  [[gnu::always_inline]] constexpr Complex& operator+=(Complex b) { return *this = *this + b; }
  [[gnu::always_inline]] constexpr Complex& operator-=(Complex b) { return *this = *this - b; }
  [[gnu::always_inline]] constexpr Complex& operator*=(Complex b) { return *this = *this * b; }
};

}  // namespace ms
