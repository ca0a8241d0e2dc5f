// The cut of an assembly tree into leaf subtrees, and the positions of their matrices in a workspace.
#include "subtrees.hpp"

#include <algorithm>
#include <numeric>

namespace ms::fronts {

namespace {

// One kind of subtrees, among the fronts that have no owner yet.
class SubtreeCut {
 public:
  SubtreeCut(std::span<const int32_t> parent, std::span<const int64_t> panel, std::span<const int64_t> update, int64_t capacity)
      : parent_(parent), panel_(panel), update_(update), capacity_(capacity), children_(parent.size()), below_(parent.size()),
        earlier_(parent.size()) {}

  void apply(Owner owner, LeafSubtrees& t) {
    const int32_t count = static_cast<int32_t>(parent_.size()), queue = static_cast<int32_t>(Owner::queue);
    std::vector<char> fits(count), is_free(count);
    for (int32_t s = 0; s < count; ++s) {
      is_free[s] = t.owner[s] == queue;
      fits[s] = is_free[s] && need(s) <= capacity_;
    }
    std::vector<int64_t> even(count), odd(count);           // heights of the two stacks below a front
    for (int32_t s = count; s-- > 0;) {
      if (!fits[s]) continue;
      const int32_t p = parent_[s];
      const bool is_odd = t.depth[s] % 2 == 1, is_root = p < 0 || !fits[p];
      even[s] = is_root ? 0 : even[p] + (is_odd ? 0 : earlier_[s]);
      odd[s] = is_root ? 0 : odd[p] + (is_odd ? earlier_[s] : 0);
      const int64_t own = is_root ? 0 : update_[s];
      t.owner[s] = static_cast<int32_t>(owner);
      t.is_root[s] = is_root;
      t.panel_at[s] = static_cast<int32_t>(even[s] + (is_odd ? children_[s] : own));
      t.update_at[s] = is_root ? -1 : static_cast<int32_t>(is_odd ? capacity_ - odd[s] - own : even[s]);
    }
  }

 private:
  // Scalars that the subtree of s takes if s is its root. Adds s to the sums of its parent: fronts come in ascending order.
  int64_t need(int32_t s) {
    const int64_t as_root = std::max(below_[s], panel_[s] + children_[s]);
    if (const int32_t p = parent_[s]; p >= 0) {
      earlier_[s] = children_[p];
      below_[p] = std::max(below_[p], children_[p] + std::max(as_root, panel_[s] + children_[s] + update_[s]));
      children_[p] += update_[s];
    }
    return as_root;
  }

  std::span<const int32_t> parent_;
  std::span<const int64_t> panel_, update_;
  int64_t capacity_;
  std::vector<int64_t> children_, below_, earlier_;         // update matrices of the children, need of their subtrees, earlier siblings
};

}  // namespace

LeafSubtrees leaf_subtrees(std::span<const int32_t> parent, std::span<const int64_t> panel, std::span<const int64_t> update,
                           int64_t of_warp, int64_t of_block) {
  const size_t count = parent.size();
  LeafSubtrees t{std::vector<int32_t>(count, static_cast<int32_t>(Owner::queue)), std::vector<int32_t>(count), std::vector<int32_t>(count),
                 std::vector<int32_t>(count, -1), std::vector<int32_t>(count), std::vector<int32_t>(count)};
  std::iota(t.begin.begin(), t.begin.end(), 0);
  for (size_t s = 0; s < count; ++s)
    if (const int32_t p = parent[s]; p >= 0) t.begin[p] = std::min(t.begin[p], t.begin[s]);
  for (size_t s = count; s-- > 0;) t.depth[s] = parent[s] < 0 ? 0 : t.depth[parent[s]] + 1;
  SubtreeCut(parent, panel, update, of_warp).apply(Owner::warp, t);
  SubtreeCut(parent, panel, update, of_block).apply(Owner::thread_block, t);
  return t;
}

}  // namespace ms::fronts
