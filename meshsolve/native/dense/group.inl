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
constexpr int group_block = 8;                // columns of a panel that are factored together

// Position of column j in a panel of m rows, counted from its row 0, which is not stored unless j = 0.
inline __attribute__((always_inline)) Int group_column(Int m, Int j) { return j * (m - 1) - j * (j - 1) / 2; }

// Columns of a matrix: column j + 1 begins `step` numbers behind column j, and each later one `less` numbers nearer: 1 in panels, 0 in
// full matrices.
struct GroupColumns {
  double* data;
  Int step, less;
};

// X L^T = B for one row x of N numbers; L is lower triangular, leading dimension group_block, with inverse diagonal d.
template <int N>
inline __attribute__((always_inline)) void solve_lanes(Lanes (&x)[N], const double* L, const double* d) {
#pragma GCC unroll 4
  for (int j = 0; j < N; ++j) {
    x[j] *= lanes_at(d, j);
#pragma GCC unroll 4
    for (int c = j + 1; c < N; ++c) x[c] -= x[j] * lanes_at(L, c + j * group_block);
  }
}

// C(M x N) -= A(M x k) B(N x k)^T; C = -A B^T if `fresh`. A and B are rows of a panel whose column 1 begins `step` numbers behind its
// column 0. With d, then also C := C L^-T.
template <int M, int N>
void group_tile(bool fresh, Int k, const double* A, const double* B, Int step, const GroupColumns& C, const double* L, const double* d) {
  constexpr int G = group_size;
  double* column[N];
  double* next = C.data;
#pragma GCC unroll 4
  for (int j = 0; j < N; ++j) {
    column[j] = next;
    next += (C.step - j * C.less) * G;
  }
  Lanes c[M][N];
#pragma GCC unroll 4
  for (int j = 0; j < N; ++j)
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) c[i][j] = fresh ? Lanes{} : lanes_at(column[j], i);
  const double *a = A, *b = B;
  for (Int stride = step * G; k > 0; --k, a += stride, b += stride, stride -= G) {
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
    for (int i = 0; i < M; ++i) solve_lanes<N>(c[i], L, d);
#pragma GCC unroll 4
  for (int j = 0; j < N; ++j)
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) set_lanes(column[j], i, c[i][j]);
}

// The same for any number of rows.
template <int N>
void group_strip(bool fresh, Int m, Int k, const double* A, const double* B, Int step, GroupColumns C, const double* L, const double* d) {
  constexpr int G = group_size;
  for (; m >= group_rows && m != 4; m -= group_rows, A += group_rows * G, C.data += group_rows * G)
    group_tile<group_rows, N>(fresh, k, A, B, step, C, L, d);
  for (; m >= 2; m -= 2, A += 2 * G, C.data += 2 * G) group_tile<2, N>(fresh, k, A, B, step, C, L, d);
  if (m == 1) group_tile<1, N>(fresh, k, A, B, step, C, L, d);
}

// And for n <= N columns.
template <int N = group_columns>
void group_columns_of(Int n, bool fresh, Int m, Int k, const double* A, const double* B, Int step, const GroupColumns& C,
                      const double* L = nullptr, const double* d = nullptr) {
  if (n == N)
    group_strip<N>(fresh, m, k, A, B, step, C, L, d);
  else if constexpr (N > 1)
    group_columns_of<N - 1>(n, fresh, m, k, A, B, step, C, L, d);
}

inline Lanes lane_roots(Lanes x) {
  Lanes y;
#pragma GCC unroll 8
  for (int l = 0; l < group_size; ++l) y[l] = root(x[l]);
  return y;
}

