// Maximum product matching with dual scaling by sparse shortest augmenting paths.
// Source: Duff and Koster 2001, "On algorithms for permuting large entries to the diagonal of a sparse matrix", section 3 and 4
// (MC64, job 5); Jonker and Volgenant 1987, "A shortest augmenting path algorithm for dense and sparse linear assignment
// problems" (rows bid for columns before paths are searched). Cost: O(nnz log n) for each row that is unmatched after start and
// bids; these are few in practice.
// Weights: w_ij = log(max_i |a_i.|) - log|a_ij| >= 0. Duals: w_ij >= u_j + v_i, with equality on matched entries, so that
// exp(u_j) and exp(v_i) / max_i are the scalings.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "matching.hpp"
#include "sparse/check.hpp"
#include "native/threads/interrupt.hpp"
#include "native/threads/parallel.hpp"
#include "native/memory/raw_vector.hpp"

namespace ms::matching {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double tight = 1e-14;              // reduced weight that counts as zero
constexpr int64_t bids_per_row = 16;         // average over the unmatched rows; more would cost as much as a path
constexpr double weak_diagonal = 0.1;        // scaled magnitude below which the diagonal does not replace matched entries

class Search {
 public:
  Search(const Pattern& A, const double* values, int threads)
      : A_(A), threads_(threads), w_(A.nnz()), largest_(A.n, 0.0), u_(A.n), v_(A.n), distance_(A.n, infinite), previous_(A.n, -1),
        final_(A.n, 0) {
    weigh(values);
  }

  Matching run(const double* values) {
    start();
    if (!bid() || !follow_paths(true)) {   // without a complete matching, bids never end by themselves
      start();
      follow_paths(false);
    }
    Matching result;
    result.row_scale.resize(A_.n);
    result.col_scale.resize(A_.n);
    for_rows([&](int32_t i) {
      result.row_scale[i] = largest_[i] > 0 ? std::exp(v_[i]) / largest_[i] : 1.0;
      result.col_scale[i] = std::exp(u_[i]);
    });
    result.rank = static_cast<int32_t>(A_.n - std::count(column_of_.begin(), column_of_.end(), -1));
    if (result.rank == A_.n) prefer_diagonal(values, result);
    result.row_of = std::move(row_of_);
    return result;
  }

 private:
  // Calls f(i) for every row, on all threads.
  template <class F>
  void for_rows(F&& f) const {
    for_range(threads_, A_.n, 1 << 12, [&](int64_t from, int64_t to, int) {
      for (int64_t i = from; i < to; ++i) f(static_cast<int32_t>(i));
    });
  }

  void weigh(const double* values) {
    for_rows([&](int32_t i) {
      for (int64_t p = A_.ptr[i]; p < A_.ptr[i + 1]; ++p) largest_[i] = std::max(largest_[i], std::abs(values[p]));
      const double top = std::log(largest_[i]);
      for (int64_t p = A_.ptr[i]; p < A_.ptr[i + 1]; ++p) w_[p] = values[p] != 0 ? top - std::log(std::abs(values[p])) : infinite;
    });
  }

  // The largest duals of columns when those of rows are 0, and then of rows.
  void price() {
    u_.assign(A_.n, infinite);
    for (int64_t p = 0; p < A_.nnz(); ++p) u_[A_.idx[p]] = std::min(u_[A_.idx[p]], w_[p]);
    for (double& u : u_)
      if (u == infinite) u = 0;
    for_rows([&](int32_t i) {
      double least = infinite;
      for (int64_t p = A_.ptr[i]; p < A_.ptr[i + 1]; ++p) least = std::min(least, w_[p] - u_[A_.idx[p]]);
      v_[i] = least == infinite ? 0 : least;
    });
  }

  bool is_tight(int64_t p, int32_t i) const { return w_[p] - u_[A_.idx[p]] - v_[i] <= tight; }

  void match(int32_t i, int32_t j) {
    row_of_[j] = i;
    column_of_[i] = j;
  }

  // Matches tight entries, the diagonal first, then tight entries with one exchange. This matches most rows.
  void start() {
    row_of_.assign(A_.n, -1);
    column_of_.assign(A_.n, -1);
    price();
    for_rows([&](int32_t i) {
      for (int64_t p = A_.ptr[i]; p < A_.ptr[i + 1]; ++p)
        if (A_.idx[p] == i && is_tight(p, i)) match(i, i);
    });
    for (int32_t i = 0; i < A_.n; ++i)
      if (column_of_[i] < 0) take_free(i);
    for (int32_t i = 0; i < A_.n; ++i)
      for (int64_t p = A_.ptr[i]; p < A_.ptr[i + 1] && column_of_[i] < 0; ++p) {
        const int32_t j = A_.idx[p], other = row_of_[j];
        if (!is_tight(p, i) || (other >= 0 && !take_free(other))) continue;
        match(i, j);
      }
  }

  // Auction: each unmatched row takes its cheapest column, whose dual decreases by the difference to the second cheapest. The row
  // that had this column is unmatched again and bids next. A row with a single column, or with two cheapest ones, needs a path.
  // Returns true if most rows were matched. Otherwise many matchings have the same cost, and the matching without bids is better:
  // its scaling is closer to that of the matrix.
  bool bid() {
    std::vector<int32_t> unmatched;
    for (int32_t i = 0; i < A_.n; ++i)
      if (column_of_[i] < 0) unmatched.push_back(i);
    int64_t left = bids_per_row * static_cast<int64_t>(unmatched.size());
    for (const int32_t first : unmatched) {
      interrupt::poll();
      for (int32_t i = first; i >= 0 && left > 0; --left) i = outbid(i);
    }
    return 2 * std::count(column_of_.begin(), column_of_.end(), -1) <= static_cast<int64_t>(unmatched.size());
  }

