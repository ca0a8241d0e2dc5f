// The exact pattern of L and U of an unsymmetric matrix with pivots on its diagonal, in the given order.
#pragma once
#include <cstdint>
#include <vector>

namespace ms::symbolic {

struct Unsymmetric {                    // by columns, rows ascending, without the diagonal
  std::vector<int64_t> l_ptr, u_ptr;    // (n + 1)
  std::vector<int32_t> l_row, u_row;
  double flops() const;                 // multiplications and additions of a factorization, divisions as one
};

// A by columns: rows row[ptr[j]] to row[ptr[j + 1] - 1] of column j; the diagonal need not be stored.
Unsymmetric unsymmetric(int32_t n, const int64_t* ptr, const int32_t* row);

}  // namespace ms::symbolic
