// Solves with the factor. Forward: like the factorization, each front adds up what its children pass on, so that the order
// of additions is fixed by the tree. Backward: each front gathers the unknowns of its ancestors, parents first.
// Right-hand sides are taken 8, 4, 3, 2 or 1 at a time; L is read once in each direction for each such block.
#include <algorithm>

#include "cholesky.hpp"
#include "factor/fronts/traverse.hpp"
#include "native/parallel.hpp"

namespace ms::cholesky {
namespace {

using fronts::AssemblyTree;
using fronts::UpdateBlocks;

constexpr int64_t widest = 8;
constexpr int64_t parallel_work = 200'000;       // scalars of L times right-hand sides below which one thread is faster

template <class T>
struct Problem {
  const AssemblyTree& tree;
  const fronts::Schedule& plan;
  const T* panels;
  const int32_t* perm;                // caller's row of each new row, nullptr for the permuted numbering itself
  int threads;
  SolveSpace<T>& space;

  int64_t row(int64_t j) const { return perm ? perm[j] : j; }
  const T* panel(int32_t s) const { return panels + tree.panel_ptr[s]; }
};

// The rows of one front for K right-hand sides, by columns; padded as the dense kernels ask.
template <class T, int64_t K>
struct FrontBlock {
  int64_t pivots, updates, ld;
  int32_t begin;                      // first pivot
  T* V;

  FrontBlock(const Problem<T>& p, int32_t s, int worker)
      : pivots(p.tree.pivots(s)), updates(p.tree.updates(s)), ld(pivots + updates + solve_padding), begin(p.tree.first(s)) {
    Buffer<T>& local = p.space.local[worker];
    if (local.size() < ld * K) local = Buffer<T>(2 * ld * K);
    V = local.data();
  }
  int64_t height() const { return pivots + updates; }
  T& at(int64_t i, int64_t c) const { return V[i + c * ld]; }
  void clear_from(int64_t i) const {
    for (int64_t c = 0; c < K; ++c) std::fill(V + i + c * ld, V + ld + c * ld, T(0));
  }
};

// Y := L^-1 P B in the new numbering, K values a row, so that a front gathers whole rows.
template <class T, int64_t K>
void forward(const Problem<T>& p, Strided<const double> B, T* Y) {
  const AssemblyTree& tree = p.tree;
  UpdateBlocks<T> blocks(tree, p.plan, p.threads, K, p.space.blocks);
  fronts::bottom_up(tree, p.plan, p.threads, blocks, [&](int32_t s, T* update, int worker, int) {
    const FrontBlock<T, K> f(p, s, worker);
    for (int64_t j = 0; j < f.pivots; ++j)
      for (int64_t c = 0; c < K; ++c) f.at(j, c) = static_cast<T>(B.at(p.row(f.begin + j), c));
    f.clear_from(f.pivots);
    for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
      const int32_t child = tree.child[q];
      const int32_t* const to = tree.relative_rows(child);
      const T* const from = blocks.of(child);
      for (int64_t i = 0; i < tree.updates(child); ++i)
        for (int64_t c = 0; c < K; ++c) f.at(to[i], c) += from[i * K + c];
    }
    dense<T>().forward(f.height(), f.pivots, p.panel(s), tree.leading(s), K, f.V, f.ld);
    for (int64_t j = 0; j < f.pivots; ++j)
      for (int64_t c = 0; c < K; ++c) Y[(f.begin + j) * K + c] = f.at(j, c);
    for (int64_t i = 0; i < f.updates; ++i)
      for (int64_t c = 0; c < K; ++c) update[i * K + c] = f.at(f.pivots + i, c);
    return -1;
  });
}

// Y := L^-T Y, and X := P^T Y.
template <class T, int64_t K>
void backward(const Problem<T>& p, T* Y, Strided<double> X) {
  fronts::top_down(p.plan, p.threads, [&](int32_t s, int worker) {
    const FrontBlock<T, K> f(p, s, worker);
    const int32_t* const rows = p.tree.rows(s);
    for (int64_t j = 0; j < f.pivots; ++j)
      for (int64_t c = 0; c < K; ++c) f.at(j, c) = Y[(f.begin + j) * K + c];
    for (int64_t i = 0; i < f.updates; ++i)
      for (int64_t c = 0; c < K; ++c) f.at(f.pivots + i, c) = Y[rows[i] * K + c];
    f.clear_from(f.height());
    dense<T>().backward(f.height(), f.pivots, p.panel(s), p.tree.leading(s), K, f.V, f.ld);
    for (int64_t j = 0; j < f.pivots; ++j)
      for (int64_t c = 0; c < K; ++c) {
        Y[(f.begin + j) * K + c] = f.at(j, c);
        X.at(p.row(f.begin + j), c) = static_cast<double>(f.at(j, c));
      }
  });
}

template <class T, int64_t K>
void solve_block(System system, const Problem<T>& p, Strided<const double> B, Strided<double> X) {
  T* const Y = p.space.work.data();
  const int64_t n = p.tree.n();
  if (system == System::Lt)
    for (int64_t i = 0; i < n * K; ++i) Y[i] = static_cast<T>(B.at(i / K, i % K));
  else
    forward<T, K>(p, B, Y);
  if (system == System::L)
    for (int64_t i = 0; i < n * K; ++i) X.at(i / K, i % K) = static_cast<double>(Y[i]);
  else
    backward<T, K>(p, Y, X);
}

}  // namespace

template <class T>
void Factor<T>::solve(System system, Strided<const double> B, Strided<double> X, int64_t k, int threads) const {
  const AssemblyTree& tree = *tree_;
  if (panels_.size() * std::min(k, widest) < parallel_work) threads = 1;
  const fronts::Schedule plan = fronts::schedule(tree, threads);
  const int32_t* const perm = system == System::A ? tree.symbolic->analysis.perm.data() : nullptr;
  SolveSpace<T> own;
  const std::unique_lock<std::mutex> first(space_lock_, std::try_to_lock);
  SolveSpace<T>& space = first ? space_ : own;
  const int64_t work = tree.n() * std::min(k, widest);
  if (space.work.size() < work) space.work = Buffer<T>(work);
  space.local.resize(std::max<size_t>(space.local.size(), threads));
  const Problem<T> p{tree, plan, panels_.data(), perm, threads, space};
  interrupt::begin(k);
  for (int64_t at = 0; at < k;) {
    const int64_t left = k - at, width = left >= 8 ? 8 : left >= 4 ? 4 : left;
    const auto block = width == 8   ? solve_block<T, 8>
                       : width == 4 ? solve_block<T, 4>
                       : width == 3 ? solve_block<T, 3>
                       : width == 2 ? solve_block<T, 2>
                                    : solve_block<T, 1>;
    block(system, p, B.from(at), X.from(at));
    at += width;
  }
}

template void Factor<double>::solve(System, Strided<const double>, Strided<double>, int64_t, int) const;
template void Factor<float>::solve(System, Strided<const double>, Strided<double>, int64_t, int) const;

}  // namespace ms::cholesky
