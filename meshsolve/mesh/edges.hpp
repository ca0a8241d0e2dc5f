// Edge list, manifold test and vertex adjacency of a triangle mesh.
// Side c of face f is (faces[3f+c], faces[3f+(c+1)%3]) and has number 3f+c. Edges are (lower, higher) vertex, in
// lexicographic order. O(vertices + faces) each, and a sort of the neighbors of each vertex.
#pragma once
#include <cstdint>
#include <vector>

#include "native/memory/raw_vector.hpp"

namespace ms::mesh {

struct Edges {
  RawVector<int32_t> ends;           // (2 e) lower and higher vertex of each edge
  RawVector<int32_t> of_side;        // (3 m) edge of each side
};
Edges edges_of(int32_t n, const int32_t* faces, int64_t m, int threads);

// True if every edge has at most two faces and the faces at every vertex form one fan, closed or open.
bool manifold(int32_t n, const int32_t* faces, int64_t m, const int32_t* of_side, int64_t e);

// The connected component of each vertex, numbered by their lowest vertices.
RawVector<int32_t> components_of(int32_t n, const int32_t* ends, int64_t e);

// The cycles of a permutation that maps arc 2 i or 2 i + 1 to its successor and has each cycle in both directions. Kept is the
// direction whose lowest arc is even: `arcs` cycle by cycle, each from its lowest arc, and the positions at which cycles begin.
struct Cycles {
  std::vector<int64_t> arcs, first;
};
Cycles cycles_of(const int64_t* following, int64_t arcs);

// CSR pattern with ascending rows; `diagonal` adds the diagonal entries.
struct Adjacency {
  std::vector<int64_t> ptr;          // (n + 1) row pointers
  RawVector<int32_t> idx;            // (nnz) column indices
  RawVector<int32_t> edge;           // (nnz) edge of each entry, -1 on the diagonal
};
Adjacency adjacency_of(int32_t n, const int32_t* ends, int64_t e, bool diagonal, int threads);

}  // namespace ms::mesh
