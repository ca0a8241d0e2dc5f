// Fronts on the GPU: their storage, the threads of one front (a warp or a thread block), and the assembly.
//
// CUDA counterpart of fronts.hpp and of the assembly in cholesky/factor.cpp. Source: Liu 1992, "The multifrontal method for
// sparse matrix solution". L D L^T runs the fronts of one depth of the assembly tree in one launch, the deepest first; Cholesky has one
// queue of tiles (plan.py). Update matrices lie in two halves of one buffer, by parity of the depth: no front overwrites an update matrix
// that fronts of the depth below still read. A parent adds the update matrices of its children in ascending order, and one thread block
// owns a column of the parent. So sums have the same bits in every run, without atomics.
#pragma once
#include "device/common.cuh"

namespace ms::fronts {

struct Front {                          // one row of the table that tree_cuda.py makes; offsets are in scalars
  long long panel, leading;             // height x pivots, column-major
  long long update;                     // lower triangle: of a square, column-major, or (Cholesky) packed; ~begin in shared memory
  long long vector;                     // in right-hand sides: height - pivots rows
  long long rows;                       // of the row list, and of `relative`
  long long first, pivots, height;      // first column, columns, rows
  long long child_begin, child_end;
  __device__ int updates() const { return static_cast<int>(height - pivots); }
};

template <class T> struct Tree {        // arrays of the whole tree
  const Front* fronts;
  const int *child, *relative;          // relative: row in the parent's front of each row below the pivots
  const long long* entry_ptr;           // lower entries of the permuted matrix by columns:
  const unsigned* entry_source;         //   position in A's values
  const int* entry_row;                 //   row in the front of the column
  const double* values;
  T *panels, *updates;
};

// The threads of one front: the lanes of a warp share a column, the warps share the columns.
struct Warp {
  static constexpr int warp = 0, warps = 1, size = 32;
  const int lane = threadIdx.x & 31, rank = lane;
  __device__ void sync() const { __syncwarp(); }
};

struct Block {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5, rank = threadIdx.x, size = blockDim.x;
  __device__ void sync() const { __syncthreads(); }
};

// body(front, group, workspace) for the fronts on a list: one block each, or one warp each. `shared` has `capacity` scalars a group.
template <class T, class Body>
__device__ __forceinline__ void for_fronts(int per_warp, const int* list, int count, int capacity, T* shared, Body body) {
  if (per_warp) {
    const int warps = blockDim.x >> 5, warp = threadIdx.x >> 5;
    for (int k = blockIdx.x * warps + warp; k < count; k += gridDim.x * warps) {
      const Warp group;
      body(list[k], group, shared + warp * capacity);
      group.sync();                                         // the next front uses the same shared memory
    }
  } else {
    body(list[blockIdx.x], Block{}, shared);
  }
}

// body(constant) with the number of right-hand sides as a compile-time constant.
template <int value> struct Width {
  static constexpr int columns = value;
};

template <class Body> __device__ __forceinline__ void with_width(int width, Body body) {
  switch (width) {
    case 1: return body(Width<1>{});
    case 4: return body(Width<4>{});
    default: return body(Width<8>{});
  }
}

// Points to row 0 of column j of a matrix with `rows` rows: stored as a square, or as a packed lower triangle.
template <class T> __device__ __forceinline__ T* square_column(T* X, int rows, int j) { return X + static_cast<long long>(j) * rows; }
template <class T> __device__ __forceinline__ T* packed_column(T* X, int rows, int j) {
  return X + (static_cast<long long>(j) * (2 * rows - j - 1) >> 1);
}

// Adds the columns of a child's update matrix with indices [from, to) in the parent. column_of(j) points to row 0 of its column j.
// at(i, j) points to an entry of the parent. `relative` ascends.
template <class Group, class Column, class At>
__device__ __forceinline__ void add_child(const Group& g, const int* relative, int count, Column column_of, int from, int to, At at) {
  const int begin = lower_bound(relative, count, from), end = lower_bound(relative, count, to);
  for (int j = begin + g.warp; j < end; j += g.warps) {
    const auto* const column = column_of(j);
    const int target = relative[j];
    for (int i = j + g.lane; i < count; i += 32) *at(relative[i], target) += column[i];
  }
  g.sync();
}

template <class T, class Group, class At>
__device__ __forceinline__ void add_children(const Tree<T>& t, const Front& f, const Group& g, int from, int to, At at) {
  for (long long q = f.child_begin; q < f.child_end; ++q) {
    const Front& c = t.fronts[t.child[q]];
    const int rows = c.updates();
    add_child(g, t.relative + c.rows, rows, [&](int j) { return square_column(t.updates + c.update, rows, j); }, from, to, at);
  }
}

// The entries of A in the pivot columns [from, to).
template <class T, class Group, class At>
__device__ __forceinline__ void add_entries(const Tree<T>& t, const Front& f, const Group& g, int from, int to, At at) {
  for (int j = from + g.warp; j < to; j += g.warps)
    for (long long p = t.entry_ptr[f.first + j] + g.lane; p < t.entry_ptr[f.first + j + 1]; p += 32)
      *at(t.entry_row[p], j) += static_cast<T>(t.values[t.entry_source[p]]);
  g.sync();
}

}  // namespace ms::fronts
