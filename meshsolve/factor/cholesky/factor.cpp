// Numeric factorization. Each front assembles its entries of A and the pivot columns of its children's update matrices, and
// eliminates its pivots. Then it writes its own update matrix and adds the rest of its children's to it. Small fronts run on one
// thread. A large front is split into tiles that do not depend on the number of threads, so the bits do not either. The Schur
// interface is assembled only: its panel is the Schur complement of all pivots.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "batch.hpp"
#include "factor/fronts/traverse.hpp"
#include "native/dense/lu.hpp"
#include "native/threads/parallel.hpp"
#include "native/threads/systems.hpp"
#include "sparse/check.hpp"

namespace ms::cholesky {
namespace {

using fronts::AssemblyTree;
using fronts::UpdateBlocks;
using fronts::PackedLower;

constexpr int64_t tile_rows = 256;

template <class T>
struct Front {
  PanelShape shape;
  T* panel;
  T* update;                                   // update matrix
  PackedLower updates() const { return {shape.height - shape.pivots}; }
  Step<T> step(int64_t k) const { return shape.step(panel, k); }
  T* diagonal(int64_t row) const { return step(row / shape.width()).diagonal(row); }
};

template <class T>
void add_entries(const AssemblyTree& tree, int32_t s, const T* values, const Step<T>& step) {
  const uint32_t* const begin = tree.entry_ptr.data() + tree.first(s) + step.column;
  for (int64_t j = 0; j < step.width; ++j) {
    T* const column = step.column_at(j);
    for (int64_t p = begin[j]; p < begin[j + 1]; ++p) column[tree.entry_row.data()[p]] += values[p];
  }
}

template <class T>
void add_entries(const AssemblyTree& tree, int32_t s, const T* values, const Front<T>& f) {
  for (int64_t k = 0; k < f.shape.steps(); ++k) add_entries(tree, s, values, f.step(k));
}

template <class T>
struct Child {                                 // the columns [begin, end) of the update matrix X of a child; row i is row to[i] of the front
  const T* X;
  int64_t count;
  const int32_t* to;
  int64_t begin, end;
};

// Adds a child to the columns of the front. A dense row has thousands of children with one row, which is a pivot of their parent.
template <class T>
void add_child(const Child<T>& c, const Front<T>& f, int threads) {
  if (c.count == 1) {
    *f.diagonal(c.to[0]) += c.X[0];
    return;
  }
  const int32_t* from = c.to + c.begin;
  for (int64_t k = 0; k < f.shape.steps(); ++k) {
    const Step<T> step = f.step(k);
    const int32_t* const end = std::lower_bound(from, c.to + c.end, step.column + step.width);
    fronts::add_columns(c.X, c.count, c.to, from - c.to, end - c.to, step.column, step.data, step.ld, threads);
    from = end;
  }
}

// Assembles a front that is not eliminated, with the children of each_child(add); threads share its steps.
template <class T, class EachChild>
void assemble_boundary(const AssemblyTree& tree, int32_t s, const T* values, const Front<T>& f, int threads,
                       const EachChild& each_child) {
  for_range(threads, f.shape.steps(), 1, [&](int64_t b, int64_t stop, int) {
    for (int64_t k = b; k < stop; ++k) {
      interrupt::poll();                       // for_range does not poll on one thread
      const Step<T> step = f.step(k);
      std::memset(step.data, 0, sizeof(T) * step.width * step.ld);
      add_entries(tree, s, values, step);
      each_child([&](const Child<T>& c, int) {
        const int64_t from = std::lower_bound(c.to, c.to + c.count, step.column) - c.to;
        const int64_t end = std::lower_bound(c.to + from, c.to + c.count, step.column + step.width) - c.to;
        fronts::add_columns(c.X, c.count, c.to, from, end, step.column, step.data, step.ld, 1);
      });
    }
  });
}

// Rows [begin, end) of the `block`-th group of columns of a lower trapezoid, counted from its diagonal.
struct Piece { int64_t block, begin, end; };

// Cuts the blocks into pieces for threads. The first piece of a block has its triangle. How they are cut changes no bits: the kernels
// subtract the products of an entry in the order of the columns.
template <class Height, class Width>
std::vector<Piece> cut(int64_t count, int threads, Height&& height, Width&& width) {
  int64_t rows = 0;
  for (int64_t q = 0; q < count; ++q) rows += height(q);
  const int64_t most = threads > 1 ? std::max(tile_rows, rows / (4 * threads)) : rows;
  std::vector<Piece> pieces;
  for (int64_t q = 0; q < count; ++q)
    for (int64_t begin = 0, end; begin < height(q); begin = end) {
      end = std::min(height(q), std::max(begin + most, width(q)));
      if (height(q) - end < most / 2) end = height(q);
      pieces.push_back({q, begin, end});
    }
  return pieces;
}

// C -= A B^T, or with `overwrites` C = -A B^T, in the rows of a piece of `columns` columns. A and B are the rows of `step` that belong
// to the first row of the block.
template <class T>
void multiply(const Piece& piece, int64_t columns, const Step<T>& step, const T* rows, T* C, int64_t ld, bool overwrites) {
  if (piece.begin == 0) {
    const auto product = overwrites ? dense<T>().gemm_lower_overwrite : dense<T>().gemm_lower;
    return product(piece.end, columns, step.width, rows, step.ld, rows, step.ld, C, ld);
  }
  const int64_t count = piece.end - piece.begin;
  if (overwrites)
    for (int64_t j = 0; j < columns; ++j) std::memset(C + piece.begin + j * ld, 0, sizeof(T) * count);
  dense_lu<T>().gemm(count, columns, step.width, rows + piece.begin, step.ld, rows, step.ld, C + piece.begin, ld);
}

// The update matrix: the product of the first step writes it, the products of the other steps are subtracted.
template <class T>
void write_update(const Front<T>& f, int threads) {
  const PackedLower u = f.updates();
  const auto begin = [](int64_t q) { return q * PackedLower::tile; };
  const auto write = [&](const Piece& piece) {
    const int64_t c = begin(piece.block);
    for (int64_t k = 0; k < f.shape.steps(); ++k) {
      const Step<T> step = f.step(k);
      multiply(piece, u.width(c), step, step.from(f.shape.pivots) + c, f.update + u.begin(c), u.ld(c), k == 0);
    }
  };
  if (threads == 1) {                          // most fronts are small, and a list of pieces takes longer than their products
    for (int64_t q = 0; begin(q) < u.rows; ++q) write({q, 0, u.ld(begin(q))});
    return;
  }
  const std::vector<Piece> pieces = cut((u.rows + PackedLower::tile - 1) / PackedLower::tile, threads,
                                        [&](int64_t q) { return u.ld(begin(q)); }, [&](int64_t q) { return u.width(begin(q)); });
  for_range(threads, static_cast<int64_t>(pieces.size()), 1, [&](int64_t b, int64_t stop, int) {
    for (int64_t p = b; p < stop; ++p) write(pieces[p]);
  });
}

// A front of one pivot without rows below, such as an identity row: a shortcut.
template <class T>
bool factor_number(T* number) {
  const bool fits = *number > 0 && *number - *number == 0;
  if (fits) *number = std::sqrt(*number);
  return fits;
}

// Right-looking over steps of pivots: rows below the diagonal block by tiles, then later steps. The task that updates the next
// diagonal block also factors it while others update the rest. 0, or 1 + the failing pivot.
template <class T>
int64_t factor_large(const Front<T>& f, int threads) {
  const Dense<T>& d = dense<T>();
  const auto diagonal = [&](int64_t k) {
    const Step<T> step = f.step(k);
    return d.panel(step.width, step.width, step.data, step.ld);
  };
  Int bad = diagonal(0);
  for (int64_t k = 0; k < f.shape.steps(); ++k) {
    interrupt::poll();                         // for_range does not poll on one thread
    const Step<T> step = f.step(k);
    if (bad) return step.column + bad;
    for_range(threads, step.height - step.width, tile_rows, [&](int64_t b, int64_t stop, int) {
      for (int64_t r = b; r < stop; r += tile_rows)
        d.trsm_rlt(std::min(tile_rows, stop - r), step.width, step.data, step.ld, step.data + step.width + r, step.ld);
    });
    const std::vector<Piece> pieces = cut(f.shape.steps() - k - 1, threads, [&](int64_t q) { return f.step(k + 1 + q).height; },
                                          [&](int64_t q) { return f.step(k + 1 + q).width; });
    for_range(threads, static_cast<int64_t>(pieces.size()), 1, [&](int64_t b, int64_t stop, int) {
      for (int64_t p = b; p < stop; ++p) {
        const Step<T> later = f.step(k + 1 + pieces[p].block);
        multiply(pieces[p], later.width, step, step.from(later.column), later.data, later.ld, false);
        if (p == 0) bad = diagonal(k + 1);
      }
    });
  }
  write_update(f, threads);
  return 0;
}

template <class T>
int64_t factor_front(const Front<T>& f, int threads) {
  if (f.shape.is_large()) return factor_large(f, threads);
  if (f.shape.height == 1) return factor_number(f.panel) ? 0 : 1;
  const Step<T> all = f.step(0);
  if (const Int bad = dense<T>().panel(all.height, all.width, all.data, all.ld)) return bad;
  write_update(f, 1);
  return 0;
}

// Calls f(j, entry) for the diagonal entries of the front's pivots.
template <class T, class F>
void each_pivot(const Front<T>& f, F&& visit) {
  for (int64_t k = 0; k < f.shape.steps(); ++k) {
    const Step<T> step = f.step(k);
    for (int64_t j = 0; j < step.width; ++j) visit(step.column + j, step.data[j + j * step.ld]);
  }
}

// Stores the diagonal of A before the elimination; hold_pivots() compares the pivots with it.
template <class T>
void keep_diagonal(const Front<T>& f, LeastPivot<T>& least) {
  if (static_cast<int64_t>(least.diagonal.size()) < f.shape.pivots) least.diagonal.resize(2 * f.shape.pivots);
  each_pivot(f, [&](int64_t j, T own) { least.diagonal[j] = own; });
}

template <class T>
void hold_pivots(const Front<T>& f, LeastPivot<T>& least) {
  each_pivot(f, [&](int64_t j, T root) { least.ratio = std::min(least.ratio, root / least.diagonal[j] * root); });
}

// The numeric phase of one matrix, front by front.
template <class T>
struct Numeric {
  const AssemblyTree& tree;
  const std::vector<int64_t>& panel_ptr;
  const UpdateBlocks<T>& blocks;
  const T* values;                             // of A, in the order of the tree

