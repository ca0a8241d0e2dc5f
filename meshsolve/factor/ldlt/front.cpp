// Numeric phase of the complete factorization. Each front gathers its entries of A and the update matrices and delayed columns of
// its children. It eliminates all columns with acceptable pivots, and writes an update matrix and its own delayed columns.
// A front with d delayed columns has its rows in this order: its own pivots, the delayed ones, the rows below. The update
// matrix keeps its planned position and size: delayed columns stay in the panel in which they were updated.
// Tiles of large fronts do not depend on the number of threads, so the bits do not either.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "complete.hpp"
#include "native/threads/parallel.hpp"
#include "search.hpp"

namespace ms::ldlt {
namespace {

using fronts::AssemblyTree;
using fronts::UpdateBlocks;

constexpr int64_t short_front = 256;           // rows; hundreds of such fronts are eliminated between two polls for Ctrl-C
constexpr int64_t tile_columns = 128;          // columns of a tile of a large front
constexpr int64_t largest_kept = int64_t{1} << 17;      // scalars of a work space that is kept for the next factorization
constexpr size_t least_chunk = size_t{64} << 10, largest_chunk = size_t{32} << 20;      // bytes, of the memory of fronts

template <class T>
struct Front {
  FrontState<T>& state;
  T* update;                                   // of the rows below the columns
  int threads;
  int64_t columns() const { return state.columns; }
  int64_t height() const { return state.height; }
  fronts::PackedLower updates() const { return {state.height - state.columns}; }
  T* at(int64_t i, int64_t j) const { return state.panel + i + j * state.ld; }
};

// Local rows in the front of the update rows of child c; `shift` is the number of columns delayed to the front.
const int32_t* rows_of_child(const AssemblyTree& tree, int32_t c, int64_t shift, std::vector<int>& to) {
  const int32_t* const relative = tree.relative_rows(c);
  if (shift == 0) return relative;
  const int64_t pivots = tree.pivots(tree.parent(c)), count = tree.updates(c);
  to.resize(count);
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<int>(relative[i] < pivots ? relative[i] : relative[i] + shift);
  return to.data();
}

// Copies the delayed columns of a child to the columns from `base` on. Their rows below may be pivots of the front,
// which come first: such an entry is stored in the column of the pivot.
template <class T>
void add_delayed(const FrontState<T>& child, int64_t base, const int32_t* to, const Front<T>& f) {
  const int64_t e = child.pivots, k = child.delayed();
  for (int64_t t = 0; t < k; ++t) {
    const T* const from = child.panel + (e + t) * child.ld;
    T* const column = f.at(0, base + t);
    for (int64_t r = t; r < k; ++r) column[base + r] = from[e + r];
    for (int64_t r = child.columns; r < child.height; ++r) {
      const int64_t row = to[r - child.columns];
      if (row < base + t)
        *f.at(base + t, row) = from[r];
      else
        column[row] = from[r];
    }
    f.state.name[base + t] = child.name[e + t];
  }
}

// Applies the permutation of the columns [k, k + w) to the rows of the earlier columns.
template <class T, class Worker>
void permute_rows(const Front<T>& f, int64_t k, int64_t w, T* product, int64_t ld, Worker& worker) {
  bool moved = false;
  for (int64_t c = 0; c < w; ++c) moved = moved || worker.order[c] != c;
  if (!moved) return;
  worker.moved.resize(w);
  const auto permute = [&](T* x) {
    for (int64_t c = 0; c < w; ++c) worker.moved[c] = x[worker.order[c]];
    std::copy_n(worker.moved.data(), w, x);
  };
  for (int64_t j = 0; j < k; ++j) {
    permute(f.at(k, j));
    permute(product + k + j * ld);
  }
  worker.to.resize(w);
  for (int64_t c = 0; c < w; ++c) worker.to[c] = f.state.name[k + worker.order[c]];
  std::copy_n(worker.to.data(), w, f.state.name + k);
}

// Exchanges columns i < j, both updated by the `done` pivots before.
template <class T>
void exchange(const Front<T>& f, int64_t done, int64_t i, int64_t j, T* product, int64_t ld) {
  if (i == j) return;
  for (int64_t c = 0; c < i; ++c) std::swap(*f.at(i, c), *f.at(j, c));
  for (int64_t c = 0; c < done; ++c) std::swap(product[i + c * ld], product[j + c * ld]);
  std::swap(*f.at(i, i), *f.at(j, j));
  for (int64_t t = i + 1; t < j; ++t) std::swap(*f.at(t, i), *f.at(j, t));
  std::swap_ranges(f.at(j + 1, i), f.at(f.height(), i), f.at(j + 1, j));
  std::swap(f.state.name[i], f.state.name[j]);
}

// C -= L (L D)^T for columns [first, last) of the panel and `count` pivots from k on; in tiles if that is much work.
template <class T>
void update_columns(const Front<T>& f, int64_t first, int64_t last, int64_t k, int64_t count, const T* product, int64_t ld) {
  if (first >= last || count == 0) return;
  const int64_t m = f.height();
  const bool large = fronts::is_large(f.columns(), m);
  const int64_t tile = large ? tile_columns : last - first;
  for_range(large ? f.threads : 1, last - first, tile, [&](int64_t b, int64_t e, int) {
    for (int64_t c = first + b; c < first + e; c += tile)
      dense<T>().gemm_lower(m - c, std::min(tile, last - c), count, f.at(c, k), f.state.ld, product + c + k * ld, ld, f.at(c, c), f.state.ld);
  });
}

// The update matrix := -L (L D)^T of the pivots.
template <class T>
void write_update(const Front<T>& f, const T* product, int64_t ld) {
  const fronts::PackedLower u = f.updates();
  const int64_t p = f.columns();
  if (f.state.pivots == 0) return fronts::clear_update(f.update, u, f.threads);
  u.each_tile(fronts::is_large(p, f.height()) ? f.threads : 1, [&](int64_t c) {
    dense<T>().gemm_lower_overwrite(u.ld(c), u.width(c), f.state.pivots, f.at(p + c, 0), f.state.ld, product + p + c, ld,
                               f.update + u.begin(c), u.ld(c));
  });
}

// Returns -1, or the new number of a column that is not finite.
template <class T, class Worker>
int32_t eliminate(const Front<T>& f, bool root, const LdlRule& rule, Worker& worker) {
  const int64_t p = f.columns(), m = f.height(), ld = fronts::leading_dimension(m);
  if (worker.product.size() < ld * p) worker.product = Buffer<T>(ld * p);
  T* const product = worker.product.data();
  worker.order.resize(p);
  Search<int64_t> next{.end = p};
  for (bool more = p > 0; more;) {
    if (m > short_front) interrupt::poll();    // a dense matrix is a single front
    const int64_t k = next.k, w = next.width();
    const int64_t found = dense_ldl<T>().eliminate(m - k, w, f.at(k, k), f.state.ld, product + k + k * ld, ld, worker.order.data(),
                                                   f.state.d + k, f.state.e + k, rule);
    if (found < 0) return f.state.name[k + worker.order[~found]];
    permute_rows(f, k, w, product, ld, worker);
    update_columns(f, k + w, p, k, found, product, ld);
    for (int64_t c = k + w, last = next.end; c-- > k + found;) exchange(f, k + found, c, --last, product, ld);
    more = next.advance(found, p, root);
  }
  f.state.pivots = next.k;
  write_update(f, product, ld);
  return root && next.k < p ? f.state.name[next.k] : -1;
}

}  // namespace

Pivots& Pivots::operator+=(const Pivots& other) {
  inertia.positive += other.inertia.positive;
  inertia.negative += other.inertia.negative;
  inertia.zero += other.inertia.zero;
  pairs += other.pairs;
  delayed += other.delayed;
  undecided += other.undecided;
  any_small = any_small || other.any_small;
  any_doubtful = any_doubtful || other.any_doubtful;
  return *this;
}

// Columns delayed by children make a front larger than planned, so its memory is allocated when its size is known.
template <class T>
void Complete<T>::open(int32_t s, int worker, int threads) {
  const AssemblyTree& tree = *tree_;
  FrontState<T>& f = state_[s];
  int64_t delayed = 0;
  for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) delayed += state_[tree.child[q]].delayed();
  f.columns = tree.pivots(s) + delayed;
  f.height = tree.height(s) + delayed;
  f.pivots = 0;
  f.ld = fronts::leading_dimension(f.height);
  f.panel = static_cast<T*>(memory_.take((f.ld + 2) * f.columns * sizeof(T) + f.columns * sizeof(int32_t), worker, threads));
  f.d = f.panel + f.ld * f.columns;
  f.e = f.d + f.columns;
  f.name = reinterpret_cast<int32_t*>(f.e + f.columns);
  for (int64_t j = 0; j < tree.pivots(s); ++j) f.name[j] = tree.first(s) + static_cast<int32_t>(j);
}

