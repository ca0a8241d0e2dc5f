// The factor as an operator: G^-T D^+ G^-1 in the caller's numbering, symmetric and positive semidefinite. On a component without
// a ground the last pivot is zero, and so is the last entry of the result. On the range of the Laplacian this is an inverse up to
// a constant. Projecting the mean out of input and result instead would destroy small entries if the weights span many decades.
// Cost: two triangular solves.
#include <algorithm>
#include <cmath>

#include "native/memory/buffer.hpp"
#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "sparse/split.hpp"
#include "parac.hpp"

namespace ms::parac {
template <class T>
Inverse<T>::Inverse(Factor<T>&& factor, bool by_levels, int threads) : pivots_(std::move(factor.pivots)) {
  label_components(factor.columns);
  const int32_t n = factor.columns.n();
  std::vector<int32_t> order;
  if (by_levels) order = trisolve::order_by_level(trisolve::level_sets(factor.columns), pivots_.perm.data());
  lower_ = trisolve::UnitLower<T>(std::move(factor.columns), by_levels || pivots_.rounds > 0, by_levels ? order.data() : nullptr, threads);
  inverse_d_.resize(n);
  position_.resize(n);
  for_range(threads, n, kGrain, [&](int64_t from, int64_t to, int) {
    for (int64_t q = from; q < to; ++q) {
      const double d = pivots_.D[lower_.order()[q]];
      inverse_d_[q] = d > 0 ? 1 / d : 0;
      position_[q] = pivots_.perm[lower_.order()[q]];
    }
  });
}

// Each component without a ground ends in a zero pivot. In the tree of the first row indices of the columns, that pivot is its
// root.
template <class T>
void Inverse<T>::label_components(const trisolve::ColumnStores<T>& columns) {
  const int32_t n = columns.n();
  const RawVector<double>& D = pivots_.D;
  int32_t grounds = 0;                                  // roots of components with a ground
  for (int32_t k = 0; k < n; ++k) {
    null_components_ += D[k] == 0;
    grounds += D[k] != 0 && columns.length(k) == 0;
  }
  if (null_components_ == 0) return;
  if (null_components_ == 1 && grounds == 0) {          // one component
    size_.assign(1, n);
    return;
  }
  std::vector<int32_t> label(n);
  int32_t count = 0;
  for (int32_t k = n - 1; k >= 0; --k)
    label[k] = D[k] == 0 ? count++ : columns.length(k) > 0 ? label[columns.row(*columns.rows(k))] : -1;
  size_.assign(count, 0);
  label_.resize(n);
  for (int32_t k = 0; k < n; ++k) {
    label_[pivots_.perm[k]] = label[k];
    if (label[k] >= 0) ++size_[label[k]];
  }
}

template <class T>
int64_t Inverse<T>::nbytes() const {
  const int64_t row = 2 * sizeof(double) + 2 * sizeof(int32_t);
  return static_cast<int64_t>(pivots_.D.size()) * row + lower_.nbytes() + static_cast<int64_t>(label_.size() * sizeof(int32_t));
}

template <class T>
void Inverse<T>::project(double* B, int64_t k) const {
  if (null_components_ == 0) return;
  center(static_cast<int64_t>(pivots_.D.size()), k, label_.empty() ? nullptr : label_.data(), size_.data(), null_components_, B);
}

// Solves for K right-hand sides: permutes them to the numbering of the solves and back. Rows of b and x are scattered, so they
// are prefetched.
template <class T>
template <int K>
void Inverse<T>::apply_block(const double* b, int64_t row_b, int64_t column_b, double* x, int64_t row_x, int64_t column_x,
                             double* Y, int threads) const {
  constexpr int64_t ahead = 32;
  const int64_t n = static_cast<int64_t>(pivots_.D.size());
  const int32_t* const perm = position_.data();
  for_range(threads, n, kGrain, [&](int64_t from, int64_t to, int) {
    for (int64_t q = from; q < to; ++q) {
      fetch(b + perm[std::min(q + ahead, n - 1)] * row_b);
      for (int64_t c = 0; c < K; ++c) Y[q * K + c] = b[perm[q] * row_b + c * column_b];
    }
  });
  lower_.solve_pair(Y, K, inverse_d_.data(), threads);
  for_range(threads, n, kGrain, [&](int64_t from, int64_t to, int) {
    for (int64_t q = from; q < to; ++q) {
      fetch_to_write(x + perm[std::min(q + ahead, n - 1)] * row_x);
      for (int64_t c = 0; c < K; ++c) x[perm[q] * row_x + c * column_x] = Y[q * K + c];
    }
  });
}

template <class T>
void Inverse<T>::apply(const double* B, int64_t row_b, int64_t column_b, double* X, int64_t row_x, int64_t column_x, int64_t k,
                       int threads) const {
  auto work = work_->lease();
  double* const Y = workspace(*work, k);
  trisolve::in_groups(k, [&](auto K, int64_t at) {
    interrupt::poll();
    apply_block<K>(B + at * column_b, row_b, column_b, X + at * column_x, row_x, column_x, Y, threads);
  });
}

template <class T>
void Inverse<T>::apply_inside(const double* B, double* X, int64_t k, int threads) const {
  const int64_t n = static_cast<int64_t>(pivots_.D.size());
  auto work = work_->lease();
  trisolve::in_groups(k, [&](auto K, int64_t at) {
    if (K == k) {                                             // all right-hand sides at once, in place
      std::copy_n(B, n * K, X);
      lower_.solve_pair(X, K, inverse_d_.data(), threads);
      return;
    }
    double* const Y = workspace(*work, k);
    for (int64_t q = 0; q < n; ++q) std::copy_n(B + q * k + at, int64_t{K}, Y + q * K);
    lower_.solve_pair(Y, K, inverse_d_.data(), threads);
    for (int64_t q = 0; q < n; ++q) std::copy_n(Y + q * K, int64_t{K}, X + q * k + at);
  });
}

// Workspace for a group of right-hand sides out of k.
template <class T>
double* Inverse<T>::workspace(Buffer<double>& work, int64_t k) const {
  const int64_t size = static_cast<int64_t>(pivots_.D.size()) * std::min(k, trisolve::largest_group);
  if (work.size() < size) work = Buffer<double>(size);
  return work.data();
}

template class Inverse<double>;
template class Inverse<float>;

}  // namespace ms::parac
