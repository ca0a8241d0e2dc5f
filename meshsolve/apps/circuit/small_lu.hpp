// LU factorization of a small sparse matrix that is refactored many times. The pivot order is chosen once, by Markowitz's rule
// with threshold pivoting on the scaled matrix. Elimination is then a list of updates at stored positions. A new order is chosen
// when multipliers become too large. Sources: Markowitz 1957; Kundert 1986, "Sparse matrix techniques" (the solver of SPICE3).
// Cost: O(n entries) for an order and O(n^2) memory, afterwards the multiplications of the elimination. For matrices of up to about a
// thousand rows.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace ms::circuit {

// A complex number without the checks for NaN and infinity of std::complex, whose products cost several times as much.
struct Complex {
  double re, im;
  Complex& operator+=(Complex b) { return re += b.re, im += b.im, *this; }
  Complex& operator-=(Complex b) { return re -= b.re, im -= b.im, *this; }
  Complex& operator*=(Complex b) { return *this = {re * b.re - im * b.im, re * b.im + im * b.re}; }
  friend Complex operator*(Complex a, Complex b) { return a *= b; }
  friend Complex operator*(Complex a, double b) { return {a.re * b, a.im * b}; }
};

// A norm of a number: for complex numbers between its absolute value and 1.5 times as much.
inline double size(double x) { return std::abs(x); }
inline double size(Complex x) { return std::abs(x.re) + std::abs(x.im); }

// A power of two that brings the values near 1, or 1 in the usual range: products with conductances would lose digits to underflow, or
// overflow.
template <class T> double unit_of(const std::vector<T>& values) {
  double most = 0;
  for (const T& x : values) most = std::max(most, size(x));
  return (most >= 1e-150 && most <= 1e150) || !(most > 0) || !std::isfinite(most) ? 1.0 : std::exp2(std::min(-std::ilogb(most), 1000));
}

// T is double or Complex.
template <class T>
class SmallLu {
 public:
  SmallLu(int32_t n, std::vector<int32_t> indptr, std::vector<int32_t> indices);

  bool factor(const T* values);                         // false: singular, or not finite
  void solve(const T* b, T* x);                         // b and x must not overlap
  void residual(const T* values, const T* b, const T* x, T* r) const;      // r = b - A x
  int64_t work() const { return static_cast<int64_t>(updated_.size()) + 4 * static_cast<int64_t>(indices_.size()); }   // of a factor, about

 private:
  struct Entry { int32_t slot, at; };                   // entry of a factor: slot of the value; row (of L) or column (of U)

  bool choose_order(const T* values);
  void scale(const T* values);
  void compile(const std::vector<char>& filled);
  bool eliminate(const T* values);
  bool cancels();                                       // true if a pivot consists of rounding errors

  const int32_t n_;
  const std::vector<int32_t> indptr_, indices_;
  bool ordered_ = false;
  std::vector<double> row_scale_, col_scale_, weight_;  // weight: scale of each entry of A
  std::vector<int32_t> row_of_, col_of_;                // row and column of the k-th pivot
  std::vector<int32_t> slot_;                           // slot of each entry of A
  std::vector<int32_t> pivot_, lower_begin_, upper_begin_, updated_;      // updated: slot of each multiplication, in their order
  std::vector<Entry> lower_, upper_;                    // columns of L, rows of U, both without the pivots
  struct Product { int32_t lower, upper, pivot; };      // subtracted from a pivot: slots of L and U, number of the pivot
  std::vector<Product> products_;
  std::vector<double> sums_;                            // sum of the absolute values of the terms of each pivot
  std::vector<T> w_, inverse_, y_;                      // values at the slots, inverse pivots
};

}  // namespace ms::circuit
