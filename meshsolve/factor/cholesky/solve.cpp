// Solves with the factor. Forward: like the factorization, each front adds up what its children pass on, so that the order
// of additions is fixed by the tree. Backward: each front reads the unknowns of its ancestors, parents first.
#include <algorithm>

#include "cholesky.hpp"
#include "native/dense.hpp"
#include "native/fetch.hpp"
#include "native/parallel.hpp"

namespace ms::cholesky {
namespace {

using fronts::AssemblyTree;
using fronts::UpdateBlocks;

template <class T>
struct Problem {
  const AssemblyTree& tree;
  const fronts::Schedule& plan;
  const T* panels;
  const int64_t* panel_ptr;
  const int32_t* perm;                // caller's row of each new row, nullptr for the permuted numbering itself
  int threads;
  fronts::SolveSpace<T>& space;
  bool far;                           // in memory, not in a cache

  int64_t row(int64_t j) const { return perm ? perm[j] : j; }
  PanelShape shape(int32_t s) const { return panel_shape(tree, s); }
  Step<const T> step(int32_t s, int64_t k) const { return shape(s).step(panels + panel_ptr[s], k); }

  // Front s of L, and the rows of B or X that it reads or writes.
  template <class V>
  void fetch_front(int32_t s, Strided<V> vectors) const {
    if (!far || s < 0 || s >= tree.count()) return;
    fetch_block(panels + panel_ptr[s], panels + panel_ptr[s + 1]);
    for (int64_t j = tree.first(s); j < tree.first(s) + tree.pivots(s); ++j) fetch(&vectors.at(row(j), 0));
  }
};

// Y := L^-1 P B in the new numbering, S values a row of which K are right-hand sides.
template <class T, int64_t K, int64_t S>
void forward(const Problem<T>& p, Strided<const double> B, T* Y) {
  const AssemblyTree& tree = p.tree;
  UpdateBlocks<T> blocks(tree, p.plan, p.threads, S, p.space.blocks);
  fronts::bottom_up(tree, p.plan, p.threads, blocks, [&](int32_t s, T* update, int, int) {
    p.fetch_front(s + fronts::fronts_ahead, B);
    const int64_t w = tree.pivots(s), u = tree.updates(s), begin = tree.first(s);
    T* const y = Y + begin * S;
    for (int64_t j = 0; j < w; ++j)
      for (int64_t c = 0; c < S; ++c) y[j * S + c] = c < K ? static_cast<T>(B.at(p.row(begin + j), c)) : T(0);
    std::fill(update, update + u * S, T(0));
    for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
      const int32_t child = tree.child[q];
      dense<T>().add_rows(S, tree.updates(child), tree.relative_rows(child), w, blocks.of(child), y, update);
    }
    for (int64_t k = 0; k < p.shape(s).steps(); ++k) {
      const Step<const T> step = p.step(s, k);
      dense<T>().forward(S, step.height, step.width, w - step.column, step.data, step.ld, y + step.column * S, update);
    }
    return -1;
  }, false);
}

// Y := L^-T Y, and X := P^T Y.
template <class T, int64_t K, int64_t S>
void backward(const Problem<T>& p, T* Y, Strided<double> X) {
  fronts::top_down(p.plan, p.threads, [&](int32_t s, int) {
    p.fetch_front(s - fronts::fronts_ahead, X);
    const int64_t w = p.tree.pivots(s), begin = p.tree.first(s);
    T* const y = Y + begin * S;
    for (int64_t k = p.shape(s).steps(); k-- > 0;) {
      const Step<const T> step = p.step(s, k);
      dense<T>().backward(S, step.height, step.width, w - step.column, step.data, step.ld, y + step.column * S, Y, p.tree.rows(s));
    }
    for (int64_t j = 0; j < w; ++j)
      for (int64_t c = 0; c < K; ++c) X.at(p.row(begin + j), c) = static_cast<double>(y[j * S + c]);
  });
}

template <class T, int64_t K>
void solve_block(System system, const Problem<T>& p, Strided<const double> B, Strided<double> X) {
  constexpr int64_t S = fronts::row_width(K);
  T* const Y = p.space.work;
  const int64_t n = p.tree.n();
  if (system == System::Lt) {
    for (int64_t i = 0; i < n * S; ++i) Y[i] = i % S < K ? static_cast<T>(B.at(i / S, i % S)) : T(0);
  } else {
    forward<T, K, S>(p, B, Y);
  }
  if (system == System::L) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < K; ++c) X.at(i, c) = static_cast<double>(Y[i * S + c]);
  } else {
    backward<T, K, S>(p, Y, X);
  }
}

}  // namespace

template <class T>
void Factor<T>::solve(System system, Strided<const double> B, Strided<double> X, int64_t k, int threads) const {
  const AssemblyTree& tree = *tree_;
  threads = fronts::threads_worthwhile(panels_.size(), k, threads);
  const auto plan = fronts::plan_of(tree, threads);
  const int32_t* const perm = system == System::A ? tree.symbolic->analysis.perm.data() : nullptr;
  auto space = space_.lend();
  space->reserve(tree.n(), k, threads, space.is_kept() ? blocks_.idle() : nullptr);
  const Problem<T> p{tree, *plan, panels_.data(), panel_ptr_.data(), perm, threads, *space, fronts::leaves_cache<T>(panels_.size())};
  interrupt::begin(k);
  fronts::in_blocks(k, [&]<int64_t K>(int64_t at) { solve_block<T, K>(system, p, B.from(at), X.from(at)); });
}

template void Factor<double>::solve(System, Strided<const double>, Strided<double>, int64_t, int) const;
template void Factor<float>::solve(System, Strided<const double>, Strided<double>, int64_t, int) const;

}  // namespace ms::cholesky
