// State of one worker of the elimination: the gathered edges of the current pivot, their samples, and its columns of G.
// Cost of a pivot of d edges: O(d log d) for two sorts, O(samples d) for the samples.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "native/memory/buffer.hpp"
#include "parac.hpp"
#include "pivot.hpp"

namespace ms::parac {

// ---- stable sorts of the edges of a pivot, by neighbor and by weight -----------------------------------------------------

constexpr int64_t few = 12;             // most edges that are sorted by ranks; most pivots have no more

// Sorts few edges by their ranks. No branch depends on the values.
template <class Less>
inline void rank_edges(const Edge* from, Edge* to, int64_t d, Less&& less) {
  int rank[few] = {};
  for (int64_t i = 1; i < d; ++i)
    for (int64_t j = 0; j < i; ++j) {
      const int after = less(from[i], from[j]);
      rank[i] += 1 - after;
      rank[j] += after;
    }
  for (int64_t i = 0; i < d; ++i) to[rank[i]] = from[i];
}

template <class Less>
inline void merge_runs(const Edge* a, const Edge* a_end, const Edge* b, const Edge* b_end, Edge* to, Less&& less) {
  while (a < a_end && b < b_end) {      // conditional moves, no branch
    const bool second = less(*b, *a);
    *to++ = second ? *b : *a;
    a += !second;
    b += second;
  }
  std::copy(b, b_end, std::copy(a, a_end, to));
}

// Stable sort of from[0 .. d) into to[0 .. d). The content of `from` is destroyed. More than `few` edges: merge sort from runs of
// 8.
template <class Less>
inline void sort_edges(Edge* from, Edge* to, int64_t d, Less&& less) {
  if (d <= few) return rank_edges(from, to, d, less);
  for (int64_t i = 0; i < d; i += 8) rank_edges(from + i, to + i, std::min<int64_t>(8, d - i), less);
  Edge *source = to, *target = from;
  for (int64_t run = 8; run < d; run *= 2, std::swap(source, target))
    for (int64_t i = 0; i < d; i += 2 * run) {
      const Edge *const middle = source + std::min(d, i + run), *const end = source + std::min(d, i + 2 * run);
      merge_runs(source + i, middle, middle, end, target + i, less);
    }
  if (source != to) std::copy(source, source + d, to);
}

// Sorts from[0 .. d) by neighbor into to[0 .. d) and merges the copies of each neighbor, lightest first, so the sum does not
// depend on their order in `from`. Returns the number of neighbors. If there are few edges, weights are compared only if a
// neighbor has more than two copies: a sum of two does not depend on the order.
inline int64_t merge_copies(Edge* from, Edge* to, int64_t d) {
  if (d <= few)
    rank_edges(from, to, d, [](const Edge& a, const Edge& b) { return a.to < b.to; });
  else
    sort_edges(from, to, d, nearer);
  bool two = false, three = false;
  for (int64_t i = 1; i < d; ++i) two |= to[i].to == to[i - 1].to;
  if (!two) return d;
  for (int64_t i = 2; i < d; ++i) three |= to[i].to == to[i - 2].to;
  if (three && d <= few)
    for (int64_t i = 1; i < d; ++i)
      for (int64_t k = i; k > 0 && nearer(to[k], to[k - 1]); --k) std::swap(to[k], to[k - 1]);
  int64_t kept = 0;
  Edge sum = to[0];
  for (int64_t i = 1; i < d; ++i) {     // no branch
    const bool same = to[i].to == sum.to;
    to[kept] = sum;
    kept += !same;
    sum = {sum.w * same + to[i].w, to[i].to, sum.copies * same + to[i].copies};
  }
  to[kept] = sum;
  return kept + 1;
}

template <class T>
class PivotWork {
 public:
  // Reserves address space for `entries` column entries; pages are allocated when they are written.
  void reserve(int64_t entries) {
    store_.rows.reserve(entries);
    store_.values.reserve(entries);
  }

  int64_t entries() const { return made_; }          // of all columns so far
  // Moves the columns out, one after the other.
  trisolve::Store<T> take_columns() {
    store_.rows.resize(made_);
    store_.values.resize(made_);
    return std::move(store_);
  }

  // Starts a new pivot; add_if() may then be called `entries` times.
  void begin(int64_t entries) {
    count_ = 0;
    if (capacity() <= entries) grow(2 * entries + 64);
  }
  void add_if(bool wanted, const Edge& e) {       // no branch: whether a neighbor is live is hard to predict
    edges_[count_] = e;
    count_ += wanted;
  }
  void more(int64_t entries) {          // allows `entries` further calls of add_if()
    if (capacity() <= count_ + entries) grow(2 * (count_ + entries) + 64);
  }

