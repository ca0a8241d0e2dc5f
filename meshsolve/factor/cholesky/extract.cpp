// What is read out of a factor: L on its exact pattern, its diagonal, the norm of the matrix it was made from.
#include <algorithm>
#include <cmath>

#include "cholesky.hpp"

namespace ms::cholesky {

template <class T>
std::vector<double> Factor<T>::values_on(const Pattern& L) const {
  const fronts::AssemblyTree& tree = *tree_;
  std::vector<double> x(L.nnz());
  for (int32_t s = 0; s < tree.count(); ++s) {
    const int32_t begin = tree.first(s);
    const int64_t w = tree.pivots(s), ld = tree.leading(s);
    const int32_t* const rows = tree.rows(s);
    for (int64_t j = 0; j < w; ++j) {
      const T* const column = panel(s) + j * ld;
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
    }
  }
  return x;
}

template <class T>
std::vector<double> Factor<T>::diagonal() const {
  std::vector<double> d(tree_->n());
  for (int32_t s = 0; s < tree_->count(); ++s)
    for (int64_t j = 0; j < tree_->pivots(s); ++j)
      d[tree_->first(s) + j] = static_cast<double>(panel(s)[j * (tree_->leading(s) + 1)]);
  return d;
}

template <class T>
double Factor<T>::norm1() const {
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
template double Factor<double>::norm1() const;
template double Factor<float>::norm1() const;

}  // namespace ms::cholesky
