// The scaled matrix S A S that a factorization works on, S made to fit the values at hand.
#pragma once
#include "native/csr.hpp"

namespace ms::ildl {

// scaled[p] := scale[i] a_ij scale[j] for the stored entries, after up to three rounds in which rows are multiplied with powers
// of two that bring their largest entry near 1; a scale that a matching has made for these values stays as it is. A: both
// triangles. O(nnz) a round.
void rescale(const Pattern& A, const double* values, double* scale, double* scaled, int threads);

}  // namespace ms::ildl
