// Solves with the complete factor on the GPU, level by level, and the count of its nonzeros.
//
// Host counterpart: solve.cpp. Forward, children before parents: a front sums the vectors of its children and gathers its columns
// in pivot order. It solves with its 32 x 32 diagonal blocks (one row per lane of a warp). Each block is subtracted from all rows
// below it, and the result divided by D. Backward, parents first: a front gathers the unknowns of its ancestors and subtracts
// them by dot products along the columns of L. Y (n rows, new numbering) has the values between fronts, also of delayed columns,
// Z the columns of each front in its own order, `vectors` the rows below. Right-hand sides are stored by columns; one pass has 1,
// 4 or 8 of them. For the largest fronts, cuBLAS computes triangular solves and products, and the kernels the steps before and
// after.
#include "factor/fronts/solve.cuh"
#include "factor/ldlt/complete.cuh"
#include "factor/ldlt/small_pivots.hpp"

namespace ms::ldlt {

using fronts::pivot_block;
using fronts::Rows;

enum Part { whole, before, after };      // the steps of a front: all, or those before and after the calls of cuBLAS

template <class T> struct Solve {
  Part part;
  const int* rows;
  long long n, slots;
  T *Y, *Z, *vectors;
};

// The rows of a front for K right-hand sides: its columns in Z, the others in `vectors`.
template <int K, class T> __device__ __forceinline__ Rows<K, T> rows_of(const View<T>& v, const Solve<T>& x) {
  struct {
    long long n;
    T *Y, *vectors;
  } at{x.slots, x.Z, x.vectors};
  Front f = v.f;
  f.first = v.at.slot;
  f.pivots = v.columns;
  f.height = v.height;
  return Rows<K, T>(at, f);
}

// y := L^-1 y, or L^-T y, for a unit lower triangular block of `width` rows.
template <int K, class T>
__device__ __forceinline__ void solve_triangle(const T* L, long long leading, int width, bool down, T* y, long long n) {
  const int lane = threadIdx.x & 31;
  const bool mine = lane < width;
  if (down)
    fronts::substitute<K>(width, true, T(1), y, n, [&](int k) { return mine && lane > k ? L[lane + k * leading] : T(0); });
  else
    fronts::substitute<K>(width, false, T(1), y, n, [&](int k) { return lane < k ? L[k + lane * leading] : T(0); });
}

// y := D^-1 y for the pivots, with 0 for a zero pivot. One thread per pivot of one or two rows.
template <int K, class T, class Group>
__device__ __forceinline__ void solve_diagonal(const View<T>& v, int pivots, const Rows<K, T>& r, const Group& g) {
  for (int k = g.rank; k < pivots; k += g.size) {
    if (k > 0 && v.e[k - 1] != T(0)) continue;                 // the second row of a pair
    const T d = v.d[k], e = v.e[k];
    if (e == T(0)) {
#pragma unroll
      for (int c = 0; c < K; ++c) r.y[k + c * r.n] = d == T(0) ? T(0) : r.y[k + c * r.n] / d;
      continue;
    }
    const T other = v.d[k + 1], scaled = d / e * other - e;    // determinant / e
#pragma unroll
    for (int c = 0; c < K; ++c) {
      const T x = r.y[k + c * r.n], y = r.y[k + 1 + c * r.n];
      r.y[k + c * r.n] = (other / e * x - y) / scaled;
      r.y[k + 1 + c * r.n] = (d / e * y - x) / scaled;
    }
  }
}

// Sums the vectors of the children in the rows of a front, then gathers its columns in pivot order, column j by thread j.
template <int K, class T, class Group>
__device__ __forceinline__ void gather(const Tree<T>& t, const Solve<T>& x, const View<T>& v, const Rows<K, T>& r,
                                       const Group& g) {
  for (int i = g.rank; i < v.updates * K; i += g.size) r.below[i] = T(0);
  g.sync();
  for (long long q = v.f.child_begin; q < v.f.child_end; ++q) {
    const Front& child = t.planned.fronts[t.planned.child[q]];
    const int count = child.updates();
    const T* const from = x.vectors + child.vector * K;
    for (int i = g.rank; i < count; i += g.size) {
      const int row = t.planned.relative[child.rows + i];
#pragma unroll
      for (int c = 0; c < K; ++c) {
        T* const below = r.below + row - v.own + static_cast<long long>(c) * v.updates;
        *(row < v.own ? x.Y + v.f.first + row + c * x.n : below) += from[i + static_cast<long long>(c) * count];
      }
    }
    g.sync();
  }
  for (int j = g.rank; j < v.columns; j += g.size)
#pragma unroll
    for (int c = 0; c < K; ++c) r.y[j + c * r.n] = x.Y[v.name[j] + c * x.n];
}

template <int K, class T, class Group>
__device__ __forceinline__ void forward(const Tree<T>& t, const Solve<T>& x, int s, const Group& g) {
  const View<T> v(t, s);
  const Rows<K, T> r = rows_of<K>(v, x);
  const int pivots = t.pivots[s];
  if (x.part != after) gather(t, x, v, r, g);
  for (int j = 0; j < pivots && x.part == whole; j += pivot_block) {
    const int width = min(pivot_block, pivots - j);
    const T* const column = v.panel + j * v.leading;
    if (g.warp == 0) solve_triangle<K>(column + j, v.leading, width, true, r.y + j, r.n);
    g.sync();
    for (int i = j + width + g.rank; i < v.height; i += g.size) fronts::take_pivots(r, i, j, width, column + i, v.leading);
    g.sync();
  }
  if (x.part == before) return;
  for (int j = pivots + g.rank; j < v.columns; j += g.size)    // delayed columns belong to the parent
#pragma unroll
    for (int c = 0; c < K; ++c) x.Y[v.name[j] + c * x.n] = r.y[j + c * r.n];
  solve_diagonal(v, pivots, r, g);
}

template <int K, class T, class Group>
__device__ __forceinline__ void backward(const Tree<T>& t, const Solve<T>& x, int s, const Group& g) {
  const View<T> v(t, s);
  const Rows<K, T> r = rows_of<K>(v, x);
  const int pivots = t.pivots[s];
  for (int i = pivots + g.rank; i < v.height && x.part != after; i += g.size) {
    const int from = i < v.columns ? v.name[i] : x.rows[v.f.rows + i - v.columns];
#pragma unroll
    for (int c = 0; c < K; ++c) r.at(i, c) = x.Y[from + c * x.n];
  }
  g.sync();
  for (int j = (pivots - 1) / pivot_block * pivot_block; j >= 0 && pivots > 0 && x.part == whole; j -= pivot_block) {
    const int width = min(pivot_block, pivots - j);
    for (int k = j + g.warp; k < j + width; k += g.warps) {
      const T* const column = v.panel + k * v.leading;
      fronts::take_rows(r, k, j + width, [&](int i) { return column[i]; });
    }
    g.sync();
    if (g.warp == 0) solve_triangle<K>(v.panel + j + j * v.leading, v.leading, width, false, r.y + j, r.n);
    g.sync();
  }
  if (x.part == before) return;
  for (int j = g.rank; j < pivots; j += g.size)
#pragma unroll
    for (int c = 0; c < K; ++c) x.Y[v.name[j] + c * x.n] = r.y[j + c * r.n];
}

// Magnitudes of the rows of a front (small_pivots.hpp): the sums of its children, then of its pivots. L is read by rows.
template <class T, class Group>
__device__ __forceinline__ void add_magnitudes(const Tree<T>& t, const Solve<T>& x, int s, const Group& g) {
  const View<T> v(t, s);
  const Rows<1, T> r = rows_of<1>(v, x);
  const int pivots = t.pivots[s];
  gather(t, x, v, r, g);
  for (int i = g.rank; i < v.height; i += g.size) {
    T sum = r.at(i, 0);
    for (int k = 0; k < pivots && k <= i; ++k) {
      const bool is_pair = v.e[k] != T(0);
      const T* const row = v.panel + i + k * v.leading;
      if (i == k || (is_pair && i == k + 1))                   // the unit diagonal of L
        sum += static_cast<T>(magnitude(v.d[i]) + magnitude(v.e[k]));
      else
        sum += added_magnitude(v.d[k], v.e[k], is_pair ? v.d[k + 1] : T(0), row[0], is_pair ? row[v.leading] : T(0));
      k += is_pair;
    }
    r.at(i, 0) = sum;
  }
  for (int j = g.rank; j < v.columns; j += g.size) x.Y[v.name[j]] = r.y[j];
}

// Y(i, c) := sqrt(magnitude(i)) xi(i, c), the right-hand sides of small_pivots.hpp by columns.
template <class T> __device__ __forceinline__ void fill_samples(long long n, const T* row_magnitude, T* Y) {
  const long long item = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (item >= n * pivot_samples) return;
  const long long i = item % n;
  Y[item] = static_cast<T>(root(static_cast<double>(row_magnitude[i])) * pivot_sample(i, static_cast<int>(item / n)));
}

// Results for the pivots of a front: the number of undecided pivots, and the values of struct Noise.
struct Settled {
  double undecided, largest, least_other, grows;
};

// Sets column k of L to that of a zero pivot; returns true if an entry was above 1.
template <class T> __device__ __forceinline__ bool clear_column(const View<T>& v, int k) {
  bool grows = false;
  for (int i = k + 1; i < v.height; ++i) {
    T& entry = v.panel[i + k * v.leading];
    grows = grows || magnitude(entry) > 1;
    entry = T(0);
  }
  return grows;
}

// Decides on the small pivots of a front, by one thread. Z holds D^-1 times the forward solve of its columns.
template <class T> __device__ __forceinline__ void settle(const Tree<T>& t, const Solve<T>& x, const T* row_magnitude, int s, Settled& found) {
  const View<T> v(t, s);
  const T* const z = x.Z + v.at.slot;
  found = {0, 0, 1e300, 0};
  const auto sum_of = [&](int k, double d, double e, int other) {
    double sum = 0;
    for (int c = 0; c < pivot_samples; ++c) {
      const double y = d * z[k + c * x.slots] + e * z[other + c * x.slots];
      sum += y * y;
    }
    return larger(sum / pivot_samples, static_cast<double>(row_magnitude[v.name[k]]));
  };
  for (int k = 0; k < t.pivots[s]; ++k) {
    const bool is_pair = v.e[k] != T(0);
    const double size = size_of_pivot(v.d, v.e, k);
    if (is_small<T>(size)) {
      const double sum = sum_of(k, v.d[k], v.e[k], k + is_pair);
      found.undecided += settle_pivot(v.d, v.e, k, sum, is_pair ? sum_of(k + 1, v.d[k + 1], v.e[k], k) : 0.0);
    }
    if (v.d[k] == T(0) && v.e[k] == T(0)) {
      found.largest = larger(found.largest, size);
      for (int j = k; j < k + 1 + is_pair; ++j)
        if (clear_column(v, j)) found.grows = 1;
    } else if (size < found.least_other) {
      found.least_other = size;
    }
    k += is_pair;
  }
}

// Counts the nonzeros of L in the columns of one front, by a thread block.
template <class T> __device__ __forceinline__ void count_nonzeros(const Tree<T>& t, int s, long long* count) {
  const View<T> v(t, s);
  const Block g;
  long long sum = 0, total;
  for (int j = g.warp; j < t.pivots[s]; j += g.warps)
    for (int i = j + g.lane; i < v.height; i += 32) sum += v.panel[i + j * v.leading] != T(0);
  block_exclusive_sum(sum, total);
  if (g.rank == 0) count[s] = total;
}

}  // namespace ms::ldlt

