// Exact minimum degree on a graph of a few hundred vertices, stored as a bit matrix. See mindeg_bits.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "degree_lists.hpp"
#include "native/memory/buffer.hpp"

namespace ms::order {

// Usage: begin(own, halo); then connect(i, j) for every neighbor j of every own vertex i; then run().
// Vertices own .. own + halo - 1 are the halo: they count in the degrees, have no rows and are never eliminated.
class BitMinDegree {
 public:
  static constexpr int32_t most_vertices = 1024;      // limit of own + halo
  void begin(int32_t own, int32_t halo);
  void connect(int32_t i, int32_t j) { set(row(i), j); }
  void run(int32_t* order);                           // order[k] = the k-th vertex eliminated, 0 <= k < own

 private:
  static constexpr int32_t kMostWords = most_vertices / 64, kBuckets = 64;
  struct Node {                    // supervariable, numbered by its first vertex
    int32_t degree;                // external degree
    int32_t size;                  // number of vertices it represents
    int32_t next, prev;            // links of its degree list
    int32_t next_member, last_member;      // next vertex of the supervariable (-1: none), and its last one
  };
  struct Neighbor {                // of the current pivot
    int32_t vertex;                // -1: merged into another supervariable
    int32_t bits;                  // number of bits set in its row
    uint32_t hash;                 // hash of its row
    int32_t next;                  // next one in its bucket
  };
  template <int kWords> struct Pivot {
    int32_t vertex, eliminated;    // eliminated: vertices of other supervariables that were eliminated with it
    uint64_t row[kWords], alive[kWords];
  };

  static void set(uint64_t* bits, int32_t i) { bits[i >> 6] |= uint64_t{1} << (i & 63); }
  static void clear(uint64_t* bits, int32_t i) { bits[i >> 6] &= ~(uint64_t{1} << (i & 63)); }
  uint64_t* row(int32_t i) { return rows_.data() + static_cast<int64_t>(i) * words_; }
  void append(int32_t to, int32_t from);
  void mark_eliminated(int32_t i);
  template <int kWords> void eliminate_all();
  template <int kWords> Pivot<kWords> start_pivot(int32_t me);
  template <int kWords> void update_rows(Pivot<kWords>& pivot);
  template <int kWords> void merge_indistinguishable(const Pivot<kWords>& pivot);
  template <int kWords> bool merge(int32_t i, int32_t j, const uint64_t* alive);
  void finish(int32_t me, int32_t eliminated);
  void write_order(int32_t* order);

  Buffer<uint64_t> rows_;                             // the bit matrix; bits of eliminated vertices are not cleared
  uint64_t alive_[kMostWords];                        // vertices that are not eliminated
  uint64_t first_[kMostWords];                        // of these, the first vertices of supervariables; without the halo
  uint64_t roots_[kMostWords];                        // pivots without a parent yet
  int32_t bucket_[kBuckets];                          // first neighbor in each hash bucket; -1 between pivots
  std::vector<Node> node_;
  std::vector<Neighbor> neighbors_;
  DegreeLists<Node> by_degree_;
  std::vector<int32_t> pivots_;                       // in elimination order
  std::vector<int32_t> step_;                         // step in which a pivot was eliminated
  std::vector<int32_t> parent_;                       // parent of each step in the tree of pivots
  std::vector<int32_t> range_;                        // scratch of write_order()
  int32_t own_ = 0, halo_ = 0, words_ = 0, left_ = 0;
};

}  // namespace ms::order
