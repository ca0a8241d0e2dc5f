// Dense kernels on small and medium blocks: the work inside one front. Compiled once per instruction set by v*.cpp,
// which define ISA (the namespace), VECTOR_BYTES, and the tile shape; dense.cpp picks one at import.
// All arrays are column-major, T is double or float. A kernel reads and writes only the stated part of an array; `gemm_lower` also
// writes a few entries above the diagonal.
// Do not include std headers here: the linker could keep an inline function that was compiled for a newer instruction set.
//
// Source: register tiles and packing as in Goto and van de Geijn 2008 ("Anatomy of high-performance matrix
// multiplication"); left-looking panels of 8 columns inside pivot blocks of 128.

namespace ms::ISA {
namespace {

template <class T, int W> struct Vec { typedef T type __attribute__((vector_size(W * sizeof(T)), aligned(sizeof(T)), may_alias)); };
template <class T> struct Vec<T, 1> { typedef T type; };
template <int W, class T> inline typename Vec<T, W>::type load(const T* p) { return *reinterpret_cast<const typename Vec<T, W>::type*>(p); }
template <int W, class T> inline void store(T* p, typename Vec<T, W>::type v) { *reinterpret_cast<typename Vec<T, W>::type*>(p) = v; }

template <class T> constexpr int lanes = VECTOR_BYTES / static_cast<int>(sizeof(T));
constexpr Int block_k = 128, block_m = 192, block_n = 192, pivot_block = 128;     // packed blocks: block_m x block_k

// ---- products in register tiles ---------------------------------------------------------------------------------------
// C -= A B^T, or C = -A B^T if `fresh`: then C is not read and need not be cleared before. Each entry of C starts from its value, or
// from 0, and the products are subtracted one after the other. So its bits do not depend on how C is cut into calls.

// C(rows x N), A(rows x k), B(N x k) in M vectors of W rows with the accumulators in registers. The last vector begins at row
// `last`; rows that overlap the vector before it get the same values twice.
template <bool fresh, int W, int M, int N, class T>
inline __attribute__((always_inline)) void tile(Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc, Int last) {
  typedef typename Vec<T, W>::type V;
  V c[N][M];
#pragma GCC unroll 16
  for (int j = 0; j < N; ++j)
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) {
      if constexpr (fresh)
        c[j][i] = V{};
      else
        c[j][i] = load<W>(C + (i < M - 1 ? i * W : last) + j * ldc);
    }
  for (Int l = 0; l < k; ++l) {
    V a[M];
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) a[i] = load<W>(A + (i < M - 1 ? i * W : last) + l * lda);
#pragma GCC unroll 16
    for (int j = 0; j < N; ++j) {
      const T b = B[j + l * ldb];
#pragma GCC unroll 8
      for (int i = 0; i < M; ++i) c[j][i] -= a[i] * b;
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < N; ++j)
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) store<W>(C + (i < M - 1 ? i * W : last) + j * ldc, c[j][i]);
}

// C(m x N). Only a single tile may have one vector: its sums depend on each other.
template <bool fresh, int W, int N, class T>
void strip(Int m, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  static_assert(tile_vectors == 3);
  if constexpr (W > 1)
    if (m < W) return strip<fresh, W / 2, N>(m, k, A, lda, B, ldb, C, ldc);
  Int i = 0;
  for (; i + 4 * W < m; i += 3 * W) tile<fresh, W, 3, N>(k, A + i, lda, B, ldb, C + i, ldc, 2 * W);
  if (i + 3 * W < m) {
    tile<fresh, W, 2, N>(k, A + i, lda, B, ldb, C + i, ldc, W);
    i += 2 * W;
  }
  const Int last = m - i - W;
  if (last > W)
    tile<fresh, W, 3, N>(k, A + i, lda, B, ldb, C + i, ldc, last);
  else if (last > 0)
    tile<fresh, W, 2, N>(k, A + i, lda, B, ldb, C + i, ldc, last);
  else
    tile<fresh, W, 1, N>(k, A + i, lda, B, ldb, C + i, ldc, 0);
}

template <int N, class T>
void columns(Int n, Int m, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  if (n == N)
    strip<false, lanes<T>, N>(m, k, A, lda, B, ldb, C, ldc);
  else if constexpr (N > 1)
    columns<N - 1>(n, m, k, A, lda, B, ldb, C, ldc);
}

