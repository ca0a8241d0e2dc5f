// One sweep over memory for each operation, in blocks of rows with fixed borders; see vectors.hpp.
#include "vectors.hpp"

#include "native/memory/fetch.hpp"
#include "sparse/sweep.hpp"

namespace ms::krylov {

using sparse::accumulate_rows, sparse::over_blocks, sparse::over_columns, sparse::rows_per_block;

void renumber(const Pattern& A, const double* x, const int32_t* position, int64_t* ptr, int32_t* idx, double* y, int threads) {
  constexpr int64_t soon = 16;                     // distance in rows of the prefetch: rows are scattered
  const int64_t n = A.n;
  const auto later = [&](int64_t q, int64_t rows) { return position[std::min(q + rows, n - 1)]; };
  std::vector<int32_t> number(n);                  // inverse of position
  ptr[0] = 0;
  for (int64_t q = 0; q < n; ++q) {
    fetch(A.ptr + later(q, soon));
    fetch(number.data() + later(q, soon));
    number[position[q]] = static_cast<int32_t>(q);
    ptr[q + 1] = ptr[q] + A.degree(position[q]);
  }
  for_range(threads, n, rows_per_block, [&](int64_t from, int64_t to, int) {
    for (int64_t q = from; q < to; ++q) {
      fetch(A.ptr + later(q, 2 * soon));
      const int64_t next = A.ptr[later(q, soon)];
      fetch(A.idx + next);
      fetch(x + next);
      int64_t at = ptr[q];
      for (int64_t p = A.ptr[position[q]]; p < A.ptr[position[q] + 1]; ++p, ++at) {
        idx[at] = number[A.idx[p]];
        y[at] = x[p];
      }
    }
  });
}

void step(int64_t n, int64_t k, const double* alpha, const double* P, const double* Q, double* X, double* R, double* norms, int threads) {
  over_blocks(n, k, norms, threads, [&](int64_t from, int64_t to, double* sums) {
    over_columns(k, [&](auto K, auto stride, int64_t first) {
      std::array<double, K> a;
      std::copy_n(alpha + first, K, a.begin());
      accumulate_rows<K>(from, to, sums + first, [&](int64_t i, int64_t c) {
        const int64_t at = i * stride + first + c;
        X[at] += a[c] * P[at];
        const double r = R[at] -= a[c] * Q[at];
        return r * r;
      });
    });
  });
}

void direction(int64_t n, int64_t k, const double* beta, const double* Z, double* P, int threads) {
  for_range(n * k < 50'000 ? 1 : threads, n, 4 * rows_per_block, [&](int64_t from, int64_t to, int) {
    over_columns(k, [&](auto K, auto stride, int64_t first) {
      std::array<double, K> b;
      std::copy_n(beta + first, K, b.begin());
      for (int64_t i = from; i < to; ++i)
        for (int64_t c = 0; c < K; ++c) {
          const int64_t at = i * stride + first + c;
          P[at] = Z[at] + b[c] * P[at];
        }
    });
  });
}

void dot(int64_t n, int64_t k, const double* U, const double* V, double* dots, int threads) {
  over_blocks(n, k, dots, threads, [&](int64_t from, int64_t to, double* sums) {
    over_columns(k, [&](auto K, auto stride, int64_t first) {
      accumulate_rows<K>(from, to, sums + first, [&](int64_t i, int64_t c) {
        const int64_t at = i * stride + first + c;
        return U[at] * V[at];
      });
    });
  });
}

double subtract(int64_t n, double alpha, const double* T, double* R, int threads) {
  double squares = 0;
  over_blocks(n, 1, &squares, threads, [&](int64_t from, int64_t to, double* sums) {
    accumulate_rows<1>(from, to, sums, [&](int64_t i, int64_t) {
      const double r = R[i] -= alpha * T[i];
      return r * r;
    });
  });
  return squares;
}

void smooth(int64_t n, double a, double b, const double* Q, double* D, double* X, int threads) {
  for_range(n < 50'000 ? 1 : threads, n, 4 * rows_per_block, [&](int64_t from, int64_t to, int) {
    for (int64_t i = from; i < to; ++i) {
      D[i] = a * D[i] + b * Q[i];
      X[i] += D[i];
    }
  });
}

}  // namespace ms::krylov
