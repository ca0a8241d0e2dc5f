// The plan of the LU fronts on the GPU: their table, and the position in the fronts of each entry of A.
//
// CUDA counterpart of plan.cpp, with the same integers; plan_cuda.py has the sort and the prefix sum between the kernels.
// Cost: O(nnz(A) log(rows of a front)), and the sort.
#include "factor/fronts/supernodes.cuh"

namespace ms::lu {

constexpr long long outside = 0x7FFFFFFFFFFFFFFF;       // position of an entry above the diagonal blocks

}  // namespace ms::lu

using namespace ms;
using namespace ms::fronts;

// In four rows: leading dimensions of P and of Q, scalars of both, and scalars of the update matrix.
extern "C" __global__ void __launch_bounds__(256)
k_front_sizes(int count, const int* first, const long long* row_ptr, long long* sizes) {
  for (long long s = grid_begin(); s < count; s += grid_step()) {
    const long long pivots = first[s + 1] - first[s], rows = row_ptr[s + 1] - row_ptr[s];
    const long long leading_p = leading_dimension(pivots + rows), leading_q = leading_dimension(rows);
    sizes[s] = leading_p;
    sizes[count + s] = leading_q;
    sizes[2ll * count + s] = pivots * (leading_p + leading_q);
    sizes[3ll * count + s] = rows * rows;
  }
}

// The position of each entry of A in the storage of all fronts, and its scale. One thread for each row of A. `row_of` and `column_of`
// have positions of rows and columns, `block` the diagonal block of a position (null: one block), scales are by position.
extern "C" __global__ void __launch_bounds__(256)
k_place_entries(int n, int count, const long long* Ap, const int* Ai, const int* row_of, const int* column_of, const int* block,
                const double* row_scale, const double* column_scale, const int* first, const long long* row_ptr, const int* rows,
                const long long* sizes, const long long* base, long long* position, double* scale) {
  const Supernodes nodes{first, row_ptr, rows};
  for (long long i = grid_begin(); i < n; i += grid_step()) {
    const int r = row_of[i];
    for (long long p = Ap[i]; p < Ap[i + 1]; ++p) {
      const int c = column_of[Ai[p]];
      scale[p] = row_scale[r] * column_scale[c];
      if (block && block[r] != block[c]) {
        position[p] = lu::outside;
        continue;
      }
      const int s = front_of(count, first, min(r, c));
      const long long width = first[s + 1] - first[s], row = nodes.local(s, r), column = nodes.local(s, c);
      const long long leading_p = sizes[s], leading_q = sizes[count + s];
      position[p] = base[s] + (column < width ? row + column * leading_p : width * leading_p + (column - width) + row * leading_q);
    }
  }
}

// The entries in the order of their positions: `entry` has their numbers, `position` their positions. Fronts assemble the first
// entry_ptr[count] of them; `target` is the position in the front.
extern "C" __global__ void __launch_bounds__(256)
k_sorted_entries(long long nnz, int count, const long long* entry, const long long* position, const double* scale,
                 const long long* base, const long long* entry_ptr, unsigned* source, unsigned* target, double* sorted_scale) {
  for (long long k = grid_begin(); k < nnz; k += grid_step()) {
    source[k] = static_cast<unsigned>(entry[k]);
    sorted_scale[k] = scale[entry[k]];
    if (k >= entry_ptr[count]) continue;
    const int s = first_not(count, [&](int f) { return base[f + 1] <= position[k]; });
    target[k] = static_cast<unsigned>(position[k] - base[s]);
  }
}

// The rows of the table, struct Front in fronts.cu. `totals`, zeros before: the scalars of all fronts, of the update matrices, and of
// the largest front.
extern "C" __global__ void __launch_bounds__(256)
k_table(int count, const int* first, const long long* row_ptr, const long long* sizes, const long long* base,
        const long long* update, const unsigned long long* most, const int* child_ptr, const long long* entry_ptr, long long* table,
        unsigned long long* totals) {
  for (long long s = grid_begin(); s < count; s += grid_step()) {
    const long long pivots = first[s + 1] - first[s];
    const long long row[13] = {base[s], sizes[s], update[s], row_ptr[s], row_ptr[s], first[s], pivots,
                               pivots + row_ptr[s + 1] - row_ptr[s], child_ptr[s], child_ptr[s + 1], sizes[count + s], entry_ptr[s],
                               entry_ptr[s + 1]};
    for (int k = 0; k < 13; ++k) table[13 * s + k] = row[k];
    atomicMax(totals + 2, static_cast<unsigned long long>(sizes[2ll * count + s]));
    if (s > 0) continue;
    totals[0] = static_cast<unsigned long long>(base[count]);
    totals[1] = most[0] + most[1];
  }
}

// The height of each front, the length of the longest path down to a leaf; zeros before. Each leaf goes up to the first front that another
// leaf has made as high.
extern "C" __global__ void __launch_bounds__(256)
k_heights(int count, const int* parent, const int* child_ptr, int* height) {
  for (long long s = grid_begin(); s < count; s += grid_step()) {
    if (child_ptr[s] < child_ptr[s + 1]) continue;
    int above = 1;
    for (int f = parent[s]; f >= 0 && atomicMax(height + f, above) < above; f = parent[f]) ++above;
  }
}

// The levels of the forward and the backward parts of the fronts in a solve, at s and s + count. A level is the length of the longest path
// to the part in the graph of the parts; -1 before. `roots` has the last front of each diagonal block, above_ptr and above_from the
// entries above the blocks as in solve.cu. Warps take the parts by ticket, so that each part reads only earlier ones. Blocks are in the
// order of the substitution. In a block all forward parts, children first, precede the backward parts, parents first.
extern "C" __global__ void __launch_bounds__(256)
k_solve_levels(int count, int blocks, int transposed, const int* roots, const int* parent, const int* child_ptr, const int* child,
               const int* first, const long long* above_ptr, const int* above_from, int* level, int* ticket, int* stalled) {
  const int lane = threadIdx.x & 31;
  Timeout timeout(stalled);
  const auto wait = [&](int part) {
    const volatile int* const of_part = level + part;
    return timeout.until([&] { return *of_part >= 0; }) ? *of_part : 0;
  };
  for (;;) {
    const int t = __shfl_sync(full_warp, lane == 0 ? atomicAdd(ticket, 1) : 0, 0);
    if (t >= 2 * count) return;
    const int b = lower_bound(roots, blocks, transposed ? t / 2 : count - 1 - t / 2);
    const int begin = b ? roots[b - 1] + 1 : 0, size = roots[b] + 1 - begin;
    const int step = t - 2 * (transposed ? begin : count - begin - size);
    const bool is_forward = step < size;
    const int s = is_forward ? begin + step : begin + 2 * size - 1 - step;
    int most = -1;
    if (is_forward) {
      for (int q = child_ptr[s] + lane; q < child_ptr[s + 1]; q += 32) most = max(most, wait(child[q]));
      for (long long p = above_ptr[first[s]] + lane; p < above_ptr[first[s + 1]]; p += 32)
        most = max(most, wait(count + front_of(count, first, above_from[p])));
    } else {
      most = wait(parent[s] < 0 ? s : count + parent[s]);
    }
    const unsigned own = warp_max(static_cast<unsigned>(most + 1));
    if (lane == 0) *static_cast<volatile int*>(level + (is_forward ? s : count + s)) = static_cast<int>(own);
  }
}
