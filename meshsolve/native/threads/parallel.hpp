// One pool of std::threads per process, and loops over ranges and trees of tasks that run on it.
// Results do not depend on the number of threads. A parent adds the results of its children in a fixed order, and the body of a
// loop writes only the entries of its own range.
// A loop compiles its body once and passes it on by reference: one indirect call per task or piece.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "function_ref.hpp"
#include "interrupt.hpp"

namespace ms {

class Pool {
 public:
  // Calls f(worker) on `threads` workers; the caller is worker 0. Throws the first exception of any worker.
  // A nested or concurrent call runs on the caller alone, so it cannot deadlock. A forked child starts a pool of its own.
  // `f(0)` must do all work that no other worker has begun: a worker that has not woken up when f(0) returns does not take part.
  static void run(int threads, FunctionRef<void(int)> f);
  static int64_t shared();                  // calls so far that ran on more than one thread
};

// Waits until ready() and polls for Ctrl-C. `lock` is released when it throws.
template <class Ready>
void wait_polling(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Ready&& ready) {
  while (!changed.wait_for(lock, interrupt::poll_interval, ready)) {
    lock.unlock();
    interrupt::poll();
    lock.lock();
  }
}

// The same by spinning, for short waits.
template <class Ready>
void spin_until(Ready&& ready) {
  for (int spin = 0; !ready();)
    if (++spin > 2000) {
      interrupt::poll();
      std::this_thread::yield();
    }
}

// Calls f(task, worker) for every task after all its children. `parent` is postordered: parent[t] > t, or -1 for a root.
// Leaves are claimed in the order of `leaves` (empty: ascending). The worker that finishes the last child of a task continues with
// that task.
void for_tree(int threads, const std::vector<int32_t>& parent, std::vector<int32_t> leaves, FunctionRef<void(int32_t, int)> f);
inline void for_tree(int threads, const std::vector<int32_t>& parent, FunctionRef<void(int32_t, int)> f) {
  for_tree(threads, parent, {}, f);
}

// Calls f(task, worker) for every task after its parent; `parent` as in for_tree. Tasks are claimed in the order they become ready.
// A worker waits only for tasks that already run, so there is no deadlock.
void for_tree_down(int threads, const std::vector<int32_t>& parent, FunctionRef<void(int32_t, int)> f);

// for_range on several threads.
void for_pieces(int threads, int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t, int)> f);

// Calls f(begin, end, worker) over [0, n) in pieces of `grain`; one piece runs on the caller.
template <class F>
void for_range(int threads, int64_t n, int64_t grain, F&& f) {
  if (threads > 1 && n > grain)
    for_pieces(threads, n, std::max<int64_t>(grain, 1), f);
  else if (n > 0)
    f(int64_t{0}, n, 0);
}

// Calls f(begin, end, part) for one part of [0, n) per thread. Each call reads all `work` elements and uses those of its part. Less than
// 4096 elements stay on the caller.
template <class F>
void for_parts_of_all(int threads, int64_t n, int64_t work, F&& f) {
  if (work < 1 << 12) threads = 1;
  const int64_t part = (n + threads - 1) / threads;
  for_range(threads, n, part, [&](int64_t begin, int64_t end, int) { f(begin, end, begin / part); });
}

// for_range from the end to the beginning. Long rows, which constraints add, come last: begun last, they would keep one thread busy
// while the others are idle.
template <class F>
void for_range_backwards(int threads, int64_t n, int64_t grain, F&& f) {
  for_range(threads, n, grain, [&](int64_t begin, int64_t end, int worker) { f(n - end, n - begin, worker); });
}

// Calls before(task, worker) for n tasks, then middle(), then after(task, worker) for the same tasks, in one call of the pool: up a
// forest and down again. The worker that finishes the last task of the first stage runs the middle.
void for_stages(int threads, int32_t n, FunctionRef<void(int32_t, int)> before, FunctionRef<void()> middle,
                FunctionRef<void(int32_t, int)> after);

}  // namespace ms
