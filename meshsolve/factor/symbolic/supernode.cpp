// Fundamental supernodes, and relaxed supernodes: small fronts merged into their parents at the price of stored zeros. Sources:
// Liu, Ng, Peyton 1993, "On finding supernodes for sparse matrix computations"; Ashcraft, Grimes 1989, "The influence of relaxed
// supernode partitions on the multifrontal method". Cost: O(n), and a sort of each child list. Merged columns must be one range,
// and the order must stay a postorder. A range is a connected part of the tree that ends with its root. So at any node, all
// merged children except one must be merged with their whole subtree, and the exception comes first of them. All steps work on
// the tree of fundamental supernodes.
#include <algorithm>
#include <utility>

#include "native/threads/atomic.hpp"
#include "native/threads/parallel.hpp"
#include "native/memory/raw_vector.hpp"
#include "sparse/rearrange.hpp"
#include "parts.hpp"
#include "relaxation.hpp"
#include "symbolic.hpp"

namespace ms::symbolic {

namespace {

constexpr int64_t grain = 1 << 12;                      // supernodes of one piece of work

enum class Kind : uint8_t { separate, partly_merged, merged };   // of a child: not merged; partly; with its whole subtree

// A fundamental supernode. Fields marked "top" are valid at the root of a merged set.
struct Node {
  int32_t parent = -1;
  int32_t begin = 0;                    // first node of the subtree
  Block block;                          // top: of the columns merged so far
  int32_t in_merged = 0, in_partly_merged = 0;    // columns in the subtrees of children of these kinds
  Kind kind = Kind::separate;
  bool open = false;                    // a part of the subtree is not merged
};

struct Joining {
  const std::vector<int32_t>& first;    // (s + 1) first columns
  std::vector<Node> nodes;              // (s) postordered
  const Relaxation& relaxation;

  void visit(int32_t f, std::vector<int32_t>& children);
};

// Merges children into node f, whose subtrees are done; children with the longest columns (the fewest zeros) first.
void Joining::visit(int32_t f, std::vector<int32_t>& children) {
  Node& top = nodes[f];
  children.clear();
  for (int32_t c = f - 1; c >= top.begin; c = nodes[c].begin - 1) children.push_back(c);
  if (children.size() > 1)
    std::sort(children.begin(), children.end(), [this](int32_t a, int32_t b) {
      return nodes[a].block.below != nodes[b].block.below ? nodes[a].block.below > nodes[b].block.below : a > b;
    });
  for (const int32_t c : children) {
    Node& child = nodes[c];
    const int32_t columns = first[c + 1] - first[child.begin];
    if ((child.open && top.in_partly_merged > 0) || !worth_joining(child.block, top.block, relaxation)) {
      top.open = true;
      continue;
    }
    top.block.width += child.block.width;
    top.block.entries += child.block.entries;
    top.open |= child.open;
    child.kind = child.open ? Kind::partly_merged : Kind::merged;
    (child.open ? top.in_partly_merged : top.in_merged) += columns;
  }
}

// The nodes before merging, and their parents.
std::vector<Node> fundamental_nodes(const Analysis& analysis, const std::vector<int32_t>& first, std::vector<int32_t>& parent,
                                    int threads) {
  const int32_t s = static_cast<int32_t>(first.size()) - 1;
  std::vector<Node> nodes(s);
  RawVector<int32_t> owner(analysis.n());                       // set for first columns only, as all parents are first columns
  parent.resize(s);
  for_range(threads, s, grain, [&](int64_t from, int64_t end, int) {
    for (int64_t f = from; f < end; ++f) owner[first[f]] = static_cast<int32_t>(f);
  });
  for_range(threads, s, grain, [&](int64_t from, int64_t end, int) {
    for (int64_t f = from; f < end; ++f) {
      const int32_t last = first[f + 1] - 1, above = analysis.parent[last];
      Node& node = nodes[f];
      node.parent = parent[f] = above < 0 ? -1 : owner[above];
      node.block = {first[f + 1] - first[f], analysis.colcount[last] - 1, 0};
      for (int32_t j = first[f]; j <= last; ++j) node.block.entries += analysis.colcount[j];
    }
  });
  return nodes;
}

// Runs all merges, except into the Schur interface, the last node. `parts`: subtrees of nodes for the threads, here and below.
std::vector<Node> join_children(const Analysis& analysis, const std::vector<int32_t>& first, std::vector<Span>& parts, int threads,
                                const Relaxation& relaxation) {
  std::vector<int32_t> parent;
  Joining tree{first, fundamental_nodes(analysis, first, parent, threads), relaxation};
  const std::vector<int32_t> size = subtree_sizes(parent);
  const int32_t s = static_cast<int32_t>(size.size());
  for_range(threads, s, grain, [&](int64_t from, int64_t end, int) {
    for (int64_t f = from; f < end; ++f) tree.nodes[f].begin = static_cast<int32_t>(f) + 1 - size[f];
  });
  parts = subtrees(parent, size, threads);
  const int32_t joining = analysis.boundary > 0 ? s - 1 : s;
  for_parts(threads, s, parts, [&](int32_t begin, int32_t end) {
    std::vector<int32_t> children;
    for (int32_t f = begin; f < std::min(end, joining); ++f) tree.visit(f, children);
  });
  return std::move(tree.nodes);
}

// New positions of the nodes. In the postorder that makes each merged set one range, a node follows its children of kind merged.
// These follow the child of kind partly_merged, which follows the other children. The id of a block is its last node, the top of its
// columns.
struct Layout {
  const std::vector<Node>& nodes;
  const std::vector<int32_t>& first;            // (s + 1) columns of the nodes, old
  RawVector<int32_t> position, block;              // (s) new first column; block
  std::vector<int32_t> up;                      // (s) the parent block, or -1
  struct Ends { int32_t merged, separate; };        // end of the free positions for children of these kinds
  RawVector<Ends> left;
  int32_t roots;

