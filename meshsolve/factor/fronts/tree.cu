// The assembly tree on the GPU: table of fronts, positions of rows and entries, and the order of the launches.
//
// CUDA counterpart of tree.cpp, with the same integers; tree_cuda.py has the sorts and prefix sums between the kernels.
// Cost: O((nnz(A) + rows of the supernodes) log(rows of a front)).
#include "factor/fronts/supernodes.cuh"

namespace ms::fronts {

__device__ inline long long before(const long long* sums, long long k) { return k > 0 ? sums[k - 1] : 0; }

}  // namespace ms::fronts

using namespace ms;
using namespace ms::fronts;

// ---- table of fronts

// Parents, pivots and rows below of all fronts.
extern "C" __global__ void __launch_bounds__(256)
k_shape(int count, const int* parent, const int* first, const long long* row_ptr, long long* shape) {
  for (long long s = grid_begin(); s < count; s += grid_step()) {
    shape[s] = parent[s];
    shape[count + s] = first[s + 1] - first[s];
    shape[2ll * count + s] = row_ptr[s + 1] - row_ptr[s];
  }
}

// Leading dimension of each panel, as in tree.cpp, its scalars, and in sizes the scalars of its update matrix and its rows below.
extern "C" __global__ void __launch_bounds__(256)
k_front_sizes(int count, const int* first, const long long* row_ptr, long long* leading, long long* panel, long long* sizes) {
  for (long long s = grid_begin(); s < count; s += grid_step()) {
    const long long pivots = first[s + 1] - first[s], rows = row_ptr[s + 1] - row_ptr[s];
    leading[s] = leading_dimension(pivots + rows);
    panel[s] = pivots * leading[s];
    sizes[s] = rows * rows;
    sizes[count + s] = rows;
  }
}

// The begin of each level in the order by depth. There are `kinds` rows of sizes, with inclusive prefix sums in this order. Array `most`,
// 0 before, receives the largest sums of each row over an even and an odd level.
extern "C" __global__ void __launch_bounds__(256)
k_levels(int kinds, int count, int levels, const int* depth, const long long* order, const long long* sums, int* begin,
         unsigned long long* most) {
  const auto begin_of = [&](int level) { return first_not(count, [&](int q) { return depth[order[q]] < level; }); };
  for (long long k = grid_begin(); k < levels; k += grid_step()) {
    const int level = static_cast<int>(k), from = begin_of(level), to = begin_of(level + 1);
    begin[level] = from;
    for (int kind = 0; kind < kinds; ++kind) {
      const long long base = static_cast<long long>(kind) * count, size = before(sums, base + to) - before(sums, base + from);
      atomicMax(most + 2 * kind + level % 2, static_cast<unsigned long long>(size));
    }
  }
}

// Offsets of the blocks: those of an odd level follow the largest even level.
extern "C" __global__ void __launch_bounds__(256)
k_offsets(int kinds, int count, const int* depth, const long long* order, const long long* sums, const int* begin,
          const unsigned long long* most, long long* offset) {
  for (long long q = grid_begin(); q < count; q += grid_step()) {
    const int f = static_cast<int>(order[q]), level = depth[f];
    for (int kind = 0; kind < kinds; ++kind) {
      const long long base = static_cast<long long>(kind) * count;
      const long long past = level % 2 == 1 ? static_cast<long long>(most[2 * kind]) : 0;
      offset[base + f] = before(sums, base + q) - before(sums, base + begin[level]) + past;
    }
  }
}

// The rows of the table, struct Front in fronts.cuh, and the scalars of panels, of update matrices, and the rows of vectors. The latter
// are sums of `most` for the last of `kinds` rows of sizes, and for the first one if there are two.
extern "C" __global__ void __launch_bounds__(256)
k_table(int count, const int* first, const long long* row_ptr, const long long* leading, const long long* panels,
        const long long* update, const long long* vector, int kinds, const unsigned long long* most, const int* child_ptr,
        long long* table, long long* totals) {
  for (long long s = grid_begin(); s < count; s += grid_step()) {
    const long long pivots = first[s + 1] - first[s];
    const long long row[10] = {before(panels, s), leading[s], update[s], vector[s], row_ptr[s], first[s], pivots,
                               pivots + row_ptr[s + 1] - row_ptr[s], child_ptr[s], child_ptr[s + 1]};
    for (int k = 0; k < 10; ++k) table[10 * s + k] = row[k];
    if (s > 0) continue;
    totals[0] = panels[count - 1];
    totals[1] = kinds == 2 ? static_cast<long long>(most[0] + most[1]) : 0;
    totals[2] = static_cast<long long>(most[2 * kinds - 2] + most[2 * kinds - 1]);
  }
}

