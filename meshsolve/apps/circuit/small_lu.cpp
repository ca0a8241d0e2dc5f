// The choice of a pivot order, its compilation to a list of updates, the elimination and the solves; see small_lu.hpp.
#include "small_lu.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace ms::circuit {
namespace {

constexpr double kThreshold = 0.1;            // smallest accepted pivot, relative to the largest entry of its column
constexpr double kLargestMultiplier = 1e5;    // largest accepted multiplier, which costs five digits
// Times n: smallest accepted pivot relative to the sum of the absolute values of its terms, at the level of rounding.
constexpr double kCanceled = 4 * std::numeric_limits<double>::epsilon();

double inverse(double x) { return 1 / x; }

Complex inverse(Complex z) {                   // Smith 1962: without overflow of squares
  if (std::abs(z.re) >= std::abs(z.im)) {
    const double ratio = z.im / z.re, share = 1 / (z.re + z.im * ratio);
    return {share, -ratio * share};
  }
  const double ratio = z.re / z.im, share = 1 / (z.re * ratio + z.im);
  return {ratio * share, -share};
}

// Chooses the pivots on a dense copy of the scaled matrix. Lists of the entries of the remaining rows and columns make a pivot cost O(entries).
template <class T>
class Markowitz {
 public:
  Markowitz(int32_t n, const std::vector<int32_t>& indptr, const std::vector<int32_t>& indices, const std::vector<T>& values)
      : n_(n), value_(square()), sums_(square()), filled(square()), free_(n), rows_(n), cols_(n) {
    std::iota(free_.begin(), free_.end(), 0);
    for (int32_t i = 0; i < n; ++i)
      for (int32_t p = indptr[i]; p < indptr[i + 1]; ++p) {
        const size_t at = index(i, indices[p]);
        value_[at] = values[p];
        sums_[at] = size(values[p]);
        fill(i, indices[p]);
      }
  }

  bool next(int32_t& row, int32_t& col) {     // false: all remaining entries are at the level of rounding
    row = col = -1;
    int64_t fewest = std::numeric_limits<int64_t>::max();
    double largest = 0;
    for (const int32_t j : free_) {
      double top = 0;
      for (const int32_t i : cols_[j]) top = std::max(top, size(value_[index(i, j)]));
      for (const int32_t i : cols_[j]) {
        const double at = size(value_[index(i, j)]);
        if (!(at >= kThreshold * top) || !(at > kCanceled * n_ * sums_[index(i, j)])) continue;
        const int64_t cost = static_cast<int64_t>(rows_[i].size() - 1) * static_cast<int64_t>(cols_[j].size() - 1);
        if (cost > fewest || (cost == fewest && (at < largest || (at == largest && !(j == col && i < row))))) continue;
        row = i, col = j, fewest = cost, largest = at;
      }
    }
    if (row >= 0) eliminate(row, col);
    return row >= 0;
  }

 private:
  static double quotient(double a, double b) { return a / b; }
  static Complex quotient(Complex a, Complex b) { return a * inverse(b); }
  size_t square() const { return static_cast<size_t>(n_) * n_; }
  size_t index(int32_t i, int32_t j) const { return static_cast<size_t>(i) * n_ + j; }

  void fill(int32_t i, int32_t j) {
    if (std::exchange(filled[index(i, j)], 1)) return;
    rows_[i].push_back(j);
    cols_[j].push_back(i);
  }

  void eliminate(int32_t row, int32_t col) {
    for (const int32_t j : rows_[row]) std::erase(cols_[j], row);
    for (const int32_t i : cols_[col]) std::erase(rows_[i], col);
    std::erase(rows_[row], col);
    std::erase(free_, col);
    for (const int32_t i : cols_[col]) {
      const T factor = quotient(value_[index(i, col)], value_[index(row, col)]);
      for (const int32_t j : rows_[row]) {
        const T change = factor * value_[index(row, j)];
        value_[index(i, j)] -= change;
        sums_[index(i, j)] += size(change);
        fill(i, j);
      }
    }
  }

