// Dense kernels for one symmetric front, chosen by the instruction set of the machine at import.
// All arrays are column-major; the .inl files specify what each kernel reads and writes. Files compiled for different instruction
// sets include this header: declarations only.
#pragma once
#include "int.hpp"

namespace ms {

constexpr int touched_above = 16;      // entries of a column above the diagonal that `gemm_lower` may write, at most

template <class T>
struct Dense {
  void (*gemm_lower)(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc);    // lower part of C -= A B^T
  void (*gemm_lower_overwrite)(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc);    // of C = -A B^T
  Int (*panel)(Int m, Int k, T* A, Int lda);                        // L of an m x k panel; 0, or 1 + the failing column
  void (*trsm_rlt)(Int m, Int k, const T* L, Int ldl, T* B, Int ldb);                                   // B := B L^-T
  // Columns [begin, end) of X (m x m, lower): adds X(i, j) to row to[i], column to[j] (ascending) of a front. Y is its part from
  // row and column `origin` on.
  void (*extend_add)(Int begin, Int end, Int m, const T* X, const int* to, T* Y, Int ldy, Int origin);
  // Column x of a factor and k columns v, all of m rows, by k rotations of four numbers each: see rotate.inl.
  void (*rotate)(Int m, Int k, const T* rotations, T* x, T* const* v);
  void (*rotate_hyperbolic)(Int m, Int k, const T* rotations, T* x, T* const* v);
  const char* isa;
};

template <class T> const Dense<T>& dense();       // MESHSOLVE_ISA=v2|v3|v4 lowers the choice (tests)

}  // namespace ms
