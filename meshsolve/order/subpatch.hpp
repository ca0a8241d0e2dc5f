// Small patches of a graph and the weighted quotient graph between them. See subpatch.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "sparse/csr.hpp"
#include "native/memory/raw_vector.hpp"

namespace ms::order {

// A weighted graph in compressed rows; each edge is stored in both directions.
struct Quotient {
  std::vector<int32_t> ptr, adj, edge_weight, vertex_weight;
  std::vector<int32_t> patch;               // patch that each vertex represents
  int32_t n() const { return static_cast<int32_t>(patch.size()); }
};

// A partition of the vertices. After sub_patches() the vertices have the numbers of the input. After renumber() they are numbered
// patch by patch.
struct SubPatches {
  std::vector<int32_t> start;               // vertices of patch p: old[start[p]], ..., old[start[p + 1] - 1]
  RawVector<int32_t> old;                   // vertices of the input, patch by patch
  std::vector<int32_t> patch;               // of each vertex
  RawVector<int64_t> ptr;                   // the renumbered graph, rows not sorted; empty before renumber()
  RawVector<int32_t> idx;
  Pattern graph() const { return {static_cast<int32_t>(old.size()), ptr.data(), idx.data()}; }
  int32_t count() const { return static_cast<int32_t>(start.size()) - 1; }
};

SubPatches sub_patches(const Pattern& A, int32_t size, uint64_t seed);
void renumber(const Pattern& A, SubPatches& patches, int threads);

// Vertex weight: number of vertices of the patch. Edge weight: number of edges between two patches. Call it before renumber().
Quotient quotient_graph(const Pattern& A, const SubPatches& patches, int threads);

}  // namespace ms::order
