// Partition of a graph into parts of nearly equal weight with few edges between them, by recursive bisection along the separator
// tree of a nested dissection. `Bisection` improves one cut.
#pragma once
#include <cstdint>
#include <vector>

#include "order.hpp"

namespace ms::order {

// The regions of a graph and the bisection of one of them. Arrays are indexed by vertices of the whole graph: a region needs no
// graph of its own.
struct Bisection {
  const Pattern& G;
  const double* weight;                     // (n), >= 0
  std::vector<int32_t> region;              // (n) number of the region that has the vertex
  std::vector<int8_t> side;                 // (n) 0 or 1 within the region; kFree: not decided
  static constexpr int8_t kFree = -1;

  // Balance of the region that is bisected.
  double sum[2] = {}, most[2] = {};         // weight of each side, and its limit
  int64_t count[2] = {}, least[2] = {};     // vertices of each side, and the fewest that it may have

  Bisection(const Pattern& G, const double* weight);
  bool inside(int32_t v, int32_t r) const { return region[v] == r; }
  double excess() const;                    // weight above the limits
  int64_t cut(const std::vector<int32_t>& vertices) const;      // edges between the sides
  void assign(int32_t v, int8_t s);         // a free vertex
  void move(int32_t v);                     // to the other side

  // Breadth-first order of the region from `start`. Other components follow in the order of `vertices`.
  std::vector<int32_t> levels(const std::vector<int32_t>& vertices, int32_t start);

  // Assigns the free vertices, in rounds from the decided ones, to the side that most of their neighbors are on.
  void spread(const std::vector<int32_t>& vertices);

  // Moves vertices across the cut: first until both sides keep to their limits, a layer after the other, then to shorten the cut.
  void refine(const std::vector<int32_t>& vertices);

 private:
  std::vector<int32_t> gain_;               // (n) edges cut now minus edges cut after a move
  std::vector<uint8_t> mark_, locked_;      // (n) zero between calls
};

// part: (n), every value of 0 ... parts - 1 occurs; parts <= n. Each part has at most about 1.2 times the mean weight, unless
// single vertices are heavier than that. Serial: the result depends on the arguments only.
std::vector<int32_t> partition(const Pattern& G, const int32_t* perm, const Tree& tree, const double* weight, int32_t parts,
                               uint64_t seed);

}  // namespace ms::order
