// Numeric Cholesky factorization of the fronts above the leaf subtrees: one persistent kernel and a queue of tiles.
//
// A tile is a block of at most 64 rows by a block of columns of a front. Blocks are cut at the last pivot. One thread block owns a tile
// and stores it once. It adds the entries of A, and the update matrices of the children in ascending order. It subtracts the products with
// the pivots of earlier columns, one after the other. Then it eliminates a diagonal tile, or solves with it. So the bits are the same for
// any number of thread blocks and any schedule.
//
// Tickets are drawn in a topological order (plan.py). A tile waits for
//   children     all tiles of their update matrices are stored: the counter of the front is 0
//   pivots       progress of its rows and columns: number of stored tiles of this block of rows, from the first column on
//   memory       all tiles of the depth below have read their children, whose memory an update matrix takes
// A block waits only for tiles that running blocks have claimed: there is no deadlock for any number of resident blocks. A wait that
// takes too long sets a bit of the status and ends the kernel.
// Sources: Hogg, Reid and Scott 2010, "Design of a multicore sparse Cholesky factorization using DAGs"; Liu 1992.
#include "factor/cholesky/pivots.cuh"

namespace ms::cholesky {

using fronts::Block;
using fronts::Front;
using fronts::packed_column;
using fronts::Tree;

constexpr int tile = 64, inner = 8, strip = 16;       // strip: columns of a tile that are solved together
constexpr int micro_tiles = 256;        // of 4 x 4 entries, rows and columns 16 apart

struct Queued {                         // a front of the queue
  int front, progress, parent, depth;   // progress: index in Queue::progress; parent: number in the queue or -1
};

template <class T> struct Queue {
  Tree<T> tree;
  const Queued* fronts;
  const int* tiles_of_depth;
  int *status, *remaining, *assembled, *progress;           // counters by front, by depth, by block of rows
};

// One tile, and its memory.
template <class T> struct Tile {
  const Front& f;
  const int i, j;                       // block of rows, block of columns
  const int width, blocks;              // pivots, blocks of pivots
  const int row, rows, column, columns;
  __device__ Tile(const Front& front, int block_i, int block_j)
      : f(front), i(block_i), j(block_j), width(static_cast<int>(f.pivots)), blocks((width + tile - 1) / tile), row(begin(i)),
        rows(size(i)), column(begin(j)), columns(size(j)) {}
  __device__ bool of_panel() const { return j < blocks; }
  __device__ int begin(int b) const { return b < blocks ? tile * b : width + tile * (b - blocks); }
  __device__ int size(int b) const { return min(tile, static_cast<int>(b < blocks ? f.pivots : f.height) - begin(b)); }
  // Points to row 0 of the tile in its column c.
  __device__ T* stored(T* panels, T* updates, int c) const {
    if (of_panel()) return panels + f.panel + row + (column + c) * f.leading;
    return packed_column(updates + f.update, f.updates(), column - width + c) + (row - width);
  }
};

// Waits by one thread. True, for all threads, if `ready` was true in time; data that was stored before it is then visible. There must
// be a barrier before the next wait.
template <class Ready> __device__ __forceinline__ bool await(int* status, Ready ready) {
  __shared__ bool is_ready;
  if (threadIdx.x == 0) {
    is_ready = Timeout(status + stalled).until(ready);
    if (!is_ready) atomicOr(status + bits, stall);
  }
  __syncthreads();
  return is_ready;
}

__device__ __forceinline__ int look(const int* counter) { return *static_cast<const volatile int*>(counter); }

// C := the entries of A and the update matrices of the children in this tile; own := the diagonal of A.
template <class T> __device__ __forceinline__ void assemble(const Tree<T>& t, const Tile<T>& v, T* C, T* own) {
  const Block g;
  for (int k = g.rank; k < tile * tile; k += g.size) C[k] = T(0);
  g.sync();
  if (v.of_panel()) {
    const long long first = v.f.first + v.column;
    for (int c = g.warp; c < v.columns; c += g.warps)
      for (long long p = t.entry_ptr[first + c] + g.lane; p < t.entry_ptr[first + c + 1]; p += 32) {
        const int r = t.entry_row[p] - v.row;
        if (r >= 0 && r < v.rows) C[r + c * tile] += static_cast<T>(t.values[t.entry_source[p]]);
      }
    g.sync();
    if (v.i == v.j) {
      for (int c = g.rank; c < v.columns; c += g.size) own[c] = C[c * (tile + 1)];
      g.sync();
    }
  }
  for (long long q = v.f.child_begin; q < v.f.child_end; ++q) {
    const Front& child = t.fronts[t.child[q]];
    const int* const relative = t.relative + child.rows;
    const int count = child.updates();
    const int begin = lower_bound(relative, count, v.column), end = lower_bound(relative, count, v.column + v.columns);
    const int from = lower_bound(relative, count, v.row), to = lower_bound(relative, count, v.row + v.rows);
    for (int j = begin + g.warp; j < end; j += g.warps) {
      const T* const X = packed_column(t.updates + child.update, count, j);
      T* const target = C + (relative[j] - v.column) * tile - v.row;
      for (int i = max(from, j) + g.lane; i < to; i += 32) target[relative[i]] += X[i];
    }
    g.sync();
  }
}

// sum += A B^T for the pivots [from, to) and one micro tile; A and B point to row 0 of the two blocks of rows in pivot 0.
template <class T>
__device__ __forceinline__ void multiply(const Tile<T>& v, const T* L, int from, int to, int micro, T* a, T* b, T (&sum)[4][4]) {
  const Block g;
  const int x = micro % 16, y = micro / 16;
  for (int p = from; p < to; p += inner) {
    for (int k = g.rank; k < inner * tile; k += g.size) {
      const int r = k % tile, q = p + k / tile;
      a[k] = r < v.rows && q < to ? L[v.row + r + q * v.f.leading] : T(0);
      b[k] = r < v.columns && q < to ? L[v.column + r + q * v.f.leading] : T(0);
    }
    g.sync();
    if (micro < micro_tiles) {
#pragma unroll
      for (int k = 0; k < inner; ++k) {
        T left[4], right[4];
#pragma unroll
        for (int d = 0; d < 4; ++d) {
          left[d] = a[k * tile + x + 16 * d];
          right[d] = b[k * tile + y + 16 * d];
        }
#pragma unroll
        for (int d = 0; d < 16; ++d) sum[d / 4][d % 4] += left[d / 4] * right[d % 4];
      }
    }
    g.sync();
  }
}

// C -= the products with the pivots of the columns before this tile, as their tiles are stored. Returns false after a stall.
template <class T>
__device__ __forceinline__ bool subtract(const Queue<T>& q, const Tile<T>& v, const int* progress, T* C, T* a, T* b) {
  const T* const L = q.tree.panels + v.f.panel;
  const int needed = min(v.j, v.blocks);
  if (needed == 0) return true;
  __shared__ int available;
  for (int first = 0; first < micro_tiles; first += blockDim.x) {
    const int micro = first + threadIdx.x;
    T sum[4][4] = {};
    for (int done = 0; done < needed;) {
      if (!await(q.status, [&] {
            available = min(needed, min(look(progress + v.i), look(progress + v.j)));
            return available > done;
          }))
        return false;
      const int stored = available;
      multiply(v, L, done * tile, min(stored * tile, v.width), micro, a, b, sum);
      done = stored;
    }
    if (micro >= micro_tiles) continue;
#pragma unroll
    for (int d = 0; d < 16; ++d) C[micro % 16 + 16 * (d / 4) + (micro / 16 + 16 * (d % 4)) * tile] -= sum[d / 4][d % 4];
  }
  __syncthreads();
  return true;
}

// Eliminates a diagonal tile.
template <class T> __device__ __forceinline__ void eliminate_tile(const Tile<T>& v, T* C, const T* own, int* status) {
  const Block g;
  const int done = eliminate(g, C, tile, tile, v.columns);
  if (done < v.columns) {
    if (g.rank == 0) record_failure(status, v.f.first + v.column + done);
    return;
  }
  for (int c = g.rank; c < v.columns; c += g.size)
    record_exponent(status, static_cast<double>(own[c]), static_cast<double>(C[c * (tile + 1)]));
}

// D := rows [begin, begin + strip) of the diagonal tile of the columns of v, up to its diagonal, by columns of `strip` scalars. Pivots
// are inverted; missing rows are 0.
template <class T> __device__ __forceinline__ void load_strip(const Tile<T>& v, const T* L, int begin, T* D) {
  const T* const from = L + v.column + v.column * v.f.leading;
  for (int k = threadIdx.x; k < strip * (begin + strip); k += blockDim.x) {
    const int i = begin + k % strip, j = k / strip;
    const T value = i < v.columns && i >= j ? from[i + j * v.f.leading] : T(0);
    D[k] = i == j && i < v.columns ? T(1) / value : value;
  }
  __syncthreads();
}

// x := x D^-T for a strip of columns of each row of C. A thread has a row in registers. The barrier in the loop also keeps the compiler
// from loading D before it.
template <class T> __device__ __forceinline__ void solve_rows(int rows, T* C, const T* D) {
  for (int first = 0; first < tile; first += blockDim.x) {
    const int r = first + static_cast<int>(threadIdx.x);
    if (r < rows) {
      T value[strip];
#pragma unroll
      for (int j = 0; j < strip; ++j) value[j] = C[r + j * tile];
#pragma unroll
      for (int j = 0; j < strip; ++j) {
        value[j] *= D[j * (strip + 1)];
#pragma unroll
        for (int k = j + 1; k < strip; ++k) value[k] -= value[j] * D[k + j * strip];
        C[r + j * tile] = value[j];
      }
    }
    __syncthreads();
  }
}

// C := C D^-T for the diagonal tile D of the columns of v, strip by strip.
template <class T> __device__ __forceinline__ void solve_tile(const Tile<T>& v, const T* L, T* C, T* D) {
  for (int begin = 0; begin < v.columns; begin += strip) {
    load_strip(v, L, begin, D);
    for (int k = threadIdx.x; k < tile * strip; k += blockDim.x) {
      const int r = k % tile, c = k / tile;
      T sum = T(0);
      for (int p = 0; p < begin; ++p) sum += C[r + p * tile] * D[c + p * strip];
      C[r + (begin + c) * tile] -= sum;
    }
    __syncthreads();
    solve_rows(v.rows, C + begin * tile, D + begin * strip);
  }
}

template <class T> __device__ __forceinline__ void store(const Tile<T>& v, T* panels, T* updates, const T* C) {
  const Block g;
  for (int c = g.warp; c < v.columns; c += g.warps)
    for (int r = (v.i == v.j ? c : 0) + g.lane; r < v.rows; r += 32) v.stored(panels, updates, c)[r] = C[r + c * tile];
}

// Tile (i, j) of a front. Returns false after a stall.
template <class T>
__device__ __forceinline__ bool factor_tile(const Queue<T>& q, int number, int i, int j, T* C, T* buffer, T* own) {
  const Queued at = q.fronts[number];
  const Tile<T> v(q.tree.fronts[at.front], i, j);
  int* const progress = q.progress + at.progress;
  if (!await(q.status, [&] { return look(q.remaining + number) == 0; })) return false;
  assemble(q.tree, v, C, own);
  if (threadIdx.x == 0) {
    __threadfence();                                        // the children are read before their memory is taken
    atomicAdd(q.assembled + at.depth, 1);
  }
  if (!subtract(q, v, progress, C, buffer, buffer + inner * tile)) return false;
  if (v.of_panel() && i == j) eliminate_tile(v, C, own, q.status);
  if (v.of_panel() && i != j) {
    if (!await(q.status, [&] { return look(progress + j) > j; })) return false;
    solve_tile(v, q.tree.panels + v.f.panel, C, buffer);
  }
  if (!v.of_panel() && !await(q.status, [&] { return look(q.assembled + at.depth + 1) == q.tiles_of_depth[at.depth + 1]; })) return false;
  store(v, q.tree.panels, q.tree.updates, C);
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();                                        // the tile is stored before it is counted
    if (v.of_panel())
      atomicExch(progress + i, j + 1);
    else if (at.parent >= 0)
      atomicSub(q.remaining + at.parent, 1);
  }
  return true;
}

}  // namespace ms::cholesky

