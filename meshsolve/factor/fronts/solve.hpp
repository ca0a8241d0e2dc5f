// The forward part of a solve, from the leaves to the roots. In a small subtree each front adds directly to the rows of its
// ancestors within the subtree. Updates to other rows are passed to the parent, which sums those of its children as the
// factorization does. The tree fixes the order of additions, so results do not depend on the number of threads.
#pragma once
#include <algorithm>

#include "columns.hpp"
#include "native/dense/rows.hpp"
#include "traverse.hpp"

namespace ms::fronts {

// Y := L^-1 Y for S right-hand sides by rows. `Fronts` has tree, space, fetch(s), and of front s
//   eliminate<S>(s, Y, U, worker): solves for its pivots in Y; rows below in U -= L21 times the pivots;
//   eliminate_at<S>(s, Y, worker): the same with the rows below in Y;
//   is_reached(s), optional: false if Y is zero in the rows of s and all descendants. Such fronts are skipped.
template <class T, int64_t S, class Fronts>
struct Forward {
  static constexpr int64_t few = 8;           // pivots; fronts with more collect their updates and add them once

  const Fronts& fronts;
  T* const Y;
  UpdateBlocks<T>* blocks = nullptr;          // not used within small subtrees
  const AssemblyTree& tree = fronts.tree;
  const RowKernels<T>& kernels = row_kernels<T>();

  void run(const Schedule& plan, int threads) const {
    bottom_up(
        tree, plan, threads, *blocks, [&](int32_t s, T* update, int worker) { front(s, update, worker); },
        [&](int32_t first, int32_t root, T* update, int worker) { small_subtree(first, root, update, worker); });
  }

  // `update`: the update vector that a front, or the root of a small subtree, passes to its parent.
  void front(int32_t s, T* update, int worker) const {
    if (!is_reached(s)) return;
    T* const own = Y + static_cast<int64_t>(tree.first(s)) * S;
    std::fill(update, update + tree.updates(s) * S, T(0));
    for (int32_t q = tree.child_ptr[s]; q < tree.child_ptr[s + 1]; ++q) {
      const int32_t child = tree.child[q];
      if (!is_reached(child)) continue;
      kernels.add_rows(S, tree.updates(child), tree.relative_rows(child), tree.pivots(s), blocks->of(child), own, update);
    }
    fronts.template eliminate<S>(s, Y, update, worker);
  }

  void small_subtree(int32_t first, int32_t root, T* update, int worker) const {
    if (!is_reached(root)) return;
    Buffer<T>& space = fronts.space.local[worker];
    const bool passes_on = first < root && tree.updates(root) > 0;
    const int32_t* const position = passes_on ? fronts.space.positions(worker, tree.n(), tree.rows(root), tree.updates(root)) : nullptr;
    std::fill(update, update + tree.updates(root) * S, T(0));
    for (int32_t s = first; s < root; ++s) {
      if (!is_reached(s)) continue;
      const int64_t u = tree.updates(s);
      if (tree.direct[s] == u && tree.pivots(s) <= few) {
        fronts.template eliminate_at<S>(s, Y, worker);
      } else {
        if (space.size() < u * S) space = Buffer<T>(2 * u * S);
        distribute(s, space.data(), position, update, worker);
      }
    }
    fronts.template eliminate<S>(root, Y, update, worker);
  }

 private:
  bool is_reached(int32_t s) const {
    if constexpr (requires { fronts.is_reached(s); })
      return fronts.is_reached(s);
    else
      return true;
  }

  // Adds the updates of front s to Y for rows of the small subtree, and to `update` for rows of the root of the subtree.
  void distribute(int32_t s, T* U, const int32_t* position, T* update, int worker) const {
    const int64_t u = tree.updates(s), inside = tree.direct[s];
    const int32_t* const rows = tree.rows(s);
    std::fill(U, U + u * S, T(0));
    fronts.template eliminate<S>(s, Y, U, worker);
    kernels.add_rows(S, inside, rows, tree.n(), U, Y, nullptr);
    for (int64_t i = inside; i < u; ++i)
      for (int64_t c = 0; c < S; ++c) update[position[rows[i]] * S + c] += U[i * S + c];
  }
};

}  // namespace ms::fronts
