// Cholesky factors of many systems of one pattern, and solves with them.
//
// CUDA counterpart of batch.hpp. Grid: thread blocks that share the fronts of a level, x systems. There are two uses of it:
//   one thread block per system   One launch runs all levels, with a barrier in between. A thread block factors one system after the
//                                 other. Update matrices are stored for the systems in flight only, in shared memory if they are small.
//   several                       Each level is a launch.
// In a level, small fronts have a warp each and the others a thread block. A panel is eliminated in shared memory if it fits, else where
// it is stored. The assembly has the fixed order of fronts.cuh, so a system has the same bits in every grid.
#include "factor/cholesky/pivots.cuh"
#include "factor/fronts/solve.cuh"
#include "factor/fronts/tiles.cuh"

namespace ms::cholesky {

using fronts::Block;
using fronts::Front;
using fronts::pivot_block;
using fronts::Rows;
using fronts::Tree;
using fronts::Warp;

constexpr int words = 2, none = 0x7fffffff;         // of the status of a system; value without a failed pivot
enum Fault : int { not_finite = 1, asymmetric = 2 };

// The fronts of level k are order[begin[k]] to order[begin[k + 1] - 1], the deepest level first; those before split[k] have a warp each.
struct Levels {
  const int *order, *begin, *split;

  // body(front, group, number of the group in its thread block) for the fronts of level k. It must have a barrier after its last write.
  template <class Body> __device__ __forceinline__ void each_front(int k, Body body) const {
    const int warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    for (int q = begin[k] + static_cast<int>(blockIdx.x) * warps + warp; q < split[k]; q += gridDim.x * warps) body(order[q], Warp{}, warp);
    __syncthreads();                    // shared memory of the warps becomes one of the thread block
    for (int q = split[k] + blockIdx.x; q < begin[k + 1]; q += gridDim.x) body(order[q], Block{}, 0);
  }
};

// body(system, slot) for the systems of this thread block; memory of a system in flight is numbered by slot.
template <class Body> __device__ __forceinline__ void each_system(int systems, Body body) {
  for (int i = blockIdx.y; i < systems; i += gridDim.y) body(i, static_cast<long long>(blockIdx.y));
}

// ---- numeric phase

// `shared` has `capacity` scalars for this group.
template <class T, class Group>
__device__ __forceinline__ void factor_one(const Tree<T>& t, int s, const Group& g, T* shared, int capacity, int* status) {
  const Front f = t.fronts[s];
  const int height = static_cast<int>(f.height), width = static_cast<int>(f.pivots), rows = height - width;
  T* const L = t.panels + f.panel;
  const bool fits = f.height * f.pivots <= capacity;
  T* const P = fits ? shared : L;
  const long long leading = fits ? f.height : f.leading;
  for (int j = g.warp; j < width; j += g.warps)
    for (int i = g.lane; i < height; i += 32) P[i + j * leading] = T(0);
  g.sync();
  const auto in_panel = [&](int i, int j) { return P + i + j * leading; };
  fronts::add_entries(t, f, g, 0, width, in_panel);
  fronts::add_children(t, f, g, 0, width, in_panel);
  const int done = eliminate(g, P, leading, height, width);
  if (done < width) {
    if (g.rank == 0) record_failure(status, f.first + done);
    return;
  }
  for (int j = g.rank; j < width; j += g.size) {
    double own = 0;                     // the diagonal entry of A
    for (long long p = t.entry_ptr[f.first + j]; p < t.entry_ptr[f.first + j + 1]; ++p)
      if (t.entry_row[p] == j) own += t.values[t.entry_source[p]];
    record_exponent(status, own, static_cast<double>(P[j * (leading + 1)]));
  }
  if (fits)
    for (int j = g.warp; j < width; j += g.warps)
      for (int i = g.lane; i < height; i += 32) L[i + j * f.leading] = P[i + j * leading];
  if (rows > 0) {
    T* const U = t.updates + f.update;
    const auto column_of = [&](int j) { return fronts::square_column(U, rows, j); };
    fronts::outer_product<true>(g, P + width, leading, P + width, leading, rows, width, column_of);
    fronts::add_children(t, f, g, width, height, [&](int i, int j) { return column_of(j - width) + (i - width); });
  }
  g.sync();                             // the next front uses the same shared memory
}

// ---- solves

template <class T> struct BatchSolve {
  const Front* fronts;
  const int *child, *relative, *rows, *perm;
  const T* panels;
  long long n;
  T *Y, *vectors;
  const double* B;                      // of this system, (n, k) by rows, from the first right-hand side of the pass on
  double* X;
  int k, count;                         // right-hand sides of B, and of the pass
};

// y := D^-1 y, or D^-T y, for a lower triangular block of `width` rows, by one warp.
template <int K, class T>
__device__ __forceinline__ void solve_block(const T* D, long long leading, int width, bool down, T* y, long long n) {
  const int lane = threadIdx.x & 31;
  const bool mine = lane < width;
  const T inverse = mine ? T(1) / D[lane * (leading + 1)] : T(0);
  if (down)
    fronts::substitute<K>(width, true, inverse, y, n, [&](int k) { return mine && lane > k ? D[lane + k * leading] : T(0); });
  else
    fronts::substitute<K>(width, false, inverse, y, n, [&](int k) { return lane < k ? D[k + lane * leading] : T(0); });
}

// Reads the pivot rows of B, and sets *found if one of their values is not finite.
template <int K, class T, class Group>
__device__ __forceinline__ void forward_front(const BatchSolve<T>& t, int s, const Group& g, int* found) {
  const Front f = t.fronts[s];
  const Rows<K, T> v(t, f);
  for (int i = g.rank; i < v.width; i += g.size)
#pragma unroll
    for (int c = 0; c < K; ++c) {
      const double b = c < t.count ? t.B[static_cast<long long>(t.perm[f.first + i]) * t.k + c] : 0.0;
      if (!(b - b == 0.0)) atomicExch(found, 1);
      v.y[i + c * v.n] = static_cast<T>(b);
    }
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
  const T* const L = t.panels + f.panel;
  for (int j = 0; j < v.width; j += pivot_block) {
    const int width = min(pivot_block, v.width - j);
    const T* const column = L + j * f.leading;
    if (g.warp == 0) solve_block<K>(column + j, f.leading, width, true, v.y + j, v.n);
    g.sync();
    for (int i = j + width + g.rank; i < v.height; i += g.size) fronts::take_pivots(v, i, j, width, column + i, f.leading);
    g.sync();
  }
}

// Writes the pivot rows of X.
template <int K, class T, class Group>
__device__ __forceinline__ void backward_front(const BatchSolve<T>& t, int s, const Group& g, bool has_factor) {
  const Front f = t.fronts[s];
  const Rows<K, T> v(t, f);
  for (int i = g.rank; i < v.updates; i += g.size)
#pragma unroll
    for (int c = 0; c < K; ++c) v.below[i + static_cast<long long>(c) * v.updates] = t.Y[t.rows[f.rows + i] + c * v.n];
  g.sync();
  const T* const L = t.panels + f.panel;
  for (int j = (v.width - 1) / pivot_block * pivot_block; j >= 0; j -= pivot_block) {
    const int width = min(pivot_block, v.width - j);
    for (int k = j + g.warp; k < j + width; k += g.warps) {
      const T* const column = L + k * f.leading;
      fronts::take_rows(v, k, j + width, [&](int i) { return column[i]; });
    }
    g.sync();
    if (g.warp == 0) solve_block<K>(L + j + j * f.leading, f.leading, width, false, v.y + j, v.n);
    g.sync();
  }
  const double nan = __longlong_as_double(0x7ff8000000000000LL);
  for (int i = g.rank; i < v.width; i += g.size)
#pragma unroll
    for (int c = 0; c < K; ++c)
      if (c < t.count)
        t.X[static_cast<long long>(t.perm[f.first + i]) * t.k + c] = has_factor ? static_cast<double>(v.y[i + c * v.n]) : nan;
}

}  // namespace ms::cholesky

