// Numeric Cholesky factorization of the fronts of one level of the assembly tree.
//
// CUDA counterpart of factor.cpp; source: Liu 1992. Three methods, chosen by the size of a front (fronts/cuda.py):
//   k_factor     a warp or a thread block has the panel in shared memory: assemble it, eliminate its columns, write it, write the
//                update matrix as -L21 L21^T and add those of the children. Nothing is cleared or read twice.
//   by tiles     the panel does not fit: k_assemble by tiles of columns, then for each 32 columns k_eliminate (diagonal block
//                and rows below it) and k_subtract (later columns), at the end k_subtract for the update matrix. All such
//                fronts of a level go through each launch together.
//   libraries    the largest are assembled by k_assemble and factored by cuSOLVER and cuBLAS; k_check tests their pivots.
// *failed is the smallest column whose pivot is not positive and finite; its ancestors fail in later columns only. The host reads
// *failed once, after the last launch, together with the exponent of the smallest pivot (k_measure).
#include "factor/fronts/fronts.cuh"
#include "factor/fronts/tiles.cuh"

namespace ms::cholesky {

using fronts::Block;
using fronts::Front;
using fronts::Tree;
using fronts::tile;

constexpr int pivot_block = 32;         // columns of one step by tiles
constexpr int assembly_columns = 8;     // columns of a tile of k_assemble

// Right-looking elimination of a panel in shared memory. Column j updates the later columns unscaled, and is scaled while column
// j + 1 does: one barrier per column. Returns the first column whose pivot is not positive and finite, or `width`.
template <class T, class Group> __device__ __forceinline__ int eliminate(const Group& g, T* panel, int height, int width) {
  T scale = T(0);
  for (int j = 0;; ++j) {
    T* const column = panel + j * height;
    if (j > 0)
      for (int i = j - 1 + g.rank; i < height; i += g.size) column[i - height] *= scale;
    if (j == width) break;
    const T pivot = column[j];
    if (!(pivot > T(0) && pivot - pivot == T(0))) {
      width = j;
      break;
    }
    scale = rsqrt(pivot);
    const T inverse = scale * scale;
    for (int k = j + 1 + g.warp; k < width; k += g.warps) {
      const T x = column[k] * inverse;
      for (int i = k + g.lane; i < height; i += 32) panel[k * height + i] -= column[i] * x;
    }
    g.sync();
  }
  g.sync();
  return width;
}

template <class T, class Group>
__device__ __forceinline__ void factor_front(const Tree<T>& t, int s, const Group& g, T* panel, int* failed) {
  const Front f = t.fronts[s];
  const int height = static_cast<int>(f.height), width = static_cast<int>(f.pivots), rows = height - width;
  for (int i = g.rank; i < height * width; i += g.size) panel[i] = T(0);
  g.sync();
  const auto in_panel = [&](int i, int j) { return panel + i + j * height; };
  fronts::add_entries(t, f, g, 0, width, in_panel);
  fronts::add_children(t, f, g, 0, width, in_panel);
  const int done = eliminate(g, panel, height, width);
  if (done < width) {
    if (g.rank == 0) atomicMin(failed, static_cast<int>(f.first) + done);
    return;
  }
  T* const L = t.panels + f.panel;
  for (int j = g.warp; j < width; j += g.warps)
    for (int i = g.lane; i < height; i += 32) L[i + j * f.leading] = panel[i + j * height];
  if (rows == 0) return;
  T* const U = t.updates + f.update;
  fronts::outer_product<true>(g, panel + width, height, panel + width, height, rows, width, U);
  const auto in_update = [&](int i, int j) { return U + (i - width) + static_cast<long long>(j - width) * rows; };
  fronts::add_children(t, f, g, width, height, in_update);
}

// ---- by tiles

// Clears and assembles `assembly_columns` columns of a front in global memory.
template <class T> __device__ __forceinline__ void assemble_tile(const Tree<T>& t, int s, int from) {
  const Front f = t.fronts[s];
  const Block g;
  const int height = static_cast<int>(f.height), width = static_cast<int>(f.pivots), to = min(from + assembly_columns, height);
  T *const L = t.panels + f.panel, *const U = t.updates + f.update;
  const auto at = [&](int i, int j) {
    return j < width ? L + i + j * f.leading : U + (i - width) + static_cast<long long>(j - width) * (height - width);
  };
  for (int j = from + g.warp; j < to; j += g.warps)
    for (int i = j + g.lane; i < height; i += 32) *at(i, j) = T(0);
  g.sync();
  fronts::add_entries(t, f, g, from, min(to, width), at);
  fronts::add_children(t, f, g, from, to, at);
}

// The columns [from, from + pivot_block) of a panel: the diagonal block, and the rows of this thread block below it. Each thread
// block eliminates the diagonal block in shared memory; the last that has read it stores it. `arrived` counts them, from 0 to 0.
// Each thread has one row in registers. Missing columns are not stored.
template <class T> __device__ __forceinline__ void eliminate_columns(const Front& f, T* L, int from, int* arrived, int* failed) {
  __shared__ T diagonal[pivot_block * pivot_block];         // by columns
  __shared__ T inverse[pivot_block];                        // of its diagonal
  __shared__ bool is_last;
  const Block g;
  const int width = min(pivot_block, static_cast<int>(f.pivots) - from);
  T* const stored = L + f.panel + from + from * f.leading;
  for (int k = g.rank; k < pivot_block * pivot_block; k += g.size) {
    const int i = k % pivot_block, j = k / pivot_block;
    diagonal[k] = i >= j && i < width ? stored[i + j * f.leading] : T(0);
  }
  g.sync();
  if (g.rank == 0) {
    __threadfence();                                        // the block is read before it is stored by another thread block
    is_last = atomicAdd(arrived, 1) == static_cast<int>(gridDim.x) - 1;
    __threadfence();
  }
  const int done = eliminate(g, diagonal, pivot_block, width);
  for (int j = g.rank; j < pivot_block; j += g.size) inverse[j] = T(1) / (j < width ? diagonal[j * (pivot_block + 1)] : T(1));
  g.sync();
  if (is_last) {
    for (int j = g.warp; j < width; j += g.warps)
      if (g.lane >= j && g.lane < width) stored[g.lane + j * f.leading] = diagonal[g.lane + j * pivot_block];
    if (g.rank == 0) {
      atomicExch(arrived, 0);
      if (done < width) atomicMin(failed, static_cast<int>(f.first) + from + done);
    }
  }
  const int row = from + width + static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= f.height) return;
  T* const x = L + f.panel + row + from * f.leading;
  T value[pivot_block];
#pragma unroll
  for (int j = 0; j < pivot_block; ++j) value[j] = j < width ? x[j * f.leading] : T(0);
#pragma unroll
  for (int j = 0; j < pivot_block; ++j) {
#pragma unroll
    for (int k = 0; k < j; ++k) value[j] -= value[k] * diagonal[j + k * pivot_block];
    value[j] *= inverse[j];
  }
#pragma unroll
  for (int j = 0; j < pivot_block; ++j)
    if (j < width) x[j * f.leading] = value[j];
}

