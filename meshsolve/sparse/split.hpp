// Parts of constrained systems: the block of free rows and columns, its coupling to the fixed columns, connected components, and
// columns without their means over components.
#pragma once
#include <cstdint>
#include <vector>

#include "csr.hpp"

namespace ms {

struct RowBlock {                          // a block in compressed rows
  std::vector<int64_t> ptr;
  std::vector<int32_t> idx;
  std::vector<double> x;
};

struct Split {                          // the free rows
  RowBlock free, coupling;                 // free columns; fixed columns
};

// free: the (count,) free rows, ascending. position[j]: position of column j among the free ones, or -1 minus its position among the fixed
// ones. Entries of a row keep their order. Without values x the blocks have none. O(nnz(A)).
Split split(const Pattern& A, const double* x, const int32_t* free, int64_t count, const int32_t* position, int threads);

// Connected component of each row of a symmetric matrix, (n); components are numbered by their first rows. Zero entries connect
// nothing. `count` becomes the number of components. O(n + nnz(A)).
std::vector<int32_t> components(const Pattern& A, const double* x, int32_t* count);

// Subtracts from each of k columns, B by n rows, its means over the components. `component[i]` < count, or -1 for a row in none;
// null for a single component. size[c]: rows of component c. Returns the means (count x k). O(n k).
std::vector<double> center(int64_t n, int64_t k, const int32_t* component, const double* size, int64_t count, double* B);

}  // namespace ms
