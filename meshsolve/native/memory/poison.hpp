// For tests: while this is set, fresh blocks of memory are filled with NaN, so that a number read before it was written shows.
#pragma once
#include <atomic>

namespace ms {
extern std::atomic<bool> poisoned;
}
