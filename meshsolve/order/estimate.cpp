// Estimates from the quotient graph of small patches, ordered by minimum degree. Cost: a tenth of a dissection.
#include "estimate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "mindeg.hpp"

namespace ms::order {
namespace {

// Number of matrix rows that the reduced graph represents.
double rows_of(const Reduced& reduced) {
  return static_cast<double>(reduced.group_start.empty() ? reduced.graph.n : reduced.group.size());
}

// True if the factorization is estimated to need at most `operations`. The estimate is the operations of minimum degree on the
// quotient graph times `per_patch_operation`. That ratio grows with the square of the patch size; it is given for patches of 64
// vertices.
bool estimated_within(double operations, double per_patch_operation, const Quotient& q, const Reduced& reduced) {
  const double group_size = rows_of(reduced) / reduced.graph.n;
  if (has_many_neighbors(reduced.graph)) per_patch_operation /= kFiner * kFiner;
  MinDegree<int32_t> graph;
  graph.begin(q.n(), q.n(), static_cast<int64_t>(q.adj.size()));
  for (int32_t i = 0; i < q.n(); ++i)
    std::copy(q.adj.begin() + q.ptr[i], q.adj.begin() + q.ptr[i + 1], graph.row(q.ptr[i + 1] - q.ptr[i]));
  std::vector<int32_t> unused(q.n());
  return graph.run(unused.data(), {.flops = operations / (group_size * group_size * group_size * per_patch_operation)});
}

}  // namespace

// The ratio for minimum degree: 2200 +- 20 % on meshes of 45,000 to 250,000 vertices, since the quotient graph has the shape of
// the mesh.
bool minimum_degree_is_cheap(const Quotient& q, const Reduced& reduced, double cheap) {
  return cheap > 0 && (std::isinf(cheap) || estimated_within(cheap * rows_of(reduced), 2200, q, reduced));
}

// The ratio for nested dissection: 600 (triangulations) to 2000 on surfaces, whose patches have 6 neighbors; 2000 (large graphs)
// to 4400 on volumes, whose patches have at least 12. The smallest value is used, so that only certain cases are refused.
bool takes_too_many(const Quotient& q, const Reduced& reduced, double most) {
  const bool in_space = static_cast<int64_t>(q.adj.size()) > int64_t{10} * q.n();
  return most < std::numeric_limits<double>::infinity() && !estimated_within(most, in_space ? 2000 : 600, q, reduced);
}

}  // namespace ms::order
