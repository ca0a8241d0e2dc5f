// The numeric phase of the fronts engine: LU of each front with row exchanges inside its pivot block, from the leaves up.
// Source: Duff and Reid 1984, "The multifrontal solution of unsymmetric sets of linear equations"; Schenk and Gaertner 2006
// (exchanges inside the pivot block, perturbed pivots). O(flops) time.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "factor/lu/lu.hpp"
#include "native/threads/parallel.hpp"
#include "factor/lu/scalar.hpp"

namespace ms::lu {
namespace {

using fronts::AssemblyTree;
using fronts::UpdateBlocks;

constexpr int64_t pivot_block = 128, tile_rows = 256, tile_columns = 64;
constexpr int64_t small_pivots = 4, small_height = 16;      // largest front that is factored by plain loops

template <class T>
struct Front {
  int64_t w, u, ldp, ldq;
  T *P, *Q, *C;                           // C: u x u, the update matrix
  int32_t* exchange;
  int64_t height() const { return w + u; }
};

template <class T>
struct alignas(cache_line) Scratch {       // of one worker
  std::vector<int> runs;
  std::vector<T*> column;
  Outcome seen;
};

// ---- assembly -------------------------------------------------------------------------------------------------------

template <class T>
void add_entries(const FrontPlan& p, int32_t s, const Scalar<T>* Ax, T* front, Outcome& seen) {
  const uint32_t* const source = p.source.data();
  double most = seen.largest_entry;
  for (int64_t q = p.entry_ptr[s]; q < p.entry_ptr[s + 1]; ++q) {
    const T x = static_cast<T>(Ax[source[q]] * p.scale.data()[q]);
    front[p.target.data()[q]] += x;
    most = std::max(most, magnitude(x));
  }
  seen.largest_entry = most;
}

constexpr int short_run = 8;                        // mean length of a run below which extend-add is done entry by entry

// Pieces of consecutive target rows, one of which begins at row k; empty if they are short.
void find_runs(const int32_t* relative, int64_t count, int64_t k, std::vector<int>& runs) {
  runs.clear();
  if (count < 2 * short_run) return;
  for (int64_t i = 0; i < count; ++i)
    if (i == 0 || i == k || relative[i] != relative[i - 1] + 1) runs.push_back(static_cast<int>(i));
  if (count < short_run * static_cast<int64_t>(runs.size())) return runs.clear();
  runs.push_back(static_cast<int>(count));
}

// Adds the update matrix X of a child with `count` rows. Its first k columns and, transposed, its first k rows go to the panels,
// the rest to the update matrix.
template <class T>
void add_child(const int32_t* relative, int64_t count, const T* X, const Front<T>& f, Scratch<T>& scratch, int threads) {
  const int64_t k = std::lower_bound(relative, relative + count, static_cast<int32_t>(f.w)) - relative;
  find_runs(relative, count, k, scratch.runs);
  const Int pieces = scratch.runs.empty() ? 0 : static_cast<Int>(scratch.runs.size()) - 1;
  scratch.column.resize(count);
  for (int64_t j = 0; j < count; ++j)
    scratch.column[j] = j < k ? f.P + relative[j] * f.ldp : f.C + (relative[j] - f.w) * f.u - f.w;
  const DenseLU<T>& d = dense_lu<T>();
  for_range(threads, count, threads > 1 ? 64 : count, [&](int64_t b, int64_t e, int) {
    if (b < k) d.extend_add(b, std::min(e, k), 0, count, X, relative, scratch.runs.data(), pieces, scratch.column.data());
    if (e > k) d.extend_add(std::max(b, k), e, k, count, X, relative, scratch.runs.data(), pieces, scratch.column.data());
  });
  for_range(threads, k, threads > 1 ? 8 : k, [&](int64_t b, int64_t e, int) {
    for (int64_t i0 = b; i0 < e; i0 += 8)
      for (int64_t j = k; j < count; ++j)
        for (int64_t i = i0; i < std::min(i0 + 8, e); ++i) f.Q[relative[j] - f.w + relative[i] * f.ldq] += X[i + j * count];
  });
}

template <class T>
void add_small_child(const int32_t* relative, int64_t count, const T* X, const Front<T>& f) {
  int64_t k = 0;
  while (k < count && relative[k] < f.w) ++k;
  for (int64_t j = 0; j < k; ++j)
    for (int64_t i = 0; i < count; ++i) f.P[relative[i] + relative[j] * f.ldp] += X[i + j * count];
  for (int64_t j = k; j < count; ++j) {
    const int64_t q = relative[j] - f.w;
    for (int64_t i = 0; i < k; ++i) f.Q[q + relative[i] * f.ldq] += X[i + j * count];
    for (int64_t i = k; i < count; ++i) f.C[relative[i] - f.w + q * f.u] += X[i + j * count];
  }
}

// ---- factorization --------------------------------------------------------------------------------------------------

// Applies the exchanges of the pivots [j, e) to the columns outside their panel.
template <class T>
void exchange_rest(const Front<T>& f, int64_t j, int64_t e) {
  for (int64_t c = j; c < e; ++c) {
    const int64_t r = f.exchange[c];
    if (r == c) continue;
    for (int64_t q = 0; q < f.w; ++q)
      if (q < j || q >= e) std::swap(f.P[c + q * f.ldp], f.P[r + q * f.ldp]);
    std::swap_ranges(f.Q + c * f.ldq, f.Q + c * f.ldq + f.u, f.Q + r * f.ldq);
  }
}

// Columns [b, stop) to the right of the pivots [j, e): their rows of U, then the update of the rows below.
template <class T>
void update_columns(const Front<T>& f, int64_t j, int64_t e, int64_t b, int64_t stop) {
  const DenseLU<T>& d = dense_lu<T>();
  T t[tile_columns * pivot_block];
  for (int64_t q = b; q < stop; q += tile_columns) {
    interrupt::poll();                    // for_range does not poll on one thread
    const int64_t width = std::min(tile_columns, stop - q), k = e - j;
    T* const top = f.P + j + q * f.ldp;
    for (int64_t c = 0; c < width; ++c)
      for (int64_t l = 0; l < k; ++l) t[c + l * tile_columns] = top[l + c * f.ldp];
    d.solve_unit(width, k, f.P + j + j * f.ldp, f.ldp, t, tile_columns);
    for (int64_t c = 0; c < width; ++c)
      for (int64_t l = 0; l < k; ++l) top[l + c * f.ldp] = t[c + l * tile_columns];
    d.gemm(f.height() - e, width, k, f.P + e + j * f.ldp, f.ldp, t, tile_columns, f.P + e + q * f.ldp, f.ldp);
  }
}

// Right-looking over blocks of pivots: pivot rows, then rows of L21 and of Q by tiles, then later pivots by tiles.
template <class T>
int64_t factor_front(const Front<T>& f, const Pivoting& rule, int threads) {
  const DenseLU<T>& d = dense_lu<T>();
  int64_t perturbed = 0;
  for (int64_t j = 0; j < f.w; j += pivot_block) {
    const int64_t k = std::min(pivot_block, f.w - j), e = j + k;
    T* const D = f.P + j + j * f.ldp;
    perturbed += d.panel(f.w - j, k, D, f.ldp, f.exchange + j, rule);
    for (int64_t c = j; c < e; ++c) f.exchange[c] += static_cast<int32_t>(j);
    exchange_rest(f, j, e);
    for_range(threads, f.u, tile_rows, [&](int64_t b, int64_t stop, int) {
      for (int64_t r = b; r < stop; r += tile_rows) {
        interrupt::poll();
        const int64_t m = std::min(tile_rows, stop - r);
        d.solve_upper(m, k, D, f.ldp, f.P + f.w + r + j * f.ldp, f.ldp);
        d.solve_unit(m, k, D, f.ldp, f.Q + r + j * f.ldq, f.ldq);
        if (e < f.w) d.gemm(m, f.w - e, k, f.Q + r + j * f.ldq, f.ldq, f.P + e + j * f.ldp, f.ldp, f.Q + r + e * f.ldq, f.ldq);
      }
    });
    for_range(threads, f.w - e, tile_columns, [&](int64_t b, int64_t stop, int) { update_columns(f, j, e, e + b, e + stop); });
  }
  for_range(threads, f.u, tile_columns, [&](int64_t b, int64_t stop, int) {
    d.gemm(f.u, stop - b, f.w, f.P + f.w, f.ldp, f.Q + b, f.ldq, f.C + b * f.u, f.u);
  });
  return perturbed;
}

// One pivot at a time, for fronts with few pivots or rows.
template <class T>
int64_t factor_small(const Front<T>& f, const Pivoting& rule) {
  int64_t perturbed = 0;
  const int64_t m = f.height();
  for (int64_t c = 0; c < f.w; ++c) {
    T* const x = f.P + c * f.ldp;
    int64_t r = c;
    double most = magnitude(x[c]);
    const double diagonal = most;
    for (int64_t i = c + 1; i < f.w; ++i)
      if (magnitude(x[i]) > most) most = magnitude(x[r = i]);
    if (diagonal >= rule.threshold * most) r = c;
    f.exchange[c] = static_cast<int32_t>(r);
    if (r != c) {
      for (int64_t q = 0; q < f.w; ++q) std::swap(f.P[c + q * f.ldp], f.P[r + q * f.ldp]);
      std::swap_ranges(f.Q + c * f.ldq, f.Q + c * f.ldq + f.u, f.Q + r * f.ldq);
    }
    if (!(magnitude(x[c]) >= rule.tiny)) {
      x[c] = sign(x[c]) * T(rule.perturbed_size);
      ++perturbed;
    }
    const T inverse = T(1) / x[c];
    for (int64_t i = c + 1; i < m; ++i) x[i] *= inverse;
    for (int64_t q = c + 1; q < f.w; ++q) {
      T* const y = f.P + q * f.ldp;
      const T t = y[c];
      for (int64_t i = c + 1; i < m; ++i) y[i] -= t * x[i];
    }
    const T* const from = f.Q + c * f.ldq;
    for (int64_t q = c + 1; q < f.w; ++q)
      for (int64_t i = 0; i < f.u; ++i) f.Q[i + q * f.ldq] -= x[q] * from[i];
    for (int64_t j = 0; j < f.u; ++j)
      for (int64_t i = 0; i < f.u; ++i) f.C[i + j * f.u] -= from[j] * x[f.w + i];
  }
  return perturbed;
}

template <class T>
double largest_in_u(const Front<T>& f) {
  double most = 0;
  if (f.w > small_pivots)
    for (int64_t c = 0; c < f.w; ++c)
      most = std::max({most, dense_lu<T>().largest(c + 1, f.P + c * f.ldp), dense_lu<T>().largest(f.u, f.Q + c * f.ldq)});
  else
    for (int64_t c = 0; c < f.w; ++c) {
      for (int64_t i = 0; i <= c; ++i) most = std::max(most, magnitude(f.P[i + c * f.ldp]));
      for (int64_t i = 0; i < f.u; ++i) most = std::max(most, magnitude(f.Q[i + c * f.ldq]));
    }
  return most;
}

template <class T>
void clear(const Front<T>& f, int threads) {
  std::memset(static_cast<void*>(f.P), 0, sizeof(T) * f.w * (f.ldp + f.ldq));
  for_range(threads, f.u, threads > 1 ? 128 : f.u, [&](int64_t b, int64_t e, int) {
    std::memset(static_cast<void*>(f.C + b * f.u), 0, sizeof(T) * f.u * (e - b));
  });
}

}  // namespace

template <class T>
Outcome FrontFactor<T>::factor(const Scalar<T>* Ax, const Pivoting& rule, int threads, Memory& memory) {
  const FrontPlan& p = *plan_;
  const AssemblyTree& tree = p.tree;
  if (!fronts_.data()) {
    off_diagonal_ = Buffer<T>(p.off_diagonal.source.size());
    exchange_.resize(p.form.n());
    fronts_ = Buffer<T>(p.base.back(), threads);           // allocated last: if it is not empty, there is a factor
  }
  const auto kept = fronts::plan_of(tree, threads, fronts::Use::factor);
  const fronts::Schedule& plan = *kept;
  UpdateBlocks<T> blocks(tree, plan, threads, fronts::full, memory);
  std::vector<Scratch<T>> scratch(threads);
  interrupt::begin(tree.count());
  fronts::bottom_up(tree, plan, threads, blocks, [&](int32_t s, T* update, int worker, int inside) {
    const int64_t w = tree.pivots(s), ldp = p.leading_p(s);
    T* const P = fronts_.data() + p.base[s];
    const Front<T> f{w, tree.updates(s), ldp, p.leading_q(s), P, P + w * ldp, update, exchange_.data() + tree.first(s)};
    Outcome& seen = scratch[worker].seen;
    clear(f, inside);
    add_entries(p, s, Ax, P, seen);
    for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
      const int32_t c = tree.child[q];
      const int64_t count = tree.updates(c);
      if (count <= small_height)
        add_small_child(tree.relative_rows(c), count, blocks.of(c), f);
      else
        add_child(tree.relative_rows(c), count, blocks.of(c), f, scratch[worker], inside);
    }
    const bool small = w <= small_pivots || f.height() <= small_height;
    seen.perturbed += small ? factor_small(f, rule) : factor_front(f, rule, inside);
    seen.largest_pivot_row = std::max(seen.largest_pivot_row, largest_in_u(f));
    return -1;
  });
  for (int32_t c = 0; c < p.form.n() && off_diagonal_.size(); ++c)
    for (int64_t q = p.off_diagonal.ptr[c]; q < p.off_diagonal.ptr[c + 1]; ++q)
      off_diagonal_.data()[q] = static_cast<T>(
          Ax[p.off_diagonal.source[q]] * (p.form.row_factor[p.off_diagonal.row[q]] * p.form.col_factor[c]));
  Outcome all;
  for (const Scratch<T>& one : scratch) {
    all.perturbed += one.seen.perturbed;
    all.largest_entry = std::max(all.largest_entry, one.seen.largest_entry);
    all.largest_pivot_row = std::max(all.largest_pivot_row, one.seen.largest_pivot_row);
  }
  return all;
}

template <class T>
int64_t FrontFactor<T>::nbytes() const {
  return (fronts_.size() + off_diagonal_.size() + blocks_.scalars()) * static_cast<int64_t>(sizeof(T));
}

template class FrontFactor<double>;
template class FrontFactor<float>;
template class FrontFactor<Complex>;

}  // namespace ms::lu
