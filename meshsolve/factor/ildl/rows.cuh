// One block row of the incomplete factorization by one block: the columns that it has, its values and pivots, and what is
// kept.
#pragma once
#include "factor/ildl/tile.cuh"

namespace ms::ildl {

// What `state` holds; cuda.py knows the same numbers. `progress`: 2 d, rows of depth d may run; 2 d + 1, they are trimmed. From
// `before` on: the four counters from names_used on as they were when the depth began.
enum State { ticket, progress, halt, spare, names_used, values_used, perturbed, dropped, before, work_used = 12, state_size };

struct Rows {
  // the matrix in new numbers, the coarse pattern, the tasks
  const long long* a_ptr;
  const int* a_idx;
  const double* a_value;
  const int *begin, *tile_of;
  const long long* ptr;
  const int* column;
  const long long* above_ptr;
  const int *above, *order, *depth_ptr;
  const int *task_depth, *task_item;      // item >= 0: the row at that place of `order`; ~item: the item-th task of trimming
  int tasks, cap, width, words_room, pivoting;
  double droptol, max_fill;               // max_fill < 0: no budgets
  // finished rows, as `Tile` in incomplete.hpp, in pools; `size`: the largest modulus of a column
  int* count;
  long long *first_name, *first_value;
  int* name;
  double *size, *value;
  long long names_room, values_room;
  const long long* square;
  double *own, *d, *e;
  int* eliminated;
  // workspace
  double* work;
  long long work_room;
  int *finished, *trimmed, *keep;         // rows done and trimming tasks done of each depth; columns a row may keep, -1: all
  unsigned long long* state;
  int* stalled;

  __device__ unsigned long long now(State what) const { return *static_cast<volatile unsigned long long*>(state + what); }
  __device__ bool budgets() const { return max_fill >= 0; }
};

// Memory of a block in the workspace: grows where a row needs more than those before it.
struct Buffer {
  long long at, room;
};

// What a block keeps in dynamic shared memory; cap rows at most.
struct Shared {
  double *tile, *factor, *d, *e, *ratio, *divisor, *norm, *parts;
  int *order, *mate;                      // mate: 1 or -1 to the other row of its pivot, 0: alone
  unsigned* words;
  int* before;

  __device__ Shared(double* base, int cap, int words_room) {
    tile = base;
    factor = tile + cap * cap;
    d = factor + cap * cap;
    e = d + cap;
    ratio = e + cap;
    divisor = ratio + cap;
    norm = divisor + cap;
    parts = norm + cap;
    order = reinterpret_cast<int*>(parts + norm_parts * cap);
    mate = order + cap;
    words = reinterpret_cast<unsigned*>(mate + cap);
    before = reinterpret_cast<int*>(words + words_room);
  }
};

__device__ __forceinline__ long long block_exclusive(long long value, long long& total) {
  return block_exclusive_sum(value, total);
}

// `need` doubles of workspace for the block; false: the pool is full.
__device__ __forceinline__ bool reserve(const Rows& R, Buffer& buffer, long long need) {
  __shared__ int enough;
  if (threadIdx.x == 0) {
    enough = 1;
    if (buffer.room < need) {
      const long long grown = need + need / 2;
      buffer.at = static_cast<long long>(atomicAdd(R.state + work_used, static_cast<unsigned long long>(grown)));
      buffer.room = grown;
      enough = buffer.at + grown <= R.work_room;
    }
  }
  __syncthreads();
  return enough;
}

// ---- which columns a block row has

struct Row {
  int i, begin, end, m, above_count, tiles;
  const int *above, *allowed;             // rows above; tiles that may fill, ascending
  unsigned* words;                        // a bit for each column of each of them
  int* before;                            // columns before those of the word
  int *from, *hits;                       // of each row above: its first column from `begin` on, and how many lie in the tile
  long long columns;
  int* name;                              // the columns, ascending
  int* place;                             // where they go, or -1
  double* panel;                          // m x columns

