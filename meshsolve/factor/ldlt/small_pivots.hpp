// Small pivots: tests for pivots that are zero in rounding, and for pivots of uncertain sign. This arithmetic is shared by
// small_pivots.cpp and the CUDA kernels.
//
// Elimination computes L D L^T = A + E with |E| at most a few units of rounding times |L| |D| |L^T|. The pivot d_j is the
// quadratic form z_j^T (A + E) z_j of the vector z_j that solves L^T z_j = e_j. With the magnitude g_i = sum_k L_ik^2 |D_kk| of
// row i, its error is about s_j = eps * sum_i z_ji^2 g_i. A pivot of at most zero_units * s_j is set to zero and counts as zero
// in the inertia. A matrix within the rounding errors of A is then singular in this direction. A larger pivot is not changed. A
// pivot between certain_units * s_j and undecided_units * s_j, zero or not, is counted as undecided. All sums are estimated at once
// by one forward solve: for random xi of variance 1, (L^-1 diag(sqrt g) xi)_j has the variance sum_i z_ji^2 g_i.
//
// Sources: Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 11.1 (backward error of L D L^T); Hutchinson
// 1990 (random estimates of a trace).
#pragma once
#include "native/dense/ldl_pivot.hpp"
#include "native/rng.hpp"

#ifndef __CUDACC__
#include <cmath>
#endif

namespace ms::ldlt {

constexpr int pivot_samples = 8;                             // random right-hand sides: as many as one pass of a solve has
constexpr double zero_units = 4, undecided_units = 32;       // units of rounding
constexpr double certain_units = 1;                          // units up to which a pivot is certainly zero

// Sizes of pivots of the scaled matrix, whose largest entries are about 1.
template <class T> struct PivotSizes {
  static constexpr double eps = sizeof(T) == 8 ? 0x1p-52 : 0x1p-23;
  static constexpr double doubtful = sizeof(T) == 8 ? 1e-9 : 1e-4;       // smaller pivots: factored again with the strict threshold
};

MS_HD inline double magnitude(double x) { return x < 0 ? -x : x; }
MS_HD inline double root(double x) {
#ifdef __CUDACC__
  return sqrt(x);
#else
  return std::sqrt(x);
#endif
}
MS_HD inline double larger(double x, double y) { return x > y ? x : y; }

// Uniform in (-sqrt 3, sqrt 3), which has the variance 1.
MS_HD inline double pivot_sample(long long row, int column) {
  const unsigned long long bits = hash_key(0x5A, static_cast<unsigned long long>(row), static_cast<unsigned long long>(column)) >> 11;
  return (static_cast<double>(bits) * 0x1p-52 - 1) * 1.7320508075688772;
}

// Contribution of a pivot d with the entry x of L, or of a pair (d, e, other) with the entries x and y, to the magnitude of a
// row.
template <class T> MS_HD inline T added_magnitude(T d, T e, T other, T x, T y) {
  const T own = x * x * (d < 0 ? -d : d);
  if (e == T(0)) return own;
  const T shared = x * y * e;
  return own + 2 * (shared < 0 ? -shared : shared) + y * y * (other < 0 ? -other : other);
}

// Size of pivot k of a front; of a pair the largest of its entries.
template <class T> MS_HD inline double size_of_pivot(const T* d, const T* e, long long k) {
  const double size = magnitude(d[k]);
  return e[k] == T(0) ? size : larger(size, larger(magnitude(e[k]), magnitude(d[k + 1])));
}

template <class T> MS_HD inline bool is_small(double size) { return size < SmallPivot<T>::size && size > 0; }

// Computed pivots that were set to zero, compared with the other pivots.
struct Noise {
  double largest = 0;                    // largest size of the pivots that are zero in rounding
  double least_other = 1e300;            // smallest size of the other pivots
  bool grows = false;                    // a column of L of such a pivot has an entry above 1: rounding errors grow

  // LdlRule::tiny for a factorization in which such errors do not grow; 0 if this factorization is good, or if no value lies
  // between.
  MS_HD double size_of_zero() const {
    constexpr double gap = 64, most = 1e-10;
    if (!grows || least_other < gap * largest) return 0;
    const double between = root(largest) * root(least_other);
    return larger(between < most ? between : most, 2 * largest);
  }
};

// Sets a small pivot, or both of a small pair, to zero if it is zero in rounding. `sum`, `other_sum`: estimated sums of the
// errors of the pivot and of its partner. Returns 1 if the sign of the pivot, or of one of the two, stays undecided, else 0.
template <class T> MS_HD inline int settle_pivot(T* d, T* e, long long k, double sum, double other_sum) {
  constexpr double eps = PivotSizes<T>::eps;
  const double own = magnitude(d[k]) / (eps * sum);
  if (e[k] == T(0)) {
    if (own <= zero_units) d[k] = T(0);
    return own > certain_units && own <= undecided_units;
  }
  const double other = magnitude(d[k + 1]) / (eps * other_sum), shared = magnitude(e[k]) / (eps * root(sum) * root(other_sum));
  const double largest = larger(shared, larger(own, other));
  if (largest <= zero_units) {
    d[k] = d[k + 1] = e[k] = T(0);
    return largest > certain_units;
  }
  const double product = own / largest * other, square = shared / largest * shared;
  return magnitude(((d[k] < 0) == (d[k + 1] < 0) ? product : -product) - square) <= undecided_units;      // about the smaller eigenvalue
}

}  // namespace ms::ldlt
