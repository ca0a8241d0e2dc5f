// Solves with the fronts engine: block back substitution over the diagonal blocks. Inside a block, forward from the leaves:
// a front reads the sums that fronts below it have left in its rows, and adds its own to the rows of its ancestors; backward
// from the roots, each front gathers the unknowns of its ancestors. Sums are kept apart for each task, and a task passes
// them on as one update of its root, so that results do not depend on the number of threads.
#include <algorithm>

#include "factor/lu/lu.hpp"
#include "native/memory/fetch.hpp"
#include "native/threads/parallel.hpp"
#include "sparse/rearrange.hpp"

namespace ms::lu {
namespace {

using fronts::AssemblyTree;

constexpr int64_t parallel_work = 400'000;       // scalars of the factor below which everything is one task
constexpr int task_threads = 8;                  // the number of threads that tasks are made for
constexpr int64_t small_height = 16;             // plain loops up to here
constexpr int64_t most_fetched = 32;             // columns of a triangle that are asked for ahead of time
constexpr int32_t fronts_ahead = 8;              // most fronts of circuits are small

template <class T, int64_t K>
class BlockSolve {
 public:
  BlockSolve(const FrontPlan& plan, const SolvePlan& tasks, const T* fronts, const int32_t* exchange, const T* outside,
             bool transposed, int threads, FrontSpace<T>& space)
      : p_(plan), tree_(plan.tree), tasks_(tasks), fronts_(fronts), exchange_(exchange), outside_(outside),
        transposed_(transposed), threads_(threads), space_(space), Y_(space.work.data()),
        far_(fronts::leaves_cache<T>(plan.base.back())) {}

  void run() const {
    for (int32_t k = 0; k < p_.frame.blocks(); ++k) {
      if (k % 4096 == 0) interrupt::poll();
      const int32_t b = transposed_ ? k : p_.frame.blocks() - 1 - k;
      if (transposed_) subtract_rows(b);
      const int32_t begin = p_.block_front[b], end = p_.block_front[b + 1];
      if (b == tasks_.block) {
        run_tasks();
      } else {
        for (int32_t s = begin; s < end; ++s) forward(s, begin, end, Y_, 0);
        for (int32_t s = end; s-- > begin;) backward(s, 0);
      }
      if (!transposed_) subtract_columns(b);
    }
  }

 private:
  void run_tasks() const {
    const std::vector<fronts::Schedule::Task>& all = tasks_.schedule.tasks;
    for_tree(threads_, tasks_.parent, [&](int32_t t, int worker) {
      const fronts::Schedule::Task task = all[tasks_.begin + t];
      for (int32_t s = task.begin; s < task.end; ++s) forward(s, task.begin, task.end, space_.sums[worker].data(), worker);
    });
    for_tree_down(threads_, tasks_.parent, [&](int32_t t, int worker) {
      const fronts::Schedule::Task task = all[tasks_.begin + t];
      for (int32_t s = task.end; s-- > task.begin;) backward(s, worker);
    });
  }

  // ---- one front ------------------------------------------------------------------------------------------------------

  T* update(int32_t s) const { return space_.updates.data() + tasks_.slot_ptr[tasks_.schedule.slot[s]] * K; }

  // Front s of the fronts [begin, end) that share `sums`: Y itself where a whole block is one task.
  void forward(int32_t s, int32_t begin, int32_t end, T* sums, int worker) const {
    fetch_front(s + fronts_ahead, transposed_);
    for (int32_t q = tree_.child_ptr[s]; q < tree_.child_ptr[s + 1]; ++q)
      if (const int32_t c = tree_.child[q]; c < begin && tree_.updates(c) > 0) {
        const T* const from = update(c);
        for (int64_t i = 0; i < tree_.updates(c); ++i)
          for (int64_t k = 0; k < K; ++k) sums[tree_.rows(c)[i] * K + k] += from[i * K + k];
      }
    if (tree_.height(s) <= small_height)
      forward_small(s, sums);
    else
      forward_large(s, sums, worker);
    if (tree_.parent(s) >= end && tree_.updates(s) > 0) {
      T* const to = update(s);
      for (int64_t i = 0; i < tree_.updates(s); ++i)
        for (int64_t k = 0; k < K; ++k) to[i * K + k] = std::exchange(sums[tree_.rows(s)[i] * K + k], T(0));
    }
  }

