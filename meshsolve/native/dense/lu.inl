// Dense kernels for an unsymmetric front, on the register tiles of dense.inl, which is included before this file.
// Source: left-looking panels of 8 columns with row exchanges (Golub and Van Loan 2013, section 3.4); Goto and van de Geijn 2008.

namespace ms::ISA {
namespace {

inline double magnitude(double x) { return x < 0 ? -x : x; }
inline double magnitude(float x) { return x < 0 ? -x : x; }
inline double magnitude(Complex x) { return magnitude(x.re) + magnitude(x.im); }
inline double unit(double x) { return x < 0 ? -1 : 1; }
inline float unit(float x) { return x < 0 ? -1 : 1; }
inline Complex unit(Complex x) {
  const double m = magnitude(x);
  return m > 0 ? Complex{x.re / m, x.im / m} : Complex{1, 0};
}

inline double largest_of(Int n, const Complex* x) {
  double most = 0;
  for (Int i = 0; i < n; ++i) most = magnitude(x[i]) > most ? magnitude(x[i]) : most;
  return most;
}

template <class T>
double largest_of(Int n, const T* x) {
  constexpr int W = lanes<T>;
  typedef typename Vec<T, W>::type V;
  double most = 0;
  Int i = 0;
  if (n >= W) {
    V m = {};
    for (; i + W <= n; i += W) {
      const V v = load<W>(x + i), a = v < 0 ? -v : v;
      m = a > m ? a : m;
    }
    for (int l = 0; l < W; ++l) most = m[l] > most ? m[l] : most;
  }
  for (; i < n; ++i) most = magnitude(x[i]) > most ? magnitude(x[i]) : most;
  return most;
}

// ---- factorization --------------------------------------------------------------------------------------------------

template <class T>
void gemm(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  if (m <= packed_rows) return gemm_nt(m, n, k, A, lda, B, ldb, C, ldc);
  alignas(64) T a[block_m * block_k], b[tile_columns * block_k];
  for (Int l = 0; l < k; l += block_k) {
    const Int kk = k - l < block_k ? k - l : block_k;
    for (Int i = 0; i < m; i += block_m) {
      const Int mm = m - i < block_m ? m - i : block_m;
      pack(mm, kk, A + i + l * lda, lda, a, block_m);
      for (Int j = 0; j < n; j += tile_columns) {
        const Int w = n - j < tile_columns ? n - j : tile_columns;
        pack(w, kk, B + j + l * ldb, ldb, b, static_cast<Int>(tile_columns));
        columns<tile_columns>(w, mm, kk, a, block_m, b, static_cast<Int>(tile_columns), C + i + j * ldc, ldc);
      }
    }
  }
}

// B := B L^-T for unit lower triangular L, B has m rows.
template <class T>
void solve_unit(Int m, Int k, const T* L, Int ldl, T* B, Int ldb) {
  const T ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  for (Int j = 0; j < k; j += 8) {
    const int nb = k - j < 8 ? static_cast<int>(k - j) : 8;
    if (j) gemm_nt(m, static_cast<Int>(nb), j, B, ldb, L + j, ldl, B + j * ldb, ldb);
    solve_block(m, nb, L + j + j * ldl, ldl, ones, B + j * ldb, ldb);
  }
}

// B := B U^-1: U^T is lower triangular, copied eight rows at a time.
template <class T>
void solve_upper(Int m, Int k, const T* U, Int ldu, T* B, Int ldb) {
  T t[8 * pivot_block], d[8];
  for (Int j = 0; j < k; j += 8) {
    const int nb = k - j < 8 ? static_cast<int>(k - j) : 8;
    for (int c = 0; c < nb; ++c) {
      for (Int l = 0; l < j + nb; ++l) t[c + l * 8] = U[l + (j + c) * ldu];
      d[c] = T(1) / U[j + c + (j + c) * ldu];
    }
    if (j) gemm_nt(m, static_cast<Int>(nb), j, B, ldb, t, 8L, B + j * ldb, ldb);
    solve_block(m, nb, t + 8 * j, 8L, d, B + j * ldb, ldb);
  }
}

template <class T> inline void exchange_rows(T* a, T* b, Int count, Int ld) {
  for (Int c = 0; c < count; ++c, a += ld, b += ld) {
    const T x = *a;
    *a = *b;
    *b = x;
  }
}

// The pivot row, at or below c, of column c of an m x nb strip.
template <class T>
Int pivot_row(Int m, Int c, const T* column, const Pivoting& rule) {
  const double most = largest_of(m - c, column + c);
  if (magnitude(column[c]) >= rule.threshold * most || !(most > 0)) return c;
  Int r = c + 1;
  while (r < m - 1 && magnitude(column[r]) < most) ++r;
  return r;
}

// LU of an m x nb strip, nb <= 8; `exchange` is relative to the first row of the strip.
template <class T>
Int strip_lu(Int m, int nb, T* A, Int lda, int* exchange, const Pivoting& rule) {
  Int perturbed = 0;
  for (int c = 0; c < nb; ++c) {
    T* const x = A + c * lda;
    const Int r = pivot_row(m, c, x, rule);
    exchange[c] = static_cast<int>(r);
    if (r != c) exchange_rows(A + c, A + r, nb, lda);
    if (!(magnitude(x[c]) >= rule.tiny)) {
      x[c] = unit(x[c]) * T(rule.perturbed_size);
      ++perturbed;
    }
    const T inverse = T(1) / x[c];
    for (Int i = c + 1; i < m; ++i) x[i] *= inverse;
    for (int q = c + 1; q < nb; ++q) {
      T* const y = A + q * lda;
      const T t = y[c];
      for (Int i = c + 1; i < m; ++i) y[i] -= t * x[i];
    }
  }
  return perturbed;
}

template <class T>
Int lu_panel(Int m, Int k, T* A, Int lda, int* exchange, const Pivoting& rule) {
  T t[8 * pivot_block];
  Int perturbed = 0;
  for (Int j = 0; j < k; j += 8) {
    const int nb = k - j < 8 ? static_cast<int>(k - j) : 8;
    T* const strip = A + j * lda;
    for (Int c = 0; c < j; ++c)
      if (exchange[c] != c) exchange_rows(strip + c, strip + exchange[c], nb, lda);
    if (j) {
      for (int c = 0; c < nb; ++c)
        for (Int l = 0; l < j; ++l) t[c + l * 8] = strip[l + c * lda];
      solve_unit(nb, j, A, lda, t, 8L);
      for (int c = 0; c < nb; ++c)
        for (Int l = 0; l < j; ++l) strip[l + c * lda] = t[c + l * 8];
      gemm_nt(m - j, static_cast<Int>(nb), j, A + j, lda, t, 8L, strip + j, lda);
    }
    perturbed += strip_lu(m - j, nb, strip + j, lda, exchange + j, rule);
    for (int c = 0; c < nb; ++c) {
      exchange[j + c] += static_cast<int>(j);
      if (exchange[j + c] != j + c) exchange_rows(A + j + c, A + exchange[j + c], j, lda);
    }
  }
  return perturbed;
}

// ---- assembly -------------------------------------------------------------------------------------------------------

template <int W, class T> inline __attribute__((always_inline)) void add(Int n, const T* from, T* to) {
  for (; n >= W; n -= W, from += W, to += W) store<W>(to, load<W>(to) + load<W>(from));
  if constexpr (W > 1)
    if (n) add<W / 2>(n, from, to);
}

template <class T>
void extend_add_block(Int begin, Int end, Int row, Int ld, const T* X, const int* to, const int* runs, Int count,
                      T* const* column) {
  Int r = 0;
  while (count && runs[r] < row) ++r;
  for (Int j = begin; j < end; ++j) {
    const T* const x = X + j * ld;
    T* const y = column[j];
    if (count == 0)
      for (Int i = row; i < ld; ++i) y[to[i]] += x[i];
    else
      for (Int q = r; q < count; ++q) add<lanes<T>>(runs[q + 1] - runs[q], x + runs[q], y + to[runs[q]]);
  }
}

template <class T> double largest(Int n, const T* x) { return largest_of(n, x); }

template <class T>
constexpr DenseLU<T> lu_kernels() {
  return {lu_panel<T>, gemm<T>, solve_unit<T>, solve_upper<T>, extend_add_block<T>, largest<T>};
}

}  // namespace

extern const DenseLU<double> lu_double;
extern const DenseLU<float> lu_float;
extern const DenseLU<Complex> lu_complex;
const DenseLU<double> lu_double = lu_kernels<double>();
const DenseLU<float> lu_float = lu_kernels<float>();
const DenseLU<Complex> lu_complex = lu_kernels<Complex>();

}  // namespace ms::ISA
