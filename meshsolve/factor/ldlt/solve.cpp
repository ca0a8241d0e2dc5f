// Solves with the complete factor: forward from the leaves, D at each front, backward from the roots.
#include "forward.hpp"
#include "native/threads/parallel.hpp"

namespace ms::ldlt {
namespace {

template <class T, int64_t S>
void backward(const Problem<T>& p, T* Y) {
  fronts::top_down(p.plan, p.threads, [&](int32_t s, int worker) {
    p.fetch_front(s - fronts::fronts_ahead);
    const FrontColumns<T, S> columns(p, s, worker);
    const FrontState<T>& f = columns.f;
    columns.load(Y);
    row_kernels<T>().backward(S, f.height, f.pivots, f.columns, f.panel, f.ld, columns.y, Y, p.tree.rows(s));
    columns.store(Y, f.pivots);
  });
}

template <class T, int64_t S>
void solve_block(const Problem<T>& p, Strided<const double> B, int64_t K, Strided<double> X) {
  T* const Y = p.space.work;
  const std::vector<int32_t>& perm = p.tree.symbolic->analysis.perm;
  const int64_t n = p.tree.n();
  for_range(p.threads, n, kGrain, [&](int64_t begin, int64_t end, int) {
    fronts::with_count<S>(K, [&](auto k) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t c = 0; c < S; ++c) Y[i * S + c] = c < k ? static_cast<T>(p.scale[perm[i]] * B.at(perm[i], c)) : T(0);
    });
  });
  forward<T, S>(p, Y);
  backward<T, S>(p, Y);
  for_range(p.threads, n, kGrain, [&](int64_t begin, int64_t end, int) {
    fronts::with_count<S>(K, [&](auto k) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t c = 0; c < k; ++c) X.at(perm[i], c) = p.scale[perm[i]] * static_cast<double>(Y[i * S + c]);
    });
  });
}

}  // namespace

template <class T>
void solve_fronts(const fronts::AssemblyTree& tree, const std::vector<FrontState<T>>& state, int64_t panel_scalars, const double* scale,
                  Strided<const double> B, Strided<double> X, int64_t k, int threads, fronts::SolveSpace<T>& space) {
  const auto plan = fronts::plan_of(tree, threads, fronts::Use::solve);
  const Problem<T> p{tree, *plan, state, scale, threads, space, fronts::leaves_cache<T>(panel_scalars)};
  interrupt::begin(k);
  fronts::in_row_blocks(k, [&](auto S, int64_t K, int64_t at) { solve_block<T, S>(p, B.from(at), K, X.from(at)); });
}

template <class T>
void Complete<T>::solve(const double* scale, Strided<const double> B, Strided<double> X, int64_t k, int threads) const {
  values_.require_factor();
  threads = fronts::threads_worthwhile(panel_scalars_, k, threads);
  auto space = space_.lease();
  space->reserve(tree_->n(), k, threads, space.is_kept() ? blocks_.idle() : nullptr);
  solve_fronts(*tree_, state_, panel_scalars_, scale, B, X, k, threads, *space);
}

template void solve_fronts<double>(const fronts::AssemblyTree&, const std::vector<FrontState<double>>&, int64_t, const double*,
                                   Strided<const double>, Strided<double>, int64_t, int, fronts::SolveSpace<double>&);
template void Complete<double>::solve(const double*, Strided<const double>, Strided<double>, int64_t, int) const;
template void Complete<float>::solve(const double*, Strided<const double>, Strided<double>, int64_t, int) const;

}  // namespace ms::ldlt
