// Right-looking LU by columns on the exact static pattern, level by level, and the coefficients of the solves by rows.
//
// Sources: He et al. 2015, "GLU"; Peng and Tan 2020, "GLU3.0". The levels are the exact ones of levels.cpp: the rule of the first
// paper is wrong, and that of the second has too many levels. A step k subtracts L(:, k) U(k, j) / pivot from every column j of
// its row of U. The steps of a level are sorted by the column that they change. One group of threads applies the steps of a
// column in ascending order: no atomics, the same bits in every run and for every shape. Columns of L are scaled at the end, so
// that a level is one launch. Three ways, by the shape of a level:
//   k_update_narrow   up to 32 lanes per column; one thread block processes a run of small levels in one launch
//   k_update_wide     one thread block per column, or (gridDim.y) several blocks, each with a range of its rows
// A column is stored as its part of U, its pivot, its part of L, rows ascending.
#include "factor/lu/pivot.cuh"
#include "native/dense/rounding.hpp"

namespace ms::lu {

template <class T> struct Columns {
  const long long *column_ptr, *diagonal;     // (n + 1), (n) positions of each column and of its pivot
  const int* rows;
  T* values;
  Rule rule;
  const long long* level_ptr;                 // (levels + 1) tasks of a level; a task is one changed column:
  const int* task_column;
  const long long* pair_ptr;                  //   its steps, ascending,
  const int* pair_step;
  const long long* pair_at;                   //   and the position of U(step, column)
};

// Subtracts one step from the stored rows [from, to) of a column: the entries part, part + parts, ... of L(:, step).
template <class T>
__device__ __forceinline__ void apply(const Columns<T>& A, long long pair, long long begin, long long end, long long from,
                                      long long to, int part, int parts) {
  const int k = A.pair_step[pair], count = static_cast<int>(to - from);
  const T factor = A.values[A.pair_at[pair]] / usable(A.values[A.diagonal[k]], A.rule);
  for (long long e = begin + part; e < end; e += parts)
    A.values[from + lower_bound(A.rows + from, count, A.rows[e])] -= times(A.values[e], factor);
}

// Levels [first, end); several levels by a single thread block only.
template <class T> __device__ __forceinline__ void update_narrow(const Columns<T>& A, int first, int end, int lanes) {
  const int lane = threadIdx.x & 31, part = lane % lanes;
  for (int level = first; level < end; ++level) {
    const long long before = A.level_ptr[level], count = A.level_ptr[level + 1] - before;
    for (long long base = (grid_begin() - lane) / lanes; base < count; base += grid_step() / lanes) {
      const long long task = before + base + lane / lanes;
      const bool mine = base + lane / lanes < count;
      const long long pair = mine ? A.pair_ptr[task] : 0;
      const int steps = mine ? static_cast<int>(A.pair_ptr[task + 1] - pair) : 0;
      const int most = warp_max(steps);
      for (int q = 0; q < most; ++q) {
        if (q < steps) {
          const int k = A.pair_step[pair + q];
          apply(A, pair + q, A.diagonal[k] + 1, A.column_ptr[k + 1], A.pair_at[pair + q] + 1,
                A.column_ptr[A.task_column[task] + 1], part, lanes);
        }
        __syncwarp();
      }
    }
    __syncthreads();
  }
}

template <class T> __device__ __forceinline__ void update_wide(const Columns<T>& A, int level) {
  const long long task = A.level_ptr[level] + blockIdx.x;
  const int j = A.task_column[task];
  const long long begin = A.column_ptr[j], size = A.column_ptr[j + 1] - begin;
  const long long from = begin + size * blockIdx.y / gridDim.y, to = begin + size * (blockIdx.y + 1) / gridDim.y;
  for (long long pair = A.pair_ptr[task]; pair < A.pair_ptr[task + 1]; ++pair) {
    const long long low = max(from, A.pair_at[pair] + 1);
    if (low >= to) continue;
    const int k = A.pair_step[pair];
    const long long l = A.diagonal[k] + 1;
    const int count = static_cast<int>(A.column_ptr[k + 1] - l);
    const long long e = l + lower_bound(A.rows + l, count, A.rows[low]);
    const long long end = to == begin + size ? l + count : l + lower_bound(A.rows + l, count, A.rows[to]);
    apply(A, pair, e, end, low, to, threadIdx.x, blockDim.x);
    __syncthreads();                                        // in the next step, other threads may change the same entries
  }
}

// Replaces pivots that are too small and scales the columns of L; `lanes` threads per column.
template <class T>
__device__ __forceinline__ void finish(int n, int lanes, const long long* column_ptr, const long long* diagonal, T* values,
                                       T* inverse, const Rule& rule, const Seen& seen) {
  const int lane = threadIdx.x & 31, part = lane % lanes;
  double upper = 0;
  int perturbed = 0;
  for (long long base = (grid_begin() - lane) / lanes; base < n; base += grid_step() / lanes) {
    const long long k = base + lane / lanes;
    const bool mine = k < n;
    const T stored = mine ? values[diagonal[k]] : T(1), pivot = usable(stored, rule), scale = T(1) / pivot;
    __syncwarp();
    if (!mine) continue;
    for (long long e = column_ptr[k] + part; e < diagonal[k]; e += lanes) upper = fmax(upper, magnitude(values[e]));
    for (long long e = diagonal[k] + 1 + part; e < column_ptr[k + 1]; e += lanes) values[e] *= scale;
    if (part > 0) continue;
    values[diagonal[k]] = pivot;
    inverse[k] = scale;
    upper = fmax(upper, magnitude(pivot));
    perturbed += !(fabs(static_cast<double>(stored)) >= rule.tiny);
  }
  upper = warp_max(upper);
  perturbed = warp_sum(perturbed);
  if (lane == 0) {
    seen.upper(upper);
    seen.perturbed(perturbed);
  }
}

// The coefficients of a solve by rows (RowSteps in lu.hpp), minus their values.
template <class T>
__device__ __forceinline__ void gather(long long count, const long long* source, const int* pivot, long long stored,
                                       long long above, const T* values, const T* off_diagonal, const T* inverse, T* out) {
  for (long long p = grid_begin(); p < count; p += grid_step()) {
    const long long s = source[p];
    const T x = s < stored ? values[s] : s < stored + above ? off_diagonal[s - stored] : T(-1);
    out[p] = pivot[p] < 0 ? -x : -x * inverse[pivot[p]];
  }
}

}  // namespace ms::lu