  // -1, or the column (new numbering) whose pivot is not positive.
  int32_t operator()(int32_t s, T* panel, T* update, LeastPivot<T>& least, int threads) const {
    const Front<T> f{panel_shape(tree, s), panel, update};
    if (s == tree.boundary()) {
      assemble_boundary(tree, s, values, f, threads, [&](const auto& add) { each_child(s, true, threads, add); });
      return -1;
    }
    std::memset(f.panel, 0, sizeof(T) * (panel_ptr[s + 1] - panel_ptr[s]));
    add_entries(tree, s, values, f);
    keep_diagonal(f, least);
    each_child(s, true, threads, [&](const Child<T>& c, int inside) { add_child(c, f, inside); });
    if (const int64_t bad = factor_front(f, threads)) return tree.first(s) + static_cast<int32_t>(bad) - 1;
    hold_pivots(f, least);
    each_child(s, false, threads, [&](const Child<T>& c, int inside) {
      fronts::add_to_update(c.X, c.count, c.to, c.begin, c.end, f.shape.pivots, f.update, f.updates(), inside);
    });
    return -1;
  }

 private:
  // Calls add(child, threads) for the update matrices of the children. Of matrices in a file only the columns of pivots of s are
  // read, or only the others.
  template <class Add>
  void each_child(int32_t s, bool pivots, int threads, const Add& add) const {
    for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
      const int32_t c = tree.child[q];
      const int64_t count = tree.updates(c);
      const int32_t* const to = tree.relative_rows(c);
      if (!blocks.is_in_file(c)) {
        add(Child<T>{blocks.of(c), count, to, 0, count}, threads);
        continue;
      }
      const int64_t split = std::lower_bound(to, to + count, tree.pivots(s)) - to;
      blocks.read(c, pivots ? 0 : split, pivots ? split : count, threads, [&](const T* X, int64_t begin, int64_t end) {
        add(Child<T>{X, count, to, begin, end}, 1);
      });
    }
  }
};

}  // namespace

