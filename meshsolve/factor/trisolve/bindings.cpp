// Binding of the parallel loop of the row solves, for its tests.
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "chunks.hpp"
#include "native/bind.hpp"

namespace ms {

void bind_trisolve(nb::module_& m) {
  using namespace nb::literals;
  m.def("run_chunks", [](In<int32_t> first, int32_t bad, int milliseconds, bool up, int threads) {
    const std::vector<int32_t> segments = to_vector(first);
    const trisolve::Segments s{{}, std::vector<int32_t>(segments.back() + 1), segments};
    std::vector<int32_t> done(s.chunks());
    const auto visit = [&](int32_t chunk) {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      if (chunk == bad) throw std::length_error("bad chunk");
      done[chunk] = 1;
    };
    Released free;
    if (up)
      trisolve::run_chunks<true>(s, threads, visit);
    else
      trisolve::run_chunks<false>(s, threads, visit);
    return std::accumulate(done.begin(), done.end(), 0);
  }, "first"_a, "bad"_a, "milliseconds"_a, "up"_a, "threads"_a,
     "Chunks that were visited; each takes some milliseconds, and the bad one fails. first: first chunk of each segment, and their number.");
}

}  // namespace ms
