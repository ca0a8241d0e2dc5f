// Minimum degree of a pattern, and its results: the order of all vertices, by a postorder of the tree of pivots, and the elimination
// tree with column counts. Cost of the results: O(n), and a pass over the lists of dense rows.
#include <algorithm>
#include <span>

#include "mindeg.hpp"
#include "native/forest.hpp"

namespace ms::order {
namespace {

// All n rows, ascending, except that the rows `last` come last in their order.
std::vector<int32_t> with_last(int32_t n, std::span<const int32_t> last) {
  std::vector<bool> is_last(n);
  for (const int32_t i : last) is_last[i] = true;
  std::vector<int32_t> rows;
  rows.reserve(n);
  for (int32_t i = 0; i < n; ++i)
    if (!is_last[i]) rows.push_back(i);
  rows.insert(rows.end(), last.begin(), last.end());
  return rows;
}

}  // namespace

Elimination amd(const Pattern& A, const Limits& limits, std::span<const int32_t> last) {
  const int32_t own = A.n - static_cast<int32_t>(last.size());
  const std::vector<int32_t> rows = last.empty() ? std::vector<int32_t>() : with_last(A.n, last);
  Elimination result{std::vector<int32_t>(A.n), {}, {}};
  const auto order = [&](auto&& graph) {
    if (last.empty())
      graph.begin(A, own);
    else
      graph.begin(A, own, rows);
    const bool complete = graph.run(result.perm.data(), limits);
    result.visits = graph.visits();
    if (!complete) {
      result.perm.clear();
      return;
    }
    graph.tree(result);
    if (last.empty()) return;
    for (int32_t k = 0; k < own; ++k) result.perm[k] = rows[result.perm[k]];
    std::copy(last.begin(), last.end(), result.perm.begin() + own);
  };
  if (fits_32_bits(A.nnz(), A.n))
    order(MinDegree<int32_t>());
  else
    order(MinDegree<int64_t>());
  return result;
}

// Attaches the trees of pivots to the chain of dense rows. The parent of a root is the first dense row adjacent to a vertex of
// its tree. With the last dense row as parent, its update matrix would be kept on the stack longer than necessary.
template <class Index>
void MinDegree<Index>::attach_dense_rows() {
  const int32_t count = static_cast<int32_t>(pivots_.size()), all = count + static_cast<int32_t>(dense_.size());
  std::vector<int32_t> ancestor(all);
  for (int32_t k = 0; k < all; ++k) ancestor[k] = k < count && parent_[k] >= 0 ? parent_[k] : k;
  parent_.resize(all, -1);
  const int32_t* list = dense_lists_.data();
  for (int32_t k = count; k < all; ++k) {
    if (k > count) parent_[k - 1] = ancestor[k - 1] = k;
    const int32_t* const end = list + 1 + *list;
    for (++list; list < end; ++list) {
      int32_t i = *list;
      if (i >= own_ || (node_[i].elen == kMerged && node_[i].pos >= 0)) continue;           // in the halo, or a dense row
      while (node_[i].elen == kMerged) i = static_cast<int32_t>(~node_[i].pos);
      const int32_t root = find_root(node_[i].next, ancestor.data());
      if (root < k) parent_[root] = ancestor[root] = k;
    }
  }
}

// Writes a postorder of the tree in which the parent of an element is its absorber. Each pivot is followed by the vertices that
// were merged into it or eliminated with it.
template <class Index>
void MinDegree<Index>::write_order(int32_t* order) {
  const int32_t count = static_cast<int32_t>(pivots_.size()), rows = static_cast<int32_t>(dense_.size());
  std::vector<int32_t> range;
  parent_.assign(count, -1);
  for (int32_t k = 0; k < count; ++k) node_[pivots_[k]].next = k;
  for (int32_t k = 0; k < count; ++k) {
    const Node& pivot = node_[pivots_[k]];
    if (pivot.pos < 0) parent_[k] = node_[~pivot.pos].next;
    if (pivot.pos >= 0 && rest_ >= 0 && std::max(k + 1, rest_) < count) parent_[k] = std::max(k + 1, rest_);
  }
  if (rows > 0) attach_dense_rows();
  const auto weight = [&](int32_t k) { return k < count ? node_[pivots_[k]].nv : 1; };
  const auto update = [&](int32_t k) { return k < count ? node_[pivots_[k]].degree + rows : rows - 1 - (k - count); };
  const auto square = [](double x) { return x * x; };
  const std::vector<int32_t> first = first_children(
      parent_, count + rows, [&](int32_t k) { return square(weight(k) + update(k)); }, [&](int32_t k) { return square(update(k)); });
  lay_out_postorder(Forest(parent_), range, weight, [&](int32_t k, int32_t begin, int32_t) {
    if (k >= count) {
      order[begin] = dense_[k - count];
      return;
    }
    order[begin] = pivots_[k];
    node_[pivots_[k]].w = begin;
    node_[pivots_[k]].next = begin + 1;         // from now on the next free position of this pivot's vertices
  }, first.data());
  for (size_t g = gone_.size(); g-- > 0;) {     // last first: merged into a pivot, or into a vertex whose pivot is known
    const int32_t i = gone_[g];
    Node& a = node_[i];
    const Node& container = node_[~a.pos];
    if (container.elen == kMerged) a.pos = container.pos;
    a.w = node_[~a.pos].next++;
    order[a.w] = i;
  }
}

// Elimination tree and column counts. The columns of one pivot have the same rows below them. The parent is the first vertex of
// the element's list that is eliminated: the absorber if it is in the list, else (aggressive absorption) it is searched for. If
// only the halo is left in the list, it is the first vertex of the halo.
template <class Index>
void MinDegree<Index>::tree(Elimination& result) const {
  if (!dense_.empty() || rest_ >= 0) return;
  result.parent.resize(n_);
  result.colcount.resize(n_);
  for (size_t k = 0; k < pivots_.size(); ++k) {
    const Node& pivot = node_[pivots_[k]];
    const int32_t begin = pivot.w, end = begin + pivot.nv;
    for (int32_t j = begin; j < end; ++j) {
      result.parent[j] = j + 1;
      result.colcount[j] = pivot.degree + end - j;
    }
    const int32_t root = pivot.degree > 0 ? own_ : -1;
    result.parent[end - 1] = parent_[k] < 0 ? root : node_[pivots_[parent_[k]]].w;
  }
  for (const Aggressive& a : aggressive_) {
    int32_t first = own_;
    for (int32_t m = a.begin; m < a.end; ++m)
      if (members_[m] < own_) first = std::min(first, node_[members_[m]].w);
    const Node& pivot = node_[a.element];
    result.parent[pivot.w + pivot.nv - 1] = first;
  }
  for (int32_t j = own_; j < n_; ++j) {
    result.parent[j] = j + 1 < n_ ? j + 1 : -1;
    result.colcount[j] = n_ - j;
  }
}

template void MinDegree<int32_t>::attach_dense_rows();
template void MinDegree<int64_t>::attach_dense_rows();
template void MinDegree<int32_t>::write_order(int32_t*);
template void MinDegree<int64_t>::write_order(int32_t*);
template void MinDegree<int32_t>::tree(Elimination&) const;
template void MinDegree<int64_t>::tree(Elimination&) const;

}  // namespace ms::order
