// Sorts by column, then by row. The second sort is stable, so columns ascend in each row.
#include "pattern.hpp"

#include <cstddef>

#include "sparse/rearrange.hpp"

namespace ms::circuit {
namespace {

// The numbers 0..count-1, or those in `from`, stably sorted by key.
std::vector<int64_t> sorted_by(int32_t n, const int32_t* key, int64_t count, const std::vector<int64_t>* from) {
  std::vector<int64_t> next(static_cast<size_t>(n) + 1, 0), out(static_cast<size_t>(count));
  for (int64_t t = 0; t < count; ++t) ++next[key[t] + 1];
  cumsum(next);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t t = from ? (*from)[k] : k;
    out[next[key[t]]++] = t;
  }
  return out;
}

}  // namespace

Positions positions(int32_t n, const int32_t* rows, const int32_t* columns, int64_t count) {
  const std::vector<int64_t> by_column = sorted_by(n, columns, count, nullptr);
  const std::vector<int64_t> by_row = sorted_by(n, rows, count, &by_column);
  Positions out;
  out.pattern.ptr.assign(static_cast<size_t>(n) + 1, 0);
  out.slot.resize(static_cast<size_t>(count));
  int32_t row = -1;
  for (const int64_t t : by_row) {
    if (rows[t] != row || columns[t] != out.pattern.idx.back()) {
      row = rows[t];
      out.pattern.idx.push_back(columns[t]);
      ++out.pattern.ptr[row + 1];
    }
    out.slot[t] = static_cast<int64_t>(out.pattern.idx.size()) - 1;
  }
  cumsum(out.pattern.ptr);
  return out;
}

}  // namespace ms::circuit
