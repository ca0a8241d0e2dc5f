// One front of a group of systems, one in each lane: the kernels of dense.inl and column.inl, operation by operation. Products of an
// entry are subtracted in the order of the columns, however the entries are grouped in tiles. Included after column.inl, under the same
// rules.

namespace ms::ISA {
namespace {

// A number of each system.
using Lanes = Vec<double, group_size>::type;
inline __attribute__((always_inline)) Lanes lanes_at(const double* p, Int i) { return load<group_size>(p + i * group_size); }
inline __attribute__((always_inline)) void set_lanes(double* p, Int i, Lanes v) { store<group_size>(p + i * group_size, v); }

constexpr int group_rows = VECTOR_BYTES < 32 ? 2 : 3, group_columns = VECTOR_BYTES < 32 ? 2 : 4;      // of a tile in registers

// X L^T = B for one row x of N numbers; L is lower triangular with inverse diagonal d.
template <int N>
inline __attribute__((always_inline)) void solve_lanes(Lanes (&x)[N], const double* L, Int ldl, const double* d) {
#pragma GCC unroll 4
  for (int j = 0; j < N; ++j) {
    x[j] *= lanes_at(d, j);
#pragma GCC unroll 4
    for (int c = j + 1; c < N; ++c) x[c] -= x[j] * lanes_at(L, c + j * ldl);
  }
}

// C(M x N) -= A(M x k) B(N x k)^double; C = -A B^T if `fresh`. With d, then also C := C L^-T for the triangle L in the rows of B, columns k
// on.
template <int M, int N>
void group_tile(bool fresh, Int k, const double* A, const double* B, Int ld, double* C, Int ldc, const double* d) {
  Lanes c[M][N];
#pragma GCC unroll 4
  for (int j = 0; j < N; ++j)
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) c[i][j] = fresh ? Lanes{} : lanes_at(C, i + j * ldc);
  const double *a = A, *b = B;
  for (Int l = 0; l < k; ++l, a += ld * group_size, b += ld * group_size) {
    Lanes x[M];
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) x[i] = lanes_at(a, i);
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      const Lanes y = lanes_at(b, j);
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) c[i][j] -= x[i] * y;
    }
  }
  if (d)
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) solve_lanes<N>(c[i], b, ld, d);
#pragma GCC unroll 4
  for (int j = 0; j < N; ++j)
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) set_lanes(C, i + j * ldc, c[i][j]);
}

// The same for any number of rows.
template <int N>
void group_strip(bool fresh, Int m, Int k, const double* A, const double* B, Int ld, double* C, Int ldc, const double* d) {
  constexpr Int step = group_rows * group_size;
  for (; m >= group_rows && m != 4; m -= group_rows, A += step, C += step) group_tile<group_rows, N>(fresh, k, A, B, ld, C, ldc, d);
  for (; m >= 2; m -= 2, A += 2 * group_size, C += 2 * group_size) group_tile<2, N>(fresh, k, A, B, ld, C, ldc, d);
  if (m == 1) group_tile<1, N>(fresh, k, A, B, ld, C, ldc, d);
}

// And for n <= N columns.
template <int N = group_columns>
void group_columns_of(Int n, bool fresh, Int m, Int k, const double* A, const double* B, Int ld, double* C, Int ldc, const double* d) {
  if (n == N)
    group_strip<N>(fresh, m, k, A, B, ld, C, ldc, d);
  else if constexpr (N > 1)
    group_columns_of<N - 1>(n, fresh, m, k, A, B, ld, C, ldc, d);
}

inline Lanes lane_roots(Lanes x) {
  Lanes y;
#pragma GCC unroll 8
  for (int l = 0; l < group_size; ++l) y[l] = root(x[l]);
  return y;
}

