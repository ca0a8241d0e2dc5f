// The trace of a thread, and its clock.
#include "trace.hpp"

#include <chrono>
#include <ctime>
#include <memory>

namespace ms::trace {
namespace {

struct Trace {
  std::vector<Loop> loops;
  int64_t last = 0;                              // clock at the end of the last loop
  bool in_loop = false;
};

thread_local std::unique_ptr<Trace> trace_of_thread;

int64_t cpu_time() {                             // of this thread, in ns: other programs on the machine do not count
#ifdef CLOCK_THREAD_CPUTIME_ID
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
#else
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
#endif
}

}  // namespace

void begin() {
  trace_of_thread = std::make_unique<Trace>();
  trace_of_thread->last = cpu_time();
}

std::vector<Loop> end() {
  if (!trace_of_thread) return {};
  const std::unique_ptr<Trace> trace = std::move(trace_of_thread);
  trace->loops.push_back({cpu_time() - trace->last, {}, {}});
  return std::move(trace->loops);
}

bool in_loop() { return trace_of_thread && trace_of_thread->in_loop; }

Recorded::Recorded(int threads) {
  Trace* const trace = trace_of_thread.get();
  if (threads <= 1 || !trace || trace->in_loop) return;
  trace->loops.push_back({cpu_time() - trace->last, {}, {}});
  loop_ = &trace->loops.back();
  trace->in_loop = true;
}

Recorded::~Recorded() {
  if (!loop_ || !trace_of_thread) return;
  trace_of_thread->in_loop = false;
  trace_of_thread->last = cpu_time();
}

int32_t Recorded::begin_task() {
  loop_->cost.push_back(0);
  since_ = cpu_time();
  return current();
}

void Recorded::end_task() { loop_->cost.back() = cpu_time() - since_; }

}  // namespace ms::trace
