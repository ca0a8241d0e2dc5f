// The driver: an ordering becomes a postordered elimination tree with its column counts.
// Source: Liu 1990 (postordering changes neither fill nor flops); Davis 2006, "Direct methods for sparse linear systems", 4.
#include <utility>

#include "symbolic.hpp"

namespace ms::symbolic {

Symbolic analyze(const Pattern& A, const int32_t* perm, const Relaxation& relaxation, int threads) {
  Skeleton skeleton;
  Symbolic result{analyze_columns(A, perm, threads, &skeleton), {}};
  result.supernodes = relax(skeleton, result.analysis, relaxation, threads);
  return result;
}

Analysis analyze_columns(const Pattern& A, const int32_t* perm, int threads, Skeleton* skeleton) {
  Analysis result;
  result.iperm.resize(A.n);
  for (int32_t k = 0; k < A.n; ++k) result.iperm[perm[k]] = k;
  Triangles both = etree(A, perm, result.iperm.data(), threads);
  const std::vector<int32_t> place = postorder(both.parent);
  result.perm.resize(A.n);
  result.parent.resize(A.n);
  for (int32_t k = 0; k < A.n; ++k) {
    result.perm[place[k]] = perm[k];
    result.iperm[perm[k]] = place[k];
    result.parent[place[k]] = both.parent[k] < 0 ? -1 : place[both.parent[k]];
  }
  result.colcount = colcount(std::move(both), place, result.parent, threads, skeleton);
  result.total();
  return result;
}

void Analysis::total() {
  nnz = 0;
  flops = 0;
  for (const int32_t count : colcount) {
    nnz += count;
    flops += static_cast<double>(count) * count;
  }
}

}  // namespace ms::symbolic