// Cholesky of the nb <= 8 columns at D as plain_pivots(), inverse diagonal to d. Returns a bit for each system with a pivot that is not
// plain.
unsigned group_pivots(int nb, double* D, Int ld, double* d) {
  unsigned bad = 0;
  for (int c = 0; c < nb; ++c) {
    const Lanes p = lanes_at(D, c + c * ld), inverse = 1.0 / p, root_of_p = lane_roots(p), scale = root_of_p * inverse;
#pragma GCC unroll 8
    for (int l = 0; l < group_size; ++l) bad |= p[l] > 1 / plain_pivot<double> && p[l] < plain_pivot<double> ? 0u : 1u << l;
    for (int q = c + 1; q < nb; ++q) {
      const Lanes t = lanes_at(D, q + c * ld) * inverse;
      for (int r = q; r < nb; ++r) set_lanes(D, r + q * ld, lanes_at(D, r + q * ld) - lanes_at(D, r + c * ld) * t);
    }
    for (int r = c + 1; r < nb; ++r) set_lanes(D, r + c * ld, lanes_at(D, r + c * ld) * scale);
    set_lanes(D, c + c * ld, root_of_p);
    set_lanes(d, c, scale);
  }
  return bad;
}

// Left-looking by 8 columns as narrow_panel().
unsigned group_panel(Int m, Int k, double* A, Int lda, const double* diagonal, double* ratio) {
  constexpr int G = group_size;
  alignas(64) double d[8 * G];
  unsigned bad = 0;
  Lanes least = lanes_at(ratio, 0);
  for (Int j = 0; j < k; j += 8) {
    const int nb = k - j < 8 ? static_cast<int>(k - j) : 8;
    const auto each_strip = [&](auto f) {
      for (Int h = 0; h < nb; h += group_columns) f(h, nb - h < group_columns ? nb - h : Int(group_columns), A + (j + h) * G);
    };
    if (j)
      each_strip([&](Int h, Int w, double* B) { group_columns_of(w, false, nb - h, j, B, B, lda, B + (j + h) * lda * G, lda, nullptr); });
    bad |= group_pivots(nb, A + (j + j * lda) * G, lda, d);
    each_strip([&](Int h, Int w, double* B) {
      group_columns_of(w, false, m - j - nb, j + h, A + (j + nb) * G, B, lda, A + (j + nb + (j + h) * lda) * G, lda, d + h * G);
    });
    for (int c = 0; c < nb; ++c) {
      const Lanes pivot = lanes_at(A, (j + c) * (lda + 1)), size = pivot / lanes_at(diagonal, j + c) * pivot;
#pragma GCC unroll 8
      for (int l = 0; l < G; ++l) least[l] = size[l] < least[l] ? size[l] : least[l];
    }
  }
  set_lanes(ratio, 0, least);
  return bad;
}

void group_update(Int m, Int k, const double* A, Int lda, double* C) {
  constexpr int G = group_size;
  for (Int j = 0; j < m; j += group_columns) {
    if (m >= group_columns && j + group_columns > m) j = m - group_columns;         // some entries twice, with the same bits
    const Int w = m - j < group_columns ? m - j : Int(group_columns);
    group_columns_of(w, true, m - j, k, A + j * G, A + j * G, lda, C + (j + j * m) * G, m, nullptr);
  }
}

void group_assemble(Int k, const unsigned* ptr, const unsigned* source, const int* row, const double* const* values, double* A,
                    Int lda, double* diagonal) {
  __builtin_memset(A, 0, sizeof(double) * group_size * static_cast<unsigned long>(k * lda));
  for (Int j = 0; j < k; ++j) {
    double* const column = A + j * lda * group_size;
    for (unsigned p = ptr[j]; p < ptr[j + 1]; ++p) {
      Lanes v;
#pragma GCC unroll 8
      for (int l = 0; l < group_size; ++l) v[l] = values[l][source[p]];
      set_lanes(column, row[p], lanes_at(column, row[p]) + v);
    }
    set_lanes(diagonal, j, lanes_at(column, j));
  }
}