template <class T>
int32_t Complete<T>::run(const T* values, double tiny, int threads) {
  const AssemblyTree& tree = *tree_;
  const auto kept = fronts::plan_of(tree, threads, fronts::Use::factor);
  const fronts::Schedule& plan = *kept;
  UpdateBlocks<T> blocks(tree, plan, threads, fronts::packed_lower, blocks_);
  workers_.resize(threads);
  for (Worker& worker : workers_) worker.pivots = {};
  const LdlRule rule{is_strict_ ? strict_threshold_ : rule_.threshold, tiny};
  memory_.reset(threads, std::clamp<size_t>(panel_scalars() * sizeof(T) / threads, least_chunk, largest_chunk));
  interrupt::begin(tree.count());
  const int32_t column = fronts::bottom_up(tree, plan, threads, blocks, [&](int32_t s, T* update, int id, int inside) {
    values_.written();
    open(s, id, inside);
    const Front<T> f{state_[s], update, inside};
    std::memset(f.state.panel, 0, sizeof(T) * f.state.ld * f.columns());
    const int64_t own = tree.pivots(s), shift = f.columns() - own;
    for (int64_t j = 0; j < own; ++j) {
      const uint32_t* const range = tree.entry_ptr.data() + tree.first(s) + j;
      for (int64_t p = range[0]; p < range[1]; ++p) {
        const int64_t r = tree.entry_row.data()[p];
        *f.at(r < own ? r : r + shift, j) += values[p];
      }
    }
    Worker& worker = workers_[id];
    int64_t base = own;
    for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
      const int32_t c = tree.child[q];
      const int32_t* const to = rows_of_child(tree, c, shift, worker.to);
      fronts::add_to_panel(blocks.of(c), tree.updates(c), to, f.columns(), f.state.panel, f.state.ld, inside);
      if (state_[c].delayed()) add_delayed(state_[c], base, to, f);
      base += state_[c].delayed();
    }
    const int32_t failed = eliminate(f, tree.parent(s) < 0, rule, worker);
    if (failed < 0) count_pivots(f.state, worker.pivots);
    for (int32_t q = tree.child_ptr[s]; failed < 0 && q < tree.child_ptr[s + 1]; ++q) {
      const int32_t c = tree.child[q];
      const int32_t* const to = rows_of_child(tree, c, shift, worker.to);
      fronts::add_to_update(blocks.of(c), tree.updates(c), to, 0, tree.updates(c), f.columns(), f.update, f.updates(), inside);
    }
    return failed;
  });
  pivots_ = {};
  for (Worker& worker : workers_) {
    pivots_ += worker.pivots;
    if (worker.product.size() > largest_kept) worker.product = Buffer<T>();
  }
  return column;
}

