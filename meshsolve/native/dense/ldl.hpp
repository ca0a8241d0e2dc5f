// The pivoted elimination inside a symmetric indefinite front, chosen like the kernels of dense.hpp. Declarations only.
#pragma once
#include "int.hpp"
#include "ldl_pivot.hpp"

namespace ms {

struct LdlRule {
  double threshold;              // pivots keep every entry of L below 1 / threshold, 2x2 pivots by the bound of Duff and Reid 1983
  double tiny;                   // a column whose entries are all below is zero: so is its pivot
};

template <class T>
struct DenseLdl {
  // L D L^T with 1x1 and 2x2 pivots among the first w columns of m rows, w <= m; lower triangle, column-major, all columns up
  // to date. Pivots come first, columns without an acceptable pivot last, up to date as well; order[c] names the column that
  // stands at c. Pivot columns hold L with its unit diagonal (0 below it in the first column of a 2x2 pivot), W holds L D. d, e:
  // the diagonal of D and what stands below it (0: none). Returns the number of pivots, or ~c where order[c] names a column that
  // holds what is not finite; then the block is left as it is.
  Int (*eliminate)(Int m, Int w, T* A, Int lda, T* W, Int ldw, int* order, T* d, T* e, const LdlRule& rule);
};

template <class T> const DenseLdl<T>& dense_ldl();

}  // namespace ms
