// Symmetrized matching: the rows of a symmetric matrix that are 1x1 pivots, and the pairs of rows that are 2x2 pivots.
// A maximum product matching maps row i to column p(i). Its cycles are cut into pairs (i, p(i)), the candidates of 2x2 pivots. If
// all rows are matched, |s_i a_ij s_j| <= 1 holds for s_i = sqrt(r_i c_i) with the scalings of the matching.
// Source: Duff and Pralet 2005, "Strategies for scaling and pivoting for sparse symmetric indefinite problems", section 3;
// Hagemann and Schenk 2006, "Weighted matchings for preconditioning symmetric indefinite linear systems", section 3.
// Cost: a matching, and O(nnz).
#include <algorithm>
#include <cmath>

#include "matching.hpp"
#include "sparse/check.hpp"
#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "sparse/rearrange.hpp"

namespace ms::matching {
namespace {

constexpr double strong = 0.1;               // scaled diagonal entry from which a row is a pivot by itself
constexpr int64_t grain = 1 << 13;           // rows or vertices of a task
constexpr int equilibrations = 6;            // each step takes the square root of the deviation of a row from 1

class Pairing {
 public:
  Pairing(const Pattern& A, const double* values, const Matching& matched, int threads, SymmetricMatching& out)
      : A_(A), column_of_(A.n, -1), diagonal_(A.n), out_(out) {
    for (int32_t j = 0; j < A.n; ++j)
      if (matched.row_of[j] >= 0) column_of_[matched.row_of[j]] = j;
    diagonal(A, values, diagonal_.data(), threads);
    for (int32_t i = 0; i < A.n; ++i) diagonal_[i] = std::abs(diagonal_[i]) * out.scale[i] * out.scale[i];
    out.partner.assign(A.n, -1);
    row_of_ = &matched.row_of;
  }

  // Visits the paths (of singular matrices), each from its first row, then the cycles.
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

  // The row of an odd chain that becomes a 1x1 pivot: the one with the largest diagonal entry, at an even position in a path.
  size_t release(bool cycle) {
    size_t best = 0;
    for (size_t k = 0; k < chain_.size(); k += cycle ? 1 : 2)
      if (diagonal_[chain_[k]] > diagonal_[chain_[best]]) best = k;
    return best;
  }

  // Two rows with large diagonal entries remain 1x1 pivots.
  void pair(int32_t i, int32_t j) {
    if (diagonal_[i] >= strong && diagonal_[j] >= strong) return;
    out_.partner[i] = j;
    out_.partner[j] = i;
  }

