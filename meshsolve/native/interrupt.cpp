// State behind interrupt.hpp.
#include "interrupt.hpp"

#include <chrono>

namespace ms::interrupt {

std::atomic<bool> requested{false};
std::atomic<int64_t> done{0}, total{0};
std::atomic<int> undisturbed{0};

namespace {
using Clock = std::chrono::steady_clock;
bool (*hook_)() = nullptr;
thread_local int caller_depth = 0;
thread_local Clock::time_point last_look;
}  // namespace

Caller::Caller() {
  if (caller_depth++ == 0) {
    requested.store(false);
    begin(0);                      // counts of the call before this one are not this one's progress
    last_look = Clock::now();
  }
}
Caller::~Caller() { --caller_depth; }

void set_hook(bool (*hook)()) { hook_ = hook; }

void poll() {
  if (undisturbed.load(std::memory_order_relaxed) > 0) return;
  if (caller_depth > 0 && hook_) {
    const auto now = Clock::now();
    if (now - last_look > std::chrono::milliseconds(50)) {
      last_look = now;
      if (hook_()) {                  // thrown here and now: a call that starts on another thread clears the flag
        requested.store(true);
        throw Interrupted{};
      }
    }
  }
  if (requested.load(std::memory_order_relaxed)) throw Interrupted{};
}

}  // namespace ms::interrupt