  // What a sweep reads of front s: the columns of L or the rows of U.
  void fetch_front(int32_t s, bool upper) const {
    if (!far_ || s < 0 || s >= tree_.count()) return;
    const int64_t w = tree_.pivots(s), ldp = p_.leading_p(s);
    const T* const P = fronts_ + p_.base[s];
    if (!upper) return fetch_block(P, P + w * ldp);
    for (int64_t j = 0; j < std::min(w, most_fetched); ++j) fetch_block(P + j * ldp, P + j * ldp + j + 1);
    fetch_block(P + w * ldp, fronts_ + p_.base[s + 1]);
  }

  void forward_small(int32_t s, T* sums) const {
    const int64_t w = tree_.pivots(s), u = tree_.updates(s), ldp = p_.leading_p(s), ldq = p_.leading_q(s);
    const int32_t* const rows = tree_.rows(s);
    const T* const P = fronts_ + p_.base[s];
    T* const y = Y_ + static_cast<int64_t>(tree_.first(s)) * K;
    T* const sum = sums + static_cast<int64_t>(tree_.first(s)) * K;
    take(w, y, sum);
    const T* M = P + w;                            // what multiplies the pivots' unknowns below
    int64_t ld = ldp;
    if (transposed_) {
      M = P + w * ldp;
      ld = ldq;
      for (int64_t j = 0; j < w; ++j) {
        const T inverse = T(1) / P[j + j * ldp];
        for (int64_t k = 0; k < K; ++k) {
          for (int64_t i = 0; i < j; ++i) y[j * K + k] -= P[i + j * ldp] * y[i * K + k];
          y[j * K + k] *= inverse;
        }
      }
    } else {
      for (int64_t j = 0; j < w; ++j) exchange(s, y, j);
      for (int64_t j = 0; j < w; ++j)
        for (int64_t i = j + 1; i < w; ++i)
          for (int64_t k = 0; k < K; ++k) y[i * K + k] -= P[i + j * ldp] * y[j * K + k];
    }
    T product[small_height * K];                   // by columns, whose entries follow each other
    for (int64_t j = 0; j < w; ++j)
      for (int64_t i = 0; i < u; ++i)
        for (int64_t k = 0; k < K; ++k) product[i * K + k] = (j == 0 ? T(0) : product[i * K + k]) + M[i + j * ld] * y[j * K + k];
    for (int64_t i = 0; i < u; ++i)
      for (int64_t k = 0; k < K; ++k) sums[static_cast<int64_t>(rows[i]) * K + k] -= product[i * K + k];
  }

  void backward_small(int32_t s) const {
    const int64_t w = tree_.pivots(s), u = tree_.updates(s), ldp = p_.leading_p(s), ldq = p_.leading_q(s);
    const int32_t* const rows = tree_.rows(s);
    const T* const P = fronts_ + p_.base[s];
    T* const y = Y_ + static_cast<int64_t>(tree_.first(s)) * K;
    const T* const M = transposed_ ? P + w : P + w * ldp;
    const int64_t ld = transposed_ ? ldp : ldq;
    T known[small_height * K];
    for (int64_t i = 0; i < u; ++i)
      for (int64_t k = 0; k < K; ++k) known[i * K + k] = Y_[static_cast<int64_t>(rows[i]) * K + k];
    for (int64_t j = 0; j < w; ++j) subtract_product(u, M + j * ld, known, y + j * K);
    for (int64_t j = w; j-- > 0;)
      if (transposed_) {
        for (int64_t k = 0; k < K; ++k)
          for (int64_t i = j + 1; i < w; ++i) y[j * K + k] -= P[i + j * ldp] * y[i * K + k];
      } else {
        const T inverse = T(1) / P[j + j * ldp];
        for (int64_t k = 0; k < K; ++k) {
          y[j * K + k] *= inverse;
          for (int64_t i = 0; i < j; ++i) y[i * K + k] -= P[i + j * ldp] * y[j * K + k];
        }
      }
    if (transposed_)
      for (int64_t j = w; j-- > 0;) exchange(s, y, j);
  }

