// Dense kernels for one front, chosen by the machine's instruction set when the package is imported.
// All arrays are column-major; see the .inl files for what each kernel reads and writes. This header is included by files
// compiled for different instruction sets: declarations only.
#pragma once
#include "int.hpp"

namespace ms {

constexpr int touched_above = 16;      // entries of a column above the diagonal that trapezoids may touch, at most

template <class T>
struct Dense {
  void (*trapezoid)(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc);    // lower part of C -= A B^T
  void (*fresh_trapezoid)(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc);    // of C = -A B^T
  Int (*panel)(Int m, Int k, T* A, Int lda);                        // L of an m x k panel; 0, or 1 + the failing column
  void (*trsm_rlt)(Int m, Int k, const T* L, Int ldl, T* B, Int ldb);                                   // B := B L^-T
  // Columns [begin, end) of X (m x m, lower): X(i, j) is added to row to[i], column to[j] of a front (ascending), whose row and
  // column `origin` are the first of Y.
  void (*extend_add)(Int begin, Int end, Int m, const T* X, const int* to, T* Y, Int ldy, Int origin);
  // Column x of a factor and k columns v, all of m rows, by k rotations of four numbers each: see rotate.inl.
  void (*rotate)(Int m, Int k, const T* rotations, T* x, T* const* v);
  void (*rotate_hyperbolic)(Int m, Int k, const T* rotations, T* x, T* const* v);
  const char* isa;
};

template <class T> const Dense<T>& dense();       // MESHSOLVE_ISA=v2|v3|v4 lowers the choice (tests)

}  // namespace ms
