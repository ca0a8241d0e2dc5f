// Solves with the complete factor: forward from the leaves, D at each front, backward from the roots. A front's planned
// rows travel in update blocks as in the Cholesky solve; delayed rows stay in Y, which only the fronts on their way up touch.
#include <algorithm>

#include "complete.hpp"
#include "native/dense.hpp"
#include "native/fetch.hpp"
#include "native/parallel.hpp"

namespace ms::ildl {
namespace {

using fronts::AssemblyTree;
using fronts::UpdateBlocks;

constexpr int64_t grain = 1 << 14;               // rows that a thread permutes and scales at a time

template <class T>
struct Problem {
  const AssemblyTree& tree;
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

// The columns of one front for S right-hand sides, by rows: its pivots as they were chosen, then those that it hands up.
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

// y(0:pivots) := D^-1 y, 0 where a pivot is zero.
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

// Y := D^-1 L^-1 Y in the new numbering, S values a row.
template <class T, int64_t S>
void forward(const Problem<T>& p, T* Y) {
  const AssemblyTree& tree = p.tree;
  UpdateBlocks<T> blocks(tree, p.plan, p.threads, S, p.space.blocks);
  fronts::bottom_up(tree, p.plan, p.threads, blocks, [&](int32_t s, T* update, int worker, int) {
    p.fetch_front(s + fronts::fronts_ahead);
    const FrontColumns<T, S> columns(p, s, worker);
    const FrontState<T>& f = columns.f;
    const int64_t own = tree.pivots(s), u = tree.updates(s);
    std::fill(update, update + u * S, T(0));
    for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
      const int32_t child = tree.child[q];
      T* const y = Y + static_cast<int64_t>(tree.first(s)) * S;
      dense<T>().add_rows(S, tree.updates(child), tree.relative_rows(child), own, blocks.of(child), y, update);
    }
    columns.load(Y);
    dense<T>().forward(S, f.columns + u, f.pivots, f.columns, f.panel, f.ld, columns.y, update);
    solve_diagonal(columns);
    columns.store(Y, f.columns);
    return -1;
  }, false);
}

template <class T, int64_t S>
void backward(const Problem<T>& p, T* Y) {
  fronts::top_down(p.plan, p.threads, [&](int32_t s, int worker) {
    p.fetch_front(s - fronts::fronts_ahead);
    const FrontColumns<T, S> columns(p, s, worker);
    const FrontState<T>& f = columns.f;
    columns.load(Y);
    dense<T>().backward(S, f.height, f.pivots, f.columns, f.panel, f.ld, columns.y, Y, p.tree.rows(s));
    columns.store(Y, f.pivots);
  });
}

template <class T, int64_t K>
void solve_block(const Problem<T>& p, Strided<const double> B, Strided<double> X) {
  constexpr int64_t S = fronts::row_width(K);
  T* const Y = p.space.work;
  const std::vector<int32_t>& perm = p.tree.symbolic->analysis.perm;
  const int64_t n = p.tree.n();
  for_range(p.threads, n, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t c = 0; c < S; ++c) Y[i * S + c] = c < K ? static_cast<T>(p.scale[perm[i]] * B.at(perm[i], c)) : T(0);
  });
  forward<T, S>(p, Y);
  backward<T, S>(p, Y);
  for_range(p.threads, n, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t c = 0; c < K; ++c) X.at(perm[i], c) = p.scale[perm[i]] * static_cast<double>(Y[i * S + c]);
  });
}

}  // namespace

template <class T>
void Complete<T>::solve(const double* scale, Strided<const double> B, Strided<double> X, int64_t k, int threads) const {
  values_.require_factor();
  const AssemblyTree& tree = *tree_;
  threads = fronts::threads_worthwhile(panel_scalars_, k, threads);
  const auto plan = fronts::plan_of(tree, threads, fronts::Use::solve);
  auto space = space_.lend();
  space->reserve(tree.n(), k, threads, space.is_kept() ? blocks_.idle() : nullptr);
  const Problem<T> p{tree, *plan, state_, scale, threads, *space, fronts::leaves_cache<T>(panel_scalars_)};
  interrupt::begin(k);
  fronts::in_blocks(k, [&](auto K, int64_t at) { solve_block<T, K>(p, B.from(at), X.from(at)); });
}

template void Complete<double>::solve(const double*, Strided<const double>, Strided<double>, int64_t, int) const;
template void Complete<float>::solve(const double*, Strided<const double>, Strided<double>, int64_t, int) const;

}  // namespace ms::ildl
