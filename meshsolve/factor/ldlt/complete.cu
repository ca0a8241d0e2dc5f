// Complete L D L^T factorization of the fronts of one level of the assembly tree. Pivots of one and two rows are chosen inside
// each front. Columns without an acceptable pivot are delayed to the parent.
//
// Host counterpart: front.cpp. Sources: Duff and Reid 1983; Hogg, Ovtchinnikov, Scott 2016. Two ways, by the size of a front:
//   k_factor     a warp or a thread block has the panel in shared memory. It assembles the panel, eliminates its columns, writes
//                it, writes the update matrix as -L D L^T, and adds the update matrices of the children
//   by tiles     k_assemble by tiles of columns. Then in turn: k_panel (a thread block chooses pivots in the next 32 columns),
//                k_permute (exchanges rows of the columns before them), k_subtract (updates the later columns). At the end the
//                update matrix, by k_subtract, or for the largest fronts by k_weigh and cuBLAS. `progress` has the state of each
//                front: columns that fail are tried again, and the host reads only the number of finished fronts
// L D is not stored: each entry of it is one or two products. One launch processes all fronts of a level.
#include "factor/fronts/tiles.cuh"
#include "factor/ldlt/complete.cuh"

namespace ms::ldlt {

using fronts::tile;

constexpr int assembly_columns = 8;     // of a tile of k_assemble

struct Progress {                       // state of a front by tiles; zeros before its first step
  int state;                            // 0: not begun, 1: under way, 2: finished
  int step;                             // of the last panel
  int k, before, end, block;            // Search
  int found, columns;                   // pivots and columns of the last panel
};

// ---- fronts in shared memory

// Subtracts the update of the `found` pivots from k on from the columns [from, to) of a panel.
template <class T, class Group>
__device__ __forceinline__ void update_columns(const Group& g, const View<T>& v, T* panel, int k, int found, int from) {
  const long long leading = v.height;
  for (int j = from + g.warp; j < v.columns; j += g.warps)
    for (int i = j + g.lane; i < v.height; i += 32) {
      T sum = T(0);
      for (int c = k; c < k + found; ++c) sum += panel[i + c * leading] * weighted(panel + j, leading, v.d, v.e, c);
      panel[i + j * leading] -= sum;
    }
  g.sync();
}

// Returns the number k of pivots, or ~k if column k is not finite.
template <class T, class Group>
__device__ __forceinline__ int eliminate(const Group& g, const View<T>& v, T* panel, bool root, const Rule& rule) {
  const long long leading = v.height;
  Search<int> next;
  next.end = v.columns;
  for (bool more = true; more;) {
    const int k = next.k, w = next.width();
    PivotBlock<T, Group> block{g, panel + k * (leading + 1), leading, v.height - k, w, k, v.name + k, nullptr,
                               v.d + k, v.e + k};
    const int found = block.run(rule);
    if (found < 0) return found - k;
    if (k + w < v.columns) update_columns(g, v, panel, k, found, k + w);
    for (int c = w, last = next.end - k; c-- > found;) block.exchange(c, --last);
    more = next.advance(found, v.columns, root);
  }
  return next.k;
}

// Replaces the rows below the columns by L D. One row per thread.
template <class T, class Group>
__device__ __forceinline__ void weigh_rows(const Group& g, const View<T>& v, T* panel, int pivots) {
  const long long leading = v.height;
  for (int i = v.columns + g.rank; i < v.height; i += g.size)
    for (int c = 0; c < pivots; ++c) {
      T* const x = panel + i + c * leading;
      const T off = v.e[c];
      if (off == T(0)) {
        *x *= v.d[c];
        continue;
      }
      const T first = x[0], second = x[leading];
      x[0] = first * v.d[c] + second * off;
      x[leading] = first * off + second * v.d[c + 1];
      ++c;
    }
  g.sync();
}

// Records the number of pivots of a front, by one thread. `last`: the front has no further pivot, because the next column is not
// finite, or because the front has no parent.
template <class T> __device__ __forceinline__ void record(const Tree<T>& t, int s, const View<T>& v, int pivots, bool last) {
  t.pivots[s] = pivots;
  if (pivots == v.columns) return;
  atomicAdd(t.flags + delayed, v.columns - pivots);
  if (last) atomicMin(t.flags + failed, v.name[pivots]);
}

template <class T, class Group>
__device__ __forceinline__ void factor_front(const Tree<T>& t, int s, const Group& g, T* panel, bool root, const Rule& rule) {
  const View<T> v(t, s);
  const long long leading = v.height;
  for (int i = g.rank; i < v.height * v.columns; i += g.size) panel[i] = T(0);
  g.sync();
  assemble_panel(t, v, g, 0, v.columns, [&](int i, int j) { return panel + i + j * leading; });
  const int found = eliminate(g, v, panel, root, rule), pivots = max(found, ~found);
  for (int j = g.warp; j < v.columns; j += g.warps)
    for (int i = j + g.lane; i < v.height; i += 32) v.panel[i + j * v.leading] = panel[i + j * leading];
  if (g.rank == 0) record(t, s, v, pivots, root || found < 0);
  if (v.updates == 0) return;
  g.sync();
  weigh_rows(g, v, panel, pivots);
  T* const U = t.planned.updates + v.f.update;
  fronts::outer_product<true>(g, v.panel + v.columns, v.leading, panel + v.columns, leading, v.updates, pivots,
                              [&](int j) { return fronts::square_column(U, v.updates, j); });
  const auto in_update = [&](int i, int j) { return U + (i - v.own) + static_cast<long long>(j - v.own) * v.updates; };
  fronts::add_children(t.planned, v.f, g, v.own, v.own + v.updates, in_update);
}

// ---- by tiles

// Clears and assembles `assembly_columns` columns of a front in global memory.
template <class T> __device__ __forceinline__ void assemble_tile(const Tree<T>& t, int s, int from) {
  const View<T> v(t, s);
  const Block g;
  const int to = min(from + assembly_columns, v.height);
  T* const U = t.planned.updates + v.f.update;
  const auto in_update = [&](int i, int j) { return U + (i - v.own) + static_cast<long long>(j - v.own) * v.updates; };
  const auto in_panel = [&](int i, int j) { return v.panel + i + j * v.leading; };
  for (int j = from + g.warp; j < to; j += g.warps)
    for (int i = j + g.lane; i < v.height; i += 32)
      *(j < v.columns ? in_panel(i, j) : in_update(i - v.received, j - v.received)) = T(0);
  g.sync();
  if (from < v.columns) assemble_panel(t, v, g, from, min(to, v.columns), in_panel);
  if (to > v.columns)
    fronts::add_children(t.planned, v.f, g, max(from, v.columns) - v.received, to - v.received, in_update);
}

// Moves the columns of the last panel that have no pivot to the end. Returns false if the front is finished.
template <class T>
__device__ __forceinline__ bool go_on(const Block& g, const View<T>& v, const Progress& p, Search<int>& next, bool root) {
  if (p.state == 0) {
    next.end = v.columns;
    return true;
  }
  next.k = p.k;
  next.before = p.before;
  next.end = p.end;
  next.block = p.block;
  const PivotBlock<T, Block> block{g, v.panel + p.k * (v.leading + 1), v.leading, v.height - p.k, p.columns, p.k,
                                   v.name + p.k, nullptr, v.d, v.e};
  for (int c = p.columns, last = p.end - p.k; c-- > p.found;) block.exchange(c, --last);
  return next.advance(p.found, v.columns, root);
}

// Chooses pivots among the next columns of a front, in shared memory if they fit. A panel of many columns, which is rare,
// exchanges the rows of the columns before it at once; otherwise k_permute does. Returns as PivotBlock::run.
template <class T>
__device__ __forceinline__ int choose_pivots(const Block& g, const View<T>& v, int k, int w, int capacity, T* shared, int* order,
                                             const Rule& rule) {
  const int m = v.height - k;
  const bool one_block = w <= block_columns, copied = one_block && m * w <= capacity;
  T* const stored = v.panel + k * (v.leading + 1);
  for (int j = g.warp; copied && j < w; j += g.warps)
    for (int i = j + g.lane; i < m; i += 32) shared[i + j * m] = stored[i + j * v.leading];
  if (copied) g.sync();
  PivotBlock<T, Block> block{g, copied ? shared : stored, copied ? m : v.leading, m, w, one_block ? 0 : k, v.name + k,
                             one_block ? order : nullptr, v.d + k, v.e + k};
  const int found = block.run(rule);
  for (int j = g.warp; copied && j < w; j += g.warps)
    for (int i = j + g.lane; i < m; i += 32) stored[i + j * v.leading] = shared[i + j * m];
  return found;
}

template <class T>
__device__ __forceinline__ void factor_panel(const Tree<T>& t, int s, Progress& progress, int step, bool root, int capacity,
                                             T* shared, int* order, const Rule& rule) {
  const Progress p = progress;
  const Block g;
  g.sync();                                                 // all threads have read the data that one thread overwrites
  if (p.state == 2) return;
  const View<T> v(t, s);
  Search<int> next;
  if (!go_on(g, v, p, next, root)) {
    if (g.rank == 0) {
      progress.state = 2;
      record(t, s, v, next.k, root);
      atomicAdd(t.flags + finished, 1);
    }
    return;
  }
  const int w = next.width(), chosen = choose_pivots(g, v, next.k, w, capacity, shared, order, rule);
  const int found = max(chosen, ~chosen);
  if (g.rank != 0) return;
  const bool done = chosen < 0 || next.k + found == v.columns;
  progress = {done ? 2 : 1, step, next.k, next.before, next.end, next.block, found, w};
  if (!done) return;
  record(t, s, v, next.k + found, chosen < 0);
  atomicAdd(t.flags + finished, 1);
}

// Applies the exchanges of this step's panel to the rows of the columns before it. One column per warp, one row per lane.
template <class T>
__device__ __forceinline__ void permute_rows(const Tree<T>& t, int s, const Progress& p, int step, const int* order) {
  if (p.step != step || p.columns > block_columns) return;
  const Block g;
  const int from = g.lane < p.columns ? order[g.lane] : g.lane;
  if (__ballot_sync(full_warp, from != g.lane) == 0) return;
  const View<T> v(t, s);
  for (int j = static_cast<int>(blockIdx.x) * g.warps + g.warp; j < p.k; j += static_cast<int>(gridDim.x) * g.warps) {
    T* const x = v.panel + p.k + j * v.leading;
    const T value = from != g.lane ? x[from] : T(0);
    __syncwarp();
    if (from != g.lane) x[g.lane] = value;
  }
}

// Subtracts the update of this step's pivots from the later columns, or (of_update) of all pivots from the update matrix. The
// grid has one thread block per tile of a front without failed columns. A front with failed columns has more tiles than blocks.
template <class T>
__device__ __forceinline__ void subtract(const Tree<T>& t, int s, const Progress& p, int step, bool of_update) {
  if (!of_update && p.step != step) return;
  const View<T> v(t, s);
  const int from = of_update ? 0 : p.k, count = of_update ? t.pivots[s] : p.found;
  const int begin = of_update ? v.columns : p.k + p.columns, end = of_update ? v.height : v.columns;
  if (count == 0) return;
  T* const C = of_update ? t.planned.updates + v.f.update : v.panel + begin * (v.leading + 1);
  const long long leading_C = of_update ? v.updates : v.leading;
  for (int c = static_cast<int>(blockIdx.y) * tile; c < end - begin; c += static_cast<int>(gridDim.y) * tile)
    for (int r = static_cast<int>(blockIdx.x) * tile; r < v.height - begin; r += static_cast<int>(gridDim.x) * tile) {
      if (r < c) continue;
      const auto entry = [&](int i, int k) { return weighted(v.panel + begin + c + i, v.leading, v.d, v.e, from + k); };
      fronts::subtract_product(v.panel + begin + r + from * v.leading, v.leading, entry, false, min(v.height - begin - r, tile),
                               min(end - begin - c, tile), count, C + r + c * leading_C, leading_C, r == c ? 0 : -tile);
    }
}

// The rows of L D below the columns of a front, updates x columns, for a product by cuBLAS; zeros in columns without a pivot.
template <class T> __device__ __forceinline__ void weigh(const Tree<T>& t, int s, T* out) {
  const View<T> v(t, s);
  const int pivots = t.pivots[s];
  for (long long q = grid_begin(); q < static_cast<long long>(v.updates) * v.columns; q += grid_step()) {
    const int i = static_cast<int>(q % v.updates), k = static_cast<int>(q / v.updates);
    out[q] = k < pivots ? weighted(v.panel + v.columns + i, v.leading, v.d, v.e, k) : T(0);
  }
}

// Counts the pivots of a front by size and sign, as count_pivots in small_pivots.hpp and inertia_of in complete.py.
template <class T> __device__ __forceinline__ void survey(const Tree<T>& t, int s, T small, T doubtful) {
  const View<T> v(t, s);
  const int count = t.pivots[s];
  int found[6] = {};
  for (int k = threadIdx.x; k < count; k += blockDim.x) {
    if (k > 0 && v.e[k - 1] != T(0)) continue;              // second row of a 2x2 pivot
    const T off = v.e[k];
    T size = fabs(v.d[k]);
    if (off != T(0)) {
      const double x = v.d[k], z = v.d[k + 1], y = off;
      size = fmax(fmax(size, fabs(v.d[k + 1])), fabs(off));
      const int same = x / y * (z / y) - 1.0 > 0.0 ? 2 : 1;        // eigenvalues of one sign: the determinant is positive
      found[2] += same == 1 ? 1 : 2 * (x > 0.0);
      found[3] += same == 1 ? 1 : 2 * !(x > 0.0);
      ++found[5];
    } else {
      found[1] += !(size >= doubtful);
      found[2] += v.d[k] > T(0);
      found[3] += !(v.d[k] > T(0)) && v.d[k] != T(0);
      found[4] += v.d[k] == T(0);
    }
    found[0] += size < small && size > T(0);
  }
#pragma unroll
  for (int c = 0; c < 6; ++c) {
    const int all = warp_sum(found[c]);
    if ((threadIdx.x & 31) == 0 && all) atomicAdd(t.flags + small_pivots + c, all);
  }
}

}  // namespace ms::ldlt

