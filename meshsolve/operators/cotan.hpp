// Cotangent Laplacian: weights and areas in one pass over the faces, values on the pattern of the adjacency. O(faces + edges).
// Source: Pinkall & Polthier 1993, "Computing discrete minimal surfaces and their conjugates", section 2.
// Edges and sides are defined in mesh/edges.hpp.
#pragma once
#include <cstdint>
#include <vector>

#include "sparse/csr.hpp"

namespace ms::operators {

constexpr double kSmall = 1e-120;          // squared longest side up to which a face is measured in a larger unit, so that nothing underflows
constexpr double kEnlarge = 0x1p300;       // factor of that unit
constexpr int kSteps = 4;                  // enlargements of the smallest double; a face that is still small has its corners at one point
constexpr double kHalfOfEquilateral = 0.28867513459481288;      // half the cotangent of 60 degrees: shape of a face at one point

// weight[edge] = sum over its faces of cot(opposite angle) / 2; area[f] = area of face f. Twice the area of a face counts as at
// least `flattest` times its longest side squared: mesh/elements.py has the rule. A face at one point has the angles of an equilateral
// triangle. With edges = 0 only areas are computed.
void cotan_weights(const double* x, const int32_t* faces, int64_t m, const int32_t* of_side, int64_t edges, double flattest,
                   double* weight, double* area, int threads);

// mass[v] = a third of the area of each face of v, summed in the order of the faces.
void vertex_areas(const int32_t* faces, int64_t m, const double* area, int64_t n, double* mass, int threads);

// length[e] = distance between vertices ends[2 e] and ends[2 e + 1].
void edge_lengths(const double* x, const int32_t* ends, int64_t count, double* length, int threads);

// The faces that are not oriented counterclockwise in the plane or have no area, ascending, and the sum of the signed areas of all.
// uv has the points (n, 2).
struct FlatImage {
  std::vector<int64_t> faces;
  double area = 0;
};
FlatImage flipped_faces(const double* uv, const int32_t* faces, int64_t m);

// Values of the Laplacian on the pattern of mesh::adjacency_of(..., true): -weight off the diagonal, row sums of weights on it.
void laplacian_values(const Pattern& rows, const int32_t* edge, const double* weight, double* data, int threads);

}  // namespace ms::operators
