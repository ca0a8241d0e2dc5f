// Loops over rows in which threads process some ranges and the caller the rows between them.
#pragma once
#include <vector>

#include "native/threads/parallel.hpp"
#include "symbolic.hpp"

namespace ms::symbolic {

constexpr int64_t kRows = 1 << 13;              // rows or columns of one piece of work

// Calls f(begin, end) for the parts, independent ascending ranges of [0, n), then for the gaps between them in ascending order.
template <class F>
void for_parts(int threads, int32_t n, const std::vector<Span>& parts, F&& f) {
  const int64_t count = static_cast<int64_t>(parts.size());
  for_range(threads, count, count / 256, [&](int64_t b, int64_t e, int) {
    for (int64_t s = b; s < e; ++s) f(parts[s].begin, parts[s].end);
  });
  int32_t done = 0;
  for (const Span& part : parts) {
    f(done, part.begin);
    done = part.end;
  }
  f(done, n);
}

}  // namespace ms::symbolic
