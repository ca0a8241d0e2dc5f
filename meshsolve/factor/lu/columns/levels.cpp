// Levels of columns that may be eliminated at the same time, by three rules, and a sparse triangular solve.
// A right-looking step k reads its multipliers U(k, j) from other columns. They are final after every earlier step t that updates
// them. So step k depends on t < k
//   upper    where U(t, k) != 0. Enough for left-looking updates; the rule of He et al. 2015, Algorithm 4, which is wrong for
//            right-looking ones, because t may still change U(k, j) where L(k, t) != 0.
//   relaxed  where L(k, t) != 0, or U(t, k) != 0 and column t of L is not empty (Peng and Tan 2020, GLU 3.0): right, with more
//            levels
//   exact    where U(t, k) != 0 and L(:, t) reaches row k or below, or L(k, t) != 0 and U(t, :) reaches column k or beyond.
// O(nnz(L + U)) time, two integers per column.
#include <algorithm>

#include "factor/lu/lu.hpp"
#include "native/threads/interrupt.hpp"

namespace ms::lu {

std::vector<int32_t> levels(const Pattern& L, const Pattern& U, LevelRule rule) {
  const int32_t n = L.n;
  std::vector<int32_t> level(n, 0), last_l(n), last_u(n);
  for (int32_t t = 0; t < n; ++t) {
    last_l[t] = last_u[t] = t;
    for (int64_t p = L.ptr[t]; p < L.ptr[t + 1]; ++p) last_l[t] = std::max(last_l[t], L.idx[p]);
    for (int64_t p = U.ptr[t]; p < U.ptr[t + 1]; ++p) last_u[t] = std::max(last_u[t], U.idx[p]);
  }
  for (int32_t t = 0; t < n; ++t) {              // t depends on earlier columns only, so its level is final
    const auto after = [&](int32_t k, bool depends) {
      if (k > t && depends) level[k] = std::max(level[k], level[t] + 1);
    };
    for (int64_t p = U.ptr[t]; p < U.ptr[t + 1]; ++p) {
      const int32_t k = U.idx[p];
      after(k, rule == LevelRule::upper || (rule == LevelRule::relaxed ? last_l[t] > t : last_l[t] >= k));
    }
    if (rule == LevelRule::upper) continue;
    for (int64_t p = L.ptr[t]; p < L.ptr[t + 1]; ++p) {
      const int32_t k = L.idx[p];
      after(k, rule == LevelRule::relaxed || last_u[t] >= k);
    }
  }
  return level;
}

template <class S>
void lower_solve(const Pattern& L, const S* l, const Pattern& F, const S* f, std::vector<int64_t>& ptr, std::vector<int32_t>& row,
                 std::vector<S>& x) {
  std::vector<S> dense(L.n, S(0));
  std::vector<int32_t> mark(L.n, -1), found;
  ptr.assign(1, 0);
  for (int32_t c = 0; c < F.n; ++c) {
    if (c % 16 == 0) interrupt::poll();
    found.clear();
    for (int64_t p = F.ptr[c]; p < F.ptr[c + 1]; ++p) {
      dense[F.idx[p]] += f[p];
      if (mark[F.idx[p]] != c) found.push_back(F.idx[p]);
      mark[F.idx[p]] = c;
    }
    for (size_t q = 0; q < found.size(); ++q)    // all rows that are reached
      for (int64_t p = L.ptr[found[q]]; p < L.ptr[found[q] + 1]; ++p)
        if (mark[L.idx[p]] != c) {
          mark[L.idx[p]] = c;
          found.push_back(L.idx[p]);
        }
    std::sort(found.begin(), found.end());
    for (const int32_t r : found) {
      const S y = dense[r];
      dense[r] = S(0);
      row.push_back(r);
      x.push_back(y);
      for (int64_t p = L.ptr[r]; p < L.ptr[r + 1]; ++p)
        if (L.idx[p] > r) dense[L.idx[p]] -= l[p] * y;
    }
    ptr.push_back(static_cast<int64_t>(row.size()));
  }
}

template void lower_solve<double>(const Pattern&, const double*, const Pattern&, const double*, std::vector<int64_t>&,
                                  std::vector<int32_t>&, std::vector<double>&);
template void lower_solve<Complex>(const Pattern&, const Complex*, const Pattern&, const Complex*, std::vector<int64_t>&,
                                   std::vector<int32_t>&, std::vector<Complex>&);

}  // namespace ms::lu
