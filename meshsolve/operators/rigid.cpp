// A thread writes its own faces or vertices, and a vertex adds its corners in ascending order: bits do not depend on the threads.
#include "rigid.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "native/lanes/lanes.hpp"
#include "native/memory/raw_vector.hpp"
#include "native/threads/parallel.hpp"

namespace ms::operators {
namespace {

constexpr int64_t kRigidGrain = 1 << 10;               // faces or vertices per task
constexpr int kSweeps = 12;                       // of Jacobi's method; 4 or 5 are usual
constexpr double kUnique = 1e-10;                 // smallest curvature of tr(R S), relative to |S|, of a unique maximum

void difference(const Strided<const double>& x, int64_t i, int64_t j, double* d) {
  for (int k = 0; k < 3; ++k) d[k] = x.at(i, k) - x.at(j, k);
}

double largest(const double* S, int count) {
  double most = 0;
  for (int k = 0; k < count; ++k) most = std::max(most, std::abs(S[k]));
  return most;
}

// The eigenvector of the largest eigenvalue of Horn's matrix, by cyclic Jacobi. q stays where that eigenvalue is not simple.
void jacobi(const double* S, double scale, double* q) {
  double N[4][4] = {{S[0] + S[4] + S[8], S[5] - S[7], S[6] - S[2], S[1] - S[3]},
                    {S[5] - S[7], S[0] - S[4] - S[8], S[1] + S[3], S[6] + S[2]},
                    {S[6] - S[2], S[1] + S[3], S[4] - S[0] - S[8], S[5] + S[7]},
                    {S[1] - S[3], S[6] + S[2], S[5] + S[7], S[8] - S[0] - S[4]}};
  double V[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool rotated = false;
    for (int i = 0; i < 3; ++i)
      for (int j = i + 1; j < 4; ++j) {
        if (!(std::abs(N[i][j]) > 1e-17 * scale)) continue;
        rotated = true;
        const double theta = 0.5 * (N[j][j] - N[i][i]) / N[i][j];
        const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::hypot(theta, 1.0));
        const double c = 1 / std::hypot(t, 1.0), s = t * c;
        for (int k = 0; k < 4; ++k) {
          const double a = N[k][i], b = N[k][j];
          N[k][i] = c * a - s * b, N[k][j] = s * a + c * b;
        }
        for (int k = 0; k < 4; ++k) {
          const double a = N[i][k], b = N[j][k], u = V[k][i], v = V[k][j];
          N[i][k] = c * a - s * b, N[j][k] = s * a + c * b;
          V[k][i] = c * u - s * v, V[k][j] = s * u + c * v;
        }
      }
    if (!rotated) break;
  }
  int best = 0;
  for (int k = 1; k < 4; ++k) best = N[k][k] > N[best][best] ? k : best;
  for (int k = 0; k < 4; ++k)
    if (k != best && !(N[best][best] - N[k][k] > 2 * kUnique * scale)) return;
  for (int k = 0; k < 4; ++k) q[k] = V[k][best];
}

// The vertices [begin, end), at most kLanes. `matrix` begins with that of vertex `begin`; other arrays have all vertices.
void fit_batch(const RestRings& rings, const double* x, int64_t begin, int64_t end, double* quaternion, double* matrix, double* trace,
               double* stretch) {
  const LaneKernels& kernels = lane_kernels();
  alignas(64) double S[9 * kLanes], q[4 * kLanes] = {}, lengths[kLanes], products[kLanes];
  kernels.moments({rings.ptr, rings.other}, rings.out, x, begin, end, S, lengths);
  for (int64_t v = begin; v < end; ++v)
    for (int k = 0; k < 4; ++k) q[kLanes * k + v - begin] = quaternion[4 * v + k];
  const unsigned done = kernels.rotations(S, q);
  for (int64_t v = begin; v < end; ++v) {
    const int64_t lane = v - begin;
    double* const turn = quaternion + 4 * v;
    if (done >> lane & 1) {
      for (int k = 0; k < 4; ++k) turn[k] = q[kLanes * k + lane];
      continue;
    }
    double own[9];
    for (int k = 0; k < 9; ++k) own[k] = S[kLanes * k + lane];
    if (const double scale = largest(own, 9); scale > 0) jacobi(own, scale, turn);
    for (int k = 0; k < 4; ++k) q[kLanes * k + lane] = turn[k];
  }
  kernels.matrices(q, S, end - begin, matrix, products);
  std::copy(products, products + (end - begin), trace + begin);
  std::copy(lengths, lengths + (end - begin), stretch + begin);
}

// Of each edge: c_vu for its lower vertex u, the sum of w, and c_vu for its higher vertex u. Fills in `sides` and `energy`.
std::vector<double> sums_at_ends(const RestMesh& mesh, bool rims, RestArrays& out) {
  std::vector<double> ends(8 * mesh.edges, 0.0);
  const double share = rims ? 3 : 2;
  double energy = 0;                              // of up to kRigidGrain faces, which keeps rounding small
  for (int64_t t = 0; t < mesh.m; ++t) {
    if (t % kRigidGrain == 0) out.energy += std::exchange(energy, 0.0);
    const int32_t* const face = mesh.faces + 3 * t;
    double along[3][3];                           // w p of each side
    for (int c = 0; c < 3; ++c)
      for (int k = 0; k < 3; ++k) {
        const double p = mesh.x[3 * int64_t{face[(c + 1) % 3]} + k] - mesh.x[3 * int64_t{face[c]} + k];
        along[c][k] = mesh.weight[3 * t + c] * p;
        energy += along[c][k] * p;
        if (c < 2) out.sides[6 * t + 3 * c + k] = p;
      }
    for (int c = 0; c < 3; ++c) {
      const int next = (c + 1) % 3, last = (c + 2) % 3;
      double* const low = ends.data() + 8 * int64_t{mesh.of_side[3 * t + c]};
      const bool ascends = face[c] < face[next];
      double *const begin = ascends ? low : low + 4, *const end = ascends ? low + 4 : low;
      low[3] += mesh.weight[3 * t + c];
      for (int k = 0; k < 3; ++k) {
        begin[k] += (rims ? along[last][k] - along[c][k] : -along[c][k]) / share;
        end[k] += (rims ? along[c][k] - along[next][k] : along[c][k]) / share;
      }
    }
  }
  out.energy += energy;
  return ends;
}

// The positions (n, 3) in C order: x itself, or `copy`.
const double* in_c_order(const Strided<const double>& x, int64_t n, RawVector<double>& copy, int threads) {
  if (x.row == 3 && x.column == 1) return x.data;
  copy.resize(3 * n);
  for_range(threads, n, kRigidGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t v = begin; v < end; ++v)
      for (int k = 0; k < 3; ++k) copy[3 * v + k] = x.at(v, k);
  });
  return copy.data();
}

