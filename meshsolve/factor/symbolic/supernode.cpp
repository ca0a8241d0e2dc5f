// Fundamental supernodes, and relaxed ones: small fronts joined to their parents at the price of some stored zeros.
// Sources: Liu, Ng, Peyton 1993, "On finding supernodes for sparse matrix computations"; Ashcraft, Grimes 1989, "The
// influence of relaxed supernode partitions on the multifrontal method". Cost: O(n) but for a sort of each child list.
// Joined columns have to be one range and the order has to stay a postorder. A range is a connected piece of the tree that
// ends in its root; so at any node all but one of the children that join must bring their whole subtree with them, and the
// one that leaves some below comes first of those. Everything here runs on the tree of fundamental supernodes.
#include <algorithm>
#include <utility>

#include "native/parallel.hpp"
#include "parts.hpp"
#include "relaxation.hpp"
#include "symbolic.hpp"

namespace ms::symbolic {

namespace {

constexpr int64_t grain = 1 << 12;                      // supernodes of one piece of work

enum class Kind : uint8_t { apart, part, whole };       // of a child: stays; joins, but not its whole subtree; all of it does

// A fundamental supernode. Fields of the top are valid at the root of what has joined.
struct Node {
  int32_t parent = -1;
  int32_t begin = 0;                    // first node of the subtree
  Block block;                          // top: of the columns joined so far
  int32_t in_whole = 0, in_part = 0;    // columns of the subtrees of children of these kinds
  Kind kind = Kind::apart;
  bool open = false;                    // some of the subtree has not joined
};

struct Joining {
  const std::vector<int32_t>& first;    // (s + 1) first columns
  std::vector<Node> nodes;              // (s) postordered

  void visit(int32_t f, std::vector<int32_t>& children);
};

// All below node f is settled. Its children join, those with the longest columns (the fewest zeros) first.
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
    if ((child.open && top.in_part > 0) || !worth_joining(child.block, top.block)) {
      top.open = true;
      continue;
    }
    top.block.width += child.block.width;
    top.block.entries += child.block.entries;
    top.open |= child.open;
    child.kind = child.open ? Kind::part : Kind::whole;
    (child.open ? top.in_part : top.in_whole) += columns;
  }
}

// The nodes before any has joined.
std::vector<Node> fundamental_nodes(const Analysis& analysis, const std::vector<int32_t>& first, int threads) {
  const int32_t s = static_cast<int32_t>(first.size()) - 1;
  std::vector<Node> nodes(s);
  std::vector<int32_t> owner(analysis.n());                     // set for first columns, as all parents are
  for_range(threads, s, grain, [&](int64_t from, int64_t end, int) {
    for (int64_t f = from; f < end; ++f) owner[first[f]] = static_cast<int32_t>(f);
  });
  for_range(threads, s, grain, [&](int64_t from, int64_t end, int) {
    for (int64_t f = from; f < end; ++f) {
      const int32_t last = first[f + 1] - 1, above = analysis.parent[last];
      Node& node = nodes[f];
      node.begin = static_cast<int32_t>(f);
      node.parent = above < 0 ? -1 : owner[above];
      node.block = {first[f + 1] - first[f], analysis.colcount[last] - 1, 0};
      for (int32_t j = first[f]; j <= last; ++j) node.block.entries += analysis.colcount[j];
    }
  });
  return nodes;
}

std::vector<Node> join_children(const Analysis& analysis, const std::vector<int32_t>& first, int threads) {
  Joining tree{first, fundamental_nodes(analysis, first, threads)};
  std::vector<int32_t> parent(tree.nodes.size());
  for (size_t f = 0; f < parent.size(); ++f) {
    parent[f] = tree.nodes[f].parent;
    if (parent[f] >= 0) tree.nodes[parent[f]].begin = std::min(tree.nodes[parent[f]].begin, tree.nodes[f].begin);
  }
  for_parts(threads, static_cast<int32_t>(parent.size()), subtrees(parent, threads), [&](int32_t begin, int32_t end) {
    std::vector<int32_t> children;
    for (int32_t f = begin; f < end; ++f) tree.visit(f, children);
  });
  return std::move(tree.nodes);
}

