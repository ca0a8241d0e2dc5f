// Column counts of L without L. Source: Gilbert, Ng, Peyton 1994, "An efficient algorithm to compute row and column counts for
// sparse Cholesky factorization", section 4. Cost: O(nnz alpha(n)); scratch 4 n. Row i of L is a subtree of the elimination tree.
// A leaf j of it has a_ij != 0, and no descendant of j has an entry in row i. Each leaf adds one to the columns above it; from
// the lowest common ancestor (LCA) of two leaves on, their paths count once. These leaves, stored by rows, are the skeleton of A,
// from which the row lists of supernodes are computed. All labels are in postorder except `i`: rows keep their given numbers,
// which are only positions. Threads process subtrees and store the leaves that they find in rows above their subtree separately.
// The caller processes the columns above the subtrees and merges these leaves.
#include <algorithm>
#include <utility>

#include "native/forest.hpp"
#include "native/memory/raw_vector.hpp"
#include "parts.hpp"
#include "symbolic.hpp"

namespace ms::symbolic {

namespace {

struct Leaf { int32_t row, column; };

class Counting {
 public:
  Counting(Triangles& A, const Postorder& order, const std::vector<int32_t>& parent, Skeleton* skeleton, int threads)
      : A_(A), position_(order.position), size_(order.size), parent_(parent), skeleton_(skeleton), n_(static_cast<int32_t>(parent.size())),
        first_(n_), ancestor_(n_), post_(inverse(position_.data(), n_, threads)), previous_(n_), count_(n_),
        leaves_(skeleton ? n_ : 0) {
    for_range(threads, n_, kRows, [&](int64_t begin, int64_t end, int) {
      for (int32_t k = static_cast<int32_t>(begin); k < end; ++k) {
        first_[k] = k + 1 - size_[k];                                 // first descendant
        ancestor_[k] = k;
        previous_[k] = -1;
        count_[k] = size_[k] == 1;                                    // a leaf of the tree
      }
    });
  }

  std::vector<int32_t> run(int threads);

 private:
  template <bool InSubtree>
  void visit(int32_t k, int32_t end, std::vector<int32_t>& last_above, std::vector<Leaf>& above);
  void climb(int32_t k);
  void note(int32_t i, int32_t k) {
    if (skeleton_) A_.columns[A_.begin[i] + leaves_[i]++] = k;        // overwrites entries: a row has no more leaves than these
  }
  void join(const std::vector<Leaf>& above, int32_t begin);

  Triangles& A_;
  const std::vector<int32_t>& position_;
  const std::vector<int32_t>& size_;            // of subtrees
  const std::vector<int32_t>& parent_;
  Skeleton* const skeleton_;
  const int32_t n_;
  RawVector<int32_t> first_, ancestor_;
  std::vector<int32_t> post_, previous_, count_, leaves_;
};

// Column k. InSubtree: it is in a subtree that ends before `end`, and `last_above` has the last leaves of the rows above the subtree.
template <bool InSubtree>
inline void Counting::visit(int32_t k, int32_t end, std::vector<int32_t>& last_above, std::vector<Leaf>& above) {
  const int32_t j = post_[k];
  for (int64_t p = A_.begin[j + 1] - A_.upper[j]; p < A_.begin[j + 1]; ++p) {
    const int32_t i = A_.columns[p];
    const bool inside = !InSubtree || position_[i] < end;
    int32_t& leaf = inside ? previous_[i] : last_above[i];
    if (leaf >= first_[k]) continue;                              // a descendant of k is in this row, so k is not a leaf
    ++count_[k];
    if (leaf >= 0) --count_[find_root(leaf, ancestor_.data())];   // LCA(leaf, k): the root of a finished subtree
    leaf = k;
    if (inside)
      note(i, k);
    else
      above.push_back({i, k});
  }
}

void Counting::climb(int32_t k) {
  if (parent_[k] < 0) return;
  --count_[parent_[k]];
  ancestor_[k] = parent_[k];
}

// Merges the leaves of a finished subtree, whose first node is `begin`, in the rows above it.
void Counting::join(const std::vector<Leaf>& above, int32_t begin) {
  for (const Leaf& leaf : above) {
    const int32_t before = std::exchange(previous_[leaf.row], leaf.column);
    if (before >= 0 && before < begin) --count_[find_root(before, ancestor_.data())];
    note(leaf.row, leaf.column);
  }
}

std::vector<int32_t> Counting::run(int threads) {
  const std::vector<Span> parts = subtrees(parent_, size_, threads);
  std::vector<std::vector<Leaf>> above(parts.size());
  std::vector<std::vector<int32_t>> last_above(threads);
  for_each_part(threads, parts, [&](int64_t s, int worker) {
    last_above[worker].resize(n_, -1);
    for (int32_t k = parts[s].begin; k < parts[s].end; ++k) {
      visit<true>(k, parts[s].end, last_above[worker], above[s]);
      if (k + 1 < parts[s].end) climb(k);
    }
    for (const Leaf& leaf : above[s]) last_above[worker][leaf.row] = -1;
  });
  size_t next = 0;
  std::vector<Leaf> none;
  for (int32_t k = 0; k < n_; ++k) {
    if (next < parts.size() && k == parts[next].begin) {
      join(above[next], k);
      k = parts[next++].end - 1;
    } else {
      if (k % (1 << 15) == 0) interrupt::poll();
      visit<false>(k, n_, previous_, none);
    }
    climb(k);
  }
  Forest(parent_, parts, threads).children_first([&](int32_t k) {
    if (parent_[k] >= 0) count_[parent_[k]] += count_[k];
  });
  if (skeleton_) *skeleton_ = {std::move(post_), std::move(A_.begin), std::move(leaves_), std::move(A_.columns)};
  return std::move(count_);
}

}  // namespace

std::vector<int32_t> colcount(Triangles A, const Postorder& order, const std::vector<int32_t>& parent, int threads, Skeleton* skeleton) {
  return Counting(A, order, parent, skeleton, threads).run(threads);
}

}  // namespace ms::symbolic