using namespace ms;
using namespace ms::cholesky;

// status: five numbers, then the counters: by front, by depth, by block of rows.
extern "C" __global__ void __launch_bounds__(256, 2)
k_queue(int count, int num_fronts, int num_depths, const int* tiles, const int* queued, const int* tiles_of_depth,
        const long long* table, const int* child, const int* relative, const long long* entry_ptr, const unsigned* entry_source,
        const int* entry_row, const double* values, SCALAR* panels, SCALAR* updates, int* status) {
  __shared__ SCALAR C[tile * tile];
  __shared__ SCALAR buffer[2 * inner * tile];               // also rows of a diagonal tile: strip x tile
  __shared__ SCALAR own[tile];
  __shared__ int drawn;
  int* const remaining = status + counters;
  const Queue<SCALAR> q{{reinterpret_cast<const Front*>(table), child, relative, entry_ptr, entry_source, entry_row, values, panels,
                         updates}, reinterpret_cast<const Queued*>(queued), tiles_of_depth, status, remaining,
                        remaining + num_fronts, remaining + num_fronts + num_depths};
  for (;;) {
    if (threadIdx.x == 0) drawn = atomicAdd(status + ticket, 1);
    __syncthreads();
    const int* const task = tiles + 3 * static_cast<long long>(drawn);
    if (drawn >= count || !factor_tile(q, task[0], task[1], task[2], C, buffer, own)) return;     // which has a barrier
  }
}
