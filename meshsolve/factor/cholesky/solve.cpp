// Solves with the factor. Forward: factor/fronts/solve.hpp. Backward: each front reads the unknowns of its ancestors, parents
// first. The Schur interface is not solved: forward, the fronts below add to its rows; backward, its unknowns are given.
#include <algorithm>
#include <limits>
#include <vector>

#include "batch.hpp"
#include "factor/fronts/solve.hpp"
#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "native/threads/systems.hpp"

namespace ms::cholesky {
namespace {

using fronts::AssemblyTree;

template <class T>
struct Problem {
  const AssemblyTree& tree;
  const fronts::Schedule& plan;
  const T* panels;
  const int64_t* panel_ptr;
  const int32_t* perm;                // caller's row of each new row; nullptr: the permuted numbering
  int threads;
  fronts::SolveSpace<T>& space;
  bool far;                           // the factor is in memory and larger than the cache
  PanelReader<T>* stored = nullptr;   // of the panels, if they are in a file
  const uint8_t* reached = nullptr;   // (fronts): 0 for fronts that the forward solve skips; nullptr: none
  const uint8_t* wanted = nullptr;    // (fronts): the same for the backward solve

  bool is_reached(int32_t s) const { return !reached || reached[s]; }
  int64_t row(int64_t j) const { return perm ? perm[j] : j; }
  bool is_eliminated(int32_t s) const { return tree.first(s) < tree.eliminated(); }
  PanelShape shape(int32_t s) const { return panel_shape(tree, s); }
  Step<const T> step(int32_t s, int64_t k, int worker, Order order) const {
    if (stored) [[unlikely]] return stored->step(s, k, worker, order);
    return shape(s).step(panels + panel_ptr[s], k);
  }

  // Solves for the pivots of front s in Y; rows below -= L21 times the pivots.
  template <int64_t S>
  void eliminate(int32_t s, T* Y, T* U, int worker) const {
    if (!is_eliminated(s)) return;
    fetch_panel(s + fronts::fronts_ahead);
    T* const own = Y + tree.first(s) * S;
    for (int64_t k = 0; k < shape(s).steps(); ++k) {
      const Step<const T> at = step(s, k, worker, Order::forward);
      const int64_t columns = tree.pivots(s) - at.column;
      row_kernels<T>().forward(S, Diagonal::stored, at.height, at.width, columns, at.data, at.ld, own + at.column * S, U, nullptr);
    }
  }
  template <int64_t S>
  void eliminate_at(int32_t s, T* Y, int worker) const {
    fetch_panel(s + fronts::fronts_ahead);
    const Step<const T> all = step(s, 0, worker, Order::forward);
    T* const own = Y + tree.first(s) * S;
    row_kernels<T>().forward(S, Diagonal::stored, all.height, all.width, all.width, all.data, all.ld, own, Y, tree.rows(s));
  }