  Layout(const std::vector<Node>& all, const std::vector<int32_t>& columns, const std::vector<Span>& parts, int threads)
      : nodes(all), first(columns), position(all.size()), block(all.size()), up(all.size()), left(all.size()), roots(columns.back()) {
    int32_t f = static_cast<int32_t>(all.size());
    for (size_t k = parts.size(); k-- > 0; f = parts[k].begin)          // the nodes above the parts, and the roots of the parts
      while (f-- > parts[k].end - 1) settle(f);
    while (f-- > 0) settle(f);
    for_range(threads, static_cast<int64_t>(parts.size()), 1, [&](int64_t b, int64_t e, int) {
      for (int64_t k = b; k < e; ++k)
        for (int32_t g = parts[k].end - 1; g-- > parts[k].begin;) settle(g);
    });
  }

  // Called after its parent and its later siblings.
  void settle(int32_t f) {
    const Node& node = nodes[f];
    const int32_t columns = first[f + 1] - first[node.begin];
    int32_t end;                                // a parent has at most one child of kind partly_merged
    if (node.parent < 0) end = std::exchange(roots, roots - columns);
    else if (node.kind == Kind::merged) end = std::exchange(left[node.parent].merged, left[node.parent].merged - columns);
    else if (node.kind == Kind::separate) end = std::exchange(left[node.parent].separate, left[node.parent].separate - columns);
    else end = position[node.parent] - nodes[node.parent].in_merged;
    position[f] = end - (first[f + 1] - first[f]);
    left[f] = {position[f], position[f] - node.in_merged - node.in_partly_merged};
    up[f] = node.parent < 0 ? -1 : block[node.parent];
    block[f] = node.kind == Kind::separate ? f : up[f];
  }

