// The thread pool behind parallel.hpp: workers sleep on a condition variable, the caller spins for a moment before it does.
#include "parallel.hpp"

#ifndef _WIN32
#include <pthread.h>
#endif

#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace ms {
namespace {

class Workers {
 public:
  void run(int threads, const std::function<void(int)>& f) {
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
    for (int spin = 0; spin < 2000 && left_.load(std::memory_order_acquire); ++spin) std::this_thread::yield();
    std::unique_lock<std::mutex> g(mu_);
    done_.wait(g, [this] { return left_.load() == 0; });
    job_ = nullptr;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  int64_t shared() const { return shared_.load(std::memory_order_relaxed); }

 private:
  // Where the system gives no more threads, those that are there do the work.
  void start(int threads, const std::function<void(int)>& f) {
    std::lock_guard<std::mutex> g(mu_);
    try {
      for (; size_ < threads - 1; ++size_)
        std::thread([this, id = size_ + 1, seen = generation_] { loop(id, seen); }).detach();
    } catch (const std::system_error&) {
    }
    job_ = &f;
    want_ = std::min(threads - 1, size_);
    left_ = want_;
    if (want_ > 0) shared_.fetch_add(1, std::memory_order_relaxed);
    error_ = nullptr;
    ++generation_;
    wake_.notify_all();
  }

  void loop(int id, uint64_t seen) {
    for (;;) {
      const std::function<void(int)>* job;
      {
        std::unique_lock<std::mutex> g(mu_);
        wake_.wait(g, [&] { return generation_ != seen; });
        seen = generation_;
        if (id > want_) continue;
        job = job_;
      }
      try {
        (*job)(id);
      } catch (...) {
        keep_error();
      }
      std::lock_guard<std::mutex> g(mu_);
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.notify_one();
    }
  }

  void keep_error() {
    std::lock_guard<std::mutex> g(mu_);
    if (!error_) error_ = std::current_exception();
  }

  std::atomic<bool> busy_{false};
  std::atomic<int> left_{0};                 // workers that have not finished the job
  std::atomic<int64_t> shared_{0};
  std::mutex mu_;                            // of all below
  std::condition_variable wake_, done_;
  uint64_t generation_ = 0;                  // jobs so far
  const std::function<void(int)>* job_ = nullptr;
  std::exception_ptr error_;
  int size_ = 0, want_ = 0;                  // workers that exist; that take part in the job
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

void Pool::run(int threads, const std::function<void(int)>& f) {
  if (threads <= 1)
    f(0);
  else
    workers().run(threads, f);
}

int64_t Pool::shared() { return workers().shared(); }

}  // namespace ms
