// Solves with one front: L is m x w, its upper w x w part lower triangular with a stored or a unit diagonal. Right-hand sides are
// stored by rows, S = 2, 4 or 8 values per row: one row fills a vector register, and scattered rows need no copy.
// Rows 0..c of the front (c >= w) are consecutive in Y, the other rows in X, at the indices `rows` if these are given.
// A single right-hand side, S = 1, uses the kernels of column.inl. Included after that file, under the same rules.

namespace ms::ISA {
namespace {

// W numbers of a row in one vector, also for a single complex number.
template <class T, int W> struct RowVector { typedef typename Vec<T, W>::type type; };
template <int W> struct RowVector<Complex, W> { typedef ComplexVector<W> type; };

// One row, in as many vectors as the instruction set needs.
template <int S, class T>
struct Row {
  static constexpr int W = S < lanes<T> ? S : lanes<T>, N = S / W;
  typedef typename RowVector<T, W>::type V;
  V v[N];

  inline __attribute__((always_inline)) void read(const T* p) {
    for (int n = 0; n < N; ++n) v[n] = *reinterpret_cast<const V*>(p + n * W);
  }
  inline __attribute__((always_inline)) void write(T* p) const {
    for (int n = 0; n < N; ++n) *reinterpret_cast<V*>(p + n * W) = v[n];
  }
  inline __attribute__((always_inline)) void add(const Row& x) {
    for (int n = 0; n < N; ++n) v[n] += x.v[n];
  }
  inline __attribute__((always_inline)) void subtract(const Row& x) {
    for (int n = 0; n < N; ++n) v[n] -= x.v[n];
  }
  inline __attribute__((always_inline)) void add(T a, const Row& x) {
    for (int n = 0; n < N; ++n) v[n] += x.v[n] * a;
  }
  inline __attribute__((always_inline)) void subtract(T a, const Row& x) {
    for (int n = 0; n < N; ++n) v[n] -= x.v[n] * a;
  }
  inline __attribute__((always_inline)) void scale(T a) {
    for (int n = 0; n < N; ++n) v[n] *= a;
  }
};

// V(0:n) -= L(0:n, 0:P) y
template <int P, int S, class T>
inline __attribute__((always_inline)) void subtract_rows(Int n, const T* L, Int ld, const Row<S, T> (&y)[P], T* V) {
  for (Int i = 0; i < n; ++i) {
    Row<S, T> v;
    v.read(V + i * S);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) v.subtract(L[i + p * ld], y[p]);
    v.write(V + i * S);
  }
}

// The same with row i at row rows[i] of X, or at row i without `rows`.
template <int P, int S, class T>
inline __attribute__((always_inline)) void subtract_below(Int n, const T* L, Int ld, const Row<S, T> (&y)[P], T* X, const int* rows) {
  if (!rows) return subtract_rows<P, S>(n, L, ld, y, X);
  for (Int i = 0; i < n; ++i) {
    T* const x = X + static_cast<Int>(rows[i]) * S;
    Row<S, T> v;
    v.read(x);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) v.subtract(L[i + p * ld], y[p]);
    v.write(x);
  }
}

// The rows of P pivots and those of later pivots, c with these.
template <int P, int S, class T>
inline __attribute__((always_inline)) void solve_pivots(Diagonal diagonal, Int c, const T* L, Int ld, T* Y, Row<S, T> (&y)[P]) {
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
    y[p].read(Y + p * S);
#pragma GCC unroll 4
    for (int q = 0; q < p; ++q) y[p].subtract(L[p + q * ld], y[q]);
    y[p].scale(inverse_pivot(diagonal, L + p * ld + p));
    y[p].write(Y + p * S);
  }
  subtract_rows<P, S>(c - P, L + P, ld, y, Y + P * S);
}

template <int S, class T>
void forward_rows(Diagonal diagonal, Int m, Int w, Int c, const T* L, Int ld, T* Y, T* X, const int* rows) {
  ascending(w, [=](auto P, Int j) {
    Row<S, T> y[P];
    solve_pivots<P, S>(diagonal, c - j, L + j + j * ld, ld, Y + j * S, y);
    subtract_below<P, S>(m - c, L + c + j * ld, ld, y, X, rows);
  });
}

// sum(p) += row of L times row of V
template <int P, int S, class T>
inline __attribute__((always_inline)) void add_products(const T* L, Int ld, const T* V, Row<S, T> (&sum)[P]) {
  Row<S, T> v;
  v.read(V);
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) sum[p].add(L[p * ld], v);
}

