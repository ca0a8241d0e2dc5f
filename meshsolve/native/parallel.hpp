// One pool of std::threads per process and the two ways in which the rooms use it: a tree of tasks and a loop.
// No result may depend on the number of threads: a parent pulls what its children made in a fixed order, and a loop
// body writes only what its own range owns.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "interrupt.hpp"

namespace ms {

class Pool {
 public:
  // f(worker) on `threads` workers; the caller is worker 0. The first exception of any worker is thrown here.
  // A nested or concurrent call runs on the caller alone: never a deadlock. A forked child starts a pool of its own.
  static void run(int threads, const std::function<void(int)>& f);
  static int64_t shared();                  // calls so far that more than one thread took part in
};

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

}  // namespace ms
