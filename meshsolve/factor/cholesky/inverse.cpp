// Selected entries of A^-1 from L, front after front from the roots down. With the pivots J of a front, its rows R below the
// pivots, and Z = A^-1,
//   W = L_RJ L_JJ^-1,   Z_RJ = -Z_RR W,   Z_JJ = L_JJ^-T L_JJ^-1 - Z_JR W,
// where Z_RR is a submatrix of the parent's Z: the multifrontal method in reverse. A parent copies to each child the entries that
// it needs, and frees the rest. Sources: Takahashi, Fagan and Chin 1973; Erisman and Tinney 1975; Campbell and Davis 1995
// (multifrontal). Cost: about three times the operations of the factorization. Memory: its update matrices and the current front
// as full squares.
#include <algorithm>

#include "cholesky.hpp"
#include "native/dense/lu.hpp"

namespace ms::cholesky {
namespace {

using fronts::AssemblyTree;

constexpr int64_t tile = 128;                  // columns; fixed, so that results do not depend on the number of threads

template <class T>
struct Square {                                // the rows of a front in Z, both triangles
  int64_t rows, ld;
  T* data;
  T* at(int64_t i, int64_t j) const { return data + i + j * ld; }
};

template <class T>
void clear(int64_t rows, int64_t columns, T* A, int64_t lda) {
  for (int64_t j = 0; j < columns; ++j) std::fill_n(A + j * lda, rows, T(0));
}

// Calls f(first, width) for tiles of [0, columns).
template <class F>
void each_tile(int threads, int64_t columns, F&& f) {
  for_range(threads, columns, threads > 1 ? tile : columns, [&](int64_t b, int64_t e, int) {
    for (int64_t j = b; j < e; j += tile) {
      interrupt::poll();
      f(j, std::min(tile, e - j));
    }
  });
}

template <class T>
T* at_least(Buffer<T>& space, int64_t size) {
  if (space.size() < size) space = Buffer<T>(size);
  return space.data();
}

// Z in the rows and columns of the pivots `L` of a front, from Z of the rows below, which is known.
template <class T>
void invert_step(const Step<const T>& L, const Square<T>& Z, Buffer<T>& space, int threads) {
  const int64_t w = L.width, u = L.height - w, c = L.column, below = c + w;
  T* const root = at_least(space, w * (2 * w + u));                  // L_JJ^-T
  T* const minus = root + w * w;                                     // -L_JJ^-T
  T* const W = minus + w * w;                                        // W^T
  clear(w, w, root, w);
  for (int64_t j = 0; j < w; ++j) root[j + j * w] = T(1);
  dense<T>().trsm_rlt(w, w, L.data, L.ld, root, w);
  std::transform(root, root + w * w, minus, [](T x) { return -x; });
  each_tile(threads, u, [&](int64_t r, int64_t width) {
    clear(w, width, W + r * w, w);
    dense_lu<T>().gemm(w, width, w, minus, w, L.data + w + r, L.ld, W + r * w, w);
  });
  each_tile(threads, u, [&](int64_t r, int64_t width) {
    T* const target = Z.at(c, below + r);
    clear(w, width, target, Z.ld);
    dense_lu<T>().gemm(w, width, u, W, w, Z.at(below + r, below), Z.ld, target, Z.ld);
    for (int64_t j = 0; j < w; ++j)
      for (int64_t i = 0; i < width; ++i) *Z.at(below + r + i, c + j) = target[j + i * Z.ld];
  });
  each_tile(threads, w, [&](int64_t r, int64_t width) {
    clear(w, width, Z.at(c, c + r), Z.ld);
    dense_lu<T>().gemm(w, width, w, minus, w, root + r, w, Z.at(c, c + r), Z.ld);
    dense_lu<T>().gemm(w, width, u, Z.at(c, below), Z.ld, W + r, w, Z.at(c, c + r), Z.ld);
  });
  for (int64_t j = 0; j < w; ++j)                                    // rounding differs above the diagonal
    for (int64_t i = j + 1; i < w; ++i) *Z.at(c + j, c + i) = *Z.at(c + i, c + j);
}

// Workspace of a worker for a front of w pivots and u further rows: the square, and the workspace of invert_step().
struct FrontSpace {
  int64_t square = 0, space = 0;
  int64_t scalars() const { return square + space; }
  void hold(const PanelShape& shape) {
    const int64_t w = std::min(shape.width(), shape.pivots);
    square = std::max(square, fronts::leading_dimension(shape.height) * shape.height);
    space = std::max(space, w * (w + shape.height));
  }
};

// A stack of squares that fronts have copied for their children. In a subtree it needs less memory than the stack of update
// matrices of the factorization, whose size is in the schedule.
template <class T>
class Stack {
 public:
  T* push(int64_t size, const fronts::Schedule& plan) {
    const auto& stacks = plan.stacks;
    if (!space_.data()) space_ = Buffer<T>::without_pages(stacks.scalars(fronts::full, 0) + stacks.scalars(fronts::full, 1));
    return space_.data() + std::exchange(used_, used_ + size);
  }
  const T* pop(int64_t size) { return space_.data() + (used_ -= size); }

 private:
  Buffer<T> space_;
  int64_t used_ = 0;
};

template <class T>
class Inverse {
 public:
  Inverse(const AssemblyTree& tree, const fronts::Schedule& plan, const T* panels, const int64_t* panel_ptr, int threads)
      : tree_(tree), plan_(plan), panels_(panels), panel_ptr_(panel_ptr), threads_(threads), workers_(threads), above_(tree.count()),
        from_parent_(plan.top.empty() ? 0 : tree.count()) {
    for (const int32_t s : plan.top) above_[s] = 1;
  }