  // The row that loses its column to row i, or -1.
  int32_t outbid(int32_t i) {
    double least = infinite, second = infinite;
    int32_t best = -1;
    for (int64_t p = A_.ptr[i]; p < A_.ptr[i + 1]; ++p) {
      const double cost = w_[p] - u_[A_.idx[p]];
      if (cost < least) {
        second = std::exchange(least, cost);
        best = A_.idx[p];
      } else {
        second = std::min(second, cost);
      }
    }
    if (second == infinite || second - least <= tight) return -1;
    v_[i] = second;
    u_[best] -= second - least;
    const int32_t loser = row_of_[best];
    if (loser >= 0) column_of_[loser] = -1;
    match(i, best);
    return loser;
  }

  bool take_free(int32_t i) {
    for (int64_t p = A_.ptr[i]; p < A_.ptr[i + 1]; ++p)
      if (row_of_[A_.idx[p]] < 0 && is_tight(p, i)) {
        match(i, A_.idx[p]);
        return true;
      }
    return false;
  }

  // Augments by a path from every unmatched row. Returns true if all rows have a path; with `all` it stops at the first without
  // one.
  bool follow_paths(bool all) {
    bool found = true;
    for (int32_t i = 0; i < A_.n && (found || !all); ++i)
      if (column_of_[i] < 0) {
        interrupt::poll();
        found &= augment(i);
      }
    return found;
  }

  // Dijkstra's algorithm over columns from the unmatched row `from`, by reduced weights, to the nearest unmatched column, if any.
  // Columns at the current distance are on a stack, not in the queue, so a path of tight entries is followed to its end.
  bool augment(int32_t from) {
    queue_.clear();
    near_.clear();
    touched_.clear();
    settled_.clear();
    int32_t row = from, end = -1;
    double base = 0, shortest = infinite;
    while (row >= 0) {
      for (int64_t p = A_.ptr[row]; p < A_.ptr[row + 1]; ++p) {
        const int32_t j = A_.idx[p];
        if (final_[j] || w_[p] == infinite) continue;
        const double d = base + std::max(0.0, w_[p] - u_[j] - v_[row]);
        if (d >= distance_[j] || d >= shortest) continue;
        if (distance_[j] == infinite) touched_.push_back(j);
        distance_[j] = d;
        previous_[j] = row;
        if (row_of_[j] < 0) {
          shortest = d;
          end = j;
        } else if (d <= base) {
          near_.push_back(j);
        } else {
          queue_.push_back({d, j});
          std::push_heap(queue_.begin(), queue_.end(), std::greater<Entry>());
        }
      }
      row = settle_next(shortest, base);
    }
    if (end >= 0) apply(from, end, shortest);
    for (const int32_t j : touched_) {
      distance_[j] = infinite;
      final_[j] = 0;
    }
    return end >= 0;
  }

  // The row matched with the nearest unsettled column, or -1 if no column is nearer than `shortest`.
  int32_t settle_next(double shortest, double& base) {
    while (!near_.empty() && base < shortest) {
      const int32_t j = near_.back();
      near_.pop_back();
      if (!final_[j]) return settle(j);
    }
    while (!queue_.empty()) {
      const auto [d, j] = queue_.front();
      if (d >= shortest) break;
      std::pop_heap(queue_.begin(), queue_.end(), std::greater<Entry>());
      queue_.pop_back();
      if (final_[j] || d > distance_[j]) continue;
      base = d;
      return settle(j);
    }
    return -1;
  }

  int32_t settle(int32_t j) {
    final_[j] = 1;
    settled_.push_back(j);
    return row_of_[j];
  }

  void apply(int32_t from, int32_t end, double shortest) {
    v_[from] += shortest;
    for (const int32_t j : settled_) {
      u_[j] -= shortest - distance_[j];
      v_[row_of_[j]] += shortest - distance_[j];
    }
    for (int32_t j = end, next;; j = next) {
      const int32_t i = previous_[j];
      next = column_of_[i];
      match(i, j);
      if (i == from) break;
    }
  }

  // Replaces a cycle j -> row_of[j] of the matching by diagonal entries if all of them are large.
  void prefer_diagonal(const double* values, const Matching& scaled) {
    std::vector<uint8_t> large(A_.n), seen(A_.n, 0);
    std::vector<double> own(A_.n);
    diagonal(A_, values, own.data(), threads_);
    for_rows([&](int32_t i) { large[i] = std::abs(own[i]) * scaled.row_scale[i] * scaled.col_scale[i] >= weak_diagonal; });
    for (int32_t j = 0; j < A_.n; ++j) {
      bool whole = !seen[j];
      for (int32_t k = j; !seen[k]; k = row_of_[k]) {
        seen[k] = 1;
        whole = whole && large[k];
      }
      if (!whole) continue;
      for (int32_t k = j; row_of_[k] != k;) k = std::exchange(row_of_[k], k);
    }
  }

  const Pattern A_;
  const int threads_;
  RawVector<double> w_;                             // weights
  std::vector<double> largest_, u_, v_;             // largest absolute value of a row; duals of columns and rows
  std::vector<int32_t> row_of_, column_of_;
  std::vector<double> distance_;                    // of the columns, in the current search
  std::vector<int32_t> previous_, touched_, settled_, near_;
  std::vector<uint8_t> final_;
  using Entry = std::pair<double, int32_t>;
  std::vector<Entry> queue_;                        // a heap, the nearest column first; its memory is reused by the next search
};

}  // namespace

Matching maximum_product(const Pattern& A, const double* values, int threads) {
  return Search(A, values, threads).run(values);
}

}  // namespace ms::matching
