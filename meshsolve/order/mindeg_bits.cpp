// Exact minimum degree with halo on a bit matrix: a row for each own vertex, a bit for each own and halo vertex, its own bit
// set. A pivot's row is joined to the rows of its neighbours; a degree is a count of bits. Twins (neighbours with equal rows)
// become one supervariable; neighbours whose row is the pivot's go with it. On leaves of a dissection this takes half of the
// time of lists (mindeg.cpp), and degrees are no bounds. leaf.cu does the same on the device.
// Source: Rose 1972 for the elimination graph; mass elimination and external degrees: Amestoy, Davis, Duff 1996, section 3;
// the halo: Pellegrini, Roman, Amestoy 2000. Cost of a pivot: its neighbouring supervariables times the words of a row.
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

// Words of a row, of the widths that eliminate_all() is compiled for.
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

// `to` stands for the vertices of `from`, too.
void BitMinDegree::append(int32_t to, int32_t from) {
  node_[node_[to].last_twin].twin = from;
  node_[to].last_twin = node_[from].last_twin;
  node_[to].size += node_[from].size;
  clear(first_, from);
}

void BitMinDegree::bury(int32_t i) {
  for (; i >= 0; i = node_[i].twin) clear(alive_, i);
}

template <int kWords>
void BitMinDegree::eliminate_all() {
  for (int32_t i = own_; i-- > 0;) {
    const auto count = [](int32_t sum, uint64_t bits) { return sum + std::popcount(bits); };
    node_[i] = {std::accumulate(row(i), row(i) + kWords, -1, count), 1, kNone, kNone, kNone, i};
    by_degree_.insert(i);
  }
  while (left_ > 0) {
    Pivot<kWords> pivot = take<kWords>(by_degree_.take());
    join_rows(pivot);
    merge_twins(pivot);
    finish(pivot.vertex, pivot.taken);
  }
}

// The pivot, with its neighbours in its row. Roots next to it become its children: their bits are never cleared in a row.
template <int kWords>
BitMinDegree::Pivot<kWords> BitMinDegree::take(int32_t me) {
  Pivot<kWords> pivot{me, 0, {}, {}};
  bury(me);
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

// neighbours_ = the supervariables next to the pivot that are left, with their rows joined to its own.
template <int kWords>
void BitMinDegree::join_rows(Pivot<kWords>& pivot) {
  int32_t reach = 0;
  for (int w = 0; w < kWords; ++w) reach += std::popcount(pivot.row[w]);
  neighbours_.clear();
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
      neighbours_.push_back({u, count, static_cast<uint32_t>(hash >> 32), kNone});
    } else {                                          // mass elimination: u has no neighbour but the pivot's
      pivot.taken += node_[u].size;
      bury(u);
      append(pivot.vertex, u);
    }
  };
  for (int w = 0; w < kWords; ++w) for_each_bit(pivot.row[w] & first_[w], 64 * w, join);
}

template <int kWords>
void BitMinDegree::merge_twins(const Pivot<kWords>& pivot) {
  for (int32_t k = 0; k < static_cast<int32_t>(neighbours_.size()); ++k) {
    Neighbour& u = neighbours_[k];
    int32_t& bucket = bucket_[u.hash % kBuckets];
    for (int32_t j = bucket; j >= 0 && u.vertex >= 0; j = neighbours_[j].next)
      if (neighbours_[j].hash == u.hash && merge<kWords>(neighbours_[j].vertex, u.vertex, pivot.alive)) u.vertex = kNone;
    if (u.vertex < 0) continue;
    u.next = bucket;
    bucket = k;
  }
}

// Makes j a twin of i if it is one.
template <int kWords>
bool BitMinDegree::merge(int32_t i, int32_t j, const uint64_t* alive) {
  uint64_t differ = 0;
  for (int w = 0; w < kWords; ++w) differ |= (row(i)[w] ^ row(j)[w]) & alive[w];
  if (differ != 0) return false;
  for (int w = 0; w < kWords; ++w) row(i)[w] |= row(j)[w];        // roots next to j alone
  append(i, j);
  return true;
}

void BitMinDegree::finish(int32_t me, int32_t taken) {
  for (const Neighbour& u : neighbours_) {
    bucket_[u.hash % kBuckets] = kNone;
    if (u.vertex < 0) continue;
    node_[u.vertex].degree = u.bits - taken - node_[u.vertex].size;
    by_degree_.insert(u.vertex);
  }
  left_ -= node_[me].size;
}

void BitMinDegree::write_order(int32_t* order) {
  const auto weight = [&](int32_t k) { return node_[pivots_[k]].size; };
  lay_out_postorder(parent_, static_cast<int32_t>(pivots_.size()), range_, weight, [&](int32_t k, int32_t at) {
    for (int32_t i = pivots_[k]; i >= 0; i = node_[i].twin) order[at++] = i;
  });
}

}  // namespace ms::order
