// Records of the loops of parallel.hpp, from which benchmarks/schedule.py computes how they would run on more threads than this
// machine has. While a trace runs, each loop for several threads runs all its tasks on the calling thread, one after another, and
// the CPU time of every task is recorded. The results stay the same: they do not depend on the number of threads.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace ms::trace {

struct Loop {
  int64_t before = 0;                            // CPU time of the caller since the loop before it, in ns
  std::vector<int64_t> cost;                     // (tasks) CPU time in ns
  std::vector<std::pair<int32_t, int32_t>> after;      // (a, b): task a starts when task b is done
};

// From begin() to end(), loops of this thread are recorded. The last entry of end() has no tasks: it is the time after the last loop.
void begin();
std::vector<Loop> end();
bool in_loop();                                  // a loop of this thread is being recorded

// One loop of the trace of this thread. False, and without effect, if no trace runs, or inside a task of one.
class Recorded {
 public:
  explicit Recorded(int threads);
  ~Recorded();
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  explicit operator bool() const { return loop_ != nullptr; }

  int32_t begin_task();                          // returns its number; tasks do not overlap
  void end_task();
  void needs(int32_t task) { loop_->after.push_back({current(), task}); }     // the current task starts when `task` is done
  int32_t current() const { return static_cast<int32_t>(loop_->cost.size()) - 1; }

  template <class F>
  int32_t task(F&& f) {
    const int32_t number = begin_task();
    f();
    end_task();
    return number;
  }

 private:
  Loop* loop_ = nullptr;
  int64_t since_ = 0;
};

}  // namespace ms::trace
