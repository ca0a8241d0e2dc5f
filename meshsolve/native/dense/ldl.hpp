// The pivoted elimination inside a symmetric indefinite front, chosen like the kernels of dense.hpp. Declarations only.
#pragma once
#include "int.hpp"
#include "ldl_pivot.hpp"

namespace ms {

struct LdlRule {
  double threshold;              // entries of L are at most 1 / threshold; for 2x2 pivots the bound of Duff and Reid 1983
  double tiny;                   // a column without an entry above this size is zero, and so is its pivot
};

template <class T>
struct DenseLdl {
  // L D L^T with 1x1 and 2x2 pivots among the first w columns of m rows, w <= m; lower triangle, column-major, all columns
  // updated. Pivots come first, delayed columns without an acceptable pivot last, also updated; order[c] is the original index of
  // column c. Pivot columns become L with its unit diagonal (0 below it in the first column of a 2x2 pivot), W becomes L D. d, e:
  // the diagonal of D and its subdiagonal (0: 1x1 pivot). Returns the number of pivots, or ~c if the original column order[c] is
  // not finite; then the block is unchanged.
  Int (*eliminate)(Int m, Int w, T* A, Int lda, T* W, Int ldw, int* order, T* d, T* e, const LdlRule& rule);
};

template <class T> const DenseLdl<T>& dense_ldl();

}  // namespace ms
