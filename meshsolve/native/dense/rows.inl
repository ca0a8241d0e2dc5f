// Solves with one front: L is m x w, its upper w x w part lower triangular; the right-hand sides lie by rows, S = 2, 4 or 8
// values a row, so that a vector register holds one row and rows anywhere in memory are read without a copy.
// Rows 0..c of the front (c >= w) lie in Y one after the other; the others in U, or in X at the places that `rows` names.
// A single right-hand side, S = 1, takes the kernels of dense_column.inl. Included after that, under the same rules.

namespace ms::ISA {
namespace {

// One row, in as many vectors as the instruction set needs.
template <int S, class T>
struct Row {
  static constexpr int W = S < lanes<T> ? S : lanes<T>, N = S / W;
  typename Vec<T, W>::type v[N];

  inline __attribute__((always_inline)) void read(const T* p) {
    for (int n = 0; n < N; ++n) v[n] = load<W>(p + n * W);
  }
  inline __attribute__((always_inline)) void write(T* p) const {
    for (int n = 0; n < N; ++n) store<W>(p + n * W, v[n]);
  }
  inline __attribute__((always_inline)) void add(const Row& x) {
    for (int n = 0; n < N; ++n) v[n] += x.v[n];
  }
  inline __attribute__((always_inline)) void add(T a, const Row& x) {
    for (int n = 0; n < N; ++n) v[n] += a * x.v[n];
  }
  inline __attribute__((always_inline)) void subtract(T a, const Row& x) {
    for (int n = 0; n < N; ++n) v[n] -= a * x.v[n];
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

// The rows of P pivots.
template <int P, int S, class T>
inline __attribute__((always_inline)) void solve_pivots(const T* L, Int ld, T* Y, Row<S, T> (&y)[P]) {
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
    y[p].read(Y + p * S);
#pragma GCC unroll 4
    for (int q = 0; q < p; ++q) y[p].subtract(L[p + q * ld], y[q]);
    y[p].scale(1 / L[p + p * ld]);
    y[p].write(Y + p * S);
  }
}

// P pivots; L and Y begin with them, m and c count from there.
template <int P, int S, class T>
inline void forward_step(Int m, Int c, const T* L, Int ld, T* Y, T* U) {
  Row<S, T> y[P];
  solve_pivots<P, S>(L, ld, Y, y);
  subtract_rows<P, S>(c - P, L + P, ld, y, Y + P * S);
  subtract_rows<P, S>(m - c, L + c, ld, y, U);
}

// The same where the rows below the pivots lie anywhere in X.
template <int P, int S, class T>
inline void forward_step_at(Int below, const T* L, Int ld, T* Y, Int c, T* X, const int* rows) {
  Row<S, T> y[P];
  solve_pivots<P, S>(L, ld, Y, y);
  subtract_rows<P, S>(c - P, L + P, ld, y, Y + P * S);
  for (Int i = 0; i < below; ++i) {
    T* const x = X + static_cast<Int>(rows[i]) * S;
    Row<S, T> v;
    v.read(x);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) v.subtract(L[c + i + p * ld], y[p]);
    v.write(x);
  }
}

template <int S, class T>
void forward_rows_at(Int m, Int w, const T* L, Int ld, T* Y, T* X, const int* rows) {
  Int j = 0;
  for (; j + 4 <= w; j += 4) forward_step_at<4, S>(m - w, L + j + j * ld, ld, Y + j * S, w - j, X, rows);
  const T* const D = L + j + j * ld;
  if (w - j == 3) forward_step_at<3, S>(m - w, D, ld, Y + j * S, 3, X, rows);
  if (w - j == 2) forward_step_at<2, S>(m - w, D, ld, Y + j * S, 2, X, rows);
  if (w - j == 1) forward_step_at<1, S>(m - w, D, ld, Y + j * S, 1, X, rows);
}

// Steps of four pivots, the remainder in one step of its own.
template <int S, class T>
void forward_rows(Int m, Int w, Int c, const T* L, Int ld, T* Y, T* U) {
  Int j = 0;
  for (; j + 4 <= w; j += 4) forward_step<4, S>(m - j, c - j, L + j + j * ld, ld, Y + j * S, U);
  const T* const D = L + j + j * ld;
  if (w - j == 3) forward_step<3, S>(m - j, c - j, D, ld, Y + j * S, U);
  if (w - j == 2) forward_step<2, S>(m - j, c - j, D, ld, Y + j * S, U);
  if (w - j == 1) forward_step<1, S>(m - j, c - j, D, ld, Y + j * S, U);
}

// sum(p) += row of L times row of V
template <int P, int S, class T>
inline __attribute__((always_inline)) void add_products(const T* L, Int ld, const T* V, Row<S, T> (&sum)[P]) {
  Row<S, T> v;
  v.read(V);
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) sum[p].add(L[p * ld], v);
}

template <int P, int S, class T>
inline void backward_step(Int m, Int c, const T* L, Int ld, T* Y, const T* X, const int* rows) {
  Row<S, T> even[P] = {}, odd[P] = {};                     // two chains of additions run side by side
  Int i = P;
  for (; i + 1 < c; i += 2) {
    add_products<P, S>(L + i, ld, Y + i * S, even);
    add_products<P, S>(L + i + 1, ld, Y + (i + 1) * S, odd);
  }
  if (i < c) add_products<P, S>(L + i, ld, Y + i * S, even);
  for (i = c; i + 1 < m; i += 2) {
    add_products<P, S>(L + i, ld, X + static_cast<Int>(rows[i - c]) * S, even);
    add_products<P, S>(L + i + 1, ld, X + static_cast<Int>(rows[i - c + 1]) * S, odd);
  }
  if (i < m) add_products<P, S>(L + i, ld, X + static_cast<Int>(rows[i - c]) * S, even);
#pragma GCC unroll 4
  for (int p = P - 1; p >= 0; --p) {
    Row<S, T> y;
    y.read(Y + p * S);
    even[p].add(odd[p]);
    y.subtract(T(1), even[p]);
#pragma GCC unroll 4
    for (int q = p + 1; q < P; ++q) y.subtract(L[q + p * ld], odd[q]);
    y.scale(1 / L[p + p * ld]);
    y.write(Y + p * S);
    odd[p] = y;                                            // from here on the solved row
  }
}

template <int S, class T>
void backward_rows(Int m, Int w, Int c, const T* L, Int ld, T* Y, const T* X, const int* rows) {
  Int j = w / 4 * 4;
  const T* const D = L + j + j * ld;
  if (w - j == 3) backward_step<3, S>(m - j, c - j, D, ld, Y + j * S, X, rows);
  if (w - j == 2) backward_step<2, S>(m - j, c - j, D, ld, Y + j * S, X, rows);
  if (w - j == 1) backward_step<1, S>(m - j, c - j, D, ld, Y + j * S, X, rows);
  for (j -= 4; j >= 0; j -= 4) backward_step<4, S>(m - j, c - j, L + j + j * ld, ld, Y + j * S, X, rows);
}

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

// Y(0:w) := L11^-1 Y, what lies below -= L21 of it; `s` values a row.
template <class T>
void forward(Int s, Int m, Int w, Int c, const T* L, Int ld, T* Y, T* U) {
  if (s == 1) return forward_column(m, w, c, L, ld, Y, U);
  if (s == 2) return forward_rows<2>(m, w, c, L, ld, Y, U);
  if (s == 4) return forward_rows<4>(m, w, c, L, ld, Y, U);
  forward_rows<8>(m, w, c, L, ld, Y, U);
}

// The same for a front whose rows below the pivots lie in X, at the places that `rows` names.
template <class T>
void forward_at(Int s, Int m, Int w, const T* L, Int ld, T* Y, T* X, const int* rows) {
  if (s == 1) return forward_column_at(m, w, L, ld, Y, X, rows);
  if (s == 2) return forward_rows_at<2>(m, w, L, ld, Y, X, rows);
  if (s == 4) return forward_rows_at<4>(m, w, L, ld, Y, X, rows);
  forward_rows_at<8>(m, w, L, ld, Y, X, rows);
}

// Y(0:w) := L11^-T (Y(0:w) - L21^T what lies below)
template <class T>
void backward(Int s, Int m, Int w, Int c, const T* L, Int ld, T* Y, const T* X, const int* rows) {
  if (s == 1) return backward_column(m, w, c, L, ld, Y, X, rows);
  if (s == 2) return backward_rows<2>(m, w, c, L, ld, Y, X, rows);
  if (s == 4) return backward_rows<4>(m, w, c, L, ld, Y, X, rows);
  backward_rows<8>(m, w, c, L, ld, Y, X, rows);
}

// Row i of `from` is added to row to[i] (ascending): of Y below c, of U from there on.
template <class T>
void add_rows(Int s, Int count, const int* to, Int c, const T* from, T* Y, T* U) {
  if (s == 1) return add_rows_of<1>(count, to, c, from, Y, U);
  if (s == 2) return add_rows_of<2>(count, to, c, from, Y, U);
  if (s == 4) return add_rows_of<4>(count, to, c, from, Y, U);
  add_rows_of<8>(count, to, c, from, Y, U);
}

template <class T>
constexpr Dense<T> kernels(const char* isa) {
  return {trapezoid<T>, fresh_trapezoid<T>, panel<T>, trsm_rlt<T>, forward<T>, forward_at<T>, backward<T>, add_rows<T>, extend_add<T>,
          rotate<false, T>, rotate<true, T>, isa};
}

}  // namespace

extern const Dense<double> dense_double;
extern const Dense<float> dense_float;
const Dense<double> dense_double = kernels<double>(ISA_NAME);
const Dense<float> dense_float = kernels<float>(ISA_NAME);

}  // namespace ms::ISA