  const int32_t n_;
  std::vector<T> value_;
  std::vector<double> sums_;                  // of the sizes of all terms of an entry

 public:
  std::vector<char> filled;                   // the pattern of L + U

 private:
  std::vector<int32_t> free_;                 // remaining columns, ascending
  std::vector<std::vector<int32_t>> rows_, cols_;         // remaining columns of each row, remaining rows of each column
};

double power_of_two(double x) { return x > 0 && std::isfinite(x) ? std::exp2(-std::round(std::log2(x))) : 1.0; }

}  // namespace

template <class T>
SmallLu<T>::SmallLu(int32_t n, std::vector<int32_t> indptr, std::vector<int32_t> indices)
    : n_(n), indptr_(std::move(indptr)), indices_(std::move(indices)), row_scale_(n), col_scale_(n), weight_(indices_.size()),
      sums_(n), inverse_(n), y_(n) {}

template <class T>
bool SmallLu<T>::factor(const T* values) {
  if (ordered_ && eliminate(values)) return true;
  ordered_ = choose_order(values) && eliminate(values);
  return ordered_;
}

// Computes powers of two that scale the largest entry of each row, then of each column, to about 1.
template <class T>
void SmallLu<T>::scale(const T* values) {
  std::vector<double> top(n_, 0.0);
  for (int32_t i = 0; i < n_; ++i) {
    double largest = 0;
    for (int32_t p = indptr_[i]; p < indptr_[i + 1]; ++p) largest = std::max(largest, size(values[p]));
    row_scale_[i] = power_of_two(largest);
    for (int32_t p = indptr_[i]; p < indptr_[i + 1]; ++p)
      top[indices_[p]] = std::max(top[indices_[p]], size(values[p]) * row_scale_[i]);
  }
  for (int32_t j = 0; j < n_; ++j) col_scale_[j] = power_of_two(top[j]);
  for (int32_t i = 0; i < n_; ++i)
    for (int32_t p = indptr_[i]; p < indptr_[i + 1]; ++p) weight_[p] = row_scale_[i] * col_scale_[indices_[p]];
}

template <class T>
bool SmallLu<T>::choose_order(const T* values) {
  scale(values);
  std::vector<T> scaled(indices_.size());
  for (size_t p = 0; p < scaled.size(); ++p) {
    scaled[p] = values[p] * weight_[p];
    if (!std::isfinite(size(scaled[p]))) return false;
  }
  Markowitz<T> matrix(n_, indptr_, indices_, scaled);
  row_of_.assign(n_, 0), col_of_.assign(n_, 0);
  for (int32_t k = 0; k < n_; ++k)
    if (!matrix.next(row_of_[k], col_of_[k])) return false;
  compile(matrix.filled);
  return true;
}

// Numbers the slots of L + U and lists the multiplications.
template <class T>
void SmallLu<T>::compile(const std::vector<char>& filled) {
  std::vector<int32_t> number(static_cast<size_t>(n_) * n_, -1);      // slot of (k-th pivot row, l-th pivot column)
  const auto is_filled = [&](int32_t k, int32_t l) { return filled[static_cast<size_t>(row_of_[k]) * n_ + col_of_[l]] != 0; };
  int32_t slots = 0;
  for (int32_t k = 0; k < n_; ++k)
    for (int32_t l = 0; l < n_; ++l)
      if (is_filled(k, l)) number[static_cast<size_t>(k) * n_ + l] = slots++;
  std::vector<int32_t> row_at(n_), col_at(n_);
  for (int32_t k = 0; k < n_; ++k) row_at[row_of_[k]] = col_at[col_of_[k]] = k;
  slot_.clear(), pivot_.clear(), lower_.clear(), upper_.clear(), updated_.clear(), products_.clear();
  lower_begin_.assign(1, 0), upper_begin_.assign(1, 0);
  const auto slot = [&](int32_t k, int32_t l) { return number[static_cast<size_t>(k) * n_ + l]; };
  for (int32_t i = 0; i < n_; ++i)
    for (int32_t p = indptr_[i]; p < indptr_[i + 1]; ++p) slot_.push_back(slot(row_at[i], col_at[indices_[p]]));
  for (int32_t k = 0; k < n_; ++k) {
    pivot_.push_back(slot(k, k));
    for (int32_t l = k + 1; l < n_; ++l) {
      if (is_filled(l, k)) lower_.push_back({slot(l, k), l});
      if (is_filled(k, l)) upper_.push_back({slot(k, l), l});
    }
    lower_begin_.push_back(static_cast<int32_t>(lower_.size()));
    upper_begin_.push_back(static_cast<int32_t>(upper_.size()));
    for (int32_t p = lower_begin_[k]; p < lower_begin_[k + 1]; ++p)
      for (int32_t q = upper_begin_[k]; q < upper_begin_[k + 1]; ++q) {
        updated_.push_back(slot(lower_[p].at, upper_[q].at));
        if (lower_[p].at == upper_[q].at) products_.push_back({lower_[p].slot, upper_[q].slot, lower_[p].at});
      }
  }
  w_.assign(slots, T{});
}

