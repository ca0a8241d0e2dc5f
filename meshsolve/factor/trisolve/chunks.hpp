// Chunks of rows on several threads, each after the segments that it depends on.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "by_rows.hpp"
#include "native/threads/parallel.hpp"

namespace ms::trisolve {

// Calls f(chunk) for all chunks. Workers claim them in order; a chunk of segment s waits until all chunks before that segment are
// done. A worker waits only for chunks that already run, so there is no deadlock. An exception of one worker stops the others.
template <bool up, class F>
void run_chunks(const Segments& s, int threads, F&& f) {
  const int32_t count = s.chunks();
  std::vector<int32_t> needs(count);             // number of chunks that must be done before
  for (size_t g = 0; g + 1 < s.first.size(); ++g)
    for (int32_t c = s.first[g]; c < s.first[g + 1]; ++c)
      if constexpr (up)
        needs[count - 1 - c] = count - s.first[g + 1];
      else
        needs[c] = s.first[g];
  std::atomic<int32_t> next{0}, done{0};
  std::atomic<bool> stop{false};
  Pool::run(threads, [&](int) {
    try {
      for (int32_t c; (c = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
        spin_until([&] { return done.load(std::memory_order_acquire) >= needs[c] || stop.load(std::memory_order_relaxed); });
        if (stop.load(std::memory_order_relaxed)) return;
        interrupt::poll();
        f(up ? count - 1 - c : c);
        done.fetch_add(1, std::memory_order_acq_rel);
      }
    } catch (...) {
      stop = true;
      throw;
    }
  });
}

}  // namespace ms::trisolve
