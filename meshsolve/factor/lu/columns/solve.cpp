// Solves with the columns engine: block back substitution, and inside a block the sparse triangles column by column.
// Several right-hand sides are solved 8, 4, 2 or 1 at a time. If they do not occupy all threads, subtrees of the largest block
// are solved in parallel, and the columns above them in between (see tasks.cpp). Contributions of a column to rows above its
// subtree are gathered row by row, in the order in which one thread scatters them, so the bits are the same.
#include <limits>

#include "factor/lu/lu.hpp"
#include "native/threads/parallel.hpp"
#include "native/dense/widths.hpp"

namespace ms::lu {
namespace {

constexpr int64_t grain = 1 << 14;                                      // rows of a task that permutes and scales
constexpr int32_t everywhere = std::numeric_limits<int32_t>::max();     // no row is above it

// One group of K right-hand sides. Column and row here are positions.
template <class T, int64_t K>
class ColumnSolve {
 public:
  ColumnSolve(const ColumnPlan& plan, bool transposed, Strided<const Scalar<T>> b, Strided<Scalar<T>> x, T* Y)
      : p_(plan), f_(plan.pattern), transposed_(transposed), b_(b), x_(x), Y_(Y),
        from_((transposed ? plan.form.columns : plan.form.rows).data()),
        to_((transposed ? plan.form.rows : plan.form.columns).data()),
        before_((transposed ? plan.form.col_factor : plan.form.row_factor).data()),
        after_((transposed ? plan.form.row_factor : plan.form.col_factor).data()) {}

  // A separate function: inlined next to those for other numbers of right-hand sides, its loops take a fifth more time.
  __attribute__((noinline)) void run(const T* l, const T* u, const T* pivot, const T* off_diagonal, const SolveTasks& tasks, int most) {
    const int threads = several ? 1 : most;
    l_ = l, u_ = u, pivot_ = pivot, off_diagonal_ = off_diagonal;
    for_range(threads, p_.form.n(), grain, [&](int64_t begin, int64_t end, int) { fill(begin, end); });
    for (int32_t k = 0; k < p_.form.blocks(); ++k) {
      const int32_t b = transposed() ? k : p_.form.blocks() - 1 - k;
      const int32_t begin = p_.form.block_ptr[b], end = p_.form.block_ptr[b + 1];
      if (end == begin + 1)
        single(begin);
      else if (threads > 1 && b == tasks.block)
        in_tasks(tasks, threads);
      else if (transposed())
        whole_transposed(begin, end);
      else
        whole(begin, end);
    }
  }

 private:
  static constexpr bool several = std::is_same_v<T, Lanes>;       // systems at once: on one thread, without transposes
  bool transposed() const { return !several && transposed_; }

  // ---- a block --------------------------------------------------------------------------------------------------------

  // A block of one column has no rows of L or U.
  void single(int32_t k) const {
    if (transposed()) {
      from_above(k);
      divide(k);
      store(k);
    } else {
      divide(k);
      store(k);
      above(k);
    }
  }

  void whole(int32_t begin, int32_t end) const {
    for (int32_t k = begin; k < end; ++k) lower(k, everywhere);
    for (int32_t k = end; k-- > begin;) {
      upper(k);
      above(k);
    }
  }

  void whole_transposed(int32_t begin, int32_t end) const {
    for (int32_t k = begin; k < end; ++k) upper_transposed(k);
    for (int32_t k = end; k-- > begin;) lower_transposed(k);
  }

  void in_tasks(const SolveTasks& tasks, int threads) const {
    const auto each = [&](int32_t bin, auto&& f) {            // f(first column, end) of the subtrees of a bin
      for (int32_t s = tasks.bin[bin]; s < tasks.bin[bin + 1]; ++s)
        f(tasks.column.data() + tasks.begin[s], tasks.column.data() + tasks.begin[s + 1]);
    };
    for_stages(threads, static_cast<int32_t>(tasks.bin.size()) - 1,
      [&](int32_t bin, int) {
        each(bin, [&](const int32_t* k, const int32_t* end) {
          for (const int32_t root = end[-1]; k < end; ++k) transposed() ? upper_transposed(*k) : lower(*k, root);
        });
      },
      [&] { top(tasks); },
      [&](int32_t bin, int) {
        each(bin, [&](const int32_t* begin, const int32_t* k) {
          while (k-- > begin) transposed() ? lower_transposed(*k) : upper(*k);
        });
      });
    if (!transposed())
      for (size_t q = tasks.giving.size(); q-- > 0;) above(tasks.giving[q]);
  }

  void top(const SolveTasks& tasks) const {
    const int32_t count = static_cast<int32_t>(tasks.top.size());
    for (int32_t q = 0; q < count; ++q) {
      const int32_t k = tasks.top[q];
      if (transposed())
        upper_transposed(k);
      else
        for (int64_t e = tasks.top_ptr[q]; e < tasks.top_ptr[q + 1]; ++e) subtract(k, l_[tasks.entry[e]], tasks.from[e]);
    }
    for (int32_t q = count; q-- > 0;) transposed() ? lower_transposed(tasks.top[q]) : upper(tasks.top[q]);
  }

  // ---- a column -------------------------------------------------------------------------------------------------------

  void fill(int64_t begin, int64_t end) const {
    for (int64_t k = begin; k < end; ++k)
      for (int64_t c = 0; c < K; ++c) Y_[k * K + c] = static_cast<T>(b_.at(from_[k], c) * before_[k]);
  }

  void store(int64_t k) const {
    for (int64_t c = 0; c < K; ++c) x_.at(to_[k], c) = static_cast<Scalar<T>>(Y_[k * K + c]) * after_[k];
  }

