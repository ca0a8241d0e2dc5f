// One block row of the incomplete factorization by one thread block: its columns, values and pivots.
#pragma once
#include "factor/ildl/tile.cuh"

namespace ms::ildl {

// Elements of `state`, with the same numbers as in cuda.py. `progress`, if rows have budgets: 2 d + 1 if all rows of depth d are
// computed; 2 d + 2 if they are trimmed, so that rows of depth d + 1 may read them.
enum State { ticket, progress, halt, spare, names_used, values_used, perturbed, dropped, work_used, state_size };

constexpr long long most_polls = 100000000;  // polls after which a wait counts as a stall: a chain of rows may take long
constexpr int most_threads = 256;         // threads of a block
constexpr int chunk = 64;                 // columns of a row above that are multiplied together
constexpr int together = 4;               // rows of the tile that a thread updates with one column
constexpr int padding = 8;                // of rows in shared memory: partial sums of consecutive rows have different banks
constexpr int few_rows = 8;               // tiles are padded to so many rows, if no tile has more
constexpr int most_rows = 32;             // rows of a tile; `name` of a column: its tile times this, plus its index in the tile

struct Rows {
  // the matrix in the new numbering, the coarse pattern, the tasks
  const long long* a_ptr;
  const int* a_idx;
  const double* a_value;
  const int *begin, *tile_of;
  const long long* ptr;
  const int* column;
  const long long* above_ptr;
  const int *above, *order, *depth_ptr;
  const int *task_depth, *task_item;      // item >= 0: the row at that position of `order`; ~item: the item-th task of trimming
  int tasks, cap, lead;                   // cap: most rows of a tile; lead: rows of a tile that fit in shared memory
  int width, round, words_capacity, pivoting; // width: lanes for the rows of a tile; round: columns solved together
  double droptol, max_fill;               // max_fill < 0: no budgets
  // finished rows, as `Tile` in incomplete.hpp, in pools; `scaled`: D times the values; `size`: the largest absolute value of a
  // column
  int* count;
  long long *first_name, *first_value;
  int* name;
  double *size, *value, *scaled;
  long long names_capacity, values_capacity;
  const long long* square;
  double *own, *d, *e;
  int* eliminated;
  // workspace
  double* work;
  long long work_capacity;
  int* done;                              // 1 + depth of each finished row
  int *finished, *trimmed;                // with budgets: finished rows and finished tasks of trimming of each depth
  int* keep;                              // columns that a row may keep; -1 for all
  unsigned long long* state;
  int* stalled;

  __device__ unsigned long long now(State what) const { return *static_cast<volatile unsigned long long*>(state + what); }
  __device__ bool budgets() const { return max_fill >= 0; }
  __device__ bool is_made(int k) const { return done[k] != 0; }
  // True if other blocks may read row k.
  __device__ bool is_final(int k) const {
    const int after = static_cast<volatile int*>(done)[k];
    return after != 0 && (!budgets() || now(progress) >= 2ull * after);
  }
};

// Memory of a thread block in the workspace. It grows if a row needs more than the rows before.
struct Buffer {
  long long at, capacity;
};

// Arrays of a thread block in dynamic shared memory, of at most `lead` rows.
struct Shared {
  double *tile, *factor, *d, *e, *ratio, *divisor, *inverse, *norm, *parts;
  double* x;                              // columns of a row above by rows, or squares
  int *order, *mate;                      // mate: offset 1 or -1 to the other row of a 2x2 pivot, 0 for a 1x1 pivot
  int* tame;                              // 1 if all divisors are far from the ends of the range (division.cuh)
  int *row, *target;                      // rows of the tile that a row above updates, and slots of the columns of a chunk
  unsigned* words;
  int *before, *allowed;

  __device__ Shared(double* base, int lead, int round, int words_capacity) {
    tile = base;
    factor = tile + lead * lead;
    d = factor + lead * (lead + 1);
    e = d + lead;
    ratio = e + lead;
    divisor = ratio + lead;
    inverse = divisor + lead;
    norm = inverse + lead;
    parts = norm + lead;
    x = parts + norm_parts * lead;
    order = reinterpret_cast<int*>(x + lead * (max(round, chunk) + padding));
    mate = order + lead;
    tame = mate + lead;
    row = tame + 1;
    target = row + lead;
    words = reinterpret_cast<unsigned*>(target + chunk);
    before = reinterpret_cast<int*>(words + words_capacity);
    allowed = before + words_capacity;
  }
};

__device__ __forceinline__ long long block_exclusive(long long value, long long& total) {
  return block_exclusive_sum(value, total);
}

// Reserves `need` doubles of workspace for the thread block; false if the pool is full.
__device__ __forceinline__ bool reserve(const Rows& R, Buffer& buffer, long long need) {
  __shared__ int enough;
  if (threadIdx.x == 0) {
    enough = 1;
    if (buffer.capacity < need) {
      const long long grown = need + need / 2;
      buffer.at = static_cast<long long>(atomicAdd(R.state + work_used, static_cast<unsigned long long>(grown)));
      buffer.capacity = grown;
      enough = buffer.at + grown <= R.work_capacity;
    }
  }
  __syncthreads();
  return enough;
}

// ---- the columns of a block row

struct Row {
  int i, begin, end, m, above_count, tiles, slots;
  const int *above, *allowed;             // rows above; tiles that may fill, ascending, in shared memory if they fit
  unsigned* words;                        // one bit for each column of these tiles
  int* before;                            // number of marked columns before each word
  double* panel;                          // m x slots by rows: one slot for each column of these tiles
  int* slot;                              // slots of the marked columns, ascending
  int columns;

