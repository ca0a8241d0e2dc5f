// Solves with the fronts of an LU factorization on the GPU, level by level.
//
// Host counterpart: solve.cpp. Forward, children before parents: a front sums the vectors of its children and subtracts the
// unknowns of other diagonal blocks. It solves with its 32 x 32 diagonal blocks (one row per lane of a warp). Each block is
// subtracted from all rows below it. Backward, parents first: a front gathers the unknowns of its ancestors and subtracts them by
// dot products along stored columns. A x = b goes forward through L and backward through U; A^T x = b forward through U^T and
// backward through L^T. `position` has the row order after the exchanges. Right-hand sides are stored by columns in Y (n rows, by
// position); one pass has 1, 4 or 8 of them. `vectors` has the vectors that fronts pass to their parents.
#include "factor/fronts/solve.cuh"

namespace ms::lu {

using fronts::Block;
using fronts::pivot_block;
using fronts::Rows;

struct Front : fronts::Front {          // as in fronts.cu
  long long leading_q, entry_begin, entry_end;
};

template <class T> struct Solve {
  const Front* fronts;
  const int *child, *relative, *rows, *position;
  const T* panels;
  const long long* above_ptr;           // (n + 1) entries above the diagonal blocks, by rows, or transposed by columns; or null
  const int* above_from;                //   number of the unknown
  const long long* above_entry;         //   position of the value
  const T* above;
  long long n;
  int transposed;
  T *Y, *vectors;
};

// y := D^-1 y for a triangle of `width` rows with entry (i, k) at D[i * across + k * along]: the lower one downwards, the upper
// one upwards.
template <int K, class T>
__device__ __forceinline__ void solve_triangle(const T* D, long long across, long long along, bool unit, int width, bool down,
                                               T* y, long long n) {
  const int lane = threadIdx.x & 31;
  const bool mine = lane < width;
  const T inverse = mine && !unit ? T(1) / D[lane * (across + along)] : T(1);
  fronts::substitute<K>(width, down, inverse, y, n, [&](int k) {
    return mine && (down ? lane > k : lane < k) ? D[lane * across + k * along] : T(0);
  });
}

// Sums the vectors of the children in the rows of a front, and subtracts the unknowns of other blocks.
template <int K, class T, class Group>
__device__ __forceinline__ void gather(const Solve<T>& t, const Front& f, const Rows<K, T>& v, const Group& g) {
  for (int i = g.rank; i < v.updates * K; i += g.size) v.below[i] = T(0);
  g.sync();
  for (long long q = f.child_begin; q < f.child_end; ++q) {
    const Front& child = t.fronts[t.child[q]];
    const int count = child.updates();
    const T* const from = t.vectors + child.vector * K;
    for (int i = g.rank; i < count; i += g.size) {
      const int row = t.relative[child.rows + i];
      const int to = row < v.width && !t.transposed ? static_cast<int>(t.position[v.first + row] - v.first) : row;
#pragma unroll
      for (int c = 0; c < K; ++c) v.at(to, c) += from[i + static_cast<long long>(c) * count];
    }
    g.sync();
  }
  if (!t.above_ptr) return;
  for (int i = g.rank; i < v.width; i += g.size) {
    const long long begin = t.above_ptr[v.first + i], end = t.above_ptr[v.first + i + 1];
    if (begin == end) continue;
    const int to = t.transposed ? i : static_cast<int>(t.position[v.first + i] - v.first);
    for (long long p = begin; p < end; ++p) {
      const T value = t.above[t.above_entry[p]];
      const int from = t.transposed ? t.position[t.above_from[p]] : t.above_from[p];
#pragma unroll
      for (int c = 0; c < K; ++c) v.y[to + c * v.n] -= value * t.Y[from + c * v.n];
    }
  }
  g.sync();
}

template <int K, class T, class Group> __device__ __forceinline__ void forward(const Solve<T>& t, int s, const Group& g) {
  const Front& f = t.fronts[s];
  const Rows<K, T> v(t, f);
  gather(t, f, v, g);
  const T *const P = t.panels + f.panel, *const Q = P + f.pivots * f.leading;
  for (int j = 0; j < v.width; j += pivot_block) {
    const int width = min(pivot_block, v.width - j);
    const T* const D = P + j + j * f.leading;
    if (g.warp == 0)
      solve_triangle<K>(D, t.transposed ? f.leading : 1, t.transposed ? 1 : f.leading, !t.transposed, width, true, v.y + j, v.n);
    g.sync();
    for (int i = j + width + g.rank; i < v.height; i += g.size) {
      const bool of_u = t.transposed && i < v.width, of_q = t.transposed && i >= v.width;
      const T* const row = of_q ? Q + (i - v.width) + j * f.leading_q : of_u ? P + j + i * f.leading : P + i + j * f.leading;
      const long long step = of_q ? f.leading_q : of_u ? 1 : f.leading;
      fronts::take_pivots(v, i, j, width, row, step);       // row r of the next triangle by thread r, which solves for it
    }
  }
}

template <int K, class T, class Group> __device__ __forceinline__ void backward(const Solve<T>& t, int s, const Group& g) {
  const Front& f = t.fronts[s];
  const Rows<K, T> v(t, f);
  for (int i = g.rank; i < v.updates; i += g.size) {
    const int row = t.rows[f.rows + i], from = t.transposed ? t.position[row] : row;
#pragma unroll
    for (int c = 0; c < K; ++c) v.below[i + static_cast<long long>(c) * v.updates] = t.Y[from + c * v.n];
  }
  g.sync();
  const T *const P = t.panels + f.panel, *const Q = P + f.pivots * f.leading;
  for (int j = (v.width - 1) / pivot_block * pivot_block; j >= 0; j -= pivot_block) {
    const int width = min(pivot_block, v.width - j);
    for (int k = j + g.warp; k < j + width; k += g.warps)
      fronts::take_rows(v, k, j + width, [&](int i) {
        return t.transposed ? P[i + k * f.leading] : i < v.width ? P[k + i * f.leading] : Q[(i - v.width) + k * f.leading_q];
      });
    g.sync();
    const T* const D = P + j + j * f.leading;
    if (g.warp == 0)
      solve_triangle<K>(D, t.transposed ? f.leading : 1, t.transposed ? 1 : f.leading, t.transposed, width, false, v.y + j, v.n);
    g.sync();
  }
}

template <class T>
__device__ __forceinline__ void run(int per_warp, const int* list, int count, int width, int is_forward, const Solve<T>& t) {
  fronts::for_fronts(per_warp, list, count, 0, t.Y, [&](int s, const auto& group, T*) {
    fronts::with_width(width, [&](auto k) {
      if (is_forward)
        forward<decltype(k)::columns>(t, s, group);
      else
        backward<decltype(k)::columns>(t, s, group);
    });
  });
}

}  // namespace ms::lu

using namespace ms;
using namespace ms::lu;

extern "C" __global__ void __launch_bounds__(256, 2)
k_solve(int per_warp, const int* list, int count, int width, int is_forward, int transposed, const long long* table,
        const int* child, const int* relative, const int* rows, const int* position, const SCALAR* panels,
        const long long* above_ptr, const int* above_from, const long long* above_entry, const SCALAR* above, int n,
        SCALAR* Y, SCALAR* vectors) {
  run<SCALAR>(per_warp, list, count, width, is_forward,
              {reinterpret_cast<const Front*>(table), child, relative, rows, position, panels, above_ptr, above_from, above_entry,
               above, n, transposed, Y, vectors});
}