// ---- positions

// Lower entries of each column of the permuted matrix, the diagonal included: size[j + 1]; size[0] = 0.
extern "C" __global__ void __launch_bounds__(256)
k_count_entries(int n, const long long* Ap, const int* Ai, const int* perm, const int* iperm, int* size) {
  if (grid_begin() == 0) size[0] = 0;
  for (long long j = grid_begin(); j < n; j += grid_step()) {
    int found = 0;
    for (long long p = Ap[perm[j]]; p < Ap[perm[j] + 1]; ++p) found += iperm[Ai[p]] >= j;
    size[j + 1] = found;
  }
}

// Positions of these entries in the values of A, and their local rows.
extern "C" __global__ void __launch_bounds__(256)
k_place_entries(int n, int count, const long long* Ap, const int* Ai, const int* perm, const int* iperm, const int* first,
                const long long* row_ptr, const int* rows, const long long* entry_ptr, unsigned* source, int* local) {
  const Supernodes nodes{first, row_ptr, rows};
  for (long long j = grid_begin(); j < n; j += grid_step()) {
    const int node = front_of(count, first, static_cast<int>(j));
    long long at = entry_ptr[j];
    for (long long p = Ap[perm[j]]; p < Ap[perm[j] + 1]; ++p) {
      const int i = iperm[Ai[p]];
      if (i < j) continue;
      source[at] = static_cast<unsigned>(p);
      local[at++] = nodes.local(node, i);
    }
  }
}

// relative: local row in the parent of each row below the pivots. One warp per front.
extern "C" __global__ void __launch_bounds__(128)
k_relative(int count, const int* parent, const int* first, const long long* row_ptr, const int* rows, int* relative) {
  const Supernodes nodes{first, row_ptr, rows};
  const int lane = threadIdx.x & 31;
  for (long long s = grid_begin() >> 5; s < count; s += grid_step() >> 5) {
    const int above = parent[s];
    if (above < 0) continue;
    for (long long i = row_ptr[s] + lane; i < row_ptr[s + 1]; i += 32) relative[i] = nodes.local(above, rows[i]);
  }
}

// ---- launches

// Keys of the order of launches. The second row has the group of each front: a level and a kind, the deepest level first. The first row
// has minus its panel, or minus its pivots for kinds by tiles. Kind k has a panel above bound k. Kind 5 also has at least `least` pivots.
extern "C" __global__ void __launch_bounds__(256)
k_groups(int count, int width, int levels, const long long* table, const long long* panel, const int* depth, long long bound_1,
         long long bound_2, long long bound_3, long long bound_4, long long least, long long* key) {
  for (long long f = grid_begin(); f < count; f += grid_step()) {
    const long long size = panel[f], pivots = table[width * f + 6];
    const int in_shared = (size > bound_1) + (size > bound_2) + (size > bound_3), kind = size > bound_4 ? 4 + (pivots >= least) : in_shared;
    key[f] = -(kind < 4 ? size : pivots);
    key[count + f] = 6ll * (levels - 1 - depth[f]) + kind;
  }
}

// The order as int32, the begin of each group in it, and the largest panel of each group, the first one of its fronts.
extern "C" __global__ void __launch_bounds__(256)
k_cuts(int count, int groups, const long long* sorted, const long long* group, const long long* panel, int* order, long long* cuts) {
  for (long long k = grid_begin(); k < max(count, groups + 1); k += grid_step()) {
    if (k < count) order[k] = static_cast<int>(sorted[k]);
    if (k > groups) continue;
    const int at = first_not(count, [&](int q) { return group[sorted[q]] < k; });
    cuts[k] = at;
    cuts[groups + 1 + k] = panel[sorted[min(at, count - 1)]];
  }
}

// The numbers of the fronts at these positions of the order, and their rows of the table.
extern "C" __global__ void __launch_bounds__(256)
k_chosen(int count, int width, const int* position, const int* order, const long long* table, long long* chosen) {
  for (long long k = grid_begin(); k < count; k += grid_step()) {
    const long long f = order[position[k]];
    chosen[(width + 1) * k] = f;
    for (int c = 0; c < width; ++c) chosen[(width + 1) * k + 1 + c] = table[width * f + c];
  }
}
