// Groups of right-hand sides with a compile-time size: f(K, ...) gets the size as a std::integral_constant.
#pragma once
#include <cstdint>
#include <type_traits>

namespace ms {

// Calls f(K) for the entry K of `widths` that equals k; does nothing if no entry does.
template <int64_t... widths, class F>
void with_width(int64_t k, F&& f) {
  static_cast<void>((... || (k == widths && (f(std::integral_constant<int64_t, widths>()), true))));
}

// Calls f(K, first) for groups that cover k columns: greedily the largest of `widths`, which descend to 1.
template <int64_t... widths, class F>
void in_widths(int64_t k, F&& f) {
  for (int64_t at = 0; at < k;)
    static_cast<void>((... || (k - at >= widths && (f(std::integral_constant<int64_t, widths>(), at), at += widths))));
}

}  // namespace ms
