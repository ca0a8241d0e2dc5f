// Exact minimum degree with halo on a bit matrix: one row per own vertex, one bit per own and halo vertex, with the diagonal set.
// A pivot's row is merged into the rows of its neighbors; a degree is a count of bits. Indistinguishable nodes (adjacent, with
// equal rows) become one supervariable. Neighbors whose row equals the pivot's are eliminated with it. For leaves of a dissection
// this takes half of the time of lists (mindeg.cpp), and degrees are exact. leaf.cu is the GPU version.
// Source: elimination graph: Rose 1972; mass elimination and external degrees: Amestoy, Davis, Duff 1996, section 3; halo:
// Pellegrini, Roman, Amestoy 2000. Cost of a pivot: number of adjacent supervariables times the words of a row.
#include "mindeg_bits.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "native/forest.hpp"

namespace ms::order {
namespace {

constexpr int32_t kNone = -1;

template <class F>
void for_each_bit(uint64_t bits, int32_t first, F&& f) {
  for (; bits != 0; bits &= bits - 1) f(first + std::countr_zero(bits));
}

// Number of words per row, rounded up to a width that eliminate_all() is compiled for.
int32_t width_for(int32_t vertices) {
  for (const int32_t words : {4, 6, 8, 12})
    if (vertices <= 64 * words) return words;
  return BitMinDegree::most_vertices / 64;
}

}  // namespace

void BitMinDegree::begin(int32_t own, int32_t halo) {
  own_ = own, halo_ = halo, words_ = width_for(own + halo), left_ = own;
  const int64_t size = static_cast<int64_t>(own) * words_;
  if (rows_.size() < size) rows_ = Buffer<uint64_t>(size);
  std::fill(rows_.data(), rows_.data() + size, 0);
  for (uint64_t* bits : {alive_, first_, roots_}) std::fill(bits, bits + kMostWords, 0);
  for (int32_t i = 0; i < own + halo; ++i) set(alive_, i);
  for (int32_t i = 0; i < own; ++i) set(first_, i), connect(i, i);
  std::fill(bucket_, bucket_ + kBuckets, kNone);
  node_.resize(own);
  by_degree_.begin(node_.data(), own + halo);
  step_.resize(own);
  parent_.assign(own, kNone);
  pivots_.clear();
}

void BitMinDegree::run(int32_t* order) {
  switch (words_) {
    case 4: eliminate_all<4>(); break;
    case 6: eliminate_all<6>(); break;
    case 8: eliminate_all<8>(); break;
    case 12: eliminate_all<12>(); break;
    default: eliminate_all<kMostWords>();
  }
  write_order(order);
}

// Merges supervariable `from` into `to`.
void BitMinDegree::append(int32_t to, int32_t from) {
  node_[node_[to].last_member].next_member = from;
  node_[to].last_member = node_[from].last_member;
  node_[to].size += node_[from].size;
  clear(first_, from);
}

void BitMinDegree::mark_eliminated(int32_t i) {
  for (; i >= 0; i = node_[i].next_member) clear(alive_, i);
}

template <int kWords>
void BitMinDegree::eliminate_all() {
  for (int32_t i = own_; i-- > 0;) {
    const auto count = [](int32_t sum, uint64_t bits) { return sum + std::popcount(bits); };
    node_[i] = {std::accumulate(row(i), row(i) + kWords, -1, count), 1, kNone, kNone, kNone, i};
    by_degree_.insert(i);
  }
  while (left_ > 0) {
    Pivot<kWords> pivot = start_pivot<kWords>(by_degree_.pop());
    update_rows(pivot);
    merge_indistinguishable(pivot);
    finish(pivot.vertex, pivot.eliminated);
  }
}

// The pivot, with its live neighbors in its row. Adjacent roots become its children; their bits are never cleared in a row.
template <int kWords>
BitMinDegree::Pivot<kWords> BitMinDegree::start_pivot(int32_t me) {
  Pivot<kWords> pivot{me, 0, {}, {}};
  mark_eliminated(me);
  clear(first_, me);
  const int32_t step = static_cast<int32_t>(pivots_.size());
  for (int w = 0; w < kWords; ++w) {
    pivot.alive[w] = alive_[w];
    pivot.row[w] = row(me)[w] & alive_[w];
    for_each_bit(row(me)[w] & roots_[w], 64 * w, [&](int32_t child) { parent_[step_[child]] = step; });
    roots_[w] &= ~row(me)[w];
  }
  set(roots_, me);
  step_[me] = step;
  pivots_.push_back(me);
  return pivot;
}

// Merges the row of the pivot into the rows of adjacent supervariables. neighbors_ = those that are not eliminated with it.
template <int kWords>
void BitMinDegree::update_rows(Pivot<kWords>& pivot) {
  int32_t reach = 0;
  for (int w = 0; w < kWords; ++w) reach += std::popcount(pivot.row[w]);
  neighbors_.clear();
  const auto join = [&](int32_t u) {
    by_degree_.remove(u);
    uint64_t* const other = row(u);
    int32_t count = 0;
    uint64_t hash = 0;
    for (int w = 0; w < kWords; ++w) {
      other[w] |= pivot.row[w];
      const uint64_t bits = other[w] & pivot.alive[w];
      count += std::popcount(bits);
      hash += bits * (0x9e3779b97f4a7c15u * (2 * w + 1));
    }
    if (count > reach) {
      neighbors_.push_back({u, count, static_cast<uint32_t>(hash >> 32), kNone});
    } else {                                          // mass elimination: u has no other neighbors than the pivot
      pivot.eliminated += node_[u].size;
      mark_eliminated(u);
      append(pivot.vertex, u);
    }
  };
  for (int w = 0; w < kWords; ++w) for_each_bit(pivot.row[w] & first_[w], 64 * w, join);
}

template <int kWords>
void BitMinDegree::merge_indistinguishable(const Pivot<kWords>& pivot) {
  for (int32_t k = 0; k < static_cast<int32_t>(neighbors_.size()); ++k) {
    Neighbor& u = neighbors_[k];
    int32_t& bucket = bucket_[u.hash % kBuckets];
    for (int32_t j = bucket; j >= 0 && u.vertex >= 0; j = neighbors_[j].next)
      if (neighbors_[j].hash == u.hash && merge<kWords>(neighbors_[j].vertex, u.vertex, pivot.alive)) u.vertex = kNone;
    if (u.vertex < 0) continue;
    u.next = bucket;
    bucket = k;
  }
}

// Merges j into i if their rows are equal.
template <int kWords>
bool BitMinDegree::merge(int32_t i, int32_t j, const uint64_t* alive) {
  uint64_t differ = 0;
  for (int w = 0; w < kWords; ++w) differ |= (row(i)[w] ^ row(j)[w]) & alive[w];
  if (differ != 0) return false;
  for (int w = 0; w < kWords; ++w) row(i)[w] |= row(j)[w];        // bits of eliminated vertices may differ
  append(i, j);
  return true;
}

void BitMinDegree::finish(int32_t me, int32_t eliminated) {
  for (const Neighbor& u : neighbors_) {
    bucket_[u.hash % kBuckets] = kNone;
    if (u.vertex < 0) continue;
    node_[u.vertex].degree = u.bits - eliminated - node_[u.vertex].size;
    by_degree_.insert(u.vertex);
  }
  left_ -= node_[me].size;
}

void BitMinDegree::write_order(int32_t* order) {
  const auto weight = [&](int32_t k) { return node_[pivots_[k]].size; };
  parent_.resize(pivots_.size());
  lay_out_postorder(Forest(parent_), range_, weight, [&](int32_t k, int32_t at, int32_t) {
    for (int32_t i = pivots_[k]; i >= 0; i = node_[i].next_member) order[at++] = i;
  });
}

}  // namespace ms::order
