// Numeric factorization: each front gathers its entries of A and what its children's update matrices hold of its pivot columns,
// eliminates its pivots, and leaves its own update matrix, to which the rest of its children's is added. Small fronts run on one
// thread; the algorithm of a large one is cut into tiles that do not depend on the number of threads, so the bits do not either.
#include <algorithm>
#include <cstring>

#include "cholesky.hpp"
#include "factor/fronts/traverse.hpp"
#include "native/parallel.hpp"

namespace ms::cholesky {
namespace {

using fronts::AssemblyTree;
using fronts::UpdateBlocks;

constexpr int64_t large_factor = 1 << 19;      // scalars
constexpr int64_t wide_work = 40'000'000;      // pivots * height^2 from which a front is factored by tiles
constexpr int64_t pivot_block = 128, tile_rows = 256, tile_columns = 128;

template <class T>
struct Front {
  int64_t pivots, height, ld;
  T* panel;
  T* update;                                   // (height - pivots)^2, lower triangle
  int64_t updates() const { return height - pivots; }
};

template <class T>
void add_entries(const AssemblyTree& tree, int32_t s, const T* values, const Front<T>& f) {
  for (int64_t j = 0; j < f.pivots; ++j) {
    T* const column = f.panel + j * f.ld;
    const int64_t* const range = tree.entry_ptr.data() + tree.first(s) + j;
    for (int64_t p = range[0]; p < range[1]; ++p) column[tree.entry_row.data()[p]] += values[p];
  }
}

// Right-looking over blocks of pivots: diagonal block, rows below it by tiles, later columns by tiles.
// 0, or 1 + the failing pivot.
template <class T>
int64_t factor_wide(const Front<T>& f, int threads) {
  const Dense<T>& d = dense<T>();
  for (int64_t j = 0; j < f.pivots; j += pivot_block) {
    const int64_t w = std::min(pivot_block, f.pivots - j), e = j + w;
    T* const diagonal = f.panel + j + j * f.ld;
    T* const below = diagonal + w;
    if (const Int bad = d.panel(w, w, diagonal, f.ld)) return j + bad;
    for_range(threads, f.height - e, tile_rows, [&](int64_t b, int64_t stop, int) {
      for (int64_t r = b; r < stop; r += tile_rows) d.trsm_rlt(std::min(tile_rows, stop - r), w, diagonal, f.ld, below + r, f.ld);
    });
    for_range(threads, f.pivots - e, tile_columns, [&](int64_t b, int64_t stop, int) {
      for (int64_t c = b; c < stop; c += tile_columns)
        d.trapezoid(f.height - e - c, std::min(tile_columns, f.pivots - e - c), w, below + c, f.ld, below + c, f.ld,
                    f.panel + (e + c) + (e + c) * f.ld, f.ld);
    });
  }
  const int64_t u = f.updates();
  const T* const rows = f.panel + f.pivots;
  for_range(threads, u, tile_columns, [&](int64_t b, int64_t stop, int) {
    for (int64_t c = b; c < stop; c += tile_columns)
      d.fresh_trapezoid(u - c, std::min(tile_columns, u - c), f.pivots, rows + c, f.ld, rows + c, f.ld, f.update + c + c * u, u);
  });
  return 0;
}

template <class T>
int64_t factor_front(const Front<T>& f, int threads) {
  if (f.pivots * f.height * f.height >= wide_work) return factor_wide(f, threads);
  if (const Int bad = dense<T>().panel(f.height, f.pivots, f.panel, f.ld)) return bad;
  const int64_t u = f.updates();
  const T* const rows = f.panel + f.pivots;
  if (u) dense<T>().fresh_trapezoid(u, u, f.pivots, rows, f.ld, rows, f.ld, f.update, u);
  return 0;
}

}  // namespace

template <class T>
int32_t Factor<T>::run(const T* values, int threads) {
  const AssemblyTree& tree = *tree_;
  const auto kept = plans_.of(tree, threads);
  const fronts::Schedule& plan = *kept;
  UpdateBlocks<T> blocks(tree, plan, threads, 0, blocks_);
  interrupt::begin(tree.count());
  return fronts::bottom_up(tree, plan, threads, blocks, [&](int32_t s, T* update, int, int inside) {
    const Front<T> f{tree.pivots(s), tree.height(s), tree.leading(s), panels_.data() + tree.panel_ptr[s], update};
    std::memset(f.panel, 0, sizeof(T) * f.ld * f.pivots);
    add_entries(tree, s, values, f);
    const auto each_child = [&](const auto& add) {
      for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
        const int32_t c = tree.child[q];
        add(blocks.of(c), tree.updates(c), tree.relative_rows(c));
      }
    };
    each_child([&](const T* X, int64_t count, const int32_t* to) {
      fronts::add_to_panel(X, count, to, f.pivots, f.panel, f.ld, inside);
    });
    const int64_t bad = factor_front(f, inside);
    if (!bad)
      each_child([&](const T* X, int64_t count, const int32_t* to) {
        fronts::add_to_update(X, count, to, f.pivots, f.update, f.updates(), inside);
      });
    return bad ? tree.first(s) + static_cast<int32_t>(bad) - 1 : -1;
  });
}

template <class T>
int32_t Factor<T>::factor(const double* Ax, int threads) {
  if (!panels_.data()) {
    const int64_t size = tree_->panel_ptr.back();
    if (size > large_factor) return_free_memory();           // what ordering and analysis worked in
    panels_ = Buffer<T>(size, threads);
  }
  return values_.factor(*tree_, Ax, threads, [&](const T* values) { return run(values, threads); });
}

template <class T>
std::vector<double> Factor<T>::matrix(int64_t nnz) const {
  std::vector<double> Ax(nnz, 0.0);
  const int64_t held = values_.data() ? tree_->entries() : 0;
  for (int64_t p = 0; p < held; ++p) Ax[tree_->entry_source.data()[p]] = values_.data()[p];
  return Ax;
}

template <class T>
int64_t Factor<T>::nbytes() const {
  const int64_t scalars = panels_.size() + values_.scalars() + blocks_.scalars();
  return scalars * static_cast<int64_t>(sizeof(T));
}

template int32_t Factor<double>::factor(const double*, int);
template int32_t Factor<float>::factor(const double*, int);
template std::vector<double> Factor<double>::matrix(int64_t) const;
template std::vector<double> Factor<float>::matrix(int64_t) const;
template int64_t Factor<double>::nbytes() const;
template int64_t Factor<float>::nbytes() const;

}  // namespace ms::cholesky
