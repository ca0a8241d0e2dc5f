// Vector operations of Krylov iterations on blocks of k right-hand sides, stored by rows of k values. Operations on the same
// vectors share a sweep over memory. Sums run over fixed blocks of rows in a fixed order: the same bits on any number of threads.
#pragma once
#include <cstdint>

#include "sparse/csr.hpp"

namespace ms::krylov {

// The matrix whose row and column q are position[q] of A, into ptr (n + 1), idx and y (nnz). The entries of a row keep their
// order. O(n + nnz).
void renumber(const Pattern& A, const double* x, const int32_t* position, int64_t* ptr, int32_t* idx, double* y, int threads);

// X += P diag(alpha), R -= Q diag(alpha), and norms[c] = |r_c|^2.
void step(int64_t n, int64_t k, const double* alpha, const double* P, const double* Q, double* X, double* R, double* norms, int threads);

// P := Z + P diag(beta).
void direction(int64_t n, int64_t k, const double* beta, const double* Z, double* P, int threads);

// dots[c] = u_c . v_c.
void dot(int64_t n, int64_t k, const double* U, const double* V, double* dots, int threads);

// For SQMR on one right-hand side: R -= alpha T, returns |r|^2; D := a D + b Q, X += D.
double subtract(int64_t n, double alpha, const double* T, double* R, int threads);
void smooth(int64_t n, double a, double b, const double* Q, double* D, double* X, int threads);

}  // namespace ms::krylov
