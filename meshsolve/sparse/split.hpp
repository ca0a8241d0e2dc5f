// What constrained systems are made of: the free rows and columns of a matrix and their coupling to the fixed ones; connected
// components, and columns without their means over these.
#pragma once
#include <cstdint>
#include <vector>

#include "csr.hpp"

namespace ms {

struct RowBlock {                          // of a matrix, by rows
  std::vector<int64_t> ptr;
  std::vector<int32_t> idx;
  std::vector<double> x;
};

struct Split {                          // of the free rows
  RowBlock free, coupling;                 // free columns; fixed columns
};

// free: the (count,) free rows, ascending. place[j]: number of column j among the free ones, or -1 minus that among the fixed
// ones. Entries of a row stay in their order. O(nnz(A)).
Split split(const Pattern& A, const double* x, const int32_t* free, int64_t count, const int32_t* place, int threads);

// (n) the connected component of each row of a symmetric matrix, numbered by their first rows; entries that are zero couple
// nothing. `count` gets their number. O(n + nnz(A)).
std::vector<int32_t> components(const Pattern& A, const double* x, int32_t* count);

// Takes from each of k columns, B by n rows, its means over the components, component[i] < count with size rows each, or -1 for rows
// in none; null where all rows are in one. Returns the means (count x k). O(n k).
std::vector<double> center(int64_t n, int64_t k, const int32_t* component, const double* size, int64_t count, double* B);

}  // namespace ms
