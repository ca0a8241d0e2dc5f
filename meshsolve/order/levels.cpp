// What a graph looks like, before anything is ordered: how its degrees vary, and breadth-first level structures. Their width tells
// graphs without small separators (random ones, nearest neighbours in many dimensions) from meshes and grids, their growth surfaces from
// solids. A search ends where half of the vertices are reached, or after some levels: in such a graph few reach them all, and in a mesh a
// search of twenty visits some thousand vertices.
// Term: Gibbs, Poole and Stockmeyer 1976, "An algorithm for reducing the bandwidth and profile of a sparse matrix".
#include <algorithm>
#include <cmath>
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

  Levels from(int32_t start, int levels, int32_t mark) {
    Levels found;
    std::vector<size_t> reached{0};          // vertices before each level
    queue_.assign(1, start);
    seen_[start] = mark;
    for (size_t begin = 0, end = 1; levels-- > 0 && begin < end && 2 * end < seen_.size(); end = queue_.size()) {
      reached.push_back(end);
      for (; begin < end; ++begin) expand(queue_[begin], mark);
      found.width = std::max<int64_t>(found.width, std::count_if(queue_.begin() + static_cast<int64_t>(end), queue_.end(),
                                                                 [&](int32_t i) { return degree(i) >= inner; }));
    }
    const size_t last = reached.size() - 1;
    if (last >= 4) found.dimension = std::log(static_cast<double>(reached[last]) / static_cast<double>(reached[last / 2])) /
                                     std::log(static_cast<double>(last) / static_cast<double>(last / 2));
    return found;
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

double degree_spread(const int64_t* ptr, int64_t n, int64_t left_out) {
  constexpr int64_t counted = 4096;         // shorter lengths are counted, longer ones sorted
  std::vector<int64_t> rows(counted), longer;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t degree = ptr[i + 1] - ptr[i];
    if (degree < counted)
      ++rows[degree];
    else
      longer.push_back(degree);
  }
  std::sort(longer.begin(), longer.end());
  double sum = 0, squares = 0, left = static_cast<double>(n - left_out);
  const double count = left;
  const auto add = [&](int64_t degree, int64_t times) {           // the shortest come first
    const double d = static_cast<double>(degree), taken = std::min(static_cast<double>(times), left);
    sum += taken * d;
    squares += taken * d * d;
    left -= taken;
  };
  for (int64_t degree = 0; degree < counted; ++degree) add(degree, rows[degree]);
  for (const int64_t degree : longer) add(degree, 1);
  const double mean = sum / count;
  return std::sqrt(std::max(squares / count - mean * mean, 0.0)) / std::max(mean, 1.0);
}

Levels levels(const Pattern& A, int most, bool diagonal) {
  Search search(A, diagonal);
  Levels found;
  if (search.has_hubs()) return found;
  for (int k = 0; k < starts && k < A.n; ++k) {
    const Levels one = search.from(static_cast<int32_t>((2 * k + 1) * int64_t{A.n} / (2 * starts)), most, k + 1);
    found = {std::max(found.width, one.width), std::max(found.dimension, one.dimension)};
  }
  return found;
}

}  // namespace ms::order
