// Singular components of a matrix whose pivots are all positive by rounding.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "factor/fronts/fronts.hpp"
#include "sparse/csr.hpp"
#include "native/threads/parallel.hpp"

namespace ms::cholesky {

// The last row (new numbering) of the first component on which all rows sum to 0, or -1. Only the first `n` rows, which are
// eliminated, are considered. Ax: values in the analyzed pattern, both triangles. O(nnz), called for matrices with suspiciously
// small pivots.
int32_t constant_component(const fronts::AssemblyTree& tree, const double* Ax);
int32_t constant_component(const Pattern& A, const double* Ax, const int32_t* iperm, int32_t n);

// The smallest ratio of a pivot to its diagonal entry of A, found by the threads during the factorization. For a zero pivot in
// rounding it is less than 2^-30, or 2^-13 in float32, for rows of any scale.
template <class T>
struct alignas(cache_line) LeastPivot {
  T ratio = 1;
  std::vector<T> diagonal;                // of the current front

  bool may_be_singular() const { return ratio < (sizeof(T) == 8 ? T(0x1p-30) : T(0x1p-13)); }
};

}  // namespace ms::cholesky
