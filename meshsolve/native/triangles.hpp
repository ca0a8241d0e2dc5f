// What the triangles of a mesh say about its edges: the edge list, the rows of the symmetric adjacency, cotangent weights.
// Side c of face f is (faces[3f+c], faces[3f+(c+1)%3]) and has number 3f+c. Edges are (lower, higher) vertex, in
// lexicographic order. Each pass is O(vertices + faces) but for the sort of the neighbours of one vertex.
// Cotangent weights: Pinkall & Polthier 1993, "Computing discrete minimal surfaces and their conjugates", section 2.
#pragma once
#include <cstdint>
#include <vector>

#include "csr.hpp"

namespace ms::mesh {

struct Edges {
  std::vector<int32_t> ends;         // (2 e) lower, higher
  std::vector<int32_t> of_side;      // (3 m) edge of each side
};
Edges edges_of(int32_t n, const int32_t* faces, int64_t m);

// At most two faces at every edge, and the faces at every vertex hang together across edges: one fan, closed or open.
bool manifold(int32_t n, const int32_t* faces, int64_t m, const int32_t* of_side, int64_t e);

struct Adjacency {
  OwnedPattern rows;                 // ascending; with the diagonal where it was asked for
  std::vector<int32_t> edge;         // (nnz) edge of each entry, -1 on the diagonal
};
Adjacency adjacency_of(int32_t n, const int32_t* ends, int64_t e, bool diagonal);

// weight[edge] = sum over its faces of cot(opposite angle) / 2; area[f] = area of face f. A face flatter than `flattest`
// (twice its area below that times its longest side squared) counts as that flat; one without extent weighs nothing.
void cotan_weights(const double* x, const int32_t* faces, int64_t m, const int32_t* of_side, double flattest,
                   double* weight, double* area);

// The values of the Laplacian on `rows` of adjacency_of(..., true): -weight beside the diagonal, their sum on it.
void laplacian_values(const Pattern& rows, const int32_t* edge, const double* weight, double* data);

}  // namespace ms::mesh