template <class T>
void gemm_nt(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  for (Int l = 0; l < k; l += block_k) {
    const Int kk = k - l < block_k ? k - l : block_k;
    for (Int i = 0; i < m; i += block_m) {
      const Int mm = m - i < block_m ? m - i : block_m;
      for (Int j = 0; j < n; j += tile_columns) {
        const Int w = n - j < tile_columns ? n - j : tile_columns;
        columns<tile_columns>(w, mm, kk, A + i + l * lda, lda, B + j + l * ldb, ldb, C + i + j * ldc, ldc);
      }
    }
  }
}

template <class T> inline void pack(Int rows, Int k, const T* A, Int lda, T* to, Int ldt) {
  for (Int q = 0; q < k; ++q)
    for (Int i = 0; i < rows; ++i) to[i + q * ldt] = A[i + q * lda];
}

// ---- the lower part of a product --------------------------------------------------------------------------------------

// Lower part of C(m x n) = -A B^T. Rows and columns that do not fill a tile are computed twice, together with the previous ones,
// with the same bits.
template <int W, int N, class T>
void fresh_block(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  if constexpr (W > 1 || N > 1)
    if (m < W || n < N) return fresh_block<(W + 1) / 2, (N + 1) / 2>(m, n, k, A, lda, B, ldb, C, ldc);
  for (Int j = 0; j < n; j += N) {
    if (j + N > n) j = n - N;
    const Int r = j + W <= m ? j : m - W;
    strip<true, W, N>(m - r, k, A + r, lda, B + j, ldb, C + r + j * ldc, ldc);
  }
}

// Packs `rows` rows of k columns with leading dimension R, padded with zeros.
template <int R, class T>
inline void pack(Int rows, Int k, const T* A, Int lda, T* to) {
  if (rows >= R) {
    constexpr int W = R < lanes<T> ? R : lanes<T>;
    for (Int q = 0; q < k; ++q)
#pragma GCC unroll 4
      for (int i = 0; i < R; i += W) store<W>(to + i + q * R, load<W>(A + i + q * lda));
    return;
  }
  for (Int q = 0; q < k; ++q)
    for (int i = 0; i < R; ++i) to[i + q * R] = i < rows ? A[i + q * lda] : T(0);
}

// One tile of C from M vectors of rows of packed A and a strip of packed B; `rows` x `w` entries of the tile belong to C.
template <bool fresh, int M, class T>
inline __attribute__((always_inline)) void packed_tile(Int rows, Int w, Int k, const T* a, const T* b, T* C, Int ldc) {
  constexpr int W = lanes<T>, N = tile_columns;
  constexpr Int R = tile_vectors * W, whole = M * W;
  if (rows >= whole && w >= N) {
    tile<fresh, W, M, N>(k, a, R, b, Int(N), C, ldc, whole - W);
    return;
  }
  T t[whole * N];                      // a copy: an entry gets the same bits in any tile
  if constexpr (!fresh)
    for (Int j = 0; j < N; ++j)
      for (Int i = 0; i < whole; ++i) t[i + j * whole] = j < w && i < rows ? C[i + j * ldc] : T(0);
  tile<fresh, W, M, N>(k, a, R, b, Int(N), t, whole, whole - W);
  for (Int j = 0; j < w && j < N; ++j)
    for (Int i = 0; i < rows && i < whole; ++i) C[i + j * ldc] = t[i + j * whole];
}

// A strip of w columns from row `skip` of the packed rows on.
template <bool fresh, class T>
inline void packed_tiles(Int skip, Int rows, Int w, Int k, const T* a, const T* b, T* C, Int ldc) {
  constexpr Int W = lanes<T>, R = tile_vectors * W;
  const Int first = skip / W, stop = rows < R ? (rows + W - 1) / W : tile_vectors, begin = first * W;
  if (stop - first == 1) return packed_tile<fresh, 1>(rows - begin, w, k, a + begin, b, C + begin, ldc);
  if (stop - first == 2) return packed_tile<fresh, 2>(rows - begin, w, k, a + begin, b, C + begin, ldc);
  packed_tile<fresh, tile_vectors>(rows - begin, w, k, a + begin, b, C + begin, ldc);
}

