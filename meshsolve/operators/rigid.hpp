// Local steps of as-rigid-as-possible (ARAP) energies, and the right-hand sides of the global steps. O(vertices + faces).
//
// A face with side vectors p_c at rest and q_c now has the energy E_f(R) = sum_c w_c |q_c - R p_c|^2 for a rotation R. Side c
// begins at corner c, and w_c is half the cotangent opposite to it. In space each vertex has a rotation for all its faces ("spokes
// and rims"): the energy of a surface is the sum of E_f(R_v) / 3 over all corners v of all faces. For "spokes" E_f has only the two
// sides at v, and the energy is the sum of E_f(R_v) / 2. In the plane each face has one rotation.
//
// The best R maximizes tr(R S), S = sum_c w_c p_c q_c^T. In space Newton's method starts from the last R. Its result is
// certified: R is the maximum if M = R S is symmetric and tr(M) I - M is positive definite. If Newton's method fails, Jacobi's
// method computes the eigenvector of Horn's 4 x 4 matrix. If the maximum is not unique, S is degenerate, and R stays the last one.
//
// Sources: Sorkine, Alexa 2007; Chao, Pinkall, Sanan, Schroeder 2010 (spokes and rims); Liu, Zhang, Xu, Gotsman, Gortler 2008
// (plane); Horn 1987, "Closed-form solution of absolute orientation using unit quaternions".
#pragma once
#include <cstdint>

#include "native/memory/strided.hpp"

namespace ms::operators {

// A mesh at rest. The corners of vertex v are corner[p] for ptr[v] <= p < ptr[v + 1]; corner 3 f + c belongs to face f.
struct RestShape {
  const int32_t* faces;
  int64_t m;
  const double* weight;                   // (3 m) w of each side
  const int64_t* ptr;
  const int32_t* corner;
  int64_t n;
  bool rims = true;                       // whether the side opposite to a vertex counts in its energy
};

// Best rotations of all vertices for the positions x. `rest[6 f...]` has sides 0 and 1 of face f at rest. `quaternion[4 v...]` is
// the unit quaternion (w, x, y, z) of vertex v, on entry the last one; energy[v] = its sum of E_f(R_v), divided by 3 or 2.
void fit_vertices(const RestShape& shape, const double* rest, Strided<const double> x, double* quaternion, double* energy,
                  int threads);

// b[k n + v]: the right-hand side of L x = b, whose solution minimizes the energy for these rotations.
void pull_vertices(const RestShape& shape, const double* rest, const double* quaternion, double* b, int threads);

// The same in the plane. Face f at rest has corners (0, 0), (flat[3 f], 0), (flat[3 f + 1], flat[3 f + 2]). Its rotation has the
// cosine turn[2 f] and the sine turn[2 f + 1]; energy[f] = E_f.
void fit_faces(const RestShape& shape, const double* flat, Strided<const double> uv, double* turn, double* energy, int threads);
void pull_faces(const RestShape& shape, const double* flat, const double* turn, double* b, int threads);

}  // namespace ms::operators
