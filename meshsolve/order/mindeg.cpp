// Approximate minimum degree on a quotient graph: element absorption (also aggressive), mass elimination, supervariables of
// indistinguishable nodes found by hashing, dense rows last. Halo vertices count in the degrees but are never eliminated.
// Source: Amestoy, Davis, Duff 1996, "An approximate minimum degree ordering algorithm", sections 3-5; halo: Pellegrini, Roman,
// Amestoy 2000, "Hybridizing nested dissection and halo approximate minimum degree".
// Cost: O(n nnz) bound, near linear in practice, n^1.5 on random graphs; at most Limits::visits if these are given.
//
// Memory: the lists need at most nnz + n entries, since a new element is no longer than the lists that it absorbs. They have nnz
// / 2 more, so that compaction is rare. Cache misses on the lists of a new pivot dominate the time; those of the next pivot are
// prefetched.
//
// Long lists: reading the list of a dense row for each of its pivots would be quadratic. The update of such a variable is
// deferred while the bound of its degree has hardly grown. No data is kept for it: an eliminated neighbor in its list represents
// the element that it became, and an absorbed element represents its absorber.
//
// mindeg_result.cpp has the call for a pattern, and writes the order and the tree.
#include "mindeg.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "native/memory/fetch.hpp"
#include "native/threads/interrupt.hpp"
#include "order.hpp"

