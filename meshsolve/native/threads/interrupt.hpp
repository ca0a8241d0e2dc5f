// Ctrl-C and progress during long native work. Each call from Python has its own state, which is shared with the workers of the call.
// Only the calling thread may call Python; workers read one flag. bindings.cpp sets the hook, so that no package depends on Python.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>

namespace ms {

// Alignment of data that one worker writes, against false sharing: alignas(cache_line).
constexpr size_t cache_line = 128;

struct Interrupted {};            // thrown by poll(); the Python exception is already set

namespace interrupt {

constexpr std::chrono::milliseconds poll_interval{50};  // between two calls of the hook

struct alignas(cache_line) Call {                       // state of one call from Python
  std::atomic<bool> requested{false};
  std::atomic<int> undisturbed{0};                      // live Undisturbed objects
  std::atomic<int64_t> done{0}, total{0};               // progress of the current phase
  const std::thread::id caller = std::this_thread::get_id();
  std::chrono::steady_clock::time_point last_poll = std::chrono::steady_clock::now();      // used by the caller only
};

extern constinit thread_local Call* current;            // the Python call of this thread, or nullptr

class Member {                    // attaches this thread to a call during its lifetime
 public:
  explicit Member(Call* call) : before_(std::exchange(current, call)) {}
  ~Member() { current = before_; }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

 private:
  Call* const before_;            // not nullptr if a progress callback calls the library
};

class Caller {                    // marks this thread as the calling thread of a Python call (see bind.hpp)
  Call call_;
  const Member member_{&call_};
};

class Undisturbed {               // disables poll() during its lifetime: for recovery after an error
 public:
  Undisturbed() { if (call_) call_->undisturbed.fetch_add(1); }
  ~Undisturbed() { if (call_) call_->undisturbed.fetch_sub(1); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  Call* const call_ = current;
};

// Throws Interrupted after Ctrl-C. Cheap: call it once per task or per 100 us of work.
void poll();
inline void begin(int64_t steps) {
  if (!current) return;
  current->done.store(0, std::memory_order_relaxed);
  current->total.store(steps, std::memory_order_relaxed);
}
inline void advance(int64_t steps) {
  if (current) current->done.fetch_add(steps, std::memory_order_relaxed);
}

// Runs hook(done, total) on the calling thread about every poll_interval; it returns true if the work must end.
void set_hook(bool (*hook)(int64_t, int64_t));

}  // namespace interrupt
}  // namespace ms
