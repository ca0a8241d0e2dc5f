// Solves with one front for a single right-hand side, the counterpart of rows.inl: here the vectors hold consecutive rows of L.
// Each number is computed by the same operations in the same order, so a right-hand side has the same bits alone and among
// others. A single number is computed in both lanes of a vector: scalar code might not contract a product with its sum. Included
// before rows.inl, under the same rules. Pairs are stored and loaded as pairs where they are soon needed again.

namespace ms::ISA {
namespace {

// Calls step(P, j) for the columns 0..w, four at a time and a remainder; P is a compile-time constant. Upwards or downwards.
template <int P> struct Width { constexpr operator int() const { return P; } };
template <class Step> inline __attribute__((always_inline)) void remainder(Int j, Int rest, Step step) {
  if (rest == 3) step(Width<3>{}, j);
  if (rest == 2) step(Width<2>{}, j);
  if (rest == 1) step(Width<1>{}, j);
}
template <class Step> inline __attribute__((always_inline)) void ascending(Int w, Step step) {
  Int j = 0;
  for (; j + 4 <= w; j += 4) step(Width<4>{}, j);
  remainder(j, w - j, step);
}
template <class Step> inline __attribute__((always_inline)) void descending(Int w, Step step) {
  Int j = w / 4 * 4;
  remainder(j, w - j, step);
  for (j -= 4; j >= 0; j -= 4) step(Width<4>{}, j);
}

template <class T> inline T inverse_pivot(Diagonal diagonal, const T* pivot) { return diagonal == Diagonal::ones ? T(1) : T(1) / *pivot; }

// Vectors of rows. Products of complex numbers are added in the order of rows.inl: first with the real part of the number of L.
template <class T> using Pair = typename Vec<T, 2>::type;
template <class T> inline Pair<T> pair(T x, T y) { return Pair<T>{x, y}; }
template <> inline Pair<Complex> pair(Complex x, Complex y) {
  Pair<Complex> out;
  out.v = Pair<Complex>::V{x.re, x.im, y.re, y.im};
  return out;
}
template <class T> inline Pair<T> twice(T x) { return pair(x, x); }
template <class T> inline T lane(Pair<T> v, int i) { return v[i]; }
template <> inline Complex lane(Pair<Complex> v, int i) { return {v.v[2 * i], v.v[2 * i + 1]}; }

// v -= l y
template <class V, class T> inline __attribute__((always_inline)) void subtract_product(V& v, V l, T y) { v -= l * y; }
template <int W> inline __attribute__((always_inline)) void subtract_product(ComplexVector<W>& v, ComplexVector<W> l, Complex y) {
  typename ComplexVector<W>::V all;
  for (int i = 0; i < 2 * W; i += 2) all[i] = y.re, all[i + 1] = y.im;
  v.v -= parts<0, 0, W>(l.v) * all;
  v.v -= parts<1, 1, W>(l.v) * turned<W>(all);
}
// sum += l v, lane by lane
template <class V> inline __attribute__((always_inline)) void add_product(V& sum, V l, V v) { sum += l * v; }
template <int W> inline __attribute__((always_inline)) void add_product(ComplexVector<W>& sum, ComplexVector<W> l, ComplexVector<W> v) {
  sum.v += parts<0, 0, W>(l.v) * v.v;
  sum.v += parts<1, 1, W>(l.v) * turned<W>(v.v);
}

template <class T> constexpr int pair_lanes = lanes<T> < 2 ? 2 : lanes<T>;

// V(0:n) -= L(0:n, 0:P) y, W rows at a time and then half of that, so that rows fall into the same vectors at each step of a
// front.
template <int W, int P, class T>
inline __attribute__((always_inline)) void subtract_column(Int n, const T* L, Int ld, const T (&y)[P], T* V) {
  Int i = 0;
  for (; i + W <= n; i += W) {
    auto v = load<W>(V + i);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) subtract_product(v, load<W>(L + i + p * ld), y[p]);
    store<W>(V + i, v);
  }
  if constexpr (W > 2) {
    subtract_column<W / 2, P>(n - i, L + i, ld, y, V + i);
  } else if (i < n) {
    Pair<T> v = pair(V[i], T(0));
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) subtract_product(v, pair(L[i + p * ld], T(0)), y[p]);
    V[i] = lane<T>(v, 0);
  }
}

