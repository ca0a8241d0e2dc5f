// An orthonormal basis as blocks of 8 columns: block b has n rows of 8 values from Q + b * n * 8 on. Products run over fixed ranges of rows whose results
// are added in their order: the same bits on any number of threads.
#pragma once
#include <cstdint>

namespace ms::eigen {

// H (count x 8 (last - first) x 8) := Q_b^T W_c for the blocks first <= b < last of Q and `count` blocks W_c.
// O(16 n (last - first) 8 count) operations.
void project(int64_t n, const double* Q, int64_t first, int64_t last, const double* W, int64_t count, double* H, int threads);

// Z_c -= sum of Q_b H_cb over the same blocks.
void subtract(int64_t n, const double* Q, int64_t first, int64_t last, const double* H, int64_t count, double* Z, int threads);

// The first `to` blocks := [Q_0 .. Q_from-1] Y, where Y (8 from x 8 to) lies by rows; in place, to <= from.
void rotate(int64_t n, double* Q, int64_t from, int64_t to, const double* Y, int threads);

// X (n x k, by rows) := diag(scale) [Q_0 .. Q_from-1] Y, where Y (8 from x k) lies by rows.
void combine(int64_t n, const double* Q, int64_t from, const double* Y, int64_t k, const double* scale, double* X, int threads);

struct Pencil {                                     // two matrices in compressed rows with one pattern
  int64_t n;
  const int64_t* indptr;
  const int32_t* indices;
  const double *A, *M;                              // M: nullptr if it is diagonal
  const double* masses;                             // (n) the diagonal of M in this case
};

// Computes eight `facts` (8 x k) of each column x of X (n x k, by rows), n > 0. With r = A x - w M x and
// s = |A| |x| + |w| |M| |x| they are
// - the sums of weights r^2, of weights (M x)^2 and of weights s^2,
// - |x|^T |A| |x|, x^T A x and x^T M x,
// - the largest and the least entry of x.
// O(k nnz).
void measure(const Pencil& p, const double* weights, const double* w, const double* X, int64_t k, double* facts, int threads);

}  // namespace ms::eigen
