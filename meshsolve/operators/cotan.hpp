// The cotangent Laplacian: weights and areas in one sweep over the faces, values on the rows of the adjacency. O(faces + edges).
// Source: Pinkall & Polthier 1993, "Computing discrete minimal surfaces and their conjugates", section 2.
// Edges and sides are those of mesh/edges.hpp.
#pragma once
#include <cstdint>

#include "sparse/csr.hpp"

namespace ms::operators {

constexpr double no_extent = 1e-300;       // twice the area of a face: one over less is no number

// weight[edge] = sum over its faces of cot(opposite angle) / 2; area[f] = area of face f. A face flatter than `flattest`
// (twice its area below that times its longest side squared) counts as that flat; one without extent weighs nothing. Areas alone
// where there are no edges.
void cotan_weights(const double* x, const int32_t* faces, int64_t m, const int32_t* of_side, int64_t edges, double flattest,
                   double* weight, double* area, int threads);

// mass[v] = a third of the area of each face of v, summed in the order of the faces.
void vertex_areas(const int32_t* faces, int64_t m, const double* area, int64_t n, double* mass, int threads);

// length[e] of the edge from vertex ends[2 e] to ends[2 e + 1].
void edge_lengths(const double* x, const int32_t* ends, int64_t count, double* length, int threads);

// The values of the Laplacian on `rows` of mesh::adjacency_of(..., true): -weight beside the diagonal, their sum on it.
void laplacian_values(const Pattern& rows, const int32_t* edge, const double* weight, double* data, int threads);

}  // namespace ms::operators
