// The scaled matrix S A S that is factored, and the update of its scaling S for new values.
#pragma once
#include "sparse/csr.hpp"

namespace ms::ldlt {

// scaled[p] := scale[i] a_ij scale[j] for the stored entries. Before, up to three rounds multiply rows by powers of two that
// bring their largest entry near 1. A scale that a matching has made for these values is not changed. A dense row of a `complete`
// factorization is brought to a 2-norm near 1 instead. Elimination sums its entries, which would outgrow the pivots, but its own
// pivot, a sum of their squares, must stay far from zero. A: both triangles. O(nnz) a round. Returns the spread of the row sizes
// before, as a power of two: 0 if no row needed scaling, infinite if a row left the range of float64.
double rescale(const Pattern& A, const double* values, double* scale, double* scaled, bool complete, int threads);

// The largest row sum of |A|, computed from the scaled matrix and its scale. O(nnz).
double norm(const Pattern& A, const double* scaled, const double* scale, int threads);

// The same from the values of A, NaN if one is NaN: with the same bits, as scales are powers of two.
double norm(const Pattern& A, const double* values);

}  // namespace ms::ldlt
