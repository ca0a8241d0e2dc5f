// The thread pool behind parallel.hpp. An idle worker spins for a moment before it sleeps on a condition variable: jobs often follow
// each other, and waking a thread takes as long as a small job. The caller never waits for a worker that has not begun: when f(0) has
// returned, no work is left to claim.
#include "parallel.hpp"

#include "trace.hpp"

#ifndef _WIN32
#include <pthread.h>
#endif

#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

namespace ms {
namespace {

constexpr int spins_before_sleep = 100;      // of an idle worker, about 50 us
constexpr size_t least_stack = size_t{4} << 20;      // bytes; dense kernels pack half a MiB on it, the default size on macOS

// Starts work() on a detached thread. Throws std::system_error if the system has no more threads.
template <class Work>
void start_thread(Work work) {
#ifdef _WIN32
  std::thread(std::move(work)).detach();
#else
  auto owned = std::make_unique<Work>(std::move(work));
  size_t stack = 0;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_getstacksize(&attributes, &stack);
  pthread_attr_setstacksize(&attributes, std::max(stack, least_stack));
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  const auto begin = [](void* p) -> void* {
    const std::unique_ptr<Work> work(static_cast<Work*>(p));
    (*work)();
    return nullptr;
  };
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, begin, owned.get());
  pthread_attr_destroy(&attributes);
  if (error) throw std::system_error(error, std::generic_category());
  owned.release();                           // the thread frees it
#endif
}

class Workers {
 public:
  void run(int threads, FunctionRef<void(int)> f) {
    if (busy_.exchange(true, std::memory_order_acquire)) {      // nested or concurrent
      f(0);
      return;
    }
    struct Free {
      std::atomic<bool>& busy;
      ~Free() { busy.store(false, std::memory_order_release); }
    } free{busy_};
    start(threads, f);
    try {
      f(0);
    } catch (...) {
      keep_error();
    }
    std::unique_lock<std::mutex> g(mu_);
    job_.reset();                         // workers that have not begun do not take part
    if (active_ > 0) {
      g.unlock();
      for (int spin = 0; spin < 2000 && active_.load(std::memory_order_acquire) > 0; ++spin) std::this_thread::yield();
      g.lock();
      wait_for_workers(g);
    }
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  int64_t shared() const { return shared_.load(std::memory_order_relaxed); }

 private:
  // If the system has no more threads, the existing ones do the work.
  void start(int threads, FunctionRef<void(int)> f) {
    {
      std::lock_guard<std::mutex> g(mu_);
      try {
        for (; size_ < threads - 1; ++size_)
          start_thread([this, id = size_ + 1, seen = generation_.load()] { loop(id, seen); });
      } catch (const std::system_error&) {
      }
      job_ = f;
      call_ = interrupt::current;
      want_ = std::min(threads - 1, size_);
      if (want_ > 0) shared_.fetch_add(1, std::memory_order_relaxed);
      error_ = nullptr;
      ++generation_;
    }
    wake_.notify_all();
  }

  // Polls for Ctrl-C, but returns only when the last worker is done: workers use data on the caller's stack.
  void wait_for_workers(std::unique_lock<std::mutex>& g) {
    const auto finished = [this] { return active_.load() == 0; };
    try {
      wait_polling(done_, g, finished);
    } catch (...) {
      keep_error();
      g.lock();
      done_.wait(g, finished);
    }
  }

  void loop(int id, uint64_t seen) {
    for (bool worked = false;;) {
      for (int spin = 0; worked && spin < spins_before_sleep && generation_.load(std::memory_order_relaxed) == seen; ++spin)
        std::this_thread::yield();
      std::optional<FunctionRef<void(int)>> job;
      interrupt::Call* call;
      {
        std::unique_lock<std::mutex> g(mu_);
        wake_.wait(g, [&] { return generation_ != seen; });
        seen = generation_;
        worked = job_ && id <= want_;
        if (!worked) continue;
        job = job_;
        call = call_;
        active_.fetch_add(1, std::memory_order_relaxed);
      }
      try {
        const interrupt::Member member(call);
        (*job)(id);
      } catch (...) {
        keep_error();
      }
      std::lock_guard<std::mutex> g(mu_);
      if (active_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.notify_one();
    }
  }

  void keep_error() {
    std::lock_guard<std::mutex> g(mu_);
    if (!error_) error_ = std::current_exception();
  }

  std::atomic<bool> busy_{false};
  std::atomic<int> active_{0};               // workers that run the job
  std::atomic<int64_t> shared_{0};
  std::mutex mu_;                            // guards all members below
  std::condition_variable wake_, done_;
  std::atomic<uint64_t> generation_{0};      // jobs so far
  std::optional<FunctionRef<void(int)>> job_;
  interrupt::Call* call_ = nullptr;          // Python call of the job
  std::exception_ptr error_;
  int size_ = 0, want_ = 0;                  // existing workers; workers that take part in the job
};

Workers*& instance() {
  static Workers* workers = nullptr;
  return workers;
}

Workers& workers() {                 // never freed: detached threads may outlive every static destructor
  static std::once_flag once;
  std::call_once(once, [] {
    instance() = new Workers;
#ifndef _WIN32
    pthread_atfork(nullptr, nullptr, [] { instance() = new Workers; });
#endif
  });
  return *instance();
}

}  // namespace

void Pool::run(int threads, FunctionRef<void(int)> f) {
  if (trace::Recorded loop{threads})       // one task: how it divides its work is not known
    loop.task([&] { f(0); });
  else if (threads <= 1 || trace::in_loop())
    f(0);
  else
    workers().run(threads, f);
}

int64_t Pool::shared() { return workers().shared(); }

}  // namespace ms