using namespace ms;
using namespace ms::cholesky;

// faults[i] receives bits of Fault for the values of system i, *any those of all systems. mirror has the position of each entry's mirror
// entry. It is null if only one triangle counts.
extern "C" __global__ void __launch_bounds__(256)
k_check_systems(int systems, long long nnz, const double* values, const long long* mirror, int* faults, int* any) {
  each_system(systems, [&](int i, long long) {
    const double* const A = values + i * nnz;
    int found = 0;
    for (long long p = grid_begin(); p < nnz; p += grid_step()) {
      const double a = A[p], b = mirror ? A[mirror[p]] : a;
      const bool is_finite = a - a == 0.0;
      if (!is_finite) found |= not_finite;
      if (is_finite && b - b == 0.0 && a != b) found |= asymmetric;
    }
    if (found) {
      atomicOr(faults + i, found);
      atomicOr(any, found);
    }
  });
}

// Levels [from, to). updates: memory of each slot; shared_updates: its scalars at the begin of shared memory, or 0 if it is global. Then
// follow `capacity` scalars, or `tiny` for each warp. status: two words for each system, those of pivots.cuh. Does nothing if *any has the
// bit of a system that is not symmetric.
extern "C" __global__ void __launch_bounds__(256, 2)
k_factor_systems(int from, int to, const int* order, const int* begin, const int* split, int tiny, int capacity, int shared_updates,
                 const long long* table, const int* child, const int* relative, const long long* entry_ptr, const unsigned* entry_source,
                 const int* entry_row, int systems, long long nnz, const double* values, long long panel_scalars, SCALAR* panels,
                 long long update_scalars, SCALAR* updates, const int* faults, const int* any, int* status) {
  extern __shared__ SCALAR shared[];
  if (*any & asymmetric) return;
  const Levels levels{order, begin, split};
  each_system(systems, [&](int i, long long slot) {
    if (faults[i] & not_finite) return;
    const Tree<SCALAR> t{reinterpret_cast<const Front*>(table), child, relative, entry_ptr, entry_source, entry_row, values + i * nnz,
                         panels + i * panel_scalars, shared_updates ? shared : updates + slot * update_scalars};
    for (int k = from; k < to; ++k)
      levels.each_front(k, [&](int s, const auto& group, int number) {
        factor_one(t, s, group, shared + shared_updates + number * tiny, group.warps == 1 ? tiny : capacity, status + words * i);
      });
  });
}

