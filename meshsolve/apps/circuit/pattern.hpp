// Pattern of a matrix from triplets in compressed rows, and the position of each triplet in it.
// Two counting sorts, O(n + triplets). Columns ascend within rows. The diagonal has only the entries of the triplets.
#pragma once
#include <cstdint>
#include <vector>

#include "sparse/csr.hpp"

namespace ms::circuit {

struct Positions {
  OwnedPattern pattern;
  std::vector<int64_t> slot;       // (triplets) position of each triplet among the entries of the pattern
};

Positions positions(int32_t n, const int32_t* rows, const int32_t* columns, int64_t count);

}  // namespace ms::circuit
