// Repeated assembly of matrices with a fixed pattern.
#pragma once
#include <cstdint>

#include "sparse/csr.hpp"

namespace ms::operators {

// data[e] := sum of values[source[p]] for p in [ptr[e], ptr[e + 1]), in that order. Each value is `width` numbers, 1 or 2
// (complex).
// O(ptr[count]).
void assemble(const int64_t* ptr, int64_t count, const int32_t* source, int64_t width, const double* values, double* data, int threads);

struct ColumnsOfRows {                    // column access to a matrix in compressed rows, for p in [ptr[j], ptr[j + 1]):
  const int64_t* ptr;
  const int32_t* row;                     // row of an entry of column j
  const int64_t* entry;                   // its position in the compressed rows
};

// data := values of J^T D J on its pattern A. D is the diagonal matrix of `weight`, or the identity if weight is nullptr. Rows
// of J have ascending columns. mirror[p] is the position of the mirror entry of entry p of A. Only the upper triangle is
// computed, the lower one is copied. O(sum of the squared row lengths of J).
void weigh_normal(const Pattern& J, const double* values, const ColumnsOfRows& columns, const double* weight, const Pattern& A,
                  const int64_t* mirror, double* data, int threads);

}  // namespace ms::operators
