// Approximate minimum degree on one graph, with reusable storage. See mindeg.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "degree_lists.hpp"
#include "native/memory/buffer.hpp"
#include "sparse/csr.hpp"
#include "order.hpp"

namespace ms::order {

bool fits_32_bits(int64_t nnz, int64_t n);     // the lists of a graph of n vertices and nnz entries

// Usage: begin(n, own, nnz); then for each vertex in turn row(length) gives the place for its neighbours; then run().
// Vertices own..n-1 are the halo: they count in the degrees and are never eliminated; edges between them may be left out.
// Index holds positions in the lists: int32_t where fits_32_bits().
template <class Index>
class MinDegree {
 public:
  void begin(int32_t n, int32_t own, int64_t nnz);
  void begin(const Pattern& A, int32_t own);                 // with all its rows, but for the diagonal
  int32_t* row(int32_t length);
  // order[k] = the k-th vertex eliminated, 0 <= k < own. False, and no order, once Cholesky operations pass limits.flops. Once visits
  // pass limits.visits, elimination ends: the vertices that are left follow by the bounds of their degrees.
  bool run(int32_t* order, const Limits& limits = {});
  int64_t visits() const { return visits_; }                 // entries of lists that run() read
  void tree(Elimination& result) const;                      // after run(), of a graph that is all own

 private:
  // A live variable (nv > 0) lists elements, then variables; an element (a pivot) lists its variables. While it is in the
  // list Lme of the pivot at work, a variable has its nv negated. Merged or absorbed: pos = ~(who took it).
  struct Node {
    Index pos;            // where its list begins
    int32_t len, elen;    // length of the list; how many of it are elements (kElement: is an element; kMerged: gone)
    int32_t nv;           // how many vertices it stands for
    int32_t degree;       // bound of its external degree; of an element: the size of its list in vertices
    int32_t w;            // work stamp; 0 for an absorbed element; in the end the place in the order
    int32_t next, prev;   // neighbours in its degree list or hash bucket; prev holds the hash in a bucket, of an element who took it
  };
  struct Apart { int32_t element, begin, end; };       // [begin, end) of members_
  struct Bucket { int32_t pivot, first; };             // its first variable, of the list of that pivot
  static constexpr int32_t kElement = -2, kMerged = -3;
  static constexpr int32_t kLong = 64;           // entries of a list from which it may wait
  static constexpr int32_t kShare = 4;           // and the bound of its degree grow by a 4th
  static constexpr int32_t kFetched = 8;         // entries of a list that are fetched ahead

  void add_node(Index begin, int32_t length);
  void fetch_list(int32_t i) const;
  void fetch_neighbours(int32_t i) const;
  void fetch_elements(int32_t i) const;
  double pivot_flops() const;
  void remove_dense_rows();
  void end_by_degree();
  void grow_buckets();
  void make_room(int64_t need);
  void build_element(int32_t me);
  void gather(Index begin, int32_t length);
  void measure_elements();
  bool may_wait(int32_t i) const;
  void catch_up(int32_t i);
  int32_t living(int32_t e);
  void update_degrees(int32_t me);
  bool update_variable(int32_t me, int32_t i);
  static void absorb(Node& element, int32_t me);
  [[gnu::noinline]] void absorb_apart(int32_t me, int32_t e);
  void merge_twins();
  void merge_into(int32_t i);
  bool same_lists(int32_t i, int32_t j) const;
  void finish_element(int32_t me, bool in_place);
  void advance_stamp(int32_t by);
  void write_order(int32_t* order);
  void hang_on_dense_rows();

  Buffer<Node> nodes_;             // begins with a cache line, which holds two
  Buffer<int32_t> lists_;          // every list
  Node* node_ = nullptr;           // where these two begin
  int32_t* iw_ = nullptr;
  DegreeLists<Node> by_degree_;
  std::vector<Bucket> bucket_;     // by hash
  std::vector<uint32_t> crowded_;  // those with more than one variable of the pivot at work
  std::vector<int32_t> pivots_;    // in order of elimination
  std::vector<int32_t> gone_;      // own variables merged into others or eliminated with a pivot, in the order in which they went
  std::vector<int32_t> parent_;    // of pivots_, and of the dense rows behind them: the later one that absorbed each, or -1
  std::vector<Apart> apart_;       // elements absorbed by a pivot that was not in their list, and
  std::vector<int32_t> members_;   //   the variables that they had then
  std::vector<int32_t> dense_;     // rows put last
  std::vector<int32_t> touched_;   //   and their lists, one after the other, each behind its length
  std::vector<int32_t> behind_;    // of each variable: 0, or how much the bound of its degree may have grown since its list was read
  std::vector<int32_t> waited_;    // the list of one that catches up
  int32_t n_ = 0, own_ = 0, filled_ = 0, stamp_ = 2, longest_ = 0;
  int32_t left_ = 0, to_do_ = 0;   // vertices not eliminated, halo included; own ones among them
  int32_t pivot_weight_ = 0, pivot_degree_ = 0;
  int32_t rest_ = -1;              // first of pivots_ that follows by its bound alone, or -1
  int64_t visits_ = 0;
  Index free_ = 0, me_begin_ = 0, me_end_ = 0;
  Index waiting_ = 0;              // where those of Lme begin that wait
  uint32_t bucket_mask_ = 0;
};

extern template class MinDegree<int32_t>;
extern template class MinDegree<int64_t>;

}  // namespace ms::order
