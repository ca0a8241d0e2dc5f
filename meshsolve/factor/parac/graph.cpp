// From a symmetric matrix with non-negative row sums to the weighted graph that is factored. Two sweeps, O(nnz).
#include <algorithm>
#include <cmath>

#include "parac.hpp"

namespace ms::parac {
namespace {

constexpr double eps = 2.220446049250313e-16;
constexpr double rounding = 1e-10;       // of the sum of moduli: a row sum that is negative by less is zero

struct Row {
  double sum = 0, moduli = 0;
  int64_t negative = 0, positive = 0;    // off-diagonal entries by sign
};

Row look_at(const Pattern& A, const double* x, int32_t i) {
  Row r;
  for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
    r.sum += x[p];
    r.moduli += std::abs(x[p]);
    if (A.idx[p] == i) continue;
    r.negative += x[p] < 0;
    r.positive += x[p] > 0;
  }
  return r;
}

// A thousandth of the median weight: the least that an edge weighs when one of its ends is eliminated. Edges of negative weight
// (positive entries) stay in the graph until then, because the pivots before that one sample edges which make up for them: the
// long edge of a sliver has the weight -K, and the two short ones, once their common vertex is gone, leave +K there.
double floor_weight(const Graph& g) {
  if (g.w.empty()) return 1;
  std::vector<double> w(g.w);
  std::nth_element(w.begin(), w.begin() + w.size() / 2, w.end());
  return 1e-3 * w[w.size() / 2];
}

// The same graph with the positive entries, in a second sweep as they are rare.
void add_negative_weights(Graph& g, const Pattern& A, const double* x) {
  g.floor = floor_weight(g);
  Graph all;
  all.ptr.assign(g.ptr.size(), 0);
  all.to.reserve(g.to.size() + g.floored);
  all.w.reserve(g.to.size() + g.floored);
  for (int32_t i = 0; i < g.n; ++i) {
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
      if (A.idx[p] != i && x[p] != 0) {
        all.to.push_back(A.idx[p]);
        all.w.push_back(-x[p]);
      }
    all.ptr[i + 1] = static_cast<int64_t>(all.to.size());
  }
  g.ptr.swap(all.ptr);
  g.to.swap(all.to);
  g.w.swap(all.w);
}

}  // namespace

Graph graph_of(const Pattern& A, const double* x) {
  Graph g;
  g.n = A.n;
  g.ptr.assign(A.n + 1, 0);
  g.to.resize(A.nnz());
  g.w.resize(A.nnz());
  int64_t next = 0;
  for (int32_t i = 0; i < A.n; ++i) {
    const Row row = look_at(A, x, i);
    const double noise = 4 * static_cast<double>(A.degree(i) + 1) * eps * row.moduli;
    if (row.sum < -std::max(noise, rounding * row.moduli) || !std::isfinite(row.moduli)) {
      g.bad_row = i;
      g.excess = row.sum;
      return g;
    }
    if (row.sum > noise) {
      if (g.ground.empty()) g.ground.assign(A.n, 0);
      g.ground[i] = row.sum;
    }
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
      g.to[next] = A.idx[p];
      g.w[next] = -x[p];
      next += A.idx[p] != i && x[p] < 0;
    }
    g.ptr[i + 1] = next;
    g.floored += row.positive;
  }
  g.to.resize(next);
  g.w.resize(next);
  if (g.floored) add_negative_weights(g, A, x);
  return g;
}

}  // namespace ms::parac
