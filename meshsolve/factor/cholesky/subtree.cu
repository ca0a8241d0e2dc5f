// Numeric Cholesky factorization of leaf subtrees in shared memory, in one launch.
//
// CUDA counterpart of factor.cpp; source: Liu 1992. fronts/plan.py assigns successive subtrees to each thread block. The warps factor
// small subtrees side by side, each in its part of the workspace. Then the block factors the fronts above them. A front is assembled
// and eliminated in shared memory. Its panel is written to global memory. Its update matrix, -L21 L21^T and those of the children,
// stays in shared memory (fronts/subtrees.hpp) unless the front is the root of its subtree. Nothing is cleared or read twice.
//
// A failed pivot ends the subtree: later columns of a postorder are larger. So the smallest failed column is recorded.
#include "factor/cholesky/pivots.cuh"
#include "factor/fronts/tiles.cuh"

namespace ms::cholesky {

using fronts::Block;
using fronts::Front;
using fronts::packed_column;
using fronts::Tree;
using fronts::Warp;

template <class T> struct Subtrees {
  Tree<T> tree;
  const int* panel_at;                  // begin of each panel in the workspace
  int* status;
  __device__ T* update(const Front& f, T* workspace) const { return f.update < 0 ? workspace + ~f.update : tree.updates + f.update; }
};

// Adds the columns [from, to) of all children; at(i, j) points to an entry of the front.
template <class T, class Group, class At>
__device__ __forceinline__ void add_children(const Subtrees<T>& t, const Front& f, const Group& g, T* workspace, int from, int to, At at) {
  for (long long q = f.child_begin; q < f.child_end; ++q) {
    const Front& c = t.tree.fronts[t.tree.child[q]];
    const int rows = c.updates();
    const T* const X = t.update(c, workspace);
    fronts::add_child(g, t.tree.relative + c.rows, rows, [&](int j) { return packed_column(X, rows, j); }, from, to, at);
  }
}

// Returns false if a pivot has failed.
template <class T, class Group>
__device__ __forceinline__ bool factor_front(const Subtrees<T>& t, int s, const Group& g, T* workspace) {
  const Front f = t.tree.fronts[s];
  const int height = static_cast<int>(f.height), width = static_cast<int>(f.pivots), rows = height - width;
  T *const panel = workspace + t.panel_at[s], *const own = panel + height * width;         // own: the diagonal of A
  for (int i = g.rank; i < height * width; i += g.size) panel[i] = T(0);
  g.sync();
  const auto in_panel = [&](int i, int j) { return panel + i + j * height; };
  fronts::add_entries(t.tree, f, g, 0, width, in_panel);
  for (int j = g.rank; j < width; j += g.size) own[j] = panel[j * (height + 1)];
  g.sync();
  add_children(t, f, g, workspace, 0, width, in_panel);
  const int done = eliminate(g, panel, height, height, width);
  if (done < width) {
    if (g.rank == 0) record_failure(t.status, f.first + done);
    return false;
  }
  for (int j = g.rank; j < width; j += g.size)
    record_exponent(t.status, static_cast<double>(own[j]), static_cast<double>(panel[j * (height + 1)]));
  T* const L = t.tree.panels + f.panel;
  for (int j = g.warp; j < width; j += g.warps)
    for (int i = g.lane; i < height; i += 32) L[i + j * f.leading] = panel[i + j * height];
  T* const U = t.update(f, workspace);
  fronts::outer_product<true>(g, panel + width, height, panel + width, height, rows, width,
                              [&](int j) { return packed_column(U, rows, j); });
  add_children(t, f, g, workspace, width, height, [&](int i, int j) { return packed_column(U, rows, j - width) + (i - width); });
  return true;
}

}  // namespace ms::cholesky

using namespace ms;
using namespace ms::cholesky;

// tasks: for each thread block, begin and end in `subtrees` (first front, root) and in `list`.
extern "C" __global__ void __launch_bounds__(256, 2)
k_subtrees(const int* tasks, const int* subtrees, const int* list, const int* panel_at, int warp_scalars,
           const long long* table, const int* child, const int* relative, const long long* entry_ptr, const unsigned* entry_source,
           const int* entry_row, const double* values, SCALAR* panels, SCALAR* updates, int* status) {
  extern __shared__ SCALAR workspace[];
  const Subtrees<SCALAR> t{{reinterpret_cast<const Front*>(table), child, relative, entry_ptr, entry_source, entry_row, values, panels,
                            updates}, panel_at, status};
  const int* const task = tasks + 4 * blockIdx.x;
  const Block block;
  for (int k = task[0] + block.warp; k < task[1]; k += block.warps) {
    int s = subtrees[2 * k];
    while (s <= subtrees[2 * k + 1] && factor_front(t, s, Warp{}, workspace + block.warp * warp_scalars)) ++s;
    if (s <= subtrees[2 * k + 1]) break;
  }
  block.sync();
  for (int k = task[2]; k < task[3] && factor_front(t, list[k], block, workspace); ++k) {}
}