// The same with row i at X[rows[i]].
template <int P, class T>
inline __attribute__((always_inline)) void subtract_column_at(Int n, const T* L, Int ld, const T (&y)[P], T* X, const int* rows) {
  Int i = 0;
  for (; i + 2 <= n; i += 2) {
    T *const first = X + rows[i], *const second = X + rows[i + 1];
    Pair<T> v = pair(*first, *second);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) subtract_product(v, load<2>(L + i + p * ld), y[p]);
    *first = lane<T>(v, 0);
    *second = lane<T>(v, 1);
  }
  if (i < n) {
    T* const x = X + rows[i];
    Pair<T> v = pair(*x, T(0));
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) subtract_product(v, pair(L[i + p * ld], T(0)), y[p]);
    *x = lane<T>(v, 0);
  }
}

// The same with row i at X[rows[i]], or at X[i] without `rows`.
template <int P, class T>
inline __attribute__((always_inline)) void subtract_below(Int n, const T* L, Int ld, const T (&y)[P], T* X, const int* rows) {
  if (rows)
    subtract_column_at<P>(n, L, ld, y, X, rows);
  else
    subtract_column<pair_lanes<T>, P>(n, L, ld, y, X);
}

// The rows of P pivots and, four at a time, those of later pivots, c with these.
template <int P, class T>
inline __attribute__((always_inline)) void solve_pivots(Diagonal diagonal, Int c, const T* L, Int ld, T* Y, T (&y)[P]) {
  Pair<T> solved[P];
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
    Pair<T> v = twice(Y[p]);
#pragma GCC unroll 4
    for (int q = 0; q < p; ++q) v -= solved[q] * L[p + q * ld];
    v *= inverse_pivot(diagonal, L + p * ld + p);
    solved[p] = v;
    Y[p] = y[p] = lane<T>(v, 0);
  }
  subtract_column<pair_lanes<T> < 4 ? pair_lanes<T> : 4, P>(c - P, L + P, ld, y, Y + P);
}

template <class T>
void forward_column(Diagonal diagonal, Int m, Int w, Int c, const T* L, Int ld, T* Y, T* X, const int* rows) {
  ascending(w, [=](auto P, Int j) {
    T y[P];
    solve_pivots<P>(diagonal, c - j, L + j + j * ld, ld, Y + j, y);
    subtract_below<P>(m - c, L + c + j * ld, ld, y, X, rows);
  });
}

// sum(p) += two rows of L times those of v, one in each lane
template <int P, class T>
inline __attribute__((always_inline)) void add_pair(const T* L, Int ld, Pair<T> v, Pair<T> (&sum)[P]) {
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) add_product(sum[p], load<2>(L + p * ld), v);
}

template <int P, class T>
inline __attribute__((always_inline)) void add_single(const T* L, Int ld, T v, Pair<T> (&sum)[P]) {
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) add_product(sum[p], pair(L[p * ld], T(0)), pair(v, T(0)));
}

// sum(p) += L(0:n, p) . v
template <int P, class T>
inline __attribute__((always_inline)) void add_column(Int n, const T* L, Int ld, const T* v, Pair<T> (&sum)[P]) {
  Int i = 0;
  for (; i + 1 < n; i += 2) add_pair<P>(L + i, ld, load<2>(v + i), sum);
  if (i < n) add_single<P>(L + i, ld, v[i], sum);
}

// The same with v(i) at X[rows[i]].
template <int P, class T>
inline __attribute__((always_inline)) void add_column_at(Int n, const T* L, Int ld, const T* X, const int* rows, Pair<T> (&sum)[P]) {
  Int i = 0;
  for (; i + 1 < n; i += 2) add_pair<P>(L + i, ld, pair(X[rows[i]], X[rows[i + 1]]), sum);
  if (i < n) add_single<P>(L + i, ld, X[rows[i]], sum);
}

