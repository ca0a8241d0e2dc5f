// Copies out of a factor: L on its exact pattern, its diagonal, a Schur complement, and the norm of the factored matrix.
#include <algorithm>
#include <cmath>

#include "cholesky.hpp"
#include "native/threads/parallel.hpp"

namespace ms::cholesky {
namespace {

// Copies the upper triangle of an (m, m) matrix, stored by rows, to the lower one.
void mirror_upper(double* S, int64_t m, int threads) {
  constexpr int64_t tile = 32;                 // rows and columns of a tile that fits into the cache
  for_range(threads, m, tile, [&](int64_t b, int64_t e, int) {
    for (int64_t r = b; r < e; r += tile) {
      const int64_t stop = std::min(r + tile, e);
      for (int64_t c = 0; c < stop; c += tile)
        for (int64_t i = r; i < stop; ++i)
          for (int64_t j = c; j < std::min(c + tile, i); ++j) S[i * m + j] = S[j * m + i];
    }
  });
}

}  // namespace

// Calls visit(front, column of the front, address of its row 0, which may not exist), front after front.
template <class T>
template <class Visit>
void Factor<T>::each_column(Visit&& visit) const {
  const auto plan = fronts::plan_of(*tree_, 1, fronts::Use::solve);
  auto stored = reader(*plan, 1);
  for (int32_t s = 0; s < tree_->count(); ++s) {
    const PanelShape shape = panel_shape(*tree_, s);
    for (int64_t k = 0; k < shape.steps(); ++k) {
      const Step<const T> step = stored ? stored->step(s, k, 0, Order::forward) : shape.step<const T>(panels_.data() + panel_ptr_[s], k);
      for (int64_t j = 0; j < step.width; ++j) visit(s, step.column + j, step.column_at(j));
    }
  }
}

template <class T>
std::vector<double> Factor<T>::values_on(const Pattern& L) const {
  values_.require_factor();
  const fronts::AssemblyTree& tree = *tree_;
  std::vector<double> x(L.nnz());
  each_column([&](int32_t s, int64_t j, const T* column) {
    const int32_t begin = tree.first(s);
    const int64_t w = tree.pivots(s);
    const int32_t* const rows = tree.rows(s);
    int64_t q = 0;
    for (int64_t p = L.ptr[begin + j]; p < L.ptr[begin + j + 1]; ++p) {
      const int32_t i = L.idx[p];
      if (i < begin + w) {
        x[p] = static_cast<double>(column[i - begin]);
        continue;
      }
      while (rows[q] < i) ++q;
      x[p] = static_cast<double>(column[w + q]);
    }
  });
  return x;
}

template <class T>
std::vector<double> Factor<T>::diagonal() const {
  values_.require_factor();
  std::vector<double> d(tree_->n());
  each_column([&](int32_t s, int64_t j, const T* column) { d[tree_->first(s) + j] = static_cast<double>(column[j]); });
  return d;
}

template <class T>
void Factor<T>::boundary_block(double* S, int threads) const {
  values_.require_factor();
  const int32_t s = tree_->boundary();
  if (s < 0) return;
  const PanelShape shape = panel_shape(*tree_, s);
  const int64_t m = shape.pivots;
  for_range(threads, shape.steps(), 1, [&](int64_t b, int64_t e, int) {
    for (int64_t k = b; k < e; ++k) {
      const Step<const T> step = shape.step<const T>(panels_.data() + panel_ptr_[s], k);
      for (int64_t j = step.column; j < step.column + step.width; ++j)
        std::copy(step.diagonal(j), step.column_at(j - step.column) + m, S + j * m + j);
    }
  });
  mirror_upper(S, m, threads);
}

template <class T>
double Factor<T>::norm1() const {
  values_.require_factor();
  const fronts::AssemblyTree& tree = *tree_;
  std::vector<double> sum(tree.n());
  for (int32_t s = 0; s < tree.count(); ++s)
    for (int32_t j = tree.first(s); j < tree.first(s) + tree.pivots(s); ++j)
      for (int64_t p = tree.entry_ptr[j]; p < tree.entry_ptr[j + 1]; ++p) {
        const int64_t r = tree.entry_row.data()[p], w = tree.pivots(s);
        const int32_t i = r < w ? tree.first(s) + static_cast<int32_t>(r) : tree.rows(s)[r - w];
        sum[j] += std::abs(static_cast<double>(values_.data()[p]));
        if (i != j) sum[i] += std::abs(static_cast<double>(values_.data()[p]));
      }
  return *std::max_element(sum.begin(), sum.end());
}

template std::vector<double> Factor<double>::values_on(const Pattern&) const;
template std::vector<double> Factor<float>::values_on(const Pattern&) const;
template std::vector<double> Factor<double>::diagonal() const;
template std::vector<double> Factor<float>::diagonal() const;
template void Factor<double>::boundary_block(double*, int) const;
template double Factor<double>::norm1() const;
template double Factor<float>::norm1() const;

}  // namespace ms::cholesky
