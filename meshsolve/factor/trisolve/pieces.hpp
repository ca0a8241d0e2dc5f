// In which order the rows of a piece stand best: by (level among themselves, length). Rows of one length then follow each other,
// and do not wait for each other. A loop over a short row whose length is a guess costs more than its numbers.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace ms::trisolve {

constexpr int32_t piece = 4096;         // rows of one: they stay in the second-level cache

// order[0 .. count) of the members 0 .. count - 1, each of which depends on earlier ones alone. dependants(k, f) calls f(j) for
// members j > k that depend on k, or f(k). Where most of them depend on each other they stay as they are. `level` is scratch.
template <class Dependants, class Length>
void order_piece(int32_t count, Dependants&& dependants, Length&& length, std::vector<int32_t>& level, int32_t* order) {
  level.assign(count, 0);
  int32_t levels = 1;
  for (int32_t k = 0; k < count; ++k) {
    const int32_t mine = level[k];
    levels = std::max(levels, mine + 1);
    dependants(k, [&](int32_t j) { level[j] = std::max(level[j], mine + (j != k)); });
  }
  if (8 * levels > count) {
    std::iota(order, order + count, 0);
    return;
  }
  constexpr int32_t lengths = 64;       // that are told apart: a loop whose length changes rarely is foreseen
  const auto key = [&](int32_t k) { return level[k] * lengths + static_cast<int32_t>(std::min<int64_t>(length(k), lengths - 1)); };
  std::vector<int32_t> next(static_cast<size_t>(levels) * lengths + 1, 0);
  for (int32_t k = 0; k < count; ++k) ++next[key(k) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (int32_t k = 0; k < count; ++k) order[next[key(k)]++] = k;
}

}  // namespace ms::trisolve
