// Products with tall blocks of 8 columns that lie by rows, for orthogonalization: chosen like the kernels of dense.hpp. Declarations only.
#pragma once
#include "int.hpp"

namespace ms {

constexpr Int tall_width = 8;                       // columns of a block: one row is a cache line

// Both prefetch n rows from `ahead` on, those of the next call.
struct TallKernels {
  void (*project)(Int n, const double* Q, const double* W, double* H, const double* ahead);      // H (8 x 8, by rows) += Q^T W
  void (*add)(Int n, const double* Q, const double* H, double* Z, const double* ahead);          // Z += Q H
};

const TallKernels& tall_kernels();

}  // namespace ms
