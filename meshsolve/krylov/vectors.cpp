#include "vectors.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "native/dense/widths.hpp"

namespace ms::krylov {
namespace {

constexpr int64_t rows_per_block = 4096;
constexpr int64_t lanes = 4;                       // sums of a column that do not wait for each other

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

// f(K, stride, c) for columns c .. c + K of k: K is a constant, and the stride from row to row as well where these are all there are.
template <class F>
void over_columns(int64_t k, F&& f) {
  in_widths<8, 4, 3, 2, 1>(k, [&](auto K, int64_t c) {
    if (K == k)
      f(K, K, c);
    else
      f(K, k, c);
  });
}

// Row i of A V, of K columns.
template <int64_t K, class Stride>
inline std::array<double, K> row_times(const Pattern& A, const double* x, int64_t i, const double* V, Stride stride) {
  std::array<double, K> sum{};
  for (int64_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
    const double* const v = V + int64_t{A.idx[p]} * stride;
    for (int64_t c = 0; c < K; ++c) sum[c] += x[p] * v[c];
  }
  return sum;
}

// sums[c] := the sum of term(i, c) for from <= i < to. A total that lies in memory beside arrays of the same type would be written
// and read again for each term.
template <int64_t K, class F>
inline void add_up(int64_t from, int64_t to, double* sums, F&& term) {
  double sum[lanes][K] = {};
  const auto add = [&](int64_t i, int64_t l) {
    for (int64_t c = 0; c < K; ++c) sum[l][c] += term(i, c);
  };
  for (; from + lanes <= to; from += lanes)
    for (int64_t l = 0; l < lanes; ++l) add(from + l, l);
  for (; from < to; ++from) add(from, 0);
  for (int64_t c = 0; c < K; ++c) sums[c] = (sum[0][c] + sum[1][c]) + (sum[2][c] + sum[3][c]);
}

// sums[c] := the sum of term(i, row i of A V, c).
template <int64_t K, class Stride, class F>
inline void add_up_rows(const Pattern& A, const double* x, int64_t from, int64_t to, const double* V, Stride stride, double* sums, F&& term) {
  std::array<double, K> total{};
  for (int64_t i = from; i < to; ++i) {
    const auto row = row_times<K>(A, x, i, V, stride);
    for (int64_t c = 0; c < K; ++c) total[c] += term(i, row[c], c);
  }
  std::copy(total.begin(), total.end(), sums);
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
    over_columns(k, [&](auto K, auto stride, int64_t first) {
      const double* const p = P + first;
      double* const q = Q + first;
      add_up_rows<K>(A, x, from, to, p, stride, sums + first,
                     [&](int64_t i, double row, int64_t c) { return p[i * stride + c] * (q[i * stride + c] = row); });
    });
  });
}

void residual(const Pattern& A, const double* x, const double* B, const double* X, double* R, int64_t k, double* norms, int threads) {
  over_blocks(A.n, k, norms, threads, [&](int64_t from, int64_t to, double* sums) {
    over_columns(k, [&](auto K, auto stride, int64_t first) {
      const double* const b = B + first;
      double* const r = R + first;
      add_up_rows<K>(A, x, from, to, X + first, stride, sums + first, [&](int64_t i, double row, int64_t c) {
        const double left = r[i * stride + c] = b[i * stride + c] - row;
        return left * left;
      });
    });
  });
}

void step(int64_t n, int64_t k, const double* alpha, const double* P, const double* Q, double* X, double* R, double* norms, int threads) {
  over_blocks(n, k, norms, threads, [&](int64_t from, int64_t to, double* sums) {
    over_columns(k, [&](auto K, auto stride, int64_t first) {
      std::array<double, K> a;
      std::copy_n(alpha + first, K, a.begin());
      add_up<K>(from, to, sums + first, [&](int64_t i, int64_t c) {
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
      add_up<K>(from, to, sums + first, [&](int64_t i, int64_t c) {
        const int64_t at = i * stride + first + c;
        return U[at] * V[at];
      });
    });
  });
}

double subtract(int64_t n, double alpha, const double* T, double* R, int threads) {
  double squares = 0;
  over_blocks(n, 1, &squares, threads, [&](int64_t from, int64_t to, double* sums) {
    add_up<1>(from, to, sums, [&](int64_t i, int64_t) {
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
