// Holding and releasing the GIL in native calls. When the interpreter ends, Python up to 3.13 ends a thread that takes the GIL by
// pthread_exit. Its forced unwinding would meet destructors, which are noexcept, and abort the process. Such a thread is a daemon: it
// waits here for the end of the process, as threads of Python 3.14 do.
#pragma once
#include <Python.h>

#include <utility>

namespace ms {

[[noreturn]] void wait_for_exit();

class Gil {                          // holds the GIL during its lifetime, on any thread
 public:
  Gil();
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

class NoGil {                        // releases the GIL during its lifetime
 public:
  NoGil() : state_(PyEval_SaveThread()) {}
  ~NoGil();
  NoGil(const NoGil&) = delete;
  NoGil& operator=(const NoGil&) = delete;

 private:
  PyThreadState* const state_;
};

// Calls f with the GIL, from work that released it. Python code in f may also be where the thread ends.
template <class F> auto with_gil(F&& f) {
  const Gil gil;
  try {
    return std::forward<F>(f)();
  } catch (...) {
    if (!Py_IsInitialized()) wait_for_exit();
    throw;
  }
}

}  // namespace ms