// Subtracts the pivots [from, to) from the later pivot columns, or (of_update) all pivots from the update matrix.
template <class T>
__device__ __forceinline__ void subtract(const Front& f, T* panels, T* updates, int of_update, int from, int to) {
  const int r = blockIdx.x, c = blockIdx.y;
  if (r < c) return;
  const int width = static_cast<int>(f.pivots), begin = of_update ? width : min(to, width);
  const int columns = (of_update ? static_cast<int>(f.height) : width) - begin - c * tile;
  const int rows = static_cast<int>(f.height) - begin - r * tile;
  if (columns <= 0 || rows <= 0) return;
  const T* const L = panels + f.panel + begin + from * f.leading;
  T* const C = of_update ? updates + f.update : panels + f.panel + begin + begin * f.leading;
  const long long leading_C = of_update ? f.updates() : f.leading;
  fronts::subtract_tile(L + r * tile, f.leading, L + c * tile, 1, f.leading, min(rows, tile), min(columns, tile),
                        min(to, width) - from, C + r * tile + c * tile * leading_C, leading_C, r == c ? 0 : -tile);
}

// ---- by libraries

// Tests the pivots of a front that cuSOLVER factored: it stops before pivot `info` if that is not positive, but accepts infinity.
template <class T> __device__ __forceinline__ void check_pivots(const Front& f, const T* panels, int info, int* failed) {
  const long long done = info > 0 ? info - 1 : f.pivots;
  if (threadIdx.x == 0 && done < f.pivots) atomicMin(failed, static_cast<int>(f.first + done));
  for (long long j = threadIdx.x; j < done; j += blockDim.x) {
    const T pivot = panels[f.panel + j + j * f.leading];
    if (!(pivot > T(0) && pivot - pivot == T(0))) atomicMin(failed, static_cast<int>(f.first + j));
  }
}