// Both trapezoids on packed copies: a block of B stays in the second-level cache; each step of rows of A, in the first-level
// cache, is multiplied with all its strips.
template <bool fresh, class T>
void gemm_lower_packed(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  constexpr Int W = lanes<T>, R = tile_vectors * W, N = tile_columns;
  alignas(64) T a[R * block_k], b[block_n * block_k];
  for (Int l = 0; l < k; l += block_k) {
    const Int kk = k - l < block_k ? k - l : block_k;
    for (Int j0 = 0; j0 < n; j0 += block_n) {
      const Int j1 = j0 + block_n < n ? j0 + block_n : n;
      for (Int j = j0; j < j1; j += N) pack<N>(j1 - j, kk, B + j + l * ldb, ldb, b + (j - j0) * block_k);
      for (Int i = j0; i < m; i += R) {
        pack<R>(m - i, kk, A + i + l * lda, lda, a);
        for (Int j = j0; j < j1 && j < i + R; j += N) {
          const Int skip = j > i ? j - i : 0;
          const T* const strip = b + (j - j0) * block_k;
          if (fresh && l == 0)
            packed_tiles<true>(skip, m - i, n - j, kk, a, strip, C + i + j * ldc, ldc);
          else
            packed_tiles<false>(skip, m - i, n - j, kk, a, strip, C + i + j * ldc, ldc);
        }
      }
    }
  }
}

// Lower trapezoid (i >= j) of C(m x n), n <= m: C -= A(m x k) B(n x k)^T. May write up to tile_columns - 1 entries above the
// diagonal. Large ones use packed copies, so that the speed does not depend on the leading dimension.
static_assert(tile_columns - 1 <= touched_above);
template <class T>
void gemm_lower(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  if (m > packed_rows) return gemm_lower_packed<false>(m, n, k, A, lda, B, ldb, C, ldc);
  for (Int l = 0; l < k; l += block_k) {
    const Int kk = k - l < block_k ? k - l : block_k;
    for (Int i0 = 0; i0 < m; i0 += block_m) {
      const Int i1 = i0 + block_m < m ? i0 + block_m : m, columns_here = i1 < n ? i1 : n;
      for (Int j = 0; j < columns_here; j += tile_columns) {
        const Int w = n - j < tile_columns ? n - j : tile_columns, r = j > i0 ? j : i0;
        columns<tile_columns>(w, i1 - r, kk, A + r + l * lda, lda, B + j + l * ldb, ldb, C + r + j * ldc, ldc);
      }
    }
  }
}

// As `gemm_lower`, but C = -A B^T. May write more entries of C above the diagonal.
template <class T>
void gemm_lower_overwrite(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  if (m > packed_rows && n >= tile_columns) return gemm_lower_packed<true>(m, n, k, A, lda, B, ldb, C, ldc);
  const Int kk = k < block_k ? k : block_k;
  fresh_block<lanes<T>, tile_columns>(m, n, kk, A, lda, B, ldb, C, ldc);
  if (k > kk) gemm_lower(m, n, k - kk, A + kk * lda, lda, B + kk * ldb, ldb, C, ldc);
}

// ---- panels: partial Cholesky and the triangular solve that goes with it ------------------------------------------------

// W rows of X L^T = B; L is NB x NB lower triangular, d holds its inverse diagonal.
template <int W, int NB, class T>
inline __attribute__((always_inline)) void solve_rows(const T* L, Int ldl, const T* d, const T* B, Int ldb,
                                                      typename Vec<T, W>::type (&x)[NB]) {
#pragma GCC unroll 8
  for (int j = 0; j < NB; ++j) x[j] = load<W>(B + j * ldb);
#pragma GCC unroll 8
  for (int j = 0; j < NB; ++j) {
    x[j] *= d[j];
#pragma GCC unroll 8
    for (int c = j + 1; c < NB; ++c) x[c] -= x[j] * L[c + j * ldl];
  }
}

// X L^T = B for m rows; X overwrites B.
template <int W, int NB, class T>
void solve_columns(Int m, const T* L, Int ldl, const T* d, T* B, Int ldb) {
  Int i = 0;
  for (; i + W <= m; i += W) {
    typename Vec<T, W>::type x[NB];
    solve_rows<W>(L, ldl, d, B + i, ldb, x);
#pragma GCC unroll 8
    for (int j = 0; j < NB; ++j) store<W>(B + i + j * ldb, x[j]);
  }
  if constexpr (W > 1)
    if (i < m) solve_columns<W / 2, NB>(m - i, L, ldl, d, B + i, ldb);
}

