// Block triangular solves with the incomplete factor, depth after depth of the tiles: X := S P (L D L^T)^-1 P^T S B. Groups of
// `lanes` threads, or the thread block for a long row, sum the terms of a tile's rows from outside the tile. Then `width` lanes
// solve with the tile's unit triangle, one lane per row. Sums have a fixed order. One launch does a whole sweep. Tasks are parts
// of a wide depth, or runs of narrow depths for a single block. They are claimed by tickets, and wait for the tasks of earlier
// depths.
#include "device/common.cuh"

namespace ms::ildl {

constexpr long long most_polls = 100000000;
constexpr int longest = 1024;             // entries above which the whole thread block sums a row

struct Sweep {
  const int* begin;                       // (tiles + 1) first row of each tile
  const int *order, *depth_ptr;           // tiles by depth
  // tasks: positions from..to of `order` in one depth (depth_end = depth + 1), or all positions of the depths up to depth_end
  const int *task_run, *task_depth, *task_depth_end, *task_from, *task_to, *run_tasks;
  const int* depth_lanes;                 // threads that share a sum
  int tasks, width, together, k, n;       // together: tiles at once
  const long long* ptr;                   // rows (forward) or columns (backward) of L outside the diagonal tiles
  const int* idx;
  const long long* square;
  const int* row;                         // caller's row of the k-th row eliminated
  const double *scale, *p, *q;            // D^-1: x_k -> p_k x_k + q_k x_(k + mate_k)
  const signed char* mate;
  unsigned long long *ticket, *done;      // never reset: `epoch` is the number of earlier launches
  unsigned long long first_ticket, epoch;
  int* stalled;

  // The row of L in this slot of the tiles from position `from` on; -1 if its tile has fewer rows.
  __device__ int row_of(int from, int slot) const {
    const int tile = order[from + slot / width], at = begin[tile] + slot % width;
    return at < begin[tile + 1] ? at : -1;
  }

