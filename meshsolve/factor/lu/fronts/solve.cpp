// Solves with the fronts engine: block back substitution from the last diagonal block to the first, or from the first to the last
// with the transpose. Inside a block the forward sweep with L (transposed: U^T) runs from the leaves, by factor/fronts/solve.hpp.
// In the backward sweep with U (L^T) each front reads the unknowns of its ancestors, parents first.
#include <algorithm>
#include <optional>

#include "factor/fronts/solve.hpp"
#include "factor/lu/lu.hpp"
#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"

namespace ms::lu {
namespace {

using fronts::AssemblyTree;

constexpr int64_t grain = 1 << 15;               // rows of a task that permutes and scales
constexpr int64_t most_fetched = 32;             // columns of a triangle that are prefetched
constexpr int32_t fronts_ahead = 8;              // prefetch distance in fronts: most fronts of circuits are small

// Permutations and scalings of right-hand sides and solutions.
struct Order {
  const std::vector<int32_t>&from, &to;
  const std::vector<double>&before, &after;      // scalings by position
  Order(const BlockTriangularForm& f, bool transposed)
      : from(transposed ? f.columns : f.rows), to(transposed ? f.rows : f.columns),
        before(transposed ? f.col_factor : f.row_factor), after(transposed ? f.row_factor : f.col_factor) {}
};

template <class T>
struct Problem {
  const FrontPlan& p;
  const fronts::Schedule& schedule;
  const T* data;
  const int32_t* exchange;
  const T* off_diagonal;
  bool transposed;
  int threads;
  fronts::SolveSpace<T>& space;
  bool far;                           // the fronts do not fit in the cache
  const AssemblyTree& tree = p.tree;
  const RowKernels<T>& kernels = row_kernels<T>();

  [[gnu::always_inline]] UpperFront<T> upper(int32_t s) const {
    const int64_t w = tree.pivots(s), u = tree.updates(s), ldp = fronts::leading_dimension(w + u);
    const T* const P = data + p.base[s];
    return {w, u, P, ldp, P + w * ldp, fronts::leading_dimension(u)};
  }

  // Prefetches the part of front s that a sweep reads: the columns of L or the rows of U.
  void fetch_front(int32_t s, bool rows_of_u) const {
    if (!far || s < 0 || s >= tree.count()) return;
    const UpperFront<T> f = upper(s);
    if (!rows_of_u) return fetch_block(f.P, f.Q);
    for (int64_t j = 0; j < std::min<int64_t>(f.w, most_fetched); ++j) fetch_block(f.P + j * f.ldp, f.P + j * f.ldp + j + 1);
    fetch_block(f.Q, data + p.base[s + 1]);
  }

  template <int64_t S>
  void exchange_row(int32_t s, T* own, int64_t j) const {
    if (const int64_t r = exchange[tree.first(s) + j]; r != j) std::swap_ranges(own + j * S, own + (j + 1) * S, own + r * S);
  }

  // ---- one front, S right-hand sides by rows; with begin() part of the interface of Forward ------------------------------

  template <int64_t S>
  T* begin(int32_t s, T* Y) const {
    fetch_front(s + fronts_ahead, transposed);
    T* const own = Y + static_cast<int64_t>(tree.first(s)) * S;
    for (int64_t j = 0; !transposed && j < tree.pivots(s); ++j) exchange_row<S>(s, own, j);
    return own;
  }

  template <int64_t S>
  void eliminate(int32_t s, T* Y, T* U, int, const int32_t* rows = nullptr) const {
    const UpperFront<T> f = upper(s);
    T* const own = begin<S>(s, Y);
    if (transposed)
      kernels.forward_upper(S, f, own, U, rows);
    else
      kernels.forward(S, Diagonal::ones, f.w + f.u, f.w, f.w, f.P, f.ldp, own, U, rows);
  }

  template <int64_t S>
  void eliminate_at(int32_t s, T* Y, int worker) const {
    eliminate<S>(s, Y, Y, worker, tree.rows(s));
  }

  // The rows below the pivots are copied first, because each group of pivots reads them.
  template <int64_t S>
  void backward(int32_t s, T* Y, int worker) const {
    fetch_front(s - fronts_ahead, !transposed);
    const UpperFront<T> f = upper(s);
    T* const own = Y + static_cast<int64_t>(tree.first(s)) * S;
    Buffer<T>& local = space.local[worker];
    if (local.size() < f.u * S) local = Buffer<T>(2 * f.u * S);
    T* const V = local.data();
    const int32_t* const rows = tree.rows(s);
    for (int64_t i = 0; i < f.u; ++i) std::copy_n(Y + static_cast<int64_t>(rows[i]) * S, S, V + i * S);
    if (!transposed) return kernels.backward_upper(S, f, own, V);
    kernels.backward_unit(S, f.w + f.u, f.w, f.P, f.ldp, own, V);
    for (int64_t j = f.w; j-- > 0;) exchange_row<S>(s, own, j);
  }
};

template <class T, int64_t S>
class BlockSolve {
 public:
  explicit BlockSolve(const Problem<T>& problem) : p_(problem) {}

  void run() {
    const FrontPlan& plan = p_.p;
    const int32_t count = plan.form.blocks();
    if (plan.off_diagonal.row.empty() && count > 1) return solve_trees(0, p_.tree.count());
    for (int32_t k = 0; k < count; ++k) {
      if (k % 4096 == 0) interrupt::poll();
      const int32_t b = p_.transposed ? k : count - 1 - k;
      if (p_.transposed) subtract_rows(b);
      const int32_t begin = plan.block_front[b], end = plan.block_front[b + 1];
      if (p_.tree.direct[end - 1] < 0)
        solve_trees(begin, end);
      else
        solve_small(begin, end);
      if (!p_.transposed) subtract_columns(b);
    }
  }

