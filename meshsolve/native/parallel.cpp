// The thread pool behind parallel.hpp: workers sleep on a condition variable after a short spin.
#include "parallel.hpp"

#include <pthread.h>

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
    std::unique_lock<std::mutex> one(outer_, std::try_to_lock);
    if (threads <= 1 || !one.owns_lock()) {
      f(0);
      return;
    }
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

 private:
  void start(int threads, const std::function<void(int)>& f) {
    std::lock_guard<std::mutex> g(mu_);
    try {
      for (; size_ < threads - 1; ++size_)
        std::thread([this, id = size_ + 1, seen = generation_.load()] { loop(id, seen); }).detach();
    } catch (const std::system_error&) {
    }                                  // no more threads to be had: those that are there do the work
    job_ = &f;
    want_ = std::min(size_, threads - 1);
    left_ = want_;
    error_ = nullptr;
    ++generation_;
    wake_.notify_all();
  }

  void loop(int id, uint64_t seen) {
    for (;;) {
      const std::function<void(int)>* job;
      {
        std::unique_lock<std::mutex> g(mu_);
        wake_.wait(g, [&] { return generation_.load() != seen; });
        seen = generation_.load();
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

  std::mutex outer_, mu_;
  std::condition_variable wake_, done_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> left_{0};
  const std::function<void(int)>* job_ = nullptr;
  std::exception_ptr error_;
  int size_ = 0, want_ = 0;
};

Workers*& instance() {
  static Workers* workers = nullptr;
  return workers;
}

Workers& workers() {                 // never freed: detached threads may outlive every static destructor
  static std::once_flag once;
  std::call_once(once, [] {
    instance() = new Workers;
    pthread_atfork(nullptr, nullptr, [] { instance() = new Workers; });
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

}  // namespace ms