// The matrix of a unit quaternion, by rows.
void rotation_of(const double* quaternion, double* R) {
  const double w = quaternion[0], x = quaternion[1], y = quaternion[2], z = quaternion[3];
  R[0] = 1 - 2 * (y * y + z * z), R[1] = 2 * (x * y - w * z), R[2] = 2 * (x * z + w * y);
  R[3] = 2 * (x * y + w * z), R[4] = 1 - 2 * (x * x + z * z), R[5] = 2 * (y * z - w * x);
  R[6] = 2 * (x * z - w * y), R[7] = 2 * (y * z + w * x), R[8] = 1 - 2 * (x * x + y * y);
}

template <class F>
void for_faces(int64_t m, int threads, F&& f) {
  for_range(threads, m, kRigidGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) f(t);
  });
}

// b[k n + v] = sum of at[2 corner + k] over the corners of v.
void add_corners(const RestShape& shape, const double* at, double* b, int threads) {
  for_range(threads, shape.n, kRigidGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t v = begin; v < end; ++v) {
      double sum[2] = {};
      for (int64_t p = shape.ptr[v]; p < shape.ptr[v + 1]; ++p)
        for (int k = 0; k < 2; ++k) sum[k] += at[2 * int64_t{shape.corner[p]} + k];
      for (int k = 0; k < 2; ++k) b[k * shape.n + v] = sum[k];
    }
  });
}

// The three sides of a face in the plane.
void flat_sides(const double* flat, double p[3][2]) {
  p[0][0] = flat[0], p[0][1] = 0;
  p[1][0] = flat[1] - flat[0], p[1][1] = flat[2];
  p[2][0] = -flat[1], p[2][1] = -flat[2];
}

}  // namespace

RestArrays rest_arrays(const RestMesh& mesh, const Pattern& rings, const int32_t* edge, bool rims, bool with_in, int threads) {
  RestArrays out;
  out.sides.resize(6 * mesh.m);
  const std::vector<double> ends = sums_at_ends(mesh, rims, out);
  out.out.resize(4 * rings.nnz());
  out.in.resize(with_in ? 4 * rings.nnz() : 0);
  out.own.resize(3 * int64_t{rings.n});
  for_range(threads, rings.n, kRigidGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t v = begin; v < end; ++v) {
      double sum[3] = {};
      for (int64_t p = rings.ptr[v]; p < rings.ptr[v + 1]; ++p) {
        const double* const low = ends.data() + 8 * int64_t{edge[p]};
        const double *const own = v < rings.idx[p] ? low : low + 4, *const other = v < rings.idx[p] ? low + 4 : low;
        std::copy(other, other + 3, out.out.data() + 4 * p);
        out.out[4 * p + 3] = low[3];
        for (int k = 0; k < 3; ++k) sum[k] += other[k];
        if (!with_in) continue;
        std::copy(own, own + 3, out.in.data() + 4 * p);
        out.in[4 * p + 3] = 0;
      }
      for (int k = 0; k < 3; ++k) out.own[3 * v + k] = -sum[k];
    }
  });
  return out;
}

