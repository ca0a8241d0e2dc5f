// Blocks in two sweeps over the rows (count, then write), components by breadth-first search; see split.hpp.
#include "split.hpp"

#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "rearrange.hpp"

namespace ms {

namespace {

constexpr int64_t grain = 1 << 13;      // rows

void allot(RowBlock& block, bool has_values) {                 // ptr holds counts
  cumsum(block.ptr);
  block.idx.resize(block.ptr.back());
  if (has_values) block.x.resize(block.ptr.back());
}

}  // namespace

Split split(const Pattern& A, const double* x, const int32_t* free, int64_t count, const int32_t* position, int threads) {
  Split parts;
  parts.free.ptr.assign(count + 1, 0);
  parts.coupling.ptr.assign(count + 1, 0);
  for_range(threads, count, grain, [&](int64_t from, int64_t to, int) {
    for (int64_t i = from; i < to; ++i) {
      int64_t fixed = 0;
      for (int64_t p = A.ptr[free[i]]; p < A.ptr[free[i] + 1]; ++p) fixed += position[A.idx[p]] < 0;
      parts.coupling.ptr[i + 1] = fixed;
      parts.free.ptr[i + 1] = A.degree(free[i]) - fixed;
    }
  });
  allot(parts.free, x != nullptr);
  allot(parts.coupling, x != nullptr);
  for_range(threads, count, grain, [&](int64_t from, int64_t to, int) {
    for (int64_t i = from; i < to; ++i) {
      int64_t at = parts.free.ptr[i], aside = parts.coupling.ptr[i];
      for (int64_t p = A.ptr[free[i]]; p < A.ptr[free[i] + 1]; ++p) {
        const int32_t j = position[A.idx[p]];
        RowBlock& block = j < 0 ? parts.coupling : parts.free;
        int64_t& next = j < 0 ? aside : at;
        block.idx[next] = j < 0 ? -1 - j : j;
        if (x) block.x[next] = x[p];
        ++next;
      }
    }
  });
  return parts;
}

std::vector<int32_t> components(const Pattern& A, const double* x, int32_t* count) {
  std::vector<int32_t> component(A.n, -1), found(A.n);       // breadth first, so that the next rows are known and can be prefetched
  *count = 0;
  for (int32_t i = 0, at = 0, end = 0; i < A.n; ++i) {
    if (component[i] >= 0) continue;
    component[i] = *count;
    found[end++] = i;
    for (; at < end; ++at) {
      fetch_row(A, found, at, end);
      for (int64_t p = A.ptr[found[at]]; p < A.ptr[found[at] + 1]; ++p)
        if (const int32_t v = A.idx[p]; x[p] != 0 && component[v] < 0) {
          component[v] = *count;
          found[end++] = v;
        }
    }
    ++*count;
  }
  return component;
}

std::vector<double> center(int64_t n, int64_t k, const int32_t* component, const double* size, int64_t count, double* B) {
  constexpr int64_t rows = 4096;        // rows per partial sum, which keeps rounding small
  std::vector<double> mean(count * k, 0.0), part(k);
  for (int64_t from = 0; from < n; from += rows) {
    const int64_t to = std::min(n, from + rows);
    if (component) {
      for (int64_t i = from; i < to; ++i)
        for (int64_t c = 0; c < k && component[i] >= 0; ++c) mean[component[i] * k + c] += B[i * k + c];
      continue;
    }
    std::fill(part.begin(), part.end(), 0.0);
    for (int64_t i = from; i < to; ++i)
      for (int64_t c = 0; c < k; ++c) part[c] += B[i * k + c];
    for (int64_t c = 0; c < k; ++c) mean[c] += part[c];
  }
  for (int64_t m = 0; m < count * k; ++m) mean[m] /= size[m / k];
  for (int64_t i = 0; i < n; ++i) {
    const int64_t of = component ? component[i] : 0;
    for (int64_t c = 0; c < k && of >= 0; ++c) B[i * k + c] -= mean[of * k + c];
  }
  return mean;
}

}  // namespace ms
