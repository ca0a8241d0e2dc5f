#include "vectors.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "native/fetch.hpp"
#include "native/parallel.hpp"

namespace ms::krylov {
namespace {

constexpr int64_t rows_per_block = 4096;
constexpr int64_t widest = 8;                      // columns that a sweep holds in registers
constexpr int64_t lanes = 4;                       // sums of a single column that do not wait for each other

// f(from, to, sums) for each block of rows adds to sums[0..k); totals are added in the order of the blocks.
template <class F>
void over_blocks(int64_t n, int64_t k, double* totals, int threads, F&& f) {
  const int64_t blocks = (n + rows_per_block - 1) / rows_per_block;
  std::vector<double> sums(blocks * k, 0.0);
  for_range(n * k < 50'000 ? 1 : threads, blocks, 4, [&](int64_t from, int64_t to, int) {
    for (int64_t b = from; b < to; ++b) f(b * rows_per_block, std::min(n, (b + 1) * rows_per_block), sums.data() + b * k);
  });
  std::fill(totals, totals + k, 0.0);
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t c = 0; c < k; ++c) totals[c] += sums[b * k + c];
}

// f(i, c, width) for all columns c, c + 1, ... of a row, at most `widest` at a time.
template <class F>
void over_columns(int64_t k, F&& f) {
  for (int64_t c = 0; c < k; c += widest) f(c, std::min(widest, k - c));
}

// (A V)(i, c..c + width)
inline void row_times(const Pattern& A, const double* x, int64_t i, const double* V, int64_t k, int64_t c, int64_t width, double* sum) {
  std::fill(sum, sum + width, 0.0);
  for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
    const double* const v = V + int64_t{A.idx[p]} * k + c;
    for (int64_t j = 0; j < width; ++j) sum[j] += x[p] * v[j];
  }
}

inline double row_times(const Pattern& A, const double* x, int64_t i, const double* V) {
  double sum = 0;
  for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) sum += x[p] * V[A.idx[p]];
  return sum;
}

// The sum of term(i) for from <= i < to. A total that lies in memory beside arrays of the same type would be written and read
// again for each term.
template <class F>
inline double sum_of(int64_t from, int64_t to, F&& term) {
  std::array<double, lanes> sum{};
  for (; from + lanes <= to; from += lanes)
    for (int64_t l = 0; l < lanes; ++l) sum[l] += term(from + l);
  for (; from < to; ++from) sum[0] += term(from);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace

void renumber(const Pattern& A, const double* x, const int32_t* place, int64_t* ptr, int32_t* idx, double* y, int threads) {
  constexpr int64_t soon = 16;                     // rows that are asked for before their turn: they lie anywhere
  const int64_t n = A.n;
  const auto later = [&](int64_t q, int64_t rows) { return place[std::min(q + rows, n - 1)]; };
  std::vector<int32_t> position(n);
  ptr[0] = 0;
  for (int64_t q = 0; q < n; ++q) {
    fetch(A.ptr + later(q, soon));
    fetch(position.data() + later(q, soon));
    position[place[q]] = static_cast<int32_t>(q);
    ptr[q + 1] = ptr[q] + A.degree(place[q]);
  }
  for_range(threads, n, rows_per_block, [&](int64_t from, int64_t to, int) {
    for (int64_t q = from; q < to; ++q) {
      fetch(A.ptr + later(q, 2 * soon));
      const int64_t next = A.ptr[later(q, soon)];
      fetch(A.idx + next);
      fetch(x + next);
      int64_t at = ptr[q];
      for (int64_t p = A.ptr[place[q]]; p < A.ptr[place[q] + 1]; ++p, ++at) {
        idx[at] = position[A.idx[p]];
        y[at] = x[p];
      }
    }
  });
}

void multiply_dot(const Pattern& A, const double* x, const double* P, double* Q, int64_t k, double* dots, int threads) {
  over_blocks(A.n, k, dots, threads, [&](int64_t from, int64_t to, double* sums) {
    if (k == 1) {
      double sum = 0;
      for (int64_t i = from; i < to; ++i) sum += P[i] * (Q[i] = row_times(A, x, i, P));
      sums[0] = sum;
      return;
    }
    std::array<double, widest> s;
    for (int64_t i = from; i < to; ++i)
      over_columns(k, [&](int64_t c, int64_t width) {
        row_times(A, x, i, P, k, c, width, s.data());
        for (int64_t j = 0; j < width; ++j) sums[c + j] += P[i * k + c + j] * (Q[i * k + c + j] = s[j]);
      });
  });
}

void residual(const Pattern& A, const double* x, const double* B, const double* X, double* R, int64_t k, double* norms, int threads) {
  over_blocks(A.n, k, norms, threads, [&](int64_t from, int64_t to, double* sums) {
    if (k == 1) {
      double sum = 0;
      for (int64_t i = from; i < to; ++i) {
        const double r = R[i] = B[i] - row_times(A, x, i, X);
        sum += r * r;
      }
      sums[0] = sum;
      return;
    }
    std::array<double, widest> s;
    for (int64_t i = from; i < to; ++i)
      over_columns(k, [&](int64_t c, int64_t width) {
        row_times(A, x, i, X, k, c, width, s.data());
        for (int64_t j = 0; j < width; ++j) {
          const double r = R[i * k + c + j] = B[i * k + c + j] - s[j];
          sums[c + j] += r * r;
        }
      });
  });
}

void step(int64_t n, int64_t k, const double* alpha, const double* P, const double* Q, double* X, double* R, double* norms, int threads) {
  over_blocks(n, k, norms, threads, [&](int64_t from, int64_t to, double* sums) {
    if (k == 1) {
      const double a = alpha[0];
      for (int64_t i = from; i < to; ++i) X[i] += a * P[i];
      sums[0] = sum_of(from, to, [&](int64_t i) {
        const double r = R[i] -= a * Q[i];
        return r * r;
      });
      return;
    }
    for (int64_t i = from; i < to; ++i)
      for (int64_t c = 0; c < k; ++c) {
        const int64_t at = i * k + c;
        X[at] += alpha[c] * P[at];
        R[at] -= alpha[c] * Q[at];
        sums[c] += R[at] * R[at];
      }
  });
}

void direction(int64_t n, int64_t k, const double* beta, const double* Z, double* P, int threads) {
  for_range(n * k < 50'000 ? 1 : threads, n, 4 * rows_per_block, [&](int64_t from, int64_t to, int) {
    if (k == 1) {
      const double b = beta[0];
      for (int64_t i = from; i < to; ++i) P[i] = Z[i] + b * P[i];
      return;
    }
    for (int64_t i = from; i < to; ++i)
      for (int64_t c = 0; c < k; ++c) P[i * k + c] = Z[i * k + c] + beta[c] * P[i * k + c];
  });
}

void dot(int64_t n, int64_t k, const double* U, const double* V, double* dots, int threads) {
  over_blocks(n, k, dots, threads, [&](int64_t from, int64_t to, double* sums) {
    if (k == 1) {
      sums[0] = sum_of(from, to, [&](int64_t i) { return U[i] * V[i]; });
      return;
    }
    for (int64_t i = from; i < to; ++i)
      for (int64_t c = 0; c < k; ++c) sums[c] += U[i * k + c] * V[i * k + c];
  });
}

double subtract(int64_t n, double alpha, const double* T, double* R, int threads) {
  double squares = 0;
  over_blocks(n, 1, &squares, threads, [&](int64_t from, int64_t to, double* sums) {
    sums[0] = sum_of(from, to, [&](int64_t i) {
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
