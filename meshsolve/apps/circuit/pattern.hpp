// From triplets to compressed rows, once: where in the matrix each contribution of each element is added.
// Two counting sorts, O(n + triplets). Rows ascend within the pattern, every diagonal is there or not as the triplets say.
#pragma once
#include <cstdint>
#include <vector>

#include "sparse/csr.hpp"

namespace ms::circuit {

struct Positions {
  OwnedPattern pattern;
  std::vector<int64_t> slot;       // (triplets) place of each in the values of the pattern
};

Positions positions(int32_t n, const int32_t* rows, const int32_t* columns, int64_t count);

}  // namespace ms::circuit