  // Number of common neighbors in the pairs of a cycle if pairing starts at its row `start`. More of them mean less fill.
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

// Scaling for a structurally singular matrix. Its maximum matching is not unique, and the scalings of the matching may grow
// without bound along chains of rows. Equilibration instead makes the largest entry of each row tend to 1 (Ruiz 2001, in the
// maximum norm).
void equilibrate(const Pattern& A, const double* values, int threads, std::vector<double>& scale) {
  std::vector<double> largest(A.n);
  scale.assign(A.n, 1.0);
  for (int round = 0; round <= equilibrations; ++round) {
    for_range(threads, A.n, grain, [&](int64_t from, int64_t to, int) {
      for (int64_t i = from; i < to; ++i) {
        double most = 0;
        for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) most = std::max(most, std::abs(values[p]) * scale[i] * scale[A.idx[p]]);
        largest[i] = most > 0 ? most : 1;
      }
    });
    const bool last = round == equilibrations;               // the last round leaves no entry above 1
    for (int32_t i = 0; i < A.n; ++i) scale[i] /= last ? std::max(largest[i], 1.0) : std::sqrt(largest[i]);
  }
}

}  // namespace

SymmetricMatching symmetric(const Pattern& A, const double* values, int threads) {
  SymmetricMatching out;
  Matching matched;
  const std::vector<int32_t> dense = dense_rows(A);
  if (dense.empty() || !match_around(A, values, dense, threads, matched, out.scale)) {
    matched = maximum_product(A, values, threads);
    out.scale.resize(A.n);
    if (matched.rank < A.n)
      equilibrate(A, values, threads, out.scale);
    else
      for_range(threads, A.n, grain, [&](int64_t from, int64_t to, int) {
        for (int64_t i = from; i < to; ++i) out.scale[i] = std::sqrt(matched.row_scale[i]) * std::sqrt(matched.col_scale[i]);
      });
  }
  out.rank = matched.rank;
  Pairing(A, values, matched, threads, out).run();
  return out;
}

std::vector<uint8_t> weak_rows(const Pattern& A, const double* values, const double* scale, const int32_t* perm) {
  std::vector<uint8_t> weak(A.n, 1);
  for (int32_t k = 0; k < A.n; ++k) {
    const int32_t i = perm[k];                 // later rows are still marked weak
    fetch_row(A, perm, k, A.n);
    if (k + 8 < A.n) fetch(values + A.ptr[perm[k + 8]]);
    for (int64_t p = A.ptr[i]; p < A.ptr[i + 1] && weak[i]; ++p) {
      const int32_t j = A.idx[p];
      if ((j == i || !weak[j]) && std::abs(values[p]) * scale[i] * scale[j] >= strong) weak[i] = 0;
    }
  }
  return weak;
}

namespace {

// Concatenates lists that were made in pieces. ptr: (vertices + 1), on entry the length of list v at v + 1, on return the begin
// of each list.
std::vector<int32_t> joined(std::vector<std::vector<int32_t>>& pieces, std::vector<int64_t>& ptr, int threads) {
  cumsum(ptr);
  if (pieces.size() == 1 || static_cast<int64_t>(pieces[0].size()) == ptr.back()) return std::move(pieces[0]);
  std::vector<int32_t> all(ptr.back());
  for_range(threads, static_cast<int64_t>(pieces.size()), 1, [&](int64_t from, int64_t to, int) {
    for (int64_t k = from; k < to; ++k) std::copy(pieces[k].begin(), pieces[k].end(), all.begin() + ptr[k * grain]);
  });
  return all;
}

}  // namespace

// Vertices in the order of their first rows.
Compression compress(const Pattern& A, const int32_t* partner, int threads) {
  Compression c;
  std::vector<int32_t> vertex(A.n);
  c.first.reserve(A.n);
  for (int32_t i = 0; i < A.n; ++i) {
    const bool second = partner[i] >= 0 && partner[i] < i;
    vertex[i] = second ? vertex[partner[i]] : static_cast<int32_t>(c.first.size());
    if (!second) c.first.push_back(i);
  }
  const int64_t count = static_cast<int64_t>(c.first.size());
  c.graph.ptr.assign(count + 1, 0);
  std::vector<std::vector<int32_t>> pieces((count + grain - 1) / grain);
  for_range(threads, count, grain, [&](int64_t from, int64_t to, int) {
    std::vector<int32_t>& list = pieces[from / grain];
    list.reserve((A.nnz() * (to - from) + count - 1) / count);
    for (int64_t v = from; v < to; ++v) {
      const ptrdiff_t begin = static_cast<ptrdiff_t>(list.size());
      for (int32_t i = c.first[v]; i >= 0; i = i == c.first[v] ? partner[i] : -1)
        for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
          if (const int32_t w = vertex[A.idx[p]]; w != v) list.push_back(w);
      std::sort(list.begin() + begin, list.end());
      list.erase(std::unique(list.begin() + begin, list.end()), list.end());
      c.graph.ptr[v + 1] = static_cast<int64_t>(list.size()) - begin;
    }
  });
  c.graph.idx = joined(pieces, c.graph.ptr, threads);
  return c;
}

std::vector<int32_t> rows_of_vertices(const int32_t* first, const int32_t* vertices, int64_t count, const int32_t* partner, int64_t n) {
  std::vector<int32_t> rows;
  rows.reserve(n);
  for (int64_t k = 0; k < count; ++k) {
    const int32_t i = first[vertices[k]];
    rows.push_back(i);
    if (partner[i] >= 0) rows.push_back(partner[i]);
  }
  return rows;
}

std::vector<int32_t> vertices_of_rows(const int32_t* first, int64_t count, const int32_t* perm, const int32_t* partner, int64_t n) {
  std::vector<int32_t> vertex(n, -1), order;
  for (int64_t v = 0; v < count; ++v) vertex[first[v]] = static_cast<int32_t>(v);
  order.reserve(count);
  std::vector<uint8_t> met(n, 0);
  for (int64_t k = 0; k < n; ++k) {
    const int32_t i = perm[k], other = partner[i];
    met[i] = 1;
    if (other < 0 || met[other]) order.push_back(vertex[other < 0 ? i : std::min(i, other)]);
  }
  return order;
}

OwnedPattern expand(const Pattern& graph, const int32_t* first, const int32_t* partner, int32_t n, int threads) {
  OwnedPattern out;
  out.ptr.assign(n + 1, 0);
  const auto size = [&](int32_t v) { return 1 + (partner[first[v]] >= 0); };
  for_range(threads, graph.n, grain, [&](int64_t from, int64_t to, int) {
    for (int64_t v = from; v < to; ++v) {
      const int32_t i = first[v], other = partner[i];
      int64_t count = other >= 0;
      for (int64_t p = graph.ptr[v]; p < graph.ptr[v + 1]; ++p) count += size(graph.idx[p]);
      out.ptr[i + 1] = count;
      if (other >= 0) out.ptr[other + 1] = count;
    }
  });
  cumsum(out.ptr);
  out.idx.resize(out.ptr[n]);
  for_range(threads, graph.n, grain, [&](int64_t from, int64_t to, int) {
    for (int64_t v = from; v < to; ++v) {
      const int32_t i = first[v], other = partner[i];
      int32_t* const begin = out.idx.data() + out.ptr[i];
      int32_t* end = begin;
      for (int64_t p = graph.ptr[v]; p < graph.ptr[v + 1]; ++p) {
        const int32_t j = first[graph.idx[p]];
        *end++ = j;
        if (partner[j] >= 0) *end++ = partner[j];
      }
      std::sort(begin, end);
      if (other < 0) continue;
      std::merge(begin, end, &i, &i + 1, out.idx.data() + out.ptr[other]);
      int32_t* const position = std::lower_bound(begin, end, other);
      std::copy_backward(position, end, end + 1);
      *position = other;
    }
  });
  return out;
}

}  // namespace ms::matching
