// Numeric phase of the incomplete factorization on the GPU. Host counterpart: incomplete.cpp, with the same pivots, kept entries and
// values (to the bit if the C++ compiler fuses no products). One launch computes the whole factorization.
//   row     a block per block row of a tile, with a slot for each column of the tiles that may fill: takes what rows above
//           contribute in ascending order, each as soon as it is made, and marks the columns that these bring; the first warp
//           factors the tile; a thread solves for a column; small entries go, what is left moves into the pool of finished rows
//   share   the block that finishes the last row of a depth hands out what rows left of their budgets: the sum and the maximum
//           of prefixes say for each row what those before it have left over
//   trim    rows above their budgets lose their smallest columns
// Depths are long chains of few rows: what counts is the time from one row to the next, hence all blocks work ahead, each on a
// row of its own. Tasks stand in one list, depth after depth, and are taken by tickets: a task waits for tasks of smaller tickets
// only, so that any number of blocks makes progress. A pool that is full halts all; the host grows it and goes on with the rows
// that are not made yet.
// Source: Thuerck et al. 2018, algorithm 1 and section 4.
#include "factor/ildl/budgets.cuh"
#include "factor/ildl/row_columns.cuh"

namespace ms::ildl {

constexpr int trimmed_together = 8;       // rows of one task

// What all rows above contribute, in ascending order, each as soon as it is made; false: the kernel halts.
__device__ __forceinline__ bool pull_all(const Rows& R, const Row& row, const Shared& S) {
  for (int q = 0; q < row.above_count; ++q) {
    if (!wait_for(R, row.above[q])) return false;
    pull(R, row, S, row.above[q]);
  }
  return true;
}

// All of one block row; false: out of memory, or the kernel halts for lack of it.
__device__ __forceinline__ bool make_row(const Rows& R, int i, const Shared& S, Buffer& buffer) {
  __shared__ int columns;
  Row row;
  if (!begin_row(R, i, S, buffer, row)) return false;
  place_matrix(R, row, S);
  if (!pull_all(R, row, S)) return false;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int changed = 0;
  if (warp == static_cast<int>(blockDim.x >> 5) - 1) {      // the last warp, while the first factors the tile
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

// The next task, -1: none is left or the kernel halts. Tasks of trimming wait until the rows of their depth are made.
__device__ __forceinline__ int next_task(const Rows& R) {
  __shared__ int task;
  if (threadIdx.x == 0) {
    const unsigned long long mine = atomicAdd(R.state + ticket, 1ull);
    task = mine < static_cast<unsigned long long>(R.tasks) ? static_cast<int>(mine) : -1;
    if (task >= 0 && R.task_item[task] < 0) {
      const unsigned long long from = 2ull * R.task_depth[task] + 1;
      Patience waiting(R.stalled);
      waiting.left = patient;
      if (!waiting.until([&] { return R.now(progress) >= from || R.now(halt) != 0; })) task = -1;
    }
    if (R.now(halt) != 0) task = -1;
  }
  __syncthreads();
  const int mine = task;
  __syncthreads();
  return mine;
}

// Whether this block is the last of `all` to have done its part of a depth.
__device__ __forceinline__ bool last_of(int* done, int all) {
  __shared__ int last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();                      // what the block wrote is there before it counts
    last = atomicAdd(done, 1) == all - 1;
    __threadfence();                      // and what the others wrote is seen
  }
  __syncthreads();
  return last;
}

// Lets tasks go on from `stage`.
__device__ __forceinline__ void publish(const Rows& R, unsigned long long stage) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  atomicExch(R.state + progress, stage);
}

// Row i is made: others may read it, with budgets once those of its depth have been handed out.
__device__ __forceinline__ void end_row(const Rows& R, int i, int depth) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    static_cast<volatile int*>(R.done)[i] = depth + 1;
  }
  if (R.budgets() && last_of(R.finished + depth, R.depth_ptr[depth + 1] - R.depth_ptr[depth]))
    publish(R, 2ull * depth + (share(R, depth) > 0 ? 1 : 2));
}

__device__ __forceinline__ void trim_rows(const Rows& R, int depth, int item) {
  if (R.now(progress) > 2ull * depth + 1) return;           // nothing to do at this depth; one answer, as this task is part of it
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
              int round, int words_room, int pivoting, double droptol, double max_fill, int* count, long long* first_name,
              long long* first_value, int* name, double* size, double* value, double* scaled, long long names_room,
              long long values_room, const long long* square, double* own, double* d, double* e, int* eliminated, double* work,
              long long work_room, int* done, int* finished, int* trimmed, int* keep, unsigned long long* state, int* stalled) {
  extern __shared__ double shared[];
  __shared__ Buffer panel;
  const Rows R{a_ptr, a_idx, a_value, begin, tile_of, ptr, column, above_ptr, above, order, depth_ptr, task_depth, task_item, tasks,
               cap, lead, width, round, words_room, pivoting, droptol, max_fill, count, first_name, first_value, name, size, value,
               scaled, names_room, values_room, square, own, d, e, eliminated, work, work_room, done, finished, trimmed, keep,
               state, stalled};
  const Shared S(shared, lead, round, words_room);
  if (threadIdx.x == 0) panel.capacity = panel.at = 0;
  for (int task = next_task(R); task >= 0; task = next_task(R)) {
    const int depth = task_depth[task], item = task_item[task];
    if (item < 0) {
      trim_rows(R, depth, ~item);
      continue;
    }
    if (R.is_made(order[item])) continue;                   // before the kernel halted
    if (!make_row(R, order[item], S, panel)) {
      if (threadIdx.x == 0) atomicExch(state + halt, 1ull);
      return;
    }
    end_row(R, order[item], depth);
  }
}

// Columns of L in the order of elimination, own tile left out: their lengths, then rows and minus the values. A group of `width`
// lanes per tile, a lane per row.
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
