// The choice of pivots inside a tile and the arithmetic that the C++ code and the CUDA kernels have in common, so that both make
// the same factor: the same operations in the same order, and none of them fused on the GPU.
// Sources: Bunch and Kaufman 1977; Ashcraft, Grimes, Lewis 1998 (rook pivoting).
#pragma once
#include "native/dense/rounding.hpp"

namespace ms::ildl {

enum class Pivoting { fixed, bunch_kaufman, rook };

constexpr double alpha = 0.6403882032022076;      // (1 + sqrt 17) / 8
constexpr double tiny = 1e-8;                     // on a matrix scaled to entries of modulus 1
constexpr double weak = 1e-3;                     // static: a diagonal entry this small beside its neighbour needs a pair
constexpr int norm_parts = 8;                     // partial sums of a row's norm: its columns are dealt to them in turn

constexpr double most_budget = 2147483647;        // no row has more columns, and sums over all rows stay within 64 bits

// Columns that a block row may keep before it takes what others left over.
MS_HD inline long long budget_of(double max_fill, long long entries) {
  const double asked = max_fill * static_cast<double>(entries);
  const long long whole = static_cast<long long>(asked < most_budget ? asked : most_budget);
  return whole + (static_cast<double>(whole) < asked);
}

MS_HD inline double modulus(double x) { return x < 0 ? -x : x; }

// x / y * z - y: the determinant of the pivot [x y; y z] over y.
MS_HD inline double scaled_determinant(double x, double y, double z) { return times(x / y, z) - y; }

// A pair that is singular all the same goes as two rows.
MS_HD inline bool regular_pair(double x, double y, double z) { return y != 0 && modulus(scaled_determinant(x, y, z)) > tiny; }

MS_HD inline double raised(double pivot, int& perturbed) {
  if (!(modulus(pivot) < tiny)) return pivot;
  ++perturbed;
  return pivot < 0 ? -tiny : tiny;
}

// Brings the next pivot of a tile to row k, or its two rows to k and k + 1; true for a pair. The tile has `k`, the size `m`,
// `at(i, j)`, `exchange(p, q)`, and `largest(c, row)`: the largest modulus off the diagonal among the rows from k on of column c,
// and the first row that has it.
template <class Tile> MS_HD inline bool choose_pivot(Tile& tile, Pivoting pivoting) {
  const int k = tile.k;
  if (k == tile.m - 1) return false;
  if (pivoting == Pivoting::fixed)
    return modulus(tile.at(k, k)) < weak * modulus(tile.at(k + 1, k)) && modulus(tile.at(k + 1, k)) > tiny;
  int r, p = k;
  double most = tile.largest(k, r);
  const double own = modulus(tile.at(k, k));
  if (most == 0 || own >= alpha * most) return false;
  for (int steps = 0; steps < tile.m; ++steps) {
    int next;
    const double other = tile.largest(r, next);
    if (pivoting == Pivoting::bunch_kaufman && own * other >= times(alpha * most, most)) return false;
    if (modulus(tile.at(r, r)) >= alpha * other) {
      tile.exchange(k, r);
      return false;
    }
    if (pivoting == Pivoting::bunch_kaufman || other <= most) break;
    p = r;                                        // rook: go on until the entry is the largest of its row and its column
    r = next;
    most = other;
  }
  tile.exchange(k, p);
  tile.exchange(k + 1, r == k ? p : r);
  return true;
}

}  // namespace ms::ildl