using namespace ms;
using namespace ms::ldlt;

// The arguments of every kernel that describe the tree, and the Tree made of them.
#define TREE_ARGUMENTS                                                                                                     \
  const long long *table, const int *child, const int *relative, const long long *entry_ptr, const unsigned *entry_source, \
      const int *entry_row, const double *values, SCALAR *panels, SCALAR *updates, const long long *locations, SCALAR *late,  \
      int *names, SCALAR *d, SCALAR *e, int *pivots, int *flags
#define TREE_VALUE                                                                                                        \
  {{reinterpret_cast<const Front*>(table), child, relative, entry_ptr, entry_source, entry_row, values, panels, updates}, \
   reinterpret_cast<const Location*>(locations), late, names, d, e, pivots, flags}

extern "C" __global__ void __launch_bounds__(256, 2)
k_factor(int per_warp, const int* list, int count, int capacity, int root, TREE_ARGUMENTS, double threshold, double tiny) {
  extern __shared__ SCALAR shared[];
  const Tree<SCALAR> t TREE_VALUE;
  fronts::for_fronts(per_warp, list, count, capacity, shared, [&](int s, const auto& group, SCALAR* workspace) {
    factor_front(t, s, group, workspace, root != 0, {threshold, tiny});
  });
}

// tiles: pairs (front, first column), one per thread block.
extern "C" __global__ void __launch_bounds__(256, 2)
k_assemble(const int* tiles, TREE_ARGUMENTS) {
  const Tree<SCALAR> t TREE_VALUE;
  assemble_tile(t, tiles[2 * blockIdx.x], tiles[2 * blockIdx.x + 1]);
}

