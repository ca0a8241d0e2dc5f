// Solves with the Cholesky factor on the GPU, one launch for each direction, and the inverses of its diagonal blocks.
//
// CUDA counterpart of solve.cpp. Source: Yamazaki, Rajamanickam, Ellingwood 2020, "Performance portable supernode-based sparse
// triangular solver for manycore architectures": diagonal blocks are inverted after each factorization, so a step of a sweep is a
// product. Thread blocks claim tasks by tickets in topological order (sweeps_cuda.py makes the list). A task waits only for tasks
// of smaller tickets, so there is no deadlock for any number of resident thread blocks. Three kinds of tasks:
//   few        small fronts, one warp each. They use the diagonal block itself.
//   tiles      forward: rows of a front. A tile sums the vectors of the children in its rows and subtracts the column blocks to its
//              left as they are solved. A tile of pivots is then multiplied by its inverse; others are passed to the parent.
//              Backward: column blocks of a front, the last one first. A block subtracts its rows below and is multiplied by the
//              transposed inverse.
//   sums       backward: the product of a column block with some rows below the pivots of a large front.
// A front of medium size is one task with all its tiles. Every number has one owner and every sum a fixed order: the bits do not
// depend on the thread blocks. L is read once in each direction for each pass of 1, 4 or 8 right-hand sides. Pass p has the columns
// from p K on of Y (n rows, new numbering). `vectors` has the vectors that fronts pass to their parents, one row for each entry of
// the row lists.
//
// The inverse W of a diagonal block of up to 64 columns is stored transposed, in the unused triangle above the diagonal of the block.
// The diagonal of W is computed from that of the block.
#include "factor/cholesky/sweeps.cuh"
#include "factor/fronts/solve.cuh"

namespace ms::cholesky {

using fronts::Warp;

// Sizes for K right-hand sides that registers allow.
template <int K> constexpr int at_once = K < most_columns ? 16 : 8;    // entries of L that a thread loads before it waits
template <int K> constexpr int together = K < most_columns ? 4 : 2;    // columns of L that a warp multiplies by the same unknowns

// ---- forward

// Rows of a front that one task computes.
struct Tile {
  int begin, count, rows;               // first row, number of rows, rows that the sums have space for
};

// Adds the vectors of the children in the rows of a tile to the first part of the sums.
template <int K, class T>
__device__ __forceinline__ void gather(const Sweep<T>& t, const Front& f, const Tile& tile, const Shared<T>& m) {
  for (long long q = f.child_begin; q < f.child_end; ++q) {
    const Front& child = t.fronts[t.child[q]];
    const int size = child.updates();
    const T* const from = t.vectors + child.rows * K;
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
      const int row = t.relative[child.rows + i] - tile.begin;
      if (row < 0 || row >= tile.count) continue;
#pragma unroll
      for (int c = 0; c < K; ++c) m.sum[row + c * slots] += from[i + static_cast<long long>(c) * size];
    }
    __syncthreads();
  }
}

// Loads the `width` unknowns from pivot `from` on, after the tile that solves them is finished.
template <int K, class T>
__device__ __forceinline__ void load_unknowns(const Sweep<T>& t, const Rows<K, T>& v, int from, int width, const int* finished,
                                              const Shared<T>& m) {
  if (finished && threadIdx.x == 0) t.wait(finished, from / block_columns + 1);
  __syncthreads();
  for (int p = threadIdx.x; p < block_columns * K; p += blockDim.x) {
    const int k = p % block_columns;
    m.y[p] = k < width ? v.y[from + k + p / block_columns * v.n] : T(0);
  }
  __syncthreads();
}

