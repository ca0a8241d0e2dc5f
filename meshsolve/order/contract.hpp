// Contracts the rows that are eliminated before others. See contract.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "sparse/csr.hpp"

namespace ms::order {

// `last`: distinct rows of a symmetric pattern, in the order in which they are eliminated after all others. In the result the rows of
// `last` come last, in this order, and before them there is a row for each connected part of the others.
OwnedPattern contract(const Pattern& A, const std::vector<int32_t>& last);

}  // namespace ms::order