template <class T>
int32_t Factor<T>::run(const T* values, int threads) {
  const AssemblyTree& tree = *tree_;
  const auto plan = fronts::plan_of(tree, threads, file_ ? fronts::Use::factor_in_file : fronts::Use::factor);
  std::optional<fronts::Spill> spill;
  if (file_) spill.emplace(*file_, file_bytes());
  UpdateBlocks<T> blocks(tree, *plan, threads, fronts::packed_lower, blocks_, spill ? &*spill : nullptr);
  std::vector<PanelWriter<T>> writers;
  for (int t = 0; file_ && t < threads; ++t) writers.emplace_back(*file_, panel_ptr_);
  std::vector<LeastPivot<T>> least(threads);
  const Numeric<T> front{tree, panel_ptr_, blocks, values};
  interrupt::begin(tree.count());
  const int32_t failed = fronts::bottom_up(tree, *plan, threads, blocks, [&](int32_t s, T* update, int worker, int inside) {
    values_.written();
    if (!file_) return front(s, panels_.data() + panel_ptr_[s], update, least[worker], inside);
    const int32_t bad = front(s, writers[worker].open(s, inside), update, least[worker], inside);
    writers[worker].close(s);
    return bad;
  });
  for (PanelWriter<T>& writer : writers) writer.flush();
  if (file_) file_->cut(file_bytes());
  may_be_singular_ = std::any_of(least.begin(), least.end(), [](const LeastPivot<T>& of) { return of.may_be_singular(); });
  return failed;
}