// Cholesky of the nb columns of D as plain_pivots(), inverse diagonal to d. Returns a bit for each system with a pivot that is not plain.
unsigned group_pivots(int nb, double* D, double* d) {
  constexpr Int ld = group_block;
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

// Left-looking by 8 columns as narrow_panel(). The block on the diagonal is factored in a full copy.
unsigned group_panel(Int m, Int k, double* A, const double* diagonal, double* ratio) {
  constexpr int G = group_size, B = group_block;
  alignas(64) double D[B * B * G], d[B * G];
  unsigned bad = 0;
  Lanes least = lanes_at(ratio, 0);
  for (Int j = 0; j < k; j += B) {
    const int nb = k - j < B ? static_cast<int>(k - j) : B;
    double* column[B];
    for (int c = 0; c < nb; ++c) {
      column[c] = A + group_column(m, j + c) * G;
      for (int r = c; r < nb; ++r) set_lanes(D, r + c * B, lanes_at(column[c], j + r));
    }
    const auto each_strip = [&](auto f) {
      for (Int h = 0; h < nb; h += group_columns) f(h, nb - h < group_columns ? nb - h : Int(group_columns), A + (j + h) * G);
    };
    if (j)
      each_strip([&](Int h, Int w, const double* rows) {
        group_columns_of(w, false, nb - h, j, rows, rows, m - 1, GroupColumns{D + h * (B + 1) * G, B, 0});
      });
    bad |= group_pivots(nb, D, d);
    for (int c = 0; c < nb; ++c) {
      const Lanes pivot = lanes_at(D, c * (B + 1)), size = pivot / lanes_at(diagonal, j + c) * pivot;
#pragma GCC unroll 8
      for (int l = 0; l < G; ++l) least[l] = size[l] < least[l] ? size[l] : least[l];
      for (int r = c; r < nb; ++r) set_lanes(column[c], j + r, lanes_at(D, r + c * B));
    }
    each_strip([&](Int h, Int w, const double* rows) {
      group_columns_of(w, false, m - j - nb, j + h, A + (j + nb) * G, rows, m - 1,
                       GroupColumns{column[h] + (j + nb) * G, m - 1 - (j + h), 1}, D + h * (B + 1) * G, d + h * G);
    });
  }
  set_lanes(ratio, 0, least);
  return bad;
}

void group_update(Int m, Int k, const double* A, double* C) {
  constexpr int G = group_size;
  const Int step = m + k - 1;
  for (Int j = 0; j < m; j += group_columns) {
    if (m >= group_columns && j + group_columns > m) j = m - group_columns;         // some entries twice, with the same bits
    const Int w = m - j < group_columns ? m - j : Int(group_columns);
    group_columns_of(w, true, m - j, k, A + (k + j) * G, A + (k + j) * G, step, GroupColumns{C + (j + j * m) * G, m, 0});
  }
}

void group_assemble(Int m, Int k, const unsigned* ptr, const unsigned* source, const int* row, const double* const* values, double* A,
                    double* diagonal) {
  __builtin_memset(A, 0, sizeof(double) * group_size * static_cast<unsigned long>(group_column(m, k) + k));
  for (Int j = 0; j < k; ++j) {
    double* const column = A + group_column(m, j) * group_size;
    for (unsigned p = ptr[j]; p < ptr[j + 1]; ++p) {
      Lanes v;
#pragma GCC unroll 8
      for (int l = 0; l < group_size; ++l) v[l] = values[l][source[p]];
      set_lanes(column, row[p], lanes_at(column, row[p]) + v);
    }
    set_lanes(diagonal, j, lanes_at(column, j));
  }
}

// Adds column j of X to y, whose row 0 is row `origin` of the front.
inline void add_group_column(Int j, Int m, const double* X, const int* to, Int origin, double* y) {
  const double* const x = X + j * m * group_size;
  y -= origin * group_size;
  for (Int i = j; i < m; ++i) set_lanes(y, to[i], lanes_at(y, to[i]) + lanes_at(x, i));
}

void group_add_to_panel(Int end, Int m, const double* X, const int* to, double* A, Int height) {
  for (Int j = 0; j < end; ++j) add_group_column(j, m, X, to, 0, A + group_column(height, to[j]) * group_size);
}

void group_add_to_update(Int begin, Int m, const double* X, const int* to, double* C, Int rows, Int pivots) {
  for (Int j = begin; j < m; ++j) add_group_column(j, m, X, to, pivots, C + (to[j] - pivots) * rows * group_size);
}

// ---- solves

// Columns j to j + P of a panel, each from row 0 on.
template <int P>
struct PanelColumns {
  const double* column[P];

  __attribute__((always_inline)) PanelColumns(const double* L, Int m, Int j) {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) column[p] = L + group_column(m, j + p) * group_size;
  }
  __attribute__((always_inline)) Lanes at(Int i, int p) const { return lanes_at(column[p], i); }
};

