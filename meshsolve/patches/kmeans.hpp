// Data that kmeans.cpp and cut.cpp share: cells around seeds, and the pieces they are cut into.
#pragma once
#include "patches/patches.hpp"

namespace ms::patches {

struct Cells {
  std::vector<int32_t> seeds;                               // one per cell
  std::vector<uint32_t> label;                              // (n) cell of each vertex
  std::vector<int64_t> ptr;                                 // (cells + 1) into members
  std::vector<int32_t> members;                             // (n) vertices of each cell, ascending
  int64_t count() const { return static_cast<int64_t>(ptr.size()) - 1; }
  int64_t size(int64_t k) const { return ptr[k + 1] - ptr[k]; }
};

struct Pieces {
  std::vector<int32_t> order;                               // (n) vertices, piece by piece
  std::vector<uint8_t> start;                               // (n) 1 if a piece starts at this position
  explicit Pieces(std::vector<int32_t> members) : order(std::move(members)), start(order.size(), 0) {}
  // Replaces the slice from `begin` on by the pieces of its subgraph, whose vertices are numbered by their position in the slice.
  void refine(int64_t begin, const Pieces& of_slice);
};

// Pieces of 1 to `limit` vertices, connected if the cells are. Larger cells are bisected between two distant vertices. If that is
// very uneven (a vertex with many leaves), the cell is cut into subtrees of a spanning tree.
Pieces cut_cells(const Pattern& G, Cells&& cells, int64_t limit);

// Parts of at most `limit` vertices (or of one larger piece), numbered by their lowest vertex. A piece of at most limit / 4
// vertices joins a neighbor if the sum is within the limit. Components of that size, and tiny pieces without such a neighbor,
// share parts.
Parts number(const Pattern& G, const Pieces& pieces, int64_t limit);

}  // namespace ms::patches
