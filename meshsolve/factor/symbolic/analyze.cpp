// The driver: an ordering becomes a postordered elimination tree with its column counts.
// Source: Liu 1990 (postordering changes neither fill nor flops); Davis 2006, "Direct methods for sparse linear systems", 4.
#include <utility>

#include "parts.hpp"
#include "symbolic.hpp"

namespace ms::symbolic {

namespace {

// The analysis in the order in which the given row k comes to place[k]; counts are not moved.
Analysis moved(const int32_t* perm, const std::vector<int32_t>& parent, const std::vector<int32_t>& place, int threads) {
  const int32_t n = static_cast<int32_t>(parent.size());
  Analysis result;
  for (auto* v : {&result.perm, &result.iperm, &result.parent}) v->resize(n);
  for_range(threads, n, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) {
      result.perm[place[k]] = perm[k];
      result.iperm[perm[k]] = place[k];
      result.parent[place[k]] = parent[k] < 0 ? -1 : place[parent[k]];
    }
  });
  return result;
}

}  // namespace

Symbolic analyze(const Pattern& A, const int32_t* perm, int threads) {
  Skeleton skeleton;
  Symbolic result{analyze_columns(A, perm, threads, &skeleton), {}};
  result.supernodes = relax(A, &skeleton, result.analysis, threads);
  return result;
}

Symbolic analyze(const Pattern& A, const order::Elimination& known, int threads) {
  const std::vector<int32_t> place = postorder(known.parent);
  Symbolic result{moved(known.perm.data(), known.parent, place, threads), {}};
  result.analysis.colcount.resize(A.n);
  for_range(threads, A.n, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) result.analysis.colcount[place[k]] = known.colcount[k];
  });
  result.analysis.total();
  result.supernodes = relax(A, nullptr, result.analysis, threads);
  return result;
}

Analysis analyze_columns(const Pattern& A, const int32_t* perm, int threads, Skeleton* skeleton) {
  const std::vector<int32_t> iperm = inverse(perm, A.n, threads);
  Triangles both = etree(A, perm, iperm.data(), threads);
  const std::vector<int32_t> place = postorder(both.parent);
  Analysis result = moved(perm, both.parent, place, threads);
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
