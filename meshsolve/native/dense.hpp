// Dense kernels for one front, chosen by the machine's instruction set when the package is imported.
// All arrays are column-major; see dense.inl for what each kernel reads and writes. This header is included by files
// compiled for different instruction sets: declarations only.
#pragma once
#include "int.hpp"

namespace ms {

constexpr int short_run = 8;           // mean length of a run below which extend-add goes entry by entry
constexpr int solve_padding = 16;      // scalars past the last row that forward and backward may touch (see dense.inl)

template <class T>
struct Dense {
  void (*trapezoid)(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc);    // lower part of C -= A B^T
  Int (*panel)(Int m, Int k, T* A, Int lda);                        // L of an m x k panel; 0, or 1 + the failing column
  void (*trsm_rlt)(Int m, Int k, const T* L, Int ldl, T* B, Int ldb);                                   // B := B L^-T
  // k is 1, 2, 3, 4 or 8; V is padded by solve_padding rows, zeros before `backward`
  void (*forward)(Int m, Int w, const T* L, Int ld, Int k, T* V, Int ldv);
  void (*backward)(Int m, Int w, const T* L, Int ld, Int k, T* V, Int ldv);
  void (*extend_add)(Int begin, Int end, Int m, const T* X, const int* to, const int* runs, Int count, T* const* column);
  const char* isa;
};

template <class T> const Dense<T>& dense();       // MESHSOLVE_ISA=v2|v3|v4 lowers the choice (tests)

}  // namespace ms
