// Singular parts of a matrix whose pivots were all positive, by rounding.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "factor/fronts/fronts.hpp"
#include "native/csr.hpp"
#include "native/parallel.hpp"

namespace ms::cholesky {

// The new number of the last row of the first component on which all rows sum to 0, or -1. Ax: values in the analysed pattern, both
// triangles. O(nnz): for matrices whose pivots look like that.
int32_t constant_component(const fronts::AssemblyTree& tree, const double* Ax);
int32_t constant_component(const Pattern& A, const double* Ax, const int32_t* iperm);

// The smallest and the largest entry of the diagonal of L, found by threads on the way.
template <class T>
struct alignas(cache_line) PivotRange {
  T least = std::numeric_limits<T>::max(), most = 0;

  void hold(T pivot) {
    least = std::min(least, pivot);
    most = std::max(most, pivot);
  }
  void hold(const PivotRange& other) {
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
  // Where a matrix is singular in rounding their squares are as far apart as digits are many; where its rows are of very different
  // sizes, too.
  bool is_wide() const { return std::ilogb(most) - std::ilogb(least) > (sizeof(T) == 8 ? 15 : 7); }
};

}  // namespace ms::cholesky