template <class T>
int32_t Factor<T>::factor(const double* Ax, int threads) {
  if (!file_ && !panels_.data()) panels_ = fronts::panels<T>(panel_ptr_.back(), threads);
  bool is_new = true;                          // false while the earlier factor is restored
  return values_.factor(*tree_, Ax, threads, [&](const T* values) {
    const int32_t failed = run(values, threads);
    if (file_) blocks_.clear();
    const bool is_doubtful = std::exchange(is_new, false) && failed < 0 && may_be_singular_;
    return is_doubtful ? constant_component(*tree_, Ax) : failed;
  });
}

template <class T>
std::vector<double> Factor<T>::matrix(int64_t nnz) const {
  values_.require_factor();
  std::vector<double> Ax(nnz, 0.0);
  const int64_t count = values_.data() ? tree_->entries() : 0;
  for (int64_t p = 0; p < count; ++p) Ax[tree_->entry_source.data()[p]] = values_.data()[p];
  return Ax;
}

template <class T>
int64_t Factor<T>::nbytes() const {
  const int64_t scalars = panels_.size() + values_.scalars() + blocks_.scalars();
  return scalars * static_cast<int64_t>(sizeof(T));
}

// ---- many matrices ------------------------------------------------------------------------------------------------------

namespace {

std::optional<Group> group_of(const std::shared_ptr<const AssemblyTree>& tree, double) {
  return Group::is_worthwhile(*tree) ? std::optional<Group>(tree) : std::nullopt;
}
std::optional<Group> group_of(const std::shared_ptr<const AssemblyTree>&, float) { return std::nullopt; }

}  // namespace

template <class T>
Batch<T>::Batch(std::shared_ptr<const AssemblyTree> tree, int64_t count)
    : tree_(std::move(tree)), panel_ptr_(fronts::positions(*tree_, [&](int32_t s) { return panel_shape(*tree_, s).scalars(); })),
      group_(group_of(tree_, T())), state_(count, unknown), may_be_singular_(count) {}

// What a thread needs for the systems that it factors.
template <class T>
struct Batch<T>::Worker {
  const std::shared_ptr<const fronts::Schedule> plan;
  fronts::BlockMemory<T> memory;
  UpdateBlocks<T> blocks;
  Buffer<T> values;
  LeastPivot<T> least;
  Group::Space group;
  Buffer<T> single;                            // panels of a system of a group that is factored alone
  Buffer<T> panels;                            // of an item whose factors are not kept
  fronts::SolveSpace<T> space;

  explicit Worker(const AssemblyTree& tree)
      : plan(fronts::plan_of(tree, 1, fronts::Use::factor)), blocks(tree, *plan, 1, fronts::packed_lower, memory), values(tree.entries()) {}
};

// Returns the state of the system.
template <class T>
int32_t Batch<T>::factor_one(const double* Ax, T* panels, Worker& w, uint8_t& may_be_singular) const {
  const AssemblyTree& tree = *tree_;
  for (int64_t p = 0; p < w.values.size(); ++p) w.values.data()[p] = static_cast<T>(Ax[tree.entry_source.data()[p]]);
  w.least.ratio = 1;
  const Numeric<T> front{tree, panel_ptr_, w.blocks, w.values.data()};
  const int32_t failed = fronts::bottom_up(tree, *w.plan, 1, w.blocks, [&](int32_t s, T* update, int, int) {
    return front(s, panels + panel_ptr_[s], update, w.least, 1);
  }, false);
  may_be_singular = failed < 0 && w.least.may_be_singular();
  return may_be_singular ? constant_component(tree, Ax) : failed;
}

