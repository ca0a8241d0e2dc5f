// The scaled matrix S A S that a factorization works on, S made to fit the values at hand.
#pragma once
#include "sparse/csr.hpp"

namespace ms::ldlt {

// scaled[p] := scale[i] a_ij scale[j] for the stored entries, after up to three rounds in which rows are multiplied with powers
// of two that bring their largest entry near 1; a scale that a matching has made for these values stays as it is. A dense row of
// a `complete` factorization is brought to a 2-norm near 1 instead: elimination adds its entries up, and they would outgrow the
// pivots, while its own pivot, a sum of their squares, has to stay far from zero. A: both triangles. O(nnz) a round. Returns how
// many powers of two lay between the sizes of the rows before, 0 where all fitted, infinite where a row left the range of float64.
double rescale(const Pattern& A, const double* values, double* scale, double* scaled, bool complete, int threads);

// The largest sum of a row of |A|, from what is kept of it: scaled, with its scale. O(nnz).
double norm(const Pattern& A, const double* scaled, const double* scale, int threads);

}  // namespace ms::ldlt