// Forward through the levels [from, to) and then backward from to - 1 to `from`; either may be left out. Y and vectors: memory of each
// slot, in shared memory with shared_rows scalars, or global if that is 0.
extern "C" __global__ void __launch_bounds__(256, 2)
k_solve_systems(int from, int to, int goes_forward, int goes_backward, const int* order, const int* begin, const int* split, int shared_rows,
                const long long* table, const int* child, const int* relative, const int* rows, const int* perm, int systems, int n,
                long long panel_scalars, const SCALAR* panels, long long vector_rows, SCALAR* Y, SCALAR* vectors, int width, int k, int first,
                int count, const double* B, double* X, const int* faults, const int* status, int* found) {
  extern __shared__ SCALAR shared[];
  const Levels levels{order, begin, split};
  each_system(systems, [&](int i, long long slot) {
    const long long at = static_cast<long long>(i) * n * k + first, own = static_cast<long long>(n) * width;
    const bool has_factor = !(faults[i] & not_finite) && status[words * i + failed] == none;
    const BatchSolve<SCALAR> t{reinterpret_cast<const Front*>(table), child, relative, rows, perm, panels + i * panel_scalars, n,
                               shared_rows ? shared : Y + slot * own, shared_rows ? shared + own : vectors + slot * vector_rows * width,
                               B + at, X + at, k, count};
    fronts::with_width(width, [&](auto columns) {
      constexpr int K = decltype(columns)::columns;
      for (int level = from; goes_forward && level < to; ++level)
        levels.each_front(level, [&](int s, const auto& group, int) { forward_front<K>(t, s, group, found); });
      for (int level = to; goes_backward && level-- > from;)
        levels.each_front(level, [&](int s, const auto& group, int) { backward_front<K>(t, s, group, has_factor); });
    });
  });
}
