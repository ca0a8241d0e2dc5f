// Symbolic LU: the pattern of column k of L and U is the reach of the rows of A(:, k) in the graph of the earlier columns of L.
// Sources: Gilbert and Peierls 1988, "Sparse partial pivoting in time proportional to arithmetic operations", section 2;
// Eisenstat and Liu 1992, "Exploiting structural symmetry in unsymmetric sparse symbolic factorization" (pruning: once column
// k of L and row k of U share their first j, later searches need no entry of column k below j).
#include "unsymmetric.hpp"

#include <algorithm>

#include "native/threads/interrupt.hpp"

namespace ms::symbolic {
namespace {

struct Reach {
  Unsymmetric& f;
  std::vector<int32_t> mark, path;       // last column in which a row was visited; the search path
  std::vector<int64_t> next, kept;       // next entry of the search in a column; end of the column after pruning

  void found(int32_t i, int32_t k) {
    mark[i] = k;
    if (i > k)
      f.l_row.push_back(i);
    else if (i < k)
      path.push_back(i);
  }

  // Visits all rows that row i reaches; rows above the diagonal are appended to U.
  void search(int32_t i, int32_t k) {
    found(i, k);
    if (i >= k) return;
    next[i] = f.l_ptr[i];
    while (!path.empty()) {
      const int32_t j = path.back();
      while (next[j] < kept[j] && mark[f.l_row[next[j]]] == k) ++next[j];
      if (next[j] == kept[j]) {
        f.u_row.push_back(j);
        path.pop_back();
        continue;
      }
      const int32_t r = f.l_row[next[j]++];
      found(r, k);
      if (r < k) next[r] = f.l_ptr[r];
    }
  }

  void prune(int32_t k) {
    for (int64_t p = f.u_ptr[k]; p < static_cast<int64_t>(f.u_row.size()); ++p) {
      const int32_t i = f.u_row[p];
      if (kept[i] < f.l_ptr[i + 1]) continue;
      const auto begin = f.l_row.begin() + f.l_ptr[i], end = f.l_row.begin() + f.l_ptr[i + 1];
      const auto at = std::lower_bound(begin, end, k);
      if (at != end && *at == k) kept[i] = at - f.l_row.begin() + 1;
    }
  }
};

}  // namespace

Unsymmetric unsymmetric(int32_t n, const int64_t* ptr, const int32_t* row) {
  Unsymmetric f;
  f.l_ptr.assign(1, 0);
  f.u_ptr.assign(1, 0);
  f.l_row.reserve(ptr[n]);
  f.u_row.reserve(ptr[n]);
  Reach reach{f, std::vector<int32_t>(n, -1), {}, std::vector<int64_t>(n), std::vector<int64_t>(n)};
  for (int32_t k = 0; k < n; ++k) {
    if (k % 1024 == 0) interrupt::poll();
    reach.mark[k] = k;
    for (int64_t p = ptr[k]; p < ptr[k + 1]; ++p)
      if (reach.mark[row[p]] != k) reach.search(row[p], k);
    std::sort(f.l_row.begin() + f.l_ptr[k], f.l_row.end());
    std::sort(f.u_row.begin() + f.u_ptr[k], f.u_row.end());
    f.l_ptr.push_back(static_cast<int64_t>(f.l_row.size()));
    reach.kept[k] = f.l_ptr[k + 1];
    reach.prune(k);
    f.u_ptr.push_back(static_cast<int64_t>(f.u_row.size()));
  }
  return f;
}

double Unsymmetric::flops() const {
  double sum = static_cast<double>(l_row.size());
  for (const int32_t i : u_row) sum += 2.0 * static_cast<double>(l_ptr[i + 1] - l_ptr[i]);
  return sum;
}

}  // namespace ms::symbolic