  // The word of a column and its bit in it; the word is -1 where the row may not fill it.
  __device__ int word_of(const Rows& R, int c, unsigned& bit) const {
    const int t = R.tile_of[c], at = lower_bound(allowed, tiles, t);
    if (at == tiles || allowed[at] != t) return -1;
    bit = 1u << (c - R.begin[t]);
    return at;
  }
  __device__ void mark(const Rows& R, int c) const {
    unsigned bit = 0;
    const int at = word_of(R, c, bit);
    if (at >= 0) atomicOr(words + at, bit);
  }
  __device__ double* panel_of(const Rows& R, int c) const {
    unsigned bit = 0;
    const int at = word_of(R, c, bit);
    return at < 0 ? nullptr : panel + static_cast<long long>(before[at] + __popc(words[at] & (bit - 1))) * m;
  }
};

__device__ __forceinline__ Row row_of(const Rows& R, int i) {
  Row row;
  row.i = i;
  row.begin = R.begin[i];
  row.end = R.begin[i + 1];
  row.m = row.end - row.begin;
  row.above = R.above + R.above_ptr[i];
  row.above_count = static_cast<int>(R.above_ptr[i + 1] - R.above_ptr[i]);
  row.allowed = R.column + R.ptr[i];
  row.tiles = static_cast<int>(R.ptr[i + 1] - R.ptr[i]);
  row.columns = 0;
  return row;
}

// Marks all columns: a warp takes a row of A or a row above.
__device__ __forceinline__ void mark_columns(const Rows& R, const Row& row) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  for (int j = threadIdx.x; j < row.tiles; j += blockDim.x) row.words[j] = 0;
  __syncthreads();
  for (long long p = R.a_ptr[row.begin] + threadIdx.x; p < R.a_ptr[row.end]; p += blockDim.x)
    if (R.a_idx[p] >= row.end) row.mark(R, R.a_idx[p]);
  for (int q = warp; q < row.above_count; q += warps) {
    const int k = row.above[q], count = R.count[k];
    const int* const name = R.name + R.first_name[k];
    const int from = lower_bound(name, count, row.begin), stop = from + lower_bound(name + from, count - from, row.end);
    if (lane == 0) {
      row.from[q] = from;
      row.hits[q] = stop - from;
    }
    if (stop > from)
      for (int t = stop + lane; t < count; t += 32) row.mark(R, name[t]);
  }
  __syncthreads();
}

// Counts them and lays them out in a panel of zeros; false: no room.
__device__ __forceinline__ bool lay_out(const Rows& R, Row& row, Buffer& panel) {
  long long sum = 0;
  for (int base = 0; base < row.tiles; base += blockDim.x) {
    const int j = base + threadIdx.x;
    long long total;
    const long long place = block_exclusive(j < row.tiles ? __popc(row.words[j]) : 0, total);
    if (j < row.tiles) row.before[j] = static_cast<int>(sum + place);
    sum += total;
  }
  row.columns = sum;
  if (!reserve(R, panel, sum * (row.m + 1))) return false;
  row.panel = R.work + panel.at;
  row.name = reinterpret_cast<int*>(row.panel + sum * row.m);
  row.place = row.name + sum;
  for (long long p = threadIdx.x; p < sum * row.m; p += blockDim.x) row.panel[p] = 0;
  for (int j = threadIdx.x; j < row.tiles; j += blockDim.x) {
    int at = row.before[j];
    const int first = R.begin[row.allowed[j]];
    for (unsigned left = row.words[j]; left; left &= left - 1) row.name[at++] = first + __ffs(static_cast<int>(left)) - 1;
  }
  __syncthreads();
  return true;
}

// ---- its values

__device__ __forceinline__ void place_matrix(const Rows& R, const Row& row, const Shared& S) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5, m = row.m;
  for (int p = threadIdx.x; p < m * m; p += blockDim.x) S.tile[p] = 0;
  __syncthreads();
  for (int r = warp; r < m; r += warps)
    for (long long p = R.a_ptr[row.begin + r] + lane; p < R.a_ptr[row.begin + r + 1]; p += 32) {
      const int c = R.a_idx[p];
      if (c >= row.begin) (c < row.end ? S.tile[r + (c - row.begin) * m] : row.panel_of(R, c)[r]) = R.a_value[p];
    }
  __syncthreads();
}

