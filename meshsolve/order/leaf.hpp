// Minimum degree on one leaf of the dissection, with the adjacent separators as halo. See leaf.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "members.hpp"
#include "mindeg.hpp"
#include "mindeg_bits.hpp"
#include "subpatch.hpp"

namespace ms::order {

class LeafOrder {
 public:
  LeafOrder(Members& members, bool is_bounded) : m_(members), is_bounded_(is_bounded) {}

  // Returns the vertices of q's patches in elimination order.
  const std::vector<int32_t>& order(const Quotient& q);

  // Returns the vertices of q's patches in any order.
  const std::vector<int32_t>& vertices(const Quotient& q);

 private:
  int64_t number_rows();
  int32_t halo_number(int32_t v);
  void grow_table();
  void run_on_bits();
  template <class Index> void run(MinDegree<Index>& graph, int64_t entries);

  Members& m_;
  const bool is_bounded_;                        // see Options::bounded
  BitMinDegree bits_;
  MinDegree<int32_t> small_;
  std::vector<int32_t> vertices_, columns_, order_, result_;
  std::vector<int32_t> halo_count_;              // row length of each halo vertex
  struct Slot { int32_t vertex = -1, number = 0; };
  std::vector<Slot> table_;                      // hash table with open addressing: halo vertex -> number
  std::vector<int32_t> halo_;
  std::vector<int32_t*> halo_rows_;
};

}  // namespace ms::order
