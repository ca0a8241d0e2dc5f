// An orthonormal basis as blocks of 8 columns: block b has n rows of 8 values from Q + b * n * 8 on. Products run over fixed ranges of rows whose results
// are added in their order: the same bits on any number of threads.
#pragma once
#include <cstdint>

namespace ms::eigen {

// H (8 (last - first) x 8, by rows) := Q_b^T W for the blocks first <= b < last. O(16 n (last - first) 8) operations.
void project(int64_t n, const double* Q, int64_t first, int64_t last, const double* W, double* H, int threads);

// Z -= sum of Q_b H_b over the same blocks.
void subtract(int64_t n, const double* Q, int64_t first, int64_t last, const double* H, double* Z, int threads);

// The first `to` blocks := [Q_0 .. Q_from-1] Y, where Y (8 from x 8 to) lies by rows; in place, to <= from.
void rotate(int64_t n, double* Q, int64_t from, int64_t to, const double* Y, int threads);

}  // namespace ms::eigen
