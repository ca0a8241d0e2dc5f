// Matching of a symmetric matrix with a few dense rows, for example constraints on all unknowns. Shortest paths would pass
// through these rows, and then through half of all other rows. So the other rows are matched first. Then each dense row i is
// matched with the column j of its largest scaled entry. The row of column j gets the column of a dense row instead, usually that
// of i. Cost: a matching of the other rows, and O(nnz).
#include <algorithm>
#include <cmath>
#include <utility>

#include "matching.hpp"
#include "native/threads/interrupt.hpp"

namespace ms::matching {
namespace {

constexpr int64_t fewest = 20;               // smallest number of other rows for each dense row

class Around {
 public:
  Around(const Pattern& A, const double* values, const std::vector<int32_t>& dense, Matching& matched, std::vector<double>& scale)
      : A_(A), values_(values), dense_(dense), number_(A.n, 0), is_free_(A.n, 0), matched_(matched), scale_(scale) {
    for (const int32_t i : dense) {
      number_[i] = -1;
      is_free_[i] = 1;
    }
    scale.assign(A.n, 0.0);
    matched.row_of.assign(A.n, -1);
  }

  bool run(int threads) {
    if (!match_rest(threads)) return false;
    for (const int32_t i : dense_)
      if (!match_dense(i)) return false;
    for (const int32_t i : dense_) bound(i);
    matched_.rank = A_.n;
    return true;
  }

 private:
  bool is_dense(int32_t i) const { return number_[i] < 0; }

  bool match_rest(int threads) {
    std::vector<int32_t> row;                // row of each number
    for (int32_t i = 0; i < A_.n; ++i)
      if (!is_dense(i)) {
        number_[i] = static_cast<int32_t>(row.size());
        row.push_back(i);
      }
    OwnedPattern rest;
    std::vector<double> kept;
    rest.ptr.reserve(row.size() + 1);
    rest.ptr.push_back(0);
    int64_t most = A_.nnz();
    for (const int32_t i : dense_) most -= A_.degree(i);
    rest.idx.reserve(most);
    kept.reserve(most);
    for (const int32_t i : row) {
      for (int64_t p = A_.ptr[i]; p < A_.ptr[i + 1]; ++p)
        if (!is_dense(A_.idx[p])) {
          rest.idx.push_back(number_[A_.idx[p]]);
          kept.push_back(values_[p]);
        }
      rest.ptr.push_back(static_cast<int64_t>(rest.idx.size()));
    }
    const Matching found = maximum_product(rest.view(), kept.data(), threads);
    if (found.rank < rest.n()) return false;
    for (size_t k = 0; k < row.size(); ++k) {
      matched_.row_of[row[k]] = row[found.row_of[k]];
      scale_[row[k]] = std::sqrt(found.row_scale[k]) * std::sqrt(found.col_scale[k]);
    }
    return true;
  }

  bool match_dense(int32_t i) {
    interrupt::poll();
    double largest = 0, most = 0;
    int32_t best = -1, other = -1;
    for (int64_t p = A_.ptr[i]; p < A_.ptr[i + 1]; ++p) {
      const int32_t j = A_.idx[p];
      const double value = std::abs(values_[p]) * scale_[j];
      if (is_dense(j) || !(value > 0)) continue;
      largest = std::max(largest, value);
      if (value <= most || is_dense(matched_.row_of[j])) continue;
      const int32_t column = free_column(matched_.row_of[j], i);
      if (column < 0) continue;
      most = value;
      best = j;
      other = column;
    }
    if (best < 0) return false;
    matched_.row_of[other] = std::exchange(matched_.row_of[best], i);
    is_free_[other] = 0;
    scale_[i] = 1 / largest;
    return true;
  }

  // An unmatched column of a dense row that has an entry in `row`: the preferred one if possible; or -1.
  int32_t free_column(int32_t row, int32_t preferred) const {
    int32_t found = -1;
    for (int64_t p = A_.ptr[row]; p < A_.ptr[row + 1]; ++p) {
      const int32_t j = A_.idx[p];
      if (!is_free_[j] || values_[p] == 0) continue;
      if (j == preferred) return j;
      found = j;
    }
    return found;
  }

  // Reduces the scale of row i until its entries in the columns of dense rows are at most 1, too.
  void bound(int32_t i) {
    for (int64_t p = A_.ptr[i]; p < A_.ptr[i + 1]; ++p)
      if (const int32_t j = A_.idx[p]; is_dense(j) && j <= i) {
        const double value = std::abs(values_[p]) * scale_[i] * scale_[j];
        if (value > 1) scale_[i] /= j == i ? std::sqrt(value) : value;
      }
  }

  const Pattern A_;
  const double* const values_;
  const std::vector<int32_t>& dense_;
  std::vector<int32_t> number_;              // number of a row among the rows that are not dense, or -1
  std::vector<uint8_t> is_free_;             // columns of dense rows
  Matching& matched_;
  std::vector<double>& scale_;
};

}  // namespace

std::vector<int32_t> dense_rows(const Pattern& A) {
  const double most = sparse_most(A.n);
  std::vector<int32_t> dense;
  for (int32_t i = 0; i < A.n; ++i)
    if (static_cast<double>(A.degree(i)) > most) dense.push_back(i);
  if (fewest * static_cast<int64_t>(dense.size()) > A.n) dense.clear();
  return dense;
}

bool match_around(const Pattern& A, const double* values, const std::vector<int32_t>& dense, int threads, Matching& matched,
                  std::vector<double>& scale) {
  return Around(A, values, dense, matched, scale).run(threads);
}

}  // namespace ms::matching
