// The choice of pivots inside a tile, and the arithmetic that the C++ code and the CUDA kernels share. Both compute the same
// factor: the same operations in the same order, without fused products on the GPU.
// Sources: Bunch and Kaufman 1977; Ashcraft, Grimes, Lewis 1998 (rook pivoting).
#pragma once
#include "native/dense/rounding.hpp"

namespace ms::ildl {

enum class Pivoting { fixed, bunch_kaufman, rook };

constexpr double alpha = 0.6403882032022076;      // (1 + sqrt 17) / 8
constexpr double tiny = 1e-8;                     // smallest pivot of a matrix scaled to entries of at most 1
constexpr double weak = 1e-3;                     // static pivots: smallest diagonal entry relative to its neighbor, else a pair
constexpr int norm_parts = 8;                     // partial sums of the norm of a row; columns belong to them in turn

constexpr double most_budget = 2147483647;        // largest budget in columns: sums over all rows fit into 64 bits

// Columns that a block row may keep without the unused budgets of other rows.
MS_HD inline long long budget_of(double max_fill, long long entries) {
  const double budget = max_fill * static_cast<double>(entries);
  const long long whole = static_cast<long long>(budget < most_budget ? budget : most_budget);
  return whole + (static_cast<double>(whole) < budget);
}

MS_HD inline double magnitude(double x) { return x < 0 ? -x : x; }

// x / y * z - y: the determinant of the pivot [x y; y z] over y.
MS_HD inline double scaled_determinant(double x, double y, double z) { return times(x / y, z) - y; }

// True if a 2x2 pivot is regular; else its rows become two pivots.
MS_HD inline bool regular_pair(double x, double y, double z) { return y != 0 && magnitude(scaled_determinant(x, y, z)) > tiny; }

MS_HD inline double raised(double pivot, int& perturbed) {
  if (!(magnitude(pivot) < tiny)) return pivot;
  ++perturbed;
  return pivot < 0 ? -tiny : tiny;
}

// Moves the next pivot of a tile to row k, or its two rows to k and k + 1; returns true for a pair. The tile has `k`, the size
// `m`, `at(i, j)`, `exchange(p, q)` and `largest(c, row)`. The latter is the largest off-diagonal absolute value of column c in
// the rows from k on, and the first row with it.
template <class Tile> MS_HD inline bool choose_pivot(Tile& tile, Pivoting pivoting) {
  const int k = tile.k;
  if (k == tile.m - 1) return false;
  if (pivoting == Pivoting::fixed)
    return magnitude(tile.at(k, k)) < weak * magnitude(tile.at(k + 1, k)) && magnitude(tile.at(k + 1, k)) > tiny;
  int r, p = k;
  double most = tile.largest(k, r);
  const double own = magnitude(tile.at(k, k));
  if (most == 0 || own >= alpha * most) return false;
  for (int steps = 0; steps < tile.m; ++steps) {
    int next;
    const double other = tile.largest(r, next);
    if (pivoting == Pivoting::bunch_kaufman && own * other >= times(alpha * most, most)) return false;
    if (magnitude(tile.at(r, r)) >= alpha * other) {
      tile.exchange(k, r);
      return false;
    }
    if (pivoting == Pivoting::bunch_kaufman || other <= most) break;
    p = r;                                        // rook: continue until the entry is the largest of its row and its column
    r = next;
    most = other;
  }
  tile.exchange(k, p);
  tile.exchange(k + 1, r == k ? p : r);
  return true;
}

}  // namespace ms::ildl
