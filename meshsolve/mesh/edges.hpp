// What the triangles of a mesh say about its edges: the edge list, whether they are manifold, the rows of the adjacency.
// Side c of face f is (faces[3f+c], faces[3f+(c+1)%3]) and has number 3f+c. Edges are (lower, higher) vertex, in
// lexicographic order. Each pass is O(vertices + faces) but for the sort of the neighbours of one vertex.
#pragma once
#include <cstdint>
#include <vector>

#include "native/memory/raw_vector.hpp"

namespace ms::mesh {

struct Edges {
  RawVector<int32_t> ends;           // (2 e) lower, higher
  RawVector<int32_t> of_side;        // (3 m) edge of each side
};
Edges edges_of(int32_t n, const int32_t* faces, int64_t m, int threads);

// At most two faces at every edge, and the faces at every vertex hang together across edges: one fan, closed or open.
bool manifold(int32_t n, const int32_t* faces, int64_t m, const int32_t* of_side, int64_t e);

struct Adjacency {
  std::vector<int64_t> ptr;          // rows, ascending; with the diagonal where it was asked for
  RawVector<int32_t> idx;
  RawVector<int32_t> edge;           // (nnz) edge of each entry, -1 on the diagonal
};
Adjacency adjacency_of(int32_t n, const int32_t* ends, int64_t e, bool diagonal, int threads);

}  // namespace ms::mesh