template <class T, int NB = 8>
void solve_block(Int m, int nb, const T* L, Int ldl, const T* d, T* B, Int ldb) {
  if (nb == NB)
    solve_columns<lanes<T>, NB>(m, L, ldl, d, B, ldb);
  else if constexpr (NB > 1)
    solve_block<T, NB - 1>(m, nb, L, ldl, d, B, ldb);
}

inline double root(double x) { return __builtin_sqrt(x); }
inline float root(float x) { return __builtin_sqrtf(x); }

// Cholesky of the nb <= 8 columns at D, inverse diagonal to d. Returns 0, or 1 + the first column whose pivot is not positive and
// finite.
template <class T>
int pivots(int nb, T* D, Int ld, T* d) {
  for (int c = 0; c < nb; ++c) {
    const T p = D[c + c * ld];
    if (!(p > 0 && p - p == 0)) return 1 + c;
    D[c + c * ld] = root(p);
    d[c] = 1 / D[c + c * ld];
    for (int r = c + 1; r < nb; ++r) D[r + c * ld] *= d[c];
    for (int q = c + 1; q < nb; ++q)
      for (int r = q; r < nb; ++r) D[r + q * ld] -= D[r + c * ld] * D[q + c * ld];
  }
  return 0;
}

template <class T> constexpr T plain_pivot = sizeof(T) == 8 ? T(1e300) : T(1e36);

// The same for NB columns. Returns false, with D unchanged, if a pivot is outside (1 / plain_pivot, plain_pivot). The next pivot
// depends on one division only; the square root is computed in parallel.
template <int NB, class T>
inline bool plain_pivots(T* D, Int ld, T* d) {
  T a[NB][NB];
#pragma GCC unroll 8
  for (int c = 0; c < NB; ++c)
#pragma GCC unroll 8
    for (int r = c; r < NB; ++r) a[c][r] = D[r + c * ld];
#pragma GCC unroll 8
  for (int c = 0; c < NB; ++c) {
    const T p = a[c][c];
    if (!(p > 1 / plain_pivot<T> && p < plain_pivot<T>)) return false;
    const T inverse = 1 / p;
#pragma GCC unroll 8
    for (int q = c + 1; q < NB; ++q) {
      const T t = a[c][q] * inverse;
#pragma GCC unroll 8
      for (int r = q; r < NB; ++r) a[q][r] -= a[c][r] * t;
    }
    a[c][c] = root(p);
    d[c] = a[c][c] * inverse;
#pragma GCC unroll 8
    for (int r = c + 1; r < NB; ++r) a[c][r] *= d[c];
  }
#pragma GCC unroll 8
  for (int c = 0; c < NB; ++c)
#pragma GCC unroll 8
    for (int r = c; r < NB; ++r) D[r + c * ld] = a[c][r];
  return true;
}

// The first NB columns of m rows.
template <int NB, class T>
int first_columns(Int m, T* A, Int lda) {
  T d[NB];
  if (!plain_pivots<NB>(A, lda, d))
    if (const int bad = pivots(NB, A, lda, d)) return bad;
  if (m > NB) solve_columns<lanes<T>, NB>(m - NB, A, lda, d, A + NB, lda);
  return 0;
}

template <class T>
int first_columns(Int m, int nb, T* A, Int lda) {
  switch (nb) {
    case 1: return first_columns<1>(m, A, lda);
    case 2: return first_columns<2>(m, A, lda);
    case 3: return first_columns<3>(m, A, lda);
    case 4: return first_columns<4>(m, A, lda);
    case 5: return first_columns<5>(m, A, lda);
    case 6: return first_columns<6>(m, A, lda);
    case 7: return first_columns<7>(m, A, lda);
    default: return first_columns<8>(m, A, lda);
  }
}

