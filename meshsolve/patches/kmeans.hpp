// What kmeans.cpp and cut.cpp share: cells around seeds, and the pieces that they end as.
#pragma once
#include "patches/patches.hpp"

namespace ms::patches {

struct Cells {
  std::vector<int32_t> seeds;                               // one per cell
  std::vector<uint32_t> label;                              // (n) cell
  std::vector<int64_t> ptr;                                 // (cells + 1) into members
  std::vector<int32_t> members;                             // (n) ascending in each cell
  int64_t count() const { return static_cast<int64_t>(ptr.size()) - 1; }
  int64_t size(int64_t k) const { return ptr[k + 1] - ptr[k]; }
};

struct Pieces {
  std::vector<int32_t> order;                               // (n) vertices, piece after piece
  std::vector<uint8_t> start;                               // (n) whether a piece begins at this position
  explicit Pieces(std::vector<int32_t> members) : order(std::move(members)), start(order.size(), 0) {}
  // The slice from `begin` on takes the pieces of its subgraph, whose vertices are numbered by their position in the slice.
  void refine(int64_t begin, const Pieces& of_slice);
};

// Pieces of 1 to `limit` vertices, connected if the cells are: what is larger is cut in two between a pair of far vertices, and
// where that cuts off next to nothing (a hub with its leaves) into subtrees of a spanning tree.
Pieces cut_cells(const Pattern& G, Cells&& cells, int64_t limit);

// Parts of at most `limit` vertices (or of one larger piece), in the order of their lowest vertex. A piece of at most limit / 4
// joins a neighbour that has room; components that small, and single vertices and the like around a hub, share parts.
Parts number(const Pattern& G, const Pieces& pieces, int64_t limit);

}  // namespace ms::patches