// Lanes without a system, or whose matrix is not finite, repeat another one.
template <class T>
void Batch<T>::factor_group(int64_t g, const double* Ax, int64_t nnz, T* panels, bool far, Worker& w) requires std::same_as<T, double> {
  constexpr int size = Group::size;
  const int64_t first = g * size, systems = std::min<int64_t>(size, count() - first);
  const double *values[size] = {}, *some = nullptr;
  for (int64_t l = 0; l < systems; ++l) {
    const double* const x = Ax + (first + l) * nnz;
    if (first_not_finite(x, nnz) >= 0)
      state_[first + l] = not_finite;
    else
      some = values[l] = x;
  }
  if (!some) return;
  unsigned used = 0;
  for (int l = 0; l < size; ++l) {
    if (values[l])
      used |= 1u << l;
    else
      values[l] = some;
  }
  const unsigned alone = group_->factor(values, panels, far, w.group);
  for (int l = 0; l < size; ++l) {
    if (!(used >> l & 1)) continue;
    int32_t& state = state_[first + l];
    uint8_t& may_be_singular = may_be_singular_[first + l];
    if (alone >> l & 1) {
      if (w.single.size() == 0) w.single = Buffer<T>(panel_ptr_.back());
      state = factor_one(values[l], w.single.data(), w, may_be_singular);
      if (state == factored) group_->copy(w.single.data(), l, panels);
    } else {
      w.least.ratio = w.group.ratio[l];
      may_be_singular = w.least.may_be_singular();
      state = may_be_singular ? constant_component(*tree_, values[l]) : factored;
    }
  }
}

template <class T>
void Batch<T>::factor_item(int64_t i, const double* Ax, int64_t nnz, T* panels, bool far, Worker& w) {
  if constexpr (std::same_as<T, double>)
    if (group_) return factor_group(i, Ax, nnz, panels, far, w);
  const double* const x = Ax + i * nnz;
  state_[i] = first_not_finite(x, nnz) >= 0 ? int32_t{not_finite} : factor_one(x, panels, w, may_be_singular_[i]);
}

// Calls f(item, worker) for all items, after what is known of their systems has been forgotten.
template <class T>
template <class F>
void Batch<T>::each_item(int64_t steps, int threads, F f) {
  std::fill(state_.begin(), state_.end(), unknown);
  std::fill(may_be_singular_.begin(), may_be_singular_.end(), uint8_t{0});
  std::vector<std::unique_ptr<Worker>> workers(threads);
  each_system(threads, items(), steps * systems_at_once(), [&](int64_t i, int id) {
    if (!workers[id]) workers[id] = std::make_unique<Worker>(*tree_);
    f(i, *workers[id]);
  });
}

template <class T>
void Batch<T>::factor(const double* Ax, int64_t nnz, int threads) {
  if (!panels_.data()) panels_ = fronts::panels<T>(panel_scalars(), threads);
  const bool far = fronts::leaves_cache<T>(panel_scalars());
  each_item(1, threads, [&](int64_t i, Worker& w) { factor_item(i, Ax, nnz, panels_.data() + i * item_scalars(), far, w); });
}

template <class T>
void Batch<T>::factor_and_solve(const double* Ax, int64_t nnz, const double* B, double* X, int64_t k, int threads) {
  each_item(1 + k, threads, [&](int64_t i, Worker& w) {
    if (w.panels.size() == 0) w.panels = Buffer<T>(item_scalars());
    factor_item(i, Ax, nnz, w.panels.data(), false, w);
    const interrupt::Member uncounted(nullptr);
    if (k > 0) solve_item(i, w.panels.data(), B, X, k, w.space);
  });
}

template int32_t Factor<double>::factor(const double*, int);
template int32_t Factor<float>::factor(const double*, int);
template std::vector<double> Factor<double>::matrix(int64_t) const;
template std::vector<double> Factor<float>::matrix(int64_t) const;
template int64_t Factor<double>::nbytes() const;
template int64_t Factor<float>::nbytes() const;
template class Batch<double>;
template class Batch<float>;

}  // namespace ms::cholesky
