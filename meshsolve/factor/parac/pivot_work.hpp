// What one worker eliminates with: the gathered edges of the pivot, and the columns of G it has made so far.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "parac.hpp"
#include "pivot.hpp"

namespace ms::parac {

// Few edges are sorted by counting, for each, those before it: no branch depends on the values, and most pivots have few.
template <class Less>
inline void sort_edges(Edge* e, int64_t d, Less less) {
  constexpr int64_t few = 16;
  if (d > few) {
    std::sort(e, e + d, less);
    return;
  }
  Edge sorted[few];
  int rank[few] = {};
  for (int64_t i = 1; i < d; ++i)
    for (int64_t j = 0; j < i; ++j) {
      const int before = less(e[j], e[i]);
      rank[i] += before;
      rank[j] += 1 - before;
    }
  for (int64_t i = 0; i < d; ++i) sorted[rank[i]] = e[i];
  std::copy(sorted, sorted + d, e);
}

template <class T>
class PivotWork {
 public:
  std::vector<int32_t> rows;            // of the columns made so far, one after the other
  std::vector<T> values;

  // Gathers a new pivot; add_if() may then be called `entries` times without a check.
  void begin(int64_t entries) {
    count_ = 0;
    if (static_cast<int64_t>(edges_.size()) <= entries) edges_.resize(2 * entries + 64);
  }
  void add_if(bool wanted, const Edge& e) {       // no branch: whether a neighbour is still there is as good as random
    edges_[count_] = e;
    count_ += wanted;
  }
  void add(const Edge& e) {
    if (count_ + 1 >= static_cast<int64_t>(edges_.size())) edges_.resize(2 * edges_.size() + 64);
    edges_[count_++] = e;
  }
  std::span<const Edge> edges() const { return {edges_.data(), static_cast<size_t>(count_)}; }

  // Merges the gathered edges, none lighter than `floor` then, and appends the column, without its entry for the ground and with
  // rows named by `name` if that is there; returns its pivot D, 0 where no neighbour is left.
  double make_column(int samples, int32_t ground, const int32_t* name = nullptr, double floor = 0) {
    if (count_ == 0) return 0;
    Edge* const e = edges_.data();
    sort_edges(e, count_, nearer);
    const int64_t d = count_ = merge_copies(e, count_, samples);
    for (int64_t i = 0; i < d && floor > 0; ++i) e[i].w = std::max(e[i].w, floor);
    const int64_t kept = d - (e[d - 1].to == ground), at = static_cast<int64_t>(rows.size());
    rows.resize(at + kept);
    values.resize(at + kept);
    weights_.resize(kept);
    for (int64_t i = 0; i < kept; ++i) {
      rows[at + i] = name ? name[e[i].to] : e[i].to;
      weights_[i] = e[i].w;
    }
    sort_edges(e, d, lighter);
    suffix_.resize(d + 1);
    suffix_sums(e, d, suffix_.data());
    const double total = suffix_[0];
    for (int64_t i = 0; i < kept; ++i) values[at + i] = static_cast<T>(weights_[i] / total);
    return total;
  }

  // After make_column().
  template <class Emit>
  int64_t sample(uint64_t stream, Emit&& emit) const {
    return sample_clique(edges_.data(), count_, suffix_.data(), stream, emit);
  }

 private:
  std::vector<Edge> edges_;             // the first count_ are those of the pivot
  int64_t count_ = 0;
  std::vector<double> suffix_, weights_;
};

}  // namespace ms::parac
