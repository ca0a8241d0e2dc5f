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
#include "device/ptx.cuh"
#include "factor/cholesky/pivots.cuh"

namespace ms::cholesky {

using fronts::Block;
using fronts::Front;
using fronts::packed_column;
using fronts::Tree;

constexpr int tile = 64, strip = 16;    // strip: columns of a tile that are solved together
constexpr int leading = tile + 2;       // of a tile in shared memory: the accesses of Sums::subtract_from have no bank conflicts
constexpr int shares = 256;             // parts of a product, of 4 x 4 entries; a thread computes one at a time

// A product runs through stages of a few pivots. Two stages are copied while one is multiplied.
constexpr int stages = 3, inner = 4, inner_leading = tile + 4, stage = 2 * inner * inner_leading;
static_assert(stages * stage >= strip * tile, "rows of a diagonal tile use the same memory");

struct Queued {                         // a front of the queue
  int front;
  int progress;                         // index in Queue::progress, or -1 for the front of a Schur complement: assembled alone
  int parent, depth;                    // parent: number in the queue or -1
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
  for (int k = g.rank; k < tile * leading; k += g.size) C[k] = T(0);
  g.sync();
  if (v.of_panel()) {
    const long long first = v.f.first + v.column;
    for (int c = g.warp; c < v.columns; c += g.warps)
      for (long long p = t.entry_ptr[first + c] + g.lane; p < t.entry_ptr[first + c + 1]; p += 32) {
        const int r = t.entry_row[p] - v.row;
        if (r >= 0 && r < v.rows) C[r + c * leading] += static_cast<T>(t.values[t.entry_source[p]]);
      }
    g.sync();
    if (v.i == v.j) {
      for (int c = g.rank; c < v.columns; c += g.size) own[c] = C[c * (leading + 1)];
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
      T* const target = C + (relative[j] - v.column) * leading - v.row;
      for (int i = max(from, j) + g.lane; i < to; i += 32) target[relative[i]] += X[i];
    }
    g.sync();
  }
}

// A share of the product A B^T of 64 x 64 entries. `add` adds the pivots of a stage: `inner` columns of A, then of B.
template <class T, bool by_tensor_cores> struct Sums {
  T sum[4][4] = {};                     // rows and columns 16 apart
  const int row, column;
  __device__ explicit Sums(int share) : row(share % 16), column(share / 16) {}
  __device__ __forceinline__ void add(const T* A) {
    const T* const B = A + inner * inner_leading;
#pragma unroll
    for (int k = 0; k < inner; ++k) {
      T left[4], right[4];
#pragma unroll
      for (int d = 0; d < 4; ++d) {
        left[d] = A[row + 16 * d + k * inner_leading];
        right[d] = B[column + 16 * d + k * inner_leading];
      }
#pragma unroll
      for (int d = 0; d < 16; ++d) sum[d / 4][d % 4] += left[d / 4] * right[d % 4];
    }
  }
  __device__ __forceinline__ void subtract_from(T* C) const {
#pragma unroll
    for (int d = 0; d < 16; ++d) C[row + 16 * (d / 4) + (column + 16 * (d % 4)) * leading] -= sum[d / 4][d % 4];
  }
};

// The same on tensor cores: 32 shares are those of a warp, 32 rows by 16 columns in 4 x 2 blocks of 8 x 8 entries.
template <> struct Sums<double, true> {
  double sum[4][2][2] = {};
  const int row, column, i, j;          // of the warp; of the lane in a block
  __device__ explicit Sums(int share) : row(share / 32 % 2 * 32), column(share / 64 * 16), i(share % 32 / 4), j(share % 4) {}
  __device__ __forceinline__ void add(const double* A) {
    static_assert(inner == 4, "one instruction multiplies 4 columns");
    const double* const B = A + inner * inner_leading;
    double left[4], right[2];
#pragma unroll
    for (int d = 0; d < 4; ++d) left[d] = A[row + 8 * d + i + j * inner_leading];
#pragma unroll
    for (int d = 0; d < 2; ++d) right[d] = B[column + 8 * d + i + j * inner_leading];
#pragma unroll
    for (int d = 0; d < 8; ++d) {
      double(&c)[2] = sum[d / 2][d % 2];
      multiply_add_8x8x4(left[d / 2], right[d % 2], c[0], c[1]);
    }
  }
  __device__ __forceinline__ void subtract_from(double* C) const {
#pragma unroll
    for (int d = 0; d < 16; ++d) {
      const int r = row + 8 * (d / 4) + i, c = column + 8 * (d / 2 % 2) + 2 * j + d % 2;
      C[r + c * leading] -= sum[d / 4][d / 2 % 2][d % 2];
    }
  }
};

// Adds the pivots [from, to) to the sums of each thread that has a share.
template <class T, class S>
__device__ __forceinline__ void multiply(const Tile<T>& v, const T* L, int from, int to, T* buffer, bool has_share, S& sums) {
  const Block g;
  const int steps = (to - from + inner - 1) / inner;
  const auto load = [&](int step) {
    T *const A = buffer + step % stages * stage, *const B = A + inner * inner_leading;
    for (int k = g.rank; step < steps && k < inner * tile; k += g.size) {
      const int r = k % tile, p = k / tile, q = from + step * inner + p, at = r + p * inner_leading;
      const T* const pivot = L + q * v.f.leading + r;
      copy_async(A + at, pivot + v.row, r < v.rows && q < to);
      copy_async(B + at, pivot + v.column, r < v.columns && q < to);
    }
    end_copies();
  };
  for (int step = 0; step < stages - 1; ++step) load(step);
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<stages - 2>();
    g.sync();
    load(step + stages - 1);
    if (has_share) sums.add(buffer + step % stages * stage);
  }
}

