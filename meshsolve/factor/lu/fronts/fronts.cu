// LU factorization of the fronts of one level of the assembly tree, with row exchanges inside pivot blocks.
//
// Host counterpart: front.cpp. Sources: Duff and Reid 1984; Schenk and Gaertner 2006. A front is stored as P (height x pivots)
// and Q (updates x pivots, the rows of U beyond the pivots, transposed); its update matrix is -L21 U12. Two ways, by its size:
//   k_factor     a warp or a thread block has P and Q in shared memory. It assembles them, factors the pivot block, solves for the
//                rows of L21 and Q (one row per thread, without barriers), writes both, writes the update matrix, and adds the
//                update matrices of the children
//   by tiles     k_assemble by tiles of columns. Then for each 32 pivots: k_panel (a thread block factors the columns of the
//                pivots within the pivot block), k_rows (a thread solves for one row of L21, of Q, or one later pivot column),
//                k_subtract. At the end k_subtract, or cuBLAS for the largest fronts, for the update matrix, and k_largest for
//                the pivot growth
// One launch processes all fronts of a level. `order` is the permutation of the rows of a front by its exchanges.
#include "factor/fronts/fronts.cuh"
#include "factor/fronts/tiles.cuh"
#include "factor/lu/pivot.cuh"

namespace ms::lu {

using fronts::Block;
using fronts::tile;
using fronts::Warp;

constexpr int pivot_block = 32;         // pivots of one step by tiles
constexpr int assembly_columns = 8;     // of a tile of k_assemble

struct Front : fronts::Front {          // `panel` is the position of P, `leading` its leading dimension
  long long leading_q;
  long long entry_begin, entry_end;     // entries of A, by their position in the front
  __device__ int width() const { return static_cast<int>(pivots); }
  __device__ long long size() const { return pivots * (leading + leading_q); }
};

template <class T> struct Tree {
  const Front* fronts;
  const int *child, *relative;
  const unsigned *source, *target;      // position in A's values, and in the front
  const double *scale, *values;
  T *panels, *updates;
};

template <class T> struct Parts {       // of one front, in shared or global memory
  T *P, *Q, *C;
  long long leading_p, leading_q;
  int width, updates;
  __device__ Parts(const Front& f, T* at, T* update)
      : P(at), Q(at + f.pivots * f.leading), C(update), leading_p(f.leading), leading_q(f.leading_q), width(f.width()),
        updates(f.updates()) {}
  __device__ int height() const { return width + updates; }
};

// ---- assembly

// Copies the entries of A to the positions [from, to) of a front.
template <class T, class Group>
__device__ __forceinline__ double add_entries(const Tree<T>& t, const Front& f, const Group& g, unsigned from, unsigned to,
                                              T* at) {
  const unsigned* const target = t.target + f.entry_begin;
  const int count = static_cast<int>(f.entry_end - f.entry_begin), end = lower_bound(target, count, to);
  double most = 0;
  for (int k = lower_bound(target, count, from) + g.rank; k < end; k += g.size) {
    const T x = static_cast<T>(t.values[t.source[f.entry_begin + k]] * t.scale[f.entry_begin + k]);
    at[target[k]] += x;
    most = fmax(most, magnitude(x));
  }
  g.sync();
  return most;
}

// Adds the update matrices of the children to the pivots [from, to) (columns of P and Q) or, from `width` on, to columns of C.
template <class T, class Group>
__device__ __forceinline__ void add_children(const Tree<T>& t, const Front& f, const Group& g, int from, int to,
                                             const Parts<T>& parts) {
  for (long long q = f.child_begin; q < f.child_end; ++q) {
    const Front& c = t.fronts[t.child[q]];
    const int count = c.updates(), *const relative = t.relative + c.rows;
    const T* const X = t.updates + c.update;
    const int below = lower_bound(relative, count, parts.width), end = lower_bound(relative, count, to);
    for (int j = lower_bound(relative, count, from) + g.warp; j < end; j += g.warps) {
      const int target = relative[j];
      const T* const column = X + static_cast<long long>(j) * count;
      if (target < parts.width) {
        T *const p = parts.P + target * parts.leading_p, *const row = parts.Q + target * parts.leading_q - parts.width;
        for (int i = g.lane; i < count; i += 32) p[relative[i]] += column[i];
        for (int i = below + g.lane; i < count; i += 32) row[relative[i]] += X[j + static_cast<long long>(i) * count];
      } else {
        T* const u = parts.C + static_cast<long long>(target - parts.width) * parts.updates - parts.width;
        for (int i = below + g.lane; i < count; i += 32) u[relative[i]] += column[i];
      }
    }
    g.sync();
  }
}

// ---- the pivot block

// The row in [c, rows) with the largest entry of x, or c if its entry is large enough; the same in every warp.
template <class T> __device__ __forceinline__ int find_pivot(const T* x, int c, int rows, double threshold) {
  const int lane = threadIdx.x & 31;
  double most = -1;
  int row = c;
  for (int i = c + lane; i < rows; i += 32) {
    const double size = fabs(static_cast<double>(x[i]));
    if (size > most) {
      most = size;
      row = i;
    }
  }
  for (int d = 16; d > 0; d /= 2) {
    const double other = __shfl_xor_sync(full_warp, most, d);
    const int its = __shfl_xor_sync(full_warp, row, d);
    if (other > most || (other == most && its < row)) {
      most = other;
      row = its;
    }
  }
  return fabs(static_cast<double>(x[c])) >= threshold * most ? c : row;
}

// LU of rows x width entries D with exchanges among all rows. There is one barrier per column: column c is read before it, and
// exchanged and scaled after it. `exchange[c]` := base + row. Returns the number of perturbed pivots.
template <class T, class Group>
__device__ __forceinline__ int eliminate(const Group& g, T* D, long long leading, int rows, int width, const Rule& rule, int base,
                                         int* exchange, int* order) {
  int perturbed = 0;
  for (int c = 0; c < width; ++c) {
    T* const x = D + c * leading;
    const int r = find_pivot(x, c, rows, rule.threshold);
    const T pivot = usable(x[r], rule), displaced = x[c], inverse = T(1) / pivot;
    perturbed += !(fabs(static_cast<double>(x[r])) >= rule.tiny);
    for (int q = c + 1 + g.warp; q < width; q += g.warps) {
      T* const y = D + q * leading;
      const T taken = y[r], other = y[c];
      __syncwarp();
      if (g.lane == 0) {
        y[r] = other;
        y[c] = taken;
      }
      __syncwarp();
      const T factor = taken * inverse;
      for (int i = c + 1 + g.lane; i < rows; i += 32) y[i] -= (i == r ? displaced : x[i]) * factor;
    }
    g.sync();
    for (int i = c + 1 + g.rank; i < rows; i += g.size) x[i] = (i == r ? displaced : x[i]) * inverse;
    for (int q = g.rank; q < c && r != c; q += g.size) {
      T *const p = D + c + q * leading, *const other = D + r + q * leading, value = *p;
      *p = *other;
      *other = value;
    }
    if (g.rank == 0) {
      x[c] = pivot;
      exchange[c] = base + r;
      const int moved = order[c];
      order[c] = order[r];
      order[r] = moved;
    }
  }
  g.sync();
  return perturbed;
}

// ---- fronts in shared memory

// One row of L21: x U = b for the pivot block D; `step` between the entries of x.
template <class T> __device__ __forceinline__ void solve_upper(const T* D, long long leading, int width, T* x, long long step) {
  for (int c = 0; c < width; ++c) {
    T sum = x[c * step];
    for (int k = 0; k < c; ++k) sum -= x[k * step] * D[k + c * leading];
    x[c * step] = sum / D[c + c * leading];
  }
}

// One row of Q: applies the exchanges, then solves x L^T = b.
template <class T>
__device__ __forceinline__ void solve_unit(const T* D, long long leading, int width, const int* exchange, T* x, long long step) {
  for (int c = 0; c < width; ++c) {
    const int r = exchange[c];
    const T value = x[c * step];
    x[c * step] = x[r * step];
    x[r * step] = value;
  }
  for (int c = 1; c < width; ++c) {
    T sum = x[c * step];
    for (int k = 0; k < c; ++k) sum -= x[k * step] * D[c + k * leading];
    x[c * step] = sum;
  }
}

// Largest entry of U in the columns warp, warp + warps, ... of a front.
template <class T> __device__ __forceinline__ double largest(const Parts<T>& f, int lane, int warp, int warps) {
  double most = 0;
  for (int c = warp; c < f.width; c += warps) {
    for (int i = lane; i <= c; i += 32) most = fmax(most, magnitude(f.P[i + c * f.leading_p]));
    for (int i = lane; i < f.updates; i += 32) most = fmax(most, magnitude(f.Q[i + c * f.leading_q]));
  }
  return most;
}

template <class T, class Group>
__device__ __forceinline__ void factor_front(const Tree<T>& t, int s, const Group& g, T* workspace, const Rule& rule, int* exchange,
                                             int* order, const Seen& seen) {
  const Front f = t.fronts[s];
  const Parts<T> part(f, workspace, t.updates + f.update);
  const int size = static_cast<int>(f.size()), width = part.width, rows = part.updates;
  for (int i = g.rank; i < size; i += g.size) workspace[i] = T(0);
  for (int c = g.rank; c < width; c += g.size) order[f.first + c] = c;
  g.sync();
  const double entry = warp_max(add_entries(t, f, g, 0, static_cast<unsigned>(size), workspace));
  add_children(t, f, g, 0, width, part);
  const int perturbed = eliminate(g, part.P, f.leading, width, width, rule, 0, exchange + f.first, order + f.first);
  for (int i = g.rank; i < 2 * rows; i += g.size)
    if (i < rows)
      solve_upper(part.P, f.leading, width, part.P + width + i, f.leading);
    else
      solve_unit(part.P, f.leading, width, exchange + f.first, part.Q + i - rows, f.leading_q);
  g.sync();
  T* const to = t.panels + f.panel;
  for (int i = g.rank; i < size; i += g.size) to[i] = workspace[i];
  const double upper = warp_max(largest(part, g.lane, g.warp, g.warps));
  if (g.lane == 0) {
    seen.entry(entry);
    seen.upper(upper);
  }
  if (g.rank == 0) seen.perturbed(perturbed);
  if (rows == 0) return;
  fronts::outer_product<false>(g, part.P + width, f.leading, part.Q, f.leading_q, rows, width,
                               [&](int j) { return fronts::square_column(part.C, rows, j); });
  add_children(t, f, g, width, width + rows, part);
}

// ---- by tiles

// Clears and assembles `assembly_columns` columns of a front in global memory: of P and Q, or of the update matrix.
template <class T> __device__ __forceinline__ void assemble_tile(const Tree<T>& t, int s, int from, int* order,
                                                                 const Seen& seen) {
  const Front f = t.fronts[s];
  const Block g;
  const Parts<T> part(f, t.panels + f.panel, t.updates + f.update);
  const int to = min(from + assembly_columns, part.height()), pivots = min(to, part.width);
  for (int j = from + g.warp; j < to; j += g.warps) {
    if (j < part.width) {
      for (int i = g.lane; i < f.leading; i += 32) part.P[i + j * f.leading] = T(0);
      for (int i = g.lane; i < f.leading_q; i += 32) part.Q[i + j * f.leading_q] = T(0);
      if (g.lane == 0) order[f.first + j] = j;
    } else {
      for (int i = g.lane; i < part.updates; i += 32) part.C[i + static_cast<long long>(j - part.width) * part.updates] = T(0);
    }
  }
  g.sync();
  if (from < part.width) {
    const long long q = f.pivots * f.leading;
    double most = add_entries(t, f, g, static_cast<unsigned>(from * f.leading), static_cast<unsigned>(pivots * f.leading),
                              part.P);
    most = fmax(most, add_entries(t, f, g, static_cast<unsigned>(q + from * f.leading_q),
                                  static_cast<unsigned>(q + pivots * f.leading_q), part.P));
    most = warp_max(most);
    if (g.lane == 0) seen.entry(most);
  }
  add_children(t, f, g, from, to, part);
}

// LU of the pivots [from, from + 32) in all rows of the pivot block; in shared memory if they fit.
template <class T>
__device__ __forceinline__ void factor_panel(const Front& f, T* panels, int from, int capacity, T* shared, const Rule& rule,
                                             int* exchange, int* order, const Seen& seen) {
  const Block g;
  const int rows = f.width() - from, width = min(pivot_block, rows);
  T* const stored = panels + f.panel + from + from * f.leading;
  int *const its_exchange = exchange + f.first + from, *const its_order = order + f.first + from;
  int perturbed;
  if (rows * width <= capacity) {
    for (int j = g.warp; j < width; j += g.warps)
      for (int i = g.lane; i < rows; i += 32) shared[i + j * rows] = stored[i + j * f.leading];
    g.sync();
    perturbed = eliminate(g, shared, rows, rows, width, rule, from, its_exchange, its_order);
    for (int j = g.warp; j < width; j += g.warps)
      for (int i = g.lane; i < rows; i += 32) stored[i + j * f.leading] = shared[i + j * rows];
  } else {
    perturbed = eliminate(g, stored, f.leading, rows, width, rule, from, its_exchange, its_order);
  }
  if (g.rank == 0) seen.perturbed(perturbed);
}

// Solves with the pivots [from, from + 32): a thread has one row of L21, one row of Q, or one other column of the pivot block,
// with 32 entries in registers. Fewer than 32 pivots are padded with the identity.
template <class T> __device__ __forceinline__ void solve_rows(const Front& f, T* panels, const int* exchange, int from) {
  __shared__ T lower[pivot_block * (pivot_block + 1)];      // row j: the entries L(j, k) of earlier pivots k
  __shared__ T upper[pivot_block * (pivot_block + 1)];      // ... and U(k, j)
  __shared__ T inverse[pivot_block];
  __shared__ int rows[pivot_block];
  constexpr int pitch = pivot_block + 1;
  const int width = min(pivot_block, f.width() - from), updates = f.updates();
  T *const P = panels + f.panel, *const Q = P + f.pivots * f.leading;
  for (int k = threadIdx.x; k < pivot_block * pivot_block; k += blockDim.x) {
    const int i = k % pivot_block, j = k / pivot_block;
    const T value = i < width && j < width ? P[from + i + (from + j) * f.leading] : T(i == j);
    lower[i * pitch + j] = upper[j * pitch + i] = value;
    if (i == j) inverse[i] = T(1) / value;
  }
  for (int k = threadIdx.x; k < width; k += blockDim.x) rows[k] = exchange[f.first + from + k] - from;
  __syncthreads();
  const int item = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), column = item - 2 * updates;
  if (column >= f.width() || (column >= from && column < from + width)) return;
  const bool of_l = item < updates;
  const long long step = column >= 0 ? 1 : of_l ? f.leading : f.leading_q;
  T* const x = column >= 0 ? P + from + column * f.leading
                           : of_l ? P + f.pivots + item + from * f.leading : Q + (item - updates) + from * f.leading_q;
  for (int c = 0; c < width && !of_l; ++c) {
    const T value = x[c * step];
    x[c * step] = x[rows[c] * step];
    x[rows[c] * step] = value;
  }
  if (column >= 0 && column < from) return;                 // the exchanges of a column of L are already applied
  const T* const factors = of_l ? upper : lower;
  T value[pivot_block];
#pragma unroll
  for (int j = 0; j < pivot_block; ++j) value[j] = j < width ? x[j * step] : T(0);
#pragma unroll
  for (int j = 0; j < pivot_block; ++j) {
#pragma unroll
    for (int k = 0; k < j; ++k) value[j] -= value[k] * factors[j * pitch + k];
    if (of_l) value[j] *= inverse[j];
  }
#pragma unroll
  for (int j = 0; j < pivot_block; ++j)
    if (j < width) x[j * step] = value[j];
}

