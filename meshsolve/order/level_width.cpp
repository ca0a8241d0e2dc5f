// The width of breadth-first level structures, which tells graphs without small separators (random ones, nearest neighbours in many
// dimensions) from meshes and grids before anything is ordered. A search ends where half of the vertices are reached, or after some
// levels: in such a graph few reach them all, and in a mesh a search of twenty visits some thousand vertices.
// Term: Gibbs, Poole and Stockmeyer 1976, "An algorithm for reducing the bandwidth and profile of a sparse matrix".
#include <algorithm>
#include <cstdint>
#include <vector>

#include "order.hpp"

namespace ms::order {

namespace {

constexpr int starts = 3;                 // one may lie in a small component
constexpr int64_t inner = 3;              // neighbours of a vertex that counts: to eliminate one with fewer joins nobody anew
constexpr int64_t hub = 4;                // times the mean degree: a level with one in it is wide, whatever elimination costs
constexpr double few = 0.02;              // of the entries that hubs may hold: else they are what the graph is made of

class Search {
 public:
  Search(const Pattern& pattern, bool with_diagonal) : A_(pattern), diagonal_(with_diagonal), seen_(A_.n, 0) {
    int64_t joined = 0;
    for (int32_t i = 0; i < A_.n; ++i) joined += degree(i) > 0;
    most_ = hub * (A_.nnz() / std::max<int64_t>(joined, 1) + 1);
  }

  bool has_hubs() const {
    int64_t held = 0;
    for (int32_t i = 0; i < A_.n; ++i) held += degree(i) > most_ ? degree(i) : 0;
    return static_cast<double>(held) > few * static_cast<double>(A_.nnz());
  }

  int64_t width_from(int32_t start, int levels, int32_t mark) {
    int64_t widest = 0;
    queue_.assign(1, start);
    seen_[start] = mark;
    for (size_t begin = 0, end = 1; levels-- > 0 && begin < end && 2 * end < seen_.size(); end = queue_.size()) {
      for (; begin < end; ++begin) expand(queue_[begin], mark);
      widest = std::max<int64_t>(widest, std::count_if(queue_.begin() + static_cast<int64_t>(end), queue_.end(),
                                                       [&](int32_t i) { return degree(i) >= inner; }));
    }
    return widest;
  }

 private:
  int64_t degree(int32_t i) const { return A_.ptr[i + 1] - A_.ptr[i] - diagonal_; }

  void expand(int32_t i, int32_t mark) {
    if (degree(i) > most_) return;
    for (int64_t p = A_.ptr[i]; p < A_.ptr[i + 1]; ++p)
      if (seen_[A_.idx[p]] != mark) {
        seen_[A_.idx[p]] = mark;
        queue_.push_back(A_.idx[p]);
      }
  }

  const Pattern& A_;
  const int64_t diagonal_;
  int64_t most_ = 0;                        // neighbours of a vertex that is no hub
  std::vector<int32_t> seen_, queue_;       // seen: the number of the search that was there last
};

}  // namespace

int64_t level_width(const Pattern& A, int levels, bool diagonal) {
  Search search(A, diagonal);
  if (search.has_hubs()) return 0;
  int64_t widest = 0;
  for (int k = 0; k < starts && k < A.n; ++k)
    widest = std::max(widest, search.width_from(static_cast<int32_t>((2 * k + 1) * int64_t{A.n} / (2 * starts)), levels, k + 1));
  return widest;
}

}  // namespace ms::order