// m x k panel of at most pivot_block columns, left-looking by 8 columns.
template <class T>
Int narrow_panel(Int m, Int k, T* A, Int lda) {
  for (Int j = 0; j < k; j += 8) {
    const int nb = k - j < 8 ? static_cast<int>(k - j) : 8;
    T* const D = A + j + j * lda;
    if (j)
      for (Int h = 0; h < nb; h += tile_columns) {
        const Int w = nb - h < tile_columns ? nb - h : tile_columns;
        gemm_nt(m - j - h, w, j, A + j + h, lda, A + j + h, lda, D + h + h * lda, lda);
      }
    if (const int bad = first_columns(m - j, nb, D, lda)) return j + bad;
  }
  return 0;
}

template <class T>
Int panel(Int m, Int k, T* A, Int lda) {
  for (Int j = 0; j < k; j += pivot_block) {
    const Int w = k - j < pivot_block ? k - j : pivot_block, e = j + w;
    if (const Int bad = narrow_panel(m - j, w, A + j + j * lda, lda)) return j + bad;
    const T* below = A + e + j * lda;
    if (e < k) gemm_lower(m - e, k - e, w, below, lda, below, lda, A + e + e * lda, lda);
  }
  return 0;
}

template <class T>
void trsm_rlt(Int m, Int k, const T* L, Int ldl, T* B, Int ldb) {
  T d[8];
  for (Int j = 0; j < k; j += 8) {
    const int nb = k - j < 8 ? static_cast<int>(k - j) : 8;
    if (j) gemm_nt(m, static_cast<Int>(nb), j, B, ldb, L + j, ldl, B + j * ldb, ldb);
    for (int c = 0; c < nb; ++c) d[c] = 1 / L[j + c + (j + c) * ldl];
    solve_block(m, nb, L + j + j * ldl, ldl, d, B + j * ldb, ldb);
  }
}

// ---- extend-add: the lower triangle of a child's update matrix into its parent ------------------------------------------

constexpr Int short_child = 64;        // largest number of rows for which the search for consecutive targets does not pay

// Adds rows [i, m) of N columns of X to the columns y, row r to row to[r]. `pieces`: uses vectors for consecutive target rows;
// all columns share that branch, which is hard to predict.
template <bool pieces, int N, class T>
inline __attribute__((always_inline)) void add_columns(Int i, Int m, const T* X, Int ldx, const int* to, T* const (&y)[N]) {
  constexpr int W = lanes<T>;
  while (i < m) {
    const Int r = to[i];
    if (pieces && i + W <= m && to[i + W - 1] - r == W - 1) {
#pragma GCC unroll 4
      for (int c = 0; c < N; ++c) store<W>(y[c] + r, load<W>(y[c] + r) + load<W>(X + i + c * ldx));
      i += W;
    } else {
#pragma GCC unroll 4
      for (int c = 0; c < N; ++c) y[c][r] += X[i + c * ldx];
      ++i;
    }
  }
}

// Columns j to j + N of X (m x m, lower).
template <bool pieces, int N, class T>
inline __attribute__((always_inline)) void add_lower(Int j, Int m, const T* X, const int* to, T* Y, Int ldy, Int origin) {
  const T* const x = X + j * m;
  T* y[N];
  for (int c = 0; c < N; ++c) y[c] = Y + (to[j + c] - origin) * ldy - origin;
#pragma GCC unroll 4
  for (int c = 0; c < N - 1; ++c)
#pragma GCC unroll 4
    for (int r = c; r < N - 1; ++r) y[c][to[j + r]] += x[j + r + c * m];
  add_columns<pieces, N>(j + N - 1, m, x, m, to, y);
}

template <bool pieces, class T>
void extend_add(Int begin, Int end, Int m, const T* X, const int* to, T* Y, Int ldy, Int origin) {
  Int j = begin;
  for (; j + 4 <= end; j += 4) add_lower<pieces, 4>(j, m, X, to, Y, ldy, origin);
  for (; j < end; ++j) add_lower<pieces, 1>(j, m, X, to, Y, ldy, origin);
}

// Columns [begin, end) of X: adds X(i, j) to row to[i], column to[j] of the front. Y is its part from row and column `origin` on.
template <class T>
void extend_add(Int begin, Int end, Int m, const T* X, const int* to, T* Y, Int ldy, Int origin) {
  if (m <= short_child)
    extend_add<false>(begin, end, m, X, to, Y, ldy, origin);
  else
    extend_add<true>(begin, end, m, X, to, Y, ldy, origin);
}

}  // namespace
}  // namespace ms::ISA