// The postorder that makes each joined set one range: just before a node come the children of kind whole, before these the
// one of kind part, before it the others. Returns the new first column of each node.
std::vector<int32_t> places(const std::vector<Node>& nodes, const std::vector<int32_t>& first) {
  const int32_t s = static_cast<int32_t>(nodes.size());
  struct Ends { int32_t whole, apart; };        // of the columns that are left for children of these kinds
  std::vector<Ends> left(s);
  std::vector<int32_t> place(s);
  int32_t roots = first[s];
  for (int32_t f = s; f-- > 0;) {
    const Node& node = nodes[f];
    const int32_t columns = first[f + 1] - first[node.begin];
    int32_t end;                                // a node of kind part is the only one of its parent's
    if (node.parent < 0) end = std::exchange(roots, roots - columns);
    else if (node.kind == Kind::whole) end = std::exchange(left[node.parent].whole, left[node.parent].whole - columns);
    else if (node.kind == Kind::apart) end = std::exchange(left[node.parent].apart, left[node.parent].apart - columns);
    else end = place[node.parent] - nodes[node.parent].in_whole;
    place[f] = end - (first[f + 1] - first[f]);
    left[f] = {place[f], place[f] - node.in_whole - node.in_part};
  }
  return place;
}

// New column k is the old column old[k], and old column j the new one to[j].
void renumber(Analysis& analysis, const std::vector<int32_t>& old, const std::vector<int32_t>& to, int threads) {
  std::vector<int32_t> moved(analysis.n());
  const auto each = [&](auto&& f) {
    for_range(threads, analysis.n(), 1 << 14, [&](int64_t begin, int64_t end, int) {
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

// Column j goes on from j - 1 when that is its only child and has the same rows below.
std::vector<int32_t> fundamental_supernodes(const Analysis& analysis) {
  const int32_t n = analysis.n();
  std::vector<uint8_t> opens(n, 0);
  std::vector<int32_t> first;
  for (int32_t j = 0; j < n; ++j) {
    const int32_t p = analysis.parent[j];
    if (p >= 0 && (p != j + 1 || analysis.colcount[j] != analysis.colcount[p] + 1)) opens[p] = 1;
    if (opens[j] || j == 0 || analysis.parent[j - 1] != j) first.push_back(j);
  }
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

Supernodes relax(const Pattern& A, const Skeleton* skeleton, Analysis& analysis, int threads) {
  const std::vector<int32_t> first = fundamental_supernodes(analysis);
  const std::vector<Node> nodes = join_children(analysis, first, threads);
  const std::vector<int32_t> place = places(nodes, first);
  const int32_t n = analysis.n(), s = static_cast<int32_t>(nodes.size());

  // Until the rows are listed, a block goes by the id of its last fundamental supernode, which is the top of its columns.
  std::vector<int32_t> block(s), up(s, -1), begins(n, -1);             // begins: the block that begins with this new column, or -1
  int32_t blocks = 0;
  for (int32_t f = s; f-- > 0;) {
    up[f] = nodes[f].parent < 0 ? -1 : block[nodes[f].parent];
    block[f] = nodes[f].kind == Kind::apart ? f : up[f];
    if (block[f] != f) continue;
    begins[place[f] + (first[f + 1] - first[f]) - nodes[f].block.width] = f;
    ++blocks;
  }
  std::vector<int32_t> block_of(n), to(n), old(n);
  for_range(threads, s, grain, [&](int64_t from, int64_t end, int) {
    for (int64_t f = from; f < end; ++f)
      for (int32_t j = first[f], k = place[f]; j < first[f + 1]; ++j, ++k) {
        block_of[j] = block[f];
        to[j] = k;
        old[k] = j;
      }
  });
  renumber(analysis, old, to, threads);

  Supernodes result;
  std::vector<int32_t> number(s);
  std::vector<int64_t> next(s);
  result.first.reserve(blocks + 1);
  result.row_ptr.reserve(blocks + 1);
  result.parent.reserve(blocks);
  result.row_ptr.push_back(0);
  for (int32_t k = 0; k < n; ++k) {
    const int32_t b = begins[k];
    if (b < 0) continue;
    number[b] = static_cast<int32_t>(result.first.size());
    next[b] = result.row_ptr.back();
    result.first.push_back(k);
    result.row_ptr.push_back(next[b] + nodes[b].block.below);
    result.parent.push_back(up[b]);
  }
  result.first.push_back(n);
  for (int32_t& p : result.parent)
    if (p >= 0) p = number[p];
  result.rows.resize(result.row_ptr.back());
  if (skeleton) {
    row_lists(*skeleton, old, block_of, up, analysis.parent, next, result.rows, threads);
  } else {
    for (int32_t k = 0; k < n; ++k) to[analysis.perm[k]] = block_of[old[k]];          // not needed any more: blocks of vertices
    row_lists(A, analysis, to, up, next, result.rows, threads);
  }
  return result;
}

}  // namespace ms::symbolic