// C -= the products with the pivots of the columns before this tile, as their tiles are stored. Returns false after a stall.
template <class T>
__device__ __forceinline__ bool subtract(const Queue<T>& q, const Tile<T>& v, const int* progress, T* C, T* buffer) {
  const T* const L = q.tree.panels + v.f.panel;
  const int needed = min(v.j, v.blocks);
  if (needed == 0) return true;
  __shared__ int available;
  for (int first = 0; first < shares; first += blockDim.x) {
    const int share = first + static_cast<int>(threadIdx.x);
    Sums<T, has_tensor_cores> sums(share);
    const bool has_share = share < shares && sums.row < v.rows && sums.column < v.columns;
    for (int done = 0; done < needed;) {
      if (!await(q.status, [&] {
            available = min(needed, min(look(progress + v.i), look(progress + v.j)));
            return available > done;
          }))
        return false;
      const int stored = available;
      multiply(v, L, done * tile, min(stored * tile, v.width), buffer, has_share, sums);
      done = stored;
    }
    if (has_share) sums.subtract_from(C);
  }
  __syncthreads();
  return true;
}

// Eliminates a diagonal tile.
template <class T> __device__ __forceinline__ void eliminate_tile(const Tile<T>& v, T* C, const T* own, int* status) {
  const Block g;
  const int done = eliminate(g, C, leading, tile, v.columns);
  if (done < v.columns) {
    if (g.rank == 0) record_failure(status, v.f.first + v.column + done);
    return;
  }
  for (int c = g.rank; c < v.columns; c += g.size)
    record_exponent(status, static_cast<double>(own[c]), static_cast<double>(C[c * (leading + 1)]));
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
      for (int j = 0; j < strip; ++j) value[j] = C[r + j * leading];
#pragma unroll
      for (int j = 0; j < strip; ++j) {
        value[j] *= D[j * (strip + 1)];
#pragma unroll
        for (int k = j + 1; k < strip; ++k) value[k] -= value[j] * D[k + j * strip];
        C[r + j * leading] = value[j];
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
#pragma unroll 4
      for (int p = 0; p < begin; ++p) sum += C[r + p * leading] * D[c + p * strip];
      C[r + (begin + c) * leading] -= sum;
    }
    __syncthreads();
    solve_rows(v.rows, C + begin * leading, D + begin * strip);
  }
}

template <class T> __device__ __forceinline__ void store(const Tile<T>& v, T* panels, T* updates, const T* C) {
  const Block g;
  for (int c = g.warp; c < v.columns; c += g.warps)
    for (int r = (v.i == v.j ? c : 0) + g.lane; r < v.rows; r += 32) v.stored(panels, updates, c)[r] = C[r + c * leading];
}

// C := the tile of L, or of the update matrix, for an assembled tile C. Returns false after a stall.
template <class T>
__device__ __forceinline__ bool reduce(const Queue<T>& q, const Tile<T>& v, const int* progress, T* C, T* buffer, const T* own) {
  if (!subtract(q, v, progress, C, buffer)) return false;
  if (v.of_panel() && v.i == v.j) eliminate_tile(v, C, own, q.status);
  if (v.of_panel() && v.i != v.j) {
    if (!await(q.status, [&] { return look(progress + v.j) > v.j; })) return false;
    solve_tile(v, q.tree.panels + v.f.panel, C, buffer);
  }
  return true;
}

// Tile (i, j) of a front. Returns false after a stall.
template <class T>
__device__ __forceinline__ bool factor_tile(const Queue<T>& q, int number, int i, int j, T* C, T* buffer, T* own) {
  const Queued& at = q.fronts[number];
  const Tile<T> v(q.tree.fronts[at.front], i, j);
  int* const progress = at.progress < 0 ? nullptr : q.progress + at.progress;
  if (!await(q.status, [&] { return look(q.remaining + number) == 0; })) return false;
  assemble(q.tree, v, C, own);
  if (threadIdx.x == 0) {
    __threadfence();                                        // the children are read before their memory is taken
    atomicAdd(q.assembled + at.depth, 1);
  }
  if (progress && !reduce(q, v, progress, C, buffer, own)) return false;
  if (!v.of_panel() && !await(q.status, [&] { return look(q.assembled + at.depth + 1) == q.tiles_of_depth[at.depth + 1]; })) return false;
  store(v, q.tree.panels, q.tree.updates, C);
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();                                        // the tile is stored before it is counted
    if (progress && v.of_panel())
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
  __shared__ SCALAR C[tile * leading];
  __shared__ SCALAR buffer[stages * stage];
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