// Subtracts the pivots [from, to) from the later columns of P and of Q (tiles of rows of P come first), or all pivots from the
// update matrix (of_update).
template <class T>
__device__ __forceinline__ void subtract(const Front& f, T* panels, T* updates, int of_update, int from, int to) {
  const Parts<T> part(f, panels + f.panel, updates + f.update);
  const int end = of_update ? part.width : min(to, part.width), above = part.height() - end, tiles = (above + tile - 1) / tile;
  const bool of_q = !of_update && static_cast<int>(blockIdx.x) >= tiles;
  const int r = (static_cast<int>(blockIdx.x) - (of_q ? tiles : 0)) * tile, c = static_cast<int>(blockIdx.y) * tile;
  const int rows = (of_update || of_q ? part.updates : above) - r, columns = (of_update ? part.updates : part.width - end) - c;
  if (rows <= 0 || columns <= 0) return;
  const T *A, *B;
  T* C;
  long long across = 1, along = part.leading_q, leading_a = part.leading_p, leading_c = part.leading_p;
  if (of_update) {
    A = part.P + part.width;
    B = part.Q + c;
    C = part.C;
    leading_c = part.updates;
  } else if (of_q) {
    A = part.Q + from * part.leading_q;
    B = part.P + end + c + from * part.leading_p;
    C = part.Q + end * part.leading_q;
    leading_a = leading_c = part.leading_q;
    along = part.leading_p;
  } else {
    A = part.P + end + from * part.leading_p;
    B = part.P + from + (end + c) * part.leading_p;
    C = part.P + end + end * part.leading_p;
    across = part.leading_p;
    along = 1;
  }
  fronts::subtract_tile(A + r, leading_a, B, across, along, min(rows, tile), min(columns, tile), end - from,
                        C + r + c * leading_c, leading_c, -tile);
}