using namespace ms;
using namespace ms::ldlt;

// The arguments of the sweeps, and the two structures made of them.
#define SOLVE_ARGUMENTS                                                                                                        \
  int per_warp, const int *list, int count, int width, int part, const long long *table, const int *child, const int *relative, \
      const int *rows, SCALAR *panels, const long long *locations, SCALAR *late, int *names, SCALAR *d, SCALAR *e, int *pivots,    \
      long long n, long long slots, SCALAR *Y, SCALAR *Z, SCALAR *vectors
#define SOLVE_TREE                                                                                                \
  {{reinterpret_cast<const Front*>(table), child, relative, nullptr, nullptr, nullptr, nullptr, panels, nullptr}, \
   reinterpret_cast<const Location*>(locations), late, names, d, e, pivots, nullptr}
#define SOLVE_VECTORS {static_cast<Part>(part), rows, n, slots, Y, Z, vectors}

extern "C" __global__ void __launch_bounds__(256, 2)
k_forward(SOLVE_ARGUMENTS) {
  const Tree<SCALAR> t SOLVE_TREE;
  const Solve<SCALAR> x SOLVE_VECTORS;
  fronts::for_fronts(per_warp, list, count, 0, Y, [&](int s, const auto& group, SCALAR*) {
    fronts::with_width(width, [&](auto k) { forward<decltype(k)::columns>(t, x, s, group); });
  });
}

