// Ctrl-C and progress during long native work. Only the thread that called from Python may ask Python for signals;
// every worker looks at one flag. The hooks are set by module.cpp, so that no room depends on Python.
#pragma once
#include <atomic>
#include <cstdint>

namespace ms {

struct Interrupted {};            // thrown by poll(); the Python exception is already set

namespace interrupt {

extern std::atomic<bool> requested;
extern std::atomic<int64_t> done, total;      // progress of the phase that is running
extern std::atomic<int> undisturbed;          // objects of that name

class Caller {                    // marks this thread as the one that holds the Python call (see bind.hpp)
 public:
  Caller();
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
};

class Undisturbed {               // while there is one poll() does nothing: for work that puts things back in order
 public:
  Undisturbed() { undisturbed.fetch_add(1); }
  ~Undisturbed() { undisturbed.fetch_sub(1); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;
};

void poll();                      // cheap; throws Interrupted. Call about once per task or per 100 us of work
inline void begin(int64_t steps) { done.store(0, std::memory_order_relaxed); total.store(steps, std::memory_order_relaxed); }
inline void advance(int64_t steps) { done.fetch_add(steps, std::memory_order_relaxed); }
void set_hook(bool (*hook)());    // runs on the calling thread at most every 50 ms; true where the work has to end

}  // namespace interrupt
}  // namespace ms