namespace ms::order {
namespace {
int64_t list_capacity(int64_t nnz, int64_t n) { return nnz + nnz / 2 + n + 1; }
}  // namespace

bool fits_32_bits(int64_t nnz, int64_t n) { return list_capacity(nnz, n) + n < std::numeric_limits<int32_t>::max(); }

template <class Index>
void MinDegree<Index>::begin(int32_t n, int32_t own, int64_t nnz) {
  n_ = n, own_ = own, filled_ = 0, free_ = 0, longest_ = 0;
  const int64_t capacity = list_capacity(nnz, n);
  if (lists_.size() < capacity) lists_ = Buffer<int32_t>(capacity);
  if (nodes_.size() < n) nodes_ = Buffer<Node>(n);
  node_ = nodes_.data();
  iw_ = lists_.data();
  by_degree_.begin(node_, n);
  pivots_.clear();
  gone_.clear();
  aggressive_.clear();
  members_.clear();
  dense_.clear();
  dense_lists_.clear();
  crowded_.clear();
  growth_.assign(n, 0);
  uint32_t buckets = 64;
  while (buckets < static_cast<uint32_t>(n) && buckets < 4096) buckets *= 2;
  bucket_.assign(buckets, {-1, -1});
  bucket_mask_ = buckets - 1;
}

template <class Index>
void MinDegree<Index>::begin(const Pattern& A, int32_t own) {
  const auto same = [](int32_t i) { return i; };
  add_rows(A, own, same, same);
}

template <class Index>
void MinDegree<Index>::begin(const Pattern& A, int32_t own, const std::vector<int32_t>& rows) {
  std::vector<int32_t> number(A.n);
  for (int32_t k = 0; k < A.n; ++k) number[rows[k]] = k;
  add_rows(A, own, [&](int32_t k) { return rows[k]; }, [&](int32_t i) { return number[i]; });
}

template <class Index>
template <class Row, class Number>
void MinDegree<Index>::add_rows(const Pattern& A, int32_t own, Row row, Number number) {
  begin(A.n, own, A.nnz());
  for (int32_t k = 0; k < A.n; ++k) {
    const Index begin = free_;
    for (int64_t p = A.ptr[row(k)]; p < A.ptr[row(k) + 1]; ++p) {
      const int32_t j = number(A.idx[p]);
      iw_[free_] = j;
      free_ += j != k;
    }
    add_node(begin, static_cast<int32_t>(free_ - begin));
  }
}

template <class Index>
int32_t* MinDegree<Index>::row(int32_t length) {
  add_node(free_, length);
  free_ += length;
  return iw_ + free_ - length;
}

template <class Index>
void MinDegree<Index>::add_node(Index begin, int32_t length) {
  node_[filled_++] = {begin, length, 0, 1, length, 1, -1, -1};
}

template <class Index>
bool MinDegree<Index>::run(int32_t* order, const Limits& limits) {
  double flops = 0;
  left_ = n_, to_do_ = own_, stamp_ = 2, rest_ = -1, visits_ = 0;
  remove_dense_rows();
  for (int32_t i = own_ - 1; i >= 0; --i)
    if (node_[i].nv > 0) by_degree_.insert(i);
  while (to_do_ > 0) {
    if ((pivots_.size() & 63) == 63) interrupt::poll();
    if (static_cast<double>(visits_) > limits.visits) {
      end_by_degree();
      break;
    }
    const int32_t me = by_degree_.pop();
    if (node_[me].len > kLong) [[unlikely]] catch_up(me);
    const int32_t next = by_degree_.next();   // usually the next pivot
    const bool in_place = node_[me].elen == 0;
    build_element(me);
    if (next >= 0) fetch_list(next);
    measure_elements();
    if (next >= 0) fetch_neighbors(next);
    update_degrees(me);
    if (next >= 0) fetch_elements(next);
    merge_indistinguishable();
    flops += pivot_flops();
    finish_element(me, in_place);
    if (flops > limits.flops) return false;
  }
  write_order(order);
  return true;
}

// Each remaining variable becomes a pivot without an element.
template <class Index>
void MinDegree<Index>::end_by_degree() {
  rest_ = static_cast<int32_t>(pivots_.size());
  while (to_do_ > 0) {
    const int32_t i = by_degree_.pop();
    to_do_ -= node_[i].nv;
    pivots_.push_back(i);
  }
}

// Prefetches the data of the next pivot i in three steps. Each step has one phase of the current pivot to complete before the
// next step reads its data. The node of i itself is in the cache: pop() wrote to it. Only the start of a long list is prefetched.
template <class Index>
void MinDegree<Index>::fetch_list(int32_t i) const {
  fetch(iw_ + node_[i].pos);
}

template <class Index>
void MinDegree<Index>::fetch_neighbors(int32_t i) const {
  const Node& a = node_[i];
  if (a.next >= 0) fetch(&node_[a.next]);
  for (Index p = a.pos; p < a.pos + std::min(a.len, kFetched); ++p) fetch(&node_[iw_[p]]);
}

template <class Index>
void MinDegree<Index>::fetch_elements(int32_t i) const {
  const Node& a = node_[i];
  if (a.pos < 0) return;                      // eliminated with the current pivot
  for (Index p = a.pos; p < a.pos + std::min(a.elen, kFetched); ++p)
    fetch(iw_ + std::max(node_[iw_[p]].pos, Index{0}));
}

// Operations of the columns that are eliminated with the current pivot: the sum of the squares of their lengths, an upper bound.
template <class Index>
double MinDegree<Index>::pivot_flops() const {
  const double d = pivot_degree_, w = pivot_weight_;
  return w * (d * d + (w + 1) * (d + (2 * w + 1) / 6));
}

// Removes rows that are much longer than the others. They would be scanned many times, and be eliminated late in any case.
template <class Index>
void MinDegree<Index>::remove_dense_rows() {
  const int32_t limit = static_cast<int32_t>(std::max(16.0, 10.0 * std::sqrt(static_cast<double>(n_))));
  for (int32_t i = 0; i < own_; ++i)
    if (node_[i].len > limit) dense_.push_back(i);
  for (const int32_t i : dense_) {
    Node& a = node_[i];
    dense_lists_.push_back(a.len);
    dense_lists_.insert(dense_lists_.end(), iw_ + a.pos, iw_ + a.pos + a.len);
    a.nv = 0, a.elen = kMerged, a.len = 0;
  }
  left_ -= static_cast<int32_t>(dense_.size());
  to_do_ -= static_cast<int32_t>(dense_.size());
}

// Builds Lme, the list of the new element: the variables adjacent to `me`, and those of its elements, which it absorbs. A pivot
// without elements builds the list in place.
template <class Index>
void MinDegree<Index>::build_element(int32_t me) {
  if (node_[me].elen > 0) compact_for(node_[me].degree);
  Node& pivot = node_[me];
  pivot_weight_ = pivot.nv;
  pivot_degree_ = 0;
  pivot.nv = -pivot.nv;
  to_do_ -= pivot_weight_;
  const Index begin = pivot.pos;
  if (pivot.elen == 0) {
    me_begin_ = me_end_ = begin;
    gather(begin, pivot.len);
  } else {
    me_begin_ = me_end_ = free_;
    for (int32_t k = 0; k < pivot.elen; ++k) {
      const int32_t e = iw_[begin + k];
      gather(node_[e].pos, node_[e].len);
      absorb(node_[e], me);
    }
    gather(begin + pivot.elen, pivot.len - pivot.elen);
    free_ = me_end_;
  }
  pivot.pos = me_begin_;
  pivot.len = static_cast<int32_t>(me_end_ - me_begin_);
  pivot.degree = pivot_degree_;
  pivot.elen = kElement;
}

template <class Index>
void MinDegree<Index>::absorb(Node& element, int32_t me) {
  element.pos = ~static_cast<Index>(me);
  element.prev = me;
  element.w = 0;
}

template <class Index>
void MinDegree<Index>::gather(Index begin, int32_t length) {
  visits_ += length;
  Index end = me_end_;
  for (Index p = begin; p < begin + length; ++p) {
    const int32_t i = iw_[p];
    Node& a = node_[i];
    if (a.nv <= 0) continue;
    pivot_degree_ += a.nv;
    a.nv = -a.nv;
    iw_[end++] = i;
    fetch(iw_ + a.pos);
    if (i < own_) by_degree_.remove(i);
  }
  me_end_ = end;
}

// Moves deferred variables to the end of Lme. Stamps every element e of the other variables with stamp_ + |Le \ Lme|; the degree
// bound of a variable is a sum of these.
template <class Index>
void MinDegree<Index>::measure_elements() {
  advance_stamp(0);
  Index end = me_end_;
  for (Index p = me_begin_; p < end; ++p) {
    Node& a = node_[iw_[p]];
    if (a.len > kLong) [[unlikely]] {
      if (may_defer(iw_[p])) {
        std::swap(iw_[p--], iw_[--end]);
        continue;
      }
      catch_up(iw_[p]);
    }
    visits_ += a.len;
    const int32_t weight = -a.nv, stamp = stamp_;
    for (const int32_t *q = iw_ + a.pos, *const last = q + a.elen; q < last; ++q) {
      Node& e = node_[*q];
      const int32_t w = e.w, seen = -(w >= stamp), alive = -(w != 0);     // no branches, here and below: they are hard to predict
      e.w = ((w & seen) + ((stamp + e.degree) & ~seen) - weight) & alive;
    }
  }
  deferred_ = end;
}

// True if the update of variable i, which has a long list, may be deferred.
template <class Index>
bool MinDegree<Index>::may_defer(int32_t i) const {
  return i < own_ && growth_[i] + pivot_degree_ <= node_[i].degree / kShare;
}

// Brings the list of a deferred variable up to date.
template <class Index>
void MinDegree<Index>::catch_up(int32_t i) {
  if (growth_[i] == 0) return;
  growth_[i] = 0;
  Node& a = node_[i];
  visits_ += a.len;
  stale_.assign(iw_ + a.pos, iw_ + a.pos + a.len);
  Index q = a.pos;
  for (const int32_t j : stale_) {
    if (node_[j].elen != kElement) continue;
    Node& element = node_[find_live(j)];
    if (element.nv < 0) continue;              // the current pivot, or listed already
    element.nv = -element.nv;
    iw_[q++] = static_cast<int32_t>(&element - node_);
  }
  a.elen = static_cast<int32_t>(q - a.pos);
  for (Index p = a.pos; p < q; ++p) node_[iw_[p]].nv = -node_[iw_[p]].nv;
  for (const int32_t j : stale_)
    if (node_[j].elen >= 0 && node_[j].nv != 0) iw_[q++] = j;
  a.len = static_cast<int32_t>(q - a.pos);
}

// The live element that contains the variables of e. `prev` of an absorbed element leads to it, with path splitting.
template <class Index>
int32_t MinDegree<Index>::find_live(int32_t e) {
  while (node_[e].w == 0) {
    const int32_t above = node_[e].prev;
    if (node_[above].w == 0) node_[e].prev = node_[above].prev;
    e = above;
  }
  return e;
}

// Compacts the list of i, bounds its degree outside Lme, and adds it to its hash bucket. Returns false if only `me` is left in
// its list.
template <class Index>
[[gnu::always_inline]] inline bool MinDegree<Index>::update_variable(int32_t me, int32_t i) {
  Node& a = node_[i];
  const Index begin = a.pos, elements = begin + a.elen, end = begin + a.len;
  Index q = begin;
  uint32_t hash = 0;
  int32_t degree = 0;
  for (Index p = begin; p < elements; ++p) {
    const int32_t e = iw_[p];
    const int32_t outside = node_[e].w - stamp_, stays = outside > 0;        // <= 0 for an absorbed element
    degree += outside & -stays;
    iw_[q] = e;
    q += stays;
    hash += static_cast<uint32_t>(e & -stays);
    if (outside == 0) [[unlikely]] absorb_aggressively(me, e);
  }
  const Index variables = q;
  for (Index p = elements; p < end; ++p) {
    const int32_t j = iw_[p];
    const int32_t weight = node_[j].nv, stays = weight > 0;
    degree += weight & -stays;
    iw_[q] = j;
    q += stays;
    hash += static_cast<uint32_t>(j & -stays);
  }
  if (q == begin && i < own_) return false;
  a.elen = static_cast<int32_t>(variables - begin) + 1;
  a.len = static_cast<int32_t>(q - begin) + 1;
  iw_[q] = iw_[variables];                     // `me` becomes the first element; it replaces an entry through which i was reached
  iw_[variables] = iw_[begin];
  iw_[begin] = me;
  a.degree = std::min(a.degree, degree);
  hash += i < own_ ? 0 : 1;
  Bucket& bucket = bucket_[hash & bucket_mask_];
  a.prev = static_cast<int32_t>(hash);
  a.next = bucket.pivot == me ? bucket.first : -1;
  bucket = {me, i};
  if (a.next >= 0 && node_[a.next].next < 0) [[unlikely]] crowded_.push_back(hash & bucket_mask_);
  return true;
}

// All pairs of variables in a bucket are compared, so there are about as many buckets as variables if these are very many.
template <class Index>
void MinDegree<Index>::grow_buckets() {
  const size_t variables = static_cast<size_t>(deferred_ - me_begin_);
  if (variables <= 4 * bucket_.size()) return;
  bucket_.assign(std::bit_ceil(variables), {-1, -1});
  bucket_mask_ = static_cast<uint32_t>(bucket_.size() - 1);
}

template <class Index>
void MinDegree<Index>::update_degrees(int32_t me) {
  grow_buckets();
  for (Index p = me_begin_; p < deferred_; ++p) {
    const int32_t i = iw_[p];
    Node& a = node_[i];
    if (update_variable(me, i)) continue;
    a.pos = ~static_cast<Index>(me);          // mass elimination: all neighbors of i are in Lme
    pivot_degree_ += a.nv;
    pivot_weight_ -= a.nv;
    to_do_ += a.nv;
    a.nv = 0;
    a.elen = kMerged;
    gone_.push_back(i);
  }
  node_[me].degree = pivot_degree_;
  longest_ = std::max(longest_, pivot_degree_);
}

// Aggressive absorption: Le is a subset of Lme although `me` is not in Le. This is rare.
template <class Index>
void MinDegree<Index>::absorb_aggressively(int32_t me, int32_t e) {
  Node& element = node_[e];
  const int32_t begin = static_cast<int32_t>(members_.size());
  for (Index p = element.pos; p < element.pos + element.len; ++p)
    if (node_[iw_[p]].nv != 0 || ~node_[iw_[p]].pos == me) members_.push_back(iw_[p]);       // also if eliminated with `me`
  aggressive_.push_back({e, begin, static_cast<int32_t>(members_.size())});
  absorb(element, me);
}

// Merges variables of Lme with equal lists (indistinguishable nodes). Variables of the same bucket are compared.
template <class Index>
void MinDegree<Index>::merge_indistinguishable() {
  advance_stamp(longest_);
  for (const uint32_t b : crowded_)
    for (int32_t i = bucket_[b].first; i >= 0 && node_[i].next >= 0; i = node_[i].next) {
      merge_into(i);
      ++stamp_;
    }
  crowded_.clear();
}

// Merges into i the later variables of its bucket that have the same list.
template <class Index>
void MinDegree<Index>::merge_into(int32_t i) {
  Node& one = node_[i];
  visits_ += one.len;
  for (Index q = one.pos + 1; q < one.pos + one.len; ++q) node_[iw_[q]].w = stamp_;
  int32_t before = i;
  for (int32_t j = one.next; j >= 0; j = node_[before].next, ++visits_) {
    if (!same_lists(i, j)) {
      before = j;
      continue;
    }
    Node& other = node_[j];
    one.nv += other.nv;
    other.nv = 0;
    other.elen = kMerged;
    other.pos = ~static_cast<Index>(i);
    if (j < own_) gone_.push_back(j);
    node_[before].next = other.next;
  }
}

template <class Index>
bool MinDegree<Index>::same_lists(int32_t i, int32_t j) const {
  const Node &a = node_[i], &b = node_[j];
  if (a.prev != b.prev || a.len != b.len || a.elen != b.elen || (i < own_) != (j < own_)) return false;
  for (Index q = b.pos + 1; q < b.pos + b.len; ++q)
    if (node_[iw_[q]].w != stamp_) return false;
  return true;
}

// Removes the variables from Lme that were merged or eliminated with `me`. The others go back to the degree lists.
template <class Index>
void MinDegree<Index>::finish_element(int32_t me, bool in_place) {
  left_ -= pivot_weight_;
  Index q = me_begin_;
  for (Index p = me_begin_; p < me_end_; ++p) {
    const int32_t i = iw_[p];
    Node& a = node_[i];
    if (a.nv == 0) continue;
    a.nv = -a.nv;
    iw_[q++] = i;
    if (i >= own_) continue;
    const int32_t added = pivot_degree_ - a.nv;
    if (p >= deferred_) [[unlikely]] {
      growth_[i] += added + 1;
      a.degree += node_[me].nv;                // nv < 0: the pivot is no longer a neighbor
    }
    a.degree = std::min(a.degree + added, left_ - a.nv);
    by_degree_.insert(i);
  }
  Node& pivot = node_[me];
  pivot.nv = pivot_weight_;
  pivot.len = static_cast<int32_t>(q - me_begin_);
  pivot.w = pivot.len > 0 ? 1 : 0;
  if (!in_place) free_ = q;
  pivots_.push_back(me);
}

template <class Index>
void MinDegree<Index>::advance_stamp(int32_t by) {
  stamp_ += by;
  if (stamp_ < std::numeric_limits<int32_t>::max() - 2 - 2 * int64_t{n_} && stamp_ > 0) return;
  for (int32_t i = 0; i < n_; ++i)
    if (node_[i].w != 0) node_[i].w = 1;
  stamp_ = 2;
}

// Compacts the lists if the next element might not fit behind them. The first entry of each list is swapped with ~(its owner)
// during one sweep over iw_.
template <class Index>
void MinDegree<Index>::compact_for(int64_t need) {
  if (static_cast<int64_t>(free_) + need < lists_.size()) return;
  for (int32_t i = 0; i < n_; ++i) {
    Node& a = node_[i];
    if (a.pos < 0 || a.len == 0 || (a.elen < 0 && a.w == 0)) continue;
    const Index at = a.pos;
    a.pos = iw_[at];
    iw_[at] = ~i;
  }
  visits_ += static_cast<int64_t>(free_);
  Index to = 0;
  for (Index from = 0; from < free_;) {
    const int32_t owner = ~iw_[from++];
    if (owner < 0) continue;
    Node& a = node_[owner];
    iw_[to] = static_cast<int32_t>(a.pos);
    a.pos = to++;
    for (int32_t k = 1; k < a.len; ++k) iw_[to++] = iw_[from++];
  }
  free_ = to;
}

template class MinDegree<int32_t>;
template class MinDegree<int64_t>;

}  // namespace ms::order
