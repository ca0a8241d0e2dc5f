// Matrices that are summed up again and again in a pattern that is known.
#pragma once
#include <cstdint>

#include "sparse/csr.hpp"

namespace ms::operators {

// data[e] := the sum of values[source[p]] for p in [ptr[e], ptr[e + 1]), added in that order; each is `width` numbers, 1 or 2 (complex).
void assemble(const int64_t* ptr, int64_t count, const int32_t* source, int64_t width, const double* values, double* data, int threads);

struct ColumnsOfRows {                    // of a matrix whose rows are known: the entries of column j are row[p] and, among those of
  const int64_t* ptr;                     //   the rows, entry[p], for p in [ptr[j], ptr[j + 1])
  const int32_t* row;
  const int64_t* entry;
};

// J has A.n columns, its pattern as many rows as it likes, with ascending columns.
// data := the values of J^T D J on its pattern A, of which `mirror` says where the twin of each entry lies; D is the diagonal matrix of
// `weight`, or the identity if that is nullptr. One triangle is computed.
void weigh_normal(const Pattern& J, const double* values, const ColumnsOfRows& columns, const double* weight, const Pattern& A,
                  const int64_t* mirror, double* data, int threads);

}  // namespace ms::operators
