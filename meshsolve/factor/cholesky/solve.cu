// Solves with the factor on the GPU, level by level, and copies of its values.
//
// CUDA counterpart of solve.cpp and extract.cpp. Forward, the deepest level first: a front sums the vectors of its children and
// solves with its 32 x 32 diagonal blocks (one row per lane of a warp). Each block is subtracted from all rows below it.
// Backward, the roots first: a front gathers the unknowns of its ancestors and subtracts them by dot products along the columns
// of L. L is read once in each direction for each block of 1, 4 or 8 right-hand sides. These are columns of Y (n rows, new
// numbering); `vectors` has the vectors that fronts pass to their parents. A warp or a thread block handles one front; cuBLAS
// solves with the triangles of the largest (only_gather).
#include "factor/fronts/solve.cuh"

namespace ms::cholesky {

using fronts::Block;
using fronts::Front;
using fronts::pivot_block;
using fronts::Rows;

template <class T> struct Solve {
  const Front* fronts;
  const int *child, *relative, *rows;
  const T* panels;
  long long n;
  T *Y, *vectors;
};

// y := D^-1 y, or D^-T y, for a lower triangular block of `width` rows.
template <int K, class T>
__device__ __forceinline__ void solve_triangle(const T* D, long long leading, int width, bool down, T* y, long long n) {
  const int lane = threadIdx.x & 31;
  const bool mine = lane < width;
  const T inverse = mine ? T(1) / D[lane * (leading + 1)] : T(0);
  if (down)
    fronts::substitute<K>(width, true, inverse, y, n, [&](int k) { return mine && lane > k ? D[lane + k * leading] : T(0); });
  else
    fronts::substitute<K>(width, false, inverse, y, n, [&](int k) { return lane < k ? D[k + lane * leading] : T(0); });
}

template <int K, class T, class Group>
__device__ __forceinline__ void forward(const Solve<T>& t, int s, const Group& g, int only_gather) {
  const Front f = t.fronts[s];
  const Rows<K, T> v(t, f);
  for (int i = g.rank; i < v.updates * K; i += g.size) v.below[i] = T(0);
  g.sync();
  for (long long q = f.child_begin; q < f.child_end; ++q) {
    const Front& child = t.fronts[t.child[q]];
    const int count = child.updates();
    const T* const from = t.vectors + child.vector * K;
    for (int i = g.rank; i < count; i += g.size)
#pragma unroll
      for (int c = 0; c < K; ++c) v.at(t.relative[child.rows + i], c) += from[i + static_cast<long long>(c) * count];
    g.sync();
  }
  if (only_gather) return;
  const T* const L = t.panels + f.panel;
  for (int j = 0; j < v.width; j += pivot_block) {
    const int width = min(pivot_block, v.width - j);
    const T* const column = L + j * f.leading;
    if (g.warp == 0) solve_triangle<K>(column + j, f.leading, width, true, v.y + j, v.n);
    g.sync();
    for (int i = j + width + g.rank; i < v.height; i += g.size) fronts::take_pivots(v, i, j, width, column + i, f.leading);
    g.sync();
  }
}

template <int K, class T, class Group>
__device__ __forceinline__ void backward(const Solve<T>& t, int s, const Group& g, int only_gather) {
  const Front f = t.fronts[s];
  const Rows<K, T> v(t, f);
  for (int i = g.rank; i < v.updates; i += g.size)
#pragma unroll
    for (int c = 0; c < K; ++c) v.below[i + static_cast<long long>(c) * v.updates] = t.Y[t.rows[f.rows + i] + c * v.n];
  g.sync();
  if (only_gather) return;
  const T* const L = t.panels + f.panel;
  for (int j = (v.width - 1) / pivot_block * pivot_block; j >= 0; j -= pivot_block) {
    const int width = min(pivot_block, v.width - j);
    for (int k = j + g.warp; k < j + width; k += g.warps) {
      const T* const column = L + k * f.leading;
      fronts::take_rows(v, k, j + width, [&](int i) { return column[i]; });
    }
    g.sync();
    if (g.warp == 0) solve_triangle<K>(L + j + j * f.leading, f.leading, width, false, v.y + j, v.n);
    g.sync();
  }
}

template <class T> __device__ __forceinline__ void copy_diagonal(const Front& f, const T* panels, double* diagonal) {
  for (int j = threadIdx.x; j < f.pivots; j += blockDim.x)
    diagonal[f.first + j] = static_cast<double>(panels[f.panel + j * (f.leading + 1)]);
}

// The values of one front on the pattern of L. One warp per column.
template <class T>
__device__ __forceinline__ void copy_values(const Front& f, const int* rows, const long long* Lp, const int* Li, const T* panels,
                                            double* Lx) {
  const Block g;
  const int width = static_cast<int>(f.pivots);
  for (int j = g.warp; j < width; j += g.warps)
    for (long long p = Lp[f.first + j] + g.lane; p < Lp[f.first + j + 1]; p += 32) {
      const int i = Li[p] - static_cast<int>(f.first);
      const int local = i < width ? i : width + lower_bound(rows + f.rows, f.updates(), Li[p]);
      Lx[p] = static_cast<double>(panels[f.panel + local + j * f.leading]);
    }
}

}  // namespace ms::cholesky

using namespace ms;
using namespace ms::cholesky;

extern "C" __global__ void __launch_bounds__(256, 2)
k_forward(int per_warp, const int* list, int count, int width, int only_gather, const long long* table, const int* child,
          const int* relative, const int* rows, const SCALAR* panels, int n, SCALAR* Y, SCALAR* vectors) {
  const Solve<SCALAR> t{reinterpret_cast<const Front*>(table), child, relative, rows, panels, n, Y, vectors};
  fronts::for_fronts(per_warp, list, count, 0, Y, [&](int s, const auto& group, SCALAR*) {
    fronts::with_width(width, [&](auto k) { forward<decltype(k)::columns>(t, s, group, only_gather); });
  });
}

extern "C" __global__ void __launch_bounds__(256, 2)
k_backward(int per_warp, const int* list, int count, int width, int only_gather, const long long* table, const int* child,
           const int* relative, const int* rows, const SCALAR* panels, int n, SCALAR* Y, SCALAR* vectors) {
  const Solve<SCALAR> t{reinterpret_cast<const Front*>(table), child, relative, rows, panels, n, Y, vectors};
  fronts::for_fronts(per_warp, list, count, 0, Y, [&](int s, const auto& group, SCALAR*) {
    fronts::with_width(width, [&](auto k) { backward<decltype(k)::columns>(t, s, group, only_gather); });
  });
}

extern "C" __global__ void __launch_bounds__(128)
k_diagonal(const long long* table, const SCALAR* panels, double* diagonal) {
  copy_diagonal(reinterpret_cast<const Front*>(table)[blockIdx.x], panels, diagonal);
}

extern "C" __global__ void __launch_bounds__(128)
k_values(const long long* table, const int* rows, const long long* Lp, const int* Li, const SCALAR* panels, double* Lx) {
  copy_values(reinterpret_cast<const Front*>(table)[blockIdx.x], rows, Lp, Li, panels, Lx);
}