// Factors once more if pivots were used that are zero in rounding, since errors may have grown from one to the next. The second
// run takes a size of zero between these pivots and the others.
template <class T>
int32_t Complete<T>::run_and_settle(const T* values, bool is_strict, int threads) {
  is_strict_ = is_strict;
  int32_t failed = run(values, rule_.tiny, threads);
  if (failed >= 0 || !pivots_.any_small || (!is_strict && pivots_.any_doubtful)) return failed;
  if (const double tiny = settle_small_pivots(threads).size_of_zero(); tiny > rule_.tiny) {
    failed = run(values, tiny, threads);
    if (failed < 0 && pivots_.any_small) settle_small_pivots(threads);
  }
  return failed;
}

template <class T>
int32_t Complete<T>::factor(const double* Ax, int threads) {
  if (state_.empty()) {
    return_free_memory(panel_scalars() * sizeof(T));
    state_.resize(tree_->count());
  }
  return values_.factor(*tree_, Ax, threads, [&](const T* values) {
    const bool before = is_strict_;
    const int32_t failed = run_and_settle(values, before, threads);
    if (before || failed >= 0 || !pivots_.any_doubtful) return failed;
    try {
      if (run_and_settle(values, true, threads) < 0) return -1;
      is_strict_ = false;      // a factor with delayed columns may overflow although one without does not
      const int32_t again = run(values, rule_.tiny, threads);
      if (again < 0 && pivots_.any_small) settle_small_pivots(threads);
      return again;
    } catch (...) {
      is_strict_ = false;
      throw;
    }
  });
}

template int32_t Complete<double>::factor(const double*, int);
template int32_t Complete<float>::factor(const double*, int);

}  // namespace ms::ldlt
