// Local steps of as-rigid-as-possible (ARAP) energies, and the right-hand sides of the global steps. O(vertices + faces).
//
// A face with side vectors p_c at rest and q_c now has the energy E_f(R) = sum_c w_c |q_c - R p_c|^2 for a rotation R. Side c
// begins at corner c, and w_c is half the cotangent opposite to it. In space each vertex has a rotation for all its faces
// ("spokes and rims"). The energy of a surface is the sum of E_f(R_v) / 3 over all corners v of all faces. For "spokes" E_f has only
// the two sides at v, and the energy is the sum of E_f(R_v) / 2. In the plane each face has one rotation.
//
// The best R maximizes tr(R S), S = sum_c w_c p_c q_c^T. In space Newton's method starts from the last R. Its result is
// certified: R is the maximum if M = R S is symmetric and tr(M) I - M is positive definite. If Newton's method fails, Jacobi's
// method computes the eigenvector of Horn's 4 x 4 matrix. If the maximum is not unique, S is degenerate, and R stays the last
// one.
//
// Sources: Sorkine, Alexa 2007; Chao, Pinkall, Sanan, Schroeder 2010 (spokes and rims); Liu, Zhang, Xu, Gotsman, Gortler 2008
// (plane); Horn 1987, "Closed-form solution of absolute orientation using unit quaternions".
#pragma once
#include <cstdint>

#include "native/memory/raw_vector.hpp"
#include "native/memory/strided.hpp"
#include "sparse/csr.hpp"

namespace ms::operators {

// The rings of a mesh at rest. Vertex v with its neighbors u has S_v = sum of c_vu (x_u - x_v)^T, and b_v = sum of R_u c_uv over its
// neighbors u and u = v. The vector c_vu is a sum over the faces of v and u, divided by 3. A face adds w p of its side that ends at u,
// and subtracts w p of its side that begins at u. For spokes only the sides between v and u count, and the divisor is 2.
struct RestRings {
  const int64_t* ptr;                     // (n + 1)
  const int32_t* other;                   // neighbors of each vertex, ascending
  const double* out;                      // (4 a neighbor) c_vu, and the sum of w of the edge
  const double* in;                       // (4 a neighbor) c_uv, and 0; only for pull_vertices
  const double* own;                      // (3 n) c_vv: minus the sum of c_vu
  int64_t n;
};

// The arrays of RestRings for a mesh at positions x (n, 3), `in` only on request; sides 0 and 1 of each face, (6 m); and the sum of w
// |p|^2 over the sides of faces. `edge[p]` is the edge of entry p of the rings, of_side[3 f + c] that of side c of face f.
struct RestArrays {
  RawVector<double> out, in, own, sides;
  double energy = 0;
};
struct RestMesh {
  const int32_t *faces, *of_side;
  int64_t m, edges;
  const double *weight, *x;               // w of each side, (3 m); positions
};
RestArrays rest_arrays(const RestMesh& mesh, const Pattern& rings, const int32_t* edge, bool rims, bool with_in, int threads);

// Best rotations of all vertices for the positions x. quaternion[4 v...] is the unit quaternion (w, x, y, z) of vertex v, on entry
// the last one. Further results: trace[v] = tr(R_v S_v); stretch[v] = sum of w |x_u - x_v|^2 / 2 over its edges. The energy is the sum of
// stretch, that of the shape at rest, and -2 trace. On one thread `b` is as from pull_vertices, with the same bits, and `matrix`
// is not used: each rotation is applied while its ring is in the cache. Otherwise column j of matrix v is at matrix[12 v + 4 j].
void fit_vertices(const RestRings& rings, Strided<const double> x, double* quaternion, double* matrix, double* trace, double* stretch,
                  double* b, int threads);

// energy[f] of each face with rotations at its corners: that sum without cancellation. `rest[6 f...]` has sides 0 and 1 of face f
// at rest.
void energy_of_vertices(const int32_t* faces, int64_t m, const double* weight, bool rims, const double* rest, Strided<const double> x,
                        const double* quaternion, double* energy, int threads);

// b (n, 4): the right-hand side of L x = b, whose solution minimizes the energy for these rotations, and a column of zeros.
void pull_vertices(const RestRings& rings, const double* matrix, double* b, int threads);

// A mesh at rest, for rotations of faces. The corners of vertex v are corner[p] for ptr[v] <= p < ptr[v + 1]; corner 3 f + c
// belongs to face f.
struct RestShape {
  const int32_t* faces;
  int64_t m;
  const double* weight;                   // (3 m) w of each side
  const int64_t* ptr;
  const int32_t* corner;
  int64_t n;
};

// The same in the plane. Face f at rest has corners (0, 0), (flat[3 f], 0), (flat[3 f + 1], flat[3 f + 2]). Its rotation has the
// cosine turn[2 f] and the sine turn[2 f + 1]; energy[f] = E_f. Component k of b is at b[k n + v].
void fit_faces(const RestShape& shape, const double* flat, Strided<const double> uv, double* turn, double* energy, int threads);
void pull_faces(const RestShape& shape, const double* flat, const double* turn, double* b, int threads);

}  // namespace ms::operators
