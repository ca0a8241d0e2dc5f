// Numeric phase of the incomplete factorization on the GPU. Host counterpart: incomplete.cpp, with the same pivots, kept entries
// and values (to the bit if the C++ compiler fuses no products). One launch computes the whole factorization.
//   row     one thread block per block row, with a slot for each column of the tiles that may fill. It subtracts the updates of
//           the rows above in ascending order, each as soon as that row is finished, and marks their columns. The first warp factors
//           the diagonal tile, then each thread solves for one column. Small entries are dropped, the others are appended to the
//           pool of finished rows
//   share   the block that finishes the last row of a depth distributes unused budgets: a prefix sum and a prefix maximum give
//           the leftover of earlier rows for each row
//   trim    rows above their budgets lose their smallest columns
// Depths are long chains of few rows, so the latency from one row to the next dominates. Therefore all blocks work ahead, each on
// a different row. The tasks are one list, depth after depth, and are claimed by tickets. A task waits only for tasks with
// smaller tickets, so there is no deadlock for any number of blocks. A full pool halts the kernel; the host enlarges it and
// continues with the rows that are not finished.
// Source: Thuerck et al. 2018, algorithm 1 and section 4.
#include "factor/ildl/budgets.cuh"
#include "factor/ildl/row_columns.cuh"

namespace ms::ildl {

constexpr int trimmed_together = 8;       // rows of one task

// Subtracts the updates of all rows above in ascending order, each as soon as that row is finished; false if the kernel halts.
__device__ __forceinline__ bool pull_all(const Rows& R, const Row& row, const Shared& S) {
  for (int q = 0; q < row.above_count; ++q) {
    if (!wait_for(R, row.above[q])) return false;
    pull(R, row, S, row.above[q]);
  }
  return true;
}

// Computes one block row; false if a pool is full or the kernel halts.
__device__ __forceinline__ bool make_row(const Rows& R, int i, const Shared& S, Buffer& buffer) {
  __shared__ int columns;
  Row row;
  if (!begin_row(R, i, S, buffer, row)) return false;
  place_matrix(R, row, S);
  if (!pull_all(R, row, S)) return false;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int changed = 0;
  if (warp == static_cast<int>(blockDim.x >> 5) - 1) {      // the last warp counts while the first factors the tile
    const int sum = count_columns(row, lane);
    if (lane == 0) columns = sum;
  }
  if (warp == 0) changed = factor_tile(R, row, S);
  __syncthreads();
  row.columns = columns;
  list_columns(R, row);
  for (int p = threadIdx.x; p < row.m * row.m; p += blockDim.x) R.own[R.square[i] + p] = S.factor[p % row.m + p / row.m * R.lead];
  long long mine = 0, lost = 0;
  if (!(R.lead == few_rows ? make_columns<few_rows>(R, row, S, mine) : make_columns<most_rows>(R, row, S, mine))) return false;
  block_exclusive(mine, lost);
  if (threadIdx.x == 0 && changed) atomicAdd(R.state + perturbed, static_cast<unsigned long long>(changed));
  if (threadIdx.x == 0 && lost) atomicAdd(R.state + dropped, static_cast<unsigned long long>(lost));
  return true;
}

// The next task; -1 if no task is left or the kernel halts. Tasks of trimming wait until the rows of their depth are finished.
__device__ __forceinline__ int next_task(const Rows& R) {
  __shared__ int task;
  if (threadIdx.x == 0) {
    const unsigned long long mine = atomicAdd(R.state + ticket, 1ull);
    task = mine < static_cast<unsigned long long>(R.tasks) ? static_cast<int>(mine) : -1;
    if (task >= 0 && R.task_item[task] < 0) {
      const unsigned long long from = 2ull * R.task_depth[task] + 1;
      Timeout timeout(R.stalled);
      timeout.left = most_polls;
      if (!timeout.until([&] { return R.now(progress) >= from || R.now(halt) != 0; })) task = -1;
    }
    if (R.now(halt) != 0) task = -1;
  }
  __syncthreads();
  const int mine = task;
  __syncthreads();
  return mine;
}

// True for the last of `all` thread blocks that finish their part of a depth.
__device__ __forceinline__ bool last_of(int* done, int all) {
  __shared__ int last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();                      // makes the writes of this block visible before its count
    last = atomicAdd(done, 1) == all - 1;
    __threadfence();                      // makes the writes of the other blocks visible to this one
  }
  __syncthreads();
  return last;
}

// Releases the tasks that wait for `stage`. A barrier must follow the last write of other threads: last_of() and share() have one.
__device__ __forceinline__ void publish(const Rows& R, unsigned long long stage) {
  if (threadIdx.x != 0) return;
  __threadfence();
  atomicExch(R.state + progress, stage);
}