  // y -= row . known, in chains of additions that do not wait for each other.
  static void subtract_product(int64_t u, const T* row, const T* known, T* y) {
    constexpr int64_t chains = 4;
    T part[chains][K] = {};
    int64_t i = 0;
    for (; i + chains <= u; i += chains)
      for (int64_t l = 0; l < chains; ++l)
        for (int64_t k = 0; k < K; ++k) part[l][k] += row[i + l] * known[(i + l) * K + k];
    for (; i < u; ++i)
      for (int64_t k = 0; k < K; ++k) part[0][k] += row[i] * known[i * K + k];
    for (int64_t k = 0; k < K; ++k) y[k] -= (part[0][k] + part[1][k]) + (part[2][k] + part[3][k]);
  }

  static void take(int64_t w, T* y, T* sum) {
    if (sum != y)
      for (int64_t i = 0; i < w * K; ++i) y[i] += std::exchange(sum[i], T(0));
  }

  void exchange(int32_t s, T* y, int64_t j) const {
    const int64_t r = exchange_[tree_.first(s) + j];
    if (r != j)
      for (int64_t k = 0; k < K; ++k) std::swap(y[j * K + k], y[r * K + k]);
  }

  // Columns of V for the dense kernels, padded with zeros.
  T* columns(int64_t ld, int worker) const {
    Buffer<T>& local = space_.local[worker];
    if (local.size() < ld * K) local = Buffer<T>(2 * ld * K);
    return local.data();
  }

  void forward_large(int32_t s, T* sums, int worker) const {
    const int64_t w = tree_.pivots(s), u = tree_.updates(s), ldp = p_.leading_p(s), ldq = p_.leading_q(s);
    const int64_t ld = w + u + solve_padding;
    const int32_t* const rows = tree_.rows(s);
    const T* const P = fronts_ + p_.base[s];
    T* const y = Y_ + static_cast<int64_t>(tree_.first(s)) * K;
    T* const sum = sums + static_cast<int64_t>(tree_.first(s)) * K;
    T* const V = columns(ld, worker);
    take(w, y, sum);
    if (!transposed_)
      for (int64_t j = 0; j < w; ++j) exchange(s, y, j);
    for (int64_t k = 0; k < K; ++k) {
      for (int64_t j = 0; j < w; ++j) V[j + k * ld] = y[j * K + k];
      std::fill(V + w + k * ld, V + ld + k * ld, T(0));
    }
    if (transposed_)
      dense_lu<T>().upper_transposed(w, u, P, ldp, P + w * ldp, ldq, K, V, ld);
    else
      dense_lu<T>().lower(w, u, P, ldp, K, V, ld);
    for (int64_t k = 0; k < K; ++k) {
      for (int64_t j = 0; j < w; ++j) y[j * K + k] = V[j + k * ld];
      for (int64_t i = 0; i < u; ++i) sums[static_cast<int64_t>(rows[i]) * K + k] += V[w + i + k * ld];
    }
  }

