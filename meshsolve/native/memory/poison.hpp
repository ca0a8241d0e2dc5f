// For tests: if set, new blocks of memory are filled with NaN, which exposes reads of uninitialized memory.
#pragma once
#include <atomic>

namespace ms {
extern std::atomic<bool> poisoned;
}