  // Calls visit(front, Z) when the columns of its pivots are complete.
  template <class Visit>
  void run(Visit visit) {
    interrupt::begin(tree_.count());
    fronts::top_down_together(plan_, threads_, [&](int32_t s, int worker) {
      const PanelShape shape = panel_shape(tree_, s);
      if (s % 32 == 0 || shape.height > 64) interrupt::poll();
      Worker& mine = workers_[worker];
      const int64_t ld = fronts::leading_dimension(shape.height);
      const Square<T> Z{shape.height, ld, at_least(mine.square, ld * shape.height)};
      take(s, Z, mine);
      for (int64_t k = shape.steps(); k-- > 0;)
        invert_step(shape.step(panels_ + panel_ptr_[s], k), Z, mine.space, above_[s] ? threads_ : 1);
      visit(s, Z);
      for (int32_t q = tree_.child_ptr[s]; q < tree_.child_ptr[s + 1]; ++q) hand(tree_.child[q], Z, mine, above_[s]);
      interrupt::advance(1);
    });
  }

 private:
  struct alignas(cache_line) Worker {
    Buffer<T> square, space;
    Stack<T> stack;
  };

  bool comes_from_above(int32_t s) const { return tree_.parent(s) >= 0 && above_[tree_.parent(s)]; }

  void take(int32_t s, const Square<T>& Z, Worker& mine) {
    const int64_t w = tree_.pivots(s), u = tree_.updates(s);
    const bool has_parent_square = comes_from_above(s);
    const T* const given = has_parent_square ? from_parent_[s].data() : mine.stack.pop(u * u);
    for (int64_t j = 0; j < u; ++j) std::copy_n(given + j * u, u, Z.at(w, w + j));
    if (has_parent_square) from_parent_[s] = Buffer<T>();
  }

  void hand(int32_t child, const Square<T>& Z, Worker& mine, bool above) {
    const int64_t u = tree_.updates(child);
    if (above) from_parent_[child] = Buffer<T>(u * u);
    T* to = above ? from_parent_[child].data() : mine.stack.push(u * u, plan_);
    const int32_t* const rows = tree_.relative_rows(child);
    for (int64_t j = 0; j < u; ++j, to += u) {
      const T* const column = Z.at(0, rows[j]);
      for (int64_t i = 0; i < u; ++i) to[i] = column[rows[i]];
    }
  }

  const AssemblyTree& tree_;
  const fronts::Schedule& plan_;
  const T* const panels_;
  const int64_t* const panel_ptr_;
  const int threads_;
  std::vector<Worker> workers_;
  std::vector<uint8_t> above_;                 // (fronts): processed by all threads together
  std::vector<Buffer<T>> from_parent_;              // (fronts): square from the parent, for fronts below one that all threads process
};

}  // namespace

template <class T>
int64_t Factor<T>::inverse_scalars(int threads) const {
  const auto plan = fronts::plan_of(*tree_, threads, fronts::Use::factor);
  FrontSpace any, in_tasks;                          // worker 0, which also does the fronts above the subtrees; the other workers
  for (int32_t s = 0; s < tree_->count(); ++s) {
    const PanelShape shape = panel_shape(*tree_, s);
    any.hold(shape);
    if (!std::binary_search(plan->top.begin(), plan->top.end(), s)) in_tasks.hold(shape);
  }
  return fronts::work_scalars(*tree_, threads, fronts::full) + any.scalars() + (threads - 1) * in_tasks.scalars();
}

template <class T>
std::vector<double> Factor<T>::inverse_diagonal(int threads) const {
  values_.require_factor();
  const auto plan = fronts::plan_of(*tree_, threads, fronts::Use::factor);
  std::vector<double> d(tree_->n());
  Inverse<T>(*tree_, *plan, panels_.data(), panel_ptr_.data(), threads).run([&](int32_t s, const Square<T>& Z) {
    const int32_t* const perm = tree_->symbolic->analysis.perm.data() + tree_->first(s);
    for (int64_t j = 0; j < tree_->pivots(s); ++j) d[perm[j]] = static_cast<double>(*Z.at(j, j));
  });
  return d;
}

template <class T>
std::vector<double> Factor<T>::inverse_on_matrix(int64_t nnz, int threads) const {
  values_.require_factor();
  const auto plan = fronts::plan_of(*tree_, threads, fronts::Use::factor);
  std::vector<double> x(nnz);
  Inverse<T>(*tree_, *plan, panels_.data(), panel_ptr_.data(), threads).run([&](int32_t s, const Square<T>& Z) {
    const uint32_t* const begin = tree_->entry_ptr.data() + tree_->first(s);
    for (int64_t j = 0; j < tree_->pivots(s); ++j)
      for (int64_t p = begin[j]; p < begin[j + 1]; ++p)
        x[tree_->entry_source.data()[p]] = static_cast<double>(*Z.at(tree_->entry_row.data()[p], j));
  });
  return x;
}

template int64_t Factor<double>::inverse_scalars(int) const;
template int64_t Factor<float>::inverse_scalars(int) const;
template std::vector<double> Factor<double>::inverse_diagonal(int) const;
template std::vector<double> Factor<float>::inverse_diagonal(int) const;
template std::vector<double> Factor<double>::inverse_on_matrix(int64_t, int) const;
template std::vector<double> Factor<float>::inverse_on_matrix(int64_t, int) const;

}  // namespace ms::cholesky
