// Solves with the complete factor: forward from the leaves, D at each front, backward from the roots. A front's planned
// rows travel in update blocks as in the Cholesky solve; delayed rows stay in Y, which only the fronts on their way up touch.
#include <algorithm>

#include "complete.hpp"
#include "native/parallel.hpp"

namespace ms::ildl {
namespace {

using fronts::AssemblyTree;
using fronts::UpdateBlocks;

constexpr int64_t widest = 8;
constexpr int64_t parallel_work = 200'000;       // scalars of L times right-hand sides below which one thread is faster

template <class T>
struct Problem {
  const AssemblyTree& tree;
  const fronts::Schedule& plan;
  const std::vector<FrontState<T>>& state;
  const double* scale;
  int threads;
  SolveSpace<T>& space;
};

template <class T, int64_t K>
struct FrontBlock {
  const FrontState<T>& f;
  int64_t ld;
  T* V;

  FrontBlock(const Problem<T>& p, int32_t s, int worker) : f(p.state[s]), ld(f.height + solve_padding) {
    Buffer<T>& local = p.space.local[worker];
    if (local.size() < ld * K) local = Buffer<T>(2 * ld * K);
    V = local.data();
  }
  T& at(int64_t i, int64_t c) const { return V[i + c * ld]; }
  void clear_from(int64_t i) const {
    for (int64_t c = 0; c < K; ++c) std::fill(V + i + c * ld, V + ld + c * ld, T(0));
  }
  void load(const T* Y) const {
    for (int64_t j = 0; j < f.columns; ++j)
      for (int64_t c = 0; c < K; ++c) at(j, c) = Y[f.name[j] * K + c];
  }
  void store(T* Y, int64_t count) const {
    for (int64_t j = 0; j < count; ++j)
      for (int64_t c = 0; c < K; ++c) Y[f.name[j] * K + c] = at(j, c);
  }
};

// V(0:pivots) := D^-1 V, 0 where a pivot is zero.
template <class T, int64_t K>
void solve_diagonal(const FrontBlock<T, K>& block) {
  const T *const d = block.f.d, *const e = block.f.e;
  for (int64_t k = 0; k < block.f.pivots; ++k) {
    if (e[k] == T(0)) {
      for (int64_t c = 0; c < K; ++c) block.at(k, c) = d[k] == T(0) ? T(0) : block.at(k, c) / d[k];
      continue;
    }
    const T scaled = d[k] / e[k] * d[k + 1] - e[k];          // determinant / e
    for (int64_t c = 0; c < K; ++c) {
      const T x = block.at(k, c), y = block.at(k + 1, c);
      block.at(k, c) = (d[k + 1] / e[k] * x - y) / scaled;
      block.at(k + 1, c) = (d[k] / e[k] * y - x) / scaled;
    }
    ++k;
  }
}

// Y := D^-1 L^-1 Y in the new numbering, K values a row.
template <class T, int64_t K>
void forward(const Problem<T>& p, T* Y) {
  const AssemblyTree& tree = p.tree;
  UpdateBlocks<T> blocks(tree, p.plan, p.threads, K, p.space.blocks);
  fronts::bottom_up(tree, p.plan, p.threads, blocks, [&](int32_t s, T* update, int worker, int) {
    const FrontBlock<T, K> block(p, s, worker);
    const FrontState<T>& f = block.f;
    const int64_t own = tree.pivots(s), shift = f.columns - own;
    block.clear_from(f.columns);
    for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
      const int32_t child = tree.child[q];
      const int32_t* const to = tree.relative_rows(child);
      const T* const from = blocks.of(child);
      for (int64_t i = 0; i < tree.updates(child); ++i)
        for (int64_t c = 0; c < K; ++c)
          (to[i] < own ? Y[(tree.first(s) + to[i]) * K + c] : block.at(to[i] + shift, c)) += from[i * K + c];
    }
    block.load(Y);
    dense<T>().forward(f.height, f.pivots, f.panel, f.ld, K, block.V, block.ld);
    solve_diagonal(block);
    block.store(Y, f.columns);
    for (int64_t i = 0; i < tree.updates(s); ++i)
      for (int64_t c = 0; c < K; ++c) update[i * K + c] = block.at(f.columns + i, c);
    return -1;
  });
}

template <class T, int64_t K>
void backward(const Problem<T>& p, T* Y) {
  fronts::top_down(p.plan, p.threads, [&](int32_t s, int worker) {
    const FrontBlock<T, K> block(p, s, worker);
    const FrontState<T>& f = block.f;
    const int32_t* const rows = p.tree.rows(s);
    block.load(Y);
    for (int64_t i = 0; i < p.tree.updates(s); ++i)
      for (int64_t c = 0; c < K; ++c) block.at(f.columns + i, c) = Y[rows[i] * K + c];
    block.clear_from(f.height);
    dense<T>().backward(f.height, f.pivots, f.panel, f.ld, K, block.V, block.ld);
    block.store(Y, f.pivots);
  });
}

template <class T, int64_t K>
void solve_block(const Problem<T>& p, Strided<const double> B, Strided<double> X) {
  T* const Y = p.space.work.data();
  const std::vector<int32_t>& perm = p.tree.symbolic->analysis.perm;
  const int64_t n = p.tree.n();
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < K; ++c) Y[i * K + c] = static_cast<T>(p.scale[perm[i]] * B.at(perm[i], c));
  forward<T, K>(p, Y);
  backward<T, K>(p, Y);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < K; ++c) X.at(perm[i], c) = p.scale[perm[i]] * static_cast<double>(Y[i * K + c]);
}

}  // namespace

template <class T>
void Complete<T>::solve(const double* scale, Strided<const double> B, Strided<double> X, int64_t k, int threads) const {
  const AssemblyTree& tree = *tree_;
  if (panels_.size() * std::min(k, widest) < parallel_work) threads = 1;
  const fronts::Schedule plan = fronts::schedule(tree, threads);
  SolveSpace<T> own;
  const std::unique_lock<std::mutex> first(space_lock_, std::try_to_lock);
  SolveSpace<T>& space = first ? space_ : own;
  const int64_t work = tree.n() * std::min(k, widest);
  if (space.work.size() < work) space.work = Buffer<T>(work);
  space.local.resize(std::max<size_t>(space.local.size(), threads));
  const Problem<T> p{tree, plan, state_, scale, threads, space};
  interrupt::begin(k);
  for (int64_t at = 0; at < k;) {
    const int64_t left = k - at, width = left >= 8 ? 8 : left >= 4 ? 4 : left;
    const auto block = width == 8   ? solve_block<T, 8>
                       : width == 4 ? solve_block<T, 4>
                       : width == 3 ? solve_block<T, 3>
                       : width == 2 ? solve_block<T, 2>
                                    : solve_block<T, 1>;
    block(p, B.from(at), X.from(at));
    at += width;
  }
}

template void Complete<double>::solve(const double*, Strided<const double>, Strided<double>, int64_t, int) const;
template void Complete<float>::solve(const double*, Strided<const double>, Strided<double>, int64_t, int) const;

}  // namespace ms::ildl
