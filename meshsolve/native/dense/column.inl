// Solves with one front for a single right-hand side: what dense_rows.inl does for several, with rows of L in the vectors instead.
// Each number comes from the same operations in the same order, so a column has the same bits alone and among others. A number
// that is computed by itself stands in both lanes of a vector: products of scalar code might not be contracted with their sums.
// Included before dense_rows.inl, under the same rules. Pairs are stored and loaded as pairs where they are soon needed again.

namespace ms::ISA {
namespace {

template <class T> using Pair = typename Vec<T, 2>::type;
template <class T> inline Pair<T> twice(T x) { return Pair<T>{x, x}; }

// V(0:n) -= L(0:n, 0:P) y, W rows at a time and then half of that, so that rows fall into the same vectors at each step of a front.
template <int W, int P, class T>
inline __attribute__((always_inline)) void subtract_column(Int n, const T* L, Int ld, const T (&y)[P], T* V) {
  Int i = 0;
  for (; i + W <= n; i += W) {
    auto v = load<W>(V + i);
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) v -= load<W>(L + i + p * ld) * y[p];
    store<W>(V + i, v);
  }
  if constexpr (W > 2) {
    subtract_column<W / 2, P>(n - i, L + i, ld, y, V + i);
  } else if (i < n) {
    Pair<T> v = {V[i], 0};
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) v -= Pair<T>{L[i + p * ld], 0} * y[p];
    V[i] = v[0];
  }
}

// The same where row i lies at X[rows[i]].
template <int P, class T>
inline __attribute__((always_inline)) void subtract_column_at(Int n, const T* L, Int ld, const T (&y)[P], T* X, const int* rows) {
  Int i = 0;
  for (; i + 2 <= n; i += 2) {
    T *const first = X + rows[i], *const second = X + rows[i + 1];
    Pair<T> v = {*first, *second};
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) v -= load<2>(L + i + p * ld) * y[p];
    *first = v[0];
    *second = v[1];
  }
  if (i < n) {
    T* const x = X + rows[i];
    Pair<T> v = {*x, 0};
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) v -= Pair<T>{L[i + p * ld], 0} * y[p];
    *x = v[0];
  }
}

// The rows of P pivots and, four at a time, those of later pivots, c with these.
template <int P, class T>
inline __attribute__((always_inline)) void solve_pivots(Int c, const T* L, Int ld, T* Y, T (&y)[P]) {
  Pair<T> solved[P];
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
    Pair<T> v = twice(Y[p]);
#pragma GCC unroll 4
    for (int q = 0; q < p; ++q) v -= L[p + q * ld] * solved[q];
    solved[p] = v * (1 / L[p + p * ld]);
    Y[p] = y[p] = solved[p][0];
  }
  subtract_column<lanes<T> < 4 ? lanes<T> : 4, P>(c - P, L + P, ld, y, Y + P);
}

template <int P, class T>
inline void forward_column_step(Int m, Int c, const T* L, Int ld, T* Y, T* U) {
  T y[P];
  solve_pivots<P>(c, L, ld, Y, y);
  subtract_column<lanes<T>, P>(m - c, L + c, ld, y, U);
}

template <class T>
void forward_column(Int m, Int w, Int c, const T* L, Int ld, T* Y, T* U) {
  Int j = 0;
  for (; j + 4 <= w; j += 4) forward_column_step<4>(m - j, c - j, L + j + j * ld, ld, Y + j, U);
  const T* const D = L + j + j * ld;
  if (w - j == 3) forward_column_step<3>(m - j, c - j, D, ld, Y + j, U);
  if (w - j == 2) forward_column_step<2>(m - j, c - j, D, ld, Y + j, U);
  if (w - j == 1) forward_column_step<1>(m - j, c - j, D, ld, Y + j, U);
}

template <int P, class T>
inline void forward_column_step_at(Int below, Int c, const T* L, Int ld, T* Y, T* X, const int* rows) {
  T y[P];
  solve_pivots<P>(c, L, ld, Y, y);
  subtract_column_at<P>(below, L + c, ld, y, X, rows);
}

template <class T>
void forward_column_at(Int m, Int w, const T* L, Int ld, T* Y, T* X, const int* rows) {
  Int j = 0;
  for (; j + 4 <= w; j += 4) forward_column_step_at<4>(m - w, w - j, L + j + j * ld, ld, Y + j, X, rows);
  const T* const D = L + j + j * ld;
  if (w - j == 3) forward_column_step_at<3>(m - w, 3, D, ld, Y + j, X, rows);
  if (w - j == 2) forward_column_step_at<2>(m - w, 2, D, ld, Y + j, X, rows);
  if (w - j == 1) forward_column_step_at<1>(m - w, 1, D, ld, Y + j, X, rows);
}

// sum(p) += two rows of L times those of v, one in each lane
template <int P, class T>
inline __attribute__((always_inline)) void add_pair(const T* L, Int ld, Pair<T> v, Pair<T> (&sum)[P]) {
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) sum[p] += load<2>(L + p * ld) * v;
}

template <int P, class T>
inline __attribute__((always_inline)) void add_single(const T* L, Int ld, T v, Pair<T> (&sum)[P]) {
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) sum[p] += Pair<T>{L[p * ld], 0} * Pair<T>{v, 0};
}

template <int P, class T>
inline void backward_column_step(Int m, Int c, const T* L, Int ld, T* Y, const T* X, const int* rows) {
  Pair<T> sum[P] = {};                                     // of even and of odd rows
  Int i = P;
  for (; i + 1 < c; i += 2) add_pair<P>(L + i, ld, load<2>(Y + i), sum);
  if (i < c) add_single<P>(L + i, ld, Y[i], sum);
  for (i = c; i + 1 < m; i += 2) add_pair<P>(L + i, ld, Pair<T>{X[rows[i - c]], X[rows[i - c + 1]]}, sum);
  if (i < m) add_single<P>(L + i, ld, X[rows[i - c]], sum);
  Pair<T> y[P];
#pragma GCC unroll 4
  for (int p = P - 1; p >= 0; --p) {
    Pair<T> v = twice(Y[p]) - (sum[p] + Pair<T>{sum[p][1], sum[p][0]});
#pragma GCC unroll 4
    for (int q = p + 1; q < P; ++q) v -= L[q + p * ld] * y[q];
    y[p] = v * (1 / L[p + p * ld]);
  }
#pragma GCC unroll 2
  for (int p = 0; p + 1 < P; p += 2) store<2>(Y + p, Pair<T>{y[p][0], y[p + 1][0]});
  if constexpr (P % 2) Y[P - 1] = y[P - 1][0];
}

template <class T>
void backward_column(Int m, Int w, Int c, const T* L, Int ld, T* Y, const T* X, const int* rows) {
  Int j = w / 4 * 4;
  const T* const D = L + j + j * ld;
  if (w - j == 3) backward_column_step<3>(m - j, c - j, D, ld, Y + j, X, rows);
  if (w - j == 2) backward_column_step<2>(m - j, c - j, D, ld, Y + j, X, rows);
  if (w - j == 1) backward_column_step<1>(m - j, c - j, D, ld, Y + j, X, rows);
  for (j -= 4; j >= 0; j -= 4) backward_column_step<4>(m - j, c - j, L + j + j * ld, ld, Y + j, X, rows);
}

}  // namespace
}  // namespace ms::ISA
