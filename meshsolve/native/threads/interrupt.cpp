// State behind interrupt.hpp.
#include "interrupt.hpp"

namespace ms::interrupt {

constinit thread_local Call* current = nullptr;

namespace {

bool (*hook_)(int64_t, int64_t) = nullptr;

bool is_stop_requested(Call& call) {
  const auto now = std::chrono::steady_clock::now();
  if (!hook_ || now - call.last_poll < poll_interval) return false;
  call.last_poll = now;
  return hook_(call.done.load(), call.total.load());
}

}  // namespace

void set_hook(bool (*hook)(int64_t, int64_t)) { hook_ = hook; }

void poll() {
  Call* const call = current;
  if (!call || call->undisturbed.load(std::memory_order_relaxed) > 0) return;
  if (call->caller == std::this_thread::get_id() && is_stop_requested(*call)) call->requested.store(true);
  if (call->requested.load(std::memory_order_relaxed)) throw Interrupted{};
}

}  // namespace ms::interrupt