// *least: the smallest float64 exponent of a pivot relative to its diagonal entry of A. Few threads change it, so most only read.
template <class T>
__device__ __forceinline__ void measure_pivots(const Front& f, const T* panels, const long long* entry_ptr, const unsigned* entry_source,
                                               const int* entry_row, const double* values, int* least) {
  volatile int* const known = least;
  for (long long j = threadIdx.x; j < f.pivots; j += blockDim.x) {
    double own = 0;
    for (long long p = entry_ptr[f.first + j]; p < entry_ptr[f.first + j + 1]; ++p)
      if (entry_row[p] == j) own += values[entry_source[p]];
    const double root = static_cast<double>(panels[f.panel + j + j * f.leading]);
    const int exponent = static_cast<int>(__double_as_longlong(root / own * root) >> 52 & 0x7ff);
    if (exponent < *known) atomicMin(least, exponent);
  }
}

}  // namespace ms::cholesky

using namespace ms;
using namespace ms::cholesky;

extern "C" __global__ void __launch_bounds__(256)
k_factor(int per_warp, const int* list, int count, int capacity, const long long* table, const int* child,
         const int* relative, const long long* entry_ptr, const unsigned* entry_source, const int* entry_row,
         const double* values, SCALAR* panels, SCALAR* updates, int* failed) {
  extern __shared__ SCALAR shared[];
  const Tree<SCALAR> t{reinterpret_cast<const Front*>(table), child, relative, entry_ptr, entry_source, entry_row,
                       values, panels, updates};
  fronts::for_fronts(per_warp, list, count, capacity, shared,
                     [&](int s, const auto& group, SCALAR* workspace) { factor_front(t, s, group, workspace, failed); });
}

// tiles: pairs (front, first column), one for each block.
extern "C" __global__ void __launch_bounds__(256)
k_assemble(const int* tiles, const long long* table, const int* child, const int* relative, const long long* entry_ptr,
           const unsigned* entry_source, const int* entry_row, const double* values, SCALAR* panels, SCALAR* updates) {
  const Tree<SCALAR> t{reinterpret_cast<const Front*>(table), child, relative, entry_ptr, entry_source, entry_row,
                       values, panels, updates};
  assemble_tile(t, tiles[2 * blockIdx.x], tiles[2 * blockIdx.x + 1]);
}

// Grid: tiles of rows, at least one, x fronts. arrived: 0 for each front.
extern "C" __global__ void __launch_bounds__(128)
k_eliminate(const int* list, const long long* table, SCALAR* panels, int from, int* arrived, int* failed) {
  eliminate_columns(reinterpret_cast<const Front*>(table)[list[blockIdx.y]], panels, from, arrived + blockIdx.y, failed);
}

// Grid: tiles of rows x tiles of columns x fronts.
extern "C" __global__ void __launch_bounds__(256)
k_subtract(const int* list, const long long* table, SCALAR* panels, SCALAR* updates, int of_update, int from, int to) {
  subtract(reinterpret_cast<const Front*>(table)[list[blockIdx.z]], panels, updates, of_update, from, to);
}

extern "C" __global__ void __launch_bounds__(256)
k_check(const int* front, const long long* table, const SCALAR* panels, const int* info, int* failed) {
  check_pivots(reinterpret_cast<const Front*>(table)[*front], panels, *info, failed);
}

extern "C" __global__ void __launch_bounds__(32)
k_measure(const long long* table, const SCALAR* panels, const long long* entry_ptr, const unsigned* entry_source, const int* entry_row,
          const double* values, int* least) {
  measure_pivots(reinterpret_cast<const Front*>(table)[blockIdx.x], panels, entry_ptr, entry_source, entry_row, values, least);
}