void group_extend_add(Int begin, Int end, Int m, const double* X, const int* to, double* Y, Int ldy, Int origin) {
  for (Int j = begin; j < end; ++j) {
    const double* const x = X + j * m * group_size;
    double* const y = Y + ((to[j] - origin) * ldy - origin) * group_size;
    for (Int i = j; i < m; ++i) set_lanes(y, to[i], lanes_at(y, to[i]) + lanes_at(x, i));
  }
}

// ---- solves

template <int P>
inline __attribute__((always_inline)) void subtract_lanes(const double* L, Int ld, Int i, const Lanes (&y)[P], double* to) {
  Lanes v = lanes_at(to, 0);
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) v -= lanes_at(L, i + p * ld) * y[p];
  set_lanes(to, 0, v);
}

// Columns j to j + P.
template <int P>
inline __attribute__((always_inline)) void group_forward_step(Int j, Int m, Int w, const double* L, Int ld, double* Y, double* X,
                                                              const int* rows) {
  Lanes y[P];
  const double *const A = L + j * (ld + 1) * group_size, *const B = L + (w + j * ld) * group_size;
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
    Lanes v = lanes_at(Y, j + p);
#pragma GCC unroll 4
    for (int q = 0; q < p; ++q) v -= lanes_at(A, p + q * ld) * y[q];
    y[p] = v * (1.0 / lanes_at(A, p + p * ld));
    set_lanes(Y, j + p, y[p]);
  }
  for (Int i = P; i < w - j; ++i) subtract_lanes<P>(A, ld, i, y, Y + (j + i) * group_size);
  for (Int i = 0; i < m - w; ++i) subtract_lanes<P>(B, ld, i, y, X + static_cast<Int>(rows ? rows[i] : i) * group_size);
}

void group_forward(Int m, Int w, const double* L, Int ld, double* Y, double* X, const int* rows) {
  ascending(w, [=](auto P, Int j) { group_forward_step<P>(j, m, w, L, ld, Y, X, rows); });
}

// Sums of even and of odd rows, as in column.inl. row(i): position of row i in X.
template <int P, class Row>
inline __attribute__((always_inline)) void add_lanes(Int n, const double* L, Int ld, const double* X, Row row, Lanes (&sum)[2][P]) {
  const auto add = [&](Int i, Lanes(&to)[P]) {
    const Lanes v = lanes_at(X, row(i));
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) to[p] += lanes_at(L, i + p * ld) * v;
  };
  Int i = 0;
  for (; i + 1 < n; i += 2) {
    add(i, sum[0]);
    add(i + 1, sum[1]);
  }
  if (i < n) add(i, sum[0]);
}

// Columns j to j + P.
template <int P>
inline __attribute__((always_inline)) void group_backward_step(Int j, Int m, Int w, const double* L, Int ld, double* Y, const double* X,
                                                               const int* rows) {
  Lanes sum[2][P] = {}, y[P];
  const double* const A = L + j * (ld + 1) * group_size;
  add_lanes<P>(w - j - P, A + P * group_size, ld, Y + (j + P) * group_size, [](Int i) { return i; }, sum);
  add_lanes<P>(m - w, L + (w + j * ld) * group_size, ld, X, [=](Int i) { return static_cast<Int>(rows[i]); }, sum);
#pragma GCC unroll 4
  for (int p = P - 1; p >= 0; --p) {
    Lanes v = lanes_at(Y, j + p) - (sum[0][p] + sum[1][p]);
#pragma GCC unroll 4
    for (int q = p + 1; q < P; ++q) v -= lanes_at(A, q + p * ld) * y[q];
    y[p] = v * (1.0 / lanes_at(A, p + p * ld));
    set_lanes(Y, j + p, y[p]);
  }
}

void group_backward(Int m, Int w, const double* L, Int ld, double* Y, const double* X, const int* rows) {
  descending(w, [=](auto P, Int j) { group_backward_step<P>(j, m, w, L, ld, Y, X, rows); });
}

}  // namespace

extern const GroupKernels group_table;
const GroupKernels group_table{group_assemble, group_extend_add, group_panel, group_update, group_forward, group_backward};

}  // namespace ms::ISA
