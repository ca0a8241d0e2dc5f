// Exact minimum degree on a graph of a few hundred vertices, held as a bit matrix. See mindeg_bits.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "degree_lists.hpp"
#include "native/memory/buffer.hpp"

namespace ms::order {

// Usage: begin(own, halo); then connect(i, j) for every neighbour j of every own vertex i; then run().
// Vertices own .. own + halo - 1 are the halo: they count in the degrees, have no rows and are never eliminated.
class BitMinDegree {
 public:
  static constexpr int32_t most_vertices = 1024;      // own and halo together
  void begin(int32_t own, int32_t halo);
  void connect(int32_t i, int32_t j) { set(row(i), j); }
  void run(int32_t* order);                           // order[k] = the k-th vertex eliminated, 0 <= k < own

 private:
  static constexpr int32_t kMostWords = most_vertices / 64, kBuckets = 64;
  struct Node {                    // of a supervariable, which goes by the number of its first vertex
    int32_t degree;                // external: neighbours that are not its twins
    int32_t size;                  // how many vertices it stands for
    int32_t next, prev;            // in its degree list
    int32_t twin, last_twin;       // the vertex that it stands for after this one (-1: none), and the last one
  };
  struct Neighbour {               // of the pivot at work
    int32_t vertex;                // -1: merged into another one
    int32_t bits;                  // set in its row
    uint32_t hash;                 // of its row
    int32_t next;                  // in its bucket
  };
  template <int kWords> struct Pivot {
    int32_t vertex, taken;         // how many vertices were eliminated with it
    uint64_t row[kWords], alive[kWords];
  };

  static void set(uint64_t* bits, int32_t i) { bits[i >> 6] |= uint64_t{1} << (i & 63); }
  static void clear(uint64_t* bits, int32_t i) { bits[i >> 6] &= ~(uint64_t{1} << (i & 63)); }
  uint64_t* row(int32_t i) { return rows_.data() + static_cast<int64_t>(i) * words_; }
  void append(int32_t to, int32_t from);
  void bury(int32_t i);
  template <int kWords> void eliminate_all();
  template <int kWords> Pivot<kWords> take(int32_t me);
  template <int kWords> void join_rows(Pivot<kWords>& pivot);
  template <int kWords> void merge_twins(const Pivot<kWords>& pivot);
  template <int kWords> bool merge(int32_t i, int32_t j, const uint64_t* alive);
  void finish(int32_t me, int32_t taken);
  void write_order(int32_t* order);

  Buffer<uint64_t> rows_;                             // the bit matrix; bits of eliminated vertices stay as they were
  uint64_t alive_[kMostWords], first_[kMostWords];    // not eliminated; of these, the own ones that are no twin of an earlier one
  uint64_t roots_[kMostWords];                        // pivots without a parent so far
  int32_t bucket_[kBuckets];                          // first neighbour in it; -1 between pivots
  std::vector<Node> node_;
  std::vector<Neighbour> neighbours_;
  DegreeLists<Node> by_degree_;
  std::vector<int32_t> pivots_, step_, parent_;       // in order of elimination; when each was eliminated; of each step
  std::vector<int32_t> range_;                        // scratch of write_order()
  int32_t own_ = 0, halo_ = 0, words_ = 0, left_ = 0;
};

}  // namespace ms::order
