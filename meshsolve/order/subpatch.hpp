// Small patches of a graph and the weighted graph between them. See subpatch.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "native/csr.hpp"

namespace ms::order {

// A weighted graph in compressed rows: both directions of an edge are stored.
struct Quotient {
  std::vector<int32_t> ptr, adj, edge_weight, vertex_weight;
  std::vector<int32_t> patch;               // the patch that each vertex stands for
  int32_t n() const { return static_cast<int32_t>(patch.size()); }
};

struct SubPatches {
  std::vector<int32_t> start;               // patch p holds the renumbered vertices [start[p], start[p + 1])
  std::vector<int32_t> old;                 // number in the input of each renumbered vertex
  OwnedPattern graph;                       // the input, renumbered patch by patch (rows not sorted)
  std::vector<int32_t> patch;               // of each renumbered vertex
  int32_t count() const { return static_cast<int32_t>(start.size()) - 1; }
};

SubPatches sub_patches(const Pattern& A, int32_t size, uint64_t seed, int threads);

// Vertex weight: vertices of the patch; edge weight: edges of the graph between two patches.
Quotient quotient_graph(const SubPatches& patches, int threads);

}  // namespace ms::order