template <class T> __device__ __forceinline__ void note_largest(const Front& f, const T* panels, const Seen& seen) {
  const Parts<const T> part(f, panels + f.panel, nullptr);
  const int warps = blockDim.x >> 5, lane = threadIdx.x & 31;
  const double most = warp_max(largest(part, lane, blockIdx.x * warps + (threadIdx.x >> 5), gridDim.x * warps));
  if (lane == 0) seen.upper(most);
}

}  // namespace ms::lu

using namespace ms;
using namespace ms::lu;

extern "C" __global__ void __launch_bounds__(256, 2)
k_factor(int per_warp, const int* list, int count, int capacity, const long long* table, const int* child,
         const int* relative, const unsigned* source, const unsigned* target, const double* scale, const double* values,
         SCALAR* panels, SCALAR* updates, double threshold, double tiny, double perturbed_size, int* exchange, int* order,
         unsigned long long* seen) {
  extern __shared__ SCALAR shared[];
  const Tree<SCALAR> t{reinterpret_cast<const Front*>(table), child, relative, source, target, scale, values, panels, updates};
  fronts::for_fronts(per_warp, list, count, capacity, shared, [&](int s, const auto& group, SCALAR* workspace) {
    factor_front(t, s, group, workspace, {threshold, tiny, perturbed_size}, exchange, order, {seen});
  });
}

