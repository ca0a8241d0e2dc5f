// Bindings of the shared layer: the GIL, Ctrl-C and progress, C++ exceptions in Python, traces, tables of numbers.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <stdexcept>
#include <thread>

#include "bind.hpp"
#include "native/memory/buffer.hpp"
#include "native/memory/scratch.hpp"
#include "native/dense/dense.hpp"
#include "native/threads/parallel.hpp"
#include "native/threads/trace.hpp"
#include "native/memory/poison.hpp"
#include "native/text/table.hpp"

namespace ms {
namespace {

// Py_IsInitialized is false from the start of the interpreter's end. A thread may have begun to wait for the GIL before: then the
// forced unwinding of pthread_exit is caught, and must not go on.
template <class Take> void take_gil(Take&& take) {
  if (!Py_IsInitialized()) wait_for_exit();
  try {
    take();
  } catch (...) {
    wait_for_exit();
  }
}

// Runs on the calling thread about every 50 ms: signal handlers first, then the progress callback of the thread. True if an error
// is set. If an error was set before, no Python code may run until the caller has it.
bool look_at_python(int64_t done, int64_t total) {
  return with_gil([&] {
    if (PyErr_Occurred()) return false;
    if (PyErr_CheckSignals() != 0) return true;
    try {
      nb::module_::import_("meshsolve.report").attr("count")(done, total);
    } catch (nb::python_error& e) {
      e.restore();
      return true;
    }
    return false;
  });
}

void translate(const std::exception_ptr& p, void*) {
  if (PyErr_Occurred()) return;              // the hook's error takes precedence over the workers'
  try {
    std::rethrow_exception(p);
  } catch (const std::bad_alloc&) {
    nb::object error = nb::module_::import_("meshsolve.errors").attr("OutOfMemoryError");
    PyErr_SetString(error.ptr(), "not enough memory for this problem");
  } catch (const std::length_error& e) {
    nb::object error = nb::module_::import_("meshsolve.errors").attr("InvalidInputError");
    PyErr_SetString(error.ptr(), e.what());
  } catch (const ScratchFull& e) {
    nb::object error = nb::module_::import_("meshsolve.errors").attr("OutOfMemoryError");
    PyErr_SetString(error.ptr(), e.what());
  } catch (const ScratchError& e) {
    nb::object error = nb::module_::import_("meshsolve.errors").attr("DeviceUnavailableError");
    PyErr_SetString(error.ptr(), e.what());
  }
}

}  // namespace

void wait_for_exit() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

Gil::Gil() {
  take_gil([this] { state_ = PyGILState_Ensure(); });
}

NoGil::~NoGil() {
  take_gil([this] { PyEval_RestoreThread(state_); });
}

void bind_native(nb::module_& m) {
  using namespace nb::literals;
  nb::register_exception_translator(translate);
  interrupt::set_hook(look_at_python);
  m.def("poison", [](bool on) { poisoned = on; }, "on"_a, "Fresh blocks are filled with NaN (tests).");
  m.def("shared_calls", &Pool::shared, "Loops and task trees so far that more than one thread worked at (tests).");
  m.def("begin_trace", &trace::begin, "Records the parallel loops of this thread until end_trace(); see native/threads/trace.hpp.");
  m.def("end_trace", [] {
    std::vector<std::tuple<int64_t, std::vector<int64_t>, std::vector<std::pair<int32_t, int32_t>>>> out;
    for (trace::Loop& loop : trace::end()) out.emplace_back(loop.before, std::move(loop.cost), std::move(loop.after));
    return out;
  }, "A list of (ns before the loop, ns of each task, [(task, task it waits for)]).");
  m.def("read_table", [](nb::bytes text, int64_t begin, int width, int64_t rows, bool more) {
    const char *const first = text.c_str() + std::min<int64_t>(begin, static_cast<int64_t>(text.size())), *const last = text.c_str() + text.size();
    Table table = released([&] { return read_table(first, last, width, rows, more); });
    return nb::make_tuple(to_numpy(std::move(table.numbers)), table.bad_line);
  }, "text"_a, "begin"_a, "width"_a, "rows"_a, "more"_a, "(numbers, -1 or the first line that does not fit); see native/text/table.hpp.");
  m.def("keep_free_memory", [](int64_t entries, int threads) {
    Released free;
    keep_free_memory(32 * static_cast<size_t>(entries), threads);
  }, "entries"_a, "threads"_a, "Keeps freed memory for the next phase, before a matrix of so many entries is analyzed; see native/memory/buffer.hpp.");
  m.def("isa", [] { return std::string(dense<double>().isa); });
#ifdef MESHSOLVE_ONE_ISA
  m.attr("is_one_isa") = true;
#else
  m.attr("is_one_isa") = false;
#endif
}

}  // namespace ms
