// Dense kernels for one front, chosen by the machine's instruction set when the package is imported.
// All arrays are column-major; see the .inl files for what each kernel reads and writes. This header is included by files
// compiled for different instruction sets: declarations only.
#pragma once

namespace ms {

constexpr int short_run = 8;           // mean length of a run below which extend-add goes entry by entry
constexpr int solve_padding = 16;      // scalars past the last row that solves of dense_lu.inl may touch

template <class T>
struct Dense {
  void (*trapezoid)(long m, long n, long k, const T* A, long lda, const T* B, long ldb, T* C, long ldc);    // lower part of C -= A B^T
  long (*panel)(long m, long k, T* A, long lda);                        // L of an m x k panel; 0, or 1 + the failing column
  void (*trsm_rlt)(long m, long k, const T* L, long ldl, T* B, long ldb);                                   // B := B L^-T
  // right-hand sides by rows, s = 2, 4 or 8 values a row: see dense_rows.inl
  void (*forward)(long s, long m, long w, long c, const T* L, long ld, T* Y, T* U);
  void (*backward)(long s, long m, long w, long c, const T* L, long ld, T* Y, const T* X, const int* rows);
  void (*add_rows)(long s, long count, const int* to, long c, const T* from, T* Y, T* U);
  void (*extend_add)(long begin, long end, long m, const T* X, const int* to, const int* runs, long count, T* const* column);
  const char* isa;
};

template <class T> const Dense<T>& dense();       // MESHSOLVE_ISA=v2|v3|v4 lowers the choice (tests)

}  // namespace ms
