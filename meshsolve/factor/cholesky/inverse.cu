// Entries of Z = A^-1 on the pattern of L, on the GPU, level by level from the roots down.
//
// CUDA counterpart of inverse.cpp. With the pivots J of a front, its rows R below them, and Y = [I; L_RJ] L_JJ^-1,
//   Z_RJ = -Z_RR Y_R,   Z_JJ = Y_J^T Y_J - Z_RJ^T Y_R.
// Z_RR is a submatrix of the parent's Z. A front copies it from the parent, whose level is complete, to `squares`, both triangles.
// These lie in two halves of a buffer, by parity of the depth: no front overwrites a square that its level still reads. Y and Z
// have the layout of the panels of L. One thread computes an entry, in a fixed order of additions, without atomics.
// Sources: Takahashi, Fagan and Chin 1973; Erisman and Tinney 1975; Campbell and Davis 1995 (multifrontal).
//   k_invert_front   a warp or a thread block has a small front
//   by tiles         k_take, then k_divide for each 32 columns from the last, then k_below and k_pivots
#include "factor/fronts/fronts.cuh"
#include "factor/fronts/tiles.cuh"

namespace ms::cholesky {

using fronts::Block;
using fronts::Front;
using fronts::inner_tile;
using fronts::tile;

constexpr int divided = 32;             // columns of a step of k_divide

template <class T> struct Inverse {
  const Front* fronts;
  const int *parent, *relative;
  const T* L;
  T *Y, *Z, *squares;
};

// Columns [from, from + step, ...) of Z_RR from the parent: the rows i and columns j of the front have ascending rows in the parent.
template <class T>
__device__ __forceinline__ void take_columns(const Inverse<T>& t, int s, const Front& f, int from, int step, int lane) {
  const int u = f.updates();
  if (u == 0) return;
  const Front p = t.fronts[t.parent[s]];
  const int* const row = t.relative + f.rows;
  const int width = static_cast<int>(p.pivots), count = p.updates();
  T* const S = t.squares + f.update;
  for (int j = from; j < u; j += step)
    for (int i = j + lane; i < u; i += 32) {
      const T x = row[j] < width ? t.Z[p.panel + row[i] + row[j] * p.leading]
                                 : t.squares[p.update + (row[i] - width) + static_cast<long long>(row[j] - width) * count];
      S[i + static_cast<long long>(j) * u] = x;
      S[j + static_cast<long long>(i) * u] = x;
    }
}

// Row i of Y, whose columns from `to` on are known: the columns [from, to), the last first.
template <class T> __device__ __forceinline__ void divide_row(const Front& f, const T* L, T* y, int from, int to) {
  for (int j = to - 1; j >= from; --j) {
    T sum = y[j * f.leading];
    for (int k = j + 1; k < to; ++k) sum -= y[k * f.leading] * L[k + j * f.leading];
    y[j * f.leading] = sum / L[j + j * f.leading];
  }
}

template <class T> __device__ __forceinline__ T begin_row(const Front& f, const T* L, int i, int j) {
  return i < f.pivots ? T(i == j) : L[i + j * f.leading];
}

// Entry (i, j) of A B^T for the rows of columns i of A and j of B: the inner index runs along the memory of both.
template <class T, class A, class B> __device__ __forceinline__ T dot(int count, A a, B b) {
  T sum = T(0);
  for (int k = 0; k < count; ++k) sum += a(k) * b(k);
  return sum;
}

template <class T, class Group> __device__ __forceinline__ void invert_front(const Inverse<T>& t, int s, const Group& g) {
  const Front f = t.fronts[s];
  const int height = static_cast<int>(f.height), width = static_cast<int>(f.pivots), u = height - width;
  const T* const L = t.L + f.panel;
  T *const Y = t.Y + f.panel, *const Z = t.Z + f.panel, *const S = t.squares + f.update;
  take_columns(t, s, f, g.warp, g.warps, g.lane);
  for (int i = g.rank; i < height; i += g.size) {
    for (int j = 0; j < width; ++j) Y[i + j * f.leading] = begin_row(f, L, i, j);
    divide_row(f, L, Y + i, 0, width);
  }
  g.sync();
  for (int j = g.warp; j < width; j += g.warps)
    for (int i = g.lane; i < u; i += 32)
      Z[width + i + j * f.leading] = -dot<T>(u, [&](int k) { return S[i + static_cast<long long>(k) * u]; },
                                             [&](int k) { return Y[width + k + j * f.leading]; });
  g.sync();
  for (int j = g.warp; j < width; j += g.warps)
    for (int i = j + g.lane; i < width; i += 32) {
      const T *const yi = Y + i * f.leading, *const yj = Y + j * f.leading, *const zi = Z + i * f.leading;
      Z[i + j * f.leading] = dot<T>(width, [&](int k) { return yi[k]; }, [&](int k) { return yj[k]; }) -
                             dot<T>(u, [&](int k) { return zi[width + k]; }, [&](int k) { return yj[width + k]; });
    }
}

// ---- by tiles

// C := -A B^T for one tile, entries i >= j + above alone. a(i, k) is read along i, or (by_inner) along k; b(j, k) along k.
// 256 threads with 4 x 4 entries each.
template <class T, class A, class B>
__device__ __forceinline__ void negative_product(A a_entry, bool by_inner, B b_entry, int rows, int columns, int inner, T* C,
                                                 long long leading, int above) {
  __shared__ T a[inner_tile * (tile + 1)];
  __shared__ T b[inner_tile * (tile + 1)];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  T sum[4][4] = {};
  for (int from = 0; from < inner; from += inner_tile) {
    for (int k = threadIdx.x; k < inner_tile * tile; k += blockDim.x) {
      const int c = k / inner_tile, d = k % inner_tile, i = by_inner ? c : k % tile, e = by_inner ? d : k / tile;
      a[i + e * (tile + 1)] = i < rows && from + e < inner ? a_entry(i, from + e) : T(0);
      b[c + d * (tile + 1)] = c < columns && from + d < inner ? b_entry(c, from + d) : T(0);
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < inner_tile; ++k)
#pragma unroll
      for (int d = 0; d < 16; ++d) sum[d / 4][d % 4] += a[k * (tile + 1) + x + 16 * (d / 4)] * b[k * (tile + 1) + y + 16 * (d % 4)];
    __syncthreads();
  }
#pragma unroll
  for (int d = 0; d < 16; ++d) {
    const int i = x + 16 * (d / 4), j = y + 16 * (d % 4);
    if (i < rows && j < columns && i >= j + above) C[i + j * leading] = -sum[d / 4][d % 4];
  }
}

// Columns [from, from + divided) of Y for `tile` rows: the products with later columns, then the triangle.
template <class T> __device__ __forceinline__ void divide_columns(const Front& f, const T* L, T* Y, int from, int first) {
  const int height = static_cast<int>(f.height), to = min(from + divided, static_cast<int>(f.pivots)), rows = min(height - first, tile);
  if (rows <= 0 || from >= f.pivots) return;
  fronts::subtract_tile(Y + first + to * f.leading, f.leading, L + to + from * f.leading, f.leading, 1, rows, to - from,
                        static_cast<int>(f.pivots) - to, Y + first + from * f.leading, f.leading, -tile);
  __syncthreads();
  for (int i = threadIdx.x; i < rows; i += blockDim.x) divide_row(f, L, Y + first + i, from, to);
}

template <class T> __device__ __forceinline__ void rows_below(const Inverse<T>& t, const Front& f, int r, int c) {
  const int width = static_cast<int>(f.pivots), u = f.updates();
  if (r >= u || c >= width) return;
  const T *const S = t.squares + f.update + r, *const Y = t.Y + f.panel + width + c * f.leading;
  negative_product<T>([&](int i, int k) { return S[i + static_cast<long long>(k) * u]; }, false,
                      [&](int j, int k) { return Y[k + j * f.leading]; }, min(u - r, tile), min(width - c, tile), u,
                      t.Z + f.panel + width + r + c * f.leading, f.leading, -tile);
}

template <class T> __device__ __forceinline__ void pivot_rows(const Inverse<T>& t, const Front& f, int r, int c) {
  const int width = static_cast<int>(f.pivots);
  if (r < c || r >= width) return;
  const T *const Y = t.Y + f.panel, *const yr = Y + r * f.leading, *const zr = t.Z + f.panel + r * f.leading;
  negative_product<T>([&](int i, int k) { return k < width ? -yr[k + i * f.leading] : zr[k + i * f.leading]; }, true,
                      [&](int j, int k) { return Y[k + (c + j) * f.leading]; }, min(width - r, tile), min(width - c, tile),
                      static_cast<int>(f.height), t.Z + f.panel + r + c * f.leading, f.leading, r == c ? 0 : -tile);
}

}  // namespace ms::cholesky

