// L D L^T of one diagonal tile by one warp, lane = row: the twin of tile.cpp, with the same pivots to the bit.
#pragma once
#include "device/common.cuh"
#include "factor/ildl/pivoting.hpp"

namespace ms::ildl {

struct WarpTile {
  const int m;
  double *const a, *const L;              // m x m by columns, in shared memory
  double *const d, *const e;
  int* const order;
  int k = 0, perturbed = 0;
  const int lane = static_cast<int>(threadIdx.x & 31);

  __device__ WarpTile(int size, double* tile, double* factor, double* diagonal, double* below, int* rows)
      : m(size), a(tile), L(factor), d(diagonal), e(below), order(rows) {
    for (int p = lane; p < m * m; p += 32) L[p] = 0;
    if (lane < m) {
      e[lane] = 0;
      order[lane] = lane;
    }
    __syncwarp(full_warp);
  }

  __device__ double& at(int i, int j) const { return a[i + j * m]; }

  __device__ double largest(int c, int& row) const {
    double most = lane >= k && lane < m && lane != c ? modulus(at(lane, c)) : 0.0;
    if (!(most > 0)) most = 0;
    int where = most > 0 ? lane : c;
    for (int step = 16; step > 0; step /= 2) {
      const double other = __shfl_xor_sync(full_warp, most, step);
      const int there = __shfl_xor_sync(full_warp, where, step);
      if (other > most || (other == most && most > 0 && there < where)) {
        most = other;
        where = there;
      }
    }
    row = where;
    return most;
  }

  __device__ void exchange(int p, int q) const {
    if (p == q) return;
    __syncwarp(full_warp);                // every lane has read what it decided by
    if (lane < m) swap(at(lane, p), at(lane, q));
    __syncwarp(full_warp);
    if (lane < m) swap(at(p, lane), at(q, lane));
    if (lane < k) swap(L[p + lane * m], L[q + lane * m]);
    if (lane == 0) {
      const int name = order[p];
      order[p] = order[q];
      order[q] = name;
    }
    __syncwarp(full_warp);
  }

  __device__ bool regular() const { return regular_pair(at(k, k), at(k + 1, k), at(k + 1, k + 1)); }

  __device__ void single() {
    const double x = raised(at(k, k), perturbed);
    const bool below = lane > k && lane < m;
    const double l = below ? at(lane, k) / x : 1.0;
    if (lane >= k && lane < m) L[lane + k * m] = l;
    if (lane == k) d[k] = x;
    if (below)
      for (int j = k + 1; j < m; ++j) at(lane, j) -= times(l, at(j, k));
    __syncwarp(full_warp);
    ++k;
  }

  __device__ void pair() {
    const double x = at(k, k), y = at(k + 1, k), z = at(k + 1, k + 1), scaled = scaled_determinant(x, y, z);
    if (lane == k) {
      d[k] = x;
      d[k + 1] = z;
      e[k] = y;
      L[k + k * m] = L[k + 1 + (k + 1) * m] = 1;
    }
    if (lane > k + 1 && lane < m) {
      const double u = at(lane, k), v = at(lane, k + 1);
      const double first = (times(z / y, u) - v) / scaled, second = (times(x / y, v) - u) / scaled;
      L[lane + k * m] = first;
      L[lane + (k + 1) * m] = second;
      for (int j = k + 2; j < m; ++j) at(lane, j) -= times(first, at(j, k)) + times(second, at(j, k + 1));
    }
    __syncwarp(full_warp);
    k += 2;
  }

  __device__ void factor(Pivoting pivoting) {
    while (k < m) {
      const bool two = choose_pivot(*this, pivoting) && regular();
      __syncwarp(full_warp);              // reads of the choice come before the writes of the step
      if (two)
        pair();
      else
        single();
    }
  }

 private:
  __device__ static void swap(double& x, double& y) {
    const double kept = x;
    x = y;
    y = kept;
  }
};

}  // namespace ms::ildl