  // Marks a column, given by its name, and returns its slot; -1 if the row may not fill it.
  __device__ int slot_of(const Rows& R, int name) const {
    const int t = name / most_rows, at = name % most_rows, word = lower_bound(allowed, tiles, t);
    if (word == tiles || allowed[word] != t) return -1;
    const unsigned bit = 1u << at;
    if (!(static_cast<volatile unsigned*>(words)[word] & bit)) atomicOr(words + word, bit);
    return word * R.cap + at;
  }
  __device__ int name_of(const Rows& R, int slot) const {
    const int word = slot / R.cap;
    return allowed[word] * most_rows + slot - word * R.cap;
  }
};

// Begins a row with zeros in its memory; false if the pool is full.
__device__ __forceinline__ bool begin_row(const Rows& R, int i, const Shared& S, Buffer& buffer, Row& row) {
  row.i = i;
  row.begin = R.begin[i];
  row.end = R.begin[i + 1];
  row.m = row.end - row.begin;
  row.above = R.above + R.above_ptr[i];
  row.above_count = static_cast<int>(R.above_ptr[i + 1] - R.above_ptr[i]);
  row.allowed = R.column + R.ptr[i];
  row.tiles = static_cast<int>(R.ptr[i + 1] - R.ptr[i]);
  row.slots = row.tiles * R.cap;
  const bool in_shared = row.tiles <= R.words_capacity;
  const long long size = static_cast<long long>(row.m) * row.slots;
  if (!reserve(R, buffer, size + (row.slots + 1) / 2 + (in_shared ? 0 : row.tiles))) return false;
  row.panel = R.work + buffer.at;
  row.slot = reinterpret_cast<int*>(row.panel + size);
  row.words = in_shared ? S.words : reinterpret_cast<unsigned*>(row.slot + row.slots);
  row.before = in_shared ? S.before : row.slot + row.slots + row.tiles;
  for (int j = threadIdx.x; j < row.tiles; j += blockDim.x) {
    row.words[j] = 0;
    if (in_shared) S.allowed[j] = row.allowed[j];
  }
  if (in_shared) row.allowed = S.allowed;
  for (long long p = threadIdx.x; p < size; p += blockDim.x) row.panel[p] = 0;
  for (int p = threadIdx.x; p < R.lead * R.lead; p += blockDim.x) S.tile[p] = 0;
  __syncthreads();
  return true;
}

// Counts the marked columns, by one warp.
__device__ __forceinline__ int count_columns(const Row& row, int lane) {
  int sum = 0;
  for (int base = 0; base < row.tiles; base += 32) {
    const int j = base + lane, own = j < row.tiles ? __popc(row.words[j]) : 0, inclusive = warp_inclusive_sum(own);
    if (j < row.tiles) row.before[j] = sum + inclusive - own;
    sum += __shfl_sync(full_warp, inclusive, 31);
  }
  return sum;
}

__device__ __forceinline__ void list_columns(const Rows& R, const Row& row) {
  for (int j = threadIdx.x; j < row.tiles; j += blockDim.x) {
    int at = row.before[j];
    for (unsigned left = row.words[j]; left; left &= left - 1) row.slot[at++] = j * R.cap + __ffs(static_cast<int>(left)) - 1;
  }
}

// ---- the values of a block row

__device__ __forceinline__ void place_matrix(const Rows& R, const Row& row, const Shared& S) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  for (int r = warp; r < row.m; r += warps)
    for (long long p = R.a_ptr[row.begin + r] + lane; p < R.a_ptr[row.begin + r + 1]; p += 32) {
      const int c = R.a_idx[p];
      if (c >= row.end) {
        const int t = R.tile_of[c], slot = row.slot_of(R, t * most_rows + c - R.begin[t]);
        row.panel[static_cast<long long>(r) * row.slots + slot] = R.a_value[p];
      } else if (c >= row.begin) {
        S.tile[r + (c - row.begin) * R.lead] = R.a_value[p];
      }
    }
  __syncthreads();
}

// Waits for row k above. Returns false if the kernel halts or has stalled.
__device__ __forceinline__ bool wait_for(const Rows& R, int k) {
  __shared__ int is_final;
  if (threadIdx.x == 0) {
    Timeout timeout(R.stalled);
    timeout.left = most_polls;
    timeout.longest = 128;
    is_final = timeout.until([&] { return R.is_final(k) || R.now(halt) != 0; }) && R.is_final(k);
  }
  __syncthreads();
  const bool ready = is_final;
  __syncthreads();
  return ready;
}

