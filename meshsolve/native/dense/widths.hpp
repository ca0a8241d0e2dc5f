// Right-hand sides in groups of so many as the compiler knows: f(K, ...) gets their number as a std::integral_constant.
#pragma once
#include <cstdint>
#include <type_traits>

namespace ms {

// f(K) for the one of `widths` that is k; nothing where there is none.
template <int64_t... widths, class F>
void with_width(int64_t k, F&& f) {
  static_cast<void>((... || (k == widths && (f(std::integral_constant<int64_t, widths>()), true))));
}

// f(K, first) for k columns: as often as it goes the largest of `widths`, which descend to 1, then the next one.
template <int64_t... widths, class F>
void in_widths(int64_t k, F&& f) {
  for (int64_t at = 0; at < k;)
    static_cast<void>((... || (k - at >= widths && (f(std::integral_constant<int64_t, widths>(), at), at += widths))));
}

}  // namespace ms
