// The driver: computes a postordered elimination tree and its column counts from an ordering.
// Source: Liu 1990 (postordering changes neither fill nor flops); Davis 2006, "Direct methods for sparse linear systems", 4.
#include <algorithm>
#include <utility>

#include "parts.hpp"
#include "symbolic.hpp"

namespace ms::symbolic {

namespace {

// The analysis in the postorder: given row k moves to position[k]. Column counts are not permuted.
Analysis moved(const int32_t* perm, const std::vector<int32_t>& parent, const std::vector<int32_t>& position, int threads) {
  const int32_t n = static_cast<int32_t>(parent.size());
  Analysis result;
  for (auto* v : {&result.perm, &result.iperm, &result.parent}) v->resize(n);
  for_range(threads, n, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) {
      result.perm[position[k]] = perm[k];
      result.iperm[perm[k]] = position[k];
      result.parent[position[k]] = parent[k] < 0 ? -1 : position[parent[k]];
    }
  });
  return result;
}

// Makes the Schur interface a chain at the top of the tree, with all subtrees that depend on it below its first column. One
// supernode needs no more, and below it neither row subtrees nor column counts change.
void chain(std::vector<int32_t>& parent, int32_t boundary) {
  const int32_t n = static_cast<int32_t>(parent.size()), first = n - boundary;
  for (int32_t j = 0; j < first; ++j) parent[j] = std::min(parent[j], first);
  for (int32_t j = first; j < n; ++j) parent[j] = j + 1 < n ? j + 1 : -1;
}

}  // namespace

Symbolic analyze(const Pattern& A, const int32_t* perm, int threads, const Relaxation& relaxation, int32_t boundary) {
  Skeleton skeleton;
  Symbolic result{analyze_columns(A, perm, threads, &skeleton, boundary), {}};
  result.supernodes = relax(A, &skeleton, result.analysis, threads, relaxation);
  return result;
}

Symbolic analyze(const Pattern& A, const order::Elimination& known, int threads, const Relaxation& relaxation, int32_t boundary) {
  const std::vector<int32_t> position = postorder(known.parent).position;
  Symbolic result{moved(known.perm.data(), known.parent, position, threads), {}};
  result.analysis.colcount.resize(A.n);
  for_range(threads, A.n, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) result.analysis.colcount[position[k]] = known.colcount[k];
  });
  result.analysis.boundary = boundary;
  result.analysis.total(threads);
  result.supernodes = relax(A, nullptr, result.analysis, threads, relaxation);
  return result;
}

Analysis analyze_columns(const Pattern& A, const int32_t* perm, int threads, Skeleton* skeleton, int32_t boundary) {
  const std::vector<int32_t> iperm = inverse(perm, A.n, threads);
  Triangles both = etree(A, perm, iperm.data(), threads);
  if (boundary > 0) {
    chain(both.parent, boundary);
    both.ranges.clear();                        // the chain connects them
  }
  const Postorder order = postorder(both.parent, both.ranges, threads);
  Analysis result = moved(perm, both.parent, order.position, threads);
  result.colcount = colcount(std::move(both), order, result.parent, threads, skeleton);
  result.boundary = boundary;
  for (int32_t j = A.n - boundary; j < A.n; ++j) result.colcount[j] = A.n - j;
  result.total(threads);
  return result;
}

void Analysis::total(int threads) {
  struct Sums { int64_t nnz = 0; double flops = 0; };
  std::vector<Sums> of_piece((n() + kRows - 1) / kRows);       // of columns, the same for any number of threads
  for_range(threads, n(), kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t j = begin; j < end; ++j) {
      Sums& sums = of_piece[j / kRows];
      sums.nnz += colcount[j];
      if (j < n() - boundary) sums.flops += static_cast<double>(colcount[j]) * colcount[j];
    }
  });
  nnz = 0;
  flops = 0;
  for (const Sums& sums : of_piece) {
    nnz += sums.nnz;
    flops += sums.flops;
  }
}

}  // namespace ms::symbolic
