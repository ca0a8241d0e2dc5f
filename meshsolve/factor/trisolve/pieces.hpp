// Order of the rows within a piece: by (level within the piece, length). Rows of one length are then adjacent and independent. In
// a loop over a short row of unpredictable length, the branch costs more than the arithmetic.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace ms::trisolve {

constexpr int32_t piece = 4096;         // rows of a piece, which fit into the second-level cache

// Computes order[0 .. count) of the members 0 .. count - 1, which depend on earlier members only. `dependents(k, f)` calls f(j)
// for the members j > k that depend on k, or f(k). If most members depend on each other, the order is unchanged. `level` is
// scratch.
template <class Dependents, class Length>
void order_piece(int32_t count, Dependents&& dependents, Length&& length, std::vector<int32_t>& level, int32_t* order) {
  level.assign(count, 0);
  int32_t levels = 1;
  for (int32_t k = 0; k < count; ++k) {
    const int32_t mine = level[k];
    levels = std::max(levels, mine + 1);
    dependents(k, [&](int32_t j) { level[j] = std::max(level[j], mine + (j != k)); });
  }
  if (8 * levels > count) {
    std::iota(order, order + count, 0);
    return;
  }
  constexpr int32_t lengths = 64;       // distinct lengths; a loop length that rarely changes is predicted
  const auto key = [&](int32_t k) { return level[k] * lengths + static_cast<int32_t>(std::min<int64_t>(length(k), lengths - 1)); };
  std::vector<int32_t> next(static_cast<size_t>(levels) * lengths + 1, 0);
  for (int32_t k = 0; k < count; ++k) ++next[key(k) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (int32_t k = 0; k < count; ++k) order[next[key(k)]++] = k;
}

}  // namespace ms::trisolve
