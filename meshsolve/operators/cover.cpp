// Each edge is one task: the bits do not depend on the number of threads.
#include "cover.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "native/threads/parallel.hpp"

namespace ms::operators {
namespace {

constexpr int64_t kEdges = 1 << 11;       // per task

}  // namespace

Cover tufted_cover(const int32_t* faces, int64_t m, const int32_t* of_side, int64_t edges, const double* key, const int32_t* round,
                   int threads) {
  std::vector<int64_t> ptr(edges + 1, 0);
  for (int64_t s = 0; s < 3 * m; ++s) ++ptr[of_side[s] + 1];
  std::partial_sum(ptr.begin(), ptr.end(), ptr.begin());
  RawVector<int32_t> sides(3 * m);        // sides at each edge, ascending
  std::vector<int64_t> at(ptr.begin(), ptr.end() - 1);
  for (int64_t s = 0; s < 3 * m; ++s) sides[at[of_side[s]]++] = static_cast<int32_t>(s);
  const auto rank = [&](int64_t s) { return std::tuple(round ? round[s / 3] : 0, key[s], s); };
  const auto ascends = [&](int64_t s) { return faces[s] < faces[s % 3 == 2 ? s - 2 : s + 1]; };        // the front is the forward side
  Cover out{RawVector<int32_t>(3 * m), RawVector<int32_t>(6 * m)};
  for_range(threads, edges, kEdges, [&](int64_t begin, int64_t end, int) {
    for (int64_t e = begin; e < end; ++e) {
      std::sort(sides.begin() + ptr[e], sides.begin() + ptr[e + 1], [&](int32_t a, int32_t b) { return rank(a) < rank(b); });
      for (int64_t k = ptr[e]; k < ptr[e + 1]; ++k) {
        const int64_t s = sides[k], next = sides[k + 1 < ptr[e + 1] ? k + 1 : ptr[e]];
        out.edge[k] = static_cast<int32_t>(e);
        out.of_side[s + (ascends(s) ? 0 : 3 * m)] = out.of_side[next + (ascends(next) ? 3 * m : 0)] = static_cast<int32_t>(k);
      }
    }
  });
  return out;
}

}  // namespace ms::operators
