// Leaf subtrees of an assembly tree that one thread block, or one warp, factors in shared memory (GPU).
//
// A subtree is factored in postorder. Its update matrices form two stacks, for even and for odd depths, which grow from both ends of
// the workspace. The children of a front are on top of one stack, and its own update matrix is pushed on the other one. The panel lies
// between the stacks. So all positions follow from the sizes of earlier siblings, of the front and of its ancestors.
// Source: Liu 1992, "The multifrontal method for sparse matrix solution", section 4. Cost: O(fronts).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ms::fronts {

enum class Owner : int32_t { queue, thread_block, warp };

struct LeafSubtrees {                   // an entry for each front
  std::vector<int32_t> owner;           // Owner: `queue` if the front is in no subtree
  std::vector<int32_t> is_root;         // 1 for the root of a subtree, whose update matrix is stored elsewhere
  std::vector<int32_t> panel_at;        // begin of the panel in the workspace, in scalars
  std::vector<int32_t> update_at;       // begin of the update matrix, -1 if it is not in the workspace
  std::vector<int32_t> begin;           // smallest descendant
  std::vector<int32_t> depth;           // distance from the root of the tree
};

// The largest subtrees that fit into the workspace of a warp. Above them the largest that fit into that of a thread block.
// parent: -1 for a root, in postorder. panel, update: scalars of each front.
LeafSubtrees leaf_subtrees(std::span<const int32_t> parent, std::span<const int64_t> panel, std::span<const int64_t> update,
                           int64_t of_warp, int64_t of_block);

}  // namespace ms::fronts