using namespace ms;
using namespace ms::lu;

extern "C" __global__ void __launch_bounds__(512, 2)
k_update_narrow(int first, int end, int lanes, const long long* column_ptr, const long long* diagonal, const int* rows,
                const long long* level_ptr, const int* task_column, const long long* pair_ptr, const int* pair_step,
                const long long* pair_at, double tiny, double perturbed_size, SCALAR* values) {
  const Columns<SCALAR> A{column_ptr, diagonal, rows, values, {0, tiny, perturbed_size}, level_ptr, task_column, pair_ptr, pair_step,
                          pair_at};
  update_narrow(A, first, end, lanes);
}

// Grid: columns of the level x ranges of their rows.
extern "C" __global__ void __launch_bounds__(256)
k_update_wide(int level, const long long* column_ptr, const long long* diagonal, const int* rows, const long long* level_ptr,
              const int* task_column, const long long* pair_ptr, const int* pair_step, const long long* pair_at, double tiny,
              double perturbed_size, SCALAR* values) {
  const Columns<SCALAR> A{column_ptr, diagonal, rows, values, {0, tiny, perturbed_size}, level_ptr, task_column, pair_ptr, pair_step,
                          pair_at};
  update_wide(A, level);
}

extern "C" __global__ void __launch_bounds__(256, 4)
k_finish(int n, int lanes, const long long* column_ptr, const long long* diagonal, double tiny, double perturbed_size, SCALAR* values,
         SCALAR* inverse, unsigned long long* seen) {
  finish(n, lanes, column_ptr, diagonal, values, inverse, {0, tiny, perturbed_size}, {seen});
}

extern "C" __global__ void __launch_bounds__(256)
k_gather(long long count, const long long* source, const int* pivot, long long stored, long long above, const SCALAR* values,
         const SCALAR* off_diagonal, const SCALAR* inverse, SCALAR* out) {
  gather(count, source, pivot, stored, above, values, off_diagonal, inverse, out);
}

// Y(position[i], c) = B(from[i], c) * scale[i], Y(position[n + i], c) = 0 for C-ordered (2 n, k) Y; `row` and `column` are B's
// strides.
extern "C" __global__ void __launch_bounds__(256)
k_enter(int n, int k, const int* position, const int* from, const double* scale, const double* B, long long offset, long long row,
        long long column, double* Y) {
  for (long long q = grid_begin(); q < static_cast<long long>(n) * k; q += grid_step()) {
    const long long i = q / k, c = q % k;
    Y[static_cast<long long>(position[i]) * k + c] = B[offset + from[i] * row + c * column] * scale[i];
    Y[static_cast<long long>(position[n + i]) * k + c] = 0;
  }
}

// X(to[i], c) = Y(position[n + i], c) * scale[i].
extern "C" __global__ void __launch_bounds__(256)
k_leave(int n, int k, const int* position, const int* to, const double* scale, const double* Y, double* X, long long offset,
        long long row, long long column) {
  for (long long q = grid_begin(); q < static_cast<long long>(n) * k; q += grid_step()) {
    const long long i = q / k, c = q % k;
    X[offset + to[i] * row + c * column] = Y[static_cast<long long>(position[n + i]) * k + c] * scale[i];
  }
}
