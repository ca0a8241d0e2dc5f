// The loops of parallel.hpp. An exception of one worker stops the others at their next task.
#include <atomic>
#include <memory>
#include <utility>

#include "parallel.hpp"
#include "trace.hpp"

namespace ms {
namespace {

using Counters = std::unique_ptr<std::atomic<int32_t>[]>;

Counters counters(int32_t n, int32_t value) {
  Counters all(new std::atomic<int32_t>[n]);
  for (int32_t t = 0; t < n; ++t) all[t].store(value, std::memory_order_relaxed);
  return all;
}

// Runs work(worker) on the pool and sets `stop` when a worker throws.
template <class Work>
void run_until(std::atomic<bool>& stop, int threads, Work&& work) {
  Pool::run(threads, [&](int worker) {
    try {
      work(worker);
    } catch (...) {
      stop = true;
      throw;
    }
  });
}

// ---- the loops in a trace: on one thread, with a record of each task

void record(trace::Recorded& loop, const std::vector<int32_t>& parent, std::vector<int32_t>&& leaves, FunctionRef<void(int32_t, int)> f) {
  std::vector<std::vector<int32_t>> children(parent.size());   // their numbers in the record
  for_tree(1, parent, std::move(leaves), [&](int32_t t, int worker) {
    const int32_t number = loop.task([&] { f(t, worker); });
    for (const int32_t c : children[t]) loop.needs(c);
    if (parent[t] >= 0) children[parent[t]].push_back(number);
  });
}

void record_down(trace::Recorded& loop, const std::vector<int32_t>& parent, FunctionRef<void(int32_t, int)> f) {
  std::vector<int32_t> number(parent.size());
  for_tree_down(1, parent, [&](int32_t t, int worker) {
    number[t] = loop.task([&] { f(t, worker); });
    if (parent[t] >= 0) loop.needs(number[parent[t]]);
  });
}

void record_pieces(trace::Recorded& loop, int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t, int)> f) {
  for_pieces(1, n, grain, [&](int64_t begin, int64_t end, int worker) { loop.task([&] { f(begin, end, worker); }); });
}

void record_stages(trace::Recorded& loop, int32_t n, FunctionRef<void(int32_t, int)> before, FunctionRef<void()> middle,
                   FunctionRef<void(int32_t, int)> after) {
  int32_t between = -1;
  for_stages(1, n, [&](int32_t t, int worker) { loop.task([&] { before(t, worker); }); }, [&] {
    between = loop.task(middle);
    for (int32_t t = 0; t < between; ++t) loop.needs(t);
  }, [&](int32_t t, int worker) {
    loop.task([&] { after(t, worker); });
    loop.needs(between);
  });
}

}  // namespace

void for_tree(int threads, const std::vector<int32_t>& parent, std::vector<int32_t> leaves, FunctionRef<void(int32_t, int)> f) {
  const int32_t n = static_cast<int32_t>(parent.size());
  if (trace::Recorded loop{threads}) return record(loop, parent, std::move(leaves), f);
  const Counters pending = counters(n, 0);                    // children that are not finished
  for (int32_t t = 0; t < n; ++t)
    if (parent[t] >= 0) pending[parent[t]].fetch_add(1, std::memory_order_relaxed);
  if (leaves.empty())
    for (int32_t t = 0; t < n; ++t)
      if (pending[t].load(std::memory_order_relaxed) == 0) leaves.push_back(t);
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  run_until(stop, std::min<int>(threads, static_cast<int>(leaves.size())), [&](int worker) {
    for (size_t i; !stop.load(std::memory_order_relaxed) && (i = next.fetch_add(1)) < leaves.size();)
      for (int32_t t = leaves[i]; t >= 0;) {
        interrupt::poll();
        f(t, worker);
        const int32_t p = parent[t];
        if (p < 0 || pending[p].fetch_sub(1, std::memory_order_acq_rel) != 1) break;
        t = p;
      }
  });
}

void for_tree_down(int threads, const std::vector<int32_t>& parent, FunctionRef<void(int32_t, int)> f) {
  const int32_t n = static_cast<int32_t>(parent.size());
  if (trace::Recorded loop{threads}) return record_down(loop, parent, f);
  if (threads <= 1) {
    for (int32_t t = n; t-- > 0;) {
      interrupt::poll();
      f(t, 0);
    }
    return;
  }
  std::vector<int32_t> first_child(n, -1), next_child(n, -1);
  const Counters order = counters(n, -1);                     // ready tasks in the order they became ready; -1: not yet
  std::atomic<int32_t> claimed{0}, ready{0};
  std::atomic<bool> stop{false};
  const auto push = [&](int32_t t) { order[ready.fetch_add(1, std::memory_order_relaxed)].store(t, std::memory_order_release); };
  for (int32_t t = 0; t < n; ++t)
    if (parent[t] >= 0) next_child[t] = std::exchange(first_child[parent[t]], t);
  for (int32_t t = n; t-- > 0;)
    if (parent[t] < 0) push(t);
  run_until(stop, std::min(threads, n), [&](int worker) {
    for (int32_t i; (i = claimed.fetch_add(1, std::memory_order_relaxed)) < n;) {
      int32_t t;
      spin_until([&] { return (t = order[i].load(std::memory_order_acquire)) >= 0 || stop.load(std::memory_order_relaxed); });
      if (t < 0) return;
      interrupt::poll();
      f(t, worker);
      for (int32_t c = first_child[t]; c >= 0; c = next_child[c]) push(c);
    }
  });
}

void for_pieces(int threads, int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t, int)> f) {
  if (trace::Recorded loop{threads}) return record_pieces(loop, n, grain, f);
  std::atomic<int64_t> next{0};
  std::atomic<bool> stop{false};
  run_until(stop, static_cast<int>(std::min<int64_t>(threads, (n + grain - 1) / grain)), [&](int worker) {
    for (int64_t b; !stop.load(std::memory_order_relaxed) && (b = next.fetch_add(grain)) < n;) {
      interrupt::poll();
      f(b, std::min(n, b + grain), worker);
    }
  });
}

void for_stages(int threads, int32_t n, FunctionRef<void(int32_t, int)> before, FunctionRef<void()> middle,
                FunctionRef<void(int32_t, int)> after) {
  if (trace::Recorded loop{threads}) return record_stages(loop, n, before, middle, after);
  std::atomic<int32_t> first{0}, second{0}, left{n};
  std::atomic<bool> ready{n == 0}, stop{false};
  std::mutex mutex;
  std::condition_variable opened;
  const auto open = [&] {
    {
      std::lock_guard<std::mutex> lock(mutex);           // no worker is between its test and its wait
      ready.store(true, std::memory_order_release);
    }
    opened.notify_all();
  };
  const auto is_ready = [&] { return ready.load(std::memory_order_acquire); };
  const auto stages = [&](int worker) {
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
      wait_polling(opened, lock, is_ready);
    }
    for (int32_t t; !stop.load(std::memory_order_relaxed) && (t = second.fetch_add(1)) < n;) {
      interrupt::poll();
      after(t, worker);
    }
  };
  if (n == 0) middle();
  Pool::run(std::min<int>(threads, n), [&](int worker) {
    try {
      stages(worker);
    } catch (...) {
      stop = true;
      open();
      throw;
    }
  });
}

}  // namespace ms