// Copies `count` columns of `rows` entries each to shared memory, by rows of `stride`. Loads of several columns are in flight at
// once.
__device__ __forceinline__ void stage(const Rows& R, const double* from, int count, int rows, double* to, int stride) {
  const int l = threadIdx.x & (R.width - 1), step = blockDim.x / R.width;
  for (int base = threadIdx.x / R.width; base < count; base += together * step) {
    double x[together];
#pragma unroll
    for (int j = 0; j < together; ++j)
      x[j] = base + j * step < count && l < rows ? from[static_cast<long long>(base + j * step) * rows + l] : 0;
#pragma unroll
    for (int j = 0; j < together; ++j)
      if (base + j * step < count && l < rows) to[l * stride + base + j * step] = x[j];
  }
}

// A thread's part of a chunk: one column of the row above, `together` rows of the tile.
__device__ __forceinline__ void update(const Row& row, const Shared& S, int t, int c, int hits, int rows, int lead) {
  const int target = S.target[t];
  if (target == -1) return;
  double* to[together];
  double value[together], sum[together];
#pragma unroll
  for (int j = 0; j < together; ++j) {
    const int r = S.row[min(c + j, hits - 1)];
    to[j] = target >= 0 ? row.panel + static_cast<long long>(r) * row.slots + target : S.tile + r + (-2 - target) * lead;
    value[j] = *to[j];
    sum[j] = 0;
  }
  const double *x = S.x + t, *w = S.factor + c;             // reads beyond the last hit are not used
#pragma unroll 4
  for (int l = 0; l < rows; ++l, x += chunk + 1, w += lead + 1) {
    const double known = *x;
#pragma unroll
    for (int j = 0; j < together; ++j) sum[j] += times(w[j], known);
  }
#pragma unroll
  for (int j = 0; j < together; ++j)
    if (c + j < hits) *to[j] = value[j] - sum[j];
}

// Subtracts the update of row k above: U(:, hits)^T D U(:, t) for its columns t from the tile on.
__device__ __forceinline__ void pull(const Rows& R, const Row& row, const Shared& S, int k) {
  const int count = R.count[k], rows = R.begin[k + 1] - R.begin[k];
  const int* const names = R.name + R.first_name[k];
  const long long first = R.first_value[k];
  int from = 0, stop = 0;
  for (int base = 0; base < count; base += blockDim.x) {
    const int t = base + threadIdx.x, tile = t < count ? names[t] / most_rows : row.i + 1;
    from += __syncthreads_count(tile < row.i);
    stop += __syncthreads_count(tile <= row.i);
  }
  const int hits = stop - from;
  if (hits == 0) return;
  const int* const name = names + from;
  const long long at = first + static_cast<long long>(from) * rows;
  stage(R, R.scaled + at, hits, rows, S.factor, R.lead + 1);
  for (int c = threadIdx.x; c < hits; c += blockDim.x) S.row[c] = name[c] % most_rows;
  for (int base = 0; base < count - from; base += chunk) {
    const int columns = min(chunk, count - from - base);
    stage(R, R.value + at + static_cast<long long>(base) * rows, columns, rows, S.x, chunk + 1);
    for (int t = threadIdx.x; t < columns; t += blockDim.x)
      S.target[t] = base + t < hits ? -2 - name[t] % most_rows : row.slot_of(R, name[base + t]);
    __syncthreads();
    for (int p = threadIdx.x; p < columns * ((hits + together - 1) / together); p += blockDim.x)
      update(row, S, p % columns, p / columns * together, hits, rows, R.lead);
    __syncthreads();
  }
}

// Chooses the pivots of the tile by the first warp, and stores L, D and the order. Thread 0 returns the number of perturbed
// pivots.
__device__ __forceinline__ int factor_tile(const Rows& R, const Row& row, const Shared& S) {
  WarpTile tile(row.m, R.lead, S.tile, S.factor, S.d, S.e, S.order);
  tile.factor(static_cast<Pivoting>(R.pivoting));
  const int r = tile.lane;
  if (r < R.lead) {
    const bool first = S.e[r] != 0, second = r > 0 && S.e[r - 1] != 0;
    const int a = second ? r - 1 : r;     // first row of the pivot
    S.mate[r] = first ? 1 : second ? -1 : 0;
    S.divisor[r] = first || second ? scaled_determinant(S.d[a], S.e[a], S.d[a + 1]) : S.d[r];
    S.inverse[r] = 1 / S.divisor[r];
    S.ratio[r] = first || second ? S.d[first ? a + 1 : a] / S.e[a] : 0.0;
  }
  const bool tame = __all_sync(full_warp, r >= R.lead || (S.divisor[r] != 0 && is_tame(S.divisor[r])));
  if (r == 0) *S.tame = tame;
  if (r < row.m) {
    R.d[row.begin + r] = S.d[r];
    R.e[row.begin + r] = S.e[r];
    R.eliminated[row.begin + r] = row.begin + S.order[r];
  }
  return tile.perturbed;
}

}  // namespace ms::ildl
