// Sweeps over blocks of n rows of k values. Sums run over fixed ranges of rows and are added in their order: the same bits on any
// number of threads.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "native/dense/widths.hpp"
#include "native/threads/parallel.hpp"

namespace ms::sparse {

constexpr int64_t rows_per_block = 4096;
constexpr int64_t lanes = 4;                       // independent partial sums of a column

// f(from, to, sums) for each block of rows adds to sums[0..k); totals are added in the order of the blocks.
template <class F>
void over_blocks(int64_t n, int64_t k, double* totals, int threads, F&& f) {
  const int64_t blocks = (n + rows_per_block - 1) / rows_per_block;
  std::vector<double> sums(blocks * k, 0.0);
  for_range_backwards(n * k < 50'000 ? 1 : threads, blocks, 4, [&](int64_t from, int64_t to, int) {
    for (int64_t b = from; b < to; ++b) f(b * rows_per_block, std::min(n, (b + 1) * rows_per_block), sums.data() + b * k);
  });
  std::fill(totals, totals + k, 0.0);
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t c = 0; c < k; ++c) totals[c] += sums[b * k + c];
}

// f(K, stride, c) for columns c .. c + K of k. K is a constant; so is the stride from row to row if K = k.
template <class F>
void over_columns(int64_t k, F&& f) {
  in_widths<8, 4, 3, 2, 1>(k, [&](auto K, int64_t c) {
    if (K == k)
      f(K, K, c);
    else
      f(K, k, c);
  });
}

// sums[c] = sum of term(i, c) for from <= i < to. The sums are kept in local variables, which the compiler holds in registers: it must
// assume that `sums` overlaps the arrays that term() reads.
template <int64_t K, class F>
inline void accumulate_rows(int64_t from, int64_t to, double* sums, F&& term) {
  double sum[lanes][K] = {};
  const auto add = [&](int64_t i, int64_t l) {
    for (int64_t c = 0; c < K; ++c) sum[l][c] += term(i, c);
  };
  for (; from + lanes <= to; from += lanes)
    for (int64_t l = 0; l < lanes; ++l) add(from + l, l);
  for (; from < to; ++from) add(from, 0);
  for (int64_t c = 0; c < K; ++c) sums[c] = (sum[0][c] + sum[1][c]) + (sum[2][c] + sum[3][c]);
}

}  // namespace ms::sparse
