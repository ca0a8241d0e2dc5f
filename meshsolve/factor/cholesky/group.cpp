// Factorization and solves of a group: those of factor.cpp and solve.cpp, without large fronts.
#include "group.hpp"

#include <algorithm>

#include "factor/fronts/solve.hpp"
#include "native/memory/fetch.hpp"
#include "panel.hpp"

namespace ms::cholesky {
namespace {

using fronts::AssemblyTree;

// Leading dimension of a panel: odd, so that columns do not share cache sets.
int64_t group_ld(const AssemblyTree& tree, int32_t s) { return tree.height(s) | 1; }

// The fronts of a group, for fronts::Forward: one right-hand side of each matrix in the lanes of a row.
struct GroupProblem {
  const AssemblyTree& tree;
  const double* panels;
  const int64_t* panel_ptr;
  fronts::SolveSpace<double>& space;

  const double* panel(int32_t s) const { return panels + panel_ptr[s] * group_size; }
  // Panels of other systems have filled the caches since this group was factored.
  void fetch_panel(int32_t s) const {
    if (s >= 0 && s < tree.count()) fetch_block(panel(s), panels + panel_ptr[s + 1] * group_size);
  }
  double* own(int32_t s, double* Y) const { return Y + int64_t{tree.first(s)} * group_size; }

  template <int64_t S>
  void eliminate(int32_t s, double* Y, double* U, int) const {
    fetch_panel(s + fronts::fronts_ahead);
    group_kernels().forward(tree.height(s), tree.pivots(s), panel(s), group_ld(tree, s), own(s, Y), U, nullptr);
  }
  template <int64_t S>
  void eliminate_at(int32_t s, double* Y, int) const {
    fetch_panel(s + fronts::fronts_ahead);
    group_kernels().forward(tree.height(s), tree.pivots(s), panel(s), group_ld(tree, s), own(s, Y), Y, tree.rows(s));
  }
};

}  // namespace

Group::Group(std::shared_ptr<const AssemblyTree> tree)
    : tree_(std::move(tree)), panel_ptr_(fronts::positions(*tree_, [&](int32_t s) { return tree_->pivots(s) * group_ld(*tree_, s); })) {}

bool Group::is_worthwhile(const AssemblyTree& tree) {
  bool is_any_large = false;
  for (int32_t s = 0; s < tree.count(); ++s) is_any_large = is_any_large || panel_shape(tree, s).is_large();
  return !is_any_large && tree.boundary() < 0;
}

unsigned Group::factor(const double* const (&values)[size], double* panels, Space& space) const {
  const AssemblyTree& tree = *tree_;
  const GroupKernels& kernels = group_kernels();
  const auto plan = fronts::plan_of(tree, 1, fronts::Use::factor);
  fronts::UpdateBlocks<double> blocks(tree, *plan, 1, fronts::full, space.memory, nullptr, size);
  std::fill_n(space.ratio, size, 1.0);
  unsigned bad = 0;
  fronts::bottom_up(tree, *plan, 1, blocks, [&](int32_t s, double* update, int, int) {
    const int64_t pivots = tree.pivots(s), height = tree.height(s), u = height - pivots;
    const int64_t ld = group_ld(tree, s);
    double* const panel = panels + panel_ptr_[s] * size;
    if (static_cast<int64_t>(space.diagonal.size()) < pivots * size) space.diagonal.resize(2 * pivots * size);
    kernels.assemble(pivots, tree.entry_ptr.data() + tree.first(s), tree.entry_source.data(), tree.entry_row.data(), values, panel,
                     ld, space.diagonal.data());
    const auto each_child = [&](auto add) {
      for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
        const int32_t c = tree.child[q];
        const int64_t count = tree.updates(c);
        const int32_t* const to = tree.relative_rows(c);
        add(blocks.of(c), count, to, std::lower_bound(to, to + count, pivots) - to);
      }
    };
    each_child([&](const double* X, int64_t count, const int32_t* to, int64_t split) {
      kernels.extend_add(0, split, count, X, to, panel, ld, 0);
    });
    bad |= kernels.panel(height, pivots, panel, ld, space.diagonal.data(), space.ratio);
    kernels.update(u, pivots, panel + pivots * size, ld, update);
    each_child([&](const double* X, int64_t count, const int32_t* to, int64_t split) {
      kernels.extend_add(split, count, count, X, to, update, u, pivots);
    });
    return -1;
  }, false);
  return bad;
}

void Group::copy(const double* single, int lane, double* panels) const {
  for (int32_t s = 0; s < tree_->count(); ++s) {
    const PanelShape shape = panel_shape(*tree_, s);
    const Step<const double> from = shape.step(single, 0);
    for (int64_t j = 0; j < shape.pivots; ++j)
      for (int64_t i = j; i < shape.height; ++i) panels[(panel_ptr_[s] + i + j * group_ld(*tree_, s)) * size + lane] = from.data[i + j * from.ld];
    single += shape.scalars();
  }
}

void Group::solve(const double* panels, const double* const (&B)[size], double* const (&X)[size], int64_t stride,
                     fronts::SolveSpace<double>& space) const {
  const AssemblyTree& tree = *tree_;
  const int32_t* const perm = tree.symbolic->analysis.perm.data();
  const auto plan = fronts::plan_of(tree, 1, fronts::Use::solve_small_subtrees);
  space.reserve(tree.n(), size, 1, nullptr);
  double* const Y = space.work;
  for (int64_t j = 0; j < tree.n(); ++j)
    for (int l = 0; l < size; ++l) Y[j * size + l] = B[l] ? B[l][perm[j] * stride] : 0.0;
  const GroupProblem p{tree, panels, panel_ptr_.data(), space};
  fronts::UpdateBlocks<double> blocks(tree, *plan, 1, size, space.blocks);
  fronts::Forward<double, size, GroupProblem>{p, Y, &blocks}.run(*plan, 1);
  fronts::top_down(*plan, 1, [&](int32_t s, int) {
    p.fetch_panel(s - fronts::fronts_ahead);
    group_kernels().backward(tree.height(s), tree.pivots(s), p.panel(s), group_ld(tree, s), p.own(s, Y), Y, tree.rows(s));
  });
  for (int l = 0; l < size; ++l)
    for (int64_t j = 0; X[l] && j < tree.n(); ++j) X[l][perm[j] * stride] = Y[j * size + l];
}

}  // namespace ms::cholesky