  void backward(int32_t s, int worker) const {
    fetch_front(s - fronts_ahead, !transposed_);
    if (tree_.height(s) <= small_height) return backward_small(s);
    const int64_t w = tree_.pivots(s), u = tree_.updates(s), ldp = p_.leading_p(s), ldq = p_.leading_q(s);
    const int64_t ld = w + u + solve_padding;
    const int32_t* const rows = tree_.rows(s);
    const T* const P = fronts_ + p_.base[s];
    T* const y = Y_ + static_cast<int64_t>(tree_.first(s)) * K;
    T* const V = columns(ld, worker);
    for (int64_t k = 0; k < K; ++k) {
      for (int64_t j = 0; j < w; ++j) V[j + k * ld] = y[j * K + k];
      for (int64_t i = 0; i < u; ++i) V[w + i + k * ld] = Y_[static_cast<int64_t>(rows[i]) * K + k];
      std::fill(V + w + u + k * ld, V + ld + k * ld, T(0));
    }
    if (transposed_)
      dense_lu<T>().lower_transposed(w, u, P, ldp, K, V, ld);
    else
      dense_lu<T>().upper(w, u, P, ldp, P + w * ldp, ldq, K, V, ld);
    for (int64_t k = 0; k < K; ++k)
      for (int64_t j = 0; j < w; ++j) y[j * K + k] = V[j + k * ld];
    if (transposed_)
      for (int64_t j = w; j-- > 0;) exchange(s, y, j);
  }

  // The known unknowns of block b leave the equations above it ...
  void subtract_columns(int32_t b) const {
    for (int32_t j = p_.frame.block_ptr[b]; j < p_.frame.block_ptr[b + 1]; ++j)
      for (int64_t q = p_.outside.ptr[j]; q < p_.outside.ptr[j + 1]; ++q)
        for (int64_t k = 0; k < K; ++k) Y_[static_cast<int64_t>(p_.outside.row[q]) * K + k] -= outside_[q] * Y_[j * K + k];
  }

  // ... and, transposed, those of the blocks above leave the equations of block b.
  void subtract_rows(int32_t b) const {
    for (int32_t j = p_.frame.block_ptr[b]; j < p_.frame.block_ptr[b + 1]; ++j)
      for (int64_t q = p_.outside.ptr[j]; q < p_.outside.ptr[j + 1]; ++q)
        for (int64_t k = 0; k < K; ++k) Y_[j * K + k] -= outside_[q] * Y_[static_cast<int64_t>(p_.outside.row[q]) * K + k];
  }