using namespace ms;
using namespace ms::cholesky;

extern "C" __global__ void __launch_bounds__(256)
k_invert_front(int per_warp, const int* list, int count, const long long* table, const int* parent, const int* relative, const SCALAR* L,
               SCALAR* Y, SCALAR* Z, SCALAR* squares) {
  const Inverse<SCALAR> t{reinterpret_cast<const Front*>(table), parent, relative, L, Y, Z, squares};
  fronts::for_fronts(per_warp, list, count, 0, Y, [&](int s, const auto& group, SCALAR*) { invert_front(t, s, group); });
}

// Grid: tiles of columns x fronts.
extern "C" __global__ void __launch_bounds__(256)
k_take(const int* list, const long long* table, const int* parent, const int* relative, const SCALAR* L, SCALAR* Y, SCALAR* Z,
       SCALAR* squares) {
  const Inverse<SCALAR> t{reinterpret_cast<const Front*>(table), parent, relative, L, Y, Z, squares};
  const Block g;
  const int s = list[blockIdx.y], step = static_cast<int>(gridDim.x) * g.warps, first = static_cast<int>(blockIdx.x) * g.warps + g.warp;
  const Front f = t.fronts[s];
  take_columns(t, s, f, first, step, g.lane);
  for (int j = first; j < f.pivots; j += step)
    for (int i = g.lane; i < f.height; i += 32) t.Y[f.panel + i + j * f.leading] = begin_row(f, L + f.panel, i, j);
}