 private:
  // The trees with the fronts [begin, end).
  void solve_trees(int32_t begin, int32_t end) {
    if (!blocks_) blocks_.emplace(p_.tree, p_.schedule, p_.threads, S, p_.space.blocks);
    const fronts::Schedule tasks = fronts::tasks_within(p_.schedule, begin, end);
    fronts::Forward<T, S, Problem<T>>{p_, Y_, &*blocks_}.run(tasks, p_.threads);
    fronts::top_down(tasks, p_.threads, [&](int32_t s, int worker) { p_.template backward<S>(s, Y_, worker); });
  }

  // One tree that is a small subtree.
  void solve_small(int32_t begin, int32_t end) const {
    fronts::Forward<T, S, Problem<T>>{p_, Y_}.small_subtree(begin, end - 1, nullptr, 0);
    for (int32_t s = end; s-- > begin;) p_.template backward<S>(s, Y_, 0);
  }

  // Subtracts the known unknowns of block b from the equations above it.
  void subtract_columns(int32_t b) const {
    const FrontPlan& p = p_.p;
    for (int32_t j = p.form.block_ptr[b]; j < p.form.block_ptr[b + 1]; ++j)
      for (int64_t q = p.off_diagonal.ptr[j]; q < p.off_diagonal.ptr[j + 1]; ++q)
        for (int64_t k = 0; k < S; ++k) Y_[static_cast<int64_t>(p.off_diagonal.row[q]) * S + k] -= p_.off_diagonal[q] * Y_[j * S + k];
  }

  // Transposed: subtracts the known unknowns of the blocks above from the equations of block b.
  void subtract_rows(int32_t b) const {
    const FrontPlan& p = p_.p;
    for (int32_t j = p.form.block_ptr[b]; j < p.form.block_ptr[b + 1]; ++j)
      for (int64_t q = p.off_diagonal.ptr[j]; q < p.off_diagonal.ptr[j + 1]; ++q)
        for (int64_t k = 0; k < S; ++k) Y_[j * S + k] -= p_.off_diagonal[q] * Y_[static_cast<int64_t>(p.off_diagonal.row[q]) * S + k];
  }

  const Problem<T>& p_;
  T* const Y_ = p_.space.work;                     // S values per position
  std::optional<fronts::UpdateBlocks<T>> blocks_;
};

// X := solution of B for K right-hand sides, in rows of S values.
template <class T, int64_t S>
void solve_block(const Problem<T>& p, Strided<const Scalar<T>> B, int64_t K, Strided<Scalar<T>> X) {
  const Order order(p.p.form, p.transposed);
  T* const Y = p.space.work;
  for_range(p.threads, p.tree.n(), grain, [&](int64_t begin, int64_t end, int) {
    fronts::with_count<S>(K, [&](auto k) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t c = 0; c < S; ++c) Y[i * S + c] = c < k ? static_cast<T>(B.at(order.from[i], c) * order.before[i]) : T(0);
    });
  });
  BlockSolve<T, S>(p).run();
  for_range(p.threads, p.tree.n(), grain, [&](int64_t begin, int64_t end, int) {
    fronts::with_count<S>(K, [&](auto k) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t c = 0; c < k; ++c) X.at(order.to[i], c) = static_cast<Scalar<T>>(Y[i * S + c]) * order.after[i];
    });
  });
}

}  // namespace

template <class T>
void FrontFactor<T>::solve(bool transposed, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k, int threads) const {
  threads = fronts::threads_worthwhile(plan_->base.back(), k, threads);
  auto space = space_.lease();
  space->reserve(plan_->tree.n(), k, threads, space.is_kept() ? blocks_.idle() : nullptr);
  solve_blocks(*space, transposed, B, X, k, threads);
}

template <class T>
void FrontFactor<T>::solve_in(Space& space, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k) const {
  space.reserve(plan_->tree.n(), k, 1, nullptr);
  solve_blocks(space, false, B, X, k, 1);
}

template <class T>
void FrontFactor<T>::solve_blocks(Space& space, bool transposed, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k,
                                  int threads) const {
  const auto schedule = fronts::plan_of(plan_->tree, threads, fronts::Use::solve_small_subtrees);
  const Problem<T> p{*plan_,     *schedule, fronts_.data(), exchange_.data(),
                     off_diagonal_.data(), transposed, threads, space, fronts::leaves_cache<T>(plan_->base.back())};
  interrupt::begin(k);
  fronts::in_row_blocks<T>(k, [&](auto S, int64_t K, int64_t at) { solve_block<T, S>(p, B.from(at), K, X.from(at)); });
}

template void FrontFactor<double>::solve_in(Space&, Strided<const double>, Strided<double>, int64_t) const;
template void FrontFactor<double>::solve(bool, Strided<const double>, Strided<double>, int64_t, int) const;
template void FrontFactor<float>::solve(bool, Strided<const double>, Strided<double>, int64_t, int) const;
template void FrontFactor<Complex>::solve_in(Space&, Strided<const Complex>, Strided<Complex>, int64_t) const;
template void FrontFactor<Complex>::solve(bool, Strided<const Complex>, Strided<Complex>, int64_t, int) const;

}  // namespace ms::lu
