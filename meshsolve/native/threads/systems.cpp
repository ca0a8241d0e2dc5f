#include "systems.hpp"

#include <algorithm>

#include "parallel.hpp"

namespace ms {

// A thread takes at least 8 pieces, because systems may differ in cost.
void each_system(int threads, int64_t count, int64_t steps, FunctionRef<void(int64_t, int)> f) {
  interrupt::begin(count * steps);
  for_range(threads, count, std::clamp<int64_t>(count / (8 * threads), 1, 64), [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      interrupt::poll();
      f(i, worker);
      interrupt::advance(steps);
    }
  });
}

}  // namespace ms
