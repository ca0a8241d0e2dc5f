// Singular parts of a matrix whose pivots were all positive, by rounding.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "factor/fronts/fronts.hpp"
#include "sparse/csr.hpp"
#include "native/threads/parallel.hpp"

namespace ms::cholesky {

// The new number of the last row of the first component on which all rows sum to 0, or -1; of the rows that are eliminated, the first
// `n` in new numbers. Ax: values in the analysed pattern, both triangles. O(nnz): for matrices whose pivots look like that.
int32_t constant_component(const fronts::AssemblyTree& tree, const double* Ax);
int32_t constant_component(const Pattern& A, const double* Ax, const int32_t* iperm, int32_t n);

// The smallest pivot beside the diagonal entry of A that it was made of, found by threads on the way. What rounding leaves of a zero
// is less than 2^-30 of that, or 2^-13 in float32; rows may be of any size.
template <class T>
struct alignas(cache_line) LeastPivot {
  T ratio = 1;
  std::vector<T> diagonal;                // of the front at hand

  bool may_be_singular() const { return ratio < (sizeof(T) == 8 ? T(0x1p-30) : T(0x1p-13)); }
};

}  // namespace ms::cholesky
