// State behind interrupt.hpp.
#include "interrupt.hpp"

namespace ms::interrupt {

constinit thread_local Call* current = nullptr;

namespace {

bool (*hook_)(int64_t, int64_t) = nullptr;

bool caller_is_asked_to_end(Call& call) {
  const auto now = std::chrono::steady_clock::now();
  if (!hook_ || now - call.last_look < look_step) return false;
  call.last_look = now;
  return hook_(call.done.load(), call.total.load());
}

}  // namespace

void set_hook(bool (*hook)(int64_t, int64_t)) { hook_ = hook; }

void poll() {
  Call* const call = current;
  if (!call || call->undisturbed.load(std::memory_order_relaxed) > 0) return;
  if (call->caller == std::this_thread::get_id() && caller_is_asked_to_end(*call)) call->requested.store(true);
  if (call->requested.load(std::memory_order_relaxed)) throw Interrupted{};
}

}  // namespace ms::interrupt