// Subtracts column block j from the rows of a tile. Part p of the sums has the columns p, p + parts, ... Waits for the unknowns if
// `finished` is given; the first entries are loaded before.
template <int K, class T>
__device__ __forceinline__ void subtract_block(const Sweep<T>& t, const Rows<K, T>& v, const Tile& tile, int j, const int* finished,
                                               const Shared<T>& m) {
  const int parts = slots / tile.rows, from = j * block_columns, width = min(block_columns, v.pivots - from);
  for (int base = 0; base < slots; base += blockDim.x) {
    const int item = base + static_cast<int>(threadIdx.x), row = item % tile.rows, part = item / tile.rows;
    const bool mine = item < slots && row < tile.count;
    const T* const a = v.L + (tile.begin + row) + from * v.leading;
    constexpr int ahead = at_once<K>;
    T entry[ahead], dot[K] = {};
    const auto load = [&](int first) {
#pragma unroll
      for (int q = 0; q < ahead; ++q) {
        const int k = first + q * parts;
        entry[q] = mine && k < width ? a[k * v.leading] : T(0);
      }
    };
    load(part);
    if (base == 0) load_unknowns(t, v, from, width, finished, m);
    if (!mine) continue;
    for (int first = part;;) {
#pragma unroll
      for (int q = 0; q < ahead; ++q)
#pragma unroll
        for (int c = 0; c < K; ++c) dot[c] += entry[q] * m.y[first + q * parts + c * block_columns];
      first += ahead * parts;
      if (first >= width) break;
      load(first);
    }
#pragma unroll
    for (int c = 0; c < K; ++c) m.sum[item + c * slots] -= dot[c];
  }
}

// Tile `number` of a front. Tiles from `own` on are of this task.
template <int K, class T>
__device__ __forceinline__ void forward_tile(const Sweep<T>& t, const Task& task, int number, const Shared<T>& m) {
  const Front& f = t.fronts[task.front];
  const Rows<K, T> v(t, f);
  const bool of_pivots = number < v.blocks;
  const int rows = of_pivots ? block_columns : task.rows;
  const int begin = of_pivots ? number * block_columns : v.pivots + (number - v.blocks) * rows;
  const Tile tile{begin, min(rows, (of_pivots ? v.pivots : v.height) - begin), rows};
  if (of_pivots) load_inverse(v.L + begin + begin * v.leading, v.leading, tile.count, m.inverse);
  for (int p = threadIdx.x; p < slots * K; p += blockDim.x) {
    const int row = p % slots;
    m.sum[p] = of_pivots && row < tile.count ? v.y[begin + row + p / slots * v.n] : T(0);
  }
  if (threadIdx.x == 0) t.wait(t.arrived + task.front, static_cast<int>(f.child_end - f.child_begin));
  __syncthreads();
  gather<K>(t, f, tile, m);
  for (int j = 0; j < (of_pivots ? number : v.blocks); ++j)
    subtract_block(t, v, tile, j, j < task.first ? t.finished + task.front : nullptr, m);
  __syncthreads();
  for (int p = threadIdx.x; p < tile.count * K; p += blockDim.x) {
    const int row = p % tile.count, c = p / tile.count;
    T sum = m.sum[row + c * slots];
    for (int item = row + rows; item < slots; item += rows) sum += m.sum[item + c * slots];
    if (of_pivots) m.y[row + c * block_columns] = sum;
    else v.below[begin - v.pivots + row + static_cast<long long>(c) * v.updates] = sum;
  }
  __syncthreads();
  if (of_pivots)
    multiply<K>(tile.count, m, v.y + begin, v.n, [&](int k, int i) { return i <= k ? m.inverse[packed(k, i)] : T(0); });
}

template <int K, class T> __device__ __forceinline__ void forward_tiles(const Sweep<T>& t, const Task& task, const Shared<T>& m) {
  for (int k = 0; k < task.count; ++k) forward_tile<K>(t, task, task.first + k, m);
  if (threadIdx.x != 0) return;
  const Rows<K, T> v(t, t.fronts[task.front]);
  const int parent = t.parent[task.front];
  if (t.raise(t.finished + task.front, task.count) < v.blocks + ceil_div(v.updates, task.rows) || parent < 0) return;
  t.raise(t.arrived + parent, 1);                           // its fence makes the tiles of other thread blocks visible to the parent
}

