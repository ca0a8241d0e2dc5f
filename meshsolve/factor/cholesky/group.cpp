// Factorization and solves of a group: those of factor.cpp and solve.cpp, without large fronts.
#include "group.hpp"

#include <algorithm>

#include "factor/fronts/solve.hpp"
#include "native/memory/fetch.hpp"
#include "native/memory/stream.hpp"
#include "panel.hpp"

namespace ms::cholesky {
namespace {

using fronts::AssemblyTree;

// Numbers of each matrix in a panel: without the part above the diagonal.
int64_t panel_numbers(const AssemblyTree& tree, int32_t s) {
  const int64_t pivots = tree.pivots(s);
  return pivots * tree.height(s) - pivots * (pivots - 1) / 2;
}

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
    group_kernels().forward(tree.height(s), tree.pivots(s), panel(s), own(s, Y), U, nullptr);
  }
  template <int64_t S>
  void eliminate_at(int32_t s, double* Y, int) const {
    fetch_panel(s + fronts::fronts_ahead);
    group_kernels().forward(tree.height(s), tree.pivots(s), panel(s), own(s, Y), Y, tree.rows(s));
  }
};

}  // namespace

Group::Group(std::shared_ptr<const AssemblyTree> tree)
    : tree_(std::move(tree)), panel_ptr_(fronts::positions(*tree_, [&](int32_t s) { return panel_numbers(*tree_, s); })) {}

bool Group::is_worthwhile(const AssemblyTree& tree) {
  bool is_any_large = false;
  for (int32_t s = 0; s < tree.count(); ++s) is_any_large = is_any_large || panel_shape(tree, s).is_large();
  return !is_any_large && tree.boundary() < 0;
}

unsigned Group::factor(const double* const (&values)[size], double* panels, bool far, Space& space) const {
  const AssemblyTree& tree = *tree_;
  const GroupKernels& kernels = group_kernels();
  const auto plan = fronts::plan_of(tree, 1, fronts::Use::factor);
  fronts::UpdateBlocks<double> blocks(tree, *plan, 1, fronts::full, space.memory, nullptr, size);
  std::fill_n(space.ratio, size, 1.0);
  unsigned bad = 0;
  fronts::bottom_up(tree, *plan, 1, blocks, [&](int32_t s, double* update, int, int) {
    const int64_t pivots = tree.pivots(s), height = tree.height(s), u = height - pivots;
    const int64_t numbers = (panel_ptr_[s + 1] - panel_ptr_[s]) * size;
    double* const place = panels + panel_ptr_[s] * size;
    if (far && space.panel.size() < numbers) space.panel = Buffer<double>(2 * numbers);
    double* const panel = far ? space.panel.data() : place;
    if (static_cast<int64_t>(space.diagonal.size()) < pivots * size) space.diagonal.resize(2 * pivots * size);
    kernels.assemble(height, pivots, tree.entry_ptr.data() + tree.first(s), tree.entry_source.data(), tree.entry_row.data(), values,
                     panel, space.diagonal.data());
    const auto each_child = [&](auto add) {
      for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
        const int32_t c = tree.child[q];
        const int64_t count = tree.updates(c);
        const int32_t* const to = tree.relative_rows(c);
        add(blocks.of(c), count, to, std::lower_bound(to, to + count, pivots) - to);
      }
    };
    each_child([&](const double* X, int64_t count, const int32_t* to, int64_t split) {
      kernels.add_to_panel(split, count, X, to, panel, height);
    });
    bad |= kernels.panel(height, pivots, panel, space.diagonal.data(), space.ratio);
    kernels.update(u, pivots, panel, update);
    if (far) copy_block(panel, numbers, place, far);
    each_child([&](const double* X, int64_t count, const int32_t* to, int64_t split) {
      kernels.add_to_update(split, count, X, to, update, u, pivots);
    });
    return -1;
  }, false);
  if (far) end_streams();
  return bad;
}

void Group::copy(const double* single, int lane, double* panels) const {
  for (int32_t s = 0; s < tree_->count(); ++s) {
    const PanelShape shape = panel_shape(*tree_, s);
    const Step<const double> from = shape.step(single, 0);
    double* to = panels + panel_ptr_[s] * size + lane;
    for (int64_t j = 0; j < shape.pivots; ++j)
      for (int64_t i = j; i < shape.height; ++i, to += size) *to = from.data[i + j * from.ld];
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
    group_kernels().backward(tree.height(s), tree.pivots(s), p.panel(s), p.own(s, Y), Y, tree.rows(s));
  });
  for (int l = 0; l < size; ++l)
    for (int64_t j = 0; X[l] && j < tree.n(); ++j) X[l][perm[j] * stride] = Y[j * size + l];
}

}  // namespace ms::cholesky