void fit_vertices(const RestRings& rings, Strided<const double> x, double* quaternion, double* matrix, double* trace, double* stretch,
                  double* b, int threads) {
  RawVector<double> copy;
  const double* const at = in_c_order(x, rings.n, copy, threads);
  if (threads == 1) std::fill(b, b + 4 * rings.n, 0.0);
  for_range(threads, rings.n, kRigidGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t v = begin; v < end; v += kLanes) {
      const int64_t last = std::min<int64_t>(v + kLanes, end);
      if (threads == 1) {
        alignas(64) double own[12 * kLanes];
        fit_batch(rings, at, v, last, quaternion, own, trace, stretch);
        lane_kernels().add_rotated({rings.ptr, rings.other}, rings.out, rings.own, own, v, last, b);
      } else {
        fit_batch(rings, at, v, last, quaternion, matrix + 12 * v, trace, stretch);
      }
    }
  });
}

void energy_of_vertices(const int32_t* faces, int64_t m, const double* weight, bool rims, const double* rest, Strided<const double> x,
                        const double* quaternion, double* energy, int threads) {
  for_faces(m, threads, [&](int64_t t) {
    const int32_t* face = faces + 3 * t;
    const double *p = rest + 6 * t, *w = weight + 3 * t;
    double q[6], total = 0;
    difference(x, face[1], face[0], q);
    difference(x, face[2], face[1], q + 3);
    for (int c = 0; c < 3; ++c) {
      double R[9], squares[3] = {};               // squares of q - R p; side 2 is minus the sum of the others
      rotation_of(quaternion + 4 * int64_t{face[c]}, R);
      for (int i = 0; i < 3; ++i) {
        const double first = q[i] - (R[3 * i] * p[0] + R[3 * i + 1] * p[1] + R[3 * i + 2] * p[2]);
        const double second = q[3 + i] - (R[3 * i] * p[3] + R[3 * i + 1] * p[4] + R[3 * i + 2] * p[5]);
        squares[0] += first * first;
        squares[1] += second * second;
        squares[2] += (first + second) * (first + second);
      }
      if (!rims) squares[(c + 1) % 3] = 0;        // the side opposite to the corner
      total += w[0] * squares[0] + w[1] * squares[1] + w[2] * squares[2];
    }
    energy[t] = total / (rims ? 3 : 2);
  });
}

void pull_vertices(const RestRings& rings, const double* matrix, double* b, int threads) {
  const LaneKernels& kernels = lane_kernels();
  for_range(threads, rings.n, kRigidGrain, [&](int64_t begin, int64_t end, int) {
    kernels.rotated_sums({rings.ptr, rings.other}, rings.in, rings.own, matrix, begin, end, b);
  });
}

void fit_faces(const RestShape& shape, const double* flat, Strided<const double> uv, double* turn, double* energy, int threads) {
  for_faces(shape.m, threads, [&](int64_t t) {
    const int32_t* face = shape.faces + 3 * t;
    double p[3][2], q[3][2], dot = 0, cross = 0, total = 0;
    flat_sides(flat + 3 * t, p);
    for (int c = 0; c < 3; ++c) {
      const int32_t from = face[c], to = face[c == 2 ? 0 : c + 1];
      const double w = shape.weight[3 * t + c];
      for (int k = 0; k < 2; ++k) q[c][k] = uv.at(to, k) - uv.at(from, k);
      dot += w * (p[c][0] * q[c][0] + p[c][1] * q[c][1]);
      cross += w * (p[c][0] * q[c][1] - p[c][1] * q[c][0]);
    }
    const double length = std::hypot(dot, cross);
    if (length > 0) turn[2 * t] = dot / length, turn[2 * t + 1] = cross / length;
    const double cosine = turn[2 * t], sine = turn[2 * t + 1];
    for (int c = 0; c < 3; ++c) {
      const double u = q[c][0] - (cosine * p[c][0] - sine * p[c][1]), v = q[c][1] - (sine * p[c][0] + cosine * p[c][1]);
      total += shape.weight[3 * t + c] * (u * u + v * v);
    }
    energy[t] = total;
  });
}

void pull_faces(const RestShape& shape, const double* flat, const double* turn, double* b, int threads) {
  RawVector<double> at(6 * shape.m);              // of each corner: w R p of the side that ends, minus that of the side that begins
  for_faces(shape.m, threads, [&](int64_t t) {
    double p[3][2];
    flat_sides(flat + 3 * t, p);
    const double cosine = turn[2 * t], sine = turn[2 * t + 1];
    double* out = at.data() + 6 * t;
    std::fill(out, out + 6, 0.0);
    for (int c = 0; c < 3; ++c) {
      const int next = c == 2 ? 0 : c + 1;
      const double w = shape.weight[3 * t + c];
      const double part[2] = {w * (cosine * p[c][0] - sine * p[c][1]), w * (sine * p[c][0] + cosine * p[c][1])};
      for (int k = 0; k < 2; ++k) {
        out[2 * next + k] += part[k];
        out[2 * c + k] -= part[k];
      }
    }
  });
  add_corners(shape, at.data(), b, threads);
}

}  // namespace ms::operators