// The row minus what row k above contributes: -U(:, hits)^T D U(:, t) for its columns t from the tile on.
__device__ __forceinline__ void pull(const Rows& R, const Row& row, const Shared& S, int q) {
  const int k = row.above[q], from = row.from[q], hits = row.hits[q], first = R.begin[k], rows = R.begin[k + 1] - first,
      m = row.m;
  const int* const name = R.name + R.first_name[k] + from;
  const double *const u = R.value + R.first_value[k] + static_cast<long long>(from) * rows, *const d = R.d + first,
               *const e = R.e + first;
  for (int p = threadIdx.x; p < hits * rows; p += blockDim.x) {
    const int c = p % hits, l = p / hits;
    const double* const x = u + c * rows;
    double w = 0;
    if (e[l] != 0)
      w = times(d[l], x[l]) + times(e[l], x[l + 1]);
    else if (l > 0 && e[l - 1] != 0)
      w = times(e[l - 1], x[l - 1]) + times(d[l], x[l]);
    else
      w = times(d[l], x[l]);
    S.factor[p] = w;                      // (hits x rows): neighbouring threads read neighbours
  }
  __syncthreads();
  const int items = (R.count[k] - from) * hits;
  for (int p = threadIdx.x; p < items; p += blockDim.x) {
    const int t = p / hits, c = p - t * hits, there = name[t], r = name[c] - row.begin;
    double* target = S.tile + r + (there - row.begin) * m;
    if (there >= row.end) {
      double* const column = row.panel_of(R, there);
      if (!column) continue;
      target = column + r;
    }
    const double* const x = u + static_cast<long long>(t) * rows;
    double sum = 0;
    for (int l = 0; l < rows; ++l) sum += times(S.factor[l * hits + c], x[l]);
    *target -= sum;
  }
  __syncthreads();
}

// Pivots of the tile by the first warp; L, D and the order to where finished ones lie.
__device__ __forceinline__ void factor_tile(const Rows& R, const Row& row, const Shared& S) {
  if (threadIdx.x < 32) {
    WarpTile tile(row.m, S.tile, S.factor, S.d, S.e, S.order);
    tile.factor(static_cast<Pivoting>(R.pivoting));
    const int r = tile.lane;
    if (r == 0 && tile.perturbed) atomicAdd(R.state + perturbed, static_cast<unsigned long long>(tile.perturbed));
    if (r < row.m) {
      const bool first = S.e[r] != 0, second = r > 0 && S.e[r - 1] != 0;
      const int a = second ? r - 1 : r;   // the pivot begins there
      S.mate[r] = first ? 1 : second ? -1 : 0;
      S.divisor[r] = first || second ? scaled_determinant(S.d[a], S.e[a], S.d[a + 1]) : S.d[r];
      S.ratio[r] = first || second ? S.d[first ? a + 1 : a] / S.e[a] : 0.0;
      R.d[row.begin + r] = S.d[r];
      R.e[row.begin + r] = S.e[r];
      R.eliminated[row.begin + r] = row.begin + S.order[r];
    }
  }
  __syncthreads();
  for (int p = threadIdx.x; p < row.m * row.m; p += blockDim.x) R.own[R.square[row.i] + p] = S.factor[p];
}

// Columns of the panel become those of U = D^-1 L^-1 P A, a group of `width` lanes each.
__device__ __forceinline__ void solve_columns(const Rows& R, const Row& row, const Shared& S) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5, m = row.m, per = 32 / R.width;
  const int r = lane % R.width;
  for (long long base = warp * per; base < row.columns; base += warps * per) {
    const long long q = base + lane / R.width;
    const bool on = q < row.columns && r < m;
    double* const u = row.panel + q * m;
    double x = on ? u[S.order[r]] : 0.0;
    __syncwarp(full_warp);                // all have read the column before any writes to it
    for (int k = 0; k + 1 < m; ++k) {
      const double known = __shfl_sync(full_warp, x, k, R.width);
      if (r > k && r < m) x -= times(S.factor[r + k * m], known);
    }
    const int mate = r < m ? S.mate[r] : 0;
    const double other = __shfl_sync(full_warp, x, r + mate, R.width);
    if (on) u[r] = (mate ? times(S.ratio[r], x) - other : x) / S.divisor[r];
  }
  __syncthreads();
}

// What entries of each row have to exceed: partial sums of a fixed shape, one row with the other of its pivot.
__device__ __forceinline__ void row_norms(const Rows& R, const Row& row, const Shared& S) {
  const int m = row.m;
  for (int p = threadIdx.x; p < norm_parts * m; p += blockDim.x) {
    const int r = p % m;
    double sum = 0;
    for (long long q = p / m; q < row.columns; q += norm_parts) sum += times(row.panel[q * m + r], row.panel[q * m + r]);
    S.parts[p] = sum;
  }
  __syncthreads();
  for (int r = threadIdx.x; r < m; r += blockDim.x) {
    double sum = 1;
    for (int s = 0; s < norm_parts; ++s) sum += S.parts[r + s * m];
    S.norm[r] = R.droptol * sqrt(sum);
  }
  __syncthreads();
}

