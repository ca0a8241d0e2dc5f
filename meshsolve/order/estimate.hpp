// Estimates of the operations of a factorization before anything is ordered. See estimate.cpp.
#pragma once
#include <cstdint>

#include "prepass.hpp"
#include "sparse/csr.hpp"
#include "subpatch.hpp"

namespace ms::order {

constexpr int64_t kManyNeighbors = 12;      // mean degree of volume meshes, in which a few layers are a large share of a part
constexpr int kFiner = 4;                   // factor by which patches are smaller from that degree on
inline bool has_many_neighbors(const Pattern& G) { return G.nnz() > kManyNeighbors * G.n; }

// True if minimum degree is estimated to need at most `cheap` operations per row; q: the quotient graph of the patches.
bool minimum_degree_is_cheap(const Quotient& q, const Reduced& reduced, double cheap);

// True if every order is estimated to need more than `most` operations.
bool takes_too_many(const Quotient& q, const Reduced& reduced, double most);

}  // namespace ms::order