template <class T> inline Pair<T> both(Pair<T> sum) { return sum + pair(lane<T>(sum, 1), lane<T>(sum, 0)); }

template <int P, class T> inline __attribute__((always_inline)) void store_lanes(const Pair<T> (&y)[P], T* Y) {
#pragma GCC unroll 2
  for (int p = 0; p + 1 < P; p += 2) store<2>(Y + p, pair(lane<T>(y[p], 0), lane<T>(y[p + 1], 0)));
  if constexpr (P % 2) Y[P - 1] = lane<T>(y[P - 1], 0);
}

template <int P, class T>
inline void backward_column_step(Int m, Int c, const T* L, Int ld, T* Y, const T* X, const int* rows) {
  Pair<T> sum[P] = {}, y[P];                               // sums of even and of odd rows
  add_column<P>(c - P, L + P, ld, Y + P, sum);
  add_column_at<P>(m - c, L + c, ld, X, rows, sum);
#pragma GCC unroll 4
  for (int p = P - 1; p >= 0; --p) {
    Pair<T> v = twice(Y[p]);
    v -= both<T>(sum[p]);
#pragma GCC unroll 4
    for (int q = p + 1; q < P; ++q) v -= y[q] * L[q + p * ld];
    v *= inverse_pivot(Diagonal::stored, L + p * ld + p);
    y[p] = v;
  }
  store_lanes<P>(y, Y);
}

template <class T>
void backward_column(Int m, Int w, Int c, const T* L, Int ld, T* Y, const T* X, const int* rows) {
  descending(w, [=](auto P, Int j) {
    backward_column_step<P>(m - j, c - j, L + j + j * ld, ld, Y + j, X, rows);
  });
}

// Rows j to j + P of L11^-T Y for a diagonal of ones. `sum`: of all rows below these.
template <int P, class T>
inline __attribute__((always_inline)) void unit_pivots(Int j, const T* L, Int ld, T* Y, const Pair<T>* sum) {
  const T* const A = L + j + j * ld;
  Pair<T> y[P];
#pragma GCC unroll 4
  for (int p = P - 1; p >= 0; --p) {
    Pair<T> v = twice(Y[j + p]);
    v -= both<T>(sum[p]);
#pragma GCC unroll 4
    for (int q = p + 1; q < P; ++q) v -= y[q] * A[q + p * ld];
    y[p] = v;
  }
  store_lanes<P>(y, Y + j);
}

// The sums of two steps run side by side, which makes more chains of additions: over L21, then over the later rows of L11. The
// second step adds the rows of the first at the end.
template <class T>
void backward_unit_column(Int m, Int w, const T* L, Int ld, T* Y, const T* V) {
  Int j = w / 4 * 4;
  const auto one = [=](auto P, Int i) {
    Pair<T> sum[P] = {};
    add_column<P>(m - w, L + w + i * ld, ld, V, sum);
    add_column<P>(w - i - P, L + i + P + i * ld, ld, Y + i + P, sum);
    unit_pivots<P>(i, L, ld, Y, sum);
  };
  remainder(j, w - j, one);
  for (; j >= 8; j -= 8) {
    const T* const A = L + (j - 8) * ld;
    Pair<T> sum[8] = {}, second[4];
    add_column<8>(m - w, A + w, ld, V, sum);
    add_column<8>(w - j, A + j, ld, Y + j, sum);
    unit_pivots<4>(j - 4, L, ld, Y, sum + 4);
    for (int p = 0; p < 4; ++p) second[p] = sum[p];
    add_column<4>(4, A + j - 4, ld, Y + j - 4, second);
    unit_pivots<4>(j - 8, L, ld, Y, second);
  }
  if (j > 0) one(Width<4>{}, 0);
}

// ---- U by rows: column j of U11 at A, its transpose is lower triangular ---------------------------------------------------

