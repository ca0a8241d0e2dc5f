// Ctrl-C and progress during long native work. Each call from Python has a state of its own, which it shares with the workers
// that take part in it: only the thread that made the call may ask Python, the others look at one flag. The hook is set by
// bindings.cpp, so that no room depends on Python.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>

namespace ms {

// What each worker writes has cache lines of its own, which they would else take from each other: alignas(cache_line).
constexpr size_t cache_line = 128;

struct Interrupted {};            // thrown by poll(); the Python exception is already set

namespace interrupt {

constexpr std::chrono::milliseconds look_step{50};      // between two looks at Python

struct alignas(cache_line) Call {                       // from Python, for as long as it runs
  std::atomic<bool> requested{false};
  std::atomic<int> undisturbed{0};                      // objects of that name
  std::atomic<int64_t> done{0}, total{0};               // progress of the phase that is running
  const std::thread::id caller = std::this_thread::get_id();
  std::chrono::steady_clock::time_point last_look = std::chrono::steady_clock::now();      // the caller's own
};

extern constinit thread_local Call* current;            // the call that this thread works for, or nullptr

class Member {                    // while there is one this thread works for that call
 public:
  explicit Member(Call* call) : before_(std::exchange(current, call)) {}
  ~Member() { current = before_; }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

 private:
  Call* const before_;            // a progress callable may call again
};

class Caller {                    // marks this thread as the one that holds the Python call (see bind.hpp)
  Call call_;
  const Member member_{&call_};
};

class Undisturbed {               // while there is one poll() does nothing: for work that puts things back in order
 public:
  Undisturbed() { if (call_) call_->undisturbed.fetch_add(1); }
  ~Undisturbed() { if (call_) call_->undisturbed.fetch_sub(1); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  Call* const call_ = current;
};

void poll();                      // cheap; throws Interrupted. Call about once per task or per 100 us of work
inline void begin(int64_t steps) {
  if (!current) return;
  current->done.store(0, std::memory_order_relaxed);
  current->total.store(steps, std::memory_order_relaxed);
}
inline void advance(int64_t steps) {
  if (current) current->done.fetch_add(steps, std::memory_order_relaxed);
}

// hook(done, total) runs on the calling thread, about every look_step; true where the work has to end.
void set_hook(bool (*hook)(int64_t, int64_t));

}  // namespace interrupt
}  // namespace ms