  const FrontPlan& p_;
  const AssemblyTree& tree_;
  const SolvePlan& tasks_;
  const T* const fronts_;
  const int32_t* const exchange_;
  const T* const outside_;
  const bool transposed_;
  const int threads_;
  FrontSpace<T>& space_;
  T* const Y_;                            // K values a position
  const bool far_;                        // the fronts are in memory, not in a cache
};

}  // namespace

SolvePlan solve_plan(const FrontPlan& p) {
  SolvePlan out;
  out.schedule = fronts::schedule(p.tree, p.base.back() < parallel_work ? 1 : task_threads, fronts::Use::solve);
  out.slot_ptr.assign(out.schedule.slots + 1, 0);
  for (int32_t s = 0; s < p.tree.count(); ++s)
    if (const int32_t slot = out.schedule.slot[s]; slot >= 0) out.slot_ptr[slot + 1] = p.tree.updates(s);
  add_up(out.slot_ptr);
  if (out.schedule.slots == 0) return out;
  const auto size = [&](int32_t b) { return p.base[p.block_front[b + 1]] - p.base[p.block_front[b]]; };
  const std::vector<int32_t>& top = out.schedule.top;
  for (int32_t b = 0; b < p.frame.blocks(); ++b)           // a block whose root is not on top may share a task with its neighbours
    if (std::binary_search(top.begin(), top.end(), p.block_front[b + 1] - 1) && (out.block < 0 || size(b) > size(out.block))) out.block = b;
  if (out.block < 0) return out;
  const int32_t first = p.block_front[out.block], end = p.block_front[out.block + 1];
  const std::vector<fronts::Schedule::Task>& tasks = out.schedule.tasks;
  const int32_t count = static_cast<int32_t>(tasks.size());
  while (out.begin < count && tasks[out.begin].begin < first) ++out.begin;
  for (out.end = out.begin; out.end < count && tasks[out.end].end <= end; ++out.end) {
    const int32_t up = out.schedule.parent[out.end];
    out.parent.push_back(up < 0 ? -1 : up - out.begin);
  }
  return out;
}

template <class T>
const SolvePlan& FrontFactor<T>::plan_of_solve() const {
  const std::lock_guard<std::mutex> lock(plan_lock_);
  if (!solve_plan_) solve_plan_ = std::make_unique<SolvePlan>(solve_plan(*plan_));
  return *solve_plan_;
}

// Values that a row of k of them takes.
constexpr int64_t row_width(int64_t k) { return k > 4 ? 8 : k; }

template <class T>
void FrontFactor<T>::solve(bool transposed, Strided<const Scalar<T>> B, Strided<Scalar<T>> X, int64_t k, int threads) const {
  const Frame& frame = plan_->frame;
  const int64_t n = frame.n(), chunk = row_width(k);
  const SolvePlan& plan = plan_of_solve();
  if (plan.block < 0) threads = 1;
  auto loan = space_.lend();
  FrontSpace<T>& space = *loan;
  if (space.work.size() < n * chunk) space.work = Buffer<T>(n * chunk);
  if (space.updates.size() < plan.slot_ptr.back() * chunk) space.updates = Buffer<T>(plan.slot_ptr.back() * chunk);
  space.local.resize(std::max<size_t>(space.local.size(), threads));
  space.sums.resize(std::max<size_t>(space.sums.size(), threads));
  for (int w = 0; w < threads && plan.block >= 0; ++w)
    if (space.sums[w].size() < n * chunk) {
      space.sums[w] = Buffer<T>(n * chunk);
      std::fill(space.sums[w].data(), space.sums[w].data() + n * chunk, T(0));
    }
  T* const Y = space.work.data();
  const std::vector<int32_t>& from = transposed ? frame.columns : frame.rows;
  const std::vector<int32_t>& to = transposed ? frame.rows : frame.columns;
  const std::vector<double>& before = transposed ? frame.col_factor : frame.row_factor;
  const std::vector<double>& after = transposed ? frame.row_factor : frame.col_factor;
  const auto block = [&](auto K, int64_t first) {
    constexpr int64_t S = row_width(K);
    const auto b_at = B.from(first);
    const auto x_at = X.from(first);
    for_range(threads, n, 1 << 15, [&](int64_t b, int64_t e, int) {
      for (int64_t i = b; i < e; ++i) {
        for (int64_t c = 0; c < K; ++c) Y[i * S + c] = static_cast<T>(b_at.at(from[i], c) * before[i]);
        std::fill(Y + i * S + K, Y + (i + 1) * S, T(0));
      }
    });
    BlockSolve<T, S>(*plan_, plan, fronts_.data(), exchange_.data(), outside_.data(), transposed, threads, space).run();
    for_range(threads, n, 1 << 15, [&](int64_t b, int64_t e, int) {
      for (int64_t i = b; i < e; ++i)
        for (int64_t c = 0; c < K; ++c) x_at.at(to[i], c) = static_cast<Scalar<T>>(Y[i * S + c]) * after[i];
    });
  };
  interrupt::begin(k);
  try {
    fronts::in_blocks(k, block);
  } catch (...) {
    space.sums.clear();                   // they are zeros only after a whole solve
    throw;
  }
}

template void FrontFactor<double>::solve(bool, Strided<const double>, Strided<double>, int64_t, int) const;
template void FrontFactor<float>::solve(bool, Strided<const double>, Strided<double>, int64_t, int) const;
template void FrontFactor<Complex>::solve(bool, Strided<const Complex>, Strided<Complex>, int64_t, int) const;

}  // namespace ms::lu