// The vectors of the children of a small front: pivots in y, other rows in the front's part of the vectors.
template <int K, class T>
__device__ __forceinline__ void gather_few(const Sweep<T>& t, const Front& f, const Rows<K, T>& v, const Warp& g, T* y) {
  for (int i = g.lane; i < v.updates * K; i += 32) v.below[i] = T(0);
  g.sync();
  for (long long q = f.child_begin; q < f.child_end; ++q) {
    const Front& child = t.fronts[t.child[q]];
    const int size = child.updates();
    const T* const from = t.vectors + child.rows * K;
    for (int i = g.lane; i < size; i += 32) {
      const int row = t.relative[child.rows + i];
#pragma unroll
      for (int c = 0; c < K; ++c)
        (row < v.pivots ? y[row + c * 32] : v.below[row - v.pivots + static_cast<long long>(c) * v.updates]) +=
            from[i + static_cast<long long>(c) * size];
    }
    g.sync();
  }
}

// y := D^-1 y, or D^-T y, for the pivots of a small front, 32 apart in shared memory, and Y.
template <int K, class T> __device__ __forceinline__ void solve_few(const Rows<K, T>& v, bool down, const Warp& g, T* y) {
  const bool mine = g.lane < v.pivots;
  const T inverse = mine ? T(1) / v.L[g.lane * (v.leading + 1)] : T(0);
  if (down)
    fronts::substitute<K>(v.pivots, true, inverse, y, 32, [&](int k) { return mine && g.lane > k ? v.L[g.lane + k * v.leading] : T(0); });
  else
    fronts::substitute<K>(v.pivots, false, inverse, y, 32, [&](int k) { return g.lane < k ? v.L[k + g.lane * v.leading] : T(0); });
#pragma unroll
  for (int c = 0; c < K; ++c)
    if (mine) v.y[g.lane + c * v.n] = y[g.lane + c * 32];
  g.sync();
}

template <int K, class T> __device__ __forceinline__ void load_few(const Rows<K, T>& v, const Warp& g, T* y) {
#pragma unroll
  for (int c = 0; c < K; ++c)
    if (g.lane < v.pivots) y[g.lane + c * 32] = v.y[g.lane + c * v.n];
}

template <int K, class T> __device__ __forceinline__ void forward_few(const Sweep<T>& t, int s, T* y) {
  const Warp g;
  const Front& f = t.fronts[s];
  const Rows<K, T> v(t, f);
  const int children = static_cast<int>(f.child_end - f.child_begin), parent = t.parent[s];
  load_few(v, g, y);
  if (children > 0) {
    if (g.lane == 0) t.wait(t.arrived + s, children);
    gather_few(t, f, v, g, y);                              // which has a barrier before it reads
  }
  solve_few(v, true, g, y);
  for (int i = g.lane; i < v.updates; i += 32) {
    const T* const row = v.L + v.pivots + i;
    T sum[K] = {};
    for (int k = 0; k < v.pivots; ++k) {
      const T x = row[k * v.leading];
#pragma unroll
      for (int c = 0; c < K; ++c) sum[c] -= x * y[k + c * 32];
    }
#pragma unroll
    for (int c = 0; c < K; ++c) {
      T& to = v.below[i + static_cast<long long>(c) * v.updates];
      to = children > 0 ? to + sum[c] : sum[c];
    }
  }
  g.sync();
  if (g.lane == 0 && parent >= 0) t.raise(t.arrived + parent, 1);
}

// ---- backward

// Sums each of N values over groups of `lanes` lanes by halving: in the end lane q (lanes / N) of a group has the sum of value q in
// value[0].
template <int N, int lanes = 32, class T> __device__ __forceinline__ void reduce_each(T* value) {
  constexpr int d = lanes / 2;
  if constexpr (N == 1) {
    value[0] += __shfl_xor_sync(full_warp, value[0], d);
    if constexpr (d > 1) reduce_each<1, d>(value);
  } else {
    const bool upper = (threadIdx.x & d) != 0;
#pragma unroll
    for (int q = 0; q < N / 2; ++q) {
      const T other = __shfl_xor_sync(full_warp, upper ? value[q] : value[q + N / 2], d);
      value[q] = (upper ? value[q + N / 2] : value[q]) + other;
    }
    if constexpr (d > 1) reduce_each<N / 2, d>(value);
  }
}

