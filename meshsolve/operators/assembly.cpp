// Threads share the entries or rows of the result, so the order of additions does not depend on the number of threads.
#include "assembly.hpp"

#include <vector>

#include "native/threads/parallel.hpp"

namespace ms::operators {

namespace {
constexpr int64_t kEntries = 1 << 13, kRows = 1 << 7;        // entries or rows per task
}  // namespace

void assemble(const int64_t* ptr, int64_t count, const int32_t* source, int64_t width, const double* values, double* data, int threads) {
  for_range(threads, count, kEntries, [&](int64_t begin, int64_t end, int) {
    for (int64_t e = begin; e < end; ++e)
      for (int64_t c = 0; c < width; ++c) {
        double sum = values[source[ptr[e]] * width + c];
        for (int64_t p = ptr[e] + 1; p < ptr[e + 1]; ++p) sum += values[source[p] * width + c];
        data[e * width + c] = sum;
      }
  });
}

// Row i of the product is the sum of the rows of J that have an entry in column i, each times that entry, in a dense
// accumulator. Only the part of each row from column i on is added, which gives the upper triangle.
void weigh_normal(const Pattern& J, const double* values, const ColumnsOfRows& columns, const double* weight, const Pattern& A,
                  const int64_t* mirror, double* data, int threads) {
  std::vector<std::vector<double>> sums(threads);
  for_range(threads, A.n, kRows, [&](int64_t begin, int64_t end, int worker) {
    std::vector<double>& sum = sums[worker];
    sum.resize(A.n);
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t p = columns.ptr[i]; p < columns.ptr[i + 1]; ++p) {
        const int32_t k = columns.row[p];
        const double own = values[columns.entry[p]] * (weight ? weight[k] : 1.0);
        for (int64_t q = columns.entry[p]; q < J.ptr[k + 1]; ++q) sum[J.idx[q]] += own * values[q];
      }
      for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
        if (A.idx[p] < i) continue;
        data[p] = sum[A.idx[p]];
        sum[A.idx[p]] = 0;
      }
    }
  });
  for_range(threads, A.n, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t p = A.ptr[i]; p < A.ptr[i + 1] && A.idx[p] < i; ++p) data[p] = data[mirror[p]];
  });
}

}  // namespace ms::operators