  // Merges the gathered edges and raises their weights to at least `floor`. Appends the column, without the ground, with rows
  // name(number). Returns the pivot D, which is 0 if no neighbor is left.
  template <class Name> double make_column(int32_t ground, double floor, Name&& name) {
    if (count_ == 0) return 0;
    Edge *const near = sorted_.data(), *const light = edges_.data();
    const int64_t d = count_ = merge_copies(light, near, count_);
    for (int64_t i = 0; i < d && floor > 0; ++i) near[i].w = std::max(near[i].w, floor);
    const int64_t kept = d - (near[d - 1].to == ground), at = made_;
    extend_store(kept);
    int32_t* const row = store_.rows.data() + at;
    for (int64_t i = 0; i < kept; ++i) {
      row[i] = name(near[i].to);
      weights_[i] = near[i].w;
    }
    sort_edges(near, light, d, [](const Edge& a, const Edge& b) { return a.w < b.w; });       // ties by neighbor
    suffix_sums(light, d, suffix_.data());
    const double total = suffix_[0];
    T* const value = store_.values.data() + at;
    for (int64_t i = 0; i < kept; ++i) value[i] = static_cast<T>(weights_[i] / total);
    return total;
  }

  // After make_column(): the neighbors by ascending weight, with the number of copies that were merged.
  std::span<const Edge> edges() const { return {edges_.data(), static_cast<size_t>(count_)}; }

  // After make_column(): emit(a, b, w) for each sample, an edge between the neighbors edges()[a] and edges()[b].
  template <class Emit>
  int64_t sample(uint64_t stream, int samples, Emit&& emit) const {
    return sample_clique(edges_.data(), count_, suffix_.data(), stream, samples, emit);
  }

  // After make_column(): draws the samples and sorts their ends by neighbor, see joining().
  int64_t sample_by_neighbor(uint64_t stream, int samples) {
    samples_.clear();
    std::fill_n(begin_.begin(), count_ + 2, 0);
    const int64_t lost = sample(stream, samples, [&](int64_t a, int64_t b, double w) {
      samples_.push_back({w, static_cast<int>(a), static_cast<int>(b)});
      ++begin_[a + 2];
      ++begin_[b + 2];
    });
    for (int64_t i = 2; i < count_ + 1; ++i) begin_[i + 1] += begin_[i];
    if (joining_.size() < 2 * samples_.size()) joining_.resize(4 * samples_.size());
    for (const Sample& s : samples_) {
      joining_[begin_[s.a + 1]++] = {s.w, edges_[s.b].to, 1};
      joining_[begin_[s.b + 1]++] = {s.w, edges_[s.a].to, 1};
    }
    return lost;
  }
  // After sample_by_neighbor(): the sampled edges that neighbor edges()[i].to receives.
  std::span<const Edge> joining(int64_t i) const {
    return {joining_.data() + begin_[i], static_cast<size_t>(begin_[i + 1] - begin_[i])};
  }

 private:
  struct Sample {
    double w;
    int a, b;
  };

  // Extends the store by a column. It grows in large steps, and new pages are touched at once.
  void extend_store(int64_t kept) {
    made_ += kept;
    if (made_ <= static_cast<int64_t>(store_.rows.size())) return;
    const int64_t size = made_ + std::max<int64_t>(1 << 12, made_ / 16);
    extend(store_.rows, size);
    extend(store_.values, size);
  }
  template <class V>
  static void extend(RawVector<V>& all, int64_t size) {
    if (static_cast<size_t>(size) <= all.capacity()) make_pages_of(all, all.size(), size);
    all.resize(size);
  }
  int64_t capacity() const { return static_cast<int64_t>(edges_.size()); }
  void grow(int64_t entries) {
    edges_.resize(entries);
    sorted_.resize(entries);
    weights_.resize(entries);
    suffix_.resize(entries + 1);
    begin_.resize(entries + 3);
  }

  trisolve::Store<T> store_;            // columns so far: the first made_ entries
  std::vector<Edge> edges_, sorted_, joining_;       // the first count_ of edges_ belong to the pivot
  int64_t count_ = 0, made_ = 0;
  std::vector<double> suffix_, weights_;
  std::vector<Sample> samples_;
  std::vector<int64_t> begin_;
};

}  // namespace ms::parac
