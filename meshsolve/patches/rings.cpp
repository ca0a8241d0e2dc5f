// Queries composed of the rows of other queries, and reductions over rows; rings.hpp has the work of one row.
//
// Every row is computed by one thread in a fixed order, so results do not depend on the number of threads. Cost: O(entries),
// times the logarithm of a row's length for rotation orders.
#include <algorithm>
#include <atomic>
#include <limits>
#include <new>

#include "native/threads/parallel.hpp"
#include "patches/patches.hpp"
#include "sparse/rearrange.hpp"

namespace ms::patches {
namespace {

constexpr int64_t kRowGrain = 512;                              // rows per task
constexpr int64_t no_row = std::numeric_limits<int64_t>::max();

// The vertices at distance 1 to `rings` of one vertex. seen: (n) last vertex whose search found each vertex, plus 1.
void search(const Pattern& VV, int32_t v, int rings, std::vector<int32_t>& seen, std::vector<int32_t>& found) {
  const size_t begin = found.size();
  const auto visit = [&](int32_t from) {
    for (int64_t q = VV.ptr[from]; q < VV.ptr[from + 1]; ++q) {
      const int32_t w = VV.idx[q];
      if (seen[w] == v + 1) continue;
      seen[w] = v + 1;
      found.push_back(w);
    }
  };
  seen[v] = v + 1;
  visit(v);
  size_t head = begin;
  for (int ring = 1; ring < rings && head < found.size(); ++ring)
    for (const size_t end = found.size(); head < end; ++head) visit(found[head]);
  std::sort(found.begin() + static_cast<std::ptrdiff_t>(begin), found.end());
}

}  // namespace

// ---- rotation order, edges of edges, diamonds

int64_t rotate(const Pattern& VV, const Pattern& VF, const int32_t* corners, const int32_t* values, int32_t* out, int threads) {
  std::vector<int64_t> failed(std::max(1, threads), no_row);
  std::vector<std::vector<int32_t>> scratch(std::max(1, threads));
  for_range(threads, VV.n, kRowGrain, [&](int64_t begin, int64_t end, int worker) {
    for (int32_t v = static_cast<int32_t>(begin); v < end; ++v) {
      const Star star{v, static_cast<int>(VV.degree(v)), static_cast<int>(VF.degree(v)), VV.idx + VV.ptr[v],
                      VF.idx + VF.ptr[v], corners};
      scratch[worker].resize(std::max(scratch[worker].size(), 2 * static_cast<size_t>(star.degree + star.count)));
      const int bad = rotate_row(star, values + VV.ptr[v], scratch[worker].data(), out + VV.ptr[v]);
      if (bad >= 0) failed[worker] = std::min(failed[worker], static_cast<int64_t>(v) << 32 | bad);
    }
  });
  return *std::min_element(failed.begin(), failed.end());
}

OwnedPattern edges_of_edges(const Pattern& VE, const int32_t* ends, int64_t num_edges, int threads) {
  OwnedPattern R{std::vector<int64_t>(num_edges + 1, 0), {}};
  for (int64_t e = 0; e < num_edges; ++e) R.ptr[e + 1] = VE.degree(ends[2 * e]) + VE.degree(ends[2 * e + 1]) - 2;
  cumsum(R.ptr);
  R.idx.resize(R.ptr.back());
  for_range(threads, num_edges, kRowGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t e = begin; e < end; ++e) {
      const int32_t a = ends[2 * e], b = ends[2 * e + 1];
      merge_edges(VE.idx + VE.ptr[a], VE.idx + VE.ptr[a + 1], VE.idx + VE.ptr[b], VE.idx + VE.ptr[b + 1], static_cast<int>(e),
                  R.idx.data() + R.ptr[e]);
    }
  });
  return R;
}

int64_t diamonds(const Pattern& EF, const int32_t* ends, const int32_t* corners, int32_t* out, int threads) {
  std::vector<int64_t> failed(std::max(1, threads), no_row);
  for_range(threads, EF.n, kRowGrain, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t e = begin; e < end; ++e) {
      const int32_t i = static_cast<int32_t>(e);
      if (!diamond(ends + 2 * e, EF.idx + EF.ptr[e], static_cast<int>(EF.degree(i)), corners, out + 4 * e))
        failed[worker] = std::min(failed[worker], e);
    }
  });
  return *std::min_element(failed.begin(), failed.end());
}

// ---- rings

OwnedPattern rings(const Pattern& VV, int count, int64_t most, int threads) {
  const int64_t pieces = (VV.n + kRowGrain - 1) / kRowGrain;
  std::vector<std::vector<int32_t>> found(pieces), seen(std::max(1, threads));
  std::atomic<int64_t> total{0};                            // entries found so far
  OwnedPattern R{std::vector<int64_t>(VV.n + int64_t{1}, 0), {}};
  for_range(threads, pieces, 1, [&](int64_t first, int64_t last, int worker) {
    seen[worker].resize(VV.n, 0);
    for (int64_t piece = first; piece < last; ++piece) {
      interrupt::poll();
      const int32_t begin = static_cast<int32_t>(piece * kRowGrain);
      const int32_t end = static_cast<int32_t>(std::min<int64_t>(VV.n, begin + kRowGrain));
      for (int32_t v = begin; v < end; ++v) {
        const size_t before = found[piece].size();
        search(VV, v, count, seen[worker], found[piece]);
        R.ptr[v + 1] = static_cast<int64_t>(found[piece].size() - before);
      }
      if ((total += static_cast<int64_t>(found[piece].size())) > most) throw std::bad_alloc();
    }
  });
  cumsum(R.ptr);
  R.idx.resize(R.ptr.back());
  for_range(threads, pieces, 1, [&](int64_t first, int64_t last, int) {
    for (int64_t piece = first; piece < last; ++piece) {
      std::copy(found[piece].begin(), found[piece].end(), R.idx.begin() + R.ptr[piece * kRowGrain]);
      std::vector<int32_t>().swap(found[piece]);
    }
  });
  return R;
}

// ---- reductions

template <class T>
void reduce(const Pattern& rows, const T* values, int64_t width, int op, T empty, T* out, int threads) {
  for_range(threads, rows.n, kRowGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t c = 0; c < width; ++c)
        out[i * width + c] = reduce_column(op, rows.idx + rows.ptr[i], rows.idx + rows.ptr[i + 1], values + c, width, empty);
  });
}

template void reduce(const Pattern&, const double*, int64_t, int, double, double*, int);
template void reduce(const Pattern&, const float*, int64_t, int, float, float*, int);
template void reduce(const Pattern&, const int64_t*, int64_t, int, int64_t, int64_t*, int);

}  // namespace ms::patches