// Grid: tiles of rows x fronts.
extern "C" __global__ void __launch_bounds__(256)
k_divide(const int* list, const long long* table, const SCALAR* L, SCALAR* Y, int from) {
  const Front f = reinterpret_cast<const Front*>(table)[list[blockIdx.y]];
  divide_columns(f, L + f.panel, Y + f.panel, from, static_cast<int>(blockIdx.x) * tile);
}

// Grid: tiles of rows x tiles of columns x fronts.
extern "C" __global__ void __launch_bounds__(256)
k_below(const int* list, const long long* table, SCALAR* Y, SCALAR* Z, SCALAR* squares) {
  const Inverse<SCALAR> t{reinterpret_cast<const Front*>(table), nullptr, nullptr, nullptr, Y, Z, squares};
  rows_below(t, t.fronts[list[blockIdx.z]], static_cast<int>(blockIdx.x) * tile, static_cast<int>(blockIdx.y) * tile);
}

extern "C" __global__ void __launch_bounds__(256)
k_pivots(const int* list, const long long* table, SCALAR* Y, SCALAR* Z, SCALAR* squares) {
  const Inverse<SCALAR> t{reinterpret_cast<const Front*>(table), nullptr, nullptr, nullptr, Y, Z, squares};
  pivot_rows(t, t.fronts[list[blockIdx.z]], static_cast<int>(blockIdx.x) * tile, static_cast<int>(blockIdx.y) * tile);
}

// x[p] = the entry of Z at entry p of the matrix; the source is that of one entry of each pair, both of which are written.
extern "C" __global__ void __launch_bounds__(128)
k_inverse_entries(const long long* table, const SCALAR* Z, const long long* entry_ptr, const unsigned* entry_source, const int* entry_row,
                  double* x) {
  const Front f = reinterpret_cast<const Front*>(table)[blockIdx.x];
  const Block g;
  for (int j = g.warp; j < f.pivots; j += g.warps)
    for (long long p = entry_ptr[f.first + j] + g.lane; p < entry_ptr[f.first + j + 1]; p += 32)
      x[entry_source[p]] = static_cast<double>(Z[f.panel + entry_row[p] + j * f.leading]);
}
