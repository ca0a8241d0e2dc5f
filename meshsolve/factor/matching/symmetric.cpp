// Symmetrized matching: which rows of a symmetric matrix may serve as pivots alone and which in pairs.
// A maximum product matching sends row i to column p(i); its cycles are cut into pairs (i, p(i)), which become candidates of
// 2x2 pivots, and |s_i a_ij s_j| <= 1 holds for s_i = sqrt(r_i c_i) with the scalings of the matching.
// Source: Duff and Pralet 2005, "Strategies for scaling and pivoting for sparse symmetric indefinite problems", section 3;
// Hagemann and Schenk 2006, "Weighted matchings for preconditioning symmetric indefinite linear systems", section 3.
// Cost: the matching, and O(nnz) beside it.
#include <algorithm>
#include <cmath>

#include "matching.hpp"

namespace ms::matching {
namespace {

constexpr double strong = 0.1;               // scaled diagonal entry from which a row is a pivot by itself

class Pairing {
 public:
  Pairing(const Pattern& A, const double* magnitude, const Matching& matched, SymmetricMatching& out)
      : A_(A), column_of_(A.n, -1), diagonal_(A.n, 0.0), out_(out) {
    for (int32_t j = 0; j < A.n; ++j)
      if (matched.row_of[j] >= 0) column_of_[matched.row_of[j]] = j;
    for (int32_t i = 0; i < A.n; ++i)
      for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
        if (A.idx[p] == i) diagonal_[i] = magnitude[p] * out.scale[i] * out.scale[i];
    out.partner.assign(A.n, -1);
    row_of_ = &matched.row_of;
  }

  // Paths (of singular matrices) from their first row, then cycles.
  void run() {
    std::vector<uint8_t> seen(A_.n, 0);
    for (int pass = 0; pass < 2; ++pass)
      for (int32_t i = 0; i < A_.n; ++i) {
        if (seen[i] || (pass == 0 && (*row_of_)[i] >= 0)) continue;
        chain_.clear();
        for (int32_t k = i; k >= 0 && !seen[k]; k = column_of_[k]) {
          seen[k] = 1;
          chain_.push_back(k);
        }
        cut(pass == 1);
      }
  }

 private:
  int32_t at(size_t k) const { return chain_[k % chain_.size()]; }

  void cut(bool cycle) {
    const size_t length = chain_.size(), alone = length % 2 ? release(cycle) : length;
    if (cycle) {
      const size_t start = length % 2 ? alone + 1 : length > 2 && overlap(1) > overlap(0);
      for (size_t k = 0; k < length / 2; ++k) pair(at(start + 2 * k), at(start + 2 * k + 1));
      return;
    }
    for (size_t k = alone == 0; k + 1 < length; k += 2 + (k + 2 == alone)) pair(chain_[k], chain_[k + 1]);
  }

  // The row of an odd chain that stays alone: the largest diagonal, in a path at an even position.
  size_t release(bool cycle) {
    size_t best = 0;
    for (size_t k = 0; k < chain_.size(); k += cycle ? 1 : 2)
      if (diagonal_[chain_[k]] > diagonal_[chain_[best]]) best = k;
    return best;
  }

  // Of a pair whose rows are both strong by themselves nothing is gained.
  void pair(int32_t i, int32_t j) {
    if (diagonal_[i] >= strong && diagonal_[j] >= strong) return;
    out_.partner[i] = j;
    out_.partner[j] = i;
  }

  // Neighbours that the pairs of a cycle have in common, when pairing starts at its row `start`: fewer are filled then.
  int64_t overlap(size_t start) const {
    int64_t common = 0;
    for (size_t k = start; k < start + chain_.size(); k += 2) {
      const int32_t i = at(k), j = at(k + 1);
      int64_t p = A_.ptr[i], q = A_.ptr[j];
      while (p < A_.ptr[i + 1] && q < A_.ptr[j + 1]) {
        const int32_t a = A_.idx[p], b = A_.idx[q];
        common += a == b;
        p += a <= b;
        q += b <= a;
      }
    }
    return common;
  }