  bool is_worth_fetching(int32_t s) const { return far && s >= 0 && s < tree.count(); }
  void fetch_panel(int32_t s) const {
    if (is_worth_fetching(s)) fetch_block(panels + panel_ptr[s], panels + panel_ptr[s + 1]);
  }
  void fetch_rows(int32_t s, Strided<double> X) const {
    if (!is_worth_fetching(s)) return;
    for (int64_t j = tree.first(s); j < tree.first(s) + tree.pivots(s); ++j) fetch(&X.at(row(j), 0));
  }
};

// Y := P B in the new numbering, S values per row, the first K of them right-hand sides.
template <class T, int64_t S>
void permute(const Problem<T>& p, Strided<const double> B, int64_t K, T* Y) {
  constexpr int64_t grain = 8192;
  for_range(p.threads, p.tree.n(), grain, [&](int64_t b, int64_t e, int) {
    fronts::with_count<S>(K, [&](auto k) {
      for (int64_t j = b; j < e; ++j)
        for (int64_t c = 0; c < S; ++c) Y[j * S + c] = c < k ? static_cast<T>(B.at(p.row(j), c)) : T(0);
    });
  });
}

// Y := L^-1 Y
template <class T, int64_t S>
void forward(const Problem<T>& p, T* Y) {
  fronts::UpdateBlocks<T> blocks(p.tree, p.plan, p.threads, S, p.space.blocks);
  fronts::Forward<T, S, Problem<T>>{p, Y, &blocks}.run(p.plan, p.threads);
}

// Y := L^-T Y, and X := P^T Y.
template <class T, int64_t S>
void backward(const Problem<T>& p, T* Y, int64_t K, Strided<double> X) {
  fronts::top_down(p.plan, p.threads, [&](int32_t s, int worker) {
    if (p.wanted && !p.wanted[s]) return;
    p.fetch_panel(s - fronts::fronts_ahead);
    p.fetch_rows(s - fronts::fronts_ahead, X);
    const int64_t w = p.tree.pivots(s), begin = p.tree.first(s);
    T* const y = Y + begin * S;
    if (!p.is_reached(s)) std::fill(y, y + w * S, T(0));
    for (int64_t k = p.is_eliminated(s) ? p.shape(s).steps() : 0; k-- > 0;) {
      const Step<const T> step = p.step(s, k, worker, Order::backward);
      row_kernels<T>().backward(S, step.height, step.width, w - step.column, step.data, step.ld, y + step.column * S, Y,
                                p.tree.rows(s));
    }
    fronts::with_count<S>(K, [&](auto k) {
      for (int64_t j = 0; j < w; ++j)
        for (int64_t c = 0; c < k; ++c) X.at(p.row(begin + j), c) = static_cast<double>(y[j * S + c]);
    });
  });
}

template <class T, int64_t S>
void solve_block(System system, const Problem<T>& p, Strided<const double> B, int64_t K, Strided<double> X) {
  T* const Y = p.space.work;
  const int64_t n = p.tree.n();
  if (system == System::Lt) {
    for (int64_t i = 0; i < n * S; ++i) Y[i] = i % S < K ? static_cast<T>(B.at(i / S, i % S)) : T(0);
  } else {
    permute<T, S>(p, B, K, Y);
    forward<T, S>(p, Y);
  }
  if (system == System::L) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < K; ++c) X.at(i, c) = static_cast<double>(Y[i * S + c]);
  } else {
    backward<T, S>(p, Y, K, X);
  }
}

// The same for the fronts on the paths that the problem marks: rows of X in other fronts are not written.
template <class T, int64_t S>
void solve_paths(const Problem<T>& p, Strided<const double> B, int64_t K, Strided<double> X) {
  T* const Y = p.space.work;
  for (int32_t s = 0; s < p.tree.count(); ++s) {
    if (!p.reached[s]) continue;
    for (int64_t j = p.tree.first(s); j < p.tree.first(s) + p.tree.pivots(s); ++j)
      for (int64_t c = 0; c < S; ++c) Y[j * S + c] = c < K ? static_cast<T>(B.at(p.row(j), c)) : T(0);
  }
  forward<T, S>(p, Y);
  backward<T, S>(p, Y, K, X);
}

// (fronts): 1 for the fronts of these rows of A and for their ancestors.
std::vector<uint8_t> paths_to_roots(const AssemblyTree& tree, const int32_t* rows, int64_t count) {
  std::vector<uint8_t> marked(tree.count(), count == tree.n());
  if (count == tree.n()) return marked;
  const auto& first = tree.supernodes().first;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t row = tree.symbolic->analysis.iperm[rows[i]];
    int32_t s = static_cast<int32_t>(std::upper_bound(first.begin(), first.end(), row) - first.begin()) - 1;
    for (; s >= 0 && !marked[s]; s = tree.parent(s)) marked[s] = 1;
  }
  return marked;
}

// The same for right-hand sides whose columns first..first + K have the entries B, and for all rows of X.
template <class T, int64_t S>
void solve_few(Problem<T> p, const typename Factor<T>::Entries& B, int64_t first, int64_t K, Strided<double> X) {
  T* const Y = p.space.work;
  std::vector<int32_t> rows;
  const auto is_here = [&](int64_t i) { return B.column[i] >= first && B.column[i] < first + K; };
  for (int64_t i = 0; i < B.count; ++i)
    if (is_here(i)) rows.push_back(B.row[i]);
  const auto reached = paths_to_roots(p.tree, rows.data(), static_cast<int64_t>(rows.size()));
  p.reached = reached.data();
  for (int32_t s = 0; s < p.tree.count(); ++s)
    if (reached[s]) std::fill(Y + int64_t{p.tree.first(s)} * S, Y + int64_t{p.tree.first(s) + p.tree.pivots(s)} * S, T(0));
  for (int64_t i = 0; i < B.count; ++i)
    if (is_here(i)) Y[p.tree.symbolic->analysis.iperm[B.row[i]] * S + B.column[i] - first] += static_cast<T>(B.value[i]);
  forward<T, S>(p, Y);
  backward<T, S>(p, Y, K, X);
}

