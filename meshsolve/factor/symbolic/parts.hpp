// Loops over rows in which threads process some ranges and the caller what is between them.
#pragma once
#include "native/forest.hpp"
#include "symbolic.hpp"

namespace ms::symbolic {

constexpr int64_t kRows = 1 << 13;              // rows or columns of one piece of work

// Calls f(begin, end) for the parts, independent ascending ranges of [0, n), then for the gaps between them in ascending order.
template <class F>
void for_parts(int threads, int32_t n, const std::vector<Span>& parts, F&& f) {
  for_each_part(threads, parts, [&](int64_t s, int) { f(parts[s].begin, parts[s].end); });
  int32_t done = 0;
  for (const Span& part : parts) {
    f(done, part.begin);
    done = part.end;
  }
  f(done, n);
}

}  // namespace ms::symbolic