// Subtracts the sums of a warp from together<K> unknowns of a block of `width`, from unknown k on. The right-hand sides of y are
// `apart`. Each lane has its part of the sum of unknown k + d and right-hand side c in sum[d + c together<K>].
template <int K, class T> __device__ __forceinline__ void subtract_sums(T* sum, int k, int width, T* y, int apart) {
  constexpr int columns = together<K>, share = 32 / (columns * K);
  reduce_each<columns * K>(sum);
  const int lane = threadIdx.x & 31, q = lane / share, column = k + q % columns;
  if (lane % share == 0 && column < width) y[column + q / columns * apart] -= sum[0];
}

// Subtracts the product of `count` rows from together<K> unknowns, by one warp; x(i, c) is an unknown of row i.
template <int K, class T, class Unknown>
__device__ __forceinline__ void subtract_rows(const T* L, long long leading, int k, int width, int count, T* y, int apart, Unknown x) {
  constexpr int columns = together<K>;
  T sum[columns * K] = {};
#pragma unroll 2
  for (int i = threadIdx.x & 31; i < count; i += 32) {
    T entry[columns];
#pragma unroll
    for (int d = 0; d < columns; ++d) entry[d] = k + d < width ? L[i + (k + d) * leading] : T(0);
#pragma unroll
    for (int c = 0; c < K; ++c) {
      const T value = x(i, c);
#pragma unroll
      for (int d = 0; d < columns; ++d) sum[d + c * columns] += entry[d] * value;
    }
  }
  subtract_sums<K>(sum, k, width, y, apart);
}

// Subtracts rows [begin, end) below the pivots of a front from the unknowns of a column block.
template <int K, class T>
__device__ __forceinline__ void subtract_below(const Sweep<T>& t, const Rows<K, T>& v, int from, int width, int begin, int end,
                                               const Shared<T>& m) {
  for (; begin < end; begin += slots) {
    const int count = min(slots, end - begin);
    for (int p = threadIdx.x; p < count * K; p += blockDim.x) {
      const int i = p % count, c = p / count;
      m.sum[i + c * slots] = t.Y[v.rows[begin + i - v.pivots] + c * v.n];
    }
    __syncthreads();
    for (int k = together<K> * (threadIdx.x >> 5); k < width; k += together<K> * (blockDim.x >> 5))
      subtract_rows<K>(v.L + begin + from * v.leading, v.leading, k, width, count, m.y, block_columns,
                       [&](int i, int c) { return m.sum[i + c * slots]; });
    __syncthreads();
  }
}

// Subtracts the pivots of column block i from the unknowns of an earlier block. Waits for them if `solved` is given; the first entries
// of L are loaded before.
template <int K, class T>
__device__ __forceinline__ void subtract_pivots(const Sweep<T>& t, const Rows<K, T>& v, int from, int width, int i, const int* solved,
                                                const Shared<T>& m) {
  constexpr int columns = together<K>, groups = 2, steps = block_columns / 32;
  const int lane = threadIdx.x & 31, apart = columns * (blockDim.x >> 5), begin = i * block_columns;
  const int count = min(block_columns, v.pivots - begin);
  const T* const L = v.L + begin + lane + from * v.leading;
  for (int base = columns * (threadIdx.x >> 5), round = 0; round < block_columns; base += groups * apart, round += groups * apart) {
    T entry[groups][steps][columns];
#pragma unroll
    for (int p = 0; p < groups * steps * columns; ++p) {
      const int d = p % columns, step = p / columns % steps, g = p / columns / steps, k = base + g * apart + d;
      entry[g][step][d] = k < width && lane + 32 * step < count ? L[32 * step + k * v.leading] : T(0);
    }
    if (round == 0) {
      if (solved && threadIdx.x == 0) t.wait(solved, v.blocks - i);
      __syncthreads();
      for (int p = threadIdx.x; p < block_columns * K; p += blockDim.x) {
        const int row = p % block_columns, c = p / block_columns;
        m.sum[row + c * slots] = row < count ? v.y[begin + row + c * v.n] : T(0);
      }
      __syncthreads();
    }
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      if (base + g * apart >= width) continue;
      T sum[columns * K] = {};
#pragma unroll
      for (int p = 0; p < steps * columns * K; ++p) {
        const int d = p % columns, c = p / columns % K, step = p / columns / K;
        sum[d + c * columns] += entry[g][step][d] * m.sum[lane + 32 * step + c * slots];
      }
      subtract_sums<K>(sum, base + g * apart, width, m.y, block_columns);
    }
  }
  __syncthreads();
}

