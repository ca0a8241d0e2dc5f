// Approximate minimum degree on one graph, with reusable storage. See mindeg.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "degree_lists.hpp"
#include "native/memory/buffer.hpp"
#include "sparse/csr.hpp"
#include "order.hpp"

namespace ms::order {

bool fits_32_bits(int64_t nnz, int64_t n);     // true if 32-bit positions suffice for the lists of n vertices and nnz entries

// Usage: begin(n, own, nnz); then for each vertex in turn fill row(length) with its neighbors; then run().
// Vertices own..n-1 are the halo: they count in the degrees and are never eliminated. Edges between them may be left out.
// Index is the type of positions in the lists: int32_t if fits_32_bits().
template <class Index>
class MinDegree {
 public:
  void begin(int32_t n, int32_t own, int64_t nnz);
  void begin(const Pattern& A, int32_t own);                 // all rows of A, without the diagonal
  void begin(const Pattern& A, int32_t own, const std::vector<int32_t>& rows);         // the same, vertex k is row rows[k]
  int32_t* row(int32_t length);
  // order[k] = the k-th vertex eliminated, 0 <= k < own. Returns false, without an order, once the Cholesky operations exceed
  // limits.flops. Once the visits exceed limits.visits, elimination ends: the remaining vertices follow by the bounds of their
  // degrees.
  bool run(int32_t* order, const Limits& limits = {});
  int64_t visits() const { return visits_; }                 // list entries that run() read
  void tree(Elimination& result) const;                      // after run(); the halo is a chain above all

 private:
  // A live variable (nv > 0) lists elements, then variables. An element (a pivot) lists its variables. nv is negated while a
  // variable is in the list Lme of the current pivot. A merged variable or absorbed element has pos = ~(variable or element that
  // contains it).
  struct Node {
    Index pos;            // start of its list
    int32_t len, elen;    // length of the list; number of elements in it (kElement: is an element; kMerged: merged variable)
    int32_t nv;           // number of vertices it represents
    int32_t degree;       // upper bound of the external degree; for an element, the number of vertices in its list
    int32_t w;            // work stamp; 0 for an absorbed element; finally the position in the order
    int32_t next, prev;   // links of its degree list or bucket; prev: hash while in a bucket, absorber of an absorbed element
  };
  struct Aggressive { int32_t element, begin, end; };  // [begin, end) of members_
  struct Bucket { int32_t pivot, first; };             // first variable in it, if it belongs to the list of that pivot
  static constexpr int32_t kElement = -2, kMerged = -3;
  static constexpr int32_t kLong = 64;           // list length from which the update of a variable may be deferred
  static constexpr int32_t kShare = 4;           // deferred while the degree bound grows by at most a 4th
  static constexpr int32_t kFetched = 8;         // list entries that are prefetched

  void add_node(Index begin, int32_t length);
  template <class Row, class Number> void add_rows(const Pattern& A, int32_t own, Row row, Number number);
  void fetch_list(int32_t i) const;
  void fetch_neighbors(int32_t i) const;
  void fetch_elements(int32_t i) const;
  double pivot_flops() const;
  void remove_dense_rows();
  void end_by_degree();
  void grow_buckets();
  void compact_for(int64_t need);
  void build_element(int32_t me);
  void gather(Index begin, int32_t length);
  void measure_elements();
  bool may_defer(int32_t i) const;
  void catch_up(int32_t i);
  int32_t find_live(int32_t e);
  void update_degrees(int32_t me);
  bool update_variable(int32_t me, int32_t i);
  static void absorb(Node& element, int32_t me);
  [[gnu::noinline]] void absorb_aggressively(int32_t me, int32_t e);
  void merge_indistinguishable();
  void merge_into(int32_t i);
  bool same_lists(int32_t i, int32_t j) const;
  void finish_element(int32_t me, bool in_place);
  void advance_stamp(int32_t by);
  void write_order(int32_t* order);
  void attach_dense_rows();

  Buffer<Node> nodes_;             // aligned to cache lines, two nodes each
  Buffer<int32_t> lists_;          // all lists
  Node* node_ = nullptr;           // nodes_.data()
  int32_t* iw_ = nullptr;          // lists_.data()
  DegreeLists<Node> by_degree_;
  std::vector<Bucket> bucket_;     // hash buckets of variables
  std::vector<uint32_t> crowded_;  // buckets with more than one variable of the current pivot
  std::vector<int32_t> pivots_;    // in elimination order
  std::vector<int32_t> gone_;      // own variables that were merged, or eliminated with a pivot, in that order
  std::vector<int32_t> parent_;    // for pivots_, then dense rows: index of the absorbing pivot, or -1
  std::vector<Aggressive> aggressive_;     // elements that were absorbed aggressively, by a pivot outside their list
  std::vector<int32_t> members_;   // their variables at that time
  std::vector<int32_t> dense_;     // rows that come last
  std::vector<int32_t> dense_lists_;       // their lists, each preceded by its length
  std::vector<int32_t> growth_;    // bound of the growth of a deferred variable's degree since its list was read; 0: up to date
  std::vector<int32_t> stale_;     // scratch: the old list of a deferred variable
  int32_t n_ = 0, own_ = 0, filled_ = 0, stamp_ = 2, longest_ = 0;
  int32_t left_ = 0, to_do_ = 0;   // vertices not eliminated: with the halo, without it
  int32_t pivot_weight_ = 0, pivot_degree_ = 0;
  int32_t rest_ = -1;              // first index in pivots_ that was ordered by its degree bound alone, or -1
  int64_t visits_ = 0;
  Index free_ = 0, me_begin_ = 0, me_end_ = 0;
  Index deferred_ = 0;             // start of the deferred variables in Lme
  uint32_t bucket_mask_ = 0;
};

extern template class MinDegree<int32_t>;
extern template class MinDegree<int64_t>;

}  // namespace ms::order
