// Solves with one front, right-hand sides by rows of s = 1, 2, 4 or 8 values (complex: up to 4). The kernels are those of rows.inl and
// column.inl, chosen like those of dense.hpp. Declarations only. A right-hand side has the same bits alone and among others.
#pragma once
#include "complex.hpp"
#include "int.hpp"

namespace ms {

// Rows of U of one front as lu.hpp has them: U11 in the upper triangle of P, the transpose of U12 (u x w) in Q.
template <class T>
struct UpperFront {
  Int w, u;
  const T* P;
  Int ldp;
  const T* Q;
  Int ldq;
};

enum class Diagonal { stored, ones };

// L is m x w, column-major; L11 is its upper w x w part with a stored or a unit diagonal. Rows 0..c of the front (c >= w) are
// consecutive in Y; the rows below are in X, at the indices `rows`.
template <class T>
struct RowKernels {
  // Y(0:w) := L11^-1 Y(0:w), the rows below -= L21 Y(0:w). Without `rows` they are consecutive in X.
  void (*forward)(Int s, Diagonal diagonal, Int m, Int w, Int c, const T* L, Int ld, T* Y, T* X, const int* rows);
  // Y(0:w) := L11^-T (Y(0:w) - L21^T times the rows below), for a stored diagonal
  void (*backward)(Int s, Int m, Int w, Int c, const T* L, Int ld, T* Y, const T* X, const int* rows);
  // The same for a diagonal of ones; the rows below lie in V one after the other.
  void (*backward_unit)(Int s, Int m, Int w, const T* L, Int ld, T* Y, const T* V);
  // The same with the transpose of [U11 U12] as L; backward, the rows below are consecutive in V.
  void (*forward_upper)(Int s, const UpperFront<T>& f, T* Y, T* X, const int* rows);
  void (*backward_upper)(Int s, const UpperFront<T>& f, T* Y, const T* V);
  // Adds row i of `from` to row to[i] (ascending): of Y if to[i] < c, else of U.
  void (*add_rows)(Int s, Int count, const int* to, Int c, const T* from, T* Y, T* U);
};

template <class T> const RowKernels<T>& row_kernels();

}  // namespace ms
