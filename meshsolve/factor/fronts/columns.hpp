// Right-hand sides of the multifrontal solves: in blocks of 8 and a remainder, so that L is read once per block in each
// direction. Code is compiled for each row width, not for each number of right-hand sides. The factor keeps the workspace for its
// next solve.
#pragma once
#include <algorithm>
#include <vector>

#include "native/memory/buffer.hpp"
#include "native/memory/kept.hpp"
#include "native/dense/widths.hpp"
#include "traverse.hpp"

namespace ms::fronts {

constexpr int64_t widest = 8;                    // right-hand sides of a block

// Row width for k right-hand sides: the kernels of native/dense/rows.hpp have 1, 2, 4 and 8. A right-hand side has the same bits
// alone and among others.
constexpr int64_t row_width(int64_t k) { return k > 4 ? 8 : k > 2 ? 4 : k; }

// Calls block(S, K, first) for k right-hand sides: K of them from column `first` on, in rows of S values, a constant. At most 8
// real or 4 complex ones at a time. Counts right-hand sides as progress of the phase.
template <class T = double, class Block>
void in_row_blocks(int64_t k, Block&& block) {
  constexpr int64_t most = sizeof(T) > sizeof(double) ? widest / 2 : widest;
  for (int64_t first = 0; first < k; first += most) {
    const int64_t K = std::min(most, k - first);
    const auto call = [&](auto S) { block(S, K, first); };
    if constexpr (most < widest)
      with_width<1, 2, 4>(row_width(K), call);
    else
      with_width<1, 2, 4, 8>(row_width(K), call);
    interrupt::advance(K);
  }
}

// Calls f(K) with the number of right-hand sides in a row of S values as a constant, for short loops.
template <int64_t S, class F>
void with_count(int64_t K, F&& f) {
  if constexpr (S <= 2)
    f(std::integral_constant<int64_t, S>());
  else if constexpr (S == 4)
    with_width<3, 4>(K, f);
  else
    with_width<5, 6, 7, 8>(K, f);
}

template <class T>
struct SolveSpace {
  T* work = nullptr;                             // n x row width
  Buffer<T> own;                                 // memory of `work` unless idle memory is large enough
  BlockMemory<T> blocks;                         // update blocks
  std::vector<Buffer<T>> local;                  // per worker: the current front
  std::vector<Buffer<int32_t>> position;            // per worker: positions of rows in a front

  void reserve(int64_t n, int64_t k, int threads, Buffer<T>* idle) {
    const int64_t size = n * row_width(k);
    const bool is_idle = idle && idle->size() >= size;
    if (!is_idle && own.size() < size) own = Buffer<T>(size);
    work = is_idle ? idle->data() : own.data();
    local.resize(std::max<size_t>(local.size(), threads));
    position.resize(local.size());
  }

  // (n,) position[rows[q]] = q; other entries are undefined.
  const int32_t* positions(int worker, int64_t n, const int32_t* rows, int64_t count) {
    Buffer<int32_t>& mine = position[worker];
    if (mine.size() < n) mine = Buffer<int32_t>(n);
    for (int64_t q = 0; q < count; ++q) mine.data()[rows[q]] = static_cast<int32_t>(q);
    return mine.data();
  }
};

// Number of fronts by which a solve prefetches, if the factor is larger than the cache.
constexpr int32_t fronts_ahead = 2;
template <class T> bool leaves_cache(int64_t scalars) { return scalars * static_cast<int64_t>(sizeof(T)) > int64_t{20} << 20; }

// Threads of a solve with a factor of `scalars` numbers.
inline int threads_worthwhile(int64_t scalars, int64_t k, int threads) {
  constexpr int64_t parallel_work = 200'000;     // scalars times right-hand sides; below it one thread is faster
  return scalars * std::min(k, widest) < parallel_work ? 1 : threads;
}

}  // namespace ms::fronts