template <class T>
bool SmallLu<T>::eliminate(const T* values) {
  std::fill(w_.begin(), w_.end(), T{});
  for (size_t p = 0; p < indices_.size(); ++p) w_[slot_[p]] = values[p] * weight_[p];
  for (int32_t k = 0; k < n_; ++k) sums_[k] = size(w_[pivot_[k]]);
  const int32_t* updated = updated_.data();
  T* const w = w_.data();
  for (int32_t k = 0; k < n_; ++k) {
    const T pivot = w[pivot_[k]], reciprocal = inverse(pivot);
    if (!std::isfinite(size(reciprocal)) || !std::isfinite(size(pivot))) return false;
    inverse_[k] = reciprocal;
    const Entry* const row = upper_.data() + upper_begin_[k];
    const int32_t width = upper_begin_[k + 1] - upper_begin_[k];
    for (int32_t p = lower_begin_[k]; p < lower_begin_[k + 1]; ++p) {
      const T factor = w[lower_[p].slot] *= reciprocal;
      if (!(size(factor) <= kLargestMultiplier)) return false;
      for (int32_t q = 0; q < width; ++q) w[*updated++] -= factor * w[row[q].slot];
    }
  }
  return !cancels();
}

template <class T>
bool SmallLu<T>::cancels() {
  for (const Product& p : products_) sums_[p.pivot] += size(w_[p.lower]) * size(w_[p.upper]);
  for (int32_t k = 0; k < n_; ++k)
    if (!(size(w_[pivot_[k]]) > kCanceled * n_ * sums_[k])) return true;
  return false;
}

template <class T>
void SmallLu<T>::solve(const T* b, T* x) {
  for (int32_t k = 0; k < n_; ++k) y_[k] = b[row_of_[k]] * row_scale_[row_of_[k]];
  for (int32_t k = 0; k < n_; ++k) {
    const T known = y_[k];
    for (int32_t p = lower_begin_[k]; p < lower_begin_[k + 1]; ++p) y_[lower_[p].at] -= w_[lower_[p].slot] * known;
  }
  for (int32_t k = n_ - 1; k >= 0; --k) {
    T sum = y_[k];
    for (int32_t q = upper_begin_[k]; q < upper_begin_[k + 1]; ++q) sum -= w_[upper_[q].slot] * y_[upper_[q].at];
    y_[k] = sum * inverse_[k];
    x[col_of_[k]] = y_[k] * col_scale_[col_of_[k]];
  }
}

template <class T>
void SmallLu<T>::residual(const T* values, const T* b, const T* x, T* r) const {
  for (int32_t i = 0; i < n_; ++i) {
    T sum = b[i];
    for (int32_t p = indptr_[i]; p < indptr_[i + 1]; ++p) sum -= values[p] * x[indices_[p]];
    r[i] = sum;
  }
}

template class SmallLu<double>;
template class SmallLu<Complex>;

}  // namespace ms::circuit
