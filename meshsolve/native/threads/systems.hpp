// A loop over many independent systems. Threads share the systems; each system runs on one thread.
#pragma once
#include <cstdint>

#include "function_ref.hpp"

namespace ms {

// Calls f(i, worker) for systems 0..count-1, and polls for Ctrl-C before each. `steps` of progress for a system.
void each_system(int threads, int64_t count, int64_t steps, FunctionRef<void(int64_t, int)> f);

}  // namespace ms