// tiles: pairs (front, first column), one per thread block.
extern "C" __global__ void __launch_bounds__(256)
k_assemble(const int* tiles, const long long* table, const int* child, const int* relative, const unsigned* source,
           const unsigned* target, const double* scale, const double* values, SCALAR* panels, SCALAR* updates, int* order,
           unsigned long long* seen) {
  const Tree<SCALAR> t{reinterpret_cast<const Front*>(table), child, relative, source, target, scale, values, panels, updates};
  assemble_tile(t, tiles[2 * blockIdx.x], tiles[2 * blockIdx.x + 1], order, {seen});
}

extern "C" __global__ void __launch_bounds__(256)
k_panel(const int* list, const long long* table, SCALAR* panels, int from, int capacity, double threshold, double tiny,
        double perturbed_size, int* exchange, int* order, unsigned long long* seen) {
  extern __shared__ SCALAR shared[];
  factor_panel(reinterpret_cast<const Front*>(table)[list[blockIdx.x]], panels, from, capacity, shared,
               {threshold, tiny, perturbed_size}, exchange, order, {seen});
}

// Grid: tiles of rows and columns x fronts.
extern "C" __global__ void __launch_bounds__(128)
k_rows(const int* list, const long long* table, SCALAR* panels, const int* exchange, int from) {
  solve_rows(reinterpret_cast<const Front*>(table)[list[blockIdx.y]], panels, exchange, from);
}

// Grid: tiles of rows x tiles of columns x fronts.
extern "C" __global__ void __launch_bounds__(256)
k_subtract(const int* list, const long long* table, SCALAR* panels, SCALAR* updates, int of_update, int from, int to) {
  subtract(reinterpret_cast<const Front*>(table)[list[blockIdx.z]], panels, updates, of_update, from, to);
}

// Grid: shares of the columns x fronts.
extern "C" __global__ void __launch_bounds__(256)
k_largest(const int* list, const long long* table, const SCALAR* panels, unsigned long long* seen) {
  note_largest(reinterpret_cast<const Front*>(table)[list[blockIdx.y]], panels, {seen});
}

// position[first + order[p]] = first + p: the position of each row of a pivot block after the exchanges. One front per block.
extern "C" __global__ void __launch_bounds__(64)
k_positions(const long long* table, const int* order, int* position) {
  const Front& f = reinterpret_cast<const Front*>(table)[blockIdx.x];
  for (int p = threadIdx.x; p < f.width(); p += blockDim.x)
    position[f.first + order[f.first + p]] = static_cast<int>(f.first) + p;
}
