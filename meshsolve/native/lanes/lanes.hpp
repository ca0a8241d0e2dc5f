// Kernels with one small problem in each lane of a vector: a right-hand side of a triangle, or a vertex of a surface. Chosen like
// those of dense.hpp, but never contracted: a lane has the same bits in every instruction set, and alone and among others.
#pragma once
#include <cstdint>

#include "native/dense/int.hpp"

namespace ms {

constexpr Int kLanes = 8;                  // problems of a batch

// Rings of a surface: ring p of vertex v, ptr[v] <= p < ptr[v + 1], has the vertex other[p] and `width` numbers of an array.
struct Rings {
  const int64_t* ptr;
  const int* other;
};

struct LaneKernels {
  // b(corner) += flux of -g / |g| out of triangle t at its corners, for the gradient g of each of k columns of u; 0 where g = 0.
  // Only corners in [begin, end) are written, all of them if end < 0. Triangle t has the corners (0, 0), (base, 0) and (along,
  // height) in its plane, and counts with 2 s of its area: s (base, along, height) is at flat[3 t]. Arrays u and b are (n, k) in
  // C order.
  void (*add_fluxes)(Int m, const int* corner, const double* flat, Int k, const double* u, double* b, int begin, int end);

  // For the vertices v of [begin, end), at most kLanes, in lanes v - begin; other lanes are 0. Let d = x[other[p]] - x[v]. S (9,
  // kLanes) has sums of a[4 p + i] d_j over the ring of v in rows 3 i + j, and `stretch` sums of a[4 p + 3] |d|^2 / 2. Lanes of
  // one number are consecutive.
  void (*moments)(const Rings& rings, const double* a, const double* x, Int begin, Int end, double* S, double* stretch);

  // Newton's method for the rotations that maximize tr(R S) in all lanes, from unit quaternions q, (4, kLanes), with M = R S. A
  // step w solves (tr(M) I - sym(M)) w = g, the skew part of M. Returns a bit for each lane whose last matrix was positive
  // definite and whose last step was negligible; q is undefined in other lanes.
  unsigned (*rotations)(const double* S, double* q);

  // The matrices R of these quaternions, for the first `count` lanes: column j at matrix[12 lane + 4 j], with a 0 below; and
  // trace[lane] = tr(R S) in all lanes.
  void (*matrices)(const double* q, const double* S, Int count, double* matrix, double* trace);

  // b[4 v...] = sum of R_u c over u in the ring of v and u = v, in ascending order of u, for the vertices v of [begin, end). The
  // columns of R_u lie at R[12 u + 4 j]; c[4 p...] belongs to the ring, own[3 v...] to v. Rings are ascending; b[4 v + 3] is 0.
  void (*rotated_sums)(const Rings& rings, const double* c, const double* own, const double* R, Int begin, Int end, double* b);

  // b[4 u...] += R_v c for u in the ring of v and u = v, for the vertices v of [begin, end), with R_v at R[12 (v - begin)]. In
  // ascending batches these are the terms of `rotated_sums` in the same order. Here c[4 p...] is that of the mirror entry of p.
  void (*add_rotated)(const Rings& rings, const double* c, const double* own, const double* R, Int begin, Int end, double* b);
};

const LaneKernels& lane_kernels();

}  // namespace ms
