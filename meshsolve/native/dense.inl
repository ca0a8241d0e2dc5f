// Dense kernels on small and medium blocks: the work inside one front. Compiled once per instruction set by dense_v*.cpp,
// which define ISA (the namespace), VECTOR_BYTES, and the tile shape; dense.cpp picks one at import.
// Everything is column-major, T is double or float, and nothing outside the stated part of an array is read or written,
// but for the few entries above the diagonal that a trapezoid touches (see there).
// No std header may be included here: an inline function compiled for a newer instruction set could be the copy that the
// linker keeps for every file.
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
constexpr Int block_k = 128, block_m = 192, pivot_block = 128;     // packed blocks: block_m x block_k

// ---- C -= A B^T ----------------------------------------------------------------------------------------------------

// C(M W x N) -= A(M W x k) B(N x k)^T with the accumulators in registers.
template <int W, int M, int N, class T>
inline __attribute__((always_inline)) void tile(Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  typedef typename Vec<T, W>::type V;
  V c[N][M];
#pragma GCC unroll 16
  for (int j = 0; j < N; ++j)
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) c[j][i] = load<W>(C + i * W + j * ldc);
  for (Int l = 0; l < k; ++l) {
    V a[M];
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i) a[i] = load<W>(A + i * W + l * lda);
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
    for (int i = 0; i < M; ++i) store<W>(C + i * W + j * ldc, c[j][i]);
}

template <int W, int N, class T>
void tail(Int m, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  Int i = 0;
  for (; i + W <= m; i += W) tile<W, 1, N>(k, A + i, lda, B, ldb, C + i, ldc);
  if constexpr (W > 1)
    if (i < m) tail<W / 2, N>(m - i, k, A + i, lda, B, ldb, C + i, ldc);
}

template <int N, class T>
void strip(Int m, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  constexpr int W = lanes<T>;
  Int i = 0;
  for (; i + tile_vectors * W <= m; i += tile_vectors * W) tile<W, tile_vectors, N>(k, A + i, lda, B, ldb, C + i, ldc);
  if (tile_vectors > 2 && i + 2 * W <= m) {
    tile<W, 2, N>(k, A + i, lda, B, ldb, C + i, ldc);
    i += 2 * W;
  }
  if (i < m) tail<W, N>(m - i, k, A + i, lda, B, ldb, C + i, ldc);
}

template <int N, class T>
void columns(Int n, Int m, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  if (n == N)
    strip<N>(m, k, A, lda, B, ldb, C, ldc);
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

// Lower trapezoid of C(m x n), n <= m: C -= A(m x k) B(n x k)^T, where row i of C is at or below its diagonal when
// i >= j. May write up to tile_columns - 1 entries above the diagonal. Large ones run on packed copies, so that the
// speed does not depend on the leading dimension.
template <class T>
void trapezoid(Int m, Int n, Int k, const T* A, Int lda, const T* B, Int ldb, T* C, Int ldc) {
  const bool packed = m > packed_rows;
  alignas(64) T a[block_m * block_k], b[tile_columns * block_k];
  for (Int l = 0; l < k; l += block_k) {
    const Int kk = k - l < block_k ? k - l : block_k;
    for (Int i0 = 0; i0 < m; i0 += block_m) {
      const Int i1 = i0 + block_m < m ? i0 + block_m : m, columns_here = i1 < n ? i1 : n;
      if (packed) pack(i1 - i0, kk, A + i0 + l * lda, lda, a, block_m);
      for (Int j = 0; j < columns_here; j += tile_columns) {
        const Int w = n - j < tile_columns ? n - j : tile_columns, r = j > i0 ? j : i0;
        if (!packed) {
          columns<tile_columns>(w, i1 - r, kk, A + r + l * lda, lda, B + j + l * ldb, ldb, C + r + j * ldc, ldc);
          continue;
        }
        pack(w, kk, B + j + l * ldb, ldb, b, tile_columns);
        columns<tile_columns>(w, i1 - r, kk, a + (r - i0), block_m, b, static_cast<Int>(tile_columns), C + r + j * ldc, ldc);
      }
    }
  }
}

// ---- panels: partial Cholesky and the triangular solve that goes with it ------------------------------------------------

// X L^T = B for m rows and nb <= 8 columns; L is nb x nb lower triangular, d holds its inverse diagonal.
template <class T>
void solve_few(Int m, int nb, const T* L, Int ldl, const T* d, T* B, Int ldb) {
  for (int j = 0; j < nb; ++j) {
    T* x = B + j * ldb;
    for (Int i = 0; i < m; ++i) x[i] *= d[j];
    for (int c = j + 1; c < nb; ++c) {
      const T t = L[c + j * ldl];
      T* y = B + c * ldb;
      for (Int i = 0; i < m; ++i) y[i] -= t * x[i];
    }
  }
}

template <int W, class T>
void solve_eight(Int m, const T* L, Int ldl, const T* d, T* B, Int ldb) {
  typedef typename Vec<T, W>::type V;
  Int i = 0;
  for (; i + W <= m; i += W) {
    V x[8];
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) x[j] = load<W>(B + i + j * ldb);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      x[j] *= d[j];
#pragma GCC unroll 8
      for (int c = j + 1; c < 8; ++c) x[c] -= x[j] * L[c + j * ldl];
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) store<W>(B + i + j * ldb, x[j]);
  }
  if constexpr (W > 1)
    if (i < m) solve_eight<W / 2>(m - i, L, ldl, d, B + i, ldb);
}