template <int P>
inline __attribute__((always_inline)) void subtract_lanes(const PanelColumns<P>& L, Int i, const Lanes (&y)[P], double* to) {
  Lanes v = lanes_at(to, 0);
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) v -= L.at(i, p) * y[p];
  set_lanes(to, 0, v);
}

// Columns j to j + P.
template <int P>
inline __attribute__((always_inline)) void group_forward_step(Int j, Int m, Int w, const double* panel, double* Y, double* X,
                                                              const int* rows) {
  const PanelColumns<P> L(panel, m, j);
  Lanes y[P];
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
    Lanes v = lanes_at(Y, j + p);
#pragma GCC unroll 4
    for (int q = 0; q < p; ++q) v -= L.at(j + p, q) * y[q];
    y[p] = v * (1.0 / L.at(j + p, p));
    set_lanes(Y, j + p, y[p]);
  }
  for (Int i = j + P; i < w; ++i) subtract_lanes<P>(L, i, y, Y + i * group_size);
  for (Int i = 0; i < m - w; ++i) subtract_lanes<P>(L, w + i, y, X + static_cast<Int>(rows ? rows[i] : i) * group_size);
}

void group_forward(Int m, Int w, const double* L, double* Y, double* X, const int* rows) {
  ascending(w, [=](auto P, Int j) { group_forward_step<P>(j, m, w, L, Y, X, rows); });
}

// Sums of even and of odd rows, as in column.inl: of the rows [begin, end), with row i at position(i) of X.
template <int P, class Position>
inline __attribute__((always_inline)) void add_lanes(Int begin, Int end, const PanelColumns<P>& L, const double* X, Position position,
                                                     Lanes (&sum)[2][P]) {
  const auto add = [&](Int i, Lanes(&to)[P]) {
    const Lanes v = lanes_at(X, position(i));
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) to[p] += L.at(i, p) * v;
  };
  Int i = begin;
  for (; i + 1 < end; i += 2) {
    add(i, sum[0]);
    add(i + 1, sum[1]);
  }
  if (i < end) add(i, sum[0]);
}

// Columns j to j + P.
template <int P>
inline __attribute__((always_inline)) void group_backward_step(Int j, Int m, Int w, const double* panel, double* Y, const double* X,
                                                               const int* rows) {
  const PanelColumns<P> L(panel, m, j);
  Lanes sum[2][P] = {}, y[P];
  add_lanes<P>(j + P, w, L, Y, [](Int i) { return i; }, sum);
  add_lanes<P>(w, m, L, X, [=](Int i) { return static_cast<Int>(rows[i - w]); }, sum);
#pragma GCC unroll 4
  for (int p = P - 1; p >= 0; --p) {
    Lanes v = lanes_at(Y, j + p) - (sum[0][p] + sum[1][p]);
#pragma GCC unroll 4
    for (int q = p + 1; q < P; ++q) v -= L.at(j + q, p) * y[q];
    y[p] = v * (1.0 / L.at(j + p, p));
    set_lanes(Y, j + p, y[p]);
  }
}

void group_backward(Int m, Int w, const double* L, double* Y, const double* X, const int* rows) {
  descending(w, [=](auto P, Int j) { group_backward_step<P>(j, m, w, L, Y, X, rows); });
}

}  // namespace

extern const GroupKernels group_table;
const GroupKernels group_table{group_assemble, group_add_to_panel, group_add_to_update, group_panel, group_update, group_forward,
                               group_backward};

}  // namespace ms::ISA