// Rows j to j + P of U11^-T Y. `sum`: of all rows above these.
template <int P, class T>
inline __attribute__((always_inline)) void upper_pivots(Int j, const T* A, Int ld, T* Y, const Pair<T>* sum, T (&y)[P]) {
  Pair<T> solved[P];
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
    Pair<T> v = twice(Y[j + p]);
    v -= both<T>(sum[p]);
#pragma GCC unroll 4
    for (int q = 0; q < p; ++q) v -= solved[q] * A[j + q + p * ld];
    v *= inverse_pivot(Diagonal::stored, A + j + p + p * ld);
    solved[p] = v;
    y[p] = lane<T>(v, 0);
  }
  store_lanes<P>(solved, Y + j);
}

// U11^-T Y. The sums of two steps run side by side.
template <class T>
void forward_upper_column(const UpperFront<T>& f, T* Y, T* X, const int* rows) {
  const auto subtract = [=]<int P>(Int j, const T(&y)[P]) { subtract_below<P>(f.u, f.Q + j * f.ldq, f.ldq, y, X, rows); };
  const auto one = [=](auto P, Int j) {
    const T* const A = f.P + j * f.ldp;
    Pair<T> sum[P] = {};
    T y[P];
    add_column<P>(j, A, f.ldp, Y, sum);
    upper_pivots<P>(j, A, f.ldp, Y, sum, y);
    subtract(j, y);
  };
  Int j = 0;
  for (; j + 8 <= f.w; j += 8) {
    const T* const A = f.P + j * f.ldp;
    Pair<T> sum[8] = {}, second[4];
    T y[4];
    add_column<8>(j, A, f.ldp, Y, sum);
    upper_pivots<4>(j, A, f.ldp, Y, sum, y);
    subtract(j, y);
    for (int p = 0; p < 4; ++p) second[p] = sum[4 + p];
    add_column<4>(4, A + j + 4 * f.ldp, f.ldp, Y + j, second);
    upper_pivots<4>(j + 4, A + 4 * f.ldp, f.ldp, Y, second, y);
    subtract(j + 4, y);
  }
  if (j + 4 <= f.w) {
    one(Width<4>{}, j);
    j += 4;
  }
  remainder(j, f.w - j, one);
}

// Rows j to j + P of U11^-1 Y; subtracts U11 times these from the rows above. `sum`: over the columns to the right of U11.
template <int P, class T>
inline __attribute__((always_inline)) void upper_step(Int j, const T* A, Int ld, T* Y, const Pair<T>* sum) {
  Pair<T> solved[P];
  T y[P];
#pragma GCC unroll 4
  for (int p = P - 1; p >= 0; --p) {
    Pair<T> v = twice(Y[j + p]);
    v -= both<T>(sum[p]);
#pragma GCC unroll 4
    for (int q = p + 1; q < P; ++q) v -= solved[q] * A[j + p + q * ld];
    v *= inverse_pivot(Diagonal::stored, A + j + p + p * ld);
    solved[p] = v;
    y[p] = lane<T>(v, 0);
  }
  store_lanes<P>(solved, Y + j);
  subtract_column<pair_lanes<T>, P>(j, A, ld, y, Y);
}

template <class T>
void backward_upper_column(const UpperFront<T>& f, T* Y, const T* V) {
  Int j = f.w / 4 * 4;
  const auto one = [=](auto P, Int i) {
    Pair<T> sum[P] = {};
    add_column<P>(f.u, f.Q + i * f.ldq, f.ldq, V, sum);
    upper_step<P>(i, f.P + i * f.ldp, f.ldp, Y, sum);
  };
  remainder(j, f.w - j, one);
  for (; j >= 8; j -= 8) {                                 // sums of two steps at a time: more chains of additions
    Pair<T> sum[8] = {};
    add_column<8>(f.u, f.Q + (j - 8) * f.ldq, f.ldq, V, sum);
    upper_step<4>(j - 4, f.P + (j - 4) * f.ldp, f.ldp, Y, sum + 4);
    upper_step<4>(j - 8, f.P + (j - 8) * f.ldp, f.ldp, Y, sum);
  }
  if (j > 0) one(Width<4>{}, 0);
}

}  // namespace
}  // namespace ms::ISA