template <class T>
void solve_block(Int m, int nb, const T* L, Int ldl, const T* d, T* B, Int ldb) {
  if (nb == 8)
    solve_eight<lanes<T>>(m, L, ldl, d, B, ldb);
  else
    solve_few(m, nb, L, ldl, d, B, ldb);
}

inline double root(double x) { return __builtin_sqrt(x); }
inline float root(float x) { return __builtin_sqrtf(x); }

// Cholesky of the nb <= 8 columns at D, inverse diagonal to d. 0, or 1 + the column whose pivot is not positive and finite.
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

// m x k panel of at most pivot_block columns, left-looking by 8 columns.
template <class T>
Int narrow_panel(Int m, Int k, T* A, Int lda) {
  T d[8];
  for (Int j = 0; j < k; j += 8) {
    const int nb = k - j < 8 ? static_cast<int>(k - j) : 8;
    T* D = A + j + j * lda;
    if (j)
      for (Int h = 0; h < nb; h += tile_columns) {
        const Int w = nb - h < tile_columns ? nb - h : tile_columns;
        gemm_nt(m - j - h, w, j, A + j + h, lda, A + j + h, lda, D + h + h * lda, lda);
      }
    if (const int bad = pivots(nb, D, lda, d)) return j + bad;
    solve_block(m - j - nb, nb, D, lda, d, D + nb, lda);
  }
  return 0;
}

template <class T>
Int panel(Int m, Int k, T* A, Int lda) {
  for (Int j = 0; j < k; j += pivot_block) {
    const Int w = k - j < pivot_block ? k - j : pivot_block, e = j + w;
    if (const Int bad = narrow_panel(m - j, w, A + j + j * lda, lda)) return j + bad;
    const T* below = A + e + j * lda;
    if (e < k) trapezoid(m - e, k - e, w, below, lda, below, lda, A + e + e * lda, lda);
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

template <int W, class T> inline __attribute__((always_inline)) void add(Int n, const T* from, T* to) {
  for (; n >= W; n -= W, from += W, to += W) store<W>(to, load<W>(to) + load<W>(from));
  if constexpr (W > 1)
    if (n) add<W / 2>(n, from, to);
}

// Columns [begin, end) of X (m x m, lower). Row r of X goes to row to[r] of the target column; `runs` cuts 0..m into `count`
// pieces of consecutive target rows, or count is 0. column[j] is the target of column j, addressed so that its entry 0 is row 0 of the front.
template <class T>
void extend_add(Int begin, Int end, Int m, const T* X, const int* to, const int* runs, Int count, T* const* column) {
  if (count == 0) {
    for (Int j = begin; j < end; ++j) {
      const T* const x = X + j * m;
      T* const y = column[j];
#pragma GCC unroll 4
      for (Int i = j; i < m; ++i) y[to[i]] += x[i];
    }
    return;
  }
  Int r = 0;
  for (Int j = begin; j < end; ++j) {
    while (runs[r + 1] <= j) ++r;
    const T* const x = X + j * m;
    T* const y = column[j];
    Int from = j;
    for (Int q = r; q < count; from = runs[++q]) add<lanes<T>>(runs[q + 1] - from, x + from, y + to[from]);
  }
}

}  // namespace
}  // namespace ms::ISA
