// Dense kernels for one front, chosen by the machine's instruction set when the package is imported.
// All arrays are column-major; see dense.inl for what each kernel reads and writes. This header is included by files
// compiled for different instruction sets: declarations only.
#pragma once

namespace ms {

constexpr int short_run = 8;           // mean length of a run below which extend-add goes entry by entry
constexpr int solve_padding = 16;      // scalars past the last row that forward and backward may touch (see dense.inl)

template <class T>
struct Dense {
  void (*trapezoid)(long m, long n, long k, const T* A, long lda, const T* B, long ldb, T* C, long ldc);    // lower part of C -= A B^T
  long (*panel)(long m, long k, T* A, long lda);                        // L of an m x k panel; 0, or 1 + the failing column
  void (*trsm_rlt)(long m, long k, const T* L, long ldl, T* B, long ldb);                                   // B := B L^-T
  // k is 1, 2, 3, 4 or 8; V is padded by solve_padding rows, zeros before `backward`
  void (*forward)(long m, long w, const T* L, long ld, long k, T* V, long ldv);
  void (*backward)(long m, long w, const T* L, long ld, long k, T* V, long ldv);
  void (*extend_add)(long begin, long end, long m, const T* X, const int* to, const int* runs, long count, T* const* column);
  const char* isa;
};

template <class T> const Dense<T>& dense();       // MESHSOLVE_ISA=v2|v3|v4 lowers the choice (tests)

}  // namespace ms
