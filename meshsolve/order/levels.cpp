// Properties of a graph before it is ordered: the spread of its degrees, and breadth-first level structures. The width of the
// levels separates graphs without small separators (random graphs, nearest neighbors in many dimensions) from meshes and grids.
// Their growth separates volumes from surfaces.
// A search ends after a number of levels, or when half of the vertices are reached. In a mesh, twenty levels are some thousand
// vertices.
// Term: Gibbs, Poole, Stockmeyer 1976, "An algorithm for reducing the bandwidth and profile of a sparse matrix".
// Cost: O(n) for the degrees, O(nnz) for the searches of a graph without small separators.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "order.hpp"

namespace ms::order {

namespace {

constexpr int kSearches = 3;                // number of searches: a start may lie in a small component
constexpr int64_t kMinDegree = 3;         // degree of a vertex that counts: eliminating one of lower degree adds at most one edge
constexpr int64_t kDenseRow = 4;          // multiple of the mean degree from which a row is dense: it widens a level, not a front
constexpr double kDenseShare = 0.02;      // largest share of the entries in dense rows for which the levels are meaningful

class Search {
 public:
  Search(const Pattern& pattern, bool with_diagonal) : A_(pattern), diagonal_(with_diagonal), seen_(A_.n, 0) {
    int64_t nonempty = 0;
    for (int32_t i = 0; i < A_.n; ++i) nonempty += degree(i) > 0;
    max_degree_ = kDenseRow * (A_.nnz() / std::max<int64_t>(nonempty, 1) + 1);
  }

  bool has_many_dense_entries() const {
    int64_t dense = 0;
    for (int32_t i = 0; i < A_.n; ++i) dense += degree(i) > max_degree_ ? degree(i) : 0;
    return static_cast<double>(dense) > kDenseShare * static_cast<double>(A_.nnz());
  }

  Levels from(int32_t start, int levels, int32_t mark) {
    Levels found;
    std::vector<size_t> reached{0};          // number of vertices before each level
    queue_.assign(1, start);
    seen_[start] = mark;
    for (size_t begin = 0, end = 1; levels-- > 0 && begin < end && 2 * end < seen_.size(); end = queue_.size()) {
      reached.push_back(end);
      for (; begin < end; ++begin) expand(queue_[begin], mark);
      found.width = std::max<int64_t>(found.width, std::count_if(queue_.begin() + static_cast<int64_t>(end), queue_.end(),
                                                                 [&](int32_t i) { return degree(i) >= kMinDegree; }));
    }
    const size_t last = reached.size() - 1;
    if (last >= 4) found.dimension = std::log(static_cast<double>(reached[last]) / static_cast<double>(reached[last / 2])) /
                                     std::log(static_cast<double>(last) / static_cast<double>(last / 2));
    return found;
  }

 private:
  int64_t degree(int32_t i) const { return A_.ptr[i + 1] - A_.ptr[i] - diagonal_; }

  void expand(int32_t i, int32_t mark) {
    if (degree(i) > max_degree_) return;
    for (int64_t p = A_.ptr[i]; p < A_.ptr[i + 1]; ++p)
      if (seen_[A_.idx[p]] != mark) {
        seen_[A_.idx[p]] = mark;
        queue_.push_back(A_.idx[p]);
      }
  }

  const Pattern& A_;
  const int64_t diagonal_;
  int64_t max_degree_ = 0;                  // rows with more entries are dense
  std::vector<int32_t> seen_, queue_;       // seen: number of the last search that visited the vertex
};

}  // namespace

double degree_spread(const int64_t* ptr, int64_t n, int64_t left_out) {
  constexpr int64_t counted = 4096;         // lengths below it are counted, longer ones are sorted
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
  const auto add = [&](int64_t degree, int64_t times) {           // in ascending order
    const double d = static_cast<double>(degree), used = std::min(static_cast<double>(times), left);
    sum += used * d;
    squares += used * d * d;
    left -= used;
  };
  for (int64_t degree = 0; degree < counted; ++degree) add(degree, rows[degree]);
  for (const int64_t degree : longer) add(degree, 1);
  const double mean = sum / count;
  return std::sqrt(std::max(squares / count - mean * mean, 0.0)) / std::max(mean, 1.0);
}

Levels levels(const Pattern& A, int most, bool diagonal) {
  Search search(A, diagonal);
  Levels found;
  if (search.has_many_dense_entries()) return found;
  for (int k = 0; k < kSearches && k < A.n; ++k) {
    const Levels one = search.from(static_cast<int32_t>((2 * k + 1) * int64_t{A.n} / (2 * kSearches)), most, k + 1);
    found = {std::max(found.width, one.width), std::max(found.dimension, one.dimension)};
  }
  return found;
}

}  // namespace ms::order