// L^-1 P B, in the workspace of the problem.
template <class T, int64_t S>
T* forward_of(const Problem<T>& p, Strided<const double> B, int64_t K) {
  permute<T, S>(p, B, K, p.space.work);
  forward<T, S>(p, p.space.work);
  return p.space.work;
}

// X := the rows of B at the Schur interface after the elimination of all others.
template <class T, int64_t S>
void reduce_block(const Problem<T>& p, Strided<const double> B, int64_t K, Strided<double> X) {
  T* const Y = forward_of<T, S>(p, B, K);
  const int64_t first = p.tree.eliminated(), n = p.tree.n();
  for (int64_t i = first; i < n; ++i)
    for (int64_t c = 0; c < K; ++c) X.at(i - first, c) = static_cast<double>(Y[i * S + c]);
}

bool is_zero(Strided<const double> B, int64_t n, int64_t K) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < K; ++c)
      if (B.at(i, c) != 0) return false;
  return true;
}

// X := A^-1 B with X given at the Schur interface. A B of zeros needs no forward solve.
template <class T, int64_t S>
void expand_block(const Problem<T>& p, Strided<const double> B, Strided<const double> given, int64_t K, Strided<double> X) {
  const int64_t first = p.tree.eliminated(), n = p.tree.n();
  T* const Y = p.space.work;
  if (is_zero(B, n, K))
    std::fill(Y, Y + first * S, T(0));
  else
    forward_of<T, S>(p, B, K);
  for (int64_t i = first; i < n; ++i)
    for (int64_t c = 0; c < S; ++c) Y[i * S + c] = c < K ? static_cast<T>(given.at(i - first, c)) : T(0);
  backward<T, S>(p, Y, K, X);
}

}  // namespace

// Calls block(S, K, problem, first) for k right-hand sides, see fronts::in_row_blocks. `perm` is that of the problem.
template <class T>
template <class Block>
void Factor<T>::in_blocks(int64_t k, const int32_t* perm, int threads, Block&& block) const {
  values_.require_factor();
  const AssemblyTree& tree = *tree_;
  threads = fronts::threads_worthwhile(panel_ptr_.back(), k, threads);
  const auto plan = fronts::plan_of(tree, threads, fronts::Use::solve_small_subtrees);
  auto space = space_.lease();
  space->reserve(tree.n(), k, threads, space.is_kept() ? blocks_.idle() : nullptr);
  auto stored = reader(*plan, threads);
  const Problem<T> p{tree, *plan, panels_.data(), panel_ptr_.data(), perm, threads, *space,
                     !stored && fronts::leaves_cache<T>(panels_.size()), stored ? &*stored : nullptr};
  interrupt::begin(k);
  fronts::in_row_blocks(k, [&](auto S, int64_t K, int64_t at) { block(S, K, p, at); });
}

// X is NaN for systems without a factor.
template <class T>
void Batch<T>::solve_group(int64_t g, const T* panels, const double* B, double* X, int64_t k, fronts::SolveSpace<T>& space) const
  requires std::same_as<T, double>
{
  constexpr int size = Group::size;
  const int64_t first = g * size, systems = std::min<int64_t>(size, count() - first), scalars = tree_->n() * k;
  for (int64_t c = 0; c < k; ++c) {
    const double* b[size] = {};
    double* x[size] = {};
    for (int64_t l = 0; l < systems; ++l) {
      const int64_t at = (first + l) * scalars;
      if (state_[first + l] == factored)
        b[l] = B + at + c, x[l] = X + at + c;
      else if (c == 0)
        std::fill(X + at, X + at + scalars, std::numeric_limits<double>::quiet_NaN());
    }
    group_->solve(panels, b, x, k, space);
  }
}

