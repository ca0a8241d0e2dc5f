// The forward solve with the complete factor, from the leaves to the roots. Planned rows of a front are passed to its parent in
// update blocks, as in the Cholesky solve. Delayed rows stay in Y: only the fronts that delay them access these.
#pragma once
#include <algorithm>
#include <vector>

#include "complete.hpp"
#include "native/dense/rows.hpp"
#include "native/memory/fetch.hpp"

namespace ms::ldlt {

constexpr int64_t kGrain = 1 << 14;   // rows per task

template <class T>
struct Problem {
  const fronts::AssemblyTree& tree;
  const fronts::Schedule& plan;
  const std::vector<FrontState<T>>& state;
  const double* scale;
  int threads;
  fronts::SolveSpace<T>& space;
  bool far;                           // the factor is in memory, not in a cache

  void fetch_front(int32_t s) const {
    if (!far || s < 0 || s >= tree.count()) return;
    const FrontState<T>& f = state[s];
    fetch_block(f.panel, f.panel + f.pivots * f.ld);
  }
};

// The columns of one front for S right-hand sides, by rows: its pivots in the order of elimination, then its delayed columns.
template <class T, int64_t S>
struct FrontColumns {
  const FrontState<T>& f;
  T* y;

  FrontColumns(const Problem<T>& p, int32_t s, int worker) : f(p.state[s]) {
    Buffer<T>& local = p.space.local[worker];
    if (local.size() < f.columns * S) local = Buffer<T>(2 * f.columns * S);
    y = local.data();
  }
  T& at(int64_t j, int64_t c) const { return y[j * S + c]; }
  void load(const T* Y) const {
    for (int64_t j = 0; j < f.columns; ++j) std::copy_n(Y + f.name[j] * S, S, y + j * S);
  }
  void store(T* Y, int64_t count) const {
    for (int64_t j = 0; j < count; ++j) std::copy_n(y + j * S, S, Y + f.name[j] * S);
  }
};

// y(0:pivots) := D^-1 y, with 0 for a zero pivot.
template <class T, int64_t S>
void solve_diagonal(const FrontColumns<T, S>& columns) {
  const T *const d = columns.f.d, *const e = columns.f.e;
  for (int64_t k = 0; k < columns.f.pivots; ++k) {
    if (e[k] == T(0)) {
      for (int64_t c = 0; c < S; ++c) columns.at(k, c) = d[k] == T(0) ? T(0) : columns.at(k, c) / d[k];
      continue;
    }
    const T scaled = d[k] / e[k] * d[k + 1] - e[k];          // determinant / e
    for (int64_t c = 0; c < S; ++c) {
      const T x = columns.at(k, c), y = columns.at(k + 1, c);
      columns.at(k, c) = (d[k + 1] / e[k] * x - y) / scaled;
      columns.at(k + 1, c) = (d[k] / e[k] * y - x) / scaled;
    }
    ++k;
  }
}

// Y := D^-1 L^-1 Y in the new numbering, S values per row; L^-1 Y without `divide`.
template <class T, int64_t S, bool divide = true>
void forward(const Problem<T>& p, T* Y) {
  const fronts::AssemblyTree& tree = p.tree;
  fronts::UpdateBlocks<T> blocks(tree, p.plan, p.threads, S, p.space.blocks);
  fronts::bottom_up(tree, p.plan, p.threads, blocks, [&](int32_t s, T* update, int worker, int) {
    p.fetch_front(s + fronts::fronts_ahead);
    const FrontColumns<T, S> columns(p, s, worker);
    const FrontState<T>& f = columns.f;
    const int64_t own = tree.pivots(s), u = tree.updates(s);
    std::fill(update, update + u * S, T(0));
    for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
      const int32_t child = tree.child[q];
      T* const y = Y + static_cast<int64_t>(tree.first(s)) * S;
      row_kernels<T>().add_rows(S, tree.updates(child), tree.relative_rows(child), own, blocks.of(child), y, update);
    }
    columns.load(Y);
    row_kernels<T>().forward(S, Diagonal::stored, f.columns + u, f.pivots, f.columns, f.panel, f.ld, columns.y, update, nullptr);
    if constexpr (divide) solve_diagonal(columns);
    columns.store(Y, f.columns);
    return -1;
  }, false);
}

}  // namespace ms::ldlt
