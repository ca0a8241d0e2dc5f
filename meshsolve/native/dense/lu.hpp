// Dense kernels for an unsymmetric front, chosen like those of dense.hpp. All arrays are column-major; declarations only.
// A front of w pivots and u further rows and columns has the parts
//   P: (w + u) x w, the pivot block L11 \ U11 (L11 unit lower) above L21,
//   Q: u x w, the transpose of U12,
// so that its update matrix is C -= L21 Q^T and both solves (rows.hpp) run down columns.
#pragma once
#include "complex.hpp"
#include "int.hpp"

namespace ms {

struct Pivoting {
  double threshold;              // a diagonal entry stays pivot if it is at least this fraction of its column
  double tiny, perturbed_size;            // a pivot with absolute value below `tiny` is replaced by one of size `perturbed_size`
};

template <class T>
struct DenseLU {
  // L U of the first k columns of m rows with row exchanges: step c exchanges rows c and exchange[c] in all k columns. k <= 128.
  // Returns the number of perturbed pivots.
  Int (*panel)(Int m, Int k, T* A, Int lda, int* exchange, const Pivoting& rule);
  void (*gemm)(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc);      // C -= A B^T
  void (*solve_unit)(Int m, Int k, const T* L, Int ldl, T* B, Int ldb);      // B := B L^-T, L unit lower; k <= 128
  void (*solve_upper)(Int m, Int k, const T* U, Int ldu, T* B, Int ldb);     // B := B U^-1; k <= 128
  // Columns [begin, end) of the child's update matrix X (ld rows), rows from `row` on: adds X(i, j) to entry to[i] of column[j].
  // `runs` partitions the rows 0..ld into `count` pieces with consecutive targets, one of which begins at `row`; or count is 0.
  void (*extend_add)(Int begin, Int end, Int row, Int ld, const T* X, const int* to, const int* runs, Int count,
                     T* const* column);
  double (*largest)(Int n, const T* x);                                         // max |x|; |re| + |im| for complex numbers
};

template <class T> const DenseLU<T>& dense_lu();

}  // namespace ms