template <class T> __device__ __forceinline__ void wait_for_parent(const Sweep<T>& t, int s) {
  const int parent = t.parent[s];
  if (parent >= 0) t.wait(t.solved + parent, ceil_div(static_cast<int>(t.fronts[parent].pivots), block_columns));
}

// The partial sums of column block j, range q: block_columns x K numbers.
template <int K, class T> __device__ __forceinline__ T* partial_sums(const Sweep<T>& t, int slot) {
  return t.partial + static_cast<long long>(slot) * K * block_columns;
}

template <int K, class T> __device__ __forceinline__ void sum_range(const Sweep<T>& t, const Task& task, const Shared<T>& m) {
  const Rows<K, T> v(t, t.fronts[task.front]);
  const int from = task.first * block_columns, width = min(block_columns, v.pivots - from);
  const int begin = v.pivots + task.count * task.rows, slot = task.slot + task.first * ceil_div(v.updates, task.rows);
  for (int p = threadIdx.x; p < block_columns * K; p += blockDim.x) m.y[p] = T(0);
  if (threadIdx.x == 0) wait_for_parent(t, task.front);
  __syncthreads();
  subtract_below(t, v, from, width, begin, min(begin + task.rows, v.height), m);
  T* const out = partial_sums<K>(t, slot + task.count);
  for (int p = threadIdx.x; p < block_columns * K; p += blockDim.x) out[p] = m.y[p];
  __syncthreads();
  if (threadIdx.x == 0) t.raise(t.summed + slot, 1);
}

template <int K, class T>
__device__ __forceinline__ void backward_block(const Sweep<T>& t, const Task& task, int j, const Shared<T>& m) {
  const Rows<K, T> v(t, t.fronts[task.front]);
  const int from = j * block_columns, width = min(block_columns, v.pivots - from);
  const int ranges = task.rows > 0 ? ceil_div(v.updates, task.rows) : 0, slot = task.slot + j * ranges;
  load_inverse(v.L + from + from * v.leading, v.leading, width, m.inverse);
  if (threadIdx.x == 0) {
    if (ranges > 0) t.wait(t.summed + slot, ranges);
    else wait_for_parent(t, task.front);
  }
  __syncthreads();
  for (int p = threadIdx.x; p < block_columns * K; p += blockDim.x) {
    const int k = p % block_columns;
    T sum = k < width ? v.y[from + k + p / block_columns * v.n] : T(0);
    for (int q = 0; q < ranges; ++q) sum += partial_sums<K>(t, slot + q)[p];
    m.y[p] = sum;
  }
  __syncthreads();
  if (ranges == 0) subtract_below(t, v, from, width, v.pivots, v.height, m);
  for (int i = v.blocks - 1; i > j; --i)
    subtract_pivots(t, v, from, width, i, i > task.first ? t.solved + task.front : nullptr, m);
  multiply<K>(width, m, v.y + from, v.n, [&](int k, int i) { return i >= k ? m.inverse[packed(i, k)] : T(0); });
}