extern "C" __global__ void __launch_bounds__(256, 2)
k_backward(SOLVE_ARGUMENTS) {
  const Tree<SCALAR> t SOLVE_TREE;
  const Solve<SCALAR> x SOLVE_VECTORS;
  fronts::for_fronts(per_warp, list, count, 0, Y, [&](int s, const auto& group, SCALAR*) {
    fronts::with_width(width, [&](auto k) { backward<decltype(k)::columns>(t, x, s, group); });
  });
}

extern "C" __global__ void __launch_bounds__(128)
k_count(const long long* table, SCALAR* panels, const long long* locations, SCALAR* late, int* names, SCALAR* d, SCALAR* e,
        int* pivots, long long* count) {
  const Tree<SCALAR> t{{reinterpret_cast<const Front*>(table), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                        panels, nullptr},
                 reinterpret_cast<const Location*>(locations), late, names, d, e, pivots, nullptr};
  count_nonzeros(t, static_cast<int>(blockIdx.x), count);
}

extern "C" __global__ void __launch_bounds__(256, 2)
k_magnitudes(SOLVE_ARGUMENTS) {
  const Tree<SCALAR> t SOLVE_TREE;
  const Solve<SCALAR> x SOLVE_VECTORS;
  fronts::for_fronts(per_warp, list, count, 0, Y, [&](int s, const auto& group, SCALAR*) { add_magnitudes(t, x, s, group); });
}

extern "C" __global__ void __launch_bounds__(256)
k_samples(long long n, const SCALAR* row_magnitude, SCALAR* Y) {
  fill_samples(n, row_magnitude, Y);
}

// One front per thread; `fronts` is their number. settled: (fronts, 4).
extern "C" __global__ void __launch_bounds__(256)
k_settle(int fronts, const SCALAR* row_magnitude, double* settled, SOLVE_ARGUMENTS) {
  const Tree<SCALAR> t SOLVE_TREE;
  const Solve<SCALAR> x SOLVE_VECTORS;
  const int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s < fronts) settle(t, x, row_magnitude, s, reinterpret_cast<Settled*>(settled)[s]);
}
