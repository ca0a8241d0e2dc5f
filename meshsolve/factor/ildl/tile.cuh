// L D L^T of one diagonal tile by one warp, lane = row. Host counterpart: tile.cpp, with the same pivots to the bit.
#pragma once
#include "device/division.cuh"
#include "factor/ildl/pivoting.hpp"

namespace ms::ildl {

struct WarpTile {
  const int m, lead;                      // lead: rows of a column in memory, a multiple of `together`
  double *const a, *const L;              // lead x lead by columns, in shared memory; zero beyond the first m
  double *const d, *const e;
  int* const order;
  int k = 0, perturbed = 0;
  const int lane = static_cast<int>(threadIdx.x & 31);

  __device__ WarpTile(int size, int leading, double* tile, double* factor, double* diagonal, double* below, int* rows)
      : m(size), lead(leading), a(tile), L(factor), d(diagonal), e(below), order(rows) {
    for (int p = lane; p < lead * lead; p += 32) L[p] = 0;
    if (lane < lead) {
      d[lane] = 1;
      e[lane] = 0;
      order[lane] = lane;
    }
  }

  __device__ double& at(int i, int j) const { return a[i + j * lead]; }

  __device__ double largest(int c, int& row) const {
    const double found = lane >= k && lane < m && lane != c ? magnitude(at(lane, c)) : 0.0, own = found > 0 ? found : 0.0;
    const unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(own));       // ordered like the numbers
    const unsigned high = static_cast<unsigned>(bits >> 32), low = static_cast<unsigned>(bits), top = warp_max(high),
                   below = warp_max(high == top ? low : 0u);
    const unsigned holders = __ballot_sync(full_warp, high == top && low == below);
    const double most = __longlong_as_double(static_cast<long long>(static_cast<unsigned long long>(top) << 32 | below));
    row = most > 0 ? __ffs(static_cast<int>(holders)) - 1 : c;
    return most;
  }

  __device__ void exchange(int p, int q) const {
    if (p == q) return;
    __syncwarp(full_warp);                // every lane has read its operands
    if (lane < m) swap(at(lane, p), at(lane, q));
    __syncwarp(full_warp);
    if (lane < m) swap(at(p, lane), at(q, lane));
    if (lane < k) swap(L[p + lane * lead], L[q + lane * lead]);
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
    const double l = below ? divided(at(lane, k), x) : 1.0;
    if (lane >= k && lane < m) L[lane + k * lead] = l;
    if (lane == k) d[k] = x;
    if (below) subtract(k + 1, [&](int j) { return times(l, at(j, k)); });
    __syncwarp(full_warp);
    ++k;
  }

  __device__ void pair() {
    const double x = at(k, k), y = at(k + 1, k), z = at(k + 1, k + 1), scaled = scaled_determinant(x, y, z);
    if (lane == k) {
      d[k] = x;
      d[k + 1] = z;
      e[k] = y;
      L[k + k * lead] = L[k + 1 + (k + 1) * lead] = 1;
    }
    if (lane > k + 1 && lane < m) {
      const double u = at(lane, k), v = at(lane, k + 1);
      const double first = divided(times(divided(z, y), u) - v, scaled), second = divided(times(divided(x, y), v) - u, scaled);
      L[lane + k * lead] = first;
      L[lane + (k + 1) * lead] = second;
      subtract(k + 2, [&](int j) { return times(first, at(j, k)) + times(second, at(j, k + 1)); });
    }
    __syncwarp(full_warp);
    k += 2;
  }

  __device__ void factor(Pivoting pivoting) {
    while (k < m) {
      const bool two = choose_pivot(*this, pivoting) && regular();
      __syncwarp(full_warp);              // the choice is read before the step writes
      if (two)
        pair();
      else
        single();
    }
  }

 private:
  static constexpr int together = 8;

  // Subtracts product(j) from the lane's row in each column j from `from` on. Several columns are loaded, without a branch, before
  // one is stored. The compiler may not reorder these accesses itself, and would wait for each load.
  template <class Product> __device__ void subtract(int from, Product product) const {
    for (int base = from / together * together; base < m; base += together) {
      double value[together];
#pragma unroll
      for (int i = 0; i < together; ++i) value[i] = at(lane, base + i) - product(base + i);
#pragma unroll
      for (int i = 0; i < together; ++i)
        if (base + i >= from) at(lane, base + i) = value[i];
    }
  }

  __device__ static void swap(double& x, double& y) {
    const double kept = x;
    x = y;
    y = kept;
  }
};

}  // namespace ms::ildl
