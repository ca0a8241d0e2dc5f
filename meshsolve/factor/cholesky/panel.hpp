// Storage of L: front after front, the columns of a front one after the other. A large front is stored in steps of 128 columns,
// each without the unused rows above its first pivot. These would be half of the panel of a root.
#pragma once
#include <algorithm>
#include <cstdint>

#include "factor/fronts/fronts.hpp"

namespace ms::cholesky {

constexpr int64_t large_step = 128;

// Consecutive columns of a front, from the row of their first pivot on. T may be const.
template <class T>
struct Step {
  int64_t column, width, height, ld;
  T* data;
  T* from(int64_t row) const { return data + (row - column); }              // the columns from this row of the front on
  T* column_at(int64_t j) const { return data + j * ld - column; }          // column j of these: row i of the front is at [i]
  T* diagonal(int64_t row) const { return column_at(row - column) + row; }
};

struct PanelShape {
  int64_t pivots, height;

  bool is_large() const { return fronts::is_large(pivots, height); }
  int64_t width() const { return is_large() ? large_step : pivots; }
  int64_t steps() const { return is_large() ? (pivots + large_step - 1) / large_step : 1; }

  int64_t scalars() const {
    const Step<const char> last = step<const char>(nullptr, steps() - 1);
    return offset(steps() - 1) + last.width * last.ld;
  }

  // Position in the panel of the k-th step.
  int64_t offset(int64_t k) const {
    int64_t at = 0;
    for (int64_t j = 0; j < k; ++j) at += width() * fronts::leading_dimension(height - j * width());
    return at;
  }

  template <class T>
  Step<T> step(T* panel, int64_t k) const {
    if (!is_large()) [[likely]] return {0, pivots, height, fronts::leading_dimension(height), panel};
    const int64_t column = k * width();
    return {column, std::min(width(), pivots - column), height - column, fronts::leading_dimension(height - column), panel + offset(k)};
  }
};

inline PanelShape panel_shape(const fronts::AssemblyTree& tree, int32_t s) { return {tree.pivots(s), tree.height(s)}; }

}  // namespace ms::cholesky