// order: 32 entries per front on the list. A thread block needs more than half of the registers of a multiprocessor. Compiled for
// two resident blocks, it would spill.
extern "C" __global__ void __launch_bounds__(512, 1)
k_panel(const int* list, int* progress, int* order, int step, int root, int capacity, TREE_ARGUMENTS,
        double threshold, double tiny) {
  extern __shared__ SCALAR shared[];
  const Tree<SCALAR> t TREE_VALUE;
  const int s = list[blockIdx.x];
  factor_panel(t, s, reinterpret_cast<Progress*>(progress)[s], step, root != 0, capacity, shared,
               order + block_columns * blockIdx.x, {threshold, tiny});
}

// Grid: tiles of columns x fronts.
extern "C" __global__ void __launch_bounds__(256)
k_permute(const int* list, const int* progress, const int* order, int step, TREE_ARGUMENTS) {
  const Tree<SCALAR> t TREE_VALUE;
  const int s = list[blockIdx.y];
  permute_rows(t, s, reinterpret_cast<const Progress*>(progress)[s], step, order + block_columns * blockIdx.y);
}

// Grid: tiles of rows x tiles of columns x fronts.
extern "C" __global__ void __launch_bounds__(256)
k_subtract(const int* list, const int* progress, int step, int of_update, TREE_ARGUMENTS) {
  const Tree<SCALAR> t TREE_VALUE;
  const int s = list[blockIdx.z];
  subtract(t, s, reinterpret_cast<const Progress*>(progress)[s], step, of_update != 0);
}

extern "C" __global__ void __launch_bounds__(256)
k_weigh(const int* front, SCALAR* out, TREE_ARGUMENTS) {
  const Tree<SCALAR> t TREE_VALUE;
  weigh(t, *front, out);
}

extern "C" __global__ void __launch_bounds__(32)
k_survey(TREE_ARGUMENTS, double small, double doubtful) {
  const Tree<SCALAR> t TREE_VALUE;
  survey(t, static_cast<int>(blockIdx.x), static_cast<SCALAR>(small), static_cast<SCALAR>(doubtful));
}