  // Number of long rows left for the thread block, and their slots; stored after the sums.
  __device__ int* waiting(double* sums) const { return reinterpret_cast<int*>(sums + together * width); }
};

template <class T>
__device__ __forceinline__ double product(const Sweep& W, int at, const T* value, const double* known, int part, int step) {
  double sum = 0;
  for (long long p = W.ptr[at] + part; p < W.ptr[at + 1]; p += step) sum += value[p] * known[W.idx[p]];
  return sum;
}

template <class T>
__device__ __forceinline__ void gather_long(const Sweep& W, int from, const T* value, const double* known, double* sums) {
  int* const waiting = W.waiting(sums);
  for (int w = 0; w < *waiting; ++w) {
    const int slot = waiting[1 + w];
    double sum;
    block_exclusive_sum(product(W, W.row_of(from, slot), value, known, threadIdx.x, blockDim.x), sum);
    if (threadIdx.x == 0) sums[slot] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) *waiting = 0;
}

// Sums of the rows of L outside the diagonal tile times the known unknowns, for `count` tiles from position `from` on.
template <class T>
__device__ __forceinline__ void gather(const Sweep& W, int from, int count, int lanes, const T* value, const double* known,
                                       double* sums) {
  const int lane = threadIdx.x & 31, part = lane % lanes, items = count * W.width * lanes;
  int* const waiting = W.waiting(sums);
  for (int base = static_cast<int>(threadIdx.x) - lane; base < items; base += blockDim.x) {
    const int item = base + lane, slot = item / lanes, at = item < items ? W.row_of(from, slot) : -1;
    const bool is_long = at >= 0 && W.ptr[at + 1] - W.ptr[at] > longest;
    double sum = at < 0 || is_long ? 0 : product(W, at, value, known, part, lanes);
    for (int d = lanes / 2; d > 0; d /= 2) sum += __shfl_xor_sync(full_warp, sum, d);
    if (item >= items || part != 0) continue;
    sums[slot] = sum;
    if (is_long) waiting[1 + atomicAdd(waiting, 1)] = slot;
  }
  __syncthreads();
  if (*waiting > 0) gather_long(W, from, value, known, sums);
}

// One part of a depth: forward Y := L^-1 P^T S B and Z := D^-1 Y, backward Z := L^-T Z and X := S P Z, of column c.
template <bool is_forward, class T>
__device__ __forceinline__ void solve_tiles(const Sweep& W, int from, int count, int lanes, const T* value, const T* own,
                                            const double* B, double* Y, double* Z, double* X, double* sums) {
  gather(W, from, count, lanes, value, is_forward ? Y : Z, sums);
  const int lane = threadIdx.x & 31, r = lane % W.width, items = count * W.width;
  for (int base = static_cast<int>(threadIdx.x) - lane; base < items; base += blockDim.x) {
    const int slot = base + lane, tile = slot < items ? W.order[from + slot / W.width] : -1;
    const int first = tile < 0 ? 0 : W.begin[tile], m = tile < 0 ? 0 : W.begin[tile + 1] - first, at = first + r;
    const bool on = r < m;
    const T* const triangle = own + (tile < 0 ? 0 : W.square[tile]);
    double x = !on ? 0.0 : sums[slot] + (is_forward ? W.scale[W.row[at]] * B[static_cast<long long>(W.row[at]) * W.k] : Z[at]);
    for (int s = 0; s + 1 < W.width; ++s) {
      const int j = is_forward ? s : W.width - 1 - s;
      const double solved = __shfl_sync(full_warp, x, j, W.width);
      if (on && j < m && (is_forward ? r > j : r < j)) x -= triangle[is_forward ? r + j * m : j + r * m] * solved;
    }
    if (is_forward) {
      const double other = __shfl_sync(full_warp, x, on ? r + W.mate[at] : r, W.width);
      if (on) {
        Y[at] = x;
        Z[at] = W.p[at] * x + W.q[at] * other;
      }
    } else if (on) {
      Z[at] = x;
      X[static_cast<long long>(W.row[at]) * W.k] = W.scale[W.row[at]] * x;
    }
  }
  __syncthreads();
}

// The next task of this block, once it may run; -1 if no task is left or the kernel has stalled.
template <bool is_forward> __device__ __forceinline__ int next_task(const Sweep& W) {
  __shared__ int task;
  if (threadIdx.x == 0) {
    const unsigned long long mine = atomicAdd(W.ticket, 1ull) - W.first_ticket;
    task = -1;
    if (mine < static_cast<unsigned long long>(W.tasks)) {
      task = is_forward ? static_cast<int>(mine) : W.tasks - 1 - static_cast<int>(mine);
      const int before = W.task_run[task] + (is_forward ? -1 : 1);
      if (before >= 0 && before <= W.task_run[W.tasks - 1]) {
        const unsigned long long all = (W.epoch + 1) * W.run_tasks[before];
        Timeout timeout(W.stalled);
        timeout.left = most_polls;
        if (!timeout.until([&] { return static_cast<volatile unsigned long long*>(W.done)[before] >= all; })) task = -1;
      }
    }
  }
  __syncthreads();
  return task;
}

template <bool is_forward, class T>
__device__ __forceinline__ void sweep(const Sweep& W, const T* value, const T* own, const double* B, double* Y, double* Z,
                                      double* X, double* sums) {
  if (threadIdx.x == 0) *W.waiting(sums) = 0;
  for (int task = next_task<is_forward>(W); task >= 0; task = next_task<is_forward>(W)) {
    const int depth = W.task_depth[task], end = W.task_depth_end[task];
    for (int l = 0; l < end - depth; ++l) {
      const int at = is_forward ? depth + l : end - 1 - l;
      const bool part = end - depth == 1;
      const int from = part ? W.task_from[task] : W.depth_ptr[at], to = part ? W.task_to[task] : W.depth_ptr[at + 1];
      for (int begin = from; begin < to; begin += W.together)
        for (int c = 0; c < W.k; ++c) {
          const long long column = static_cast<long long>(c) * W.n;
          solve_tiles<is_forward>(W, begin, min(W.together, to - begin), W.depth_lanes[at], value, own, B + c, Y + column,
                                  Z + column, X + c, sums);
        }
    }
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(W.done + W.task_run[task], 1ull);
    }
  }
}

}  // namespace ms::ildl

using namespace ms::ildl;

extern "C" __global__ void __launch_bounds__(512, 2)
k_solve(int is_forward, const int* begin, const int* order, const int* depth_ptr, const int* task_run,
        const int* task_depth, const int* task_depth_end, const int* task_from, const int* task_to,
        const int* run_tasks, const int* depth_lanes, int tasks, int width, int together, int k, int n,
        const long long* ptr, const int* idx, const SCALAR* value, const long long* square, const SCALAR* own, const int* row,
        const double* scale, const double* p, const double* q, const signed char* mate, const double* B, double* Y,
        double* Z, double* X, unsigned long long* ticket, unsigned long long* done, unsigned long long first_ticket,
        unsigned long long epoch, int* stalled) {
  extern __shared__ double sums[];
  const Sweep W{begin, order, depth_ptr, task_run, task_depth, task_depth_end, task_from, task_to, run_tasks, depth_lanes, tasks,
                width, together, k, n, ptr, idx, square, row, scale, p, q, mate, ticket, done, first_ticket, epoch, stalled};
  if (is_forward)
    sweep<true>(W, value, own, B, Y, Z, X, sums);
  else
    sweep<false>(W, value, own, B, Y, Z, X, sums);
}
