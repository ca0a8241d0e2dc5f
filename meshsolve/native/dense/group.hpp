// Kernels for one front of several matrices of one pattern: a group of `group_size` systems, one in each lane of a vector. All arrays
// hold one number of each system where the kernels of dense.hpp and rows.hpp have one number. Each lane has the bits that those kernels
// give its system: the operations of an entry and their order are the same. Declarations only.
#pragma once
#include "int.hpp"

namespace ms {

constexpr int group_size = 4;

// All matrices are column-major. A panel of m rows and k columns is stored without the part above its diagonal: column j has the rows
// j to m - 1.
struct GroupKernels {
  // Clears an m x k panel A and adds the entries of the systems' matrices. Column j has the entries ptr[j] to ptr[j + 1] - 1: entry p
  // has the value values[lane][source[p]] and the row row[p]. diagonal: (k) receives the diagonal.
  void (*assemble)(Int m, Int k, const unsigned* ptr, const unsigned* source, const int* row, const double* const* values, double* A,
                   double* diagonal);
  // Columns 0..end of X (m x m, lower): adds X(i, j) to row to[i], column to[j] (ascending) of the panel A with `height` rows.
  void (*add_to_panel)(Int end, Int m, const double* X, const int* to, double* A, Int height);
  // Columns begin..m of X to the update matrix C (rows x rows) of a front with `pivots` pivots.
  void (*add_to_update)(Int begin, Int m, const double* X, const int* to, double* C, Int rows, Int pivots);
  // L of an m x k panel. ratio: one number per system, reduced to the smallest pivot relative to its entry of `diagonal`. Returns a bit
  // for each system whose pivots need the kernel of dense.hpp; its numbers are undefined.
  unsigned (*panel)(Int m, Int k, double* A, const double* diagonal, double* ratio);
  // Lower part of the m x m matrix C = -A A^T, where A is the rows from k on of a panel of k columns and m + k rows. May write above the
  // diagonal.
  void (*update)(Int m, Int k, const double* panel, double* C);
  // As RowKernels::forward and backward for one right-hand side per system, with c = w and a stored diagonal. L: an m x w panel.
  void (*forward)(Int m, Int w, const double* L, double* Y, double* X, const int* rows);
  void (*backward)(Int m, Int w, const double* L, double* Y, const double* X, const int* rows);
};

const GroupKernels& group_kernels();

}  // namespace ms
