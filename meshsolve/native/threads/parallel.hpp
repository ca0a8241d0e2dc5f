// One pool of std::threads per process and the ways in which the rooms use it: a tree of tasks, a loop, a forest
// up and down.
// No result may depend on the number of threads: a parent pulls what its children made in a fixed order, and a loop
// body writes only what its own range owns.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "interrupt.hpp"

namespace ms {

class Pool {
 public:
  // f(worker) on `threads` workers; the caller is worker 0. The first exception of any worker is thrown here.
  // A nested or concurrent call runs on the caller alone: never a deadlock. A forked child starts a pool of its own.
  // f(0) has to do whatever work no other worker has begun: workers that have not woken up when it returns stay out.
  static void run(int threads, const std::function<void(int)>& f);
  static int64_t shared();                  // calls so far that more than one thread took part in
};

// Waits until ready(), and hears Ctrl-C meanwhile: then it throws, and `lock` is open.
template <class Ready>
void wait_or_hear(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Ready&& ready) {
  while (!changed.wait_for(lock, interrupt::look_step, ready)) {
    lock.unlock();
    interrupt::poll();
    lock.lock();
  }
}

// The same without a lock, where it will not take long.
template <class Ready>
void spin_until(Ready&& ready) {
  for (int spin = 0; !ready();)
    if (++spin > 2000) {
      interrupt::poll();
      std::this_thread::yield();
    }
}

// f(task, worker) for every task after all its children. `parent` is postordered: parent[t] > t, or -1 for a root.
// Leaves are handed out in the order of `leaves` (empty: ascending) by one counter; whoever finishes the last child of a task
// goes on with that task.
template <class F>
void for_tree(int threads, const std::vector<int32_t>& parent, std::vector<int32_t> leaves, F&& f) {
  const int32_t n = static_cast<int32_t>(parent.size());
  std::unique_ptr<std::atomic<int32_t>[]> pending(new std::atomic<int32_t>[n]);
  for (int32_t t = 0; t < n; ++t) pending[t].store(0, std::memory_order_relaxed);
  for (int32_t t = 0; t < n; ++t)
    if (parent[t] >= 0) pending[parent[t]].fetch_add(1, std::memory_order_relaxed);
  if (leaves.empty())
    for (int32_t t = 0; t < n; ++t)
      if (pending[t].load(std::memory_order_relaxed) == 0) leaves.push_back(t);
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  Pool::run(std::min<int>(threads, static_cast<int>(leaves.size())), [&](int worker) {
    try {
      for (size_t i; !stop.load(std::memory_order_relaxed) && (i = next.fetch_add(1)) < leaves.size();)
        for (int32_t t = leaves[i]; t >= 0;) {
          interrupt::poll();
          f(t, worker);
          const int32_t p = parent[t];
          if (p < 0 || pending[p].fetch_sub(1, std::memory_order_acq_rel) != 1) break;
          t = p;
        }
    } catch (...) {
      stop = true;
      throw;
    }
  });
}

template <class F>
void for_tree(int threads, const std::vector<int32_t>& parent, F&& f) {
  for_tree(threads, parent, {}, std::forward<F>(f));
}

// f(task, worker) for every task after its parent. `parent` as in for_tree. Tasks are claimed in the order in which they come free:
// whoever waits has claimed a later one than those that are being worked on.
template <class F>
void for_tree_down(int threads, const std::vector<int32_t>& parent, F&& f) {
  const int32_t n = static_cast<int32_t>(parent.size());
  if (threads <= 1) {
    for (int32_t t = n; t-- > 0;) {
      interrupt::poll();
      f(t, 0);
    }
    return;
  }
  std::vector<int32_t> first_child(n, -1), next_child(n, -1);
  std::unique_ptr<std::atomic<int32_t>[]> order(new std::atomic<int32_t>[n]);          // of tasks; -1: not yet free
  std::atomic<int32_t> claimed{0}, freed{0};
  std::atomic<bool> stop{false};
  for (int32_t t = 0; t < n; ++t) order[t].store(-1, std::memory_order_relaxed);
  const auto set_free = [&](int32_t t) {
    order[freed.fetch_add(1, std::memory_order_relaxed)].store(t, std::memory_order_release);
  };
  for (int32_t t = 0; t < n; ++t)
    if (parent[t] >= 0) next_child[t] = std::exchange(first_child[parent[t]], t);
  for (int32_t t = n; t-- > 0;)
    if (parent[t] < 0) set_free(t);
  Pool::run(std::min(threads, n), [&](int worker) {
    try {
      for (int32_t i; (i = claimed.fetch_add(1, std::memory_order_relaxed)) < n;) {
        int32_t t;
        spin_until([&] { return (t = order[i].load(std::memory_order_acquire)) >= 0 || stop.load(std::memory_order_relaxed); });
        if (t < 0) return;
        interrupt::poll();
        f(t, worker);
        for (int32_t c = first_child[t]; c >= 0; c = next_child[c]) set_free(c);
      }
    } catch (...) {
      stop = true;
      throw;
    }
  });
}

// f(begin, end, worker) over [0, n) in pieces of `grain`. Stays on the caller when there is one piece.
template <class F>
void for_range(int threads, int64_t n, int64_t grain, F&& f) {
  grain = std::max<int64_t>(grain, 1);
  const int64_t pieces = (n + grain - 1) / grain;
  if (threads <= 1 || pieces <= 1) {
    if (n > 0) f(int64_t{0}, n, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  std::atomic<bool> stop{false};
  Pool::run(static_cast<int>(std::min<int64_t>(threads, pieces)), [&](int worker) {
    try {
      for (int64_t b; !stop.load(std::memory_order_relaxed) && (b = next.fetch_add(grain)) < n;) {
        interrupt::poll();
        f(b, std::min(n, b + grain), worker);
      }
    } catch (...) {
      stop = true;
      throw;
    }
  });
}

// f(begin, end, part) for as many parts of [0, n) as there are threads, each of which goes through all of `work` elements for what is
// its own; few stay with the caller.
template <class F>
void for_parts_of_all(int threads, int64_t n, int64_t work, F&& f) {
  if (work < 1 << 12) threads = 1;
  const int64_t part = (n + threads - 1) / threads;
  for_range(threads, n, part, [&](int64_t begin, int64_t end, int) { f(begin, end, begin / part); });
}

// As for_range, from the end on: long rows, as constraints have them, come last, and would keep one thread when the others are done.
template <class F>
void for_range_backwards(int threads, int64_t n, int64_t grain, F&& f) {
  for_range(threads, n, grain, [&](int64_t begin, int64_t end, int worker) { f(n - end, n - begin, worker); });
}

// before(task, worker) for n tasks, then middle(), then after(task, worker) for the same tasks, all in one call of the pool: up a
// forest and down again. Whoever finishes the last task of the first stage runs the middle.
template <class F, class M, class G>
void for_stages(int threads, int32_t n, F&& before, M&& middle, G&& after) {
  std::atomic<int32_t> first{0}, second{0}, left{n};
  std::atomic<bool> ready{n == 0}, stop{false};
  std::mutex mutex;
  std::condition_variable opened;
  const auto open = [&] {
    {
      std::lock_guard<std::mutex> lock(mutex);           // no worker is between its look and its sleep
      ready.store(true, std::memory_order_release);
    }
    opened.notify_all();
  };
  const auto is_ready = [&] { return ready.load(std::memory_order_acquire); };
  if (n == 0) middle();
  Pool::run(std::min<int>(threads, n), [&](int worker) {
    try {
      for (int32_t t; !stop.load(std::memory_order_relaxed) && (t = first.fetch_add(1)) < n;) {
        interrupt::poll();
        before(t, worker);
        if (left.fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
        middle();
        open();
      }
      for (int spin = 0; spin < 200 && !is_ready(); ++spin) std::this_thread::yield();
      if (!is_ready()) {
        std::unique_lock<std::mutex> lock(mutex);
        wait_or_hear(opened, lock, is_ready);
      }
      for (int32_t t; !stop.load(std::memory_order_relaxed) && (t = second.fetch_add(1)) < n;) {
        interrupt::poll();
        after(t, worker);
      }
    } catch (...) {
      stop = true;
      open();
      throw;
    }
  });
}

}  // namespace ms