template <class T>
void Batch<T>::solve_item(int64_t i, const T* panels, const double* B, double* X, int64_t k, fronts::SolveSpace<T>& space) const {
  if constexpr (std::same_as<T, double>)
    if (group_) return solve_group(i, panels, B, X, k, space);
  const AssemblyTree& tree = *tree_;
  const int64_t size = tree.n() * k;
  if (state_[i] != factored) {
    std::fill(X + i * size, X + (i + 1) * size, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const auto plan = fronts::plan_of(tree, 1, fronts::Use::solve_small_subtrees);
  space.reserve(tree.n(), k, 1, nullptr);
  const Problem<T> p{tree, *plan, panels, panel_ptr_.data(), tree.symbolic->analysis.perm.data(), 1, space,
                     fronts::leaves_cache<T>(panel_ptr_.back())};
  const Strided<const double> b{B + i * size, k, 1};
  const Strided<double> x{X + i * size, k, 1};
  fronts::in_row_blocks(k, [&](auto S, int64_t K, int64_t at) { solve_block<T, S>(System::A, p, b.from(at), K, x.from(at)); });
}

template <class T>
void Batch<T>::solve(const double* B, double* X, int64_t k, int threads) const {
  std::vector<fronts::SolveSpace<T>> spaces(threads);
  each_system(threads, items(), k * systems_at_once(), [&](int64_t i, int worker) {
    const interrupt::Member uncounted(nullptr);
    solve_item(i, panels_.data() + i * item_scalars(), B, X, k, spaces[worker]);
  });
}

template <class T>
void Factor<T>::solve(System system, Strided<const double> B, Strided<double> X, int64_t k, int threads) const {
  in_blocks(k, system == System::A ? perm() : nullptr, threads, [&](auto S, int64_t K, const Problem<T>& p, int64_t at) {
    solve_block<T, S>(system, p, B.from(at), K, X.from(at));
  });
}

template <class T>
void Factor<T>::solve_at(const int32_t* row, Strided<const double> B, Strided<double> X, int64_t k, int threads) const {
  in_blocks(k, row, threads, [&](auto S, int64_t K, const Problem<T>& p, int64_t at) {
    solve_block<T, S>(System::A, p, B.from(at), K, X.from(at));
  });
}

template <class T>
void Factor<T>::solve_rows(Strided<const double> B, Rows nonzero, Rows wanted, Strided<double> X, int64_t k) const {
  const auto reached = paths_to_roots(*tree_, nonzero.data, nonzero.count), read = paths_to_roots(*tree_, wanted.data, wanted.count);
  in_blocks(k, perm(), 1, [&](auto S, int64_t K, Problem<T> p, int64_t at) {
    p.reached = reached.data(), p.wanted = read.data(), p.far = false;
    solve_paths<T, S>(p, B.from(at), K, X.from(at));
  });
}

template <class T>
void Factor<T>::solve_entries(const Entries& B, Strided<double> X, int64_t k, int threads) const {
  in_blocks(k, perm(), threads, [&](auto S, int64_t K, const Problem<T>& p, int64_t at) { solve_few<T, S>(p, B, at, K, X.from(at)); });
}

template <class T>
void Factor<T>::reduce(Strided<const double> B, Strided<double> X, int64_t k, int threads) const {
  in_blocks(k, perm(), threads, [&](auto S, int64_t K, const Problem<T>& p, int64_t at) {
    reduce_block<T, S>(p, B.from(at), K, X.from(at));
  });
}

template <class T>
void Factor<T>::expand(Strided<const double> B, Strided<const double> given, Strided<double> X, int64_t k, int threads) const {
  in_blocks(k, perm(), threads, [&](auto S, int64_t K, const Problem<T>& p, int64_t at) {
    expand_block<T, S>(p, B.from(at), given.from(at), K, X.from(at));
  });
}

template void Batch<double>::solve(const double*, double*, int64_t, int) const;
template void Batch<float>::solve(const double*, double*, int64_t, int) const;
template void Factor<double>::solve(System, Strided<const double>, Strided<double>, int64_t, int) const;
template void Factor<float>::solve(System, Strided<const double>, Strided<double>, int64_t, int) const;
template void Factor<double>::solve_at(const int32_t*, Strided<const double>, Strided<double>, int64_t, int) const;
template void Factor<double>::solve_rows(Strided<const double>, Rows, Rows, Strided<double>, int64_t) const;
template void Factor<float>::solve_rows(Strided<const double>, Rows, Rows, Strided<double>, int64_t) const;
template void Factor<double>::solve_entries(const Entries&, Strided<double>, int64_t, int) const;
template void Factor<double>::reduce(Strided<const double>, Strided<double>, int64_t, int) const;
template void Factor<double>::expand(Strided<const double>, Strided<const double>, Strided<double>, int64_t, int) const;

}  // namespace ms::cholesky
