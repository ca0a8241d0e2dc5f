// Parts of a quotient graph: its connected components, and the graph of each label.
#pragma once
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "subpatch.hpp"

namespace ms::order {

inline int64_t weight_of(const Quotient& q) {
  return std::accumulate(q.vertex_weight.begin(), q.vertex_weight.end(), int64_t{0});
}

// The induced graph of each label. Vertices of weight 0 are left out. `more`: additional edges, as pairs of vertices of q.
std::vector<Quotient> parts(const Quotient& q, const std::vector<int32_t>& label, int32_t labels,
                            const std::vector<std::pair<int32_t, int32_t>>& more);

// Labels each vertex with its connected component. Returns the weights of the components.
std::vector<int64_t> components(const Quotient& q, std::vector<int32_t>& label);

}  // namespace ms::order