template <int K, class T> __device__ __forceinline__ void backward_blocks(const Sweep<T>& t, const Task& task, const Shared<T>& m) {
  for (int k = 0; k < task.count; ++k) backward_block<K>(t, task, task.first - k, m);
  if (threadIdx.x == 0) t.raise(t.solved + task.front, task.count);
}

template <int K, class T> __device__ __forceinline__ void backward_few(const Sweep<T>& t, int s, T* y) {
  const Warp g;
  const Rows<K, T> v(t, t.fronts[s]);
  load_few(v, g, y);
  if (g.lane == 0) wait_for_parent(t, s);
  g.sync();
  for (int k = 0; k < v.pivots; k += together<K>)
    subtract_rows<K>(v.L + v.pivots, v.leading, k, v.pivots, v.updates, y, 32, [&](int i, int c) { return t.Y[v.rows[i] + c * v.n]; });
  g.sync();
  solve_few(v, false, g, y);
  if (g.lane == 0) t.raise(t.solved + s, 1);
}

// ---- the kernels

template <bool is_forward, int K, class T>
__device__ __forceinline__ void compute(const Sweep<T>& t, const Task& task, const int* list, const Shared<T>& m) {
  if (task.kind == few) {
    T* const y = m.sum + (threadIdx.x >> 5) * 32 * K;
    for (int q = threadIdx.x >> 5; q < task.count; q += blockDim.x >> 5)
      if constexpr (is_forward) forward_few<K>(t, list[task.front + q], y);
      else backward_few<K>(t, list[task.front + q], y);
  } else if constexpr (is_forward) {
    forward_tiles<K>(t, task, m);
  } else if (task.kind == tiles) {
    backward_blocks<K>(t, task, m);
  } else {
    sum_range<K>(t, task, m);
  }
}

// Claims tasks until none is left or a wait has failed. Neighboring tickets are passes of one task: they read the same part of L.
template <bool is_forward, class T>
__device__ __forceinline__ void run(const Task* tasks, int count, const int* list, int width, int passes, const Sweep<T>& all,
                                    int* counters) {
  __shared__ T sum[slots * most_columns];
  __shared__ T y[block_columns * most_columns];
  __shared__ T inverse[triangle];
  __shared__ int drawn;
  for (;;) {
    if (threadIdx.x == 0)
      drawn = *static_cast<volatile int*>(all.stalled) ? count * passes : atomicAdd(counters + (is_forward ? 0 : 1), 1);
    __syncthreads();
    const int ticket = drawn;
    if (ticket >= count * passes) return;
    fronts::with_width(width, [&](auto k) {
      Sweep<T> t = all;
      t.enter(ticket % passes, k.columns, counters);
      compute<is_forward, decltype(k)::columns, T>(t, tasks[ticket / passes], list, {sum, y, inverse});
    });
    __syncthreads();                                        // the memory of the task and its ticket are free
  }
}

}  // namespace ms::cholesky

using namespace ms;
using namespace ms::cholesky;

#define SWEEP_ARGUMENTS                                                                                                       \
  const int *tasks, int count, const int *list, int width, int passes, const long long *table, const int *parent,             \
      const int *child, const int *relative, const int *rows, const SCALAR *panels, int n, long long vector_rows, int fronts, \
      int partial_slots, SCALAR *Y, SCALAR *vectors, SCALAR *partial, int *counters, int *stalled
#define SWEEP                                                                                                               \
  {reinterpret_cast<const Front*>(table), parent, child, relative, rows, panels, n, vector_rows, fronts, partial_slots,     \
   stalled, nullptr, nullptr, nullptr, nullptr, Y, vectors, partial}

extern "C" __global__ void __launch_bounds__(256, 2)
k_forward(SWEEP_ARGUMENTS) {
  run<true, SCALAR>(reinterpret_cast<const Task*>(tasks), count, list, width, passes, SWEEP, counters);
}

extern "C" __global__ void __launch_bounds__(256, 2)
k_backward(SWEEP_ARGUMENTS) {
  run<false, SCALAR>(reinterpret_cast<const Task*>(tasks), count, list, width, passes, SWEEP, counters);
}
