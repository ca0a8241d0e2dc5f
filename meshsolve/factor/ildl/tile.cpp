// L D L^T of one diagonal tile with one of three pivoting strategies.
// Sources: Bunch and Kaufman 1977; Ashcraft, Grimes, Lewis 1998 (rook pivoting). Cost: O(m^3) for m <= 32 rows.
#include <algorithm>
#include <cmath>

#include "incomplete.hpp"

namespace ms::ildl {
namespace {

struct TileFactor {
  const int m;
  double *const a, *const L, *const d, *const e;
  int* const order;
  int k = 0, perturbed = 0;

  double& at(int i, int j) const { return a[i + j * m]; }

  void exchange(int p, int q) const {
    if (p == q) return;
    for (int i = 0; i < m; ++i) std::swap(at(i, p), at(i, q));
    for (int i = 0; i < m; ++i) std::swap(at(p, i), at(q, i));
    for (int i = 0; i < k; ++i) std::swap(L[p + i * m], L[q + i * m]);
    std::swap(order[p], order[q]);
  }

  // Largest off-diagonal absolute value of column c in the remaining rows, and its row.
  double largest(int c, int& row) const {
    double most = 0;
    row = c;
    for (int i = k; i < m; ++i)
      if (i != c && std::abs(at(i, c)) > most) {
        most = std::abs(at(i, c));
        row = i;
      }
    return most;
  }

  bool regular() const { return regular_pair(at(k, k), at(k + 1, k), at(k + 1, k + 1)); }

  void single() {
    const double x = raised(at(k, k), perturbed);
    d[k] = x;
    L[k + k * m] = 1;
    for (int i = k + 1; i < m; ++i) L[i + k * m] = at(i, k) / x;
    for (int j = k + 1; j < m; ++j)
      for (int i = k + 1; i < m; ++i) at(i, j) -= L[i + k * m] * at(j, k);
    ++k;
  }

  void pair() {
    const double x = at(k, k), y = at(k + 1, k), z = at(k + 1, k + 1), scaled = scaled_determinant(x, y, z);
    d[k] = x;
    d[k + 1] = z;
    e[k] = y;
    L[k + k * m] = L[k + 1 + (k + 1) * m] = 1;
    for (int i = k + 2; i < m; ++i) {
      L[i + k * m] = (z / y * at(i, k) - at(i, k + 1)) / scaled;
      L[i + (k + 1) * m] = (x / y * at(i, k + 1) - at(i, k)) / scaled;
    }
    for (int j = k + 2; j < m; ++j)
      for (int i = k + 2; i < m; ++i) at(i, j) -= L[i + k * m] * at(j, k) + L[i + (k + 1) * m] * at(j, k + 1);
    k += 2;
  }
};

}  // namespace

int factor_tile(int m, double* a, double* L, double* d, double* e, int* order, Pivoting pivoting) {
  std::fill(L, L + m * m, 0.0);
  std::fill(e, e + m, 0.0);
  for (int i = 0; i < m; ++i) order[i] = i;
  TileFactor tile{m, a, L, d, e, order};
  while (tile.k < m)
    if (choose_pivot(tile, pivoting) && tile.regular())
      tile.pair();
    else
      tile.single();
  return tile.perturbed;
}

}  // namespace ms::ildl