// Sums over rows of L and of V, in two independent chains of additions.
template <int P, int S, class T> struct Sums {
  Row<S, T> even[P] = {}, odd[P] = {};

  inline __attribute__((always_inline)) void add(Int n, const T* L, Int ld, const T* V) {
    Int i = 0;
    for (; i + 1 < n; i += 2) {
      add_products<P, S>(L + i, ld, V + i * S, even);
      add_products<P, S>(L + i + 1, ld, V + (i + 1) * S, odd);
    }
    if (i < n) add_products<P, S>(L + i, ld, V + i * S, even);
  }
  inline __attribute__((always_inline)) void add_at(Int n, const T* L, Int ld, const T* X, const int* rows) {
    Int i = 0;
    for (; i + 1 < n; i += 2) {
      add_products<P, S>(L + i, ld, X + static_cast<Int>(rows[i]) * S, even);
      add_products<P, S>(L + i + 1, ld, X + static_cast<Int>(rows[i + 1]) * S, odd);
    }
    if (i < n) add_products<P, S>(L + i, ld, X + static_cast<Int>(rows[i]) * S, even);
  }
  // Row p of Y without its sum.
  inline __attribute__((always_inline)) Row<S, T> taken_from(const T* Y, int p) {
    Row<S, T> y;
    y.read(Y + p * S);
    even[p].add(odd[p]);
    y.subtract(even[p]);
    return y;
  }
};

template <int P, int S, class T>
inline void backward_step(Int m, Int c, const T* L, Int ld, T* Y, const T* X, const int* rows) {
  Sums<P, S, T> sums;
  Row<S, T> solved[P];
  sums.add(c - P, L + P, ld, Y + P * S);
  sums.add_at(m - c, L + c, ld, X, rows);
#pragma GCC unroll 4
  for (int p = P - 1; p >= 0; --p) {
    Row<S, T> y = sums.taken_from(Y, p);
#pragma GCC unroll 4
    for (int q = p + 1; q < P; ++q) y.subtract(L[q + p * ld], solved[q]);
    y.scale(inverse_pivot(Diagonal::stored, L + p * ld + p));
    y.write(Y + p * S);
    solved[p] = y;
  }
}

template <int S, class T>
void backward_rows(Int m, Int w, Int c, const T* L, Int ld, T* Y, const T* X, const int* rows) {
  descending(w, [=](auto P, Int j) {
    backward_step<P, S>(m - j, c - j, L + j + j * ld, ld, Y + j * S, X, rows);
  });
}

// Rows j to j + P of L11^-T (Y - L21^T V) for a diagonal of ones. Sums have the order of column.inl: the second step of two adds the rows
// of the first one, `last`, at the end.
template <int P, int S, class T>
inline void backward_unit_step(Int j, Int m, Int w, const T* L, Int ld, T* Y, const T* V) {
  const T* const A = L + j * ld;
  const Int last = (w / 4 * 4 - j) / 4 % 2 == 0 && P == 4 ? 4 : 0, begin = j + P + last;
  Sums<P, S, T> sums;
  Row<S, T> solved[P];
  sums.add(m - w, A + w, ld, V);
  sums.add(w - begin, A + begin, ld, Y + begin * S);
  sums.add(last, A + j + P, ld, Y + (j + P) * S);
#pragma GCC unroll 4
  for (int p = P - 1; p >= 0; --p) {
    Row<S, T> y = sums.taken_from(Y + j * S, p);
#pragma GCC unroll 4
    for (int q = p + 1; q < P; ++q) y.subtract(A[j + q + p * ld], solved[q]);
    y.write(Y + (j + p) * S);
    solved[p] = y;
  }
}

template <int S, class T>
void backward_unit_rows(Int m, Int w, const T* L, Int ld, T* Y, const T* V) {
  descending(w, [=](auto P, Int j) { backward_unit_step<P, S>(j, m, w, L, ld, Y, V); });
}

// ---- U by rows, as in column.inl --------------------------------------------------------------------------------------------

// Rows j to j + P of U11^-T Y.
template <int P, int S, class T>
inline __attribute__((always_inline)) void upper_pivots(Int j, const T* A, Int ld, T* Y, Row<S, T> (&y)[P]) {
  Sums<P, S, T> sums;
  sums.add(j, A, ld, Y);
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
    y[p] = sums.taken_from(Y + j * S, p);
#pragma GCC unroll 4
    for (int q = 0; q < p; ++q) y[p].subtract(A[j + q + p * ld], y[q]);
    y[p].scale(inverse_pivot(Diagonal::stored, A + j + p + p * ld));
    y[p].write(Y + (j + p) * S);
  }
}

template <int S, class T>
void forward_upper_rows(const UpperFront<T>& f, T* Y, T* X, const int* rows) {
  ascending(f.w, [=](auto P, Int j) {
    Row<S, T> y[P];
    upper_pivots<P, S>(j, f.P + j * f.ldp, f.ldp, Y, y);
    subtract_below<P, S>(f.u, f.Q + j * f.ldq, f.ldq, y, X, rows);
  });
}

// Rows j to j + P of U11^-1 Y; subtracts U11 times these from the rows above.
template <int P, int S, class T>
inline void upper_step(Int j, const UpperFront<T>& f, T* Y, const T* V) {
  const T* const A = f.P + j * f.ldp;
  Sums<P, S, T> sums;
  Row<S, T> y[P];
  sums.add(f.u, f.Q + j * f.ldq, f.ldq, V);
#pragma GCC unroll 4
  for (int p = P - 1; p >= 0; --p) {
    y[p] = sums.taken_from(Y + j * S, p);
#pragma GCC unroll 4
    for (int q = p + 1; q < P; ++q) y[p].subtract(A[j + p + q * f.ldp], y[q]);
    y[p].scale(inverse_pivot(Diagonal::stored, A + j + p + p * f.ldp));
    y[p].write(Y + (j + p) * S);
  }
  subtract_rows<P, S>(j, A, f.ldp, y, Y);
}

