// Tasks of the sweeps with a Cholesky factor, and the diagonal blocks whose inverses are stored.
#pragma once
#include "factor/fronts/fronts.cuh"

namespace ms::cholesky {

using fronts::Front;

constexpr int block_columns = 64;       // columns of a diagonal block that is inverted
constexpr int triangle = block_columns * (block_columns + 1) / 2;
constexpr int slots = 256;              // partial sums of a tile for each right-hand side; rows of a step backward
constexpr int warps_of_task = 8;        // small fronts of one task

enum Kind { few, tiles, sums };         // see sweeps.cu

struct Task {
  int kind;
  int front;                            // few: position of the first front in the order of the fronts
  int first, count;                     // tiles, or column blocks from the last to the first; sums: column block, range
  int rows;                             // of a tile below the pivots; backward: of a range, or 0 if there are no sums
  int slot;                             // first of the front in the partial sums
};

// Position of entry (i, k) of a packed lower triangle: without bank conflicts along rows and along columns.
__device__ __forceinline__ int packed(int i, int k) { return i * (i + 1) / 2 + k; }

__device__ __forceinline__ int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace ms::cholesky