// Small entries become zero; place[q] says whether anything is left of column q.
__device__ __forceinline__ void drop(const Rows& R, const Row& row, const Shared& S) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5, m = row.m, per = 32 / R.width;
  const int r = lane % R.width, mate = r < m ? S.mate[r] : 0;
  const double own = r < m ? S.norm[r] : 0, other = r < m ? S.norm[r + mate] : 0, norm = own < other ? other : own;
  const unsigned group = (R.width == 32 ? full_warp : (1u << R.width) - 1) << (lane - r);
  long long lost = 0;
  for (long long base = warp * per; base < row.columns; base += warps * per) {
    const long long q = base + lane / R.width;
    const bool on = q < row.columns && r < m;
    const double u = on ? row.panel[q * m + r] : 0.0;
    const bool kept = u != 0 && !(modulus(u) <= norm);
    if (u != 0 && !kept) {
      row.panel[q * m + r] = 0;
      ++lost;
    }
    const unsigned votes = __ballot_sync(full_warp, kept);
    if (q < row.columns && r == 0) row.place[q] = (votes & group) != 0;
  }
  long long total;
  block_exclusive(lost, total);
  if (threadIdx.x == 0 && total) atomicAdd(R.state + dropped, static_cast<unsigned long long>(total));
}

// The columns that are left move to the pools; false: these are full.
__device__ __forceinline__ bool keep_columns(const Rows& R, const Row& row) {
  __shared__ long long names;
  __shared__ long long values;
  long long kept = 0;
  for (long long base = 0; base < row.columns; base += blockDim.x) {
    const long long q = base + threadIdx.x;
    const bool stays = q < row.columns && row.place[q];
    long long total;
    const long long place = block_exclusive(stays, total);
    if (q < row.columns) row.place[q] = stays ? static_cast<int>(kept + place) : -1;
    kept += total;
  }
  if (threadIdx.x == 0) {
    names = static_cast<long long>(atomicAdd(R.state + names_used, static_cast<unsigned long long>(kept)));
    values = static_cast<long long>(atomicAdd(R.state + values_used, static_cast<unsigned long long>(kept * row.m)));
    R.count[row.i] = static_cast<int>(kept);
    R.first_name[row.i] = names;
    R.first_value[row.i] = values;
  }
  __syncthreads();
  if (names + kept > R.names_room || values + kept * row.m > R.values_room) return false;
  for (long long q = threadIdx.x; q < row.columns; q += blockDim.x) {
    if (row.place[q] < 0) continue;
    double most = 0;
    for (int r = 0; r < row.m; ++r) most = max(most, modulus(row.panel[q * row.m + r]));
    R.name[names + row.place[q]] = row.name[q];
    R.size[names + row.place[q]] = most;
  }
  for (long long p = threadIdx.x; p < row.columns * row.m; p += blockDim.x) {
    const long long q = p / row.m;
    if (row.place[q] >= 0) R.value[values + static_cast<long long>(row.place[q]) * row.m + (p - q * row.m)] = row.panel[p];
  }
  return true;
}

// All of one block row; false: no room.
__device__ __forceinline__ bool make_row(const Rows& R, int i, const Shared& S, Buffer& lists, Buffer& panel) {
  Row row = row_of(R, i);
  const bool in_shared = row.tiles <= R.words_room;
  if (!reserve(R, lists, row.above_count + (in_shared ? 0 : row.tiles))) return false;
  row.from = reinterpret_cast<int*>(R.work + lists.at);
  row.hits = row.from + row.above_count;
  row.words = in_shared ? S.words : reinterpret_cast<unsigned*>(row.hits + row.above_count);
  row.before = in_shared ? S.before : row.hits + row.above_count + row.tiles;
  mark_columns(R, row);
  if (!lay_out(R, row, panel)) return false;
  place_matrix(R, row, S);
  for (int q = 0; q < row.above_count; ++q)
    if (row.hits[q] > 0) pull(R, row, S, q);
  factor_tile(R, row, S);
  solve_columns(R, row, S);
  row_norms(R, row, S);
  drop(R, row, S);
  return keep_columns(R, row);
}

}  // namespace ms::ildl