template <int S, class T>
void backward_upper_rows(const UpperFront<T>& f, T* Y, const T* V) {
  descending(f.w, [=](auto P, Int j) { upper_step<P, S>(j, f, Y, V); });
}

// ---- functions of the tables --------------------------------------------------------------------------------------------------

template <int S, class T>
inline void add_row(const T* from, T* to) {
  Row<S, T> sum, x;
  sum.read(to);
  x.read(from);
  sum.add(x);
  sum.write(to);
}

template <int S, class T>
void add_rows_of(Int count, const int* to, Int c, const T* from, T* Y, T* U) {
  Int i = 0;
  for (; i < count && to[i] < c; ++i) add_row<S>(from + i * S, Y + static_cast<Int>(to[i]) * S);
  for (; i < count; ++i) add_row<S>(from + i * S, U + (to[i] - c) * S);
}

template <class T> constexpr bool takes_eight = sizeof(T) <= sizeof(double);      // complex rows have 4 at most

template <class T>
void forward(Int s, Diagonal diagonal, Int m, Int w, Int c, const T* L, Int ld, T* Y, T* X, const int* rows) {
  if (s == 1) return forward_column(diagonal, m, w, c, L, ld, Y, X, rows);
  if (s == 2) return forward_rows<2>(diagonal, m, w, c, L, ld, Y, X, rows);
  if (s == 4) return forward_rows<4>(diagonal, m, w, c, L, ld, Y, X, rows);
  if constexpr (takes_eight<T>) forward_rows<8>(diagonal, m, w, c, L, ld, Y, X, rows);
}

template <class T>
void backward(Int s, Int m, Int w, Int c, const T* L, Int ld, T* Y, const T* X, const int* rows) {
  if (s == 1) return backward_column(m, w, c, L, ld, Y, X, rows);
  if (s == 2) return backward_rows<2>(m, w, c, L, ld, Y, X, rows);
  if (s == 4) return backward_rows<4>(m, w, c, L, ld, Y, X, rows);
  if constexpr (takes_eight<T>) backward_rows<8>(m, w, c, L, ld, Y, X, rows);
}

template <class T>
void backward_unit(Int s, Int m, Int w, const T* L, Int ld, T* Y, const T* V) {
  if (s == 1) return backward_unit_column(m, w, L, ld, Y, V);
  if (s == 2) return backward_unit_rows<2>(m, w, L, ld, Y, V);
  if (s == 4) return backward_unit_rows<4>(m, w, L, ld, Y, V);
  if constexpr (takes_eight<T>) backward_unit_rows<8>(m, w, L, ld, Y, V);
}

template <class T>
void forward_upper(Int s, const UpperFront<T>& f, T* Y, T* X, const int* rows) {
  if (s == 1) return forward_upper_column(f, Y, X, rows);
  if (s == 2) return forward_upper_rows<2>(f, Y, X, rows);
  if (s == 4) return forward_upper_rows<4>(f, Y, X, rows);
  if constexpr (takes_eight<T>) forward_upper_rows<8>(f, Y, X, rows);
}

template <class T>
void backward_upper(Int s, const UpperFront<T>& f, T* Y, const T* V) {
  if (s == 1) return backward_upper_column(f, Y, V);
  if (s == 2) return backward_upper_rows<2>(f, Y, V);
  if (s == 4) return backward_upper_rows<4>(f, Y, V);
  if constexpr (takes_eight<T>) backward_upper_rows<8>(f, Y, V);
}

// Adds row i of `from` to row to[i] (ascending): of Y if to[i] < c, else of U.
template <class T>
void add_rows(Int s, Int count, const int* to, Int c, const T* from, T* Y, T* U) {
  if (s == 1) return add_rows_of<1>(count, to, c, from, Y, U);
  if (s == 2) return add_rows_of<2>(count, to, c, from, Y, U);
  if (s == 4) return add_rows_of<4>(count, to, c, from, Y, U);
  if constexpr (takes_eight<T>) add_rows_of<8>(count, to, c, from, Y, U);
}

template <class T>
constexpr RowKernels<T> row_kernels_of() {
  return {forward<T>, backward<T>, backward_unit<T>, forward_upper<T>, backward_upper<T>, add_rows<T>};
}

}  // namespace

extern const RowKernels<double> rows_double;
extern const RowKernels<float> rows_float;
extern const RowKernels<Complex> rows_complex;
const RowKernels<double> rows_double = row_kernels_of<double>();
const RowKernels<float> rows_float = row_kernels_of<float>();
const RowKernels<Complex> rows_complex = row_kernels_of<Complex>();

}  // namespace ms::ISA