  void subtract(int64_t to, T x, int64_t from) const {
    for (int64_t c = 0; c < K; ++c) Y_[to * K + c] -= x * Y_[from * K + c];
  }

  void divide(int64_t k) const {
    for (int64_t c = 0; c < K; ++c) Y_[k * K + c] *= pivot_[k];
  }

  // Subtracts column k of L from its rows up to `root`.
  void lower(int32_t k, int32_t root) const {
    const int32_t* const row = f_.l_row.data();
    for (int64_t q = f_.l_ptr[k], end = f_.l_ptr[k + 1]; q < end && row[q] <= root; ++q) subtract(row[q], l_[q], k);
  }

  __attribute__((always_inline)) void upper(int32_t k) const {          // the call takes a fifth of a solve with short columns
    const int32_t* const row = f_.u_row.data();
    divide(k);
    for (int64_t q = f_.u_ptr[k], end = f_.u_ptr[k + 1]; q < end; ++q) subtract(row[q], u_[q], k);
    store(k);
  }

  void above(int32_t k) const {
    for (int64_t q = p_.off_diagonal.ptr[k]; q < p_.off_diagonal.ptr[k + 1]; ++q) subtract(p_.off_diagonal.row[q], off_diagonal_[q], k);
  }

  void from_above(int32_t k) const {
    for (int64_t q = p_.off_diagonal.ptr[k]; q < p_.off_diagonal.ptr[k + 1]; ++q) subtract(k, off_diagonal_[q], p_.off_diagonal.row[q]);
  }

  void upper_transposed(int32_t k) const {
    const int32_t* const row = f_.u_row.data();
    from_above(k);
    for (int64_t q = f_.u_ptr[k], end = f_.u_ptr[k + 1]; q < end; ++q) subtract(k, u_[q], row[q]);
    divide(k);
  }

  void lower_transposed(int32_t k) const {
    const int32_t* const row = f_.l_row.data();
    for (int64_t q = f_.l_ptr[k], end = f_.l_ptr[k + 1]; q < end; ++q) subtract(k, l_[q], row[q]);
    store(k);
  }

  const ColumnPlan& p_;
  const symbolic::Unsymmetric& f_;
  const bool transposed_;
  const Strided<const Scalar<T>> b_;
  const Strided<Scalar<T>> x_;
  T* const Y_;                            // K values per position
  const int32_t *const from_, *const to_;
  const double *const before_, *const after_;
  const T *l_ = nullptr, *u_ = nullptr, *pivot_ = nullptr, *off_diagonal_ = nullptr;
};

}  // namespace

template <class T>
const SolveTasks& ColumnFactor<T>::tasks_of_solve() const {
  const std::lock_guard<std::mutex> lock(plan_lock_);
  if (!solve_tasks_) solve_tasks_ = std::make_unique<SolveTasks>(solve_tasks(*plan_));
  return *solve_tasks_;
}

template <class T>
void ColumnFactor<T>::solve(bool transposed, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k, int threads) const {
  static const SolveTasks none;
  const bool apart = (k + 7) / 8 >= threads;        // one thread per piece; else all threads share each piece
  auto lease = space_.lease();
  solve_pieces(*lease, transposed, B, X, k, apart ? none : tasks_of_solve(), threads);
}

template <class T>
void ColumnFactor<T>::solve_pieces(Space& space, bool transposed, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k,
                                   const SolveTasks& tasks, int threads) const {
  const int64_t n = plan_->form.n(), pieces = (k + 7) / 8;
  const int inside = tasks.block < 0 ? 1 : threads;
  space.resize(std::max<size_t>(space.size(), threads));
  const auto piece = [&](int64_t begin, int64_t end, int worker) {
    Buffer<T>& Y = space[worker];
    if (Y.size() < n * std::min<int64_t>(k, 8)) Y = Buffer<T>(n * std::min<int64_t>(k, 8));
    const auto solve = [&](auto K, int64_t at) {
      interrupt::poll();
      ColumnSolve<T, K>(*plan_, transposed, B.from(begin + at), X.from(begin + at), Y.data())
          .run(l_.data(), u_.data(), pivot_.data(), off_diagonal_.data(), tasks, inside);
    };
    if constexpr (std::is_same_v<T, Lanes>)
      in_widths<2, 1>(end - begin, solve);
    else
      in_widths<8, 4, 2, 1>(end - begin, solve);
  };
  interrupt::begin(pieces);
  for_range(inside > 1 ? 1 : threads, pieces, 1, [&](int64_t begin, int64_t end, int worker) {
    piece(begin * 8, std::min(end * 8, k), worker);
  });
}

template <class T>
void ColumnFactor<T>::solve_in(Space& space, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k) const {
  static const SolveTasks none;
  solve_pieces(space, false, B, X, k, none, 1);
}

template void ColumnFactor<double>::solve(bool, Strided<const double>, Strided<double>, int64_t, int) const;
template void ColumnFactor<float>::solve(bool, Strided<const double>, Strided<double>, int64_t, int) const;
template void ColumnFactor<Complex>::solve(bool, Strided<const Complex>, Strided<Complex>, int64_t, int) const;
template void ColumnFactor<double>::solve_in(Space&, Strided<const double>, Strided<double>, int64_t) const;
template const SolveTasks& ColumnFactor<double>::tasks_of_solve() const;
template const SolveTasks& ColumnFactor<float>::tasks_of_solve() const;
template void ColumnFactor<Complex>::solve_in(Space&, Strided<const Complex>, Strided<Complex>, int64_t) const;
template const SolveTasks& ColumnFactor<Complex>::tasks_of_solve() const;
template void ColumnFactor<Lanes>::solve_in(Space&, Strided<const Lanes>, Strided<Lanes>, int64_t) const;

}  // namespace ms::lu
