// LU factorization of a small sparse matrix that is refactored many times. The pivot order is chosen once, by Markowitz's rule
// with threshold pivoting on the scaled matrix. Elimination is then a list of updates at stored positions. A new order is chosen
// when multipliers become too large. Sources: Markowitz 1957; Kundert 1986, "Sparse matrix techniques" (the solver of SPICE3).
// Cost: O(n^3) for an order, afterwards the multiplications of the elimination. For matrices of up to a few hundred rows.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::circuit {

class SmallLu {
 public:
  SmallLu(int32_t n, std::vector<int32_t> indptr, std::vector<int32_t> indices);

  bool factor(const double* values);                    // false: singular, or not finite
  void solve(const double* b, double* x);               // b and x must not overlap
  void residual(const double* values, const double* b, const double* x, double* r) const;      // r = b - A x

 private:
  struct Entry { int32_t slot, at; };                   // entry of a factor: slot of the value; row (of L) or column (of U)

  bool choose_order(const double* values);
  void scale(const double* values);
  void compile(const std::vector<char>& filled);
  bool eliminate(const double* values);
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
  std::vector<double> w_, inverse_, y_;                 // values at the slots, inverse pivots
};

}  // namespace ms::circuit
