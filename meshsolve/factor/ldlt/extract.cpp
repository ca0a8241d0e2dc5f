// Copies of L, D and the order of elimination of a complete factor, and the number of its nonzeros.
#include <algorithm>
#include <utility>

#include "complete.hpp"

namespace ms::ldlt {

// Columns are written front by front and sorted one at a time.
template <class T>
Extracted Complete<T>::extract() const {
  values_.require_factor();
  const fronts::AssemblyTree& tree = *tree_;
  Extracted out;
  out.perm.reserve(tree.n());
  std::vector<int32_t> position(tree.n());
  for (const FrontState<T>& f : state_)
    for (int64_t j = 0; j < f.pivots; ++j) {
      position[f.name[j]] = static_cast<int32_t>(out.perm.size());
      out.perm.push_back(f.name[j]);
      out.d.push_back(static_cast<double>(f.d[j]));
      out.e.push_back(static_cast<double>(f.e[j]));
    }
  out.ptr.push_back(0);
  std::vector<std::pair<int32_t, double>> column;
  for (int32_t s = 0; s < tree.count(); ++s) {
    const FrontState<T>& f = state_[s];
    for (int64_t j = 0; j < f.pivots; ++j) {
      column.clear();
      const T* const x = f.panel + j * f.ld;
      for (int64_t i = j; i < f.height; ++i)
        if (x[i] != T(0)) {
          const int32_t row = i < f.columns ? f.name[i] : tree.rows(s)[i - f.columns];
          column.push_back({position[row], static_cast<double>(x[i])});
        }
      std::sort(column.begin(), column.end());
      for (const auto& [row, value] : column) {
        out.rows.push_back(row);
        out.values.push_back(value);
      }
      out.ptr.push_back(static_cast<int64_t>(out.rows.size()));
    }
  }
  return out;
}

template <class T>
const Pivots& Complete<T>::pivots() const {
  values_.require_factor();
  return pivots_;
}

template <class T>
int64_t Complete<T>::nonzeros() const {
  values_.require_factor();
  int64_t count = 0;
  for (const FrontState<T>& f : state_)
    for (int64_t j = 0; j < f.pivots; ++j)
      count += f.height - j - std::count(f.panel + j + j * f.ld, f.panel + f.height + j * f.ld, T(0));
  return count;
}

template <class T>
int64_t Complete<T>::nbytes() const {
  return memory_.nbytes() + (values_.scalars() + blocks_.scalars()) * static_cast<int64_t>(sizeof(T)) +
         static_cast<int64_t>(state_.size() * sizeof(FrontState<T>));
}

template class Complete<double>;
template class Complete<float>;

}  // namespace ms::ldlt