  const Pattern A_;
  std::vector<int32_t> column_of_;
  const std::vector<int32_t>* row_of_ = nullptr;
  std::vector<double> diagonal_;             // scaled magnitudes
  std::vector<int32_t> chain_;
  SymmetricMatching& out_;
};

}  // namespace

namespace {

// Rows that a structurally singular matrix leaves unmatched have no scaling of their own: their largest entry becomes 1.
void scale_unmatched(const Pattern& A, const double* magnitude, const Matching& matched, std::vector<double>& scale) {
  std::vector<uint8_t> whole(A.n, 0);
  for (const int32_t i : matched.row_of)
    if (i >= 0) whole[i] = 1;
  for (int32_t i = 0; i < A.n; ++i) {
    if (whole[i] && matched.row_of[i] >= 0) continue;
    double largest = 0;
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
      const double entry = magnitude[p];
      largest = std::max(largest, A.idx[p] == i ? std::sqrt(entry) : entry * scale[A.idx[p]]);
    }
    scale[i] = largest > 0 ? 1 / largest : 1;
  }
}

}  // namespace

SymmetricMatching symmetric(const Pattern& A, const double* magnitude) {
  const Matching matched = maximum_product(A, magnitude);
  SymmetricMatching out;
  out.rank = matched.rank;
  out.scale.resize(A.n);
  for (int32_t i = 0; i < A.n; ++i) out.scale[i] = std::sqrt(matched.row_scale[i]) * std::sqrt(matched.col_scale[i]);
  if (out.rank < A.n) scale_unmatched(A, magnitude, matched, out.scale);
  Pairing(A, magnitude, matched, out).run();
  return out;
}

std::vector<uint8_t> weak_rows(const Pattern& A, const double* magnitude, const double* scale, const int32_t* perm) {
  std::vector<uint8_t> weak(A.n, 1);
  for (int32_t k = 0; k < A.n; ++k) {
    const int32_t i = perm[k];                 // rows that come later are still marked weak
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1] && weak[i]; ++p) {
      const int32_t j = A.idx[p];
      if ((j == i || !weak[j]) && magnitude[p] * scale[i] * scale[j] >= strong) weak[i] = 0;
    }
  }
  return weak;
}

// Vertices in the order of their first rows.
Compression compress(const Pattern& A, const std::vector<int32_t>& partner) {
  Compression c;
  std::vector<int32_t> vertex(A.n);
  for (int32_t i = 0; i < A.n; ++i) {
    const bool second = partner[i] >= 0 && partner[i] < i;
    vertex[i] = second ? vertex[partner[i]] : static_cast<int32_t>(c.first.size());
    if (!second) c.first.push_back(i);
  }
  const int32_t count = static_cast<int32_t>(c.first.size());
  std::vector<int32_t> mark(count, -1);
  c.graph.ptr.assign(1, 0);
  c.graph.idx.reserve(A.nnz());
  const auto add_row = [&](int32_t v, int32_t i) {
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
      if (const int32_t w = vertex[A.idx[p]]; mark[w] != v) {
        mark[w] = v;
        c.graph.idx.push_back(w);
      }
  };
  for (int32_t v = 0; v < count; ++v) {
    mark[v] = v;
    add_row(v, c.first[v]);
    if (partner[c.first[v]] >= 0) add_row(v, partner[c.first[v]]);
    std::sort(c.graph.idx.begin() + c.graph.ptr[v], c.graph.idx.end());
    c.graph.ptr.push_back(static_cast<int64_t>(c.graph.idx.size()));
  }
  return c;
}

OwnedPattern expand(const Pattern& graph, const int32_t* first, const int32_t* partner, int32_t n) {
  OwnedPattern out;
  out.ptr.assign(n + 1, 0);
  const auto size = [&](int32_t v) { return 1 + (partner[first[v]] >= 0); };
  for (int32_t v = 0; v < graph.n; ++v) {
    int64_t count = size(v) - 1;
    for (int64_t p = graph.ptr[v]; p < graph.ptr[v + 1]; ++p) count += size(graph.idx[p]);
    out.ptr[first[v] + 1] = count;
    if (size(v) == 2) out.ptr[partner[first[v]] + 1] = count;
  }
  for (int32_t i = 0; i < n; ++i) out.ptr[i + 1] += out.ptr[i];
  out.idx.resize(out.ptr[n]);
  const auto fill = [&](int32_t v, int32_t i) {
    int32_t* const begin = out.idx.data() + out.ptr[i];
    int32_t* to = begin;
    if (partner[i] >= 0) *to++ = partner[i];
    for (int64_t p = graph.ptr[v]; p < graph.ptr[v + 1]; ++p) {
      const int32_t j = first[graph.idx[p]];
      *to++ = j;
      if (partner[j] >= 0) *to++ = partner[j];
    }
    std::sort(begin, to);
  };
  for (int32_t v = 0; v < graph.n; ++v) {
    fill(v, first[v]);
    if (size(v) == 2) fill(v, partner[first[v]]);
  }
  return out;
}

}  // namespace ms::matching