  int32_t begin(int32_t b) const { return position[b] + (first[b + 1] - first[b]) - nodes[b].block.width; }     // of a block
};

// The numbers in [0, n) with wanted(k), ascending.
template <class Wanted>
std::vector<int32_t> all_wanted(int32_t n, int threads, Wanted&& wanted) {
  const int64_t columns = threads > 1 ? kRows : std::max<int64_t>(n, 1), pieces = (n + columns - 1) / columns;
  std::vector<int32_t> begin(pieces + 1), result;
  const auto each = [&](auto&& f) {
    for_range(threads, pieces, 1, [&](int64_t from, int64_t to, int) {
      for (int64_t p = from; p < to; ++p)
        for (int32_t j = static_cast<int32_t>(p * columns); j < std::min<int64_t>(n, (p + 1) * columns); ++j) f(p, j, wanted(j));
    });
  };
  each([&](int64_t p, int32_t, bool is) { begin[p + 1] += is; });
  cumsum(begin);
  result.resize(begin[pieces]);
  each([&](int64_t p, int32_t j, bool is) {
    if (is) result[begin[p]++] = j;
  });
  return result;
}

// New column k is old column old[k]; old column j is new column to[j].
void renumber(Analysis& analysis, const std::vector<int32_t>& old, const std::vector<int32_t>& to, int threads) {
  std::vector<int32_t> moved(analysis.n());
  const auto each = [&](auto&& f) {
    for_range(threads, analysis.n(), kRows, [&](int64_t begin, int64_t end, int) {
      for (int64_t k = begin; k < end; ++k) f(k);
    });
  };
  for (auto* v : {&analysis.perm, &analysis.colcount, &analysis.parent}) {
    each([&](int64_t k) { moved[k] = (*v)[old[k]]; });
    v->swap(moved);
  }
  each([&](int64_t k) {
    if (analysis.parent[k] >= 0) analysis.parent[k] = to[analysis.parent[k]];
    analysis.iperm[analysis.perm[k]] = static_cast<int32_t>(k);
  });
}

}  // namespace

// Column j continues the supernode of j - 1 if j - 1 is its only child and has the same rows below.
std::vector<int32_t> fundamental_supernodes(const Analysis& analysis, int threads) {
  const int32_t n = analysis.n();
  std::vector<uint8_t> opens(n, 0);                     // threads may set the same entry
  if (analysis.boundary > 0) opens[n - analysis.boundary] = 1;
  for_range(threads, n, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t j = begin; j < end; ++j)
      if (const int32_t p = analysis.parent[j]; p >= 0 && (p != j + 1 || analysis.colcount[j] != analysis.colcount[p] + 1))
        AtomicRef(opens[p]).store(1, std::memory_order_relaxed);
  });
  std::vector<int32_t> first = all_wanted(n, threads, [&](int32_t j) { return opens[j] || j == 0 || analysis.parent[j - 1] != j; });
  first.push_back(n);
  return first;
}

int64_t Supernodes::nbytes() const {
  int64_t scalars = 0;
  for (size_t s = 0; s < parent.size(); ++s) {
    const int64_t width = first[s + 1] - first[s];
    scalars += width * (width + row_ptr[s + 1] - row_ptr[s]);
  }
  return scalars * static_cast<int64_t>(sizeof(double)) + static_cast<int64_t>(rows.size() * sizeof(rows[0]));
}

Supernodes relax(const Pattern& A, const Skeleton* skeleton, Analysis& analysis, int threads, const Relaxation& relaxation) {
  std::vector<Span> parts;
  const std::vector<int32_t> first = fundamental_supernodes(analysis, threads);
  const std::vector<Node> nodes = join_children(analysis, first, parts, threads, relaxation);
  const Layout layout(nodes, first, parts, threads);
  const int32_t n = analysis.n(), s = static_cast<int32_t>(nodes.size());

  std::vector<int32_t> block_of(n), to(n), old(n), begins(n, -1);              // begins: block with this first new column, or -1
  for_range(threads, s, grain, [&](int64_t from, int64_t end, int) {
    for (int32_t f = static_cast<int32_t>(from); f < end; ++f) {
      if (layout.block[f] == f) begins[layout.begin(f)] = f;
      for (int32_t j = first[f], k = layout.position[f]; j < first[f + 1]; ++j, ++k) {
        block_of[j] = layout.block[f];
        to[j] = k;
        old[k] = j;
      }
    }
  });
  renumber(analysis, old, to, threads);

  Supernodes result;
  result.first = all_wanted(n, threads, [&](int32_t k) { return begins[k] >= 0; });
  const int64_t blocks = static_cast<int64_t>(result.first.size());
  result.parent.resize(blocks);
  result.row_ptr.resize(blocks + 1);
  RawVector<int32_t> number(s);                                         // number of a block
  std::vector<int64_t> next(s);
  const auto each_block = [&](auto&& f) {
    for_range(threads, blocks, grain, [&](int64_t from, int64_t end, int) {
      for (int64_t k = from; k < end; ++k) f(k, begins[result.first[k]]);
    });
  };
  each_block([&](int64_t k, int32_t b) {
    number[b] = static_cast<int32_t>(k);
    result.row_ptr[k + 1] = nodes[b].block.below;
  });
  cumsum(result.row_ptr);
  each_block([&](int64_t k, int32_t b) {
    next[b] = result.row_ptr[k];
    result.parent[k] = layout.up[b] < 0 ? -1 : number[layout.up[b]];
  });
  result.first.push_back(n);
  result.rows.resize(result.row_ptr.back());
  if (skeleton) {
    row_lists(*skeleton, old, block_of, layout.up, analysis.parent, next, result.rows, threads);
  } else {
    for (int32_t k = 0; k < n; ++k) to[analysis.perm[k]] = block_of[old[k]];          // reused: blocks of vertices
    row_lists(A, analysis, to, layout.up, next, result.rows, threads);
  }
  return result;
}

}  // namespace ms::symbolic
