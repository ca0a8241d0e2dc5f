// Small patches of a graph and the weighted graph between them. See subpatch.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "sparse/csr.hpp"
#include "native/memory/raw_vector.hpp"

namespace ms::order {

// A weighted graph in compressed rows: both directions of an edge are stored.
struct Quotient {
  std::vector<int32_t> ptr, adj, edge_weight, vertex_weight;
  std::vector<int32_t> patch;               // the patch that each vertex stands for
  int32_t n() const { return static_cast<int32_t>(patch.size()); }
};

// As sub_patches() leaves it, the vertices have the numbers of the input; as renumber() does, they follow each other patch by
// patch.
struct SubPatches {
  std::vector<int32_t> start;               // patch p holds the vertices old[start[p]], ..., old[start[p + 1] - 1]
  RawVector<int32_t> old;                   // number in the input of each vertex, patch by patch
  std::vector<int32_t> patch;               // of each vertex
  RawVector<int64_t> ptr;                   // the input, renumbered (rows not sorted); empty before
  RawVector<int32_t> idx;
  Pattern graph() const { return {static_cast<int32_t>(old.size()), ptr.data(), idx.data()}; }
  int32_t count() const { return static_cast<int32_t>(start.size()) - 1; }
};

SubPatches sub_patches(const Pattern& A, int32_t size, uint64_t seed);
void renumber(const Pattern& A, SubPatches& patches, int threads);

// Vertex weight: vertices of the patch; edge weight: edges of the graph between two patches. Before renumber().
Quotient quotient_graph(const Pattern& A, const SubPatches& patches, int threads);

}  // namespace ms::order