// Marks row i as finished; make_row() ends with a barrier. Other blocks may read it; with budgets, after those of its depth are distributed.
__device__ __forceinline__ void end_row(const Rows& R, int i, int depth) {
  if (threadIdx.x == 0) {
    __threadfence();
    static_cast<volatile int*>(R.done)[i] = depth + 1;
  }
  if (R.budgets() && last_of(R.finished + depth, R.depth_ptr[depth + 1] - R.depth_ptr[depth]))
    publish(R, 2ull * depth + (share(R, depth) > 0 ? 1 : 2));
}

__device__ __forceinline__ void trim_rows(const Rows& R, int depth, int item) {
  if (R.now(progress) > 2ull * depth + 1) return;           // no row of this depth is trimmed; the same for all threads of the block
  const int from = R.depth_ptr[depth], to = R.depth_ptr[depth + 1];
  for (int t = from + item * trimmed_together; t < min(to, from + (item + 1) * trimmed_together); ++t)
    if (R.keep[R.order[t]] >= 0) trim(R, R.order[t]);
  if (last_of(R.trimmed + depth, (to - from + trimmed_together - 1) / trimmed_together)) publish(R, 2ull * depth + 2);
}

}  // namespace ms::ildl

using namespace ms;
using namespace ms::ildl;

extern "C" __global__ void __launch_bounds__(most_threads)
k_factor_rows(const long long* a_ptr, const int* a_idx, const double* a_value, const int* begin, const int* tile_of,
              const long long* ptr, const int* column, const long long* above_ptr, const int* above, const int* order,
              const int* depth_ptr, const int* task_depth, const int* task_item, int tasks, int cap, int lead, int width,
              int round, int words_capacity, int pivoting, double droptol, double max_fill, int* count, long long* first_name,
              long long* first_value, int* name, double* size, double* value, double* scaled, long long names_capacity,
              long long values_capacity, const long long* square, double* own, double* d, double* e, int* eliminated, double* work,
              long long work_capacity, int* done, int* finished, int* trimmed, int* keep, unsigned long long* state, int* stalled) {
  extern __shared__ double shared[];
  __shared__ Buffer panel;
  const Rows R{a_ptr, a_idx, a_value, begin, tile_of, ptr, column, above_ptr, above, order, depth_ptr, task_depth, task_item, tasks,
               cap, lead, width, round, words_capacity, pivoting, droptol, max_fill, count, first_name, first_value, name, size, value,
               scaled, names_capacity, values_capacity, square, own, d, e, eliminated, work, work_capacity, done, finished, trimmed, keep,
               state, stalled};
  const Shared S(shared, lead, round, words_capacity);
  if (threadIdx.x == 0) panel.capacity = panel.at = 0;
  for (int task = next_task(R); task >= 0; task = next_task(R)) {
    const int depth = task_depth[task], item = task_item[task];
    if (item < 0) {
      trim_rows(R, depth, ~item);
      continue;
    }
    if (R.is_made(order[item])) continue;                   // finished before the kernel halted
    if (!make_row(R, order[item], S, panel)) {
      if (threadIdx.x == 0) atomicExch(state + halt, 1ull);
      return;
    }
    end_row(R, order[item], depth);
  }
}

// Columns of L in the order of elimination, without the diagonal tiles: their lengths, then rows and minus the values. A group of
// `width` lanes per tile, one lane per row.
extern "C" __global__ void __launch_bounds__(256)
k_column_lengths(int tiles, int width, const int* begin, const int* count, const long long* first_value, const double* value,
                 long long* length) {
  for (long long p = grid_begin(); p < static_cast<long long>(tiles) * width; p += grid_step()) {
    const int i = static_cast<int>(p / width), r = static_cast<int>(p % width), m = begin[i + 1] - begin[i];
    if (r >= m) continue;
    const double* const u = value + first_value[i] + r;
    long long nonzero = 0;
    for (long long q = 0; q < count[i]; ++q) nonzero += u[q * m] != 0;
    length[begin[i] + r] = nonzero;
  }
}

extern "C" __global__ void __launch_bounds__(256)
k_fill_columns(int tiles, int width, const int* begin, const int* count, const long long* first_name,
               const long long* first_value, const int* name, const double* value, const int* position, const long long* start,
               int* rows, double* minus) {
  for (long long p = grid_begin(); p < static_cast<long long>(tiles) * width; p += grid_step()) {
    const int i = static_cast<int>(p / width), r = static_cast<int>(p % width), m = begin[i + 1] - begin[i];
    if (r >= m) continue;
    const double* const u = value + first_value[i] + r;
    long long to = start[begin[i] + r];
    for (long long q = 0; q < count[i]; ++q)
      if (const double x = u[q * m]; x != 0) {
        const int found = name[first_name[i] + q];
        rows[to] = position[begin[found / most_rows] + found % most_rows];
        minus[to++] = -x;
      }
  }
}
